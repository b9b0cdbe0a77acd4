"""The objects of all releases: their health, and which of them may no longer be as Helm left them.

One watch per kind (and namespace) that some release uses, filtered on the server by the
label that Helm sets, and metadata-only where a kind has no status. Kept per object: whose
it is, its health, and a fingerprint of the fields that Helm owns. Somebody who changes such
a field takes it over from Helm (Kubernetes:
"Server-Side Apply", field management), so the fingerprint changes exactly when a field of
the chart may have changed, and not when a controller writes a status.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from helm_operator.drift import MANAGED_BY, RELEASE_NAME, RELEASE_NAMESPACE, left_alone
from helm_operator.errors import ApiError
from helm_operator.health import MISSING, Verdict, assess, needs_metadata_only
from helm_operator.kube import Kube
from helm_operator.release import Json, ObjectRef, ReleaseKey
from helm_operator.watchers.reflector import Reflector

logger = logging.getLogger(__name__)

_RETRY_SECONDS: Final = 15.0
_SELECTOR: Final = {"labelSelector": "=".join(MANAGED_BY)}


class Coverage(Enum):
    """Whether changes of an object are noticed."""

    WATCHED = "watched"
    STARTING = "starting"
    """The first list of its kind has not arrived yet."""
    NOT_WATCHED = "not watched"
    """Nobody asked for it, it lies outside of the watched namespaces, or the account may not list it."""


class Dependents:
    """Watches the kinds in use; tells `changed` when an object of a release became suspect."""

    def __init__(
        self,
        kube: Kube,
        changed: Callable[[ReleaseKey], None],
        *,
        manager: str,
        health_changed: Callable[[ReleaseKey], None],
        namespaces: tuple[str, ...] = (),
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`manager` is Helm's field manager; `namespaces` limits the watches, empty means all.

        `health_changed` is told when an object's health became another one; `clock` gives Unix time.
        """
        self._health_changed = health_changed
        self._clock = clock
        self._health_versions: dict[ReleaseKey, int] = {}
        self._kube = kube
        self._changed = changed
        self._manager = manager
        self._namespaces = namespaces
        self._watched: dict[tuple[str, str], _KindSink] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._suspects: dict[ReleaseKey, set[ObjectRef]] = {}
        self._followed: dict[ReleaseKey, frozenset[ObjectRef]] = {}

    def suspects(self, key: ReleaseKey) -> frozenset[ObjectRef]:
        """Return the objects of a release that may differ from its manifest."""
        return frozenset(self._suspects.get(key, ()))

    def clear(self, key: ReleaseKey, refs: Iterable[ObjectRef]) -> None:
        """Take back a suspicion, as these objects are looked at now."""
        left = self._suspects.get(key, set()) - set(refs)
        if left:
            self._suspects[key] = left
        else:
            self._suspects.pop(key, None)

    def keep(self, key: ReleaseKey, refs: Iterable[ObjectRef]) -> None:
        """Suspect objects that a look could not clear; this wakes nobody."""
        if refs := set(refs):
            self._suspects.setdefault(key, set()).update(refs)

    def suspect(self, key: ReleaseKey, ref: ObjectRef) -> None:
        self._suspects.setdefault(key, set()).add(ref)
        self._changed(key)

    def follow(self, key: ReleaseKey, refs: Iterable[ObjectRef]) -> None:
        """Have exactly these objects of a release suspected at any change, not only of fields that Helm owns.

        Somebody who puts an object right by hand does not give Helm its fields back.
        """
        if refs := frozenset(refs):
            self._followed[key] = refs
        else:
            self._followed.pop(key, None)

    def followed(self, key: ReleaseKey, ref: ObjectRef) -> bool:
        return ref in self._followed.get(key, ())

    def ensure_watched(self, refs: Iterable[ObjectRef]) -> None:
        """Watch the kinds of these objects from now on, if they are not watched yet."""
        for api_version, kind in {(ref.api_version, ref.kind) for ref in refs} - self._watched.keys():
            sink = _KindSink(self, api_version, kind, self._manager)
            self._watched[api_version, kind] = sink
            self._start(self._watch_kind(sink))

    def coverage(self, ref: ObjectRef) -> Coverage:
        """Return whether changes of this object are noticed."""
        sink = self._watched.get((ref.api_version, ref.kind))
        if sink is None or sink.unserved:
            return Coverage.NOT_WATCHED
        if sink.reflectors is None:
            return Coverage.STARTING
        reflector = sink.reflectors.get("") or sink.reflectors.get(ref.namespace)
        if reflector is None or reflector.refused.is_set():
            return Coverage.NOT_WATCHED
        return Coverage.WATCHED if reflector.synced.is_set() else Coverage.STARTING

    def health(self, ref: ObjectRef) -> Verdict:
        """Return the health of a watched object."""
        sink = self._watched.get((ref.api_version, ref.kind))
        known = sink.known.get((ref.namespace, ref.name)) if sink is not None else None
        return MISSING if known is None else known.health

    def rejudge(self, ref: ObjectRef, live: Json) -> Verdict:
        """Judge a watched object anew, as time may have changed what it means."""
        verdict = assess(live, now=self._clock())
        sink = self._watched.get((ref.api_version, ref.kind))
        known = sink.known.get((ref.namespace, ref.name)) if sink is not None else None
        if known is not None:
            known.health = verdict
        return verdict

    def health_version(self, key: ReleaseKey) -> int:
        """Return a number that differs whenever the health of some object of the release changed."""
        return self._health_versions.get(key, 0)

    def note_health(self, key: ReleaseKey) -> None:
        self._health_versions[key] = self._health_versions.get(key, 0) + 1
        self._health_changed(key)

    def assess(self, item: Json) -> Verdict:
        return assess(item, now=self._clock())

    def exists(self, ref: ObjectRef) -> bool:
        """Return whether a watched object is there, as an object of a Helm release."""
        sink = self._watched.get((ref.api_version, ref.kind))
        return sink is not None and (ref.namespace, ref.name) in sink.known

    async def close(self) -> None:
        """End all watches."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _watch_kind(self, sink: _KindSink) -> None:
        told = ""
        while True:
            try:
                resource = await self._kube.resource(sink.api_version, sink.kind)
                break
            except ApiError as error:
                sink.unserved = True
                if str(error) != told:
                    logger.info("cannot watch %s of %s yet: %s", sink.kind, sink.api_version, error)
                told = str(error)
                await asyncio.sleep(_RETRY_SECONDS)
        scopes: tuple[str, ...] = self._namespaces if resource.namespaced and self._namespaces else ("",)
        sink.unserved, sink.reflectors = False, {}
        for namespace in scopes:
            reflector = sink.reflectors[namespace] = Reflector(
                self._kube,
                resource.path(namespace),
                dict(_SELECTOR),
                sink.scope(namespace),
                metadata_only=needs_metadata_only(sink.api_version, sink.kind),
                what=f"{resource.plural} of Helm releases" + (f" in namespace {namespace}" if namespace else ""),
            )
            self._start(reflector.run())

    def _start(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        with contextlib.suppress(asyncio.CancelledError):
            if (error := task.exception()) is not None:
                logger.error("a watch on dependent objects ended: %r", error, exc_info=error)


@dataclass(slots=True)
class _Known:
    """What is kept of one object."""

    release: ReleaseKey
    fingerprint: bytes
    health: Verdict


class _KindSink:
    """What is kept of the objects of one kind."""

    def __init__(self, owner: Dependents, api_version: str, kind: str, manager: str) -> None:
        self.api_version = api_version
        self.kind = kind
        self._owner = owner
        self._manager = manager
        self.known: dict[tuple[str, str], _Known] = {}
        self.reflectors: dict[str, Reflector] | None = None
        """By namespace; None until the API server has told how the kind is served."""
        self.unserved = False

    def scope(self, namespace: str) -> _Scope:
        return _Scope(self, namespace)

    def seen(self, item: Json, *, trusted: bool) -> None:
        """Note an object; unless `trusted`, it is suspect if somebody wrote to it after Helm did."""
        meta = item["metadata"]
        place = (meta.get("namespace") or "", meta["name"])
        before = self.known.get(place)
        print_ = self._fingerprint(meta)
        key = release_of(meta) or (before.release if before else None)
        if key is None:
            return
        # A list's items do not say of which kind they are, nor does metadata alone.
        health = self._owner.assess({**item, "apiVersion": self.api_version, "kind": self.kind})
        self.known[place] = _Known(key, print_, health)
        if before is None:
            suspicious = not print_ or (not trusted and written_since(meta, self._manager))
        else:
            suspicious = before.fingerprint != print_ or bool(meta.get("deletionTimestamp"))
        if suspicious or self._owner.followed(key, self._ref(place)):
            self._owner.suspect(key, self._ref(place))
        if before is None or before.health != health:
            self._owner.note_health(key)

    def gone(self, place: tuple[str, str]) -> None:
        before = self.known.pop(place, None)
        if before is not None:
            self._owner.suspect(before.release, self._ref(place))
            self._owner.note_health(before.release)

    def _fingerprint(self, meta: Mapping[str, Any]) -> bytes:
        if self.kind == "Secret":
            # A chart's stringData is stored as data, which Helm then does not own: any change counts.
            return str(meta.get("resourceVersion")).encode()
        return fingerprint(meta, self._manager)

    def _ref(self, place: tuple[str, str]) -> ObjectRef:
        return ObjectRef(self.api_version, self.kind, *place)


class _Scope:
    """One namespace's part of a kind (all of it where the watch is cluster-wide)."""

    def __init__(self, kind: _KindSink, namespace: str) -> None:
        self._kind = kind
        self._namespace = namespace

    def replace(self, items: list[Json], version: str) -> None:
        places = {(item["metadata"].get("namespace") or "", item["metadata"]["name"]) for item in items}
        for item in items:
            # Nobody watched until now, so what Helm wrote may have been changed meanwhile.
            self._kind.seen(item, trusted=False)
        for place in [place for place in self._kind.known if self._mine(place) and place not in places]:
            self._kind.gone(place)

    def apply(self, type_: str, item: Json) -> None:
        meta = item["metadata"]
        if type_ == "DELETED":
            self._kind.gone((meta.get("namespace") or "", meta["name"]))
        else:
            self._kind.seen(item, trusted=type_ == "ADDED")

    def _mine(self, place: tuple[str, str]) -> bool:
        return not self._namespace or place[0] == self._namespace


def release_of(meta: Mapping[str, Any]) -> ReleaseKey | None:
    """Return the release that an object says it belongs to."""
    annotations = meta.get("annotations") or {}
    name, namespace = annotations.get(RELEASE_NAME), annotations.get(RELEASE_NAMESPACE)
    return ReleaseKey(namespace, name) if name and namespace else None


def written_since(meta: Mapping[str, Any], manager: str) -> bool:
    """Return whether anybody wrote to an object (its status aside) after Helm last did, or in the same second."""
    entries = [entry for entry in meta.get("managedFields") or () if not entry.get("subresource")]
    helm = max((str(entry.get("time")) for entry in entries if entry.get("manager") == manager), default="")
    return not helm or any(str(entry.get("time")) >= helm for entry in entries if entry.get("manager") != manager)


def fingerprint(meta: Mapping[str, Any], manager: str) -> bytes:
    """Return a digest of the set of fields that Helm owns; empty where it owns none.

    It tells as well whether the object is to be left alone.
    """
    owned = [
        (entry.get("operation"), entry.get("fieldsV1"))
        for entry in meta.get("managedFields") or ()
        if entry.get("manager") == manager and not entry.get("subresource")
    ]
    if not owned:
        return b""
    # Who excludes an object from comparison, or takes that back, has it looked at once more.
    facts = [*sorted(owned, key=lambda pair: str(pair[0])), left_alone(meta)]
    text = json.dumps(facts, sort_keys=True, separators=(",", ":"))
    return hashlib.blake2b(text.encode(), digest_size=16).digest()
