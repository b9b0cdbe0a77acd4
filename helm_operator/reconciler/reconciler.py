"""One pass over one custom resource: observe, desire, decide, act, report.

Start reading at `Reconciler.reconcile`. What woke the pass does not matter: it looks at the
world as it is and takes the steps that `decide` names, until nothing is left to do.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

from helm_operator import status
from helm_operator.annotations import RECONCILE, RESET, wishes
from helm_operator.backoff import retry_delay
from helm_operator.decision import Action, Attempt, Situation, decide
from helm_operator.errors import (
    ApiError,
    ApiUnavailable,
    Forbidden,
    HelmErrorKind,
    PassError,
    RetryableError,
    TerminalError,
)
from helm_operator.helm import Helm, sensitive_strings
from helm_operator.kube import Kube
from helm_operator.plan import desire, release_key
from helm_operator.reconciler.actions import Actions
from helm_operator.reconciler.finalizers import ANY_FINALIZER, Finalizers
from helm_operator.reconciler.oversight import Oversight
from helm_operator.reconciler.passes import Next, Overtaken, Pass
from helm_operator.reconciler.sight import Sight
from helm_operator.release import ADOPT_ANNOTATION, CustomResource, ObjectRef, ReleaseRecord
from helm_operator.report import Reporter
from helm_operator.served import ServedKind
from helm_operator.settings import Settings
from helm_operator.status import Outcome
from helm_operator.watchers import Dependents, ReleaseCache, ResourceCache, ResourceKey

logger = logging.getLogger(__name__)

_MOST_STEPS: Final = 8
"""A pass that is not done after so many steps goes on in another one."""
_NEVER: Final = float("inf")
_TROUBLE_BASE: Final = 1.0
_TROUBLE_CEILING: Final = 60.0


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
        self._kinds = kinds
        self._resources = resources
        self._releases = releases
        self._dependents = dependents
        self._settings = settings
        self._clock = clock
        self._reporter = Reporter(kube, resources, clock)
        self._sight = Sight(kube, releases, dependents, self._reporter)
        self._oversight = Oversight(
            sight=self._sight,
            kube=kube,
            manager=helm.field_manager,
            resources=resources,
            dependents=dependents,
            reporter=self._reporter,
            period=self._period,
            clock=clock,
        )
        self._actions = Actions(
            sight=self._sight,
            kube=kube,
            helm=helm,
            finalizers=Finalizers(kube, resources, self._reporter),
            resources=resources,
            made=self._oversight.made_by_us,
            mend=self._oversight.mend,
            settings=settings,
            clock=clock,
        )
        self._settled: dict[ResourceKey, _Settled] = {}
        """What a pass without work looked like: the same again needs no pass at all."""
        self._periods: dict[ResourceKey, float] = {}
        """Seconds between two re-checks, as the newest pass has read them."""
        self._warned: dict[ResourceKey, tuple[str, ...]] = {}
        self._troubles: dict[ResourceKey, int] = {}
        """Passes in a row that an error other than Helm's ended."""
        self._steps: dict[Action, Callable[[Pass], Awaitable[bool]]] = {
            Action.EXAMINE: self._examine,
            Action.INSTALL: self._actions.install,
            Action.UPGRADE: self._actions.upgrade,
            Action.REPAIR: self._oversight.repair,
            Action.RECOVER: self._actions.recover,
            Action.UNINSTALL: self._actions.uninstall,
            Action.FINISH: self._actions.finish,
            Action.LET_GO: self._actions.let_go,
        }

    async def reconcile(self, key: ResourceKey, *, may_act: bool) -> Next:
        """Do one pass. Helm is run only with `may_act`.

        Never raises for what a custom resource, a chart, Helm or the API server did: that
        is what the status is for.
        """
        resource = self._resources.get(key)
        if resource is None or (resource.deleting and not ANY_FINALIZER.intersection(resource.finalizers)):
            self.forget(key)
            return Next()
        kind = self._kinds[key.kind]
        after = self._oversight.until_due(key, self._periods.get(key, _NEVER))
        if self._settled.get(key) == self._seen(key, resource) and after > 0:
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
        except Overtaken:
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
        self._actions.notice(key, resource)

    def forget(self, key: ResourceKey) -> None:
        """Drop what is remembered of a custom resource that is gone."""
        for memory in (self._settled, self._periods, self._warned, self._troubles):
            memory.pop(key, None)
        self._oversight.forget(key)
        self._reporter.forget(key)

    async def _work(self, p: Pass) -> bool:
        """Take steps until nothing is left to do; False: the next one needs `may_act`."""
        await self._sight.observe(p)
        if not p.resource.deleting:
            self._desire(p)
            self._oversight.oversee(p)
        for _ in range(_MOST_STEPS):
            decision = p.decision = p.outcome.decision = decide(self._situation(p))
            step = self._steps.get(decision.action)
            if step is None:
                break
            if decision.action.runs_helm and not p.may_act:
                return False
            if decision.action not in (Action.EXAMINE, Action.REPAIR) and not p.fresh:
                await self._sight.look(p)  # A cache may lag; nothing is changed on its word alone.
                continue
            if not await step(p):
                break
        deployed = status.deployed_record(p.outcome.records) if p.outcome.owned else None
        known = self._sight.known_status(p)
        if deployed is not None and p.outcome.content is None and not status.tells_of(known, deployed):
            await self._sight.read(p, deployed.revision)
        if deployed is not None and p.decision.action in (Action.NOTHING, Action.REPAIR) and not p.decision.blocked:
            await self._oversight.check_up(p)
        return True

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
        p.secrets |= {str(override.value) for override in overrides}

    def _situation(self, p: Pass) -> Situation:
        known = self._sight.known_status(p)
        adoption = known.get("adoption")
        used = adoption.get("token") if isinstance(adoption, dict) else None
        token = p.resource.annotations.get(ADOPT_ANNOTATION)
        handled = known.get("handledAnnotations")
        handled = handled if isinstance(handled, dict) else {}
        force, reset = p.wishes.force_token, p.wishes.reset_token
        p.forgiven = reset is not None and reset != handled.get(RESET)
        return Situation(
            owner_uid=p.resource.uid,
            deleting=p.resource.deleting,
            records=p.outcome.records,
            desired=p.outcome.desired,
            attempt=Attempt.from_status(known),
            recorded_revision=status.recorded_revision(known),
            now=self._clock(),
            examined=p.examined,
            suspects=len(self._oversight.suspects(p)),
            adopt=token is not None and token == p.release.name and token != used,
            lock_timeout=p.kind.watch.timeout,
            paused=p.wishes.paused,
            forced=force is not None and force != handled.get(RECONCILE),
            forgiven=p.forgiven,
            let_go=p.wishes.let_go,
            keep_history=p.wishes.uninstall.keep_history,
            process=self._actions.process,
            alone=self._settings.lease is None,
        )

    async def _examine(self, p: Pass) -> bool:
        content = await self._sight.read(p, p.outcome.records[0].revision)
        p.examined = status.made_of(content, p.desired)
        return True

    async def _report(self, p: Pass) -> Next:
        outcome = p.outcome
        if self._resources.get(p.key) is None and p.resource.deleting:
            self.forget(p.key)
            return Next()  # The custom resource is gone; nothing is left to write to.
        outcome.drift = self._oversight.drift(p)
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
        delays = [self._periods[p.key]]
        looks = p.decision.action in (Action.NOTHING, Action.REPAIR) and p.decision.blocked is None
        if looks and outcome.error is None:
            # Nothing else would make a poll that is due; after an error there is a next try.
            delays.append(self._oversight.until_due(p.key, self._periods[p.key]))
        if p.again is not None:
            delays.append(p.again)
        if (next_try := self._oversight.next_try(p)) is not None:
            delays.append(next_try - now)
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
            self._oversight.news(key, release, self._kinds[key.kind].watch),
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


def _is_news(resource: CustomResource) -> bool:
    """Whether the spec was edited or the custom resource deleted since its status was written."""
    return resource.deleting or resource.status.get("observedGeneration") != resource.generation


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
