"""Pods and their containers.

Sources: cli-utils, pkg/kstatus/status/core.go (phases, Ready, the 15 s for the scheduler); kubelet, whose
words for a container that does not start are in pkg/kubelet/container/sync_result.go and
pkg/kubelet/images/types.go; Kubernetes documentation, "Pod Lifecycle" (the restart delay starts anew after ten
good minutes). kstatus looks neither at init containers nor at any word but CrashLoopBackOff, and calls a failed
Pod current; here a failed Pod is a failure, and every word counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from helm_operator.health.fields import Subject, find, inside, mapping, mappings, moment, number, sentence, text, word
from helm_operator.health.verdict import Health, Verdict, healthy, progressing, soonest, unhealthy, unhealthy_from

SCHEDULING: Final = 15.0
"""Seconds that the scheduler may take (kstatus' number)."""

STARTING: Final = 30.0
"""Seconds in which a failed pull or a missing Secret may cure itself: two attempts of the kubelet."""

PATIENCE: Final = 600.0
"""Seconds after which waiting is failing: the default of a Deployment's progressDeadlineSeconds."""

_STARTS: Final = frozenset({"", "ContainerCreating", "PodInitializing"})
_PULLS: Final = frozenset({"ErrImagePull", "ImagePullBackOff"})
_HOPELESS: Final = frozenset({"InvalidImageName", "ErrImageNeverPull"})
"""What no second attempt cures."""

_LOOPING: Final = 2
"""Restarts from which a container that runs again, but is not ready, is still one that crashes."""


def pod(subject: Subject) -> Verdict:
    """Judge a Pod that is not being deleted."""
    phase = text(subject.status("phase"))
    if phase == "Succeeded":
        return healthy("PodCompleted")
    if phase == "Failed":
        return unhealthy("PodFailed", _why_failed(subject))
    if phase == "Unknown":
        return Verdict(Health.UNKNOWN, "NodeLost", "the Pod's node does not report")
    ready = find(subject.conditions, "Ready")
    if phase == "Running" and ready and ready.status == "True":
        return healthy()
    faults = [fault for entry in _containers(subject) if (fault := _container(subject, entry))]
    if faults:
        worst = max(faults, key=lambda fault: fault.health.severity)  # the first of them: init containers
        return replace(worst, recheck_at=soonest(*(fault.recheck_at for fault in faults)))
    if phase == "Running":
        since = (ready.since if ready else None) or subject.created
        deadline = None if since is None else since + PATIENCE
        lacks = sentence("the Pod runs, but is not ready", ready.message if ready else "")
        return unhealthy_from(deadline, subject.now, "PodNotReady", lacks)
    return _pending(subject)


def worst_pod(pods: Iterable[tuple[str, Verdict]]) -> tuple[str, Verdict] | None:
    """Return name and verdict of the Pod that says most about what is wrong, the same one each time."""
    bad = [(name, verdict) for name, verdict in pods if verdict.health is not Health.HEALTHY]
    return min(bad, key=lambda each: (-each[1].health.severity, each[1].reason == "Terminating", each[0]), default=None)


def _pending(subject: Subject) -> Verdict:
    scheduled = find(subject.conditions, "PodScheduled")
    if scheduled and scheduled.status == "False":
        if scheduled.reason == "SchedulingGated":  # somebody asked for it
            return progressing("SchedulingGated", sentence("the Pod waits for its scheduling gates", scheduled.message))
        deadline = subject.created_plus(SCHEDULING)
        lacks = sentence("the Pod cannot be scheduled", scheduled.message)
        return unhealthy_from(deadline, subject.now, word(scheduled.reason, "Unschedulable"), lacks)
    if any(inside(entry, "state", "running") is not None for entry in _init_containers(subject)):
        return progressing("PodInitializing", "an init container runs")  # a migration may take its time
    deadline = subject.created_plus(PATIENCE)
    if scheduled and scheduled.status == "True":
        return unhealthy_from(
            deadline, subject.now, "PodPending", "the Pod is scheduled, but its containers are not up"
        )
    return unhealthy_from(deadline, subject.now, "PodPending", "the Pod is not scheduled yet")


def _init_containers(subject: Subject) -> list[Mapping[str, Any]]:
    return mappings(subject.status("initContainerStatuses"))


def _containers(subject: Subject) -> list[Mapping[str, Any]]:
    return _init_containers(subject) + mappings(subject.status("containerStatuses"))


def _container(subject: Subject, entry: Mapping[str, Any]) -> Verdict | None:
    """Return what keeps one container from working, or None if it only takes its time."""
    waiting, ended = inside(entry, "state", "waiting"), inside(entry, "state", "terminated")
    if isinstance(waiting, Mapping):
        return _waiting(subject, entry, waiting)
    if isinstance(ended, Mapping):
        return _ended(subject, entry, ended)
    last, started = mapping(inside(entry, "lastState", "terminated")), inside(entry, "state", "running", "startedAt")
    restarts = number(entry.get("restartCount"))
    if entry.get("ready") is True or restarts < _LOOPING or number(last.get("exitCode")) == 0:
        return None
    # Between two crashes: otherwise the verdict would flap as often as the container does.
    since = moment(started)
    if since is None or subject.now >= since + PATIENCE:
        return None
    crash = _crash(entry, last)
    return Verdict(crash.health, crash.reason, crash.message, recheck_at=since + PATIENCE)


def _waiting(subject: Subject, entry: Mapping[str, Any], waiting: Mapping[str, Any]) -> Verdict | None:
    reason = text(waiting.get("reason"))
    if reason in _STARTS:
        return None
    if reason == "CrashLoopBackOff":
        return _crash(entry, mapping(inside(entry, "lastState", "terminated")))
    detail = text(waiting.get("message"))
    if reason in _PULLS:
        # The two words take turns, and only one of them comes with the cause; say the same for both.
        reason, detail = "ImagePullBackOff", _pull(entry, detail)
    lacks = sentence(_name(entry), reason, detail)
    if reason in _HOPELESS:
        return unhealthy(reason, lacks)
    return unhealthy_from(subject.created_plus(STARTING), subject.now, word(reason, "ContainerWaiting"), lacks)


def _ended(subject: Subject, entry: Mapping[str, Any], ended: Mapping[str, Any]) -> Verdict | None:
    if number(ended.get("exitCode")) == 0:
        return None
    if subject.spec("restartPolicy") == "Never":
        return unhealthy(_cause(ended), sentence(_name(entry), _how(ended)))
    if number(entry.get("restartCount")) < 1:
        return progressing(_cause(ended), sentence(_name(entry), f"{_how(ended)}, it will be restarted"))
    return _crash(entry, ended)


def _crash(entry: Mapping[str, Any], last: Mapping[str, Any]) -> Verdict:
    # Neither the growing delay nor the count of restarts: each would make a new message of an old fault. Nor what
    # the container wrote as it died: that may be its log, and not everybody who reads our status may read logs.
    how = f"it {_how(last)}" if last else ""
    reason = "OOMKilled" if last.get("reason") == "OOMKilled" else "CrashLoopBackOff"
    return unhealthy(reason, sentence(_name(entry), sentence("CrashLoopBackOff", how, between=", ")))


def _pull(entry: Mapping[str, Any], detail: str) -> str:
    cause = detail.partition("ErrImagePull: ")[2] or ("" if detail.startswith("Back-off") else detail)
    image = text(entry.get("image"))
    return sentence(f'cannot pull image "{image}"' if image else "cannot pull the image", cause)


def _name(entry: Mapping[str, Any]) -> str:
    return f"container {text(entry.get('name')) or '?'}"


def _cause(ended: Mapping[str, Any]) -> str:
    reason = word(ended.get("reason"), "Error")
    return "ContainerFailed" if reason == "Error" else reason


def _how(ended: Mapping[str, Any]) -> str:
    reason = text(ended.get("reason"))
    plain = f"ended with exit code {number(ended.get('exitCode'))}"
    return plain if reason in {"", "Error"} else f"{plain} ({reason})"


def _why_failed(subject: Subject) -> str:
    why = sentence("the Pod failed", text(subject.status("reason")), text(subject.status("message")))
    for entry in _containers(subject):
        ended = mapping(inside(entry, "state", "terminated"))
        if number(ended.get("exitCode")):
            return sentence(why, f"{_name(entry)} {_how(ended)}", between="; ")
    return why
