"""Writes the status of a custom resource, once a pass and only where it differs, and tells Events."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from helm_operator.conditions import Condition, ConditionType, cut
from helm_operator.drift import Difference
from helm_operator.errors import ApiError, Conflict, NotFound
from helm_operator.kube import Kube, Resource
from helm_operator.release import CustomResource, Json
from helm_operator.status import CORRECTION_FAILED, Outcome, build_status, merge_patch, timestamp
from helm_operator.watchers import ResourceCache, ResourceKey

logger = logging.getLogger(__name__)

_TRIES: Final = 4
_MAX_EVENT: Final = 1024
"""The API server's limit for an Event's message, in bytes."""
_COMPONENT: Final = "helm-operator"


class Reporter:
    """The only writer of status."""

    def __init__(self, kube: Kube, resources: ResourceCache, clock: Callable[[], float]) -> None:
        self._kube = kube
        self._resources = resources
        self._clock = clock
        self._unstored: dict[ResourceKey, tuple[str, Json]] = {}
        """Statuses of which the API server drops a part (uid, status): what we wrote, for comparison."""
        self._warned: set[str] = set()

    def known_status(self, key: ResourceKey, resource: CustomResource) -> Json:
        """Return the newest status: the stored one, or ours where the CRD does not keep it."""
        uid, ours = self._unstored.get(key, ("", {}))
        return ours if uid == resource.uid else resource.status

    def forget(self, key: ResourceKey) -> None:
        self._unstored.pop(key, None)

    async def report(
        self, key: ResourceKey, resource: CustomResource, api: Resource, outcome: Outcome
    ) -> tuple[str, str] | None:
        """Make the stored status tell `outcome`.

        Returns uid and resourceVersion of the custom resource that does, if the pass has seen all
        of it; the resourceVersion is empty where somebody else changed it meanwhile. None where
        it could not be written. A conflict is answered by reading and computing again. Failures are logged, never
        raised: the next pass writes.
        """
        overtaken = False
        try:
            for _ in range(_TRIES):
                previous = self.known_status(key, resource)
                status = build_status(previous, outcome, self._clock())
                if status == previous:
                    return resource.uid, "" if overtaken else resource.resource_version
                try:
                    version = await self._write(key, resource, api, status)
                except Conflict:
                    body = await self._kube.get_custom_resource(api, key.namespace, key.name)
                    newest = CustomResource.from_body(body)
                    if newest.uid != resource.uid:
                        break  # Another custom resource of the same name; its own pass will come.
                    self._resources.update(key, body)
                    resource, overtaken = newest, True
                    continue
                await self._tell(resource, previous, status)
                return resource.uid, "" if overtaken else version
        except NotFound:  # Gone meanwhile, or its CRD is: there is nothing to write to.
            self._kube.forget_resource(api.api_version)
            return None
        except ApiError as error:
            logger.warning("%s: the status could not be written and is written with the next pass: %s", key, error)
            return None
        logger.info("%s: the custom resource changes too fast; its status is written with the next pass", key)
        return None

    async def repaired(self, resource: CustomResource, repaired: Iterable[Difference]) -> None:
        """Tell which objects were put right."""
        for one in repaired:
            logger.info("%s: %s", resource, one.corrected)
            await self._event(resource, "Normal", "DriftCorrected", one.corrected)

    async def warn(self, resource: CustomResource, reason: str, message: str) -> None:
        """Tell something that its reader should mend."""
        logger.warning("%s: %s", resource, message)
        await self._event(resource, "Warning", reason, message)

    async def _write(self, key: ResourceKey, resource: CustomResource, api: Resource, status: Json) -> str:
        patch = {
            "metadata": {"resourceVersion": resource.resource_version},
            "status": merge_patch(resource.status, status),
        }
        subresource = "status" if api.status_subresource else ""
        body = await self._kube.patch_custom_resource(api, key.namespace, key.name, patch, subresource=subresource)
        if (body.get("status") or {}) == status:
            self._unstored.pop(key, None)
        else:
            self._unstored[key] = (resource.uid, status)
            if key.kind not in self._warned:
                self._warned.add(key.kind)
                logger.warning(
                    "%s: the CRD of %s drops a part of the status (its schema lacks the fields): conditions cannot "
                    "be shown. Give status x-kubernetes-preserve-unknown-fields: true, or the fields of this operator",
                    key,
                    key.kind,
                )
        self._resources.update(key, body)
        return str(body["metadata"]["resourceVersion"])

    async def _tell(self, resource: CustomResource, before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
        for type_, reason, message in _news(before, after):
            await self._event(resource, type_, reason, message)

    async def _event(self, resource: CustomResource, type_: str, reason: str, message: str) -> None:
        event = _event_body(resource, type_, reason, message, self._clock())
        try:
            await self._kube.create_event(event["metadata"]["namespace"], event)
        except ApiError as error:
            logger.debug("%s: an Event could not be written: %s", resource, error)


def _news(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterable[tuple[str, str, str]]:
    """Return the Events (type, reason, message) that the step from one status to the next is worth."""
    old, new = _by_type(before), _by_type(after)
    for type_ in (
        ConditionType.DEPLOYED,
        ConditionType.RELEASE_FAILED,
        ConditionType.IRRECONCILABLE,
        ConditionType.DRIFTED,
    ):
        was, is_ = old.get(type_, {}), new.get(type_)
        if is_ is None or _gist(was) == _gist(is_) or is_["reason"] == CORRECTION_FAILED:
            continue  # Of a failed correction Irreconcilable tells.
        good = type_ is ConditionType.DEPLOYED
        if is_["status"] == "True":
            yield "Normal" if good else "Warning", is_["reason"], is_["message"]
        elif good and is_["reason"] == "UninstallSuccessful":
            yield "Normal", is_["reason"], is_["message"]


def _gist(condition: Condition) -> tuple[Any, ...]:
    release = condition.get("release") or {}
    revision = release.get("revision") if condition.get("type") == ConditionType.DEPLOYED else None
    return condition.get("status"), condition.get("reason"), condition.get("message"), revision


def _by_type(status: Mapping[str, Any]) -> dict[str, Condition]:
    return {str(entry.get("type")): entry for entry in status.get("conditions") or ()}


def _event_body(resource: CustomResource, type_: str, reason: str, message: str, now: float) -> Json:
    moment = timestamp(now)
    unique = hashlib.sha256(f"{resource.uid} {now} {reason} {message}".encode()).hexdigest()[:16]
    namespace = resource.namespace or "default"
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{resource.name[:200]}.{unique}", "namespace": namespace},
        "involvedObject": {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "namespace": resource.namespace,
            "name": resource.name,
            "uid": resource.uid,
            "resourceVersion": resource.resource_version,
        },
        "type": type_,
        "reason": reason,
        "message": cut(message, _MAX_EVENT),
        "source": {"component": _COMPONENT},
        "reportingComponent": _COMPONENT,
        "reportingInstance": _COMPONENT,
        "firstTimestamp": moment,
        "lastTimestamp": moment,
        "count": 1,
    }
