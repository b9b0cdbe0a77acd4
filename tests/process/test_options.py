"""What a watch and an annotation can ask for, each on a real API server; and edits that come while helm works."""

import time

import pytest

from tests.cluster import JSON_PATCH, eventually
from tests.lab import PERIOD

pytestmark = [pytest.mark.cluster, pytest.mark.helm]

OURS = "helm-operator.io"
SLOW_HOOK = """
apiVersion: batch/v1
kind: Job
metadata:
  name: "{{ .Release.Name }}-slow"
  annotations: {helm.sh/hook: "pre-install,pre-upgrade", helm.sh/hook-delete-policy: before-hook-creation}
spec:
  suspend: {{ .Values.slow | default false }}
  template: {spec: {restartPolicy: Never, containers: [{name: c, image: "x.invalid/y"}]}}
"""


def _lab(make_lab, options="", case="27"):
    lab = make_lab(case)
    entry = lab.folder / "watches.yaml"
    entry.write_text(entry.read_text().replace("chart: ./chart", f"chart: ./chart{options and ', '}{options}"))
    return lab


def _annotate(lab, name, **texts):
    annotations = {f"{OURS}/{key.replace('_', '-')}": text for key, text in texts.items()}
    lab.api.patch(lab.path(name), {"metadata": {"annotations": annotations}})


def test_the_history_stays_where_the_watch_says_so_and_is_no_obstacle_later(make_lab):
    lab = _lab(make_lab, "uninstall: {keepHistory: true}")
    lab.start()
    lab.create()
    lab.deployed("calm", revision=1)
    lab.delete("calm")
    lab.gone("calm")
    assert lab.records("calm") == [(1, "uninstalled")]
    assert lab.object("configmaps", "calm-cfg") is None
    lab.create()
    lab.deployed("calm", revision=1)
    assert lab.records("calm") == [(1, "deployed")]
    assert lab.data("calm-cfg") == {"colour": "red"}


def test_an_orphaned_release_stays_and_is_adopted_only_when_asked(make_lab):
    lab = _lab(make_lab, "uninstall: {orphan: true}")
    lab.start()
    lab.create()
    lab.deployed("calm", revision=1)
    uid = lab.object("configmaps", "calm-cfg")["metadata"]["uid"]
    lab.delete("calm")
    lab.gone("calm")
    assert lab.records("calm") == [(1, "deployed")]
    lab.create()
    lab.reaches("calm", Irreconcilable="True", Deployed="False", says=[f"{OURS}/adopt"])
    _annotate(lab, "calm", adopt="calm")
    lab.deployed("calm")
    assert lab.object("configmaps", "calm-cfg")["metadata"]["uid"] == uid


def test_an_uninstall_that_does_not_wait_leaves_what_others_hold(make_lab):
    lab = _lab(make_lab, "uninstall: {wait: false}")
    lab.start()
    lab.create()
    lab.deployed("calm", revision=1)
    cfg = lab.core("configmaps", "calm-cfg")
    lab.api.patch(cfg, {"metadata": {"finalizers": ["example.com/hold"]}})
    lab.delete("calm")
    lab.gone("calm")
    assert lab.records("calm") == []
    assert lab.api.get(cfg)["metadata"]["deletionTimestamp"]
    lab.api.patch(cfg, [{"op": "remove", "path": "/metadata/finalizers"}], JSON_PATCH)


def test_a_reset_tries_at_once_what_is_not_tried_again(make_lab):
    lab = _lab(make_lab, "install: {retries: 0}")
    quota = {"metadata": {"name": "none"}, "spec": {"hard": {"count/configmaps": "0"}}}
    lab.api.post(lab.core("resourcequotas"), quota)
    eventually(lambda: _status(lab))
    lab.start()
    lab.create()
    lab.reaches("calm", ReleaseFailed="True", Stalled="True", says=["exceeded quota", "not tried again"])
    lab.api.delete(lab.core("resourcequotas", "none"))
    lab.stays_quiet("calm", periods=2)
    _annotate(lab, "calm", reset="once more")
    status = lab.deployed("calm")
    assert status["handledAnnotations"][f"{OURS}/reset"] == "once more"
    lab.stays_quiet("calm", periods=2)


def _status(lab):
    assert "hard" in lab.object("resourcequotas", "none").get("status", {})


def test_a_bad_annotation_is_told_once_and_blocks_nothing(make_lab):
    lab = _lab(make_lab)
    lab.start()
    lab.create()
    _annotate(lab, "calm", pause="perhaps", no_such_thing="1")
    lab.deployed("calm", revision=1)
    told = eventually(lambda: _some(lab.events("InvalidAnnotation")))
    text = "\n".join(told)
    assert f"{OURS}/pause" in text
    assert "perhaps" in text
    assert f"{OURS}/no-such-thing" in text
    lab.set_spec("calm", {"colour": "green"})
    lab.deployed("calm", revision=2)
    assert lab.events("InvalidAnnotation") == told
    lab.stays_quiet("calm", periods=2)


def _some(found):
    assert found
    return found


def test_a_namespace_that_goes_takes_its_custom_resources_with_it(make_lab):
    lab = _lab(make_lab)
    operator = lab.start()
    lab.create()
    lab.deployed("calm", revision=1)
    lab.api.delete(f"/api/v1/namespaces/{lab.namespace}")
    eventually(lambda: _is_none(lab.api.get(f"/api/v1/namespaces/{lab.namespace}")), timeout=60)
    assert operator.process.poll() is None
    assert "Traceback" not in operator.log


def _is_none(found):
    assert found is None, found.get("status")


def _slow(make_lab):
    """Start with a custom resource whose upgrade hangs in a hook."""
    lab = _lab(make_lab)
    lab.write("chart/templates/hook.yaml", SLOW_HOOK)
    lab.start()
    lab.create()
    lab.deployed("calm", revision=1)
    lab.set_spec("calm", {"colour": "green", "slow": True})
    eventually(lambda: _equal(lab.helm_runs(), ["install", "upgrade"]))
    eventually(lambda: _some(lab.object("batch/v1/jobs", "calm-slow")))
    return lab


def _equal(one, other):
    assert one == other


def test_many_edits_during_an_action_make_one_more_run(make_lab):
    lab = _slow(make_lab)
    for number in range(20):
        lab.set_spec("calm", {"colour": f"shade-{number}"})
    lab.deployed("calm", timeout=40)
    assert lab.data("calm-cfg") == {"colour": "shade-19"}
    # The first edit ends the slow one. Those that come before its helm has ended are one run together.
    assert len(lab.helm_runs()) <= 4, lab.helm_runs()
    lab.stays_quiet("calm", periods=2)


def test_a_deletion_during_an_action_ends_it_and_others_are_served_meanwhile(make_lab):
    lab = _slow(make_lab)
    started = time.monotonic()
    lab.api.post(lab.path(), {**lab.documents("cr.yaml")[0], "metadata": {"name": "other"}})
    lab.deployed("other", revision=1)
    assert time.monotonic() - started < 5 * PERIOD
    assert lab.records("calm")[-1] == (2, "pending-upgrade")

    lab.delete("calm")
    lab.gone("calm", timeout=30)
    assert lab.records("calm") == []
    assert lab.object("configmaps", "calm-cfg") is None
    assert lab.records("other") == [(1, "deployed")]
