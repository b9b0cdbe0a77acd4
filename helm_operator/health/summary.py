"""From the verdicts on a release's objects to the one of its condition Ready."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from helm_operator.conditions import cut
from helm_operator.health.verdict import Health, Verdict, soonest
from helm_operator.release import ObjectRef

NAMED: Final = 5
"""Culprits that a message names; the others are counted."""

_MAX_CULPRIT: Final = 700
_BETWEEN: Final = " | "


@dataclass(frozen=True, slots=True)
class Summary:
    """The health of all objects of a release."""

    health: Health
    reason: str
    """Healthy, Progressing, Unhealthy or Unknown."""
    message: str
    recheck_at: float | None = None
    """The earliest Unix time from which some object is judged otherwise without having changed."""


def summarise(verdicts: Mapping[ObjectRef, Verdict]) -> Summary:
    """Return what a release is like: as its worst object. The worst are named first, at most five."""
    health = max((verdict.health for verdict in verdicts.values()), key=lambda each: each.severity, default=None)
    if health is None:
        return Summary(Health.HEALTHY, Health.HEALTHY.value, "the release has no objects")
    many = len({ref.namespace for ref in verdicts if ref.namespace}) > 1
    worst_first = sorted(verdicts.items(), key=lambda pair: (-pair[1].health.severity, pair[0]))
    recheck_at = soonest(*(verdict.recheck_at for verdict in verdicts.values()))
    if health is Health.HEALTHY:
        notes = [(ref, verdict) for ref, verdict in worst_first if verdict.message]
        every = "its only object is healthy" if len(verdicts) == 1 else f"all {len(verdicts)} objects are healthy"
        message = _BETWEEN.join([every, _listed(notes, "note", many=many)] if notes else [every])
    else:
        culprits = [(ref, verdict) for ref, verdict in worst_first if verdict.health is not Health.HEALTHY]
        message = _listed(culprits, "object", many=many)
    return Summary(health, health.value, message, recheck_at)


def _listed(found: list[tuple[ObjectRef, Verdict]], noun: str, *, many: bool) -> str:
    named = [cut(f"{_name(ref, many=many)}: {verdict.message}", _MAX_CULPRIT) for ref, verdict in found[:NAMED]]
    more = len(found) - NAMED
    if more > 0:
        named.append(f"and {more} more {noun}" + ("s" if more > 1 else ""))
    return _BETWEEN.join(named)


def _name(ref: ObjectRef, *, many: bool) -> str:
    return f'{ref.kind} "{ref.namespace}/{ref.name}"' if many and ref.namespace else str(ref)
