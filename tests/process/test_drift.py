"""`drift` of watches.yaml: what happens to objects that people and other controllers change."""

import time

import pytest

from tests.cluster import JSON_PATCH, eventually, kubectl
from tests.lab import PERIOD

pytestmark = [pytest.mark.cluster, pytest.mark.helm]

_CHART = """
apiVersion: v1
kind: ConfigMap
metadata: {name: "{{ .Release.Name }}-cfg", labels: {tier: web}}
data: {colour: {{ .Values.colour | quote }}, size: small}
---
apiVersion: v1
kind: Secret
metadata: {name: "{{ .Release.Name }}-login"}
stringData: {password: from-the-chart}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: "{{ .Release.Name }}-web"}
spec:
  selector: {matchLabels: {app: "{{ .Release.Name }}"}}
  template:
    metadata: {labels: {app: "{{ .Release.Name }}"}}
    spec:
      containers: [{name: web, image: "nginx:1", resources: {limits: {cpu: 1000m}}}]
"""


@pytest.fixture
def begin(make_lab):
    """Start an operator with this `drift`, and the release calm."""

    def begin(drift=None):
        lab = make_lab("27")
        lab.write("chart/templates/cm.yaml", _CHART)
        if drift is not None:
            entry = (lab.folder / "watches.yaml").read_text()
            lab.write("watches.yaml", entry.replace("chart: ./chart", f"chart: ./chart, drift: {drift}"))
        lab.operator = lab.start()
        lab.create()
        lab.deployed("calm", revision=1)
        lab.reaches("calm", Ready="True")
        return lab

    return begin


def test_warn_tells_once_and_touches_nothing_until_it_is_as_before(begin):
    lab = begin("{mode: warn}")
    _edit(lab, colour="hand")
    lab.api.patch(lab.core("secrets", "calm-login"), {"stringData": {"password": "hunter2"}})
    parts = ['ConfigMap "calm-cfg" (data.colour)', 'Secret "calm-login" (data.password)', "drift.mode is warn"]
    conditions = lab.reaches("calm", Drifted="True", Ready="False", Deployed="True", Irreconcilable="False", says=parts)
    assert (conditions["Drifted"]["reason"], conditions["Ready"]["reason"]) == ("DriftDetected", "Drifted")
    eventually(lambda: _equal(_named(lab, "calm-login"), 1))
    assert "hunter2" not in str(lab.cr("calm")) + str(lab.events()) + lab.log
    time.sleep(PERIOD)
    told = len(lab.events("DriftDetected"))
    lab.stays_quiet("calm")
    assert lab.data("calm-cfg")["colour"] == "hand"

    _edit(lab, colour="another hand")  # No field changes hands.
    lab.stays_quiet("calm", periods=2)
    _edit(lab, colour="red")
    eventually(lambda: _absent(lab.conditions("calm")["Drifted"]["message"], "calm-cfg"))
    lab.api.patch(lab.core("secrets", "calm-login"), {"stringData": {"password": "from-the-chart"}})
    _heals(lab)
    assert len(lab.events("DriftDetected")) <= told + 1
    assert lab.events("DriftCorrected") == []
    assert lab.records("calm") == [(1, "deployed")]
    lab.stays_quiet("calm", periods=2)


def test_warn_tells_of_a_missing_object_and_of_the_next_ones_and_an_upgrade_writes_them(begin):
    lab = begin("{mode: warn}")
    lab.api.delete(lab.core("configmaps", "calm-cfg"))
    conditions = lab.reaches("calm", Drifted="True", Ready="False", says=['ConfigMap "calm-cfg" is missing'])
    assert "Reconciling" not in eventually(lambda: _without(lab.conditions("calm"), "Reconciling")), conditions
    lab.stays_quiet("calm", periods=3)
    assert lab.object("configmaps", "calm-cfg") is None

    lab.set_spec("calm", {"colour": "green"})
    lab.deployed("calm", revision=2)
    _heals(lab)
    assert lab.data("calm-cfg") == {"colour": "green", "size": "small"}
    lab.stays_quiet("calm", periods=2)


def test_warn_says_the_same_after_a_restart_and_finds_what_happened_meanwhile(begin):
    lab = begin("{mode: warn}")
    _edit(lab, colour="hand")
    before = lab.reaches("calm", Drifted="True", Ready="False")
    eventually(lambda: _equal(len(lab.events("DriftDetected")), 1))
    lab.operator.stop()
    operator = lab.start()
    time.sleep(3 * PERIOD)
    assert lab.conditions("calm") == before
    assert len(lab.events("DriftDetected")) == 1
    operator.stop()
    _edit(lab, colour="red")
    lab.api.delete(lab.core("secrets", "calm-login"))
    lab.start()
    eventually(lambda: _equal(_named(lab, 'Secret "calm-login" is missing'), 1))
    assert "calm-cfg" not in lab.conditions("calm")["Drifted"]["message"]
    lab.stays_quiet("calm", periods=2)


def test_an_ignored_field_keeps_its_value_while_another_one_is_corrected(begin):
    lab = begin('{ignore: [{paths: [/data/colour], target: {kind: ConfigMap, name: ".*-cfg"}}]}')
    _edit(lab, colour="hand")
    lab.stays_quiet("calm", periods=2)
    assert lab.data("calm-cfg") == {"colour": "hand", "size": "small"}
    assert lab.events("DriftCorrected") == []
    _edit(lab, size="large")
    eventually(lambda: _equal(lab.data("calm-cfg"), {"colour": "hand", "size": "small"}))
    eventually(lambda: _equal(len(lab.events("DriftCorrected")), 1))
    assert "colour" not in lab.events("DriftCorrected")[0]

    # The corrected object is Helm's again, the ignored field too; it is still left alone, and so is its absence.
    _edit(lab, colour="other hand")
    lab.stays_quiet("calm", periods=1)
    assert lab.data("calm-cfg")["colour"] == "other hand"
    lab.api.patch(lab.core("configmaps", "calm-cfg"), [{"op": "remove", "path": "/data/colour"}], JSON_PATCH)
    _edit(lab, size="large")
    eventually(lambda: _equal(lab.data("calm-cfg"), {"size": "small"}))
    lab.stays_quiet("calm", periods=2)


def test_the_annotation_keeps_an_object_from_being_compared_until_it_goes(begin):
    lab = begin()
    path = lab.core("configmaps", "calm-cfg")
    lab.api.patch(path, {"metadata": {"annotations": {"helm-operator.io/drift": "disabled"}}, "data": {"colour": "me"}})
    lab.stays_quiet("calm", periods=2)
    assert lab.data("calm-cfg")["colour"] == "me"
    lab.operator.stop()
    operator = lab.start()
    operator.ready()
    lab.stays_quiet("calm", periods=2)
    assert lab.data("calm-cfg")["colour"] == "me"

    lab.api.patch(path, {"metadata": {"annotations": {"helm-operator.io/drift": None}}})
    eventually(lambda: _equal(lab.data("calm-cfg")["colour"], "red"))
    lab.api.patch(path, {"metadata": {"annotations": {"helm-operator.io/drift": "disabled"}}})
    lab.api.delete(path)
    eventually(lambda: _equal(lab.data("calm-cfg"), {"colour": "red", "size": "small"}))
    lab.stays_quiet("calm", periods=2)


def test_off_looks_at_nothing_and_an_upgrade_goes_through_all_the_same(begin):
    lab = begin("{mode: off}")
    _edit(lab, colour="hand")
    lab.api.delete(lab.core("secrets", "calm-login"))
    lab.reaches("calm", Ready="False", says=["calm-login"])
    lab.stays_quiet("calm", periods=3)
    assert lab.object("secrets", "calm-login") is None
    assert lab.data("calm-cfg")["colour"] == "hand"
    lab.operator.stop()
    lab.start()
    lab.stays_quiet("calm", periods=2)
    assert "Drifted" not in lab.conditions("calm")

    lab.set_spec("calm", {"colour": "green"})
    lab.deployed("calm", revision=2)
    assert lab.data("calm-cfg")["colour"] == "green"
    assert lab.object("secrets", "calm-login") is not None
    lab.reaches("calm", Ready="True")
    lab.stays_quiet("calm", periods=2)


def test_a_fight_over_a_field_ends_in_a_warning_and_rare_corrections(begin):
    lab = begin()
    lost, deadline = 0, time.monotonic() + 30
    while "Drifted" not in lab.conditions("calm") and time.monotonic() < deadline:
        lost += _contend(lab)
    conditions = lab.reaches("calm", Drifted="True", Ready="False", says=['ConfigMap "calm-cfg" (data.colour)'])
    assert conditions["Drifted"]["reason"] == "DriftContested"
    assert 5 <= lost <= 6

    # From here on the pauses are 8 seconds and more.
    started, won = time.monotonic(), 0
    while time.monotonic() < started + 14:
        won += _contend(lab)
    assert won <= 2
    assert len(lab.events("DriftContested")) == 1
    assert len(lab.events("DriftCorrected")) <= 7
    assert lab.conditions("calm") == conditions

    # The other one stops: the last change is undone after the pause.
    eventually(lambda: _equal(lab.data("calm-cfg")["colour"], "red"), timeout=45)
    lab.stays_quiet("calm", periods=2)
    assert lab.records("calm") == [(1, "deployed")]


def test_what_is_not_the_charts_is_left_alone(begin):
    lab = begin()
    deployment = lab.core("apps/v1/deployments", "calm-web")
    before = lab.object("apps/v1/deployments", "calm-web")["spec"]
    assert before["strategy"]["type"] == "RollingUpdate"  # A default of the server.
    assert before["template"]["spec"]["containers"][0]["resources"]["limits"]["cpu"] == "1"  # In another spelling.
    # What a HorizontalPodAutoscaler does.
    lab.api.patch(deployment + "/scale", {"spec": {"replicas": 3}})
    lab.reaches("calm", Ready="True")
    manifest = 'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: calm-cfg, labels: {team: a}}\ndata: {extra: "1"}\n'
    flags = ["--server-side", "--field-manager=other", "--filename=-"]
    kubectl("--namespace", lab.namespace, "apply", *flags, stdin=manifest)
    eventually(lambda: _equal(lab.object("apps/v1/deployments", "calm-web")["status"].get("readyReplicas"), 3))
    time.sleep(2 * PERIOD)
    lab.stays_quiet("calm", periods=2)
    lab.operator.stop()
    lab.start().ready()
    time.sleep(PERIOD)
    lab.stays_quiet("calm", periods=2)

    assert lab.object("apps/v1/deployments", "calm-web")["spec"]["replicas"] == 3
    assert lab.data("calm-cfg") == {"colour": "red", "size": "small", "extra": "1"}
    assert lab.events("DriftCorrected") == []
    # The Secret's stringData was compared as well, and counts.
    lab.api.patch(lab.core("secrets", "calm-login"), {"stringData": {"password": "hand"}})
    eventually(lambda: _equal(len(lab.events("DriftCorrected")), 1))
    lab.stays_quiet("calm", periods=2)


def _edit(lab, **data):
    lab.api.patch(lab.core("configmaps", "calm-cfg"), {"data": data})


def _contend(lab):
    """Set the field as another controller would, if it is not so; return how often that was needed."""
    time.sleep(0.05)
    if lab.data("calm-cfg")["colour"] == "theirs":
        return 0
    _edit(lab, colour="theirs")
    return 1


def _heals(lab):
    conditions = lab.reaches("calm", Ready="True")
    assert "Drifted" not in conditions


def _named(lab, text):
    return len([message for message in lab.events("DriftDetected") if text in message])


def _equal(one, other):
    assert one == other


def _absent(text, part):
    assert part not in text


def _without(conditions, type_):
    assert type_ not in conditions
    return conditions


def test_a_comparison_that_is_due_keeps_nobody_busy_while_the_release_is_somebody_elses(make_lab):
    lab = make_lab("27")
    entry = (lab.folder / "watches.yaml").read_text()
    lab.write("watches.yaml", entry.replace("chart: ./chart", "chart: ./chart, watchDependentResources: false"))
    lab.start("--zap-log-level=debug")
    lab.create()
    lab.deployed("calm", revision=1)
    record = lab.core("secrets", "sh.helm.release.v1.calm.v1")
    lab.api.patch(record, {"metadata": {"labels": {"helm-operator.io/owner-uid": "somebody"}}})
    lab.reaches("calm", Irreconcilable="True", says=["belongs to"])
    time.sleep(PERIOD)  # Now the comparison is due.
    before = lab.log.count("a pass in lane")
    time.sleep(3 * PERIOD)
    assert lab.log.count("a pass in lane") - before <= 6
