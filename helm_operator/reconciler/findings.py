"""What is remembered of one release's drift: objects that are left as they differ, and contests over objects."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, NamedTuple

from helm_operator.contest import Contest
from helm_operator.drift import Difference, Drift, contested, detected
from helm_operator.drift_policy import DriftMode
from helm_operator.release import ObjectRef
from helm_operator.repair import RepairResult

_LOOK_AGAIN: Final = 5.0
"""Seconds for which an object that is left as it differs is not compared again: others may change it all the time."""


class Findings:
    """Has no clock: `now` is Unix time in seconds."""

    def __init__(self, mode: DriftMode, spread: str) -> None:
        """`spread` sets the pauses of custom resources apart (see retry_delay)."""
        self._mode = mode
        self._spread = spread
        self._differing: dict[ObjectRef, _Differing] = {}
        self._contests: dict[ObjectRef, Contest] = {}

    @property
    def differing(self) -> frozenset[ObjectRef]:
        """Objects that differed when they were last looked at, and were left so."""
        return frozenset(self._differing)

    def note(self, result: RepairResult, now: float) -> None:
        """Take in what a comparison found."""
        # What could not be put right has pauses of its own; what could not be compared is as it was.
        for ref in result.settled | (result.faults.keys() if self._mode is DriftMode.CORRECT else set()):
            self._differing.pop(ref, None)
        for difference in result.differing:
            self._differing[difference.ref] = _Differing(difference, now)
        for difference in result.repaired:
            before = self._contests.get(difference.ref, Contest())
            self._contests[difference.ref] = before.corrected(difference.paths, now)

    def keep_only(self, refs: Collection[ObjectRef]) -> None:
        """Forget the differences of all other objects."""
        self._differing = {ref: found for ref, found in self._differing.items() if ref in refs}

    def resting(self, now: float) -> frozenset[ObjectRef]:
        """Return the objects that are not put right, or not compared again, yet."""
        return frozenset(ref for ref, until in self._rests().items() if until > now)

    def overdue(self, now: float) -> frozenset[ObjectRef]:
        """Return the objects that differed, and are to be put right now that their pause is over."""
        return self.differing - self.resting(now) if self._mode is DriftMode.CORRECT else frozenset()

    def next_at(self, now: float) -> float | None:
        """Return when a pause ends or a contest is over; it may be in the past where no pass has seen to it."""
        times = [until for until in self._rests().values() if until > now]
        times += [contest.calm_at for contest in self._contests.values() if contest.contested]
        return min([*times, *([now] if self.overdue(now) else [])], default=None)

    def told(self, now: float) -> Drift:
        """Return what there is to tell; contests that are over are forgotten."""
        self._contests = {ref: contest for ref, contest in self._contests.items() if contest.calm_at > now}
        if self._mode is DriftMode.WARN:
            return detected(found.difference for found in self._differing.values())
        return contested(self._contests)

    def _rests(self) -> dict[ObjectRef, float]:
        if self._mode is DriftMode.WARN:
            return {ref: found.at + _LOOK_AGAIN for ref, found in self._differing.items()}
        return {ref: contest.rests_until(self._spread) for ref, contest in self._contests.items() if contest.contested}


class _Differing(NamedTuple):
    difference: Difference
    at: float
    """When (Unix time) it was looked at."""
