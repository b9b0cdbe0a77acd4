"""What the operator asks of the Kubernetes API: the one port to it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import quote

from helm_operator.release import Json, ObjectRef, ReleaseKey, ReleaseRecord, ReleaseStatus


@dataclass(frozen=True, slots=True)
class Resource:
    """One kind as the API server serves it."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool
    status_subresource: bool = False
    verbs: frozenset[str] = frozenset()

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def base(self) -> str:
        return f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """Return the URL path of the collection, or of one object."""
        scope = f"/namespaces/{namespace}" if self.namespaced and namespace else ""
        # RBAC names may have a question mark, a hash sign or a space.
        tail = "".join(f"/{quote(part, safe=':')}" for part in (name, subresource) if part)
        return f"{self.base}{scope}/{self.plural}{tail}"


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """One line of a watch. `type` is ADDED, MODIFIED, DELETED or BOOKMARK."""

    type: str
    object: Json


class Kube(Protocol):
    """Requests to one API server.

    Every method raises ApiError or one of its kinds (errors.py); none retries by itself
    except where its documentation says so.
    """

    async def version(self) -> str:
        """Return the API server's version, such as `v1.36.3`."""

    async def resource(self, api_version: str, kind: str) -> Resource:
        """Look a kind up (cached). NotFound: the API server does not serve it."""

    def forget_resource(self, api_version: str) -> None:
        """Look the kinds of an API version up anew, since its CRD may have changed."""

    async def get_custom_resource(self, resource: Resource, namespace: str, name: str) -> Json: ...

    async def patch_custom_resource(
        self, resource: Resource, namespace: str, name: str, patch: Json, *, subresource: str = ""
    ) -> Json:
        """Apply a JSON merge patch; with metadata.resourceVersion in it, Conflict where it is not the newest."""

    async def release_records(self, key: ReleaseKey) -> tuple[tuple[ReleaseRecord, ...], str]:
        """Return the release's revisions, newest first, and the resourceVersion of that list.

        Only the metadata of the Secrets is read.
        """

    async def release_payload(self, key: ReleaseKey, revision: int) -> str:
        """Return `data.release` of one revision's Secret, as the API gives it."""

    async def replace_release(self, record: ReleaseRecord, payload: str, status: ReleaseStatus) -> None:
        """Write a revision's payload and state. Conflict: it changed since `record` was read."""

    async def get_object(self, ref: ObjectRef, *, metadata_only: bool = False) -> Json: ...

    async def apply_object(self, ref: ObjectRef, body: Json, *, manager: str, dry_run: bool = False) -> Json:
        """Server-side apply, taking over conflicting fields. Returns the object as it is (or would be)."""

    async def replace_object(self, ref: ObjectRef, body: Json, *, manager: str, dry_run: bool = False) -> Json:
        """Write an object whole. Conflict: it changed since its resourceVersion in `body` was read."""

    async def delete_object(self, ref: ObjectRef) -> None:
        """Delete in the background; an object that is gone already is a success."""

    async def create_event(self, namespace: str, event: Json) -> None: ...

    async def list(self, path: str, query: dict[str, str], *, metadata_only: bool) -> tuple[list[Json], str]:
        """Return all objects of a collection (read in pages), and the list's resourceVersion."""

    def watch(
        self, path: str, query: dict[str, str], resource_version: str, *, metadata_only: bool
    ) -> AsyncIterator[WatchEvent]:
        """Yield events until the server ends the watch. Gone: list again."""

    async def close(self) -> None: ...


class Leases(Protocol):
    """Leases of coordination.k8s.io, as they are: one record that replicas share. Raises as `Kube`."""

    async def get_lease(self, namespace: str, name: str) -> Json: ...

    async def create_lease(self, namespace: str, lease: Json) -> Json:
        """Store a new Lease. Conflict: there is one of that name. NotFound: the namespace is missing."""

    async def update_lease(self, namespace: str, lease: Json) -> Json:
        """Replace a Lease. Conflict: it changed, or was deleted, since this one was read."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """How to reach the API server; for libraries that bring a client of their own."""

    server: str
    ca_path: str | None = None
    ca_data: str | None = None
    insecure: bool = False
    token: str | None = None
    scheme: str | None = None
    certificate_path: str | None = None
    private_key_path: str | None = None

    def as_kwargs(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__ if getattr(self, name) is not None}
