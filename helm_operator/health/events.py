"""The newest warning Event: what the cluster complained about last."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from helm_operator.health.fields import inside, moment, sentence, text

_ECHOES: Final = {
    "CrashLoopBackOff": {"BackOff"},
    "OOMKilled": {"BackOff"},
    "ImagePullBackOff": {"BackOff", "Failed"},
    "ErrImageNeverPull": {"Failed", "ErrImageNeverPull"},
    "InvalidImageName": {"Failed", "InspectFailed"},
    "CreateContainerConfigError": {"Failed"},
    "Unschedulable": {"FailedScheduling"},
    "ReplicaFailure": {"FailedCreate"},
    "FailedCreate": {"FailedCreate"},
}
"""Warnings that only repeat, and more slowly, what a verdict with this reason already says."""


@dataclass(frozen=True, slots=True)
class Warned:
    """What a warning says; how often is left out, as it would make every repetition news."""

    reason: str
    message: str

    def repeats(self, reason: str, message: str) -> bool:
        """Return whether a verdict of this reason and message says as much already."""
        return self.reason in _ECHOES.get(reason, ()) or bool(self.message and self.message in message)

    def __str__(self) -> str:
        return sentence(self.reason, self.message)


def newest(events: Iterable[Mapping[str, Any]]) -> Warned | None:
    """Return the newest of these Events (of either API) that is a warning."""
    warnings = [event for event in events if event.get("type") == "Warning" and text(event.get("reason"))]
    if not warnings:
        return None
    event = max(warnings, key=_when)
    return Warned(text(event.get("reason")), text(event.get("message")) or text(event.get("note")))


def _when(event: Mapping[str, Any]) -> float:
    """Return when an Event was last seen; its two APIs and a series each have their own field for it."""
    seen = (
        inside(event, "series", "lastObservedTime"),
        event.get("lastTimestamp"),
        event.get("deprecatedLastTimestamp"),
        event.get("eventTime"),
        inside(event, "metadata", "creationTimestamp"),
    )
    return max((when for each in seen if (when := moment(each)) is not None), default=0.0)
