"""Workloads: their own counts first, then what their Pods say.

Sources: cli-utils, pkg/kstatus/status/core.go (the counts and their order), pkg/kstatus/polling/statusreaders
(Pods of a workload that is not current); Helm 4, internal/statusreaders/job_status_reader.go (a Job is done when it
is complete). kstatus' holes that are mended here: Pods tell why, and a Pod that cannot work makes its workload
unhealthy before any deadline; a paused Deployment and a suspended Job are as their owner wants them;
`OnDelete` says nothing about Pods that are not ready; a quota shows in the condition ReplicaFailure or only in
an Event; what was rolled out and then breaks down is not on its way to anything.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from helm_operator.health.events import newest
from helm_operator.health.fields import Subject, find, holds, inside, moment, number, sentence, text
from helm_operator.health.pods import PATIENCE, worst_pod
from helm_operator.health.verdict import (
    Health,
    Verdict,
    healthy,
    progressing,
    soonest,
    unhealthy,
    unhealthy_from,
)

JudgePod = Callable[[Mapping[str, Any]], Verdict]

_NO_DEADLINE: Final = 2**31 - 1
"""What the Deployment controller takes for "no progressDeadlineSeconds"."""


def deployment(subject: Subject, judge: JudgePod) -> Verdict:
    """Judge a Deployment."""
    conditions = subject.conditions
    wanted, existing = number(subject.spec("replicas"), 1), subject.count("replicas")
    progress = find(conditions, "Progressing")
    if progress and progress.reason == "ProgressDeadlineExceeded":
        return _with_pods(subject, judge, unhealthy("ProgressDeadlineExceeded", _available(subject, wanted)))
    deadline = number(subject.spec("progressDeadlineSeconds"), _NO_DEADLINE)
    if subject.spec("paused") is True:  # No roll-out to wait for, but what runs shall work.
        if existing <= subject.count("availableReplicas"):
            return healthy("Paused", "its roll-out is paused")
        return _with_pods(subject, judge, _unavailable(subject, existing, deadline, rolled_out=True))
    rolled_out = bool(progress and progress.status == "True" and progress.reason == "NewReplicaSetAvailable")
    lacking = min(subject.count("availableReplicas"), subject.count("readyReplicas")) < wanted
    own = (
        _fewer(
            (existing, wanted, "created", "CreatingPods"),
            (subject.count("updatedReplicas"), wanted, "updated", "RolloutInProgress"),
        )
        or _extra(existing - wanted)
        or (_unavailable(subject, wanted, deadline, rolled_out=rolled_out) if lacking else None)
    )
    if own is None and not rolled_out and deadline != _NO_DEADLINE:
        own = progressing("RolloutInProgress", "the new ReplicaSet is not yet reported as available")
    if own is None and not holds(conditions, "Available"):
        own = progressing("RolloutInProgress", "the Deployment is not yet reported as available")
    return _with_pods(subject, judge, own or healthy())


def stateful_set(subject: Subject, judge: JudgePod) -> Verdict:
    """Judge a StatefulSet."""
    wanted, existing = number(subject.spec("replicas"), 1), subject.count("replicas")
    holding = number(subject.spec("minReadySeconds")) > 0
    on_delete = subject.spec("updateStrategy", "type") == "OnDelete"  # Pods are replaced when somebody deletes them.
    own = (
        _fewer(
            (existing, wanted, "created", "CreatingPods"),
            (subject.count("readyReplicas"), wanted, "ready", "RolloutInProgress"),
        )
        or _extra(existing - wanted)
        or (_fewer((subject.count("availableReplicas"), wanted, "available", "RolloutInProgress")) if holding else None)
        or (None if on_delete else _stateful_update(subject, wanted))
    )
    return _with_pods(subject, judge, own or healthy())


def _stateful_update(subject: Subject, wanted: int) -> Verdict | None:
    partition = number(subject.spec("updateStrategy", "rollingUpdate", "partition"), -1)
    if partition >= 0:  # The API server sets 0, so this is the usual way.
        return _fewer((subject.count("updatedReplicas"), wanted - partition, "updated", "RolloutInProgress"))
    own = _fewer((subject.count("currentReplicas"), wanted, "of the current revision", "RolloutInProgress"))
    if own or subject.status("currentRevision") == subject.status("updateRevision"):
        return own
    return progressing("RolloutInProgress", "the update has not come to its end")


def daemon_set(subject: Subject, judge: JudgePod) -> Verdict:
    """Judge a DaemonSet."""
    if subject.status("desiredNumberScheduled") is None or not number(subject.status("observedGeneration")):
        return progressing("NotObserved", "its controller has not looked at it yet")
    desired = subject.count("desiredNumberScheduled")
    on_delete = subject.spec("updateStrategy", "type") == "OnDelete"
    own = _fewer(
        (subject.count("currentNumberScheduled"), desired, "created", "CreatingPods"),
        (desired if on_delete else subject.count("updatedNumberScheduled"), desired, "updated", "RolloutInProgress"),
        (subject.count("numberAvailable"), desired, "available", "ReplicasUnavailable"),
        (subject.count("numberReady"), desired, "ready", "ReplicasUnavailable"),
    )
    return _with_pods(subject, judge, own or healthy())


def replica_set(subject: Subject, judge: JudgePod) -> Verdict:
    """Judge a ReplicaSet or a ReplicationController."""
    wanted, existing = number(subject.spec("replicas"), 1), subject.count("replicas")
    own = _fewer(
        (existing, wanted, "created", "CreatingPods"),
        (subject.count("fullyLabeledReplicas"), wanted, "labelled", "RolloutInProgress"),
        (subject.count("availableReplicas"), wanted, "available", "ReplicasUnavailable"),
        (subject.count("readyReplicas"), wanted, "ready", "ReplicasUnavailable"),
    ) or _extra(existing - wanted)
    return _with_pods(subject, judge, own or healthy())


def job(subject: Subject, judge: JudgePod) -> Verdict:
    """Judge a Job: healthy once it is complete, as Helm waits for it; suspended by wish is healthy too."""
    conditions = subject.conditions
    if holds(conditions, "Complete"):
        return healthy("JobCompleted")
    for type_ in ("Failed", "FailureTarget"):  # the second says that the first will come
        failed = find(conditions, type_)
        if failed and failed.status == "True":
            return _with_pods(subject, judge, unhealthy("JobFailed", sentence("the Job failed", failed.told)))
    if subject.spec("suspend") is True:
        return healthy("Suspended", "it is suspended")
    succeeded, wanted = subject.count("succeeded"), number(subject.spec("completions"), 1)
    if not text(subject.status("startTime")):
        own = progressing("JobNotStarted", "the Job has not started")
    elif not succeeded and not subject.count("active") and not subject.count("failed"):
        own = progressing("CreatingPods", f"0 of {_plural(wanted, 'completion')}, and no Pod yet")
    else:
        failures = subject.count("failed")
        own = progressing(
            "JobRunning",
            sentence(
                f"{succeeded} of {_plural(wanted, 'completion')}",
                f"{_plural(failures, 'Pod')} failed" if failures else "",
                between=", ",
            ),
        )
    return _with_pods(subject, judge, own)


def cron_job(subject: Subject, _judge: JudgePod) -> Verdict:
    """Judge a CronJob: it does its work by being there. Its Jobs are not objects of the release."""
    return healthy("Suspended", "it is suspended") if subject.spec("suspend") is True else healthy()


def _fewer(*counts: tuple[int, int, str, str]) -> Verdict | None:
    """Return the first shortage among (have, want, what, reason)."""
    for have, want, what, reason in counts:
        if have < want:
            return progressing(reason, f"{have} of {_plural(want, 'replica')} {what}")
    return None


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _extra(count: int) -> Verdict | None:
    return None if count <= 0 else progressing("RolloutInProgress", f"{_plural(count, 'old replica')} still to end")


def _available(subject: Subject, wanted: int) -> str:
    return f"{subject.count('availableReplicas')} of {_plural(wanted, 'replica')} available"


def _unavailable(subject: Subject, wanted: int, deadline: int, *, rolled_out: bool) -> Verdict:
    lacks = _available(subject, wanted)
    if subject.count("availableReplicas") >= wanted:
        lacks = f"{subject.count('readyReplicas')} of {_plural(wanted, 'replica')} ready"
    if not rolled_out:
        return progressing("RolloutInProgress", lacks)
    available = find(subject.conditions, "Available")
    if available is None or available.status != "False" or available.since is None:
        return progressing("ReplicasUnavailable", lacks)
    # After the roll-out its controller keeps no deadline any more; the author's patience still holds.
    patience = PATIENCE if deadline == _NO_DEADLINE else deadline
    return unhealthy_from(available.since + patience, subject.now, "ReplicasUnavailable", lacks)


def _with_pods(subject: Subject, judge: JudgePod, own: Verdict) -> Verdict:
    """Add to a workload's own verdict what its Pods, or the lack of them, tell; a healthy one is left alone."""
    if own.health is Health.HEALTHY:
        return own
    own = _not_created(subject, own)
    judged = [(text(inside(each, "metadata", "name")), judge(each)) for each in _telling(subject)]
    worst = worst_pod(judged)
    if worst is None:
        return own
    name, verdict = worst
    told = replace(
        own,
        message=sentence(own.message, f"Pod {name}: {verdict.message}", between="; "),
        recheck_at=soonest(own.recheck_at, *(each.recheck_at for _, each in judged)),
    )
    if verdict.health.severity > own.health.severity:
        return replace(told, health=verdict.health, reason=verdict.reason)
    if verdict.health is Health.UNHEALTHY and own.reason == "ProgressDeadlineExceeded":
        return replace(told, reason=verdict.reason)  # the deadline is only when it was noticed
    return told


def _not_created(subject: Subject, own: Verdict) -> Verdict:
    failure = find(subject.conditions, "ReplicaFailure")
    if failure and failure.status == "True":
        return unhealthy("ReplicaFailure", sentence(own.message, failure.told, between="; "))
    # StatefulSets, DaemonSets and Jobs have no such condition.
    event = newest(subject.warnings)
    if own.reason == "CreatingPods" and event and event.reason == "FailedCreate":
        return unhealthy("FailedCreate", sentence(own.message, event.message, between="; "))
    return own


def _telling(subject: Subject) -> list[Mapping[str, Any]]:
    """Return the Pods whose trouble is the workload's."""
    pods = list(subject.pods)
    if pods:
        # A Deployment's youngest Pod is of the ReplicaSet that is being rolled out; those of the old one may be just
        # what an upgrade cures. The Pods of other workloads do not have the label.
        template = _template(max(pods, key=_born))
        pods = [each for each in pods if _template(each) == template]
    if subject.kind == "Job":  # It tries again by itself, and says so when it gives up.
        return [each for each in pods if not _failed(each)]
    # A failed Pod with a younger one beside it has been replaced: an eviction, say, and only its trace.
    last = max((_born(each) for each in pods if not _failed(each)), default=None)
    return [each for each in pods if not _failed(each) or last is None or _born(each) > last]


def _failed(pod: Mapping[str, Any]) -> bool:
    return text(inside(pod, "status", "phase")) == "Failed"


def _born(pod: Mapping[str, Any]) -> float:
    return moment(inside(pod, "metadata", "creationTimestamp")) or 0.0


def _template(pod: Mapping[str, Any]) -> str:
    return text(inside(pod, "metadata", "labels", "pod-template-hash"))
