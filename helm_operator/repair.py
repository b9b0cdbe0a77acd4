"""Puts objects of a release right that no longer are as the installed manifest says.

A suspect is compared with what a server-side dry run of its manifest would give, so that
defaults, other managers' fields and normalised quantities raise no false alarm.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Final

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
        ref, name = suspect.ref, suspect.release.name
        async with self._limit:
            try:
                difference = await self._compare(suspect, result)
            except ApiError as error:
                reasons = {ApiUnavailable: "ApiUnavailable", Forbidden: "Forbidden"}
                reason = reasons.get(type(error), "ReconcileError")
                what = "compared or put right" if suspect.writable else "compared"
                result.faults[ref] = RetryableError(
                    f"{ref} of release {name} could not be {what}: {error}. It is tried again with growing pauses",
                    reason=reason,
                )
                return
        if difference is not None and difference.foreign and suspect.writable:
            result.faults[ref] = RetryableError(
                f"{ref} belongs to release {name}, but the object of that name was made by somebody "
                "else; it is left alone. Delete or rename it, and it is made again from the release",
                reason="OwnershipConflict",
            )
            return
        result.settled.add(ref)
        if difference is not None:
            (result.repaired if suspect.writable else result.differing).append(difference)

    async def _compare(self, suspect: _Suspect, result: RepairResult) -> Difference | None:
        """Return in which way an object differed; it was put right where that is allowed."""
        ref, item, release = suspect.ref, suspect.item, suspect.release
        try:
            live = await self._kube.get_object(ref)
        except NotFound:
            if comes_and_goes(item):
                return None
            if suspect.writable:
                await self._kube.apply_object(ref, as_helm_applies(item, ref, release), manager=self._manager)
            return Difference(ref)
        result.live[ref] = live
        if live["metadata"].get("deletionTimestamp"):
            return None  # It becomes suspect again once it is gone.
        if not ours_to_repair(live, release, self._manager):
            return Difference(ref, foreign=True)
        ignored = suspect.policy.ignored(ref, item["metadata"].get("labels") or {})
        if left_alone(live["metadata"]) or () in ignored:
            return None
        wanted = as_helm_applies(with_ignored(item, live, ignored), ref, release)
        try:
            dry = await self._kube.apply_object(ref, wanted, manager=self._manager, dry_run=True)
        except ApiError as error:
            if error.status != _INVALID:
                raise
            return await self._compare_whole(suspect, live, wanted)
        paths = differences(live, dry)
        if not paths:
            return None
        if suspect.writable:
            await self._kube.apply_object(ref, wanted, manager=self._manager)
        return Difference(ref, tuple(paths))

    async def _compare_whole(self, suspect: _Suspect, live: Json, wanted: Json) -> Difference | None:
        """Compare with, and put back, lists as the manifest has them.

        An apply merges lists by a key of their entries. An entry whose key somebody changed would
        come back beside the changed one, which may make the object invalid.
        """
        ref, body = suspect.ref, overlaid(live, wanted)
        paths = differences(live, await self._kube.replace_object(ref, body, manager=self._manager, dry_run=True))
        if not paths:
            return None
        if suspect.writable:
            await self._kube.replace_object(ref, body, manager=self._manager)
        return Difference(ref, tuple(paths))


@dataclass(frozen=True, slots=True)
class _Suspect:
    """An object that may differ from its manifest, and what may be done about it."""

    ref: ObjectRef
    item: Json
    release: ReleaseKey
    policy: DriftPolicy
    writable: bool
