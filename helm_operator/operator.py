"""Wires the parts together, and starts and stops them in order."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import shutil
import tempfile
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, Final

from helm_operator.errors import ApiError, NotFound
from helm_operator.helm import HelmCli
from helm_operator.intake import Intake
from helm_operator.kube import RELEASE_SELECTOR, KubeClient, Resource, load_configuration
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
        self._stopping = False
        self._ready = False

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until `stop` is set, then end what is under way, and return.

        Raises:
            ConfigError: no cluster is configured.
            HelmError: helm cannot be run, or is too old.
            OSError: the probe address cannot be bound.
        """
        settings = self._settings
        configuration, kubeconfig = await load_configuration(settings.kubeconfig)
        home = Path(tempfile.mkdtemp(prefix="helm-operator-"))
        kube = KubeClient(configuration)
        probes = Probes(settings.probe_address, ready=self._is_ready)
        try:
            helm = HelmCli(settings.helm, kubeconfig=kubeconfig, home=home)
            logger.info("helm is %s (%s)", await helm.version(), settings.helm)
            await probes.start()
            await self._serve(kube, helm, stop)
        finally:
            await probes.stop()
            await kube.close()
            shutil.rmtree(home, ignore_errors=True)

    async def _serve(self, kube: KubeClient, helm: HelmCli, stop: asyncio.Event) -> None:
        settings = self._settings
        dependents = Dependents(kube, self._wake_owners, manager=helm.field_manager, namespaces=settings.namespaces)
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
        intake = Intake(
            [kind.watch for kind in self._kinds.values()],
            namespaces=settings.namespaces,
            credentials=kube.credentials,
            deliver=self.deliver,
        )
        try:
            intake.start()
            await self._watch_releases(kube, stop)
            for name, kind in self._kinds.items():
                workers = kind.watch.max_concurrent_reconciles or settings.max_concurrent_reconciles
                for lane, count in ((Lane.PLAN, _PLANNERS), (Lane.ACT, workers)):
                    for _ in range(count):
                        self._start(self._work(self._queues[name], lane))
            self._start(self._watch_charts())
            self._start(self._sweep(kube))
            self._ready = True
            logger.info("serving %s in %s", ", ".join(self._kinds), ", ".join(settings.namespaces) or "all namespaces")
            await stop.wait()
        finally:
            await self._shut_down(intake, dependents)

    async def _shut_down(self, intake: Intake, dependents: Dependents) -> None:
        """Take in nothing more, end Helm, write what is to be told, and close."""
        self._stopping, self._ready = True, False
        busy = sum(queue.working for queue in self._queues.values())
        logger.info("shutting down; %d passes are under way", busy)
        for queue in self._queues.values():
            queue.close()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=self._settings.shutdown_grace)
            if late:
                logger.error("%d passes did not end within %.0f s", len(late), self._settings.shutdown_grace)
        await dependents.close()
        await intake.stop()
        logger.info("stopped")

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
        task.add_done_callback(self._tasks.discard)
