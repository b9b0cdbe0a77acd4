"""Our finalizer: there before the first side effect, gone only after the last."""

from __future__ import annotations

import logging
from typing import Final

from helm_operator.errors import Conflict, NotFound
from helm_operator.kube import Kube
from helm_operator.reconciler.passes import Overtaken, Pass, same_wish
from helm_operator.release import FINALIZER, FOREIGN_FINALIZERS, CustomResource, Json
from helm_operator.report import Reporter
from helm_operator.watchers import ResourceCache

logger = logging.getLogger(__name__)

ANY_FINALIZER: Final = frozenset({FINALIZER, *FOREIGN_FINALIZERS})


class Finalizers:
    """Sets and removes the finalizer of a custom resource."""

    def __init__(self, kube: Kube, resources: ResourceCache, reporter: Reporter) -> None:
        self._kube = kube
        self._resources = resources
        self._reporter = reporter

    async def ensure(self, p: Pass) -> None:
        if FINALIZER not in p.resource.finalizers:
            await self._set(p, [*p.resource.finalizers, FINALIZER])

    async def release(self, p: Pass) -> None:
        left = [name for name in p.resource.finalizers if name not in ANY_FINALIZER]
        if left:  # Somebody else still holds the custom resource: tell how it stands.
            await self._reporter.report(p.key, p.resource, p.api, p.outcome)
            p.resource = self._resources.get(p.key) or p.resource
        await self._set(p, left)
        logger.info("%s: the release is gone, and so is our finalizer", p.key)

    async def _set(self, p: Pass, finalizers: list[str]) -> None:
        patch: Json = {"metadata": {"finalizers": finalizers, "resourceVersion": p.resource.resource_version}}
        try:
            body = await self._kube.patch_custom_resource(p.api, p.key.namespace, p.key.name, patch)
        except Conflict:
            self._resources.store(p.key, await self._kube.get_custom_resource(p.api, p.key.namespace, p.key.name))
            raise Overtaken from None
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
        if not same_wish(p.resource, fresh):
            raise Overtaken
        p.resource = fresh
