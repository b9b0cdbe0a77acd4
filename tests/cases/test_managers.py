"""Case 41: another field manager owns a field of the release."""

import pytest

from tests.cluster import eventually, kubectl
from tests.lab import PERIOD

pytestmark = [pytest.mark.cluster, pytest.mark.helm]


def test_case_41_other_field_managers_lose_what_the_chart_sets_and_keep_what_is_theirs(make_lab):
    lab = make_lab("41")
    lab.start("--retry-base=2s")
    lab.create()
    lab.deployed("tug", revision=1)

    _patch(lab, '{"data":{"colour":"hand","note":"mine"}}')
    eventually(lambda: _holds(lab, colour="red", note="mine"), timeout=15)
    lab.deployed("tug", revision=1)
    eventually(lambda: lab.stays_quiet("tug", periods=1))

    _patch(lab, '{"data":{"colour":"hand2"}}')
    lab.set_spec("tug", {"colour": "green"})
    lab.deployed("tug", timeout=30)
    _holds(lab, colour="green", note="mine")

    _apply_as_other(lab, size="large")
    eventually(lambda: _holds(lab, size="small", colour="green", note="mine"), timeout=15)
    lab.set_spec("tug", {"colour": "green", "size": "medium"})
    lab.deployed("tug", timeout=30)
    _holds(lab, size="medium", colour="green", note="mine")
    eventually(lambda: lab.stays_quiet("tug", periods=3), timeout=30)


def test_case_41_a_field_taken_while_the_operator_is_away_does_not_block_the_next_upgrade(make_lab):
    lab = make_lab("41")
    operator = lab.start()
    lab.create()
    lab.deployed("tug", revision=1)
    operator.stop()
    _apply_as_other(lab, size="large")
    _patch(lab, '{"data":{"colour":"hand"}}')
    lab.set_spec("tug", {"colour": "green", "size": "medium"})
    lab.start()
    lab.deployed("tug", timeout=30)
    _holds(lab, size="medium", colour="green")
    assert not [text for text in lab.events("UpdateError") if text]
    eventually(lambda: lab.stays_quiet("tug", periods=2), timeout=30)


def test_a_manager_that_takes_no_field_of_the_chart_is_left_alone(make_lab):
    lab = make_lab("41")
    lab.start()
    lab.create()
    lab.deployed("tug", revision=1)
    eventually(lambda: lab.stays_quiet("tug", periods=1), timeout=30)
    _apply_as_other(lab, extra="theirs")
    version = lab.object("configmaps", "tug-cfg")["metadata"]["resourceVersion"]
    with pytest.raises(AssertionError):
        eventually(lambda: _other_version(lab, version), timeout=2 * PERIOD)
    lab.set_spec("tug", {"colour": "green"})
    lab.deployed("tug", revision=2)
    _holds(lab, colour="green", extra="theirs")


def _other_version(lab, version):
    assert lab.object("configmaps", "tug-cfg")["metadata"]["resourceVersion"] != version


def _patch(lab, patch):
    kubectl("--namespace", lab.namespace, "patch", "configmap", "tug-cfg", "--type=merge", f"--patch={patch}")


def _apply_as_other(lab, **data):
    lines = "\n".join(f"  {key}: {value}" for key, value in data.items())
    manifest = f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: tug-cfg}}\ndata:\n{lines}\n"
    flags = ["--server-side", "--field-manager=other", "--force-conflicts", "--filename=-"]
    kubectl("--namespace", lab.namespace, "apply", *flags, stdin=manifest)


def _holds(lab, **wanted):
    found = lab.data("tug-cfg")
    assert {key: found.get(key) for key in wanted} == wanted
