"""The stage of the fault sequences: a control plane, an operator, a few custom resources, and what must hold of them.

`World` knows how to do each step of a sequence and remembers what the custom resources should have come to;
`problems` says what is not so (yet).
"""

import calendar
import contextlib
import json
import os
import signal
import ssl
import subprocess
import threading
import time
import urllib.error
import urllib.request
import uuid
from collections import Counter
from pathlib import Path

from tests.cluster import Refused, eventually
from tests.lab import Lab, decoded

HISTORY = 5
"""historyMax of the watch."""
HELM_TIMEOUT = 20
"""Seconds; also how long a dead person's action is respected, less the 30 seconds of grace."""
FLAGS = ("--retry-base=1s", "--retry-ceiling=4s", "--zap-log-level=debug")

CHART = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: "{{ .Release.Name }}-cfg", labels: {faults: "yes"}}
data: {colour: {{ .Values.colour | quote }}, number: {{ .Values.number | quote }}}
---
apiVersion: v1
kind: Service
metadata: {name: "{{ .Release.Name }}-svc", labels: {faults: "yes"}}
spec: {ports: [{port: {{ .Values.port }}}]}
---
apiVersion: v1
kind: Secret
metadata: {name: "{{ .Release.Name }}-cred", labels: {faults: "yes"}}
stringData: {password: "{{ .Values.colour }}-{{ .Values.number }}"}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: "{{ .Release.Name }}-data", labels: {faults: "yes"}}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
{{- if .Values.broken }}{{ fail "broken on purpose" }}{{ end }}
{{- if .Values.slow }}
---
apiVersion: batch/v1
kind: Job
metadata:
  name: "{{ .Release.Name }}-slow"
  annotations:
    helm.sh/hook: pre-install,pre-upgrade
    helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: "x.invalid/y"}]}}}
{{- end }}
"""
VALUES = "colour: none\nnumber: 0\nport: 80\nbroken: false\nslow: false\n"
SCHEMA = {"properties": {"colour": {"type": "string"}}}

KINDS = {
    "cfg": "configmaps",
    "svc": "services",
    "cred": "secrets",
    "data": "persistentvolumeclaims",
}


class World:
    def __init__(self, plane, helm, folder):
        self.plane = plane
        self.lab = Lab(folder, f"lab-{uuid.uuid4().hex[:6]}", helm, kubeconfig=str(plane.kubeconfig))
        self.lab.take("48")
        for path in (folder / "chart/templates").glob("*"):
            path.unlink()
        self.lab.write("chart/templates/all.yaml", CHART)
        self.lab.write("chart/values.yaml", VALUES)
        self.lab.write("chart/values.schema.json", json.dumps(SCHEMA))
        options = f"timeout: {HELM_TIMEOUT}s, historyMax: {HISTORY}"
        watches = (folder / "watches.yaml").read_text().replace("chart: ./chart}", f"chart: ./chart, {options}}}")
        assert options in watches
        self.lab.write("watches.yaml", watches)
        self.lab.install_crd()
        self.faults = Counter()
        self.steps = []
        self.wanted = {}
        """The spec of each custom resource that should be there."""
        self._hands = []
        self._threads = []
        self._started = time.monotonic()
        self.operator = self.lab.start(*FLAGS)
        self.watch = ConditionWatch(self.lab)

    def close(self):
        self.watch.stop()
        self.plane.resume_apiserver()
        self.lab.close()

    def begin(self):
        self.steps, self._started = [], time.monotonic()
        self.faults.clear()
        # Of hundreds of sequences only the newest one's log is of interest.
        self.lab._operators[:] = [self.operator]
        self.operator._lines.clear()
        self.watch.problems.clear()

    def note(self, text):
        self.steps.append(f"{time.monotonic() - self._started:6.2f} s  {text}")

    # Custom resources

    def put(self, name, spec):
        """Create or edit; a custom resource that is on its way out is left alone."""
        body = self.lab.cr(name)
        if body is None:
            post = {**self.lab.documents("cr.yaml")[0], "metadata": {"name": name}, "spec": spec}
            self.note(f"create {name} {json.dumps(spec)}")
            self.lab.api.post(self.lab.path(), post)
        elif body["metadata"].get("deletionTimestamp"):
            self.note(f"({name} is being deleted, not edited)")
            return
        else:
            self.note(f"edit {name} {json.dumps(spec)}")
            try:
                self.lab.set_spec(name, spec)
            except Refused as error:
                if error.status != 404:
                    raise
                return
        self.wanted[name] = spec

    def remove(self, name):
        self.note(f"delete {name}")
        self.lab.delete(name)
        self.wanted.pop(name, None)

    # Other hands

    def hand_helm(self, verb, name, *, kill_after=None):
        """Start a helm by hand; it runs beside what comes next. Only on releases that are meant to be there."""
        records = self.lab.records(name) if name in self.wanted else []
        if not records:
            self.note(f"(no release {name} for helm {verb})")
            return
        chart = str(self.lab.folder / "chart")
        words = {
            "upgrade": ["upgrade", name, chart, "--set", "colour=hand", f"--timeout={HELM_TIMEOUT}s"],
            "rollback": ["rollback", name, f"--timeout={HELM_TIMEOUT}s"],
            "uninstall": ["uninstall", name, f"--timeout={HELM_TIMEOUT}s"],
        }[verb]
        killed = f", killed after {kill_after} s" if kill_after is not None else ""
        self.note(f"helm {verb} {name} by hand{killed}")
        self.faults[f"helm {verb} by hand" + (" and killed" if killed else "")] += 1
        command = [self.lab._helm, "--namespace", self.lab.namespace, *words]
        env = {**os.environ, "KUBECONFIG": self.lab.kubeconfig}
        quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        process = subprocess.Popen(command, env=env, **quiet)
        if kill_after is None:
            self._hands.append(process)
        else:
            time.sleep(kill_after)
            process.kill()
            process.wait()

    def edit_object(self, name, what):
        self.note(f"edit the {what} of {name}")
        patch = {
            "cfg": {"data": {"colour": "hand", "number": None}},
            "svc": {"spec": {"ports": [{"port": 4711}]}},
            "cred": {"data": {"password": "aGFuZA=="}},
            "data": {"metadata": {"labels": {"faults": "hand"}}},
        }[what]
        with _unless_missing():
            self.lab.api.patch(self.lab.core(KINDS[what], f"{name}-{what}"), patch)
            self.faults["object edited"] += 1

    def delete_object(self, name, what):
        self.note(f"delete the {what} of {name}")
        self.lab.api.delete(self.lab.core(KINDS[what], f"{name}-{what}"))
        self.faults["object deleted"] += 1

    def delete_records(self, name, which):
        records = self.lab.records(name)
        chosen = {"newest": records[-1:], "oldest": records[:1], "all": records}[which]
        self.note(f"delete the release Secrets {[revision for revision, _ in chosen]} of {name}")
        for revision, _ in chosen:
            self.lab.api.delete(self.lab.core("secrets", f"sh.helm.release.v1.{name}.v{revision}"))
            self.faults["release Secret deleted"] += 1

    def spoil_record(self, name, state):
        """Put the newest record into another state; one that helm works on just now is left alone."""
        records = self.lab.records(name)
        if not records or records[-1][1].startswith("pending") or records[-1][1] == "uninstalling":
            return
        self.note(f"release Secret {records[-1][0]} of {name} becomes {state}")
        with _unless_missing():
            self.lab.force_record(name, records[-1][0], state)
            self.faults[f"release Secret made {state}"] += 1

    # Faults

    def kill_operator(self, pause):
        self.note(f"kill -9 of the operator, {pause} s without one")
        self.operator.kill()
        self.faults["operator killed"] += 1
        self._next_operator(pause)

    def stop_operator(self, pause):
        self.note(f"SIGTERM for the operator, {pause} s without one")
        # Before Python has come so far as to catch the signal, it ends by it.
        expected = (0,) if self.operator.log else (0, -signal.SIGTERM)
        assert self.operator.stop() in expected, f"the operator ended with {self.operator.process.returncode}"
        self.faults["operator stopped"] += 1
        self._next_operator(pause)

    def _next_operator(self, pause):
        time.sleep(pause)
        self.operator = self.lab.start(*FLAGS, wait=False)

    def kill_operator_after_success(self, name, spec):
        """Edit, and kill the operator between helm's success and the write of the status."""
        if self.lab.cr(name) is None:
            return
        self.put(name, spec)
        helm = self._a_helm(5.0)
        if helm is None:
            self.note("(no helm to wait for)")
            return
        os.kill(self.operator.process.pid, signal.SIGSTOP)
        until = time.monotonic() + 5.0
        while _running(helm) and time.monotonic() < until:
            time.sleep(0.005)
        early = _running(helm)
        self.note(f"kill -9 of the operator {'while helm ran' if early else 'once helm had ended'}")
        self.operator.kill()
        self.faults["operator killed" if early else "operator killed before it wrote the status"] += 1
        self._next_operator(0.0)

    def kill_helm(self, after):
        """Kill the next helm of the operator, some time after it began."""
        helm = self._a_helm(1.5)
        if helm is None:
            self.note("(no helm to kill)")
            return
        time.sleep(after)
        with contextlib.suppress(ProcessLookupError):
            os.kill(helm, signal.SIGKILL)
            self.note(f"kill -9 of helm {helm} after {after} s")
            self.faults["helm killed"] += 1

    def freeze_operator(self, seconds):
        self.note(f"the operator is frozen for {seconds} s")
        pid = self.operator.process.pid
        os.kill(pid, signal.SIGSTOP)
        time.sleep(seconds)
        os.kill(pid, signal.SIGCONT)
        self.faults["operator frozen"] += 1

    def kill_apiserver(self, seconds):
        self.join()
        self.note(f"kill -9 of the API server, back after {seconds} s")
        self.plane.kill_apiserver()
        time.sleep(seconds)
        self.plane.start_apiserver()
        self.note("the API server is back")
        self.faults["API server killed"] += 1

    def hang_apiserver(self, seconds):
        """Let it hang beside what comes next."""
        self.join()
        self.note(f"the API server hangs for {seconds} s")
        self.plane.pause_apiserver()

        def resume():
            time.sleep(seconds)
            self.plane.resume_apiserver()

        thread = threading.Thread(target=resume)
        thread.start()
        self._threads.append(thread)
        self.faults["API server hung"] += 1

    def end_helm(self):
        """End the operator and every helm: nothing is written any more."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.operator.stop()
        self.operator.kill()
        for process in self._hands:
            process.kill()
            process.wait()
        self._hands.clear()

    def join(self):
        """Wait for what runs beside."""
        for thread in self._threads:
            thread.join()
        self._threads.clear()

    def _a_helm(self, timeout):
        """Wait for a helm of the operator that is no `version`; return its pid."""
        until = time.monotonic() + timeout
        while time.monotonic() < until:
            for pid in _children(self.operator.process.pid):
                with contextlib.suppress(OSError):
                    words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
                    if {b"install", b"upgrade", b"uninstall", b"rollback"}.intersection(words):
                        return pid
            time.sleep(0.003)
        return None

    # What must hold in the end

    def settle(self, timeout):
        """Wait until nothing is wrong any more, for a little while; raises what is wrong in the end."""
        self.join()
        for process in self._hands:
            try:
                process.wait(HELM_TIMEOUT + 40)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                self.note("a helm by hand did not end and was killed")
        self._hands.clear()
        self.note("wait until all is well")
        assert self.operator.process.poll() is None, "the operator ended by itself"

        def well():
            assert self.operator.process.poll() is None, "the operator ended by itself"
            found = self.problems()
            assert not found, "\n".join(found)

        eventually(well, timeout=timeout, pause=0.2)
        self.note("all is well")
        time.sleep(1.0)
        found = self.problems() + self.watch.problems
        assert not found, "it was well, and is no longer:\n" + "\n".join(found)

    def problems(self):
        """Return what is not as it should be."""
        bodies = {body["metadata"]["name"]: body for body in self.lab.api.items(self.lab.path())}
        secrets = self.lab.api.items(self.lab.core("secrets"), labelSelector="owner=helm")
        found = [f"{name} is still there" for name in bodies.keys() - self.wanted.keys()]
        found += [f"{name} is gone" for name in self.wanted.keys() - bodies.keys()]
        for secret in secrets:
            if secret["metadata"]["labels"]["name"] not in bodies:
                found.append(f"release Secret {secret['metadata']['name']} has no custom resource")
        for what, kind in KINDS.items():
            for item in self.lab.api.items(self.lab.core(kind)):
                name, _, tail = item["metadata"]["name"].rpartition("-")
                if tail == what and name not in bodies:
                    found.append(f"{kind} {name}-{tail} has no custom resource")
        for name in self.wanted.keys() & bodies.keys():
            records = [secret for secret in secrets if secret["metadata"]["labels"]["name"] == name]
            found += [f"{name}: {text}" for text in self._problems_of(name, bodies[name], records)]
        for line in self.lab.log.splitlines():
            if "defect of the operator" in line or "Traceback" in line:
                found.append(f"the log tells of a defect: {line[:3000]}")
        return found

    def _problems_of(self, name, body, secrets):
        meta, status, spec = body["metadata"], body.get("status") or {}, self.wanted[name]
        conditions = {entry["type"]: entry for entry in status.get("conditions", [])}
        records = sorted((int(s["metadata"]["labels"]["version"]), s) for s in secrets)
        states = [(revision, secret["metadata"]["labels"]["status"]) for revision, secret in records]
        deployed = [revision for revision, state in states if state == "deployed"]
        if meta.get("deletionTimestamp"):
            yield "is being deleted"
        if status.get("observedGeneration") != meta["generation"]:
            yield f"generation {meta['generation']} was not worked on yet"
        if len(records) > HISTORY:
            yield f"{len(records)} revisions are kept: {states}"
        for revision, state in states:
            if state.startswith(("pending", "uninstall")):
                yield f"revision {revision} is {state}"
        for revision, secret in records:
            if secret["metadata"]["labels"].get("helm-operator.io/owner-uid") != meta["uid"]:
                yield f"revision {revision} has another owner"
        yield from self._lies(status, conditions, deployed)
        good = is_good(spec)
        told = {type_: conditions.get(type_, {}).get("status") for type_ in ("ReleaseFailed", "Irreconcilable")}
        if not good:
            if told["ReleaseFailed"] != "True":
                yield f"the failure is not told: {told}"
            return
        if told != {"ReleaseFailed": "False", "Irreconcilable": "False"}:
            yield f"{told}: {[entry.get('message', '')[:300] for entry in conditions.values()]}"
        if len(deployed) != 1 or states[-1][1] != "deployed":
            yield f"its revisions are {states}"
            return
        yield from self._wrong_objects(name, spec, records[-1][1])

    def _lies(self, status, conditions, deployed):
        """Compare what the status says with the records."""
        condition, release = conditions.get("Deployed", {}), status.get("deployedRelease") or {}
        newest = deployed[-1] if deployed else None
        if (condition.get("status") == "True") != bool(deployed):
            yield f"Deployed is {condition.get('status')} ({condition.get('reason')}), deployed are {deployed}"
        elif newest is not None:
            if condition.get("release", {}).get("revision") != newest:
                yield f"Deployed speaks of {condition.get('release')}, deployed are {deployed}"
            if release.get("revision") != newest:
                yield f"deployedRelease is {release.get('revision')}, deployed are {deployed}"
        elif release:
            yield f"deployedRelease is {release.get('revision')}, and nothing is"
        for entry in conditions.values():
            if not entry.get("reason"):
                yield f"{entry['type']} has no reason"

    def _wrong_objects(self, name, spec, secret):
        content = decoded(secret)
        if content.get("config") != spec:
            yield f"the release was made of {content.get('config')}, not of {spec}"
        objects = {what: self.lab.object(kind, f"{name}-{what}") for what, kind in KINDS.items()}
        missing = [what for what, item in objects.items() if item is None]
        if missing:
            yield f"{missing} missing"
            return
        for what, item in objects.items():
            if item["metadata"].get("deletionTimestamp"):
                yield f"{what} is being deleted"
            if item["metadata"].get("annotations", {}).get("meta.helm.sh/release-name") != name:
                yield f"{what} is not of the release"
        colour, number = spec["colour"], str(spec["number"])
        if objects["cfg"]["data"] != {"colour": colour, "number": number}:
            yield f"cfg holds {objects['cfg']['data']}, and the spec is {spec}"
        if objects["svc"]["spec"]["ports"][0]["port"] != spec["port"]:
            yield f"svc has port {objects['svc']['spec']['ports'][0]['port']}"
        if objects["data"]["metadata"]["labels"].get("faults") != "yes":
            yield "data has another label"


def is_good(spec):
    return isinstance(spec["colour"], str) and spec["port"] > 0 and not spec.get("broken")


class ConditionWatch:
    """Watches the custom resources all the time: `lastTransitionTime` moves when, and only when, `status` does."""

    def __init__(self, lab):
        self.problems = []
        self.events = 0
        self._lab = lab
        self._known = {}
        self._stopping = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self):
        self._stopping = True

    def _run(self):
        api, version = self._lab.api, None
        while not self._stopping:
            try:
                if version is None:
                    answer = api.request("GET", self._lab.path())
                    version = answer["metadata"]["resourceVersion"]
                    self._known.clear()  # What was missed cannot be judged.
                    for body in answer["items"]:
                        self._take(body)
                version = self._follow(api, version)
            except (OSError, ValueError, KeyError, Refused, ssl.SSLError, urllib.error.URLError):
                time.sleep(0.3)

    def _follow(self, api, version):
        url = f"{api.server}{self._lab.path()}?watch=1&resourceVersion={version}&allowWatchBookmarks=true"
        request = urllib.request.Request(url, headers={"Authorization": f"Bearer {api._token}"})
        with urllib.request.urlopen(request, context=api._ssl, timeout=60) as answer:
            for line in answer:
                event = json.loads(line)
                if event["type"] == "ERROR":
                    return None
                version = event["object"]["metadata"]["resourceVersion"]
                if event["type"] in ("ADDED", "MODIFIED"):
                    self._take(event["object"])
                if self._stopping:
                    break
        return version

    def _take(self, body):
        self.events += 1
        meta, entries = body["metadata"], (body.get("status") or {}).get("conditions", [])
        gone = {key for key in self._known if key[0] == meta["uid"]} - {(meta["uid"], e["type"]) for e in entries}
        for key in gone:  # Those that are only there while they are True begin anew.
            del self._known[key]
        for entry in entries:
            key, now = (meta["uid"], entry["type"]), (entry["status"], entry.get("lastTransitionTime", ""))
            before = self._known.get(key)
            self._known[key] = now
            if before is None or before == now:
                continue
            if before[0] == now[0]:
                self.problems.append(f"{meta['name']}: {key[1]} stayed {now[0]}, and its time moved: {before} {now}")
            elif now[1] < before[1]:
                self.problems.append(f"{meta['name']}: the time of {key[1]} went back: {before} {now}")
            elif now[1] == before[1] and now[1] < _written(body):
                self.problems.append(f"{meta['name']}: {key[1]} changed, and its time did not: {before} {now}")


def _written(body):
    """Return when the status was written, less two seconds; the text sorts as the time does."""
    times = [
        entry["time"]
        for entry in body["metadata"].get("managedFields", [])
        if entry.get("subresource") == "status" and entry.get("time")
    ]
    if not times:
        return ""
    moment = time.strptime(max(times), "%Y-%m-%dT%H:%M:%SZ")
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(calendar.timegm(moment) - 2))


@contextlib.contextmanager
def _unless_missing():
    try:
        yield
    except Refused as error:
        if error.status not in (404, 409, 422):
            raise
    except (TypeError, KeyError):  # A Secret that went away between two looks.
        pass


def _children(pid):
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            found += [int(word) for word in task.read_text().split()]
    return found


def _running(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False
