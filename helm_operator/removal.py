"""After `helm uninstall`: whether the objects of a release are really gone.

Helm returns while objects are still terminating, and can leave some behind.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final

from helm_operator.drift import is_of_release
from helm_operator.errors import NotFound
from helm_operator.helm import kept
from helm_operator.kube import Kube
from helm_operator.release import ObjectRef, ReleaseKey

_AT_ONCE: Final = 8


async def remove_leftovers(kube: Kube, inventory: Iterable[ObjectRef], release: ReleaseKey) -> list[str]:
    """Delete what is left of a release, and return what is still there, in words.

    Objects under Helm's keep policy, and those that belong to somebody else by now, are
    left alone and not waited for.

    Raises:
        ApiError: an object could not be looked at or deleted.
    """
    limit = asyncio.Semaphore(_AT_ONCE)

    async def check(ref: ObjectRef) -> str:
        async with limit:
            return await _remove(kube, ref, release)

    found = await asyncio.gather(*(check(ref) for ref in inventory))
    return [text for text in found if text]


async def _remove(kube: Kube, ref: ObjectRef, release: ReleaseKey) -> str:
    try:
        live = await kube.get_object(ref, metadata_only=True)
    except NotFound:  # The object, or its whole kind.
        return ""
    if kept(live) or not is_of_release(live, release):
        return ""
    meta = live["metadata"]
    if not meta.get("deletionTimestamp"):
        await kube.delete_object(ref)
        return f"{ref} (being deleted)"
    holders = ", ".join(meta.get("finalizers") or ())
    return f"{ref} (terminating" + (f"; held by finalizer {holders})" if holders else ")")
