"""List and watch one collection, for ever, into a sink that keeps what it needs."""

from __future__ import annotations

import asyncio
import logging
import random
from typing import Final, Protocol

from helm_operator.errors import ApiError, ApiUnavailable, Forbidden, Gone, NotFound
from helm_operator.kube import Kube
from helm_operator.release import Json

logger = logging.getLogger(__name__)

_FIRST_PAUSE: Final = 0.5
_LONGEST_PAUSE: Final = 30.0


class Sink(Protocol):
    """What becomes of the objects."""

    def replace(self, items: list[Json]) -> None:
        """These are all objects now: what is not among them was deleted while nobody watched."""

    def apply(self, type_: str, item: Json) -> None:
        """One object changed; `type_` is ADDED, MODIFIED or DELETED."""


class Reflector:
    """Keeps one sink in step with one collection.

    It never gives up: refused connections, 403, 404, 410, 429 and 5xx are waited out with
    growing, jittered pauses (Retry-After is honoured), and told once each time they begin.
    """

    def __init__(
        self, kube: Kube, path: str, query: dict[str, str], sink: Sink, *, metadata_only: bool, what: str
    ) -> None:
        """`what` names the collection in log lines."""
        self._kube = kube
        self._path = path
        self._query = query
        self._sink = sink
        self._metadata_only = metadata_only
        self._what = what
        self._trouble = ""
        self.synced = asyncio.Event()
        """Set once the first list has arrived."""
        self.refused = asyncio.Event()
        """Set once the API server said that this may not be listed, or does not exist."""

    async def run(self) -> None:
        """List and watch until cancelled."""
        pause = _FIRST_PAUSE
        while True:
            wait = 0.0
            try:
                await self._list_and_watch()
                pause = _FIRST_PAUSE
            except Gone:
                pause = _FIRST_PAUSE  # The next list is the answer.
            except ApiError as error:
                self._tell(error)
                wait = max(pause * random.uniform(0.8, 1.2), error.retry_after or 0.0)  # noqa: S311
                pause = min(pause * 2, _LONGEST_PAUSE)
            await asyncio.sleep(wait)

    async def _list_and_watch(self) -> None:
        items, version = await self._kube.list(self._path, self._query, metadata_only=self._metadata_only)
        self._sink.replace(items)
        self._recovered()
        self.synced.set()
        while True:
            version = await self._watch(version)

    async def _watch(self, version: str) -> str:
        async for event in self._kube.watch(self._path, self._query, version, metadata_only=self._metadata_only):
            version = event.object["metadata"]["resourceVersion"]
            if event.type != "BOOKMARK":
                self._sink.apply(event.type, event.object)
        return version

    def _tell(self, error: ApiError) -> None:
        if isinstance(error, (Forbidden, NotFound)):
            self.refused.set()
        trouble = f"{type(error).__name__} {error.status}"
        if trouble == self._trouble:
            return
        self._trouble = trouble
        level = logging.INFO if isinstance(error, ApiUnavailable) and self.synced.is_set() else logging.WARNING
        logger.log(level, "cannot watch %s, trying again with growing pauses: %s", self._what, error)

    def _recovered(self) -> None:
        if self._trouble:
            logger.info("watching %s again", self._what)
        self._trouble = ""
        self.refused.clear()
