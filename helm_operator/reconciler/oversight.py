"""Keeps an eye on the objects of a release: who tells of changes, what differs, how they are."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Mapping
from typing import Final, NamedTuple

from helm_operator import status
from helm_operator.backoff import retry_delay
from helm_operator.checkup import LOOK_SECONDS, Checkup
from helm_operator.drift import Drift
from helm_operator.drift_policy import DriftMode
from helm_operator.errors import PassError
from helm_operator.health import Health, Summary, Verdict, assess, summarise
from helm_operator.kube import Kube
from helm_operator.reconciler.findings import Findings
from helm_operator.reconciler.passes import Pass
from helm_operator.reconciler.sight import Sight
from helm_operator.release import Json, ObjectRef, ReleaseKey
from helm_operator.repair import Repairer, RepairResult
from helm_operator.report import Reporter
from helm_operator.watchers import Coverage, Dependents, ResourceCache, ResourceKey
from helm_operator.watches import Watch

_SYNC_PAUSE: Final = 1.0
"""Seconds until it is looked again whether a watch has brought its first list."""
_SETTLE_SECONDS: Final = 1.0
"""After an action, how long its objects are not judged."""
_CATCH_UP_SPREAD: Final = 0.05
"""Seconds for each custom resource over which the comparisons after a start are spread."""
_TRY_BASE: Final = 1.0
_TRY_CEILING: Final = 60.0
"""First and longest pause between two tries to put an object right, in seconds."""


class Oversight:
    """One for all releases; remembers per custom resource what it has found."""

    def __init__(
        self,
        *,
        sight: Sight,
        kube: Kube,
        manager: str,
        resources: ResourceCache,
        dependents: Dependents,
        reporter: Reporter,
        period: Callable[[Pass], float],
        clock: Callable[[], float],
    ) -> None:
        """`manager` is Helm's field manager; `period` gives the seconds between two re-checks."""
        self._sight = sight
        self._resources = resources
        self._dependents = dependents
        self._reporter = reporter
        self._period = period
        self._clock = clock
        self._repairer = Repairer(kube, manager=manager)
        self._checkup = Checkup(kube, dependents, clock)
        self._overseen: dict[ResourceKey, tuple[str, int]] = {}
        """uid and revision for which it is known which objects are watched."""
        self._made_at: dict[ResourceKey, float] = {}
        """When (Unix time) Helm last wrote the objects."""
        self._polls: dict[ResourceKey, _Poll] = {}
        """Objects that are compared with the manifest at a set time, watched or not."""
        self._polled_health: dict[ResourceKey, dict[ObjectRef, Verdict]] = {}
        self._explained: dict[ResourceKey, _Explained] = {}
        self._unrepaired: dict[ResourceKey, _Unrepaired] = {}
        """Objects that could not be put right, and when that is tried again."""
        self._findings: dict[ResourceKey, Findings] = {}

    def forget(self, key: ResourceKey) -> None:
        """Drop what is remembered of a custom resource that is gone."""
        for memory in (
            self._overseen,
            self._made_at,
            self._polls,
            self._polled_health,
            self._explained,
            self._unrepaired,
            self._findings,
        ):
            memory.pop(key, None)

    def made_by_us(self, p: Pass) -> None:
        """Note that Helm has just left the objects as they are: nothing happened unseen."""
        self._overseen.setdefault(p.key, (p.resource.uid, 0))
        self._made_at[p.key] = self._clock()
        self._keep_findings(p, ())

    def drift(self, p: Pass) -> Drift | None:
        """Return what there is to tell of objects that are left as they differ; None: not all were compared yet."""
        if _mode(p) is DriftMode.OFF:
            return Drift()
        poll = self._polls.get(p.key)
        if p.key not in self._overseen or (poll is not None and poll.catches_up):
            return None
        return self._findings_of(p).told(self._clock())

    def _findings_of(self, p: Pass) -> Findings:
        return self._findings.setdefault(p.key, Findings(_mode(p), p.resource.uid))

    def _keep_findings(self, p: Pass, refs: Collection[ObjectRef]) -> None:
        self._findings_of(p).keep_only(refs)
        self._follow(p)

    def _follow(self, p: Pass) -> None:
        """Have it noticed when objects that are left as they differ are put right by somebody."""
        self._dependents.follow(p.release, self._findings_of(p).differing if _mode(p) is DriftMode.WARN else ())

    def next_try(self, p: Pass) -> float | None:
        """Return when (Unix time) an object that could not be put right is tried again."""
        unrepaired = self._unrepaired.get(p.key)
        return unrepaired.until if unrepaired is not None and p.outcome.error is unrepaired.error else None

    def oversee(self, p: Pass) -> None:
        """See that changes of all objects of the recorded revision are noticed.

        Done once for a revision. What cannot be watched is polled. What went missing while
        nobody watched becomes suspect at once; all else that could have happened meanwhile is
        looked for a little later, not for all custom resources at once.
        """
        known = self._sight.known_status(p)
        revision = status.recorded_revision(known)
        if revision is None or self._overseen.get(p.key) == (p.resource.uid, revision):
            return
        refs = status.recorded_inventory(known)
        if p.kind.watch.watch_dependent_resources:
            self._dependents.ensure_watched(refs)
        coverage = {ref: self._dependents.coverage(ref) for ref in refs}
        if Coverage.STARTING in coverage.values():
            p.again = _SYNC_PAUSE
            return
        first = p.key not in self._overseen
        self._keep_findings(p, refs)
        self._overseen[p.key] = (p.resource.uid, revision)
        for ref, covered in coverage.items():
            if covered is Coverage.WATCHED and not self._dependents.exists(ref):
                self._dependents.suspect(p.release, ref)
        unwatched = frozenset(ref for ref, covered in coverage.items() if covered is Coverage.NOT_WATCHED)
        self._plan_poll(p, unwatched)
        if first:
            delay = random.uniform(0.0, len(self._resources) * _CATCH_UP_SPREAD)  # noqa: S311
            self._polls[p.key] = _Poll(frozenset(refs), self._clock() + delay, unwatched, catches_up=True)

    def _plan_poll(self, p: Pass, refs: frozenset[ObjectRef]) -> None:
        self._polls.pop(p.key, None)
        if refs:
            # A little early, so that the pass of the next period finds it due.
            self._polls[p.key] = _Poll(refs, self._clock() + self._period(p) * 0.9, refs)

    def _due_poll(self, key: ResourceKey) -> _Poll | None:
        poll = self._polls.get(key)
        return poll if poll is not None and poll.at <= self._clock() else None

    def until_due(self, key: ResourceKey, most: float) -> float:
        """Return the seconds until there is something to look at or to tell without any news, at most `most`."""
        now, times = self._clock(), []
        if (poll := self._polls.get(key)) is not None:
            times.append(poll.at)
        if (findings := self._findings.get(key)) is not None and (next_at := findings.next_at(now)) is not None:
            times.append(next_at)
        return max(0.0, min([most, *(time - now for time in times)]))

    def news(self, key: ResourceKey, release: ReleaseKey, watch: Watch) -> frozenset[ObjectRef]:
        """Return the objects that watches have told of, and that are to be compared now."""
        if watch.drift.mode is DriftMode.OFF:
            return frozenset()
        findings = self._findings.get(key)
        return self._dependents.suspects(release) - (findings.resting(self._clock()) if findings else frozenset())

    def suspects(self, p: Pass) -> frozenset[ObjectRef]:
        """Return the objects that are to be looked at now."""
        suspects = self.news(p.key, p.release, p.kind.watch)
        if (poll := self._due_poll(p.key)) is not None:
            suspects |= poll.refs
        if (unrepaired := self._unrepaired.get(p.key)) is not None:
            suspects |= unrepaired.refs
        return suspects | self._findings_of(p).overdue(self._clock())

    async def mend(self, p: Pass, revision: int) -> None:
        """Put suspects right before an upgrade, as well as it goes.

        Helm would be refused over fields that somebody took, and over lists that somebody's
        entry makes invalid. The mode does not matter: the upgrade writes the objects anyway.
        """
        if suspects := self._dependents.suspects(p.release) | self._findings_of(p).differing:
            await self._put_right(p, revision, suspects)

    async def repair(self, p: Pass) -> bool:
        """Put right, or find out, what differs from the newest revision; never decides again."""
        suspects, poll, mode = self.suspects(p), self._due_poll(p.key), _mode(p)
        if mode is DriftMode.OFF:
            if poll is not None:
                self._note_poll(p, poll, await self._repairer.look(poll.then))
            return False
        known = self._unrepaired.get(p.key)
        if known is not None and known.until > self._clock() and suspects <= known.refs:
            p.outcome.drifted = mode is DriftMode.CORRECT  # Nothing new: neither the objects nor what is told of them.
            raise known.error
        hands_off = suspects if mode is DriftMode.WARN else self._findings_of(p).resting(self._clock())
        result = await self._put_right(p, p.outcome.records[0].revision, suspects, hands_off)
        if poll is not None:
            self._note_poll(p, poll, result.live)
        if result.error is None:
            self._unrepaired.pop(p.key, None)
            return False
        tries = known.tries + 1 if known is not None and not result.repaired else 1
        pause = retry_delay(tries, base=_TRY_BASE, ceiling=_TRY_CEILING, spread=p.resource.uid)
        refs = frozenset(result.faults)
        self._unrepaired[p.key] = _Unrepaired(result.error, refs, self._clock() + pause, tries)
        p.outcome.drifted = mode is DriftMode.CORRECT
        raise result.error

    def _note_poll(self, p: Pass, poll: _Poll, live: Mapping[ObjectRef, Json]) -> None:
        self._plan_poll(p, poll.then)
        self._polled_health[p.key] = {ref: assess(live[ref], now=self._clock()) for ref in poll.then if ref in live}

    async def _put_right(
        self, p: Pass, revision: int, suspects: frozenset[ObjectRef], hands_off: frozenset[ObjectRef] = frozenset()
    ) -> RepairResult:
        # Taken back beforehand, so that what changes while it is looked at is suspect anew.
        taken = self._dependents.suspects(p.release) & suspects
        self._dependents.clear(p.release, taken)
        try:
            content = await self._sight.read(p, revision)
            policy = p.kind.watch.drift
            result = await self._repairer.repair(content, p.release, suspects, policy=policy, hands_off=hands_off)
            taken -= result.settled
        finally:
            self._dependents.keep(p.release, taken)
        self._findings_of(p).note(result, self._clock())
        self._follow(p)
        if result.repaired:
            await self._reporter.repaired(p.resource, result.repaired)
        return result

    async def check_up(self, p: Pass) -> None:
        """Learn how the objects of the running revision are."""
        refs = status.recorded_inventory(self._sight.known_status(p)) or p.outcome.inventory
        verdicts = self._checkup.verdicts(refs, self._polled_health.get(p.key, {}))
        if verdicts is None:
            p.again = _SYNC_PAUSE
            return
        settling = self._made_at.get(p.key, 0.0) + _SETTLE_SECONDS - self._clock()
        if settling > 0:
            p.again = settling  # The watches may not have told of the newest writes yet.
            return
        await self._checkup.rejudge(verdicts)
        summary, now = summarise(verdicts), self._clock()
        known = self._explained.get(p.key)
        if summary.health is Health.HEALTHY:
            self._explained.pop(p.key, None)
        elif known is not None and known.verdicts == verdicts and now < known.until:
            summary = known.summary
        else:
            summary = await self._checkup.explain(verdicts)
            self._explained[p.key] = _Explained(verdicts, summary, now + LOOK_SECONDS)
        p.outcome.health = summary
        if summary.health is not Health.HEALTHY:
            p.again = LOOK_SECONDS
        if summary.recheck_at is not None:
            p.again = min(p.again or LOOK_SECONDS, max(0.1, summary.recheck_at - now))


class _Explained(NamedTuple):
    """What was found out about a release that is not healthy, and until when (Unix time) that will do."""

    verdicts: dict[ObjectRef, Verdict]
    summary: Summary
    until: float


class _Unrepaired(NamedTuple):
    """Objects that could not be put right, why, until when (Unix time) that will do, and tries so far."""

    error: PassError
    refs: frozenset[ObjectRef]
    until: float
    tries: int


class _Poll(NamedTuple):
    """Objects to compare with the manifest at Unix time `at`, and those to poll from then on."""

    refs: frozenset[ObjectRef]
    at: float
    then: frozenset[ObjectRef]
    catches_up: bool = False
    """Whether it is the first look at all objects since the operator has started."""


def _mode(p: Pass) -> DriftMode:
    return p.kind.watch.drift.mode
