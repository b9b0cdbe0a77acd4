"""What to do about one release: a pure function from the situation to an action and its reason.

`CHECKS` is the order; the first check that has an opinion wins.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from helm_operator.release import ADOPT_ANNOTATION, DesiredRelease, ReleaseRecord, ReleaseStatus

LOCK_GRACE: Final = 30.0
"""Seconds beyond Helm's time-out after which an unfinished revision counts as abandoned."""

TAKE_OVER_GRACE: Final = 15.0
"""The same for one that another process of this operator began: Helm ends with its operator."""


class Action(StrEnum):
    """What a pass does; the words appear in status.lastAttempt and in log lines."""

    NOTHING = "nothing"
    WAIT = "wait"
    EXAMINE = "examine"
    """Read the newest revision's payload: its labels alone do not tell whether it is ours."""
    INSTALL = "install"
    UPGRADE = "upgrade"
    REPAIR = "repair"
    """Compare the objects with the manifest, and put right what differs."""
    RECOVER = "recover"
    """Bring a release that was left half-way into a state that Helm can act on."""
    UNINSTALL = "uninstall"
    FINISH = "finish"
    """The release is gone; see that its objects are, then let the custom resource go."""
    LET_GO = "let go"
    """The release is somebody else's, or shall stay; only our finalizer goes."""
    PAUSE = "pause"
    """Nothing, for as long as the annotation stands."""

    @property
    def runs_helm(self) -> bool:
        return self in _HELM_ACTIONS


_HELM_ACTIONS: Final = frozenset({Action.INSTALL, Action.UPGRADE, Action.RECOVER, Action.UNINSTALL})


@dataclass(frozen=True, slots=True)
class Attempt:
    """The newest try, as status.lastAttempt keeps it. Times are Unix seconds."""

    action: str
    input_digest: str
    succeeded: bool
    failures: int
    """Failed tries in a row with this digest."""
    next_attempt_at: float | None
    """None after a success, and where only another input helps."""

    @classmethod
    def from_status(cls, status: Mapping[str, Any]) -> Attempt | None:
        """Read status.lastAttempt; None where there is none that can be read."""
        last = status.get("lastAttempt")
        if not isinstance(last, Mapping) or "succeeded" not in last:
            return None
        try:
            due = last.get("nextAttemptAt")
            return cls(
                action=str(last.get("action", "")),
                input_digest=str(last.get("inputDigest", "")),
                succeeded=bool(last["succeeded"]),
                failures=int(last.get("failures", 0)),
                next_attempt_at=datetime.datetime.fromisoformat(due).timestamp() if due else None,
            )
        except (TypeError, ValueError):  # Somebody edited the status: start counting afresh.
            return None


@dataclass(frozen=True, slots=True)
class Situation:
    """All that a decision depends on."""

    owner_uid: str
    deleting: bool
    records: tuple[ReleaseRecord, ...]
    """The release's revisions, newest first."""
    desired: DesiredRelease | None
    """None only when deleting."""
    attempt: Attempt | None
    recorded_revision: int | None
    """status.deployedRelease.revision: the revision that we know to be ours."""
    now: float
    """Unix time in seconds."""
    examined: bool | None = None
    """Whether the newest revision holds the desired values and chart; None: not looked."""
    suspects: int = 0
    """Objects that may differ from the manifest."""
    adopt: bool = False
    """The adoption annotation stands and was not used yet."""
    lock_timeout: float = 300.0
    """Seconds for which an unfinished revision may be somebody's running action."""
    paused: bool = False
    forced: bool = False
    """A new revision is asked for by annotation, whatever the inputs."""
    forgiven: bool = False
    """Past failures are to be forgotten, by annotation."""
    let_go: bool = False
    """On deletion, the release stays."""
    keep_history: bool = False
    """On deletion, the records of the release stay."""
    alone: bool = True
    """Whether no other replica can be at work; one that is frozen could be."""
    process: str = ""
    """This operator process, as in ATTEMPT_LABEL. It runs nothing on the release while it decides."""

    @property
    def newest(self) -> ReleaseRecord | None:
        return self.records[0] if self.records else None


@dataclass(frozen=True, slots=True)
class Decision:
    """An action, and why, in words for the log, the events and status.lastAttempt.because."""

    action: Action
    because: str
    blocked: str | None = None
    """The reason for Irreconcilable=True, where the release cannot be worked on."""
    again_after: float | None = None
    """Seconds until another look is due, whatever happens."""


Check = Callable[[Situation], Decision | None]


def decide(situation: Situation) -> Decision:
    """Return what to do now; total, and without side effects."""
    for check in CHECKS:
        decision = check(situation)
        if decision is not None:
            return decision
    return Decision(Action.NOTHING, "in sync")


def _deleting(s: Situation) -> Decision | None:
    if not s.deleting:
        return None
    if s.let_go:
        return Decision(Action.LET_GO, "the release stays, as the annotation or the watch asks")
    if s.newest is None or (s.newest.status is ReleaseStatus.UNINSTALLED and s.keep_history):
        return Decision(Action.FINISH, "the custom resource is being deleted and its release is gone")
    if s.newest.owner_uid != s.owner_uid:
        return Decision(Action.LET_GO, "the release does not belong to this custom resource")
    waiting = _locked(s.newest, s) or _not_yet(s, "uninstall", digest=None)
    return waiting or Decision(Action.UNINSTALL, "the custom resource is being deleted")


def _paused(s: Situation) -> Decision | None:
    return Decision(Action.PAUSE, "paused by annotation") if s.paused else None


def _conflict(s: Situation) -> Decision | None:
    if s.newest is None or s.newest.owner_uid == s.owner_uid:
        return None
    if s.newest.status is ReleaseStatus.UNINSTALLED and s.newest.owner_uid:
        return None  # Only the kept history of an earlier custom resource.
    key = s.newest.key
    if s.adopt:
        return _locked(s.newest, s) or Decision(Action.UPGRADE, f"adopted by the annotation {ADOPT_ANNOTATION}")
    owner = f"custom resource with uid {s.newest.owner_uid}" if s.newest.owner_uid else "somebody else"
    return Decision(
        Action.NOTHING,
        f'release "{key.name}" exists in namespace "{key.namespace}" and belongs to {owner}; it is left alone. '
        f"Rename this custom resource or remove that release, or take the release over with the annotation "
        f'{ADOPT_ANNOTATION}: "{key.name}" (from then on, deleting this custom resource uninstalls it)',
        blocked="ReleaseConflict",
    )


def _pending(s: Situation) -> Decision | None:
    if s.newest is None or not s.newest.status.pending:
        return None
    return _locked(s.newest, s) or Decision(
        Action.RECOVER,
        f"revision {s.newest.revision} was left {s.newest.status} and nobody works on it any more",
    )


def _uninstalling(s: Situation) -> Decision | None:
    """An uninstall that was begun (or done with its history kept) is finished before anything else."""
    if s.newest is None or s.newest.status not in (ReleaseStatus.UNINSTALLING, ReleaseStatus.UNINSTALLED):
        return None
    left = s.newest.changed_at + LOCK_GRACE - s.now
    if s.newest.status is ReleaseStatus.UNINSTALLING and left > 0:
        return Decision(
            Action.WAIT,
            f'release "{s.newest.key.name}" is being uninstalled by somebody; it is installed again once it is gone, '
            f"and what is left at {_clock(s.newest.changed_at + LOCK_GRACE)} is removed first",
            blocked="ReleaseLocked",
            again_after=left,
        )
    return Decision(Action.RECOVER, f"revision {s.newest.revision} was left {s.newest.status}")


def _backing_off(s: Situation) -> Decision | None:
    if s.desired is None or (_matches(s) and s.newest and s.newest.status is ReleaseStatus.DEPLOYED):
        return None
    return _not_yet(s, None, digest=s.desired.input_digest)


def _absent(s: Situation) -> Decision | None:
    return None if s.records else Decision(Action.INSTALL, "there is no release yet")


def _not_deployed(s: Situation) -> Decision | None:
    if s.newest is None or s.newest.status is ReleaseStatus.DEPLOYED:
        return None
    return Decision(Action.UPGRADE, f"revision {s.newest.revision} is {s.newest.status}")


def _outdated(s: Situation) -> Decision | None:
    return None if _matches(s) else Decision(Action.UPGRADE, "the inputs changed")


def _unknown_revision(s: Situation) -> Decision | None:
    """Labels survive a `helm upgrade` by hand, and our own status may have been lost."""
    if s.newest is None or s.newest.revision == s.recorded_revision:
        return None
    if s.examined is None:
        return Decision(Action.EXAMINE, f"revision {s.newest.revision} is not the one that we recorded")
    if not s.examined:
        return Decision(Action.UPGRADE, f"revision {s.newest.revision} was made by hand with other values")
    return None


def _forced(s: Situation) -> Decision | None:
    return Decision(Action.UPGRADE, "asked for by annotation") if s.forced else None


def _suspect(s: Situation) -> Decision | None:
    if not s.suspects:
        return None
    return Decision(Action.REPAIR, f"{s.suspects} object{'s' if s.suspects > 1 else ''} may have changed")


CHECKS: Final[tuple[Check, ...]] = (
    _deleting,
    _paused,
    _conflict,  # Never touch what is not ours.
    _pending,  # Never act beside somebody else.
    _uninstalling,
    _backing_off,
    _absent,
    _not_deployed,
    _outdated,
    _unknown_revision,
    _forced,
    _suspect,
)


def _matches(s: Situation) -> bool:
    return s.newest is not None and s.desired is not None and s.newest.input_digest == s.desired.input_digest


def _locked(record: ReleaseRecord, s: Situation) -> Decision | None:
    """Wait while an unfinished revision may still be somebody's running action."""
    if not record.status.pending:
        return None
    maker = _maker(record, s)
    if maker == s.process and maker:
        return None  # Our own helm was killed.
    soon = bool(maker) and s.alone
    abandoned_at = record.changed_at + (TAKE_OVER_GRACE if soon else s.lock_timeout + LOCK_GRACE)
    if abandoned_at <= s.now:
        return None
    who = "another process of this operator began it" if maker else "another action is under way, or was cut off"
    return Decision(
        Action.WAIT,
        f'release "{record.key.name}" is {record.status} (revision {record.revision}): {who}. It is looked at again '
        f"when it changes; at {_clock(abandoned_at)} it counts as abandoned and is recovered",
        blocked="ReleaseLocked",
        again_after=abandoned_at - s.now,
    )


def _maker(record: ReleaseRecord, s: Situation) -> str:
    """Return the operator process that made a revision; "" where somebody else did, or may have."""
    handed_on = any(other.attempt == record.attempt for other in s.records if other.revision < record.revision)
    return "" if handed_on or not record.attempt else record.attempt.partition(".")[0]


def _not_yet(s: Situation, action: str | None, *, digest: str | None) -> Decision | None:
    """Hold the next try back after a failure with the same input."""
    last = s.attempt
    if s.forced or s.forgiven:
        return None
    if last is None or last.succeeded or last.failures < 1:
        return None
    if (digest is not None and last.input_digest != digest) or (action is not None and last.action != action):
        return None
    if digest is not None and last.action == "uninstall":
        return None
    if last.next_attempt_at is None:
        return Decision(Action.WAIT, f"{last.action} cannot succeed before the spec or the chart changes")
    left = last.next_attempt_at - s.now
    if left <= 0:
        return None
    return Decision(
        Action.WAIT,
        f"{last.action} failed {last.failures} time{'s' if last.failures > 1 else ''} in a row; "
        f"the next try is at {_clock(last.next_attempt_at)}",
        again_after=left,
    )


def _clock(seconds: float) -> str:
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
