"""`KubeClient`: the port `Kube` on a real API server."""

from __future__ import annotations

import json
import re
import time
from collections.abc import AsyncIterator, Callable
from typing import Any, Final

from helm_operator.errors import ApiUnavailable, NotFound
from helm_operator.kube.port import Credentials, Resource, WatchEvent
from helm_operator.kube.records import RELEASE_SELECTOR, record_from_metadata, secret_name
from helm_operator.kube.transport import Transport, credentials, metadata_accept
from helm_operator.release import Json, ObjectRef, ReleaseKey, ReleaseRecord, ReleaseStatus

_MERGE_PATCH: Final = "application/merge-patch+json"
# The parameter keeps the generated client from encoding a text once more as JSON.
_APPLY_PATCH: Final = "application/apply-patch+yaml; charset=utf-8"
_NOT_PLAIN: Final = re.compile(r"[^\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]")
"""Characters that stand for something else, or for nothing, between a YAML text's quotes."""
_LEASES: Final = Resource("coordination.k8s.io", "v1", "Lease", "leases", namespaced=True)
_PAGE: Final = 500
_MISS_SECONDS: Final = 5.0
"""How long a kind that was not found is not asked for again."""


class KubeClient:
    """See `Kube` and `Leases` for what the methods promise.

    While `may_write` says no, every request that would change something is refused with NotLeading.
    """

    def __init__(
        self,
        configuration: Any,
        *,
        user_agent: str = "helm-operator",
        may_write: Callable[[], bool] = lambda: True,
    ) -> None:
        self._configuration = configuration
        self._transport = Transport(configuration, user_agent=user_agent, may_write=may_write)
        self._resources: dict[str, dict[str, Resource]] = {}
        self._missed: dict[tuple[str, str], float] = {}

    @property
    def requests(self) -> int:
        """Requests sent so far, watches included."""
        return self._transport.requests

    async def credentials(self) -> Credentials:
        """Return how to reach the same server, with a fresh token."""
        return await credentials(self._configuration)

    async def close(self) -> None:
        await self._transport.close()

    async def version(self) -> str:
        return str((await self._transport.request("GET", "/version"))["gitVersion"])

    async def resource(self, api_version: str, kind: str) -> Resource:
        known = self._resources.get(api_version, {}).get(kind)
        if known is not None:
            return known
        now = time.monotonic()
        if now - self._missed.get((api_version, kind), -_MISS_SECONDS) >= _MISS_SECONDS:
            try:
                self._resources[api_version] = await self._discover(api_version)
            except NotFound:
                self._resources.pop(api_version, None)
            if found := self._resources.get(api_version, {}).get(kind):
                return found
            self._missed[api_version, kind] = now
        raise NotFound(f"the API server does not serve {kind} in {api_version}", status=404, reason="NotFound")

    def forget_resource(self, api_version: str) -> None:
        """Look the kinds of an API version up anew (its CRD changed)."""
        self._resources.pop(api_version, None)

    async def _discover(self, api_version: str) -> dict[str, Resource]:
        group, _, version = api_version.rpartition("/")
        base = f"/apis/{api_version}" if group else f"/api/{version}"
        answer = await self._transport.request("GET", base)
        if not isinstance(entries := answer.get("resources"), list):
            raise ApiUnavailable(f"GET {base}: the answer is no list of kinds")
        with_status = {entry["name"].split("/")[0] for entry in entries if entry["name"].endswith("/status")}
        return {
            entry["kind"]: Resource(
                group=group,
                version=version,
                kind=entry["kind"],
                plural=entry["name"],
                namespaced=bool(entry["namespaced"]),
                status_subresource=entry["name"] in with_status,
                verbs=frozenset(entry.get("verbs") or ()),
            )
            for entry in entries
            if "/" not in entry["name"]
        }

    async def get_custom_resource(self, resource: Resource, namespace: str, name: str) -> Json:
        path = resource.path(namespace, name)
        return _object(await self._transport.request("GET", path), f"GET {path}")

    async def patch_custom_resource(
        self, resource: Resource, namespace: str, name: str, patch: Json, *, subresource: str = ""
    ) -> Json:
        path = resource.path(namespace, name, subresource)
        answer = await self._transport.request("PATCH", path, body=patch, content_type=_MERGE_PATCH)
        return _object(answer, f"PATCH {path}")

    async def release_records(self, key: ReleaseKey) -> tuple[tuple[ReleaseRecord, ...], str]:
        query = {**RELEASE_SELECTOR, "labelSelector": f"{RELEASE_SELECTOR['labelSelector']},name={key.name}"}
        path = f"/api/v1/namespaces/{key.namespace}/secrets"
        items, version = await self.list(path, query, metadata_only=True)
        records = [record for item in items if (record := record_from_metadata(item)) is not None]
        return tuple(sorted(records, key=lambda record: record.revision, reverse=True)), version

    async def release_payload(self, key: ReleaseKey, revision: int) -> str:
        path = f"/api/v1/namespaces/{key.namespace}/secrets/{secret_name(key, revision)}"
        # Somebody may have emptied it; an empty payload is told as one that cannot be read.
        return str(((await self._transport.request("GET", path)).get("data") or {}).get("release", ""))

    async def replace_release(self, record: ReleaseRecord, payload: str, status: ReleaseStatus) -> None:
        path = f"/api/v1/namespaces/{record.key.namespace}/secrets/{secret_name(record.key, record.revision)}"
        labels = {"status": str(status), "modifiedAt": str(int(time.time()))}
        body = {
            "metadata": {"resourceVersion": record.resource_version, "labels": labels},
            "data": {"release": payload},
        }
        await self._transport.request("PATCH", path, body=body, content_type=_MERGE_PATCH)

    async def get_object(self, ref: ObjectRef, *, metadata_only: bool = False) -> Json:
        accept = metadata_accept(listing=False) if metadata_only else "application/json"
        path = await self._path(ref)
        return _object(await self._transport.request("GET", path, accept=accept), f"GET {path}")

    async def apply_object(self, ref: ObjectRef, body: Json, *, manager: str, dry_run: bool = False) -> Json:
        query = {"fieldManager": manager, "force": "true", **({"dryRun": "All"} if dry_run else {})}
        return await self._transport.request(
            "PATCH", await self._path(ref), query=query, body=_as_yaml(body), content_type=_APPLY_PATCH
        )

    async def replace_object(self, ref: ObjectRef, body: Json, *, manager: str, dry_run: bool = False) -> Json:
        query = {"fieldManager": manager, **({"dryRun": "All"} if dry_run else {})}
        return await self._transport.request("PUT", await self._path(ref), query=query, body=body)

    async def delete_object(self, ref: ObjectRef) -> None:
        try:
            await self._transport.request("DELETE", await self._path(ref), query={"propagationPolicy": "Background"})
        except NotFound:
            return

    async def create_event(self, namespace: str, event: Json) -> None:
        await self._transport.request("POST", f"/api/v1/namespaces/{namespace}/events", body=event)

    async def get_lease(self, namespace: str, name: str) -> Json:
        path = _LEASES.path(namespace, name)
        return _object(await self._transport.request("GET", path), f"GET {path}")

    async def create_lease(self, namespace: str, lease: Json) -> Json:
        return await self._transport.request("POST", _LEASES.path(namespace), body=lease)

    async def update_lease(self, namespace: str, lease: Json) -> Json:
        return await self._transport.request("PUT", _LEASES.path(namespace, lease["metadata"]["name"]), body=lease)

    async def list(self, path: str, query: dict[str, str], *, metadata_only: bool) -> tuple[list[Json], str]:
        accept = metadata_accept(listing=True) if metadata_only else "application/json"
        items: list[Json] = []
        page = {**query, "limit": str(_PAGE)}
        while True:
            answer = await self._transport.request("GET", path, query=page, accept=accept)
            if "items" not in answer:  # Anything but this must not be taken for "there are none".
                raise ApiUnavailable(f"GET {path}: the answer is no list")
            items += answer["items"] or ()
            meta = answer.get("metadata") or {}
            if not meta.get("continue"):
                return items, str(meta.get("resourceVersion", ""))
            page["continue"] = meta["continue"]

    def watch(
        self, path: str, query: dict[str, str], resource_version: str, *, metadata_only: bool
    ) -> AsyncIterator[WatchEvent]:
        return self._transport.watch(path, query, resource_version, metadata_only=metadata_only)

    async def _path(self, ref: ObjectRef) -> str:
        return (await self.resource(ref.api_version, ref.kind)).path(ref.namespace, ref.name)


def _object(answer: Json, what: str) -> Json:
    """Return the object that the API server answered `what` with.

    Raises:
        ApiUnavailable: it is none. Something between us and the server may answer 200 to all.
    """
    metadata = answer.get("metadata")
    if not isinstance(metadata, dict) or not metadata.get("resourceVersion"):
        raise ApiUnavailable(f"{what}: the answer is no object")
    return answer


def _as_yaml(body: Json) -> str:
    """Return JSON that is YAML as well.

    The API server reads an apply patch as YAML, which knows neither JSON's surrogate pairs
    nor raw control characters, and folds more line breaks than JSON has. What YAML takes
    as it is stays so: an escape is up to five times its character, and 3 MiB is the limit.
    """
    text = json.dumps(body, ensure_ascii=False, separators=(", ", ": "))
    return _NOT_PLAIN.sub(lambda match: f"\\U{ord(match[0]):08x}", text)
