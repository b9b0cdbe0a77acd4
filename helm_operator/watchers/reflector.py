"""List and watch one collection, for ever, into a sink that keeps what it needs."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from typing import Final, Protocol

from helm_operator.errors import ApiError, ApiUnavailable, Forbidden, Gone, NotFound
from helm_operator.kube import Kube
from helm_operator.release import Json

logger = logging.getLogger(__name__)

_FIRST_PAUSE: Final = 0.5
_LONGEST_PAUSE: Final = 30.0
_SHORT: Final = 1.0
"""A watch that ends within this many seconds is none: the server was asked for minutes."""
_STEADY: Final = 15.0
"""A watch that has stood for this many seconds works, even if nothing has happened."""


class Sink(Protocol):
    """What becomes of the objects."""

    def replace(self, items: list[Json], version: str) -> None:
        """These are all objects as of that resourceVersion: others were deleted while nobody watched."""

    def apply(self, type_: str, item: Json) -> None:
        """One object changed; `type_` is ADDED, MODIFIED or DELETED."""


class Reflector:
    """Keeps one sink in step with one collection.

    It never gives up: refused connections, 403, 404, 429 and 5xx are waited out with growing,
    jittered pauses (Retry-After is honoured), and told once each time they begin. 410 is
    answered by a list at once, but not over and over.
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
        self._pause = _FIRST_PAUSE
        self._listing = True
        self._trouble: tuple[bool, str] | None = None
        """What was told last: whether it was the list that failed, and how."""
        self.synced = asyncio.Event()
        """Set once the first list has arrived."""
        self.refused = asyncio.Event()
        """Set once the API server said that this may not be listed, or does not exist."""

    async def run(self) -> None:
        """List and watch until cancelled."""
        while True:
            try:
                await self._list_and_watch()
            except Gone:
                await self._rest(at_once=self._pause == _FIRST_PAUSE)
            except ApiError as error:
                self._tell(error)
                await self._rest(at_least=error.retry_after or 0.0)

    async def _list_and_watch(self) -> None:
        self._listing = True
        items, version = await self._kube.list(self._path, self._query, metadata_only=self._metadata_only)
        self._sink.replace(items, version)
        self.synced.set()
        if self._trouble is not None and self._trouble[0]:
            self._recovered()
        self._listing = False
        while True:
            version = await self._watch(version)

    async def _watch(self, version: str) -> str:
        began = time.monotonic()
        try:
            async for event in self._kube.watch(self._path, self._query, version, metadata_only=self._metadata_only):
                version = event.object["metadata"]["resourceVersion"]
                self._works()
                if event.type != "BOOKMARK":
                    self._sink.apply(event.type, event.object)
        finally:
            lasted = time.monotonic() - began
            if lasted >= _STEADY:
                self._works()
        if lasted < _SHORT:
            await self._rest()
        return version

    async def _rest(self, *, at_least: float = 0.0, at_once: bool = False) -> None:
        pause = 0.0 if at_once else self._pause * random.uniform(0.8, 1.2)  # noqa: S311
        self._pause = min(self._pause * 2, _LONGEST_PAUSE)
        await asyncio.sleep(max(pause, at_least))

    def _tell(self, error: ApiError) -> None:
        if isinstance(error, (Forbidden, NotFound)):
            self.refused.set()
        trouble = (self._listing, f"{type(error).__name__} {error.status}")
        if trouble == self._trouble:
            return
        self._trouble = trouble
        level = logging.INFO if isinstance(error, ApiUnavailable) and self.synced.is_set() else logging.WARNING
        logger.log(level, "cannot watch %s, trying again with growing pauses: %s", self._what, error)

    def _works(self) -> None:
        self._pause = _FIRST_PAUSE
        if self._trouble is not None:
            self._recovered()

    def _recovered(self) -> None:
        logger.info("watching %s again", self._what)
        self._trouble = None
        self.refused.clear()
