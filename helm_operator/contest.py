"""When somebody else changes an object again and again: from when on it counts as a contest, and how it ends. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from helm_operator.backoff import retry_delay

FEW: Final = 5
"""Corrections within WINDOW that make a contest."""
WINDOW: Final = 600.0
"""Seconds; a contest is over when no correction was needed for as long."""
_PAUSE_BASE: Final = 10.0
_PAUSE_CEILING: Final = 480.0
"""First and longest pause between two corrections, in seconds: shorter than WINDOW, so that calm means calm."""


@dataclass(frozen=True, slots=True)
class Contest:
    """The corrections of one object. All times are Unix seconds."""

    times: tuple[float, ...] = ()
    """The newest FEW, oldest first."""
    beyond: int = 0
    """Corrections from the one on that made it a contest; 0: it is none."""
    paths: tuple[str, ...] = ()
    """All that was changed meanwhile, sorted; empty where the object was deleted each time."""

    def corrected(self, paths: Iterable[str], now: float) -> Contest:
        """Return what it is after one more correction of these paths."""
        times = (*(time for time in self.times if now - time < WINDOW), now)[-FEW:]
        beyond = self.beyond + 1 if self.beyond or len(times) == FEW else 0
        return Contest(times, beyond, tuple(sorted({*self.paths, *paths})))

    @property
    def contested(self) -> bool:
        """Whether somebody seems to work against us."""
        return self.beyond > 0

    def rests_until(self, spread: str) -> float:
        """Return from when on the object may be corrected again; see retry_delay for `spread`."""
        if not self.contested:
            return 0.0
        return self.times[-1] + retry_delay(self.beyond, base=_PAUSE_BASE, ceiling=_PAUSE_CEILING, spread=spread)

    @property
    def calm_at(self) -> float:
        """When it is over, if nothing needs to be corrected before."""
        return self.times[-1] + WINDOW if self.times else 0.0
