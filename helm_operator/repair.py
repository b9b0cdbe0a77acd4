"""Puts objects of a release right that no longer are as the installed manifest says.

A suspect is compared with what a server-side dry run of its manifest would give, so that
defaults, other managers' fields and normalised quantities raise no false alarm.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from helm_operator.drift import (
    Difference,
    as_helm_applies,
    comes_and_goes,
    differences,
    left_alone,
    object_ref,
    ours_to_repair,
    overlaid,
    with_ignored,
)
from helm_operator.drift_policy import DriftPolicy
from helm_operator.errors import ApiError, ApiUnavailable, Forbidden, NotFound, PassError, RetryableError
from helm_operator.kube import Kube
from helm_operator.release import Json, ObjectRef, ReleaseContent, ReleaseKey

_AT_ONCE: Final = 8
_BASES: Final = frozenset({"Namespace", "CustomResourceDefinition"})
_INVALID: Final = 422
"""HTTP's status for an object that breaks a rule."""
_INTERNAL: Final = 500
"""HTTP's status for a request that the API server could not carry out, such as when a webhook cannot be called."""


@dataclass(slots=True)
class RepairResult:
    """What a repair came to."""

    settled: set[ObjectRef] = field(default_factory=set)
    """Objects that are no longer suspect."""
    repaired: list[Difference] = field(default_factory=list)
    differing: list[Difference] = field(default_factory=list)
    """What was found, and left as it is."""
    live: dict[ObjectRef, Json] = field(default_factory=dict)
    """The objects as they were found."""
    faults: dict[ObjectRef, PassError] = field(default_factory=dict)
    """Why objects could not be put right."""

    @property
    def error(self) -> PassError | None:
        """One error for all: the first fault by name, so that equal faults give equal texts."""
        if not self.faults:
            return None
        first = self.faults[min(self.faults)]
        others = len(self.faults) - 1
        more = f" ({others} more object{'s' if others > 1 else ''} of it could not be put right either.)"
        return RetryableError(f"{first}{more if others else ''}", reason=first.reason)


async def inventory_of(kube: Kube, content: ReleaseContent, release: ReleaseKey) -> tuple[ObjectRef, ...]:
    """Return where the objects of a revision live, in Helm's order.

    Raises:
        ApiError: the API server does not tell which kinds are namespaced.
    """
    return tuple([ref for ref, _ in await _located(kube, content, release)])


async def _located(kube: Kube, content: ReleaseContent, release: ReleaseKey) -> list[tuple[ObjectRef, Json]]:
    found: dict[ObjectRef, Json] = {}
    for item in content.objects:
        if not item["metadata"].get("name"):
            continue  # Helm refuses it, but keeps it in the manifest of the failed revision.
        namespace = item["metadata"].get("namespace") or ""
        try:
            resource = await kube.resource(str(item.get("apiVersion", "")), str(item.get("kind", "")))
        except NotFound:
            pass  # Its CRD is gone, and so is the object.
        else:
            namespace = (namespace or release.namespace) if resource.namespaced else ""
        found[object_ref(item, namespace)] = item  # Of duplicates Helm keeps the last one.
    return list(found.items())


class Repairer:
    """Compares and applies, with Helm's field manager; makes no new revision."""

    def __init__(self, kube: Kube, *, manager: str) -> None:
        self._kube = kube
        self._manager = manager
        self._limit = asyncio.Semaphore(_AT_ONCE)

    async def look(self, refs: Collection[ObjectRef]) -> dict[ObjectRef, Json]:
        """Read objects; those that cannot be read are left out."""
        found: dict[ObjectRef, Json] = {}

        async def one(ref: ObjectRef) -> None:
            async with self._limit:
                with contextlib.suppress(ApiError):
                    found[ref] = await self._kube.get_object(ref)

        await asyncio.gather(*(one(ref) for ref in refs))
        return found

    async def repair(
        self,
        content: ReleaseContent,
        release: ReleaseKey,
        suspects: Collection[ObjectRef],
        *,
        policy: DriftPolicy,
        hands_off: Collection[ObjectRef] = (),
    ) -> RepairResult:
        """Compare the suspects, and put them right; those of `hands_off` are only compared.

        Raises:
            ApiError: the API server does not tell which kinds are namespaced.
        """
        objects = await _located(self._kube, content, release)
        result = RepairResult(settled=set(suspects) - {ref for ref, _ in objects})
        chosen = [(ref, item) for ref, item in objects if ref in suspects]
        # What others live in comes back before them.
        bases = [(ref, item) for ref, item in chosen if ref.kind in _BASES]
        for group in (bases, [pair for pair in chosen if pair not in bases]):
            work = (
                self._one(_Suspect(ref, item, release, policy, ref not in hands_off), result) for ref, item in group
            )
            await asyncio.gather(*work)
        return result

    async def _one(self, suspect: _Suspect, result: RepairResult) -> None:
        ref, found = suspect.ref, None
        async with self._limit:
            try:
                found = await self._compare(suspect, result)
                if found is not None and suspect.writable:
                    await found.write()
            except ApiError as error:
                result.faults[ref] = _fault(error, suspect, differs=found is not None)
                return
            except _NotOurs:
                result.faults[ref] = RetryableError(
                    f"{ref} belongs to release {suspect.release.name}, but the object of that name was made by "
                    "somebody else; it is left alone. Delete or rename it, and it is made again from the release",
                    reason="OwnershipConflict",
                )
                return
        result.settled.add(ref)
        if found is not None:
            (result.repaired if suspect.writable else result.differing).append(found.difference)

    async def _compare(self, suspect: _Suspect, result: RepairResult) -> _Found | None:
        """Return in which way an object differs; writes nothing."""
        ref, item, release = suspect.ref, suspect.item, suspect.release
        apply = functools.partial(self._kube.apply_object, ref, manager=self._manager)
        try:
            live = await self._kube.get_object(ref)
        except NotFound:
            if comes_and_goes(item):
                return None
            return _Found(Difference(ref), functools.partial(apply, as_helm_applies(item, ref, release)))
        result.live[ref] = live
        if live["metadata"].get("deletionTimestamp"):
            return None  # It becomes suspect again once it is gone.
        if not ours_to_repair(live, release, self._manager):
            return _Found(Difference(ref, foreign=True), _refuse)
        ignored = suspect.policy.ignored(ref, item["metadata"].get("labels") or {})
        if left_alone(live["metadata"]) or () in ignored:
            return None
        wanted = as_helm_applies(with_ignored(item, live, ignored), ref, release)
        write = functools.partial(apply, wanted)
        try:
            dry = await write(dry_run=True)
        except ApiError as error:
            if error.status != _INVALID:
                raise
            # An apply merges lists by a key of their entries. An entry whose key somebody changed would come back
            # beside the changed one, which may make the object invalid: lists are put back as the manifest has them.
            body = overlaid(live, wanted)
            write = functools.partial(self._kube.replace_object, ref, body, manager=self._manager)
            dry = await write(dry_run=True)
        paths = differences(live, dry)
        return _Found(Difference(ref, tuple(paths)), write) if paths else None


@dataclass(frozen=True, slots=True)
class _Suspect:
    """An object that may differ from its manifest, and what may be done about it."""

    ref: ObjectRef
    item: Json
    release: ReleaseKey
    policy: DriftPolicy
    writable: bool


class _Found(NamedTuple):
    """A difference, and what takes it away."""

    difference: Difference
    write: Callable[[], Awaitable[object]]


class _NotOurs(Exception):
    """The live object was never the release's."""


async def _refuse() -> None:
    raise _NotOurs


def _fault(error: ApiError, suspect: _Suspect, *, differs: bool) -> PassError:
    reason = "ReconcileError"
    if isinstance(error, Forbidden):
        reason = "Forbidden"
    elif isinstance(error, ApiUnavailable) and not (differs and error.status == _INTERNAL):
        reason = "ApiUnavailable"  # Otherwise the API server is there: a webhook of its fails.
    what = "put right" if differs else "compared"
    return RetryableError(
        f"{suspect.ref} of release {suspect.release.name} could not be {what}: {error}. "
        "It is tried again with growing pauses",
        reason=reason,
    )
