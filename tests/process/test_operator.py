"""The operator as a process: restarts, requests, many custom resources at once, and its probes."""

import json
import os
import signal
import time
import urllib.request
from pathlib import Path

import pytest

from tests.cluster import JSON_PATCH, eventually
from tests.lab import PERIOD

pytestmark = [pytest.mark.cluster, pytest.mark.helm]


def test_a_killed_operator_makes_no_second_revision_when_it_is_started_again(make_lab):
    lab = make_lab("27")
    operator = lab.start()
    lab.create()
    lab.deployed("calm", revision=1)
    runs = lab.helm_runs()
    operator.kill()
    again = lab.start()
    time.sleep(3 * PERIOD)
    assert lab.records("calm") == [(1, "deployed")]
    assert lab.helm_runs() == runs
    lab.set_spec("calm", {"colour": "green"})
    lab.deployed("calm", revision=2)
    assert again.stop() == 0


def test_an_operator_in_sync_makes_no_request_and_starts_no_process(make_lab):
    state = os.environ.get("LOCALCLUSTER_STATE")
    assert state, "the audit log is needed: run the tests by `make test`"
    audit = Path(state) / "logs" / "audit.json"
    lab = make_lab("27")
    lab.start()
    lab.create()
    lab.deployed("calm", revision=1)
    lab.stays_quiet("calm", periods=1)

    before = _requests(audit, lab.namespace)
    runs = lab.helm_runs()
    status = lab.path("calm") + "/status"
    lab.api.patch(status, {"status": {"note": "x"}})
    lab.api.patch(lab.path("calm"), {"metadata": {"labels": {"x": "y"}}})
    time.sleep(5 * PERIOD)
    lab.api.patch(status, {"status": {"note": "the end"}})  # A line that is surely behind the others.
    eventually(lambda: _contains(audit, lab.namespace))
    new = _requests(audit, lab.namespace)[len(before) :]
    assert new == []
    assert lab.helm_runs() == runs


def _contains(audit, namespace):
    assert any(e["verb"] == "patch" and e["user"] == "tests" for e in _events(audit, namespace))


def _events(audit, namespace):
    for line in audit.read_text().splitlines():
        event = json.loads(line)
        reference = event.get("objectRef") or {}
        if reference.get("namespace") == namespace and event["stage"] == "ResponseComplete":
            yield {"verb": event["verb"], "user": event["userAgent"], "resource": reference.get("resource")}


def _requests(audit, namespace):
    """Return the operator's requests; watches that end are renewed, which is no pass's doing."""
    ours = ("helm-operator", "kopf", "Helm")
    return [e for e in _events(audit, namespace) if e["user"].startswith(ours) and e["verb"] != "watch"]


def test_fifty_custom_resources_at_once_all_get_deployed(make_lab):
    lab = make_lab("27")
    lab.start()
    body = lab.documents("cr.yaml")[0]
    started = time.monotonic()
    for number in range(50):
        lab.api.post(lab.path(), {**body, "metadata": {"name": f"calm-{number}"}})
    for number in range(50):
        lab.deployed(f"calm-{number}", revision=1, timeout=90)
    print(f"50 custom resources were deployed after {time.monotonic() - started:.1f} s")
    assert len([run for run in lab.helm_runs() if run == "install"]) == 50


def test_both_probes_answer_and_sigterm_ends_the_process_in_order(make_lab):
    lab = make_lab("27")
    operator = lab.start()
    for name in ("healthz", "readyz"):
        with urllib.request.urlopen(f"http://127.0.0.1:{operator.port}/{name}", timeout=5) as answer:
            assert answer.status == 200
    assert operator.stop() == 0
    assert "stopped" in operator.log


@pytest.mark.parametrize("helm", ["helm4", "helm3"])
def test_the_main_job_with_both_versions_of_helm(make_lab, request, helm):
    lab = make_lab("17", helm=request.getfixturevalue(helm))
    lab.start()
    lab.api.post(lab.path(), {**lab.documents("cr.yaml")[0], "spec": {"port": 80}})
    lab.deployed("first", revision=1)
    lab.set_spec("first", {"port": 0})
    lab.reaches("first", Deployed="True", ReleaseFailed="True", says=["must be between 1 and 65535"])
    lab.set_spec("first", {"port": 81})
    lab.deployed("first", revision=3)
    lab.api.delete(lab.core("services", "first-svc"))
    eventually(lambda: _there(lab.object("services", "first-svc")))
    lab.api.patch(lab.core("configmaps", "first-cfg"), {"data": {"port": "1"}})
    eventually(lambda: _equal(lab.data("first-cfg"), {"port": "81"}))
    lab.stays_quiet("first", periods=2)
    lab.delete("first")
    lab.gone("first")
    assert lab.records("first") == []
    assert lab.object("configmaps", "first-cfg") is None


def test_what_was_done_while_the_operator_was_away_is_put_right(make_lab):
    lab = make_lab("35")
    operator = lab.start()
    lab.create()
    lab.deployed("docs", revision=1)
    two = lab.data("docs-two", "secrets")
    operator.stop()
    lab.api.delete(lab.core("configmaps", "docs-one"))
    lab.api.patch(lab.core("secrets", "docs-two"), [{"op": "remove", "path": "/data/b"}], JSON_PATCH)
    lab.start()
    eventually(lambda: _equal(lab.data("docs-one"), {"a": "1"}))
    eventually(lambda: _equal(lab.data("docs-two", "secrets"), two))
    lab.deployed("docs", revision=1)


def test_a_pause_holds_everything_back_but_the_deletion(make_lab):
    lab = make_lab("27")
    lab.start()
    lab.create()
    lab.deployed("calm", revision=1)
    lab.api.patch(lab.path("calm"), {"metadata": {"annotations": {"helm-operator.io/pause": "true"}}})
    lab.reaches("calm", Paused="True", Deployed="True")
    lab.set_spec("calm", {"colour": "green"})
    lab.api.delete(lab.core("configmaps", "calm-cfg"))
    time.sleep(2 * PERIOD)
    assert lab.records("calm") == [(1, "deployed")]
    assert lab.object("configmaps", "calm-cfg") is None
    lab.api.patch(lab.path("calm"), {"metadata": {"annotations": {"helm-operator.io/pause": None}}})
    lab.deployed("calm", revision=2)
    assert "Paused" not in lab.conditions("calm")
    lab.api.patch(lab.path("calm"), {"metadata": {"annotations": {"helm-operator.io/reconcile": "now"}}})
    lab.deployed("calm", revision=3)
    lab.stays_quiet("calm", periods=2)
    lab.api.patch(lab.path("calm"), {"metadata": {"annotations": {"helm-operator.io/pause": "true"}}})
    lab.delete("calm")
    lab.gone("calm")
    assert lab.records("calm") == []


def test_signals_that_are_repeated_until_the_end_change_nothing(make_lab):
    lab = make_lab("27")
    operator = lab.start()
    while operator.process.poll() is None:
        operator.process.send_signal(signal.SIGTERM)
        time.sleep(0.01)
    assert operator.stop() == 0
    assert '"msg": "stopped"' in operator.log


def test_a_failed_upgrade_is_rolled_back_where_the_watch_says_so(make_lab):
    lab = make_lab("18")
    entry = lab.folder / "watches.yaml"
    entry.write_text(
        entry.read_text().replace("chart: ./chart", "chart: ./chart, upgrade: {remediation: rollback, retries: 0}")
    )
    lab.start()
    lab.create()
    lab.deployed("loop", revision=1)
    lab.set_spec("loop", {"colour": "green", "port": 0})
    says = ["must be between 1 and 65535", "roll-back to revision 1", "not tried again"]
    conditions = lab.reaches("loop", Deployed="True", ReleaseFailed="True", Stalled="True", says=says)
    assert lab.data("loop-cfg") == {"colour": "red"}
    assert [state for _, state in lab.records("loop")] == ["superseded", "failed", "deployed"]
    assert conditions["Deployed"]["reason"] == "RollbackSuccessful"
    assert conditions["ReleaseFailed"]["release"]["revision"] == 2
    lab.stays_quiet("loop", periods=2)
    lab.set_spec("loop", {"colour": "green", "port": 81})
    lab.deployed("loop", revision=4)


def test_a_failed_install_is_taken_away_where_the_watch_says_so(make_lab):
    lab = make_lab("17")
    entry = lab.folder / "watches.yaml"
    entry.write_text(entry.read_text().replace("chart: ./chart", "chart: ./chart, install: {remediation: uninstall}"))
    lab.start()
    lab.create()
    lab.reaches("first", Deployed="False", ReleaseFailed="True", says=["must be between 1 and 65535", "uninstall"])
    assert lab.records("first") == []
    assert lab.object("configmaps", "first-cfg") is None
    lab.set_spec("first", {"port": 81})
    lab.deployed("first", revision=1)


def test_a_custom_resource_can_be_let_go_without_its_release(make_lab):
    lab = make_lab("27")
    lab.start()
    lab.create()
    lab.deployed("calm", revision=1)
    lab.api.patch(lab.path("calm"), {"metadata": {"annotations": {"helm-operator.io/let-go": "true"}}})
    lab.delete("calm")
    lab.gone("calm")
    assert lab.records("calm") == [(1, "deployed")]
    assert lab.data("calm-cfg") == {"colour": "red"}


def _there(body):
    assert body is not None


def _equal(one, other):
    assert one == other


def test_a_list_entry_whose_key_was_edited_is_put_right(make_lab):
    lab = make_lab("17")
    lab.start()
    lab.api.post(lab.path(), {**lab.documents("cr.yaml")[0], "spec": {"port": 80}})
    lab.deployed("first", revision=1)
    lab.api.patch(lab.core("services", "first-svc"), {"spec": {"ports": [{"port": 4711}]}})
    eventually(lambda: _equal([port["port"] for port in lab.object("services", "first-svc")["spec"]["ports"]], [80]))
    lab.deployed("first", revision=1)
    lab.stays_quiet("first", periods=2)


def test_a_field_that_somebody_took_does_not_stop_an_upgrade(make_lab):
    lab = make_lab("27")
    operator = lab.start()
    lab.create()
    lab.deployed("calm", revision=1)
    operator.stop()
    lab.api.patch(lab.core("configmaps", "calm-cfg"), {"data": {"colour": "hand", "note": "mine"}})
    lab.set_spec("calm", {"colour": "green"})
    lab.start()
    lab.deployed("calm")
    assert lab.data("calm-cfg") == {"colour": "green", "note": "mine"}
    lab.stays_quiet("calm", periods=2)
