"""All releases in sight, as the metadata of their Secrets tells; payloads are never kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from helm_operator.kube import record_from_metadata
from helm_operator.release import Json, ReleaseKey, ReleaseRecord

_NONE: Final[dict[int, ReleaseRecord]] = {}


class ReleaseCache:
    """The release records of the watched namespaces; tells `changed` which release moved."""

    def __init__(self, changed: Callable[[ReleaseKey], None]) -> None:
        self._changed = changed
        self._records: dict[ReleaseKey, dict[int, ReleaseRecord]] = {}
        self._seen: dict[ReleaseKey, int] = {}
        """resourceVersion of the newest direct look: older events say nothing new."""
        self._synced: set[str] = set()

    def sink(self, namespace: str) -> _NamespaceSink:
        """Return where the watch on a namespace delivers to; "" means all namespaces."""
        return _NamespaceSink(self, namespace)

    def knows(self, namespace: str) -> bool:
        """Return whether the watch has told all records of a namespace once."""
        return namespace in self._synced or "" in self._synced

    def records(self, key: ReleaseKey) -> tuple[ReleaseRecord, ...]:
        """Return the release's revisions, newest first."""
        return tuple(sorted(self._records.get(key, _NONE).values(), key=lambda r: r.revision, reverse=True))

    def observe(self, key: ReleaseKey, records: tuple[ReleaseRecord, ...], version: str) -> None:
        """Take over what a direct, newer look has found."""
        self._seen[key] = _number(version)
        self._store(key, {record.revision: record for record in records})

    def forget(self, key: ReleaseKey) -> None:
        """Drop what is kept of a direct look; the watch tells the rest."""
        self._seen.pop(key, None)

    def replace(self, namespace: str, items: list[Json]) -> None:
        """Take over a complete list of one namespace's (or, with "", of all) records."""
        found: dict[ReleaseKey, dict[int, ReleaseRecord]] = {}
        for item in items:
            if (record := record_from_metadata(item)) is not None:
                found.setdefault(record.key, {})[record.revision] = record
        known = {key for key in self._records if not namespace or key.namespace == namespace}
        self._synced.add(namespace)
        for key in {*found, *known}:
            records = found.get(key, {})
            if records != self._records.get(key, _NONE):
                self._store(key, records)
                self._changed(key)

    def apply(self, type_: str, item: Json) -> None:
        record = record_from_metadata(item)
        if record is None or _number(record.resource_version) <= self._seen.get(record.key, 0):
            return
        records = dict(self._records.get(record.key, _NONE))
        if type_ == "DELETED":
            records.pop(record.revision, None)
        else:
            records[record.revision] = record
        if records != self._records.get(record.key, _NONE):
            self._store(record.key, records)
            self._changed(record.key)

    def _store(self, key: ReleaseKey, records: dict[int, ReleaseRecord]) -> None:
        if records:
            self._records[key] = records
        else:
            self._records.pop(key, None)


class _NamespaceSink:
    def __init__(self, cache: ReleaseCache, namespace: str) -> None:
        self._cache = cache
        self._namespace = namespace

    def replace(self, items: list[Json]) -> None:
        self._cache.replace(self._namespace, items)

    def apply(self, type_: str, item: Json) -> None:
        self._cache.apply(type_, item)


def _number(version: str) -> int:
    """resourceVersions are comparable integers (KEP-5504); anything else counts as news."""
    return int(version) if version.isdigit() else 2**63
