"""One pass over one custom resource: observe, desire, decide, act, report.

Start reading at `Reconciler.reconcile`. What woke the pass does not matter: it looks at the
world as it is and takes the steps that `decide` names, until nothing is left to do.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import random
import secrets
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from helm_operator import status
from helm_operator.annotations import RECONCILE, RESET, Wishes, wishes
from helm_operator.backoff import retry_delay
from helm_operator.checkup import LOOK_SECONDS, Checkup
from helm_operator.decision import Action, Attempt, Decision, Situation, decide
from helm_operator.errors import (
    ApiError,
    ApiUnavailable,
    Conflict,
    Forbidden,
    HelmError,
    HelmErrorKind,
    NotFound,
    PassError,
    RetryableError,
    TerminalError,
)
from helm_operator.health import Health, Summary, Verdict, assess, summarise
from helm_operator.helm import Helm, decode_release, mark_failed, redact, secret_strings, sensitive_strings
from helm_operator.kube import Kube, Resource
from helm_operator.plan import desire, release_key
from helm_operator.release import (
    ADOPT_ANNOTATION,
    FINALIZER,
    FOREIGN_FINALIZERS,
    CustomResource,
    DesiredRelease,
    Json,
    ObjectRef,
    ReleaseContent,
    ReleaseKey,
    ReleaseRecord,
    ReleaseStatus,
    Remediation,
)
from helm_operator.removal import remove_leftovers
from helm_operator.repair import Repairer, inventory_of
from helm_operator.report import Reporter
from helm_operator.served import ServedKind
from helm_operator.settings import Settings
from helm_operator.status import Outcome
from helm_operator.values import describe_change
from helm_operator.watchers import Coverage, Dependents, ReleaseCache, ResourceCache, ResourceKey

logger = logging.getLogger(__name__)

_MOST_STEPS: Final = 8
"""A pass that is not done after so many steps goes on in another one."""
_SYNC_PAUSE: Final = 1.0
"""Seconds until it is looked again whether a watch has brought its first list."""
_NEVER: Final = float("inf")
_CONFLICTS: Final = "other field managers hold fields of the chart; they are taken over"
_CATCH_UP_SPREAD: Final = 0.05
"""Seconds for each custom resource over which the comparisons after a start are spread."""
_TROUBLE_BASE: Final = 1.0
_TROUBLE_CEILING: Final = 60.0
_ANY_FINALIZER: Final = frozenset({FINALIZER, *FOREIGN_FINALIZERS})


@dataclass(frozen=True, slots=True)
class Next:
    """What the queue shall do with the key after a pass."""

    act: bool = False
    """The pass stopped before a Helm action: come again in the lane that may run Helm."""
    urgent: bool = False
    """Whether somebody waits for that action: an edit or a deletion."""
    after: float | None = None
    """Seconds until the next pass, whatever happens before; None: only when something happens."""


@dataclass(slots=True)
class Pass:
    """What one pass knows."""

    key: ResourceKey
    resource: CustomResource
    kind: ServedKind
    wishes: Wishes
    api: Resource
    release: ReleaseKey
    outcome: Outcome
    chart_token: object
    health_version: int
    may_act: bool
    fresh: bool = False
    """Whether the records come from the API server, not from the cache."""
    examined: bool | None = None
    again: float | None = None
    """Seconds after which a step wants another pass."""
    decision: Decision = field(default_factory=lambda: Decision(Action.NOTHING, "not decided yet"))
    secrets: set[str] = field(default_factory=set)
    """Texts that must not be shown to anybody."""

    @property
    def desired(self) -> DesiredRelease:
        if self.outcome.desired is None:
            raise RuntimeError("nothing is desired")  # Only deletion has no desired release.
        return self.outcome.desired


@dataclass(slots=True)
class _Running:
    """A Helm action under way, and the wish that it serves."""

    task: asyncio.Task[None]
    resource: CustomResource
    overtaken: bool = False


class Reconciler:
    """Brings the release of each custom resource to what it asks for."""

    def __init__(
        self,
        *,
        kube: Kube,
        helm: Helm,
        kinds: dict[str, ServedKind],
        resources: ResourceCache,
        releases: ReleaseCache,
        dependents: Dependents,
        settings: Settings,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`clock` gives Unix time in seconds."""
        self._kube = kube
        self._helm = helm
        self._kinds = kinds
        self._resources = resources
        self._releases = releases
        self._dependents = dependents
        self._settings = settings
        self._clock = clock
        self._reporter = Reporter(kube, resources, clock)
        self._repairer = Repairer(kube, manager=helm.field_manager)
        self._checkup = Checkup(kube, dependents, clock)
        self._polled_health: dict[ResourceKey, dict[ObjectRef, Verdict]] = {}
        self._explained: dict[ResourceKey, _Explained] = {}
        self._running: dict[ResourceKey, _Running] = {}
        self._settled: dict[ResourceKey, _Settled] = {}
        """What a pass without work looked like: the same again needs no pass at all."""
        self._overseen: dict[ResourceKey, tuple[str, int]] = {}
        """uid and revision for which it is known which objects are watched."""
        self._polls: dict[ResourceKey, _Poll] = {}
        """Objects that are compared with the manifest at a set time, watched or not."""
        self._periods: dict[ResourceKey, float] = {}
        """Seconds between two re-checks, as the newest pass has read them."""
        self._warned: dict[ResourceKey, tuple[str, ...]] = {}
        self._process = secrets.token_hex(4)
        self._attempts = itertools.count(1)
        self._unrepaired: dict[ResourceKey, _Unrepaired] = {}
        """Objects that could not be put right, and when that is tried again."""
        self._troubles: dict[ResourceKey, int] = {}
        """Passes in a row that an error other than Helm's ended."""
        self._steps: dict[Action, Callable[[Pass], Awaitable[bool]]] = {
            Action.EXAMINE: self._examine,
            Action.INSTALL: self._install,
            Action.UPGRADE: self._upgrade,
            Action.REPAIR: self._repair,
            Action.RECOVER: self._recover,
            Action.UNINSTALL: self._uninstall,
            Action.FINISH: self._finish,
            Action.LET_GO: self._let_go,
        }

    async def reconcile(self, key: ResourceKey, *, may_act: bool) -> Next:
        """Do one pass. Helm is run only with `may_act`.

        Never raises for what a custom resource, a chart, Helm or the API server did: that
        is what the status is for.
        """
        resource = self._resources.get(key)
        if resource is None or (resource.deleting and not _ANY_FINALIZER.intersection(resource.finalizers)):
            self.forget(key)
            return Next()
        kind = self._kinds[key.kind]
        if self._settled.get(key) == self._seen(key, resource) and self._due_poll(key) is None:
            after = self._until_poll(key, self._periods.get(key, _NEVER))
            return Next(after=None if after == _NEVER else after)
        outcome = Outcome(generation=resource.generation or None, deleting=resource.deleting)
        asked = wishes(resource.annotations, kind.watch)
        try:
            api = await self._kube.resource(kind.watch.api_version, kind.watch.kind)
        except ApiError as error:
            logger.warning("%s: %s; no status can be written before this is mended", key, error)
            return Next(after=self._trouble_delay(key, resource))
        if not api.status_subresource:
            outcome.generation = None  # Our own status would move it.
        release = release_key(resource)
        seen = (kind.chart_token, self._dependents.health_version(release))
        current = Pass(key, resource, kind, asked, api, release, outcome, *seen, may_act)
        await self._warn(current)
        try:
            if not await self._work(current):
                return Next(act=True, urgent=_is_news(resource))
        except _Overtaken:
            return Next(after=0.0)
        except PassError as error:
            outcome.error = error
        except ApiError as error:
            outcome.error = _as_pass_error(error)
        except Exception as error:
            logger.exception("%s: a defect of the operator ended the pass", key)
            outcome.error = RetryableError(
                f"a defect of the operator ended the pass ({type(error).__name__}); its log has the details. "
                "The pass is tried again with growing pauses",
                reason="InternalError",
            )
        return await self._report(current)

    def notice(self, key: ResourceKey, resource: CustomResource | None) -> None:
        """Cancel a running action whose wish is no longer the newest one."""
        running = self._running.get(key)
        if running is None or (resource is not None and _same_wish(running.resource, resource)):
            return
        running.overtaken = True
        running.task.cancel()

    def forget(self, key: ResourceKey) -> None:
        """Drop what is remembered of a custom resource that is gone."""
        for memory in (
            self._settled,
            self._overseen,
            self._polls,
            self._polled_health,
            self._explained,
            self._unrepaired,
            self._troubles,
            self._periods,
            self._warned,
        ):
            memory.pop(key, None)
        self._reporter.forget(key)

    async def _work(self, p: Pass) -> bool:
        """Take steps until nothing is left to do; False: the next one needs `may_act`."""
        await self._observe(p)
        if not p.resource.deleting:
            self._desire(p)
            self._oversee(p)
        for _ in range(_MOST_STEPS):
            decision = p.decision = p.outcome.decision = decide(self._situation(p))
            step = self._steps.get(decision.action)
            if step is None:
                break
            if decision.action.runs_helm and not p.may_act:
                return False
            if decision.action not in (Action.EXAMINE, Action.REPAIR) and not p.fresh:
                await self._look(p)  # A cache may lag; nothing is changed on its word alone.
                continue
            if not await step(p):
                break
        deployed = status.deployed_record(p.outcome.records) if p.outcome.owned else None
        known = self._reporter.known_status(p.key, p.resource)
        if deployed is not None and p.outcome.content is None and not status.tells_of(known, deployed):
            await self._read(p, deployed.revision)
        if deployed is not None and p.decision.action in (Action.NOTHING, Action.REPAIR) and not p.decision.blocked:
            await self._check_up(p)
        return True

    async def _check_up(self, p: Pass) -> None:
        """Learn how the objects of the running revision are."""
        refs = status.recorded_inventory(self._reporter.known_status(p.key, p.resource)) or p.outcome.inventory
        verdicts = self._checkup.verdicts(refs, self._polled_health.get(p.key, {}))
        if verdicts is None:
            p.again = _SYNC_PAUSE
            return
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

    async def _observe(self, p: Pass) -> None:
        if not self._releases.knows(p.release.namespace):
            await self._look(p)
            return
        p.outcome.records = self._releases.records(p.release)
        p.outcome.looked = True
        self._note_owner(p)

    async def _look(self, p: Pass) -> None:
        p.outcome.looked = False
        records, version = await self._kube.release_records(p.release)
        self._releases.observe(p.release, records, version)
        p.outcome.records, p.outcome.looked, p.fresh = records, True, True
        self._note_owner(p)

    def _note_owner(self, p: Pass) -> None:
        p.outcome.owned = not p.outcome.records or p.outcome.records[0].owner_uid == p.resource.uid

    def _desire(self, p: Pass) -> None:
        if not p.api.namespaced:
            raise TerminalError(
                f"{p.resource.kind} is cluster-scoped, and a release needs a namespace: change the CRD's scope to "
                "Namespaced and create the custom resource in the namespace of its release",
                reason="ClusterScoped",
            )
        p.outcome.desired = desire(p.resource, p.kind.watch, p.kind.usable_chart(), p.wishes)
        p.secrets |= sensitive_strings(p.desired.values)
        overrides = [override for override in p.kind.watch.overrides if override.from_environment]
        p.secrets |= {override.value for override in overrides if isinstance(override.value, str)}

    def _oversee(self, p: Pass) -> None:
        """See that changes of all objects of the recorded revision are noticed.

        Done once for a revision. What cannot be watched is polled. What went missing while
        nobody watched becomes suspect at once; all else that could have happened meanwhile is
        looked for a little later, not for all custom resources at once.
        """
        known = self._reporter.known_status(p.key, p.resource)
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
        self._overseen[p.key] = (p.resource.uid, revision)
        for ref, covered in coverage.items():
            if covered is Coverage.WATCHED and not self._dependents.exists(ref):
                self._dependents.suspect(p.release, ref)
        unwatched = frozenset(ref for ref, covered in coverage.items() if covered is Coverage.NOT_WATCHED)
        self._plan_poll(p, unwatched)
        if first:
            delay = random.uniform(0.0, len(self._resources) * _CATCH_UP_SPREAD)  # noqa: S311
            self._polls[p.key] = _Poll(frozenset(refs), self._clock() + delay, unwatched)

    def _plan_poll(self, p: Pass, refs: frozenset[ObjectRef]) -> None:
        self._polls.pop(p.key, None)
        if refs:
            # A little early, so that the pass of the next period finds it due.
            self._polls[p.key] = _Poll(refs, self._clock() + self._period(p) * 0.9, refs)

    def _due_poll(self, key: ResourceKey) -> _Poll | None:
        poll = self._polls.get(key)
        return poll if poll is not None and poll.at <= self._clock() else None

    def _suspects(self, p: Pass) -> frozenset[ObjectRef]:
        """Return the objects that are to be compared with the manifest now."""
        suspects = self._dependents.suspects(p.release)
        if (poll := self._due_poll(p.key)) is not None:
            suspects |= poll.refs
        if (unrepaired := self._unrepaired.get(p.key)) is not None:
            suspects |= unrepaired.refs
        return suspects

    def _situation(self, p: Pass) -> Situation:
        known = self._reporter.known_status(p.key, p.resource)
        adoption = known.get("adoption")
        used = adoption.get("token") if isinstance(adoption, dict) else None
        token = p.resource.annotations.get(ADOPT_ANNOTATION)
        handled = known.get("handledAnnotations")
        handled = handled if isinstance(handled, dict) else {}
        force, reset = p.wishes.force_token, p.wishes.reset_token
        return Situation(
            owner_uid=p.resource.uid,
            deleting=p.resource.deleting,
            records=p.outcome.records,
            desired=p.outcome.desired,
            attempt=Attempt.from_status(known),
            recorded_revision=status.recorded_revision(known),
            now=self._clock(),
            examined=p.examined,
            suspects=len(self._suspects(p)),
            adopt=token is not None and token == p.release.name and token != used,
            lock_timeout=p.kind.watch.timeout,
            paused=p.wishes.paused,
            forced=force is not None and force != handled.get(RECONCILE),
            forgiven=reset is not None and reset != handled.get(RESET),
            let_go=p.wishes.let_go,
            keep_history=p.wishes.uninstall.keep_history,
            process=self._process,
        )

    async def _read(self, p: Pass, revision: int) -> ReleaseContent:
        """Read a revision's payload; its texts are redacted, and its secrets noted."""
        payload = await self._kube.release_payload(p.release, revision)
        try:
            content = await asyncio.to_thread(decode_release, payload)
        except ValueError as error:
            raise RetryableError(
                f"revision {revision} of release {p.release.name} cannot be read: {error}. Delete its Secret to have "
                "the release made anew; the pass is tried again with growing pauses",
                reason="ReconcileError",
            ) from error
        p.secrets |= secret_strings(content.objects) | sensitive_strings(content.values)
        deployed = status.deployed_record(p.outcome.records)
        if deployed is not None and deployed.revision == revision:
            notes = redact(content.notes, p.secrets)
            p.outcome.content = content = replace(content, notes=notes)
            p.outcome.inventory = await inventory_of(self._kube, content, p.release)
            if p.kind.watch.watch_dependent_resources:
                self._dependents.ensure_watched(p.outcome.inventory)
        return content

    # Steps. Each returns whether to decide again.

    async def _examine(self, p: Pass) -> bool:
        content = await self._read(p, p.outcome.records[0].revision)
        p.examined = status.made_of(content, p.desired)
        return True

    async def _install(self, p: Pass) -> bool:
        await self._ensure_finalizer(p)
        await self._run(p, Action.INSTALL, self._helm.install(self._marked(p)))
        if self._must_take_fields(p):
            await self._run(p, Action.UPGRADE, self._helm.upgrade(self._marked(p, take_fields=True)), _CONFLICTS)
        elif self._left_a_failure(p) and p.wishes.install.remediation is Remediation.UNINSTALL:
            await self._remedy(p, "uninstall of the failed install", self._uninstall_call(p))
        return False

    async def _upgrade(self, p: Pass) -> bool:
        await self._ensure_finalizer(p)
        adopted = not p.outcome.owned
        because = p.decision.because if adopted else await self._what_changed(p)
        await self._run(p, Action.UPGRADE, self._helm.upgrade(self._marked(p)), because)
        if self._must_take_fields(p):
            await self._run(p, Action.UPGRADE, self._helm.upgrade(self._marked(p, take_fields=True)), _CONFLICTS)
        deployed = status.deployed_record(p.outcome.records)
        if self._left_a_failure(p) and p.wishes.upgrade.remediation is Remediation.ROLLBACK and deployed is not None:
            await self._remedy(p, f"roll-back to revision {deployed.revision}", self._rollback_call(p, deployed))
        if adopted and p.outcome.helm_error is None:
            p.outcome.adopted = {"token": p.release.name, "revision": p.outcome.records[0].revision}
        return False

    async def _recover(self, p: Pass) -> bool:
        """End a half-done action; then the ordinary rules apply."""
        await self._ensure_finalizer(p)
        newest = p.outcome.records[0]
        if newest.status.pending and len(p.outcome.records) > 1:
            # What Helm does itself when it is asked to stop. The objects stay as they are.
            await self._mark_failed(p, newest)
            await self._look(p)
            return True
        # A first install that never came to its end: only a new one runs all of its hooks.
        await self._run(p, Action.RECOVER, self._uninstall_call(p))
        return p.outcome.helm_error is None

    async def _uninstall(self, p: Pass) -> bool:
        await self._take_inventory(p)
        await self._run(p, Action.UNINSTALL, self._uninstall_call(p))
        return p.outcome.helm_error is None

    async def _finish(self, p: Pass) -> bool:
        """See that the objects are gone, then let the custom resource go."""
        await self._take_inventory(p)
        p.outcome.uninstalled = True
        waiting = await remove_leftovers(self._kube, p.outcome.inventory, p.release)
        p.outcome.waiting_for = tuple(waiting) if p.wishes.uninstall.wait else ()
        if not p.outcome.waiting_for:
            await self._release_finalizers(p)
        return False

    async def _let_go(self, p: Pass) -> bool:
        await self._release_finalizers(p)
        return False

    async def _repair(self, p: Pass) -> bool:
        suspects = self._suspects(p)
        known = self._unrepaired.get(p.key)
        if known is not None and known.until > self._clock() and suspects <= known.refs:
            p.outcome.drifted = True  # Nothing new: neither the objects nor what is told of them.
            raise known.error
        content = await self._read(p, p.outcome.records[0].revision)
        result = await self._repairer.repair(content, p.release, suspects)
        self._dependents.clear(p.release, result.settled)
        if (poll := self._due_poll(p.key)) is not None:
            self._plan_poll(p, poll.then)
            self._polled_health[p.key] = {
                ref: assess(result.live[ref], now=self._clock()) for ref in poll.then if ref in result.live
            }
        if result.repaired:
            await self._reporter.repaired(p.resource, result.repaired)
        if result.error is None:
            self._unrepaired.pop(p.key, None)
            return False
        tries = known.tries + 1 if known is not None else 1
        pause = retry_delay(tries, base=_TROUBLE_BASE, ceiling=_TROUBLE_CEILING, spread=p.resource.uid)
        refs = frozenset(result.faults)
        self._unrepaired[p.key] = _Unrepaired(result.error, refs, self._clock() + pause, tries)
        p.outcome.drifted = True
        raise result.error

    # How the steps work.

    def _marked(self, p: Pass, *, take_fields: bool = False) -> DesiredRelease:
        """Return what is desired, with the mark of this attempt."""
        attempt = f"{self._process}.{next(self._attempts)}"
        upgrade = replace(p.desired.upgrade, force_conflicts=True) if take_fields else p.desired.upgrade
        return replace(p.desired, attempt=attempt, upgrade=upgrade)

    def _must_take_fields(self, p: Pass) -> bool:
        """Whether Helm was refused over fields of other managers, and shall take them.

        The correction of drift would take them back as well, so an upgrade does not stop there.
        """
        error = p.outcome.helm_error
        if error is None or error.kind is not HelmErrorKind.FIELD_CONFLICT:
            return False
        return p.desired.upgrade.force_conflicts is None and bool(p.outcome.records)

    def _left_a_failure(self, p: Pass) -> bool:
        """Whether the action failed in a way that left a failed revision behind."""
        newest = p.outcome.records[0] if p.outcome.looked and p.outcome.records else None
        error = p.outcome.helm_error
        return (
            error is not None
            and error.kind is not HelmErrorKind.CANCELLED
            and p.outcome.owned
            and newest is not None
            and newest.status is ReleaseStatus.FAILED
        )

    async def _remedy(self, p: Pass, what: str, call: Awaitable[None]) -> None:
        """Undo a failed action. The failure stays what is told; that of the remedy comes behind it."""
        failure = p.outcome.helm_error
        assert failure is not None  # noqa: S101 - _left_a_failure has looked
        logger.info("%s: %s of release %s begins", p.key, what, p.release)
        try:
            await self._interruptible(p, call)
            told = f"{failure}. It was followed by a {what}"
        except HelmError as error:
            told = f"{failure}. The {what} failed as well: {redact(str(error), p.secrets)}"
        p.outcome.helm_error = HelmError(told, kind=failure.kind, output=failure.output)
        await self._look(p)

    async def _rollback_call(self, p: Pass, to: ReleaseRecord) -> None:
        options = p.wishes.upgrade
        await self._helm.rollback(
            p.release,
            to.revision,
            timeout=p.kind.watch.timeout,
            history_max=p.kind.watch.history_max,
            force=options.rollback_force,
            force_conflicts=bool(options.force_conflicts),
            disable_hooks=options.disable_hooks,
        )

    async def _uninstall_call(self, p: Pass) -> None:
        try:
            # Half-done releases are purged: only what the custom resource's deletion leaves may be kept.
            keep = p.wishes.uninstall.keep_history and p.resource.deleting
            remarks = await self._helm.uninstall(
                p.release,
                timeout=p.kind.watch.timeout,
                keep_history=keep,
                disable_hooks=p.wishes.uninstall.disable_hooks,
                description=p.wishes.uninstall.description if keep else "",
            )
        except HelmError as error:
            if error.kind is not HelmErrorKind.NOT_FOUND:
                raise
        else:
            if remarks:
                logger.info("%s: helm uninstall of %s says: %s", p.key, p.release, redact(remarks, p.secrets))

    async def _run(self, p: Pass, action: Action, call: Awaitable[None], because: str = "") -> None:
        """Run one Helm action, and look at what it left behind."""
        outcome = p.outcome
        outcome.action, outcome.started_at = action, self._clock()
        outcome.because = because or p.decision.because
        outcome.next_attempt_at, outcome.failures = None, 0
        logger.info("%s: %s of release %s begins: %s", p.key, action, p.release, outcome.because)
        error: HelmError | None = None
        try:
            await self._interruptible(p, call)
        except HelmError as found:
            error = self._note_failure(p, action, found)
        outcome.helm_error, outcome.finished_at = error, self._clock()
        tokens = {RECONCILE: p.wishes.force_token, RESET: p.wishes.reset_token}
        outcome.handled = {name: token for name, token in tokens.items() if token is not None} or None
        took = outcome.finished_at - outcome.started_at
        if error is None:
            self._overseen.setdefault(p.key, (p.resource.uid, 0))  # Its objects are as Helm has just left them.
            logger.info("%s: %s of release %s done in %.2f s", p.key, action, p.release, took)
        else:
            logger.warning("%s: %s of release %s failed: %s", p.key, action, p.release, error)
        await self._look(p)

    def _note_failure(self, p: Pass, action: Action, error: HelmError) -> HelmError:
        """Plan the next try, and return the error with nothing secret in it."""
        outcome = p.outcome
        shown = HelmError(redact(str(error), p.secrets), kind=error.kind, output=redact(error.output, p.secrets))
        digest = outcome.desired.input_digest if outcome.desired else ""
        previous = Attempt.from_status(self._reporter.known_status(p.key, p.resource))
        if error.kind is HelmErrorKind.CANCELLED:
            # Our own doing: it does not count, and earlier failures go on counting.
            outcome.failures = status.failed_attempts(previous, action, digest) - 1
            outcome.next_attempt_at = self._clock() if outcome.failures else None
            return shown
        outcome.failures = status.failed_attempts(previous, action, digest)
        retries = {Action.INSTALL: p.wishes.install.retries, Action.UPGRADE: p.wishes.upgrade.retries}.get(action)
        exhausted = retries is not None and outcome.failures > retries
        if (error.kind not in status.TERMINAL and not exhausted) or action is Action.UNINSTALL:
            settings = self._settings
            delay = retry_delay(
                outcome.failures, base=settings.retry_base, ceiling=settings.retry_ceiling, spread=p.resource.uid
            )
            outcome.next_attempt_at = self._clock() + delay
            outcome.capped = settings.retry_base * 2.0 ** (outcome.failures - 1) >= settings.retry_ceiling
        return shown

    async def _interruptible(self, p: Pass, call: Awaitable[None]) -> None:
        async def run() -> None:
            await call

        task = asyncio.create_task(run())
        running = self._running[p.key] = _Running(task, p.resource)
        # The wish may have changed while the steps before this one waited.
        self.notice(p.key, self._resources.get(p.key))
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:  # Shutdown: end Helm, then report as ever.
            task.cancel()
            await asyncio.wait({task})
        finally:
            del self._running[p.key]
        if task.cancelled():
            why = "a newer wish overtook it" if running.overtaken else "the operator shuts down"
            raise HelmError(f"cancelled: {why}", kind=HelmErrorKind.CANCELLED)
        task.result()

    async def _mark_failed(self, p: Pass, record: ReleaseRecord) -> None:
        logger.warning("%s: %s", p.key, p.decision.because)
        payload = await self._kube.release_payload(p.release, record.revision)
        marked = await asyncio.to_thread(mark_failed, payload, "Interrupted, and marked as failed by helm-operator")
        try:
            await self._kube.replace_release(record, marked, ReleaseStatus.FAILED)
        except Conflict:
            raise _Overtaken from None  # Somebody works on it after all.

    async def _what_changed(self, p: Pass) -> str:
        """Say in which way the inputs differ from those of the running revision."""
        deployed = status.deployed_record(p.outcome.records)
        if deployed is None:
            return p.decision.because
        content = await self._read(p, deployed.revision)
        p.outcome.content = None  # It speaks of the revision that is about to be replaced.
        difference = _difference(content, p.desired)
        failed = p.outcome.records[0].revision != deployed.revision
        return f"{p.decision.because}; {difference}" if failed else difference

    async def _take_inventory(self, p: Pass) -> None:
        """Learn what the release consists of, while its record is there to tell."""
        outcome = p.outcome
        known = list(outcome.inventory)
        known += status.recorded_inventory(self._reporter.known_status(p.key, p.resource))
        if outcome.records and outcome.owned:
            newest = outcome.records[0].revision
            payload = await self._kube.release_payload(p.release, newest)
            content = await asyncio.to_thread(decode_release, payload)
            known += await inventory_of(self._kube, content, p.release)
            p.secrets |= secret_strings(content.objects) | sensitive_strings(content.values)
        outcome.inventory = tuple(dict.fromkeys(known))

    async def _ensure_finalizer(self, p: Pass) -> None:
        if FINALIZER not in p.resource.finalizers:
            await self._set_finalizers(p, [*p.resource.finalizers, FINALIZER])

    async def _release_finalizers(self, p: Pass) -> None:
        left = [name for name in p.resource.finalizers if name not in _ANY_FINALIZER]
        if left:  # Somebody else still holds the custom resource: tell how it stands.
            await self._reporter.report(p.key, p.resource, p.api, p.outcome)
            p.resource = self._resources.get(p.key) or p.resource
        await self._set_finalizers(p, left)
        logger.info("%s: the release is gone, and so is our finalizer", p.key)

    async def _set_finalizers(self, p: Pass, finalizers: list[str]) -> None:
        patch: Json = {"metadata": {"finalizers": finalizers, "resourceVersion": p.resource.resource_version}}
        try:
            body = await self._kube.patch_custom_resource(p.api, p.key.namespace, p.key.name, patch)
        except Conflict:
            self._resources.store(p.key, await self._kube.get_custom_resource(p.api, p.key.namespace, p.key.name))
            raise _Overtaken from None
        except NotFound:
            if not p.resource.deleting:
                raise
            self._resources.drop(p.key, p.resource.uid)
            return
        if body["metadata"].get("deletionTimestamp") and not finalizers:
            self._resources.drop(p.key, p.resource.uid)
            return
        self._resources.update(p.key, body)
        fresh = CustomResource.from_body(body)
        if not _same_wish(p.resource, fresh):
            raise _Overtaken
        p.resource = fresh

    async def _report(self, p: Pass) -> Next:
        outcome = p.outcome
        if self._resources.get(p.key) is None and p.resource.deleting:
            self.forget(p.key)
            return Next()  # The custom resource is gone; nothing is left to write to.
        written = await self._reporter.report(p.key, p.resource, p.api, outcome)
        if outcome.error is None and written is not None:
            self._troubles.pop(p.key, None)
        done = outcome.error is None and outcome.action is None and p.decision.blocked is None
        if written is not None and done and p.again is None and p.decision.action in (Action.NOTHING, Action.REPAIR):
            # Only what this pass has seen and written: news that came meanwhile must not be settled.
            self._settled[p.key] = _Settled(written, p.chart_token, outcome.records, frozenset(), p.health_version)
        else:
            self._settled.pop(p.key, None)
        return Next(after=self._again_after(p, written=written is not None))

    def _again_after(self, p: Pass, *, written: bool) -> float | None:
        outcome, now = p.outcome, self._clock()
        self._periods[p.key] = self._period(p)
        delays = [self._until_poll(p.key, self._periods[p.key])]
        if p.again is not None:
            delays.append(p.again)
        if outcome.drifted and p.key in self._unrepaired:
            delays.append(self._unrepaired[p.key].until - now)
        elif (outcome.error is not None and not isinstance(outcome.error, TerminalError)) or not written:
            delays.append(self._trouble_delay(p.key, p.resource))
        if outcome.next_attempt_at is not None:
            delays.append(outcome.next_attempt_at - now)
        if outcome.decision is not None and outcome.decision.again_after is not None:
            delays.append(outcome.decision.again_after)
        if outcome.helm_error is not None and outcome.helm_error.kind is HelmErrorKind.CANCELLED:
            delays.append(0.0)
        if outcome.waiting_for:
            delays.append(1.0)
        soonest = min(delays)
        return None if soonest == _NEVER else max(0.0, soonest)

    def _until_poll(self, key: ResourceKey, most: float) -> float:
        """Return the seconds until a poll is due, at most `most`."""
        poll = self._polls.get(key)
        return most if poll is None else max(0.0, min(most, poll.at - self._clock()))

    def _trouble_delay(self, key: ResourceKey, resource: CustomResource) -> float:
        count = self._troubles[key] = self._troubles.get(key, 0) + 1
        return retry_delay(count, base=_TROUBLE_BASE, ceiling=_TROUBLE_CEILING, spread=resource.uid)

    def _period(self, p: Pass) -> float:
        asked = p.wishes.reconcile_period
        return self._settings.reconcile_period if asked is None else asked

    async def _warn(self, p: Pass) -> None:
        """Tell once what is wrong with the annotations."""
        told = self._warned.get(p.key, ())
        if p.wishes.warnings != told:
            self._warned[p.key] = p.wishes.warnings
            for warning in p.wishes.warnings:
                if warning not in told:
                    await self._reporter.warn(p.resource, "InvalidAnnotation", warning)

    def _seen(self, key: ResourceKey, resource: CustomResource) -> _Settled:
        release = release_key(resource)
        return _Settled(
            (resource.uid, resource.resource_version),
            self._kinds[key.kind].chart_token,
            self._releases.records(release),
            self._dependents.suspects(release),
            self._dependents.health_version(release),
        )


class _Settled(NamedTuple):
    """All that a pass depends on. The same again needs no pass."""

    version: tuple[str, str]
    """uid and resourceVersion of the custom resource, our own last write included."""
    chart: object
    records: tuple[ReleaseRecord, ...]
    suspects: frozenset[ObjectRef]
    health: int


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


class _Overtaken(Exception):
    """The custom resource changed under the pass: the next one, due at once, has the newest wish."""


def _same_wish(one: CustomResource, other: CustomResource) -> bool:
    return one.uid == other.uid and one.deleting == other.deleting and one.spec == other.spec


def _is_news(resource: CustomResource) -> bool:
    """Whether the spec was edited or the custom resource deleted since its status was written."""
    return resource.deleting or resource.status.get("observedGeneration") != resource.generation


def _difference(content: ReleaseContent, desired: DesiredRelease) -> str:
    parts = []
    if (content.chart.name, content.chart.version) != (desired.chart.name, desired.chart.version):
        parts.append(f"chart {content.chart} became {desired.chart}")
    if changed := describe_change(content.values, desired.values):
        parts.append(f"values changed: {changed}")
    return "; ".join(parts) or "the files of the chart changed"


def _as_pass_error(error: ApiError) -> PassError:
    match error:
        case Forbidden():
            return RetryableError(
                f"{error}. Give the operator's account this permission; the pass is tried again with growing pauses",
                reason="Forbidden",
            )
        case ApiUnavailable():
            return RetryableError(f"{error}. The pass is tried again with growing pauses", reason="ApiUnavailable")
        case _:
            return RetryableError(f"{error}. The pass is tried again with growing pauses", reason="ReconcileError")
