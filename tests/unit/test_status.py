from dataclasses import replace

import pytest

from helm_operator.decision import Action, Attempt, Decision
from helm_operator.drift import Drift
from helm_operator.errors import HelmError, HelmErrorKind, RetryableError, TerminalError
from helm_operator.release import ObjectRef, ReleaseStatus
from helm_operator.status import IRRECONCILABLE, Outcome, build_status, failed_attempts, recorded_leftovers
from tests.builders import BROKEN, GOOD, HEALTHY, NOW, ROLLING, content, failed, in_sync, outcome, record

K = HelmErrorKind


def facts(status):
    return {c["type"]: (c["status"], c["reason"]) for c in status["conditions"]}


def condition(status, type_):
    return next((c for c in status["conditions"] if c["type"] == type_), None)


READY = {
    "all objects are healthy": (in_sync(health=HEALTHY), ("True", "Healthy"), None),
    "a roll-out is under way": (in_sync(health=ROLLING), ("False", "Progressing"), "Reconciling"),
    "an object fails": (in_sync(health=BROKEN), ("False", "Unhealthy"), None),
    "just upgraded, the objects are not in sight": (outcome(), ("False", "Progressing"), "Reconciling"),
    "the upgrade failed, whatever the health": (failed(health=HEALTHY), ("False", "OutOfSync"), "Reconciling"),
    "it failed for good": (failed(K.VALUES, next_attempt_at=None), ("False", "OutOfSync"), "Stalled"),
    "tries have become rare": (failed(capped=True), ("False", "OutOfSync"), "Stalled"),
    "the first install failed": (
        failed(action=Action.INSTALL, records=(record(1, ReleaseStatus.FAILED),)),
        ("False", "NotDeployed"),
        "Reconciling",
    ),
    "drift that cannot be put right": (
        in_sync(error=RetryableError('ConfigMap "a" is in the way', reason="ReconcileError"), drifted=True),
        ("False", "Drifted"),
        "Reconciling",
    ),
    "the API server is gone": (
        Outcome(generation=7, error=RetryableError("nobody answers", reason="ApiUnavailable")),
        ("True", "Healthy"),
        None,
    ),
    "being deleted": (in_sync(deleting=True, health=HEALTHY), ("False", "NotDeployed"), "Reconciling"),
}


@pytest.mark.parametrize(("result", "ready", "progress"), READY.values(), ids=READY)
def test_ready_tells_how_what_runs_is(result, ready, progress):
    before = build_status(GOOD, in_sync(health=HEALTHY), NOW)

    status = build_status(before, result, NOW + 60)

    assert facts(status)["Ready"] == ready
    assert {type_ for type_ in ("Reconciling", "Stalled") if condition(status, type_)} == {progress} - {None}


def test_a_pause_between_two_tries_leaves_the_progress_as_it_was():
    before = build_status(GOOD, failed(), NOW)
    waiting = replace(failed(), action=None, helm_error=None, decision=Decision(Action.WAIT, "back-off"))

    assert build_status(before, waiting, NOW + 2) == before


PATHS = {
    "upgraded": (
        GOOD,
        outcome(),
        {
            "Deployed": ("True", "UpdateSuccessful"),
            "ReleaseFailed": ("False", "UpdateSuccessful"),
            "Irreconcilable": ("False", "Reconciled"),
        },
    ),
    "in sync, status lost": (
        {},
        replace(in_sync(), content=content(1, description="Install complete"), records=(record(1),)),
        {
            "Deployed": ("True", "InstallSuccessful"),
            "ReleaseFailed": ("False", "InstallSuccessful"),
            "Irreconcilable": ("False", "Reconciled"),
        },
    ),
    "install failed": (
        {},
        failed(action=Action.INSTALL, records=(record(1, ReleaseStatus.FAILED),)),
        {
            "Deployed": ("False", "InstallError"),
            "ReleaseFailed": ("True", "InstallError"),
            "Irreconcilable": ("False", "Reconciled"),
        },
    ),
    "upgrade failed, the old revision runs": (
        GOOD,
        failed(),
        {
            "Deployed": ("True", "UpdateSuccessful"),
            "ReleaseFailed": ("True", "UpdateError"),
            "Irreconcilable": ("False", "Reconciled"),
        },
    ),
    "values against the schema": (
        GOOD,
        failed(K.VALUES),
        {
            "Deployed": ("True", "UpdateSuccessful"),
            "ReleaseFailed": ("True", "UpdateError"),
            "Irreconcilable": ("True", "InvalidValues"),
        },
    ),
    "invalid spec": (
        GOOD,
        outcome(
            action=None, desired=None, decision=None, error=TerminalError("spec is a list", reason="InvalidValues")
        ),
        {
            "Deployed": ("True", "UpdateSuccessful"),
            "ReleaseFailed": ("False", "UpdateSuccessful"),
            "Irreconcilable": ("True", "InvalidValues"),
        },
    ),
    "API server gone on the first pass": (
        {},
        Outcome(generation=1, error=RetryableError("nobody answers", reason="ApiUnavailable")),
        {
            "Deployed": ("Unknown", "NotYetObserved"),
            "ReleaseFailed": ("False", "NotYetAttempted"),
            "Irreconcilable": ("True", "ApiUnavailable"),
        },
    ),
    "API server gone later": (
        GOOD,
        Outcome(generation=7, error=RetryableError("nobody answers", reason="ApiUnavailable")),
        {
            "Deployed": ("True", "UpdateSuccessful"),
            "ReleaseFailed": ("False", "UpdateSuccessful"),
            "Irreconcilable": ("True", "ApiUnavailable"),
        },
    ),
    "helm could not reach the API server": (
        GOOD,
        failed(K.UNREACHABLE, records=(record(),)),
        {
            "Deployed": ("True", "UpdateSuccessful"),
            "ReleaseFailed": ("False", "UpdateSuccessful"),
            "Irreconcilable": ("True", "ApiUnavailable"),
        },
    ),
    "foreign release": (
        {},
        in_sync(owned=False, records=(record(owner="uid-2"),)),
        {"Deployed": ("False", "NotInstalled")},
    ),
    "uninstall failed": (
        GOOD,
        failed(action=Action.UNINSTALL, records=(record(),), desired=None),
        {
            "Deployed": ("True", "UpdateSuccessful"),
            "ReleaseFailed": ("True", "UninstallError"),
            "Irreconcilable": ("False", "Reconciled"),
        },
    ),
    "uninstalled": (
        GOOD,
        outcome(action=Action.UNINSTALL, records=(), content=None, desired=None, uninstalled=True),
        {
            "Deployed": ("False", "UninstallSuccessful"),
            "ReleaseFailed": ("False", "UninstallSuccessful"),
            "Irreconcilable": ("False", "Reconciled"),
        },
    ),
}


@pytest.mark.parametrize(("previous", "result", "expected"), PATHS.values(), ids=PATHS)
def test_every_path_tells_its_conditions(previous, result, expected):
    seen = facts(build_status(previous, result, NOW))

    assert {type_: seen[type_] for type_ in expected} == expected
    assert {"Ready", "Deployed", "ReleaseFailed", "Irreconcilable"} <= set(seen)


def test_a_failed_upgrade_names_the_failed_revision_and_keeps_the_running_one():
    status = build_status(GOOD, failed(), NOW + 60)

    by_type = {c["type"]: c for c in status["conditions"]}
    assert by_type["Deployed"] == {**condition(GOOD, "Deployed"), "observedGeneration": 7}
    assert by_type["ReleaseFailed"]["release"]["revision"] == 4
    assert "must be between 1 and 65535" in by_type["ReleaseFailed"]["message"]
    assert status["deployedRelease"] == GOOD["deployedRelease"]
    assert status["lastAttempt"]["nextAttemptAt"]


def test_what_a_pass_could_not_look_at_stays_as_it_was():
    blip = Outcome(generation=7, error=RetryableError("nobody answers", reason="ApiUnavailable"))
    status = build_status(GOOD, blip, NOW + 60)

    assert status["deployedRelease"] == GOOD["deployedRelease"]
    assert condition(status, "Deployed") == condition(GOOD, "Deployed")
    assert condition(status, "Ready") == condition(GOOD, "Ready")


def test_a_pass_in_sync_changes_nothing_at_all():
    assert build_status(GOOD, in_sync(), NOW + 3600) == GOOD


def test_a_repeated_failure_moves_no_time_and_no_message():
    first = build_status(GOOD, failed(), NOW)
    second = build_status(first, failed(failures=2), NOW + 60)

    assert second["conditions"] == first["conditions"]


def test_foreign_fields_and_conditions_survive():
    mine = {"other": {"by": "someone"}, "conditions": [{"type": "Audited", "status": "True"}]}
    status = build_status(mine, outcome(), NOW)

    assert status["other"] == {"by": "someone"}
    assert status["conditions"][-1] == {"type": "Audited", "status": "True"}


def test_observed_generation_is_that_of_the_spec_the_pass_worked_on():
    status = build_status(GOOD, outcome(generation=8), NOW)

    assert status["observedGeneration"] == 8
    assert build_status({}, outcome(generation=None), NOW).get("observedGeneration") is None


def test_a_long_error_does_not_push_out_what_comes_next():
    error = HelmError("x" * 9000, kind=K.INVALID)
    status = build_status(GOOD, replace(failed(), helm_error=error), NOW)

    message = next(c["message"] for c in status["conditions"] if c["type"] == "ReleaseFailed")
    assert len(message.encode()) <= 4096
    assert "tried again" in message


def test_the_inventory_stays_until_the_last_object_is_gone():
    waiting = outcome(
        action=Action.UNINSTALL,
        records=(),
        content=None,
        desired=None,
        uninstalled=True,
        waiting_for=('ConfigMap "a"',),
    )
    status = build_status(GOOD, waiting, NOW)
    assert status["deployedRelease"]["status"] == "uninstalling"
    assert 'ConfigMap "a"' in condition(status, "Deployed")["message"]

    gone = build_status(status, replace(waiting, waiting_for=()), NOW)
    assert "deployedRelease" not in gone


@pytest.mark.parametrize("kind", IRRECONCILABLE)
def test_every_reason_is_one_that_the_api_server_accepts(kind):
    build_status(GOOD, failed(kind), NOW)


def test_another_input_counts_its_failures_afresh():
    before = Attempt("upgrade", "d1", succeeded=False, failures=4, next_attempt_at=None)

    assert failed_attempts(before, Action.UPGRADE, "d1") == 5
    assert failed_attempts(before, Action.UPGRADE, "d2") == 1
    assert failed_attempts(before, Action.UNINSTALL, "d1") == 1


def test_objects_whose_record_was_lost_are_remembered_until_a_revision_has_them_again():
    ref = ObjectRef("v1", "ConfigMap", "shop", "a")
    running = build_status(GOOD, outcome(inventory=(ref,)), NOW)
    lost = build_status(running, failed(K.RENDER, action=Action.INSTALL, records=()), NOW)

    assert "deployedRelease" not in lost
    assert recorded_leftovers(lost) == [ref]
    assert recorded_leftovers(build_status(lost, outcome(inventory=(ref,)), NOW)) == []
    assert recorded_leftovers(build_status(lost, outcome(inventory=()), NOW)) == [ref]


FOUND = Drift("DriftDetected", 'ConfigMap "a" (data.k)')
REFUSED = RetryableError('ConfigMap "a" could not be put right', reason="Forbidden")
GONE = RetryableError("nobody answers", reason="ApiUnavailable")


def after(*outcomes):
    status = GOOD
    for one in outcomes:
        status = build_status(status, one, NOW)
    return status


DRIFTED = {
    "never": (after(in_sync(health=HEALTHY, drift=Drift())), None, ("True", "Healthy")),
    "objects differ": (after(in_sync(health=HEALTHY, drift=FOUND)), "DriftDetected", ("False", "Drifted")),
    "they are as before": (
        after(in_sync(drift=FOUND), in_sync(health=HEALTHY, drift=Drift())),
        None,
        ("True", "Healthy"),
    ),
    "an upgrade wrote them": (after(in_sync(drift=FOUND), outcome(drift=Drift())), None, ("False", "Progressing")),
    "after a restart, before all were compared": (
        after(in_sync(drift=FOUND), in_sync(health=HEALTHY, drift=None)),
        "DriftDetected",
        ("False", "Drifted"),
    ),
    "a correction failed": (
        after(in_sync(error=REFUSED, drifted=True, drift=Drift())),
        "DriftCorrectionFailed",
        ("False", "Drifted"),
    ),
    "and was made up for": (
        after(in_sync(error=REFUSED, drifted=True), in_sync(health=HEALTHY, drift=Drift())),
        None,
        ("True", "Healthy"),
    ),
    "nobody answers": (
        after(in_sync(drift=FOUND), in_sync(error=GONE, drifted=True, drift=Drift())),
        "DriftDetected",
        ("False", "Drifted"),
    ),
    "nobody answered at all": (
        after(in_sync(drift=FOUND), Outcome(generation=7, error=GONE, drift=Drift())),
        "DriftDetected",
        ("False", "Drifted"),
    ),
    "an upgrade fails beside it": (
        after(in_sync(drift=FOUND), failed(drift=FOUND)),
        "DriftDetected",
        ("False", "OutOfSync"),
    ),
    "it is being deleted": (after(in_sync(drift=FOUND), in_sync(deleting=True)), None, ("False", "NotDeployed")),
    "the release is gone": (after(in_sync(drift=FOUND), in_sync(records=())), None, ("False", "NotDeployed")),
}


@pytest.mark.parametrize(("status", "reason", "ready"), DRIFTED.values(), ids=DRIFTED)
def test_drifted_is_there_while_objects_differ(status, reason, ready):
    found = facts(status)
    assert found.get("Drifted") == (None if reason is None else ("True", reason))
    assert found["Ready"] == ready


def test_what_is_missing_and_left_so_is_not_on_its_way():
    assert condition(after(in_sync(health=ROLLING, drift=FOUND)), "Reconciling") is None
    fight = replace(FOUND, reason="DriftContested")
    assert condition(after(in_sync(health=ROLLING, drift=fight)), "Reconciling")["reason"] == "Progressing"
