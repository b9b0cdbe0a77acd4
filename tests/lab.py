"""One operator process over one namespace: the stage of the cases and of the process tests."""

import base64
import difflib
import gzip
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import yaml

from tests.cluster import JSON_PATCH, Api, eventually

FILES = Path(__file__).parent / "cases" / "files"
PERIOD = 2.0
"""Seconds between two re-checks in the cases (they say 5; shorter is stricter and faster)."""


class Lab:
    """A folder with a case's files, a namespace, an API group of its own, and the operator."""

    def __init__(self, folder, name, helm, *, kubeconfig):
        self.folder = folder
        self.namespace = name
        self.group = f"{name}.example.com"
        self.api = Api(kubeconfig)
        self.kubeconfig = kubeconfig
        self._helm = helm
        self._operators = []
        self._crds = []
        self._made = []
        self.api.post("/api/v1/namespaces", {"metadata": {"name": name}})

    # Files

    def take(self, case):
        """Copy a case's files here, with this lab's API group in them."""
        shutil.copytree(FILES / case, self.folder, dirs_exist_ok=True)
        for path in self.folder.glob("*"):
            if path.suffix in (".yaml", ".json"):
                path.write_text(path.read_text().replace("lab.example.com", self.group))

    def write(self, name, text):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def documents(self, name):
        return [document for document in yaml.safe_load_all((self.folder / name).read_text()) if document]

    # The cluster

    def install_crd(self, name="crd.yaml"):
        for crd in self.documents(name):
            path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
            self.api.post(path, crd)
            self._crds.append(crd["metadata"]["name"])
            plural = crd["spec"]["names"]["plural"]
            eventually(lambda plural=plural: _served(self.api, self.group, plural))

    def delete_crd(self, plural="widgets"):
        name = f"{plural}.{self.group}"
        path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}"
        self.api.delete(path)
        eventually(lambda: _gone(self.api, path))

    def create(self, name="cr.yaml"):
        for body in self.documents(name):
            self.api.post(self.path(plural=body["kind"].lower() + "s"), body)

    def path(self, name="", *, plural="widgets"):
        tail = f"/{name}" if name else ""
        return f"/apis/{self.group}/v1alpha1/namespaces/{self.namespace}/{plural}{tail}"

    def core(self, kind, name=""):
        """Return the path of a namespaced object: a core kind, or `group/version/plural`."""
        base = f"/apis/{kind.rpartition('/')[0]}" if "/" in kind else "/api/v1"
        return f"{base}/namespaces/{self.namespace}/{kind.rpartition('/')[2]}" + (f"/{name}" if name else "")

    def object(self, kind, name):
        return self.api.get(self.core(kind, name))

    def data(self, name, kind="configmaps"):
        found = self.object(kind, name)
        assert found is not None, f"there is no {kind} {name}"
        return found.get("data")

    def cr(self, name, **path):
        return self.api.get(self.path(name, **path))

    def set_spec(self, name, spec, **path):
        """Replace the whole spec, nulls included."""
        patch = [{"op": "add", "path": "/spec", "value": spec}]
        return self.api.patch(self.path(name, **path), patch, JSON_PATCH)

    def delete(self, name, **path):
        self.api.delete(self.path(name, **path))

    # What the operator made of it

    def conditions(self, name, **path):
        found = self.cr(name, **path)
        assert found is not None, f"custom resource {name} is gone"
        return {entry["type"]: entry for entry in found.get("status", {}).get("conditions", [])}

    def reaches(self, name, *, says=(), timeout=20.0, plural="widgets", generation=None, **wanted):
        """Wait until the conditions have these statuses and, together, say these texts."""

        def check():
            conditions = self.conditions(name, plural=plural)
            statuses = {type_: conditions.get(type_, {}).get("status") for type_ in wanted}
            assert statuses == wanted, _story(conditions)
            text = "\n".join(c.get("message", "") for c in conditions.values())
            for part in says:
                assert part in text, _story(conditions)
            if generation is not None:
                assert self.cr(name, plural=plural)["status"].get("observedGeneration") == generation
            return conditions

        return eventually(check, timeout=timeout)

    def deployed(self, name, *, revision=None, timeout=20.0, **path):
        """Wait until all is well with the newest spec, at that revision."""

        def check():
            found = self.cr(name, **path)
            assert found is not None, f"custom resource {name} is gone"
            status = found.get("status", {})
            entries = {entry["type"]: entry for entry in status.get("conditions", [])}
            statuses = {type_: entry["status"] for type_, entry in entries.items()}
            assert statuses.get("Deployed") == "True", _story(entries)
            assert statuses.get("ReleaseFailed") == statuses.get("Irreconcilable") == "False", _story(entries)
            # The health comes a second after the release, and is another write.
            assert "being looked at" not in entries.get("Ready", {}).get("message", ""), _story(entries)
            observed = status.get("observedGeneration", found["metadata"]["generation"])
            assert observed == found["metadata"]["generation"]
            if revision is not None:
                assert status["deployedRelease"]["revision"] == revision
            return status

        return eventually(check, timeout=timeout)

    def gone(self, name, *, timeout=20.0, **path):
        eventually(lambda: _gone(self.api, self.path(name, **path)), timeout=timeout)

    def records(self, release):
        """Return the release's revisions and their states, oldest first."""
        secrets = self.api.items(self.core("secrets"), labelSelector=f"owner=helm,name={release}")
        labels = [secret["metadata"]["labels"] for secret in secrets]
        return sorted((int(label["version"]), label["status"]) for label in labels)

    def force_record(self, release, revision, state):
        """Put a record into another state, as a killed helm leaves it."""

        def change(record):
            record["info"]["status"] = state

        self.edit_record(release, revision, change, labels={"status": state, "modifiedAt": str(int(time.time()))})

    def edit_record(self, release, revision, change, *, labels=None):
        """Have `change` edit what a revision's Secret holds."""
        path = self.core("secrets", f"sh.helm.release.v1.{release}.v{revision}")
        record = decoded(self.api.get(path))
        change(record)
        blob = base64.b64encode(base64.b64encode(gzip.compress(json.dumps(record).encode()))).decode()
        self.api.patch(path, {"metadata": {"labels": labels or {}}, "data": {"release": blob}})

    def snapshot(self, *names, plural="widgets"):
        """Return everything that a quiet operator leaves alone."""
        kinds = ("configmaps", "secrets", "services", "apps/v1/deployments", "batch/v1/jobs", "apps/v1/statefulsets")
        objects = {
            (kind, item["metadata"]["name"]): item["metadata"]["resourceVersion"]
            for kind in kinds
            for item in self.api.items(self.core(kind))
        }
        for name in names:
            objects["cr", name] = yaml.safe_dump(self.cr(name, plural=plural))  # Whole, to show what changed.
        objects["events", ""] = len(self.api.items(self.core("events"), fieldSelector="source=helm-operator"))
        return objects

    def stays_quiet(self, *names, periods=5, plural="widgets"):
        before, started = self.snapshot(*names, plural=plural), self.helm_runs()
        time.sleep(PERIOD * periods)
        after = self.snapshot(*names, plural=plural)
        keys = before.keys() | after.keys()
        changed = [key for key in keys if before.get(key) != after.get(key)]
        assert not changed, "not quiet: " + "\n".join(_difference(key, before, after) for key in changed)
        assert self.helm_runs() == started, "helm was started in a quiet time"

    def helm_runs(self):
        """Return the verbs of all helm processes so far, without those that ask for the version."""
        log = self.folder / "helm-runs"
        lines = log.read_text().splitlines() if log.exists() else []
        return [line for line in lines if line != "version"]

    def events(self, reason=None):
        """Return the messages of the operator's Events, oldest first."""
        found = self.api.items(self.core("events"), fieldSelector="source=helm-operator")
        found.sort(key=lambda event: int(event["metadata"]["resourceVersion"]))
        return [event["message"] for event in found if reason in (None, event["reason"])]

    def account(self, *rules, looks_around=True):
        """Make an account with these RBAC rules in this namespace; return the path of its kubeconfig.

        With `looks_around` it may also see which kinds and namespaces there are, as config/rbac has it.
        """
        self.api.post(self.core("serviceaccounts"), {"metadata": {"name": "operator"}})
        rbac = "rbac.authorization.k8s.io/v1"
        self.api.post(self.core(f"{rbac}/roles"), {"metadata": {"name": "operator"}, "rules": list(rules)})
        binding = {
            "metadata": {"name": "operator"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "operator"},
            "subjects": [{"kind": "ServiceAccount", "name": "operator", "namespace": self.namespace}],
        }
        self.api.post(self.core(f"{rbac}/rolebindings"), binding)
        if looks_around:
            verbs = ["get", "list", "watch"]
            kinds = [("apiextensions.k8s.io", "customresourcedefinitions"), ("", "namespaces")]
            self.allow_everywhere(
                *({"apiGroups": [group], "resources": [kind], "verbs": verbs} for group, kind in kinds)
            )
        token = self.api.post(self.core("serviceaccounts", "operator/token"), {"spec": {}})["status"]["token"]
        config = yaml.safe_load(Path(self.kubeconfig).read_text())
        config["users"][0]["user"] = {"token": token}
        path = self.folder / "account.kubeconfig"
        path.write_text(yaml.safe_dump(config))
        return path

    def allow_everywhere(self, *rules):
        """Give the account of `account` these rules in the whole cluster."""
        meta, rbac = {"name": self.namespace}, "/apis/rbac.authorization.k8s.io/v1"
        self._made += [f"{rbac}/clusterroles/{self.namespace}", f"{rbac}/clusterrolebindings/{self.namespace}"]
        self.api.post(f"{rbac}/clusterroles", {"metadata": meta, "rules": list(rules)})
        binding = {
            "metadata": meta,
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", **meta},
            "subjects": [{"kind": "ServiceAccount", "name": "operator", "namespace": self.namespace}],
        }
        self.api.post(f"{rbac}/clusterrolebindings", binding)

    def allow(self, *rules):
        """Replace the rules of `account`."""
        path = self.core("rbac.authorization.k8s.io/v1/roles", "operator")
        self.api.patch(path, {"rules": list(rules)})

    def helm(self, *arguments, check=True):
        env = {**os.environ, "KUBECONFIG": self.kubeconfig}
        command = [self._helm, "--namespace", self.namespace, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
        assert not check or done.returncode == 0, done.stderr
        return done.stdout

    # The operator

    def start(self, *flags, env=None, watches="watches.yaml", wait=True):
        operator = OperatorProcess(self, [*flags], env or {}, watches)
        self._operators.append(operator)
        if wait:
            operator.ready()
        return operator

    @property
    def log(self):
        return "".join(operator.log for operator in self._operators)

    def close(self):
        for operator in self._operators:
            operator.stop()
        for name in self._crds:
            plural = name.partition(".")[0]
            for body in self._all(plural):
                meta = body["metadata"]
                scope = f"namespaces/{meta['namespace']}/" if meta.get("namespace") else ""
                path = f"/apis/{self.group}/v1alpha1/{scope}{plural}/{meta['name']}"
                if meta.get("finalizers"):
                    self.api.patch(path, {"metadata": {"finalizers": None}})
            self.api.delete(f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}")
        for path in (*self._made, f"/api/v1/namespaces/{self.namespace}"):
            self.api.delete(path)

    def _all(self, plural):
        found = self.api.get(f"/apis/{self.group}/v1alpha1/{plural}")
        return found["items"] if found else []


class OperatorProcess:
    """`helm-operator run` as a process of its own; its log is kept."""

    def __init__(self, lab, flags, env, watches):
        wrapper = lab.folder / "bin" / "helm"
        wrapper.parent.mkdir(exist_ok=True)
        runs = lab.folder / "helm-runs"
        words = lab.folder / "helm-words"
        record = f'echo "$1" >>"{runs}"\necho "$1" >>"{runs}-$LAB_OPERATOR"\nprintf "%s\\n" "$*" >>"{words}"'
        self.runs = lab.folder / f"helm-runs-{len(lab._operators)}"
        wrapper.write_text(f'#!/bin/sh\n{record}\nexec "{lab._helm}" "$@"\n')
        wrapper.chmod(0o755)
        self.address = lab.folder / f"probe-{len(lab._operators)}"
        self.port = _free_port()
        command = [sys.executable, "-m", "helm_operator", "run", f"--watches-file={lab.folder / watches}"]
        command += [f"--reconcile-period={PERIOD}s", f"--helm={wrapper}"]
        command += [f"--health-probe-bind-address=127.0.0.1:{self.port}"]
        base = {"KUBECONFIG": lab.kubeconfig, "WATCH_NAMESPACE": lab.namespace, "PYTHONPATH": _root()}
        base["LAB_OPERATOR"] = str(len(lab._operators))
        self.process = subprocess.Popen(
            [*command, *flags],
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
            cwd=lab.folder,
            env={**os.environ, **base, **env},
        )
        self._lines = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        with self.process.stderr as stream:
            self._lines.extend(stream)

    @property
    def log(self):
        return "".join(self._lines)

    def helm_runs(self):
        """Return the verbs of the helm processes that this operator started, without those that ask for the version."""
        lines = self.runs.read_text().splitlines() if self.runs.exists() else []
        return [line for line in lines if line != "version"]

    def messages(self):
        return [json.loads(line) for line in self._lines if line.startswith("{")]

    def ready(self, timeout=30.0):
        def check():
            assert self.process.poll() is None, f"the operator ended: {self.log}"
            assert '"msg": "serving ' in self.log, self.log

        eventually(check, timeout=timeout)

    def says(self, pattern, timeout=20.0):
        def check():
            assert re.search(pattern, self.log), self.log

        eventually(check, timeout=timeout)

    def stop(self, timeout=30.0):
        """End it as a kubelet does, and return its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(timeout)
        self._reader.join(5)
        return code

    def kill(self):
        self.process.kill()
        self.process.wait()
        self._reader.join(5)


def decoded(secret):
    """Return what a release Secret holds."""
    return json.loads(gzip.decompress(base64.b64decode(base64.b64decode(secret["data"]["release"]))))


def _root():
    return str(Path(__file__).parents[1])


def _free_port():
    import socket

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def _served(api, group, plural):
    assert api.get(f"/apis/{group}/v1alpha1/{plural}") is not None


def _difference(key, before, after):
    old, new = (str(state.get(key, "gone")).splitlines() for state in (before, after))
    return "\n".join([str(key), *difflib.unified_diff(old, new, n=0, lineterm="")])


def _gone(api, path):
    assert api.get(path) is None, f"{path} is still there"


def _story(conditions):
    return "\n".join(f"{t}={c['status']} {c['reason']}: {c.get('message', '')[:600]}" for t, c in conditions.items())
