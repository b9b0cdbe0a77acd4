"""The whole status of a custom resource, computed once from what one pass saw and did.

`build_status` is pure. Who calls it writes the result only where it differs.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from helm_operator.conditions import Condition, ConditionSet, ConditionType, cut
from helm_operator.decision import Action, Attempt, Decision
from helm_operator.drift import DETECTED, Drift
from helm_operator.errors import HelmError, HelmErrorKind, PassError, TerminalError
from helm_operator.health import Health, Summary
from helm_operator.release import (
    DesiredRelease,
    Json,
    ObjectRef,
    ReleaseContent,
    ReleaseRecord,
    ReleaseStatus,
)
from helm_operator.values import digest

HISTORY: Final = 5
"""Revisions that status.history shows, newest first."""

_SUCCESS: Final = {
    Action.INSTALL: "InstallSuccessful",
    Action.UPGRADE: "UpdateSuccessful",
    Action.RECOVER: "RecoverySuccessful",
    Action.UNINSTALL: "UninstallSuccessful",
}
_FAILURE: Final = {
    Action.INSTALL: "InstallError",
    Action.UPGRADE: "UpdateError",
    Action.RECOVER: "UninstallError",
    Action.UNINSTALL: "UninstallError",
}

IRRECONCILABLE: Final = {
    HelmErrorKind.VALUES: "InvalidValues",
    HelmErrorKind.RENDER: "RenderError",
    HelmErrorKind.CHART: "ChartError",
    HelmErrorKind.OWNERSHIP: "OwnershipConflict",
    HelmErrorKind.NAME_IN_USE: "ReleaseConflict",
    HelmErrorKind.LOCKED: "ReleaseLocked",
    HelmErrorKind.UNREACHABLE: "ApiUnavailable",
    HelmErrorKind.FORBIDDEN: "Forbidden",
    HelmErrorKind.CRASHED: "HelmUnavailable",
    HelmErrorKind.TOO_LARGE: "ReleaseTooLarge",
}
"""Failures that kept Helm from acting at all; the others are a failed action and no more."""

CORRECTION_FAILED: Final = "DriftCorrectionFailed"
"""The reason of Drifted beside an Irreconcilable that has the cause."""

_NOT_TRIED: Final = frozenset(
    {
        HelmErrorKind.LOCKED,
        HelmErrorKind.UNREACHABLE,
        HelmErrorKind.NAME_IN_USE,
        HelmErrorKind.CRASHED,
        HelmErrorKind.CANCELLED,
    }
)
"""Helm never got to the release: whether the release failed is not known, so it stays as it was."""

TERMINAL: Final = frozenset({HelmErrorKind.VALUES, HelmErrorKind.TOO_LARGE})
"""The same input fails in the same way for ever: no retry before it changes."""


@dataclass(slots=True)
class Outcome:
    """What one pass saw and did, filled in step by step; an early end leaves the rest empty."""

    generation: int | None
    looked: bool = False
    """Whether `records` were observed."""
    records: tuple[ReleaseRecord, ...] = ()
    owned: bool = True
    deleting: bool = False
    """Whether the custom resource is being deleted."""
    content: ReleaseContent | None = None
    """The deployed revision's payload, where it was read; texts are redacted."""
    desired: DesiredRelease | None = None
    decision: Decision | None = None
    action: Action | None = None
    """The Helm action that was tried."""
    because: str = ""
    started_at: float = 0.0
    finished_at: float = 0.0
    """Unix time in seconds."""
    failures: int = 0
    next_attempt_at: float | None = None
    helm_error: HelmError | None = None
    error: PassError | None = None
    """What ended the pass before, or beside, a Helm action."""
    health: Summary | None = None
    """The health of the running revision's objects; None: not looked at."""
    capped: bool = False
    """Whether the pauses between tries have grown to their limit."""
    drifted: bool = False
    """Whether `error` tells that a changed object could not be put right."""
    drift: Drift | None = None
    """Objects that are not put right (now), where no error tells of them; None: not all were compared yet."""
    uninstalled: bool = False
    waiting_for: tuple[str, ...] = ()
    """Objects of the uninstalled release that are still there, in words."""
    inventory: tuple[ObjectRef, ...] = field(default=())
    adopted: Json | None = None
    handled: Json | None = None
    """Tokens of one-shot annotations that were acted upon, by annotation."""


def build_status(previous: Mapping[str, Any], outcome: Outcome, now: float) -> Json:
    """Return the status that `outcome` makes of `previous`; `now` is Unix time in seconds.

    Fields and conditions of others are kept. Nothing that the pass did not look at changes.
    """
    status: Json = dict(previous)
    conditions = ConditionSet(previous.get("conditions") or (), generation=outcome.generation, now=timestamp(now))
    if outcome.generation is not None:
        status["observedGeneration"] = outcome.generation
    _deployed(status, conditions, outcome)
    _release_failed(conditions, outcome)
    paused = outcome.decision is not None and outcome.decision.action is Action.PAUSE and outcome.error is None
    if paused:
        record, desired = deployed_record(outcome.records), outcome.desired
        if record is None or (desired is not None and record.input_digest != desired.input_digest):
            message = "paused by annotation, while the spec asks for something else"
            conditions.observe_absence(ConditionType.READY, "OutOfSync", message)
        message = "nothing is installed, upgraded or repaired before the annotation is taken away"
        conditions.observe_condition(ConditionType.PAUSED, "Paused", message)
    else:
        if outcome.decision is not None:
            conditions.remove(ConditionType.PAUSED)
        _irreconcilable(conditions, outcome)
        _drifted(conditions, outcome)
        _ready(conditions, outcome)
        _progress(conditions, outcome)
    if outcome.action is not None:
        status["lastAttempt"] = _last_attempt(outcome)
    elif _in_sync(outcome) and isinstance(previous.get("lastAttempt"), Mapping):
        # A bad input was taken back: the failure was, but nothing is tried again.
        status["lastAttempt"] = {k: v for k, v in previous["lastAttempt"].items() if k != "nextAttemptAt"}
    if outcome.looked and outcome.owned:
        _history(status, outcome)
    if outcome.adopted is not None:
        status["adoption"] = outcome.adopted
    if outcome.handled is not None:
        status["handledAnnotations"] = {**(previous.get("handledAnnotations") or {}), **outcome.handled}
    status["conditions"] = conditions.as_list()
    return status


def timestamp(seconds: float) -> str:
    """Return Unix time as RFC 3339 in UTC, to the second (Kubernetes keeps no more)."""
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def deployed_record(records: tuple[ReleaseRecord, ...]) -> ReleaseRecord | None:
    """Return the revision that Helm counts as running: the newest that is `deployed`."""
    return next((record for record in records if record.status is ReleaseStatus.DEPLOYED), None)


def recorded_revision(status: Mapping[str, Any]) -> int | None:
    """Return status.deployedRelease.revision, None where there is none."""
    deployed = status.get("deployedRelease")
    revision = deployed.get("revision") if isinstance(deployed, Mapping) else None
    return revision if isinstance(revision, int) else None


def recorded_inventory(status: Mapping[str, Any]) -> list[ObjectRef]:
    """Return the objects in status.deployedRelease.resources; entries that cannot be read are left out."""
    deployed = status.get("deployedRelease")
    return _refs(deployed.get("resources")) if isinstance(deployed, Mapping) else []


def recorded_leftovers(status: Mapping[str, Any]) -> list[ObjectRef]:
    """Return status.leftovers: objects of revisions whose records were lost before their objects went."""
    return _refs(status.get("leftovers"))


def _refs(entries: Any) -> list[ObjectRef]:
    return [
        ObjectRef(entry["apiVersion"], entry["kind"], entry.get("namespace") or "", entry["name"])
        for entry in (entries if isinstance(entries, list) else ())
        if isinstance(entry, Mapping) and {"apiVersion", "kind", "name"} <= entry.keys()
    ]


def made_of(content: ReleaseContent, desired: DesiredRelease) -> bool:
    """Return whether a revision holds the desired chart version and values."""
    same_chart = (content.chart.name, content.chart.version) == (desired.chart.name, desired.chart.version)
    return same_chart and digest(content.values) == desired.values_digest


def tells_of(status: Mapping[str, Any], record: ReleaseRecord) -> bool:
    """Return whether a status already describes this deployed revision; if not, its payload is needed."""
    return recorded_revision(status) == record.revision and any(
        entry.get("type") == ConditionType.DEPLOYED and entry.get("status") == "True"
        for entry in status.get("conditions") or ()
        if isinstance(entry, Mapping)
    )


def merge_patch(old: Mapping[str, Any], new: Mapping[str, Any]) -> Json:
    """Return the JSON merge patch (RFC 7386) that makes `new` of `old`; empty where they are equal.

    `new` holds no nulls: a merge patch cannot write one.
    """
    patch: Json = dict.fromkeys(old.keys() - new.keys())
    for name, value in new.items():
        before = old.get(name)
        if name in old and before == value:
            continue
        nested = isinstance(before, Mapping) and isinstance(value, Mapping)
        patch[name] = merge_patch(before, value) if nested else value  # type: ignore[arg-type]
    return patch


def _deployed(status: Json, conditions: ConditionSet, outcome: Outcome) -> None:
    if not outcome.looked:
        if ConditionType.DEPLOYED not in conditions:
            conditions.observe_unknown(
                ConditionType.DEPLOYED, "NotYetObserved", "the release could not be looked at yet"
            )
        return
    record = deployed_record(outcome.records) if outcome.owned else None
    if outcome.uninstalled:
        _uninstalled(status, conditions, outcome)
    elif record is not None:
        _running(status, conditions, outcome, record)
    elif outcome.deleting and outcome.owned and "deployedRelease" in status:
        # Its inventory is needed until the last object is gone.
        status["deployedRelease"] = {**status["deployedRelease"], "status": "uninstalling"}
        conditions.observe_absence(
            ConditionType.DEPLOYED,
            "Uninstalling",
            "the release is being uninstalled; status.deployedRelease.resources lists what it consisted of",
        )
    else:
        _set_leftovers(status, [*recorded_leftovers(status), *recorded_inventory(status)])
        status.pop("deployedRelease", None)
        reason, message = _nothing_runs(outcome, conditions.get(ConditionType.DEPLOYED))
        conditions.observe_absence(ConditionType.DEPLOYED, reason, message)


def _set_leftovers(status: Json, refs: Iterable[ObjectRef]) -> None:
    """Remember objects that no record tells of any more, for the time when the custom resource is deleted."""
    left = [ref.as_json() for ref in dict.fromkeys(refs)]
    if left:
        status["leftovers"] = left
    else:
        status.pop("leftovers", None)


def _running(status: Json, conditions: ConditionSet, outcome: Outcome, record: ReleaseRecord) -> None:
    before = conditions.get(ConditionType.DEPLOYED)
    content = outcome.content
    if content is not None and content.revision == record.revision:
        status["deployedRelease"] = _deployed_release(outcome, record, content)
        running = set(recorded_inventory(status))
        _set_leftovers(status, [ref for ref in recorded_leftovers(status) if ref not in running])
        reason, message = _deployed_reason(content, outcome.records), content.notes.strip()
    elif tells_of(status, record):
        assert before is not None  # noqa: S101 - tells_of has looked
        reason, message = before["reason"], before["message"]
    else:
        status["deployedRelease"] = {**_release_ref(record), "status": str(record.status)}
        reason, message = ("InstallSuccessful" if record.revision == 1 else "UpdateSuccessful"), ""
    release = _release_ref(record, status["deployedRelease"].get("chart"))
    message = message or f"release {record.key.name} is deployed in namespace {record.key.namespace}"
    conditions.observe_condition(ConditionType.DEPLOYED, reason, message, release)


def _deployed_reason(content: ReleaseContent, records: tuple[ReleaseRecord, ...]) -> str:
    """Helm's description and records tell which action made a revision, also after a restart."""
    if content.description.startswith("Rollback"):
        return "RollbackSuccessful"
    older = [record for record in records if record.revision < content.revision]
    first = len(older) == content.revision - 1 and never_deployed(older)
    return "InstallSuccessful" if first else "UpdateSuccessful"


def never_deployed(records: Iterable[ReleaseRecord]) -> bool:
    """Return whether none of these revisions ever ran: what is tried is still the first install."""
    return all(record.status in (ReleaseStatus.FAILED, ReleaseStatus.PENDING_INSTALL) for record in records)


def _deployed_release(outcome: Outcome, record: ReleaseRecord, content: ReleaseContent) -> Json:
    chart = {"name": content.chart.name, "version": content.chart.version}
    if content.chart.app_version:
        chart["appVersion"] = content.chart.app_version
    known = outcome.desired if outcome.desired and outcome.desired.input_digest == record.input_digest else None
    deployed: Json = {
        "name": record.key.name,
        "namespace": record.key.namespace,
        "revision": record.revision,
        "status": str(record.status),
        "chart": chart,
        "firstDeployed": content.first_deployed,
        "lastDeployed": content.last_deployed,
        "resources": [ref.as_json() for ref in outcome.inventory],
    }
    if known is not None:
        chart["digest"] = known.chart.digest
        deployed["valuesDigest"] = known.values_digest
    return deployed


def _nothing_runs(outcome: Outcome, before: Condition | None) -> tuple[str, str]:
    if not outcome.owned:
        return (
            "NotInstalled",
            "nothing of this custom resource is deployed: the release belongs to somebody else",
        )
    error = outcome.helm_error
    if outcome.action in (Action.INSTALL, Action.UPGRADE) and error is not None and error.kind not in _NOT_TRIED:
        return "InstallError", "nothing is deployed: the install failed, see ReleaseFailed"
    if before is not None and before["status"] == "False":
        return before["reason"], before["message"]
    return "NotInstalled", "nothing is deployed"


def _uninstalled(status: Json, conditions: ConditionSet, outcome: Outcome) -> None:
    if outcome.waiting_for:
        message = "the release is uninstalled; waiting for its objects to go: " + ", ".join(outcome.waiting_for)
        if "deployedRelease" in status:  # Its inventory is needed until the last object is gone.
            status["deployedRelease"] = {**status["deployedRelease"], "status": "uninstalling"}
    else:
        message = "the release is uninstalled and its objects are gone"
        status.pop("deployedRelease", None)
        status.pop("leftovers", None)
    conditions.observe_absence(ConditionType.DEPLOYED, "UninstallSuccessful", message)


def _release_failed(conditions: ConditionSet, outcome: Outcome) -> None:
    error = outcome.helm_error
    if outcome.action is not None and error is not None and error.kind not in _NOT_TRIED:
        reason = _FAILURE[outcome.action]
        conditions.observe_condition(
            ConditionType.RELEASE_FAILED, reason, _failure_message(outcome, error), _failed_release(outcome)
        )
    elif outcome.action is not None and error is None:
        message = f"the newest Helm action, {outcome.action}, succeeded"
        conditions.observe_absence(ConditionType.RELEASE_FAILED, _SUCCESS[outcome.action], message)
    elif _in_sync(outcome):
        before = conditions.get(ConditionType.RELEASE_FAILED)
        if before is None or before["status"] != "False":
            # A bad spec was taken back, or the last write of the status was lost.
            deployed = conditions.get(ConditionType.DEPLOYED)
            reason = deployed["reason"] if deployed else "Reconciled"
            conditions.observe_absence(ConditionType.RELEASE_FAILED, reason, "the release is as the spec asks")
        else:
            conditions.observe_absence(ConditionType.RELEASE_FAILED, before["reason"], before["message"])
    elif ConditionType.RELEASE_FAILED not in conditions:
        conditions.observe_absence(
            ConditionType.RELEASE_FAILED,
            "NotYetAttempted",
            "no Helm action was tried for this custom resource",
        )


def _in_sync(outcome: Outcome) -> bool:
    decision = outcome.decision
    return (
        outcome.error is None
        and decision is not None
        and decision.blocked is None
        and decision.action in (Action.NOTHING, Action.REPAIR)
    )


def _failure_message(outcome: Outcome, error: HelmError) -> str:
    keeps = deployed_record(outcome.records) if outcome.looked and outcome.owned else None
    parts = [f"{outcome.action} failed: {_sentence(str(error))}"]
    if outcome.action is Action.UNINSTALL:
        parts.append("The custom resource stays until its release is uninstalled.")
    elif keeps is not None:
        parts.append(f"Revision {keeps.revision} stays deployed.")
    parts.append(_what_next(outcome))
    tail = " ".join(parts[1:])
    # What happens next must survive a long error text.
    return cut(parts[0], 4000 - len(tail.encode())) + " " + tail


def _what_next(outcome: Outcome) -> str:
    if outcome.next_attempt_at is None:
        return "It is not tried again before the spec or the chart changes."
    return (
        "It is tried again with growing pauses (status.lastAttempt.nextAttemptAt), "
        "and at once when the spec or the chart changes."
    )


def _failed_release(outcome: Outcome) -> Json | None:
    records = outcome.records if outcome.looked and outcome.owned else ()
    digest_ = outcome.desired.input_digest if outcome.desired else None
    # A remediation may have put a good revision on top of the failed one.
    failed = (record for record in records if record.status is ReleaseStatus.FAILED and record.input_digest == digest_)
    newest = next(failed, records[0] if records else None)
    chart = {"name": outcome.desired.chart.name, "version": outcome.desired.chart.version} if outcome.desired else None
    if newest is not None and newest.status is not ReleaseStatus.DEPLOYED:
        return _release_ref(newest, chart)
    if outcome.desired is None:
        return _release_ref(newest) if newest is not None else None
    # Helm refused before it wrote a record: there is a release that failed, but no revision.
    key = outcome.desired.key
    return {
        "name": key.name,
        "namespace": key.namespace,
        "chart": str(outcome.desired.chart),
        "status": "failed",
    }


def _irreconcilable(conditions: ConditionSet, outcome: Outcome) -> None:
    type_ = ConditionType.IRRECONCILABLE
    helm_reason = IRRECONCILABLE.get(outcome.helm_error.kind) if outcome.helm_error is not None else None
    decision = outcome.decision
    cancelled = outcome.helm_error is not None and outcome.helm_error.kind is HelmErrorKind.CANCELLED
    if outcome.error is not None:
        conditions.observe_condition(type_, outcome.error.reason, str(outcome.error))
    elif helm_reason is not None:
        message = f"{_sentence(str(outcome.helm_error))} {_what_next(outcome)}"
        conditions.observe_condition(type_, helm_reason, message)
    elif decision is not None and decision.blocked is not None and outcome.action is None:
        conditions.observe_condition(type_, decision.blocked, decision.because)
    elif (outcome.action is not None and not cancelled) or outcome.uninstalled or _in_sync(outcome):
        conditions.observe_absence(type_, "Reconciled", "nothing keeps the operator from working on the release")
    elif type_ not in conditions:
        conditions.observe_unknown(type_, "NotYetObserved", "no pass has come to an end yet")


def _drifted(conditions: ConditionSet, outcome: Outcome) -> None:
    """There only while it is True."""
    type_ = ConditionType.DRIFTED
    if not outcome.looked:
        return
    if outcome.deleting or not outcome.owned or deployed_record(outcome.records) is None:
        conditions.remove(type_)
    elif outcome.drifted and outcome.error is not None:
        if outcome.error.reason not in _SAYS_NOTHING:
            conditions.observe_condition(type_, CORRECTION_FAILED, str(outcome.error))
    elif outcome.drift is not None:
        if outcome.drift.reason:
            conditions.observe_condition(type_, outcome.drift.reason, outcome.drift.message)
        else:
            conditions.remove(type_)


_SAYS_NOTHING: Final = frozenset({"ApiUnavailable", "InternalError", "ReleaseLocked"})
"""Reasons why a pass ended that tell nothing of the release: Ready stays as it was."""


def _ready(conditions: ConditionSet, outcome: Outcome) -> None:
    type_ = ConditionType.READY
    record = deployed_record(outcome.records) if outcome.looked and outcome.owned else None
    blocked = outcome.decision.blocked if outcome.decision is not None else None
    trouble = outcome.error.reason if outcome.error is not None else blocked
    if not outcome.looked or trouble in _SAYS_NOTHING:
        if type_ not in conditions:
            conditions.observe_unknown(type_, "NotYetObserved", "the release could not be looked at yet")
    elif outcome.deleting:
        conditions.observe_absence(type_, "NotDeployed", "the release is being uninstalled")
    elif record is None:
        conditions.observe_absence(type_, "NotDeployed", "nothing is deployed")
    elif outcome.drifted:
        conditions.observe_absence(type_, "Drifted", str(outcome.error))
    elif outcome.error is not None and outcome.error.reason != "InvalidValues":
        message = f"revision {record.revision} runs; whether it is what the spec asks for cannot be told"
        conditions.observe_unknown(type_, outcome.error.reason, f"{message}: see Irreconcilable")
    elif not _as_asked(outcome):
        conditions.observe_absence(
            type_,
            "OutOfSync",
            f"revision {record.revision} runs, but it is not what the spec asks for: "
            "see ReleaseFailed and Irreconcilable",
        )
    elif (drifted := conditions.get(ConditionType.DRIFTED)) is not None:
        conditions.observe_absence(type_, "Drifted", drifted["message"])
    elif outcome.health is not None:
        _healthy(conditions, outcome.health)
    elif type_ not in conditions or outcome.action is not None:
        message = f"revision {record.revision} is deployed; its objects are being looked at"
        conditions.observe_absence(type_, "Progressing", message)


def _as_asked(outcome: Outcome) -> bool:
    """Whether the running revision is what the spec asks for."""
    return _in_sync(outcome) or (outcome.action is not None and outcome.helm_error is None and outcome.error is None)


def _healthy(conditions: ConditionSet, health: Summary) -> None:
    match health.health:
        case Health.HEALTHY:
            conditions.observe_condition(ConditionType.READY, health.reason, health.message)
        case Health.UNKNOWN:
            conditions.observe_unknown(ConditionType.READY, health.reason, health.message)
        case _:
            conditions.observe_absence(ConditionType.READY, health.reason, health.message)


def _progress(conditions: ConditionSet, outcome: Outcome) -> None:
    """Reconciling and Stalled: there only while they are True, and never both."""
    decision, error = outcome.decision, outcome.error
    waits = decision is not None and decision.action is Action.WAIT and error is None and outcome.action is None
    unseen = outcome.health is None and outcome.action is None and error is None and not outcome.deleting
    blocked = decision is not None and decision.blocked is not None
    if not outcome.looked or waits or (unseen and not blocked):
        return  # Nothing new: the pause between two tries goes on, or the objects are not in sight yet.
    progress = _what_goes_on(outcome)
    for type_ in (ConditionType.RECONCILING, ConditionType.STALLED):
        if progress is not None and progress[0] is type_:
            conditions.observe_condition(*progress)
        else:
            conditions.remove(type_)


def _what_goes_on(outcome: Outcome) -> tuple[ConditionType, str, str] | None:
    decision, error, failure = outcome.decision, outcome.error, outcome.helm_error
    if failure is not None and failure.kind is not HelmErrorKind.CANCELLED:
        if outcome.next_attempt_at is None:
            message = f"{outcome.action} failed and is not tried again before the spec or the chart changes"
            return ConditionType.STALLED, "RetriesExhausted", message
        if outcome.capped:
            return ConditionType.STALLED, "RetriesExhausted", f"{outcome.action} failed and is tried again, but rarely"
        return ConditionType.RECONCILING, "Retrying", f"{outcome.action} failed and is tried again"
    if isinstance(error, TerminalError) or (decision is not None and decision.blocked == "ReleaseConflict"):
        return ConditionType.STALLED, "Irreconcilable", "nothing is tried before the input changes: see Irreconcilable"
    if outcome.deleting:
        return ConditionType.RECONCILING, "Uninstalling", "the release is being uninstalled"
    if error is not None:
        return ConditionType.RECONCILING, "Retrying", "the pass is tried again: see Irreconcilable"
    if outcome.drift is not None and outcome.drift.reason == DETECTED:
        return None  # What is missing is not on its way.
    if outcome.health is None:
        return ConditionType.RECONCILING, "Progressing", "the objects of the release are being looked at"
    if outcome.health.health is Health.PROGRESSING:
        return ConditionType.RECONCILING, "Progressing", outcome.health.message
    return None


def _last_attempt(outcome: Outcome) -> Json:
    newest = outcome.records[0] if outcome.looked and outcome.records else None
    attempt: Json = {
        "action": str(outcome.action),
        "because": cut(outcome.because, 1024),
        "startedAt": timestamp(outcome.started_at),
        "finishedAt": timestamp(outcome.finished_at),
        "succeeded": outcome.helm_error is None,
        "failures": outcome.failures,
    }
    if outcome.desired is not None:
        attempt["inputDigest"] = outcome.desired.input_digest
    if newest is not None:
        attempt["revision"] = newest.revision
    if outcome.helm_error is not None:
        attempt["error"] = cut(str(outcome.helm_error))
        if outcome.next_attempt_at is not None:
            attempt["nextAttemptAt"] = timestamp(outcome.next_attempt_at)
    return attempt


def _history(status: Json, outcome: Outcome) -> None:
    known = {
        entry["revision"]: entry
        for entry in status.get("history") or ()
        if isinstance(entry, Mapping) and isinstance(entry.get("revision"), int)
    }
    history = []
    for record in outcome.records[:HISTORY]:
        entry: Json = {"revision": record.revision, "status": str(record.status)}
        if record.input_digest:
            entry["digest"] = record.input_digest
        content, desired, before = outcome.content, outcome.desired, known.get(record.revision, {})
        if content is not None and content.revision == record.revision:
            entry["chartVersion"] = content.chart.version
            entry["deployedAt"] = content.last_deployed
        elif outcome.action is not None and desired and desired.input_digest == record.input_digest and not before:
            entry["chartVersion"] = desired.chart.version
            entry["deployedAt"] = timestamp(record.changed_at)
        elif before.get("digest") == entry.get("digest"):
            entry.update({name: before[name] for name in ("chartVersion", "deployedAt") if name in before})
        history.append(entry)
    if history:
        status["history"] = history
    else:
        status.pop("history", None)


def _release_ref(record: ReleaseRecord, chart: Mapping[str, Any] | None = None) -> Json:
    ref: Json = {
        "name": record.key.name,
        "namespace": record.key.namespace,
        "revision": record.revision,
        "status": str(record.status),
    }
    if chart and chart.get("name"):
        ref["chart"] = f"{chart['name']}-{chart.get('version', '')}"
    return ref


def _sentence(text: str) -> str:
    return text if text.endswith((".", "!", "?", ")")) else text + "."


def failed_attempts(previous: Attempt | None, action: Action, digest: str) -> int:
    """Return how often this action failed in a row with this digest, the present failure included."""
    same = (
        previous is not None
        and not previous.succeeded
        and previous.input_digest == digest
        and (previous.action == "uninstall") == (action is Action.UNINSTALL)
    )
    return (previous.failures if same and previous else 0) + 1
