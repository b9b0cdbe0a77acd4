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
        self._looked: dict[ReleaseKey, str] = {}
        """resourceVersion of the newest direct look, while the watch is behind it."""
        self._watched: dict[str, str] = {}
        """resourceVersion up to which the watch on a namespace has told everything."""

    def sink(self, namespace: str) -> _NamespaceSink:
        """Return where the watch on a namespace delivers to; "" means all namespaces."""
        return _NamespaceSink(self, namespace)

    def knows(self, namespace: str) -> bool:
        """Return whether the watch has told all records of a namespace once."""
        return namespace in self._watched or "" in self._watched

    def records(self, key: ReleaseKey) -> tuple[ReleaseRecord, ...]:
        """Return the release's revisions, newest first."""
        return tuple(sorted(self._records.get(key, _NONE).values(), key=lambda r: r.revision, reverse=True))

    def observe(self, key: ReleaseKey, records: tuple[ReleaseRecord, ...], version: str) -> None:
        """Take over what a direct look has found, unless the watch is ahead of it."""
        if _newer(self._watched.get(key.namespace) or self._watched.get("", ""), version):
            return
        self._looked[key] = version
        self._store(key, {record.revision: record for record in records})

    def replace(self, namespace: str, items: list[Json], version: str) -> None:
        """Take over a complete list of one namespace's (or, with "", of all) records."""
        found: dict[ReleaseKey, dict[int, ReleaseRecord]] = {}
        for item in items:
            if (record := record_from_metadata(item)) is not None:
                found.setdefault(record.key, {})[record.revision] = record
        known = {key for key in self._records if not namespace or key.namespace == namespace}
        self._progress(namespace, version)
        for key in {*found, *known} - self._looked.keys():
            records = found.get(key, {})
            if records != self._records.get(key, _NONE):
                self._store(key, records)
                self._changed(key)

    def apply(self, namespace: str, type_: str, item: Json) -> None:
        version = str(item["metadata"].get("resourceVersion", ""))
        self._progress(namespace, version)
        record = record_from_metadata(item)
        if record is None or record.key in self._looked:
            return
        records = dict(self._records.get(record.key, _NONE))
        if type_ == "DELETED":
            records.pop(record.revision, None)
        else:
            records[record.revision] = record
        if records != self._records.get(record.key, _NONE):
            self._store(record.key, records)
            self._changed(record.key)

    def _progress(self, namespace: str, version: str) -> None:
        """Note how far the watch has come; it has told by now what these direct looks found."""
        self._watched[namespace] = version
        for key, looked in list(self._looked.items()):
            if (not namespace or key.namespace == namespace) and not _newer(looked, version):
                del self._looked[key]

    def _store(self, key: ReleaseKey, records: dict[int, ReleaseRecord]) -> None:
        if records:
            self._records[key] = records
        else:
            self._records.pop(key, None)


class _NamespaceSink:
    def __init__(self, cache: ReleaseCache, namespace: str) -> None:
        self._cache = cache
        self._namespace = namespace

    def replace(self, items: list[Json], version: str) -> None:
        self._cache.replace(self._namespace, items, version)

    def apply(self, type_: str, item: Json) -> None:
        self._cache.apply(self._namespace, type_, item)


def _newer(one: str, other: str) -> bool:
    """resourceVersions are comparable integers (KEP-5504); others tell nothing about their order."""
    return one.isdigit() and other.isdigit() and int(one) > int(other)
