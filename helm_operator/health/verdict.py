"""What can be said of one object, and the few ways to say it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final


class Health(StrEnum):
    """Whether an object does its work, is on the way to it, does not, or cannot be told."""

    HEALTHY = "Healthy"
    PROGRESSING = "Progressing"
    UNHEALTHY = "Unhealthy"
    UNKNOWN = "Unknown"

    @property
    def severity(self) -> int:
        """Rank, the worst highest: one failure outweighs all, and doubt outweighs a wait.

        Source: cli-utils, pkg/kstatus/polling/aggregator.
        """
        return _SEVERITY.index(self)


_SEVERITY: Final = (Health.HEALTHY, Health.PROGRESSING, Health.UNKNOWN, Health.UNHEALTHY)


@dataclass(frozen=True, slots=True)
class Verdict:
    """The health of one object.

    Nothing in it depends on the clock but through `recheck_at`, so that equal objects give equal verdicts
    and nobody writes a status because time went by.
    """

    health: Health
    reason: str
    """One word in CamelCase, never empty."""
    message: str = ""
    """What the object lacks, without its name; of a healthy object, a note or nothing."""
    recheck_at: float | None = None
    """Unix time from which the same object is judged otherwise; None: only a change of it changes the verdict."""


def healthy(reason: str = "Healthy", note: str = "") -> Verdict:
    """Return that the object does its work; `note` is what a reader may want to know all the same."""
    return Verdict(Health.HEALTHY, reason, note)


def progressing(reason: str, message: str) -> Verdict:
    """Return that the object is on its way."""
    return Verdict(Health.PROGRESSING, reason, message)


def unhealthy(reason: str, message: str) -> Verdict:
    """Return that the object does not work and will not without a change."""
    return Verdict(Health.UNHEALTHY, reason, message)


def unhealthy_from(deadline: float | None, now: float, reason: str, message: str) -> Verdict:
    """Return a fault that counts as a delay until `deadline`; where that is not known, nobody is late."""
    delay = progressing(reason, message)
    return delay if deadline is None else switching(deadline, now, delay, unhealthy(reason, message))


def switching(deadline: float, now: float, before: Verdict, after: Verdict) -> Verdict:
    """Return `before` with its end noted, or `after` from `deadline` on."""
    return after if now >= deadline else replace(before, recheck_at=deadline)


def soonest(*moments: float | None) -> float | None:
    """Return the earliest of those moments that are set."""
    return min((moment for moment in moments if moment is not None), default=None)


MISSING: Final = unhealthy("Missing", "it is not in the cluster")
"""For an object of the release that the cluster does not have."""

UNOBSERVED: Final = Verdict(Health.UNKNOWN, "NotObserved", "it could not be read")
"""For an object that the operator may not, or could not yet, look at."""
