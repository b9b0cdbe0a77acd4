"""Leader election: of several replicas, the one that holds a Lease acts.

The rules are client-go's (k8s.io/client-go/tools/leaderelection). `observe` and `decide` are pure;
`Elector` sends the requests. Clocks of two machines are never compared: whether a holder is still there
is judged by how long ago, on our own clock, its record last changed.

Why no two replicas act at once: a holder acts for `deadline` seconds after it *sent* its last renewal
that succeeded; nobody takes the Lease before `duration` seconds after that renewal was *seen*. What lies
between is the time for ending a running helm.
"""

from __future__ import annotations

import asyncio
import copy
import datetime
import logging
import math
import random
import socket
import time
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from helm_operator.errors import ApiError, Conflict, NotFound
from helm_operator.kube import Leases
from helm_operator.release import Json
from helm_operator.settings import LeaseName

logger = logging.getLogger(__name__)

_MARGIN: Final = 1.0
"""Seconds before the end of the Lease at which the last helm is to be dead."""
_TRIES: Final = 3
"""Writes in one round: another one follows when somebody changed the Lease since it was read."""


@dataclass(frozen=True, slots=True)
class Terms:
    """Times of the election, in seconds: controller-runtime's defaults."""

    duration: float = 15.0
    """How long a record that does not change is respected."""
    deadline: float = 10.0
    """How long a holder acts after its last renewal."""
    retry: float = 2.0
    """Pause between two rounds; whoever does not lead varies it by a fifth."""


@dataclass(frozen=True, slots=True)
class Record:
    """What a Lease says. The times are another machine's: good for telling whether they changed, no more."""

    holder: str
    """Empty: it was given back."""
    duration: float
    acquired: str
    renewed: str
    transitions: int

    @classmethod
    def from_lease(cls, lease: Json) -> Record:
        spec = lease.get("spec") or {}
        return cls(
            holder=spec.get("holderIdentity") or "",
            duration=float(spec.get("leaseDurationSeconds") or 0.0),
            acquired=spec.get("acquireTime") or "",
            renewed=spec.get("renewTime") or "",
            transitions=int(spec.get("leaseTransitions") or 0),
        )


@dataclass(frozen=True, slots=True)
class Observed:
    """A record, and until when it keeps us away."""

    record: Record | None
    """None: there is no Lease."""
    holder: str
    """Who holds it; of a Lease that was deleted, who held it last."""
    free_at: float
    """The time on our clock from which on a record that stays as it is may be overwritten."""


class Step(Enum):
    """What to do about a Lease."""

    CREATE = auto()
    TAKE = auto()
    RENEW = auto()
    WAIT = auto()
    """Somebody else leads."""
    GIVE_UP = auto()
    """We led and do no more."""


def observe(before: Observed | None, record: Record | None, now: float, terms: Terms) -> Observed:
    """Take in a record that was just read, at `now`.

    A Lease that was there and is gone keeps us away for as long as it could: its holder, who may have
    renewed it just before, still acts, and makes it anew with its next renewal.
    """
    if before is not None and record == before.record:
        return before
    if record is None:
        return Observed(None, before.holder, now + terms.duration) if before else Observed(None, "", now)
    free_at = now + (record.duration or terms.duration) if record.holder else now
    return Observed(record, record.holder, free_at)


def decide(observed: Observed, *, identity: str, renewed: float | None, now: float, terms: Terms) -> Step:
    """Say what to do; `renewed` is when we last renewed, None while we do not lead."""
    leading = renewed is not None
    if renewed is not None and now - renewed >= terms.deadline:
        return Step.GIVE_UP
    if leading and observed.holder not in (identity, ""):
        return Step.GIVE_UP
    if not leading and observed.holder != identity and now < observed.free_at:
        return Step.WAIT
    if observed.record is None:
        return Step.CREATE
    return Step.RENEW if observed.holder == identity else Step.TAKE


def written(lease: Json, step: Step, *, identity: str, moment: str, terms: Terms) -> Json:
    """Return the Lease as it is to be stored; what others wrote into it stays."""
    lease = copy.deepcopy(lease)
    spec = lease["spec"] = lease.get("spec") or {}
    if step is not Step.RENEW:
        spec["acquireTime"] = moment
        spec["leaseTransitions"] = 0 if step is Step.CREATE else int(spec.get("leaseTransitions") or 0) + 1
    spec["holderIdentity"] = identity
    spec["leaseDurationSeconds"] = math.ceil(terms.duration)
    spec["renewTime"] = moment
    return lease


def given_back(lease: Json, *, moment: str) -> Json:
    """Return the Lease without a holder, so that another one can take it at once."""
    spec = {"holderIdentity": "", "leaseDurationSeconds": 1, "acquireTime": moment, "renewTime": moment}
    return {**lease, "spec": {**(lease.get("spec") or {}), **spec}}


def own_identity() -> str:
    """Return a name for this process that no other one has; in a cluster it begins with the Pod's name."""
    return f"{socket.gethostname()}_{uuid.uuid4()}"


def steady_clock() -> float:
    """Return seconds that also pass while the machine is suspended, where the system can tell."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


def _wall_clock() -> str:
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


class Elector:
    """Campaigns for a Lease and holds it. `run` in a task; ask `valid` before each act."""

    def __init__(
        self,
        leases: Leases,
        lease: LeaseName,
        *,
        identity: str = "",
        terms: Terms | None = None,
        clock: Callable[[], float] = steady_clock,
        wall: Callable[[], str] = _wall_clock,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        spread: Callable[[float, float], float] = random.uniform,
    ) -> None:
        """`clock` gives seconds, `wall` an RFC 3339 time with microseconds for others to read."""
        self._leases = leases
        self._lease = lease
        self._terms = terms or Terms()
        self._clock = clock
        self._wall = wall
        self._sleep = sleep
        self._spread = spread
        self.identity = identity or own_identity()
        self.elected = asyncio.Event()
        self._observed: Observed | None = None
        self._held: Json | None = None
        """The Lease as we wrote it last: it need not be read before it is renewed."""
        self._renewed: float | None = None
        """When the last renewal that succeeded was sent; None while we do not lead."""
        self._lost = ""
        """Why we lead no more."""
        self._trouble = ""

    def valid(self) -> bool:
        """Return whether this process may act now."""
        return self._renewed is not None and not self._lost and self._clock() - self._renewed < self._terms.deadline

    def time_left(self) -> float:
        """Return for how many seconds nobody else can have begun to act; 0 where somebody else may have."""
        if self._renewed is None or (self._observed is not None and self._observed.holder != self.identity):
            return 0.0
        return max(0.0, self._renewed + self._terms.duration - _MARGIN - self._clock())

    async def run(self) -> str:
        """Campaign until elected, then hold the Lease; returns why it is lost."""
        while True:
            await self._round()
            if self._lost:
                return self._lost
            pause = self._terms.retry
            if self._renewed is None:
                pause *= self._spread(0.8, 1.2)  # Replicas that were started together do not stay in step.
            else:
                pause = min(pause, max(0.0, self._renewed + self._terms.deadline - self._clock()))
            await self._sleep(pause)

    async def release(self) -> None:
        """Give the Lease back if we hold it. `run` must have ended, and nothing of ours act any more."""
        if not self.valid():
            return
        self._renewed = None
        try:
            async with asyncio.timeout(self._terms.deadline / 2):
                await self._give_back()
        except (ApiError, TimeoutError) as error:
            logger.warning("lease %s could not be given back and runs out by itself: %s", self._lease, _text(error))

    async def _give_back(self) -> None:
        for _ in range(_TRIES):
            lease = await self._leases.get_lease(self._lease.namespace, self._lease.name)
            if Record.from_lease(lease).holder != self.identity:
                return
            try:
                await self._leases.update_lease(self._lease.namespace, given_back(lease, moment=self._wall()))
            except Conflict:
                continue  # A renewal that is no longer waited for may still have come through.
            logger.info("lease %s is given back", self._lease)
            return

    async def _round(self) -> None:
        self._check_deadline()
        if self._lost:
            return
        limit = self._terms.deadline / 2
        if self._renewed is not None:
            limit = min(limit, self._renewed + self._terms.deadline - self._clock())
        try:
            async with asyncio.timeout(limit):
                await self._try()
        except (ApiError, TimeoutError) as error:
            text = _text(error)
            logger.log(logging.DEBUG if text == self._trouble else logging.WARNING, "lease %s: %s", self._lease, text)
            self._trouble = text
        else:
            self._trouble = ""
        self._check_deadline()

    def _check_deadline(self) -> None:
        if self._renewed is not None and not self._lost and not self.valid():
            why = f": {self._trouble}" if self._trouble else ""
            self._lost = f"lease {self._lease} was not renewed within {self._terms.deadline:g} s{why}"

    async def _try(self) -> None:
        for _ in range(_TRIES):
            lease = self._held or await self._read()
            now = self._clock()
            assert self._observed is not None  # noqa: S101 - whoever gave us the Lease has set it
            step = decide(self._observed, identity=self.identity, renewed=self._renewed, now=now, terms=self._terms)
            if step is Step.GIVE_UP and self._observed.holder != self.identity:
                self._lost = f"lease {self._lease} is held by {self._observed.holder}"
            if step in (Step.WAIT, Step.GIVE_UP):
                return
            if await self._write(lease, step, now):
                return
            self._held = None
        logger.debug("lease %s is changed by others all the time", self._lease)

    async def _read(self) -> Json | None:
        try:
            lease = await self._leases.get_lease(self._lease.namespace, self._lease.name)
        except NotFound:
            lease = None
        known = self._observed.holder if self._observed is not None else ""
        self._see(lease)
        assert self._observed is not None  # noqa: S101 - _see has set it
        if self._observed.holder not in (known, "", self.identity):
            logger.info("%s leads", self._observed.holder)
        return lease

    async def _write(self, lease: Json | None, step: Step, now: float) -> bool:
        """Store the Lease with us as its holder; False: it is no longer as it was read."""
        meta = {"name": self._lease.name, "namespace": self._lease.namespace}
        blank = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": meta}
        body = written(lease or blank, step, identity=self.identity, moment=self._wall(), terms=self._terms)
        try:
            if step is Step.CREATE:
                self._held = await self._leases.create_lease(self._lease.namespace, body)
            else:
                self._held = await self._leases.update_lease(self._lease.namespace, body)
        except Conflict:
            return False
        except NotFound:
            if step is Step.CREATE:
                raise  # The namespace is missing.
            return False
        self._see(self._held)
        if self._renewed is None:
            logger.info("%s leads: this process", self.identity)
        self._renewed = now
        self.elected.set()
        return True

    def _see(self, lease: Json | None) -> None:
        record = Record.from_lease(lease) if lease is not None else None
        self._observed = observe(self._observed, record, self._clock(), self._terms)


def _text(error: Exception) -> str:
    return str(error) or "the API server did not answer in time"
