"""How much longer a custom resource takes to be Deployed than the bare `helm install` of its chart.

    python -m tools.localcluster run -- .venv/bin/python -m benchmarks.latency

Pairs are run in turn, so that both sides see the same machine. Prints medians in milliseconds.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests.cluster import Api, kubeconfig

_ROOT = Path(__file__).resolve().parents[1]
_GROUP = "/apis/apps.helm-operator.io/v1alpha1"
_NAMESPACE = "latency"


def main() -> int:
    """Measure, print, and return 0."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=15)
    parser.add_argument("--many", type=int, default=50, help="custom resources that are created at once afterwards")
    options = parser.parse_args()
    api = Api(kubeconfig())
    subprocess.run(["kubectl", "apply", "-f", str(_ROOT / "crds")], check=True, stdout=subprocess.DEVNULL)
    api.post("/api/v1/namespaces", {"metadata": {"name": _NAMESPACE}})
    with tempfile.TemporaryFile("w+") as log:
        operator = _start(log)
        try:
            _measure(api, options.pairs, options.many)
        finally:
            for item in api.items(f"{_GROUP}/namespaces/{_NAMESPACE}/webapps"):
                api.delete(f"{_GROUP}/namespaces/{_NAMESPACE}/webapps/{item['metadata']['name']}")
            _wait(lambda: not api.items(f"{_GROUP}/namespaces/{_NAMESPACE}/webapps"), "all to be gone")
            operator.terminate()
            operator.wait()
    return 0


def _start(log: object) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "helm_operator", "run", "--health-probe-bind-address=0"]
    environment = {**os.environ, "WATCH_NAMESPACE": _NAMESPACE, "PYTHONPATH": str(_ROOT)}
    operator = subprocess.Popen(command, cwd=_ROOT, env=environment, stderr=log)  # type: ignore[call-overload]
    time.sleep(3)
    return operator  # type: ignore[no-any-return]


def _measure(api: Api, pairs: int, many: int) -> None:
    bare, ours = [], []
    for number in range(pairs):
        bare.append(_timed(lambda number=number: _install(f"bare-{number}")))
        ours.append(_timed(lambda number=number: _create(api, f"ours-{number}")))
    extra = [one - other for one, other in zip(ours, bare, strict=True)]
    for name, times in (("helm install", bare), ("custom resource to Deployed", ours), ("difference", extra)):
        print(f"{name:30} median {statistics.median(times) * 1000:6.0f} ms, worst {max(times) * 1000:6.0f} ms")
    started = time.monotonic()
    for number in range(many):
        api.post(f"{_GROUP}/namespaces/{_NAMESPACE}/webapps", _body(f"many-{number}"))
    _wait(lambda: _deployed(api) >= pairs + many, f"{many} to be deployed")
    print(f"{many} custom resources at once    {time.monotonic() - started:.1f} s")


def _timed(action: Callable[[], None]) -> float:
    started = time.monotonic()
    action()
    return time.monotonic() - started


def _install(name: str) -> None:
    command = ["helm", "install", name, str(_ROOT / "charts" / "webapp"), "--namespace", _NAMESPACE]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def _create(api: Api, name: str) -> None:
    path = f"{_GROUP}/namespaces/{_NAMESPACE}/webapps"
    api.post(path, _body(name))
    _wait(lambda: _is_deployed(api.get(f"{path}/{name}")), f"{name} to be deployed")


def _body(name: str) -> dict[str, object]:
    meta = {"name": name}
    return {"apiVersion": "apps.helm-operator.io/v1alpha1", "kind": "Webapp", "metadata": meta, "spec": {}}


def _is_deployed(body: dict[str, object]) -> bool:
    status = body.get("status") or {}
    conditions = status.get("conditions", [])  # type: ignore[attr-defined]
    return any(entry["type"] == "Deployed" and entry["status"] == "True" for entry in conditions)


def _deployed(api: Api) -> int:
    return sum(map(_is_deployed, api.items(f"{_GROUP}/namespaces/{_NAMESPACE}/webapps")))


def _wait(check: Callable[[], bool], what: str, timeout: float = 180.0) -> None:
    deadline = time.monotonic() + timeout
    while not check():
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {timeout:.0f} s for {what}")
        time.sleep(0.005)


if __name__ == "__main__":
    sys.exit(main())
