"""The demo: three custom resources become releases, fail, are explained, are mended and go.

Run by `make demo` with a cluster in KUBECONFIG and `kubectl` and `helm` on PATH. Every step
is checked; the exit code is 0 only if all went as told.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

_ROOT: Final = Path(__file__).resolve().parents[1]
_SAMPLES: Final = _ROOT / "config" / "samples" / "demo"
_NAMESPACE: Final = "demo"
_WAIT: Final = 30.0
"""Longest wait for one step, in seconds."""


class DemoError(Exception):
    """A step did not come out as told."""


class Demo:
    """Tells what it does, does it, and checks what came of it."""

    def __init__(self) -> None:
        self._started = time.monotonic()

    def tell(self, text: str) -> None:
        print(f"\n\033[1m[{time.monotonic() - self._started:5.1f} s] {text}\033[0m", flush=True)

    def show(self, *arguments: str) -> None:
        """Run kubectl before the reader's eyes."""
        print(f"$ kubectl {' '.join(arguments)}", flush=True)
        _kubectl(*arguments, capture=False)

    def apply(self, *names: str) -> None:
        for name in names:
            self.show("apply", "-n", _NAMESPACE, "-f", os.path.relpath(_SAMPLES / name))

    def expect(self, name: str, **wanted: str) -> None:
        """Wait until the conditions of a Webapp have these statuses for its newest spec."""
        deadline = time.monotonic() + _WAIT
        while True:
            body = json.loads(_kubectl("get", "webapp", name, "-n", _NAMESPACE, "-o", "json"))
            status = body.get("status", {})
            found = {entry["type"]: entry["status"] for entry in status.get("conditions", [])}
            current = status.get("observedGeneration") == body["metadata"]["generation"]
            if current and all(found.get(type_) == value for type_, value in wanted.items()):
                print("  " + ", ".join(f"{type_}={value}" for type_, value in wanted.items()), flush=True)
                return
            if time.monotonic() > deadline:
                raise DemoError(f"webapp {name} should have {wanted}, and has {found} after {_WAIT:.0f} s")
            time.sleep(0.2)

    def run(self) -> None:
        self.tell("Three custom resources: a good one, one whose install fails, one that is good for now.")
        self.apply("10-good.yaml", "20-install-fails.yaml", "30-before-the-upgrade.yaml")
        self.expect("hello", Ready="True", Deployed="True", ReleaseFailed="False", Irreconcilable="False")
        self.expect("outside", Ready="False", Deployed="False", ReleaseFailed="True")
        self.expect("grown", Ready="True", Deployed="True", ReleaseFailed="False")

        self.tell("The third one gets an upgrade that the API server refuses. What ran goes on running.")
        self.apply("31-upgrade-fails.yaml")
        self.expect("grown", Ready="False", Deployed="True", ReleaseFailed="True")

        self.tell("What people see.")
        self.show("get", "webapps", "-n", _NAMESPACE)
        for name in ("hello", "outside", "grown"):
            self.tell(f"kubectl describe webapp {name}")
            self.show("describe", "webapp", name, "-n", _NAMESPACE)

        self.tell("Both mistakes are mended; the operator goes on at once.")
        self.apply("21-install-fixed.yaml", "32-upgrade-fixed.yaml")
        self.expect("outside", Ready="True", Deployed="True", ReleaseFailed="False", Irreconcilable="False")
        self.expect("grown", Ready="True", Deployed="True", ReleaseFailed="False", Irreconcilable="False")
        self.show("get", "webapps,deployments,services", "-n", _NAMESPACE)
        self.show("wait", "webapps", "--all", "-n", _NAMESPACE, "--for=condition=Ready", "--timeout=10s")

    def clean_up(self) -> None:
        self.tell("All custom resources are deleted; kubectl waits until they are gone.")
        self.show("delete", "webapps", "--all", "-n", _NAMESPACE, f"--timeout={_WAIT:.0f}s")
        self.tell("Nothing is left of them.")
        kinds = "webapps,deployments,services,serviceaccounts,configmaps,secrets"
        left = [name for name in _names(kinds) if name not in _FURNITURE]
        print(f"$ kubectl get {kinds} -n {_NAMESPACE}\n  {' '.join(left) or 'nothing but what each namespace has'}")
        if left:
            raise DemoError(f"the deletion left {', '.join(left)}")
        _kubectl("delete", "namespace", _NAMESPACE, "--wait=false")


def _wait_for_conditions(kind: str) -> None:
    """`kubectl wait` gives up on an object that has no conditions yet."""
    deadline = time.monotonic() + _WAIT
    while not all(
        item.get("status", {}).get("conditions") for item in json.loads(_kubectl("get", kind, "-o", "json"))["items"]
    ):
        if time.monotonic() > deadline:
            raise DemoError(f"{kind} have no conditions after {_WAIT:.0f} s")
        time.sleep(0.1)


_FURNITURE: Final = frozenset({"configmap/kube-root-ca.crt", "serviceaccount/default"})
"""What Kubernetes itself puts into every namespace."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Play the demo; return 0 if all went as told."""
    parser = argparse.ArgumentParser(prog="python -m tools.demo", description=__doc__)
    parser.add_argument("--keep", action="store_true", help="leave the operator and the custom resources running")
    options = parser.parse_args(arguments)
    demo = Demo()
    try:
        demo.tell("The custom resource definitions, and a namespace.")
        demo.show("apply", "-f", "crds")
        _wait_for_conditions("crds")
        demo.show("wait", "crds", "--all", "--for=condition=Established", "--timeout=20s")
        _kubectl("create", "namespace", _NAMESPACE)
        demo.tell("The operator, as a process of its own.")
        with _operator(keep=options.keep):
            demo.run()
            if not options.keep:
                demo.clean_up()
    except (DemoError, subprocess.CalledProcessError) as error:
        print(f"\ndemo: this did not go as told: {error}", file=sys.stderr)
        return 1
    demo.tell("Done, and all of it was checked." + ("" if options.keep else " The operator has ended."))
    return 0


@contextlib.contextmanager
def _operator(*, keep: bool) -> Iterator[None]:
    log = Path(os.environ.get("DEMO_LOG", _ROOT / ".demo" / "operator.log"))
    log.parent.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "helm_operator", "run", "--zap-encoder=console", "--health-probe-bind-address=0"]
    print(f"$ {' '.join(['helm-operator', *command[3:]])}   (log: {os.path.relpath(log)})", flush=True)
    environment = {**os.environ, "PYTHONPATH": str(_ROOT), "WATCH_NAMESPACE": _NAMESPACE}
    with log.open("w") as stream:
        process = subprocess.Popen(
            command,
            cwd=_ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield
        keep = keep and process.poll() is None
    except BaseException:
        keep = False
        print(f"\nthe operator's last lines:\n{_tail(log)}", file=sys.stderr)
        raise
    finally:
        if keep:
            (log.parent / "operator.pid").write_text(str(process.pid))
        else:
            process.send_signal(signal.SIGTERM)
            process.wait(timeout=30)


def _tail(log: Path) -> str:
    return "\n".join(log.read_text().splitlines()[-15:])


def _names(kinds: str) -> list[str]:
    listed: dict[str, Any] = json.loads(_kubectl("get", kinds, "-n", _NAMESPACE, "-o", "json"))
    return [f"{item['kind'].lower()}/{item['metadata']['name']}" for item in listed["items"]]


def _kubectl(*arguments: str, capture: bool = True) -> str:
    done = subprocess.run(["kubectl", *arguments], check=True, text=True, stdout=subprocess.PIPE if capture else None)
    return done.stdout or ""


if __name__ == "__main__":
    sys.exit(main())
