"""`make demo` as a newcomer runs it. It checks its own steps; here, that it keeps what it says it keeps."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.cluster import eventually

pytestmark = [pytest.mark.cluster, pytest.mark.helm, pytest.mark.timeout(300)]

ROOT = Path(__file__).resolve().parents[2]


def test_a_demo_that_is_kept_goes_on_until_it_is_taken_down(tmp_path):
    folder = tmp_path / "demo"
    environment = {name: value for name, value in os.environ.items() if name not in ("KUBECONFIG", "MAKEFLAGS")}

    def make(*words):
        command = ["make", "-C", str(ROOT), f"DEMO={folder}", *words]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
        return done.stdout

    try:
        told = make("demo", "KEEP=1")
        config = folder / "cluster" / "kubeconfig"
        assert f"export KUBECONFIG={config}" in told

        def kubectl(*words):
            command = ["kubectl", "--kubeconfig", str(config), "-n", "demo", *words]
            return subprocess.run(command, check=True, capture_output=True, text=True, timeout=30).stdout

        operator = int((folder / "operator.pid").read_text())
        os.kill(operator, 0)
        kubectl("delete", "webapp", "hello", "--timeout=20s")  # The operator is there to take its finalizer off.
        assert "hello" not in kubectl("get", "webapps,deployments", "-o", "name")
    finally:
        make("demo-down")
    assert not folder.exists()
    eventually(lambda: _gone(operator))


def _gone(pid):
    assert not Path(f"/proc/{pid}").exists()
