"""Cases 09, 10, 11: what belongs to somebody else is never touched."""

import time

import pytest

from tests.lab import PERIOD

pytestmark = [pytest.mark.cluster, pytest.mark.helm]


def test_case_09_the_second_kind_with_the_same_name_is_refused_and_harms_nothing(make_lab):
    lab = make_lab("09")
    lab.install_crd("crd-gadget.yaml")
    lab.start()
    lab.create()
    lab.deployed("control", revision=1)
    claim = lab.object("persistentvolumeclaims", "control-data")["metadata"]["uid"]

    lab.create("cr-2.yaml")
    owner = lab.cr("control")["metadata"]["uid"]
    says = ['release "control"', owner, "helm-operator.io/adopt"]
    lab.reaches("control", plural="gadgets", Irreconcilable="True", Deployed="False", says=says)
    time.sleep(5 * PERIOD)
    lab.delete("control", plural="gadgets")
    lab.gone("control", plural="gadgets")

    assert lab.object("persistentvolumeclaims", "control-data")["metadata"]["uid"] == claim
    assert lab.records("control") == [(1, "deployed")]
    lab.reaches("control", Ready="True")  # A claim that nothing asks for counts as healthy after 15 s.
    lab.stays_quiet("control", periods=2)


def test_case_10a_a_release_of_another_chart_is_left_alone(make_lab):
    lab = make_lab("10")
    lab.helm("install", "shared", str(lab.folder / "other-chart"))
    lab.start()
    lab.create()
    lab.reaches("shared", Irreconcilable="True", Deployed="False", says=['release "shared" exists'])
    assert lab.data("shared-ledger") == {"entries": "42"}

    lab.delete("shared")
    lab.gone("shared")
    assert lab.records("shared") == [(1, "deployed")]
    assert lab.data("shared-ledger") == {"entries": "42"}


def test_case_10b_a_persons_release_is_taken_over_only_when_asked(make_lab):
    lab = make_lab("10")
    lab.helm("install", "shared", str(lab.folder / "chart"))
    lab.start()
    lab.create()
    lab.reaches("shared", Irreconcilable="True", Deployed="False", says=["helm-operator.io/adopt"])
    assert lab.data("shared-cfg") == {"colour": "blue"}

    lab.api.patch(lab.path("shared"), {"metadata": {"annotations": {"helm-operator.io/adopt": "shared"}}})
    status = lab.deployed("shared", revision=2)
    assert lab.data("shared-cfg") == {"colour": "red"}
    assert status["adoption"] == {"token": "shared", "revision": 2}
    lab.stays_quiet("shared", periods=2)

    lab.delete("shared")
    lab.gone("shared")
    assert lab.records("shared") == []


def test_case_11_an_object_that_belongs_to_nobody_is_named_and_left_alone(make_lab):
    lab = make_lab("11")
    lab.start()
    mine = lab.api.post(lab.core("configmaps"), {"metadata": {"name": "taken-cfg"}, "data": {"colour": "mine"}})
    lab.create()
    says = ['ConfigMap "taken-cfg"', "ownership"]
    lab.reaches("taken", ReleaseFailed="True", Irreconcilable="True", Deployed="False", says=says)
    time.sleep(12)
    found = lab.object("configmaps", "taken-cfg")
    assert (found["metadata"]["uid"], found["data"]) == (mine["metadata"]["uid"], {"colour": "mine"})
    assert 2 <= len(lab.helm_runs()) <= 4

    lab.api.delete(lab.core("configmaps", "taken-cfg"))
    lab.deployed("taken", timeout=45)
    assert lab.object("services", "taken-svc") is not None
    assert lab.data("taken-cfg") == {"colour": "red"}


def test_case_11_deletion_in_the_failing_phase_leaves_the_object_alone(make_lab):
    lab = make_lab("11")
    lab.start()
    lab.api.post(lab.core("configmaps"), {"metadata": {"name": "taken-cfg"}, "data": {"colour": "mine"}})
    lab.create()
    lab.reaches("taken", ReleaseFailed="True")
    lab.delete("taken")
    lab.gone("taken")
    assert lab.data("taken-cfg") == {"colour": "mine"}
