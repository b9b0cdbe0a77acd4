"""The custom resources in sight, and which release belongs to which of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from helm_operator.plan import release_key
from helm_operator.release import CustomResource, ReleaseKey


@dataclass(frozen=True, slots=True, order=True)
class ResourceKey:
    """Names one custom resource; `kind` is `group/version Kind`, as its watch prints itself."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind.rpartition(' ')[2]} {self.namespace}/{self.name}"


Changed = Callable[[ResourceKey, CustomResource | None, CustomResource | None], None]
"""Told the state before and after; None where there is none."""


class ResourceCache:
    """The newest known state of each custom resource; tells `changed` what became of it."""

    def __init__(self, changed: Changed) -> None:
        self._changed = changed
        self._resources: dict[ResourceKey, CustomResource] = {}
        self._by_release: dict[ReleaseKey, set[ResourceKey]] = {}

    def __len__(self) -> int:
        return len(self._resources)

    def get(self, key: ResourceKey) -> CustomResource | None:
        return self._resources.get(key)

    def keys(self, kind: str) -> list[ResourceKey]:
        return [key for key in self._resources if key.kind == kind]

    def owners(self, release: ReleaseKey) -> Iterable[ResourceKey]:
        """Return the custom resources whose release has this name (two kinds may clash)."""
        return tuple(self._by_release.get(release, ()))

    def update(self, key: ResourceKey, body: Mapping[str, Any]) -> None:
        """As `store`, but only where the custom resource was not dropped meanwhile."""
        if key in self._resources:
            self.store(key, body)

    def store(self, key: ResourceKey, body: Mapping[str, Any]) -> CustomResource:
        """Take over a state that the API server gave, unless a newer one is known.

        Returns the newest state.
        """
        found = CustomResource.from_body(body)
        before = self._resources.get(key)
        if before is not None and not _newer(found, before):
            return before
        self._resources[key] = found
        self._by_release.setdefault(release_key(found), set()).add(key)
        self._changed(key, before, found)
        return found

    def drop(self, key: ResourceKey, uid: str | None = None) -> None:
        """Forget a custom resource that is gone; with `uid`, only if it is that one."""
        before = self._resources.get(key)
        if before is None or (uid is not None and before.uid != uid):
            return
        del self._resources[key]
        release = release_key(before)
        left = self._by_release[release] - {key}
        if left:
            self._by_release[release] = left
        else:
            del self._by_release[release]
        self._changed(key, before, None)


def _newer(one: CustomResource, other: CustomResource) -> bool:
    """resourceVersions are comparable integers (KEP-5504); where they are not, the later call wins."""
    if one.resource_version.isdigit() and other.resource_version.isdigit():
        return int(one.resource_version) > int(other.resource_version)
    return (one.uid, one.resource_version) != (other.uid, other.resource_version)
