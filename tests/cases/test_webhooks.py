"""Case 40: an admission webhook is down for a while."""

import time

import pytest

from tests.cluster import eventually

pytestmark = [pytest.mark.cluster, pytest.mark.helm, pytest.mark.timeout(240)]

CALM = ("--retry-base=2s", "--retry-ceiling=8s")
CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"


@pytest.fixture
def gated(make_lab):
    """A lab of case 40, with a webhook that rules over its namespace alone and is removed in the end."""
    lab = make_lab("40")
    yield lab
    lab.api.delete(f"{CONFIGURATIONS}/{lab.namespace}")


def _close(lab, *rules):
    body = lab.documents("webhook.yaml")[0]
    body["metadata"]["name"] = lab.namespace
    hook = body["webhooks"][0]
    hook["namespaceSelector"] = {"matchLabels": {"kubernetes.io/metadata.name": lab.namespace}}
    hook["rules"] = list(rules) or hook["rules"]
    lab.api.post(CONFIGURATIONS, body)
    time.sleep(2)  # The API server takes webhooks up by a watch.


def _open(lab):
    lab.api.delete(f"{CONFIGURATIONS}/{lab.namespace}")
    time.sleep(1)


def test_case_40a_an_install_waits_for_the_webhook_and_does_not_churn(gated):
    lab = gated
    _close(lab)
    lab.start(*CALM)
    lab.create()
    lab.reaches("gated", Deployed="False", ReleaseFailed="True", says=["gate.example.com"])
    uids = set()
    until = time.monotonic() + 20
    while time.monotonic() < until:
        claim = lab.object("persistentvolumeclaims", "gated-data")
        if claim is not None:
            uids.add(claim["metadata"]["uid"])
        time.sleep(0.1)
    tries = len(lab.helm_runs())
    assert 2 <= tries <= 6
    assert len(uids) <= tries
    _open(lab)
    lab.deployed("gated", timeout=30)
    assert len(lab.records("gated")) <= 10


def test_case_40b_an_upgrade_and_a_repair_wait_too_and_the_old_release_is_still_told(gated):
    lab = gated
    lab.start(*CALM)
    lab.create()
    lab.deployed("gated", revision=1)
    eventually(lambda: lab.stays_quiet("gated", periods=1), timeout=30)
    uid = lab.object("persistentvolumeclaims", "gated-data")["metadata"]["uid"]
    _close(lab)
    lab.set_spec("gated", {"colour": "green"})
    lab.reaches("gated", Deployed="True", ReleaseFailed="True", says=["gate.example.com"])
    time.sleep(20)
    entries = lab.conditions("gated")
    assert entries["Deployed"]["status"] == "True"
    assert entries["Deployed"]["release"]["revision"] == 1
    assert lab.object("services", "gated-svc")["metadata"]["annotations"]["lab.example.com/colour"] == "red"
    _open(lab)
    lab.deployed("gated", timeout=30)
    assert lab.object("services", "gated-svc")["metadata"]["annotations"]["lab.example.com/colour"] == "green"
    assert lab.object("persistentvolumeclaims", "gated-data")["metadata"]["uid"] == uid
    assert len(lab.records("gated")) <= 10


def test_case_40b_a_hand_edit_is_undone_once_the_webhook_lets_it(gated):
    lab = gated
    lab.start(*CALM)
    lab.create()
    lab.deployed("gated", revision=1)
    eventually(lambda: lab.stays_quiet("gated", periods=1), timeout=30)
    annotations = {"metadata": {"annotations": {"lab.example.com/colour": None}}}
    lab.api.patch(lab.core("services", "gated-svc"), annotations)
    eventually(lambda: _is_red(lab))
    lab.api.delete(lab.core("services", "gated-svc"))
    _close(lab)
    lab.api.delete(lab.core("services", "gated-svc"))
    says = ["gate.example.com"]
    conditions = lab.reaches("gated", Deployed="True", Irreconcilable="True", Drifted="True", Ready="False", says=says)
    assert conditions["Drifted"]["reason"] == "DriftCorrectionFailed"
    _open(lab)
    eventually(lambda: _is_red(lab), timeout=60)
    lab.deployed("gated", revision=1)
    assert "Drifted" not in lab.conditions("gated")
    assert lab.events("DriftCorrectionFailed") == []  # Irreconcilable has told it.


def _is_red(lab):
    service = lab.object("services", "gated-svc")
    assert service is not None
    assert service["metadata"].get("annotations", {}).get("lab.example.com/colour") == "red"


def test_case_40c_a_status_that_cannot_be_written_is_written_later(gated):
    lab = gated
    resources = ["widgets", "widgets/status"]
    rule = {"apiGroups": [lab.group], "apiVersions": ["*"], "resources": resources, "operations": ["UPDATE"]}
    _close(lab, rule)
    operator = lab.start(*CALM)
    lab.create()
    time.sleep(15)
    assert operator.process.poll() is None
    assert len(lab.helm_runs()) <= 1
    assert '"level": "critical"' not in lab.log
    assert "Traceback" not in lab.log
    _open(lab)
    lab.deployed("gated", revision=1, timeout=70)
