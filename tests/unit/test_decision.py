from dataclasses import replace

import pytest

from helm_operator.decision import Action, Attempt, decide
from helm_operator.release import ReleaseStatus
from tests.builders import IN_SYNC, NOW, desired, record

S = ReleaseStatus


def but(**changes):
    return replace(IN_SYNC, **changes)


def failed(action="upgrade", digest="d1", failures=3, due=NOW + 60):
    return Attempt(action, digest, succeeded=False, failures=failures, next_attempt_at=due)


def pending(attempt, age):
    return record(4, S.PENDING_UPGRADE, attempt=attempt, changed_at=NOW - age)


TABLE = {
    "a release in sync is left alone": (IN_SYNC, Action.NOTHING, "in sync"),
    "no release is installed": (but(records=()), Action.INSTALL, "no release"),
    "other inputs are an upgrade": (but(desired=desired("d2")), Action.UPGRADE, "inputs changed"),
    "a foreign release is never touched": (
        but(records=(record(owner="uid-2"),), desired=desired("d2")),
        Action.NOTHING,
        "belongs to",
    ),
    "a release without owner is foreign": (but(records=(record(owner=None),)), Action.NOTHING, "somebody else"),
    "the adoption annotation takes it over": (
        but(records=(record(owner=None),), adopt=True),
        Action.UPGRADE,
        "adopted",
    ),
    "a young pending revision is somebody's running action": (
        but(records=(record(4, S.PENDING_UPGRADE, changed_at=NOW - 10),)),
        Action.WAIT,
        "another action",
    ),
    "an old pending revision is recovered": (
        but(records=(record(4, S.PENDING_UPGRADE, changed_at=NOW - 331),)),
        Action.RECOVER,
        "left pending-upgrade",
    ),
    "what an earlier process of ours began is recovered soon": (
        but(records=(pending("old.1", 16), record(attempt="old.0")), process="new"),
        Action.RECOVER,
        "left pending-upgrade",
    ),
    "but not at once": (
        but(records=(pending("old.1", 14), record(attempt="old.0")), process="new"),
        Action.WAIT,
        "another process of this operator",
    ),
    "nor where another replica may be frozen with its helm running": (
        but(records=(pending("old.1", 60), record(attempt="old.0")), process="new", alone=False),
        Action.WAIT,
        "another process of this operator",
    ),
    "what this process began and does not run is recovered at once": (
        but(records=(pending("new.2", 0), record(attempt="new.1")), process="new"),
        Action.RECOVER,
        "left pending-upgrade",
    ),
    "a mark that was handed on tells that somebody else is at work": (
        but(records=(pending("new.1", 20), record(attempt="new.1")), process="new"),
        Action.WAIT,
        "another action",
    ),
    "a paused release is left alone": (but(paused=True, desired=desired("d2")), Action.PAUSE, "annotation"),
    "a pause does not hold up a deletion": (but(paused=True, deleting=True), Action.UNINSTALL, "deleted"),
    "a new revision is made when it is asked for": (but(forced=True), Action.UPGRADE, "annotation"),
    "being asked for it ends the pause between tries": (
        but(records=(record(4, S.FAILED), record()), attempt=failed(), forced=True),
        Action.UPGRADE,
        "is failed",
    ),
    "past failures can be forgotten": (
        but(records=(record(4, S.FAILED), record()), attempt=failed(due=None), forgiven=True),
        Action.UPGRADE,
        "is failed",
    ),
    "a custom resource that is let go leaves its release": (but(deleting=True, let_go=True), Action.LET_GO, "stays"),
    "a kept history is the end of an uninstall": (
        but(deleting=True, keep_history=True, records=(record(3, S.UNINSTALLED),)),
        Action.FINISH,
        "gone",
    ),
    "the kept history of an earlier custom resource is no conflict": (
        but(records=(record(3, S.UNINSTALLED, owner="uid-0"),)),
        Action.RECOVER,
        "left uninstalled",
    ),
    "a person's kept history is": (but(records=(record(3, S.UNINSTALLED, owner=None),)), Action.NOTHING, "belongs to"),
    "an uninstall by somebody is waited for": (
        but(records=(record(3, S.UNINSTALLING, changed_at=NOW - 1),)),
        Action.WAIT,
        "being uninstalled",
    ),
    "a half-done uninstall is finished first": (but(records=(record(3, S.UNINSTALLING),)), Action.RECOVER, "left"),
    "a failed revision waits for its next try": (
        but(records=(record(4, S.FAILED), record()), attempt=failed()),
        Action.WAIT,
        "failed 3 times",
    ),
    "a failed revision is tried again when due": (
        but(records=(record(4, S.FAILED), record()), attempt=failed(due=NOW - 1)),
        Action.UPGRADE,
        "is failed",
    ),
    "another input does not wait": (
        but(records=(record(4, S.FAILED), record()), attempt=failed(), desired=desired("d2")),
        Action.UPGRADE,
        "is failed",
    ),
    "a failure without a record waits too": (
        but(desired=desired("d2"), attempt=failed(digest="d2")),
        Action.WAIT,
        "next try",
    ),
    "a hopeless input is not tried again": (
        but(records=(), attempt=failed("install", due=None)),
        Action.WAIT,
        "cannot succeed",
    ),
    "a spec taken back is in sync at once": (but(attempt=failed(digest="d2")), Action.NOTHING, "in sync"),
    "no deployed revision is an upgrade": (but(records=(record(2, S.SUPERSEDED),)), Action.UPGRADE, "superseded"),
    "an unknown revision is examined": (but(recorded_revision=2), Action.EXAMINE, "not the one"),
    "a lost status is examined": (but(recorded_revision=None), Action.EXAMINE, "not the one"),
    "an examined revision of ours is in sync": (but(recorded_revision=2, examined=True), Action.NOTHING, "in sync"),
    "a revision made by hand is put right": (but(recorded_revision=2, examined=False), Action.UPGRADE, "by hand"),
    "suspect objects are compared": (but(suspects=2), Action.REPAIR, "2 objects"),
    "deleting uninstalls": (but(deleting=True, desired=None), Action.UNINSTALL, "being deleted"),
    "deleting needs no rendering": (but(deleting=True, desired=None, suspects=1), Action.UNINSTALL, "being deleted"),
    "deleting without release only finishes": (but(deleting=True, desired=None, records=()), Action.FINISH, "gone"),
    "deleting leaves a foreign release alone": (
        but(deleting=True, desired=None, records=(record(owner="uid-2"),)),
        Action.LET_GO,
        "does not belong",
    ),
    "a failed uninstall waits for its next try": (
        but(deleting=True, desired=None, attempt=failed("uninstall")),
        Action.WAIT,
        "uninstall failed",
    ),
    "a failed upgrade does not hold a deletion back": (
        but(deleting=True, desired=None, attempt=failed("upgrade")),
        Action.UNINSTALL,
        "being deleted",
    ),
}


@pytest.mark.parametrize(("situation", "action", "because"), TABLE.values(), ids=TABLE)
def test_decision(situation, action, because):
    decision = decide(situation)

    assert decision.action is action
    assert because in decision.because


def test_a_conflict_and_a_lock_say_that_nothing_can_be_done_now():
    assert decide(but(records=(record(owner="uid-2"),))).blocked == "ReleaseConflict"
    locked = decide(but(records=(record(4, S.PENDING_INSTALL, changed_at=NOW - 10),)))
    assert (locked.blocked, locked.again_after) == ("ReleaseLocked", 320)


@pytest.mark.parametrize("status", ReleaseStatus)
@pytest.mark.parametrize("deleting", [False, True])
def test_every_helm_status_gets_a_decision(status, deleting):
    assert decide(but(records=(record(4, status),), deleting=deleting)).because
