"""The work queue: keys, not events. Merged, delayed, one worker per key, two lanes.

A key waits at most once; a key that is being worked on is remembered and comes again when
that is done. Cheap passes (lane PLAN) never wait behind a long helm run (lane ACT).
Nobody but the event loop's thread may touch the queue.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Callable, Hashable
from enum import IntEnum
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class Lane(IntEnum):
    """Who may take a key."""

    PLAN = 0
    ACT = 1


class Priority(IntEnum):
    """The order within a lane; lower goes first."""

    USER = 0
    """A person's wish: deletions and edits."""
    BACKGROUND = 1
    """Re-checks, retries, the start of the operator."""


class WorkQueue(Generic[K]):
    """See the module's documentation; times are seconds of `clock`."""

    def __init__(self, clock: Callable[[], float] | None = None) -> None:
        self._clock = clock or asyncio.get_running_loop().time
        self._ready: dict[Lane, list[tuple[Priority, int, K]]] = {lane: [] for lane in Lane}
        self._where: dict[K, tuple[Lane, Priority, int]] = {}
        """The one place at which each waiting key counts; older entries of the heaps are stale."""
        self._working: set[K] = set()
        self._again: dict[K, tuple[Lane, Priority]] = {}
        self._timers: dict[K, asyncio.TimerHandle] = {}
        self._due: dict[K, float] = {}
        self._order = itertools.count()
        self._wakeup: dict[Lane, asyncio.Event] = {lane: asyncio.Event() for lane in Lane}
        self._closed = False

    def __len__(self) -> int:
        return len(self._where)

    @property
    def working(self) -> int:
        """Keys that are being worked on."""
        return len(self._working)

    def add(self, key: K, *, priority: Priority = Priority.BACKGROUND, lane: Lane = Lane.PLAN) -> None:
        """Have `key` worked on soon. A key that waits already keeps the better priority."""
        if self._closed:
            return
        if key in self._working:
            before = self._again.get(key)
            self._again[key] = (lane, priority) if before is None else (lane, min(priority, before[1]))
            return
        waiting = self._where.get(key)
        if waiting is not None and waiting[1] <= priority and waiting[0] >= lane:
            return  # A key that waits to act looks again anyway before it acts.
        lane = max(lane, waiting[0]) if waiting else lane
        place = next(self._order)
        self._where[key] = (lane, priority, place)
        heapq.heappush(self._ready[lane], (priority, place, key))
        self._wakeup[lane].set()

    def add_after(self, key: K, seconds: float, *, priority: Priority = Priority.BACKGROUND) -> None:
        """Have `key` worked on in `seconds`; of several wishes the earliest stands."""
        if self._closed:
            return
        due = self._clock() + seconds
        if key in self._due and self._due[key] <= due:
            return
        self.forget_timer(key)
        self._due[key] = due
        self._timers[key] = asyncio.get_running_loop().call_later(max(0.0, seconds), self._ring, key, priority)

    def forget_timer(self, key: K) -> None:
        """Drop the delayed wish for `key`, if there is one."""
        self._due.pop(key, None)
        if (timer := self._timers.pop(key, None)) is not None:
            timer.cancel()

    def forget(self, key: K) -> None:
        """Drop `key`, waiting or delayed; a worker that has it goes on."""
        self.forget_timer(key)
        self._where.pop(key, None)
        self._again.pop(key, None)

    async def get(self, lane: Lane) -> K:
        """Wait for a key of `lane` and take it; `done` gives it back.

        Raises:
            asyncio.CancelledError: the queue was closed.
        """
        while True:
            if self._closed:
                raise asyncio.CancelledError
            ready = self._ready[lane]
            while ready:
                priority, place, key = heapq.heappop(ready)
                if self._where.get(key) == (lane, priority, place):
                    del self._where[key]
                    self._working.add(key)
                    return key
            self._wakeup[lane].clear()
            await self._wakeup[lane].wait()

    def done(self, key: K) -> None:
        """Give `key` back; it comes again at once if it was added meanwhile."""
        self._working.discard(key)
        again = self._again.pop(key, None)
        if again is not None:
            self.add(key, lane=again[0], priority=again[1])

    def close(self) -> None:
        """Take no more keys, and end all waits."""
        self._closed = True
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        self._due.clear()
        for event in self._wakeup.values():
            event.set()

    def _ring(self, key: K, priority: Priority) -> None:
        self._timers.pop(key, None)
        self._due.pop(key, None)
        self.add(key, priority=priority)
