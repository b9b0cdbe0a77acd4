"""Case 13 and its kind: what a killed helm or operator leaves behind is brought to an end without a human."""

import os
import signal
import time
from pathlib import Path

import pytest

from tests.cluster import eventually

pytestmark = [pytest.mark.cluster, pytest.mark.helm]


def test_case_13_an_install_that_died_with_its_operator_is_made_anew(make_lab):
    lab = make_lab("13")
    operator = lab.start()
    lab.create()
    lab.deployed("halfway", revision=1)
    operator.kill()
    lab.force_record("halfway", 1, "pending-install")
    lab.api.delete(lab.core("configmaps", "halfway-cfg"))
    lab.start()
    lab.reaches("halfway", Irreconcilable="True", says=["pending-install", "another process"])
    lab.deployed("halfway", timeout=45)
    assert lab.data("halfway-cfg") == {"colour": "red"}
    assert [state for _, state in lab.records("halfway")] == ["deployed"]


def test_case_13_deletion_ends_too_when_an_install_died(make_lab):
    lab = make_lab("13")
    operator = lab.start()
    lab.create()
    lab.deployed("halfway", revision=1)
    operator.kill()
    lab.force_record("halfway", 1, "pending-install")
    lab.start()
    lab.delete("halfway")
    lab.gone("halfway", timeout=45)
    assert lab.records("halfway") == []
    assert lab.object("configmaps", "halfway-cfg") is None


def test_an_upgrade_that_died_is_marked_failed_and_made_again_and_objects_keep_their_uid(make_lab):
    lab = make_lab("13")
    operator = lab.start()
    lab.create()
    lab.deployed("halfway", revision=1)
    lab.set_spec("halfway", {"colour": "green"})
    lab.deployed("halfway", revision=2)
    uid = lab.object("configmaps", "halfway-cfg")["metadata"]["uid"]
    operator.kill()
    lab.force_record("halfway", 1, "deployed")
    lab.force_record("halfway", 2, "pending-upgrade")
    lab.start()
    lab.deployed("halfway", revision=3, timeout=45)
    assert lab.records("halfway")[1:] == [(2, "failed"), (3, "deployed")]
    assert lab.object("configmaps", "halfway-cfg")["metadata"]["uid"] == uid


def test_a_pending_record_of_a_person_is_waited_for(make_lab):
    lab = make_lab("13")
    operator = lab.start()
    lab.create()
    lab.deployed("halfway", revision=1)
    lab.helm("upgrade", "halfway", str(lab.folder / "chart"), "--set", "colour=yellow")
    lab.deployed("halfway", revision=3)  # The CR's wish wins over a finished upgrade by hand.
    operator.stop()
    lab.helm("upgrade", "halfway", str(lab.folder / "chart"), "--set", "colour=yellow")
    lab.force_record("halfway", 3, "deployed")
    lab.force_record("halfway", 4, "pending-upgrade")
    lab.start()
    lab.reaches("halfway", Irreconcilable="True", Deployed="True", says=["another action is under way"])
    runs = lab.helm_runs()
    time.sleep(5)
    assert lab.helm_runs() == runs
    lab.force_record("halfway", 4, "failed")
    lab.deployed("halfway")


def test_helm_ends_with_its_operator_and_the_next_one_goes_on(make_lab):
    lab = make_lab("13")
    lab.write("chart/templates/hook.yaml", _SLOW_HOOK)
    operator = lab.start()
    lab.api.post(lab.path(), {**lab.documents("cr.yaml")[0], "spec": {"colour": "red", "slow": True}})
    eventually(lambda: _pending(lab))
    helm = _children(operator.process.pid)
    assert helm
    operator.kill()
    eventually(lambda: _all_gone(helm), timeout=5)
    lab.set_spec("halfway", {"colour": "red"})
    lab.start()
    lab.deployed("halfway", timeout=60)
    assert lab.data("halfway-cfg") == {"colour": "red"}


def test_a_killed_helm_is_recovered_at_once_by_the_operator_that_ran_it(make_lab):
    lab = make_lab("13")
    lab.write("chart/templates/hook.yaml", _SLOW_HOOK)
    operator = lab.start()
    lab.api.post(lab.path(), {**lab.documents("cr.yaml")[0], "spec": {"colour": "red", "slow": True}})
    eventually(lambda: _pending(lab))
    lab.api.patch(lab.path("halfway"), {"spec": {"note": 1}})  # Not the release's business until helm is gone.
    for pid in _children(operator.process.pid):
        os.kill(pid, signal.SIGKILL)
    lab.set_spec("halfway", {"colour": "red"})
    lab.deployed("halfway", timeout=40)


_SLOW_HOOK = """
{{- if .Values.slow }}
apiVersion: batch/v1
kind: Job
metadata:
  name: "{{ .Release.Name }}-slow"
  annotations: {helm.sh/hook: "pre-install,pre-upgrade", helm.sh/hook-delete-policy: before-hook-creation}
spec:
  suspend: true
  template: {spec: {restartPolicy: Never, containers: [{name: c, image: "x.invalid/y"}]}}
{{- end }}
"""


def _pending(lab):
    assert lab.records("halfway") == [(1, "pending-install")]


def _children(pid):
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == pid:
            found.append(int(stat.parent.name))
    return found


def _all_gone(pids):
    assert not [pid for pid in pids if Path(f"/proc/{pid}").exists()]
