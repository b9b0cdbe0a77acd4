"""Wires the parts together, and starts and stops them in order."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import random
import shutil
import tempfile
from collections.abc import Awaitable, Coroutine
from pathlib import Path
from typing import Any, Final

from helm_operator.errors import ApiError, Forbidden, LeadershipLost, NotFound
from helm_operator.helm import HelmCli
from helm_operator.intake import Intake
from helm_operator.kube import RELEASE_SELECTOR, KubeClient, Resource, load_configuration
from helm_operator.leader import Elector
from helm_operator.plan import release_key
from helm_operator.probes import Probes
from helm_operator.queue import Lane, Priority, WorkQueue
from helm_operator.reconciler import Reconciler
from helm_operator.release import CustomResource, Json, ReleaseKey
from helm_operator.served import ServedKind
from helm_operator.settings import Settings
from helm_operator.watchers import Dependents, Reflector, ReleaseCache, ResourceCache, ResourceKey
from helm_operator.watches import Watch, Watches

logger = logging.getLogger(__name__)

_PLANNERS: Final = 4
"""Passes without Helm at once, for each kind."""
_CHART_SECONDS: Final = 10.0
_SWEEP_SECONDS: Final = 300.0
_BURST_SECONDS: Final = 0.5
_KIND_SECONDS: Final = 5.0
_LOST_SECONDS: Final = 2.0
"""How long passes may take to end, beyond the time for helm, where this replica leads no more."""


class Operator:
    """One operator process: `run` serves until it is told to stop."""

    def __init__(self, watches: Watches, settings: Settings) -> None:
        self._settings = settings
        self._kinds = {str(watch): ServedKind(watch) for watch in watches.entries}
        self._resources = ResourceCache(self._resource_changed)
        self._releases = ReleaseCache(self._wake_owners)
        self._queues: dict[str, WorkQueue[ResourceKey]] = {}
        self._reconciler: Reconciler | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._elector: Elector | None = None
        self._stopping = False
        self._ready = False

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until `stop` is set, then end what is under way, and return.

        Raises:
            ConfigError: no cluster is configured.
            HelmError: helm cannot be run, or is too old.
            LeadershipLost: another replica may act now.
            OSError: the probe address cannot be bound.
        """
        settings = self._settings
        configuration, kubeconfig = await load_configuration(settings.kubeconfig)
        home = Path(tempfile.mkdtemp(prefix="helm-operator-"))
        kube = KubeClient(configuration, may_write=self._may_act)
        # Connections of its own: a renewal does not wait behind other requests.
        leases = KubeClient(configuration, user_agent="helm-operator/leader-election")
        if settings.lease is not None:
            self._elector = Elector(leases, settings.lease)
        probes = Probes(settings.probe_address, ready=self._is_ready)
        try:
            helm = HelmCli(
                settings.helm, kubeconfig=kubeconfig, home=home, may_act=self._may_act, time_left=self._time_left
            )
            logger.info("helm is %s (%s)", await helm.version(), settings.helm)
            for kind in self._kinds.values():
                await helm.check(kind.watch.upgrade)
            await probes.start()
            await self._serve(kube, helm, stop)
        finally:
            await probes.stop()
            await kube.close()
            await leases.close()
            shutil.rmtree(home, ignore_errors=True)

    async def _serve(self, kube: KubeClient, helm: HelmCli, stop: asyncio.Event) -> None:
        settings = self._settings
        dependents = Dependents(
            kube,
            self._wake_owners,
            manager=helm.field_manager,
            health_changed=self._wake_owners_soon,
            namespaces=settings.namespaces,
        )
        self._reconciler = Reconciler(
            kube=kube,
            helm=helm,
            kinds=self._kinds,
            resources=self._resources,
            releases=self._releases,
            dependents=dependents,
            settings=settings,
        )
        self._queues = {name: WorkQueue[ResourceKey]() for name in self._kinds}
        scanning = await self._may_scan(kube)
        intake = Intake(
            [kind.watch for kind in self._kinds.values()],
            namespaces=settings.namespaces,
            credentials=kube.credentials,
            deliver=self.deliver,
            scanning=scanning,
        )
        campaign: asyncio.Task[str] | None = None
        try:
            intake.start()
            await self._watch_releases(kube, stop)
            self._start(self._watch_charts())
            self._start(self._sweep(kube))
            self._start(self._watch_kinds(kube, intake))
            self._ready = True
            if self._elector is not None and not stop.is_set():
                logger.info("campaigning for lease %s as %s", settings.lease, self._elector.identity)
                campaign = asyncio.create_task(self._elector.run())
                await _first(self._elector.elected.wait(), stop.wait(), campaign)
            if not stop.is_set():
                self._start_workers()
            await _first(stop.wait(), campaign)
            if campaign is not None and campaign.done():
                raise LeadershipLost(f"this replica leads no more: {campaign.result()}")
        finally:
            await self._shut_down(intake, dependents, campaign)

    def _start_workers(self) -> None:
        settings = self._settings
        for name, kind in self._kinds.items():
            workers = kind.watch.max_concurrent_reconciles or settings.max_concurrent_reconciles
            for lane, count in ((Lane.PLAN, _PLANNERS), (Lane.ACT, workers)):
                for _ in range(count):
                    self._start(self._work(self._queues[name], lane))
        logger.info("serving %s in %s", ", ".join(self._kinds), ", ".join(settings.namespaces) or "all namespaces")

    async def _step_down(self, campaign: asyncio.Task[str] | None, *, drained: bool) -> None:
        """Let another replica take over at once, unless something of ours may still act."""
        if campaign is None or self._elector is None:
            return
        campaign.cancel()
        await asyncio.wait({campaign})
        if drained:
            await self._elector.release()

    def _may_act(self) -> bool:
        return self._elector is None or self._elector.valid()

    def _time_left(self) -> float:
        return math.inf if self._elector is None else self._elector.time_left()

    async def _shut_down(self, intake: Intake, dependents: Dependents, campaign: asyncio.Task[str] | None) -> None:
        """Take in nothing more, end Helm, write what is to be told, hand over, and close."""
        self._stopping, self._ready = True, False
        busy = sum(queue.working for queue in self._queues.values())
        logger.info("shutting down; %d passes are under way", busy)
        for queue in self._queues.values():
            queue.close()
        for task in self._tasks:
            task.cancel()
        late: set[asyncio.Task[None]] = set()
        if self._tasks:
            # A replica that leads no more can write nothing: it only waits until its helm is dead.
            grace = self._settings.shutdown_grace if self._may_act() else self._time_left() + _LOST_SECONDS
            _, late = await asyncio.wait(self._tasks, timeout=grace)
            if late:
                logger.error("%d passes did not end within %.0f s", len(late), grace)
        await self._step_down(campaign, drained=not late)
        await dependents.close()
        await intake.stop()
        logger.info("stopped")

    async def _may_scan(self, kube: KubeClient) -> bool:
        """Return whether CRDs (and, where these are given, namespaces) may be followed in the whole cluster."""
        paths = ["/apis/apiextensions.k8s.io/v1/customresourcedefinitions"]
        paths += ["/api/v1/namespaces"] if self._settings.namespaces else []
        try:
            for path in paths:
                await kube.list(path, {"fieldSelector": "metadata.name=none"}, metadata_only=True)
        except Forbidden as error:
            logger.info("%s: new CRDs are looked for every %.0f s instead of watched", error, _KIND_SECONDS)
            return False
        except ApiError:
            return True  # Not now; kopf waits until it can.
        return True

    async def _watch_kinds(self, kube: KubeClient, intake: Intake) -> None:
        """Start the intake again where it has missed that a watched kind is served.

        It looks for kinds once, and then when a CRD changes; an API server that is just coming
        up may tell it nothing at the first, and an account without the right to watch CRDs
        never learns of the second.
        """
        missed: set[str] = set()
        while True:
            await asyncio.sleep(_KIND_SECONDS)
            unwatched = {name for name, kind in self._kinds.items() if not intake.watches(kind.watch)}
            served = {name for name in unwatched if await self._is_served(kube, self._kinds[name].watch)}
            if missed & served:
                logger.warning("%s: served, but not watched; watching anew", ", ".join(sorted(missed & served)))
                intake.restart()
                served = set()
            missed = served

    async def _is_served(self, kube: KubeClient, watch: Watch) -> bool:
        kube.forget_resource(watch.api_version)
        try:
            await kube.resource(watch.api_version, watch.kind)
        except ApiError:
            return False
        return True

    async def _watch_releases(self, kube: KubeClient, stop: asyncio.Event) -> None:
        """Know all release records before the first pass, unless they are refused."""
        reflectors = []
        for namespace in self._settings.namespaces or ("",):
            path = Resource("", "v1", "Secret", "secrets", namespaced=True).path(namespace)
            what = "release records" + (f" in namespace {namespace}" if namespace else "")
            reflectors.append(
                Reflector(
                    kube, path, dict(RELEASE_SELECTOR), self._releases.sink(namespace), metadata_only=True, what=what
                )
            )
            self._start(reflectors[-1].run())
        events = [asyncio.create_task(stop.wait())]
        for reflector in reflectors:
            first = {asyncio.create_task(event.wait()) for event in (reflector.synced, reflector.refused)}
            await asyncio.wait({*first, events[0]}, return_when="FIRST_COMPLETED")
            events += first
        for event in events:
            event.cancel()

    async def _work(self, queue: WorkQueue[ResourceKey], lane: Lane) -> None:
        assert self._reconciler is not None  # noqa: S101 - _serve has set it
        while not self._stopping:
            key = await queue.get(lane)
            try:
                then = await self._reconciler.reconcile(key, may_act=lane is Lane.ACT)
                logger.debug("%s: a pass in lane %s ended: %s", key, lane.name, then)
                if then.act:
                    queue.add(key, lane=Lane.ACT, priority=Priority.USER if then.urgent else Priority.BACKGROUND)
                if then.after is not None:
                    queue.add_after(key, then.after)
            except Exception:
                # The reconciler reports what goes wrong; this is the net below it.
                logger.exception("%s: a defect of the operator ended the pass; it is tried again", key)
                queue.add_after(key, 30.0)
            finally:
                queue.done(key)

    def deliver(self, watch: Watch, type_: str | None, body: Json) -> None:
        """Take in an event about a custom resource; `type_` is None in the first list."""
        if self._stopping or not body.get("metadata", {}).get("uid"):
            return
        meta = body["metadata"]
        key = ResourceKey(str(watch), meta.get("namespace") or "", meta["name"])
        logger.debug("%s: event %s, resourceVersion %s", key, type_ or "LISTED", meta.get("resourceVersion"))
        if type_ == "DELETED" or not watch.selector.matches(meta.get("labels")):
            self._resources.drop(key, meta["uid"])
        else:
            self._resources.store(key, body)

    def _resource_changed(self, key: ResourceKey, before: CustomResource | None, after: CustomResource | None) -> None:
        if self._reconciler is not None:
            self._reconciler.notice(key, after)
        queue = self._queues.get(key.kind)
        if queue is None:
            return
        if after is None:
            queue.forget(key)
            if before is not None:  # Somebody of that name may have waited for the release.
                self._wake_owners(release_key(before))
        edited = before is None or after is None or before.spec != after.spec or before.deleting != after.deleting
        first = after is not None and before is None and bool(after.status)
        queue.add(key, priority=Priority.USER if edited and not first else Priority.BACKGROUND)

    def _wake_owners(self, release: ReleaseKey) -> None:
        for key in self._resources.owners(release):
            if (queue := self._queues.get(key.kind)) is not None:
                queue.add(key)

    def _wake_owners_soon(self, release: ReleaseKey) -> None:
        """Health comes in bursts: a roll-out changes many objects many times."""
        for key in self._resources.owners(release):
            if (queue := self._queues.get(key.kind)) is not None:
                queue.add_after(key, _BURST_SECONDS)

    async def _watch_charts(self) -> None:
        """Take up charts that change on disk."""
        while True:
            await asyncio.sleep(_CHART_SECONDS)
            for name, kind in self._kinds.items():
                if await asyncio.to_thread(kind.refresh):
                    logger.info("the chart of %s changed on disk", name)
                    for key in self._resources.keys(name):
                        self._queues[name].add(key)

    async def _sweep(self, kube: KubeClient) -> None:
        """Find what a gap in a watch has hidden: custom resources that came or went unseen."""
        while True:
            await asyncio.sleep(_SWEEP_SECONDS * random.uniform(0.8, 1.2))  # noqa: S311
            for name, kind in self._kinds.items():
                try:
                    await self._sweep_kind(kube, name, kind.watch)
                except ApiError as error:
                    logger.info("the custom resources of %s could not be listed: %s", name, error)

    async def _sweep_kind(self, kube: KubeClient, name: str, watch: Watch) -> None:
        try:
            api = await kube.resource(watch.api_version, watch.kind)
        except NotFound:
            return
        before = set(self._resources.keys(name))
        seen = set()
        for namespace in self._settings.namespaces or ("",):
            query = {"labelSelector": str(watch.selector)} if not watch.selector.empty else {}
            items, _ = await kube.list(api.path(namespace), query, metadata_only=True)
            for item in items:
                meta = item["metadata"]
                key = ResourceKey(name, meta.get("namespace") or "", meta["name"])
                seen.add(key)
                known = self._resources.get(key)
                if known is None or known.uid != meta["uid"]:
                    with contextlib.suppress(NotFound):
                        self.deliver(watch, None, await kube.get_custom_resource(api, key.namespace, key.name))
        for key in before - seen:
            self._resources.drop(key)

    def _is_ready(self) -> bool:
        return self._ready

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("a task of the operator ended by a defect: %r", error, exc_info=error)


async def _first(*events: Awaitable[Any] | None) -> None:
    """Wait until the first of them comes about; a task among them goes on."""
    waits = {asyncio.ensure_future(event): isinstance(event, asyncio.Task) for event in events if event is not None}
    await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    for wait, goes_on in waits.items():
        if not goes_on:
            wait.cancel()
