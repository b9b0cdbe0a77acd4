"""Case 48: the API server goes away and comes back. On a control plane of its own, for nobody else likes that."""

import json
import os
import signal
import time
import urllib.request
import uuid
from pathlib import Path

import pytest

from tests.cluster import eventually
from tests.lab import PERIOD, Lab
from tools.localcluster import ControlPlane

pytestmark = [pytest.mark.cluster, pytest.mark.helm, pytest.mark.timeout(240)]


@pytest.fixture(scope="module")
def plane(tmp_path_factory):
    with ControlPlane(tmp_path_factory.mktemp("plane")) as plane:
        yield plane


@pytest.fixture
def lab(plane, helm4, tmp_path):
    name = f"lab-{uuid.uuid4().hex[:6]}"
    lab = Lab(tmp_path, name, helm4, kubeconfig=str(plane.kubeconfig))
    lab.take("48")
    lab.install_crd()
    yield lab
    lab.close()
    print(f"--- the operator's log in {lab.namespace}\n{lab.log[-20000:]}")


def _deployed(lab):
    operator = lab.start()
    lab.create()
    lab.deployed("gap", revision=1)
    eventually(lambda: lab.stays_quiet("gap", periods=1), timeout=30)
    return operator


def _catches_up(lab, *, revision=2, edit=True):
    """Make the edits of the case, or expect that they were made, and wait until all is well."""
    if edit:
        lab.set_spec("gap", {"colour": "green"})
        lab.api.delete(lab.core("configmaps", "gap-cfg"))
    lab.deployed("gap", revision=revision, timeout=30)
    eventually(lambda: _equal(lab.data("gap-cfg"), {"colour": "green"}), timeout=30)
    assert [state for _, state in lab.records("gap")].count("deployed") == 1
    assert not [state for _, state in lab.records("gap") if state.startswith("pending")]
    eventually(lambda: lab.stays_quiet("gap", periods=1), timeout=30)


def _alive(operator):
    assert operator.process.poll() is None, operator.log
    with urllib.request.urlopen(f"http://127.0.0.1:{operator.port}/healthz", timeout=5) as answer:
        assert answer.status == 200


def _cpu(operator):
    """Return the seconds of processor time that the operator has used."""
    fields = Path(f"/proc/{operator.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _away(operator, seconds):
    """Let time pass without an API server: the operator lives, is calm, and says little."""
    cpu, lines = _cpu(operator), len(operator.log.splitlines())
    time.sleep(seconds)
    _alive(operator)
    assert _cpu(operator) - cpu < 0.2 * seconds
    assert len(operator.log.splitlines()) - lines < 10 * seconds


def test_case_48a_an_ordinary_restart(plane, lab):
    operator = _deployed(lab)
    runs = lab.helm_runs()
    plane._end(["kube-apiserver"], signal.SIGTERM, timeout=20.0)
    _away(operator, 15)
    plane.start_apiserver()
    assert lab.helm_runs() == runs
    _catches_up(lab)


def test_case_48b_crashes_in_a_row(plane, lab):
    operator = _deployed(lab)
    for _ in range(5):
        plane.kill_apiserver()
        time.sleep(3)
        plane.start_apiserver()
    _alive(operator)
    assert lab.helm_runs() == ["install"]
    _catches_up(lab)


def test_case_48c_a_hang_without_a_word(plane, lab):
    operator = _deployed(lab)
    plane.pause_apiserver()
    try:
        _away(operator, 40)
    finally:
        plane.resume_apiserver()
    _catches_up(lab)


def test_case_48d_an_outage_in_the_middle_of_an_upgrade(plane, lab):
    operator = _deployed(lab)
    lab.set_spec("gap", {"colour": "green"})
    lab.api.delete(lab.core("configmaps", "gap-cfg"))
    time.sleep(0.2)
    plane.kill_apiserver()
    _away(operator, 10)
    plane.start_apiserver()
    _catches_up(lab, edit=False, revision=None)
    assert lab.records("gap")[-1][0] <= 3


def test_an_outage_in_the_middle_of_an_install_and_of_a_deletion(plane, lab):
    operator = lab.start()
    lab.create()
    time.sleep(0.4)
    plane.kill_apiserver()
    _away(operator, 5)
    plane.start_apiserver()
    lab.deployed("gap", timeout=60)
    lab.delete("gap")
    time.sleep(0.15)
    plane.kill_apiserver()
    _away(operator, 5)
    plane.start_apiserver()
    lab.gone("gap", timeout=60)
    assert lab.records("gap") == []
    assert lab.object("configmaps", "gap-cfg") is None


def test_case_48e_a_start_before_the_api_server(plane, lab):
    lab.create()
    plane.kill_apiserver()
    operator = lab.start(wait=False)
    time.sleep(10)
    assert operator.process.poll() is None, operator.log
    plane.start_apiserver()
    lab.deployed("gap", revision=1, timeout=40)
    _catches_up(lab)


def test_case_48f_a_watch_that_is_too_old_to_go_on(plane, lab):
    operator = _deployed(lab)
    os.kill(operator.process.pid, signal.SIGSTOP)
    lab.set_spec("gap", {"colour": "green"})
    lab.api.delete(lab.core("configmaps", "gap-cfg"))
    for number in range(20):
        lab.api.patch(lab.path("gap") + "/status", {"status": {"count": number}})
    plane.kill_apiserver()
    _compact(plane)
    plane.start_apiserver()
    lab.api.patch(lab.path("gap") + "/status", {"status": {"count": 99}})
    os.kill(operator.process.pid, signal.SIGCONT)
    _catches_up(lab, edit=False)


def _compact(plane):
    def ask(what, body):
        url = f"http://127.0.0.1:{plane._port('etcd')}/v3/kv/{what}"
        with urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode())) as answer:
            return json.loads(answer.read())

    revision = ask("range", {"key": "AA=="})["header"]["revision"]
    ask("compaction", {"revision": revision, "physical": True})


def test_case_33_nothing_disappears_when_the_controllers_are_started_anew(plane, lab):
    lab.take("33")
    lab.start()
    lab.create()
    lab.deployed("wide", revision=1)
    paths = [
        f"/apis/rbac.authorization.k8s.io/v1/clusterroles/{lab.namespace}-wide-reader",
        "/api/v1/namespaces/kube-public/configmaps/wide-far",
        lab.core("configmaps", "wide-near"),
    ]
    uids = [lab.api.get(path)["metadata"]["uid"] for path in paths]
    plane.restart_apiserver()  # And its controllers.
    time.sleep(20)
    assert [lab.api.get(path)["metadata"]["uid"] for path in paths] == uids
    lab.deployed("wide", revision=1)
    lab.delete("wide")
    lab.gone("wide")
    assert [path for path in paths if lab.api.get(path)] == []


def test_a_hang_before_a_deletion_and_an_operator_that_is_killed_in_it(plane, lab):
    operator = _deployed(lab)
    plane.pause_apiserver()
    time.sleep(PERIOD)
    operator.kill()
    again = lab.start(wait=False)
    time.sleep(8)
    assert again.process.poll() is None
    plane.resume_apiserver()
    _catches_up(lab)
    lab.delete("gap")
    lab.gone("gap")


def _equal(one, other):
    assert one == other
