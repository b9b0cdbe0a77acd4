"""kopf's part: log in, find the CRDs, and watch the custom resources.

kopf runs in a thread and an event loop of its own. It may fail, return and be started
again there, and never holds up a pass; only its events come over to us.
"""

from __future__ import annotations

import asyncio
import datetime
import logging
import random
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, Final

import kopf

# Not public, but the only way to see what kopf watches; kopf's version is pinned.
from kopf._cogs.structs.references import Insights

from helm_operator.kube import Credentials
from helm_operator.release import DOMAIN, Json
from helm_operator.watches import Watch

logger = logging.getLogger(__name__)

_LOGIN_LIFETIME: Final = datetime.timedelta(minutes=5)
"""How long a token is used before it is read again (kubelet rotates it every hour)."""
_LONGEST_PAUSE: Final = 30.0

Deliver = Callable[[Watch, str | None, Json], None]
"""Called with the watch, the type (None in the first list, ADDED, MODIFIED, DELETED) and the object."""


class Intake:
    """Delivers what happens to custom resources into the given event loop."""

    def __init__(
        self,
        watches: Sequence[Watch],
        *,
        namespaces: tuple[str, ...],
        credentials: Callable[[], Awaitable[Credentials]],
        deliver: Deliver,
        scanning: bool = True,
    ) -> None:
        """`namespaces` limits the watches, empty means all; `deliver` runs in the loop that calls `start`.

        `scanning` follows the CRDs, which needs the right to list them in the whole cluster.
        Without it, `restart` has to be called when a watched kind has come.
        """
        self._watches = watches
        self._namespaces = namespaces
        self._credentials = credentials
        self._deliver = deliver
        self._scanning = scanning
        self._stop = threading.Event()
        self._round = threading.Event()
        """Ends the present run of kopf, but not the intake."""
        self._insights = Insights()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=self._run, name="kopf", daemon=True)

    def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._thread.start()

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    def watches(self, watch: Watch) -> bool:
        """Return whether kopf has found the kind, and watches it."""
        return any(
            (resource.group, resource.version, resource.kind) == (watch.group, watch.version, watch.kind)
            for resource in tuple(self._insights.watched_resources)
        )

    def restart(self) -> None:
        """Look for the watched kinds afresh."""
        self._round.set()

    async def stop(self, timeout: float = 5.0) -> None:
        """Take no more events; waits at most `timeout` seconds for kopf to end."""
        self._stop.set()
        self._round.set()
        if self._thread.is_alive():
            await asyncio.to_thread(self._thread.join, timeout)

    def _run(self) -> None:
        asyncio.run(self._supervise())

    async def _supervise(self) -> None:
        """Start kopf again whenever it ends; it does so at some errors of the API server."""
        pause = 1.0
        while not self._stop.is_set():
            self._round.clear()
            self._insights = Insights()
            if self._stop.is_set():
                return
            try:
                await kopf.operator(
                    registry=self._registry(),
                    settings=_settings(scanning=self._scanning),
                    insights=self._insights,
                    standalone=True,
                    clusterwide=not self._namespaces,
                    namespaces=self._namespaces,
                    stop_flag=self._round,
                )
            except Exception as error:  # noqa: BLE001 - whatever it was, the answer is to start again
                logger.warning("the watch on custom resources ended: %s", str(error) or type(error).__name__)
            if self._round.is_set():
                pause = 1.0
            elif not self._stop.is_set():
                wait = pause * random.uniform(0.8, 1.2)  # noqa: S311
                logger.warning("watching custom resources again in %.0f s", wait)
                await asyncio.sleep(wait)
                pause = min(pause * 2, _LONGEST_PAUSE)

    def _registry(self) -> kopf.OperatorRegistry:
        registry = kopf.OperatorRegistry()
        kopf.on.login(registry=registry)(self._login)
        for watch in self._watches:
            kopf.on.event(group=watch.group, version=watch.version, kind=watch.kind, param=watch, registry=registry)(
                self._on_event
            )
        return registry

    async def _login(self, **_: Any) -> kopf.ConnectionInfo:
        assert self._loop is not None  # noqa: S101 - start() has set it
        found = await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self._fetch(), self._loop))
        expiration = datetime.datetime.now(datetime.UTC) + _LOGIN_LIFETIME if found.token else None
        return kopf.ConnectionInfo(**found.as_kwargs(), expiration=expiration)

    async def _fetch(self) -> Credentials:
        return await self._credentials()

    async def _on_event(self, **cause: Any) -> None:
        assert self._loop is not None  # noqa: S101 - start() has set it
        event = cause["event"]
        if not self._stop.is_set():
            self._loop.call_soon_threadsafe(self._deliver, cause["param"], event["type"], event["object"])


class _Backoffs:
    """Pauses in seconds after network errors: growing, spread apart, never at an end."""

    def __iter__(self) -> Iterator[float]:
        pause = 0.5
        while True:
            yield pause * random.uniform(0.8, 1.2)  # noqa: S311
            pause = min(pause * 2, _LONGEST_PAUSE)


class _NoDiffBase(kopf.DiffBaseStorage):
    """Keeps nothing: kopf would write an annotation on each custom resource."""

    def build(self, *, body: Any, extra_fields: Any = None) -> Any:
        return {}

    def fetch(self, *, body: Any) -> Any:
        return None

    def store(self, *, body: Any, patch: Any, essence: Any) -> None:
        return None


class _NoProgress(kopf.ProgressStorage):
    """Keeps nothing, for the same reason."""

    def fetch(self, *, key: Any, body: Any) -> Any:
        return None

    def store(self, *, key: Any, record: Any, body: Any, patch: Any) -> None:
        return None

    def purge(self, *, key: Any, body: Any, patch: Any) -> None:
        return None

    def touch(self, *, body: Any, patch: Any, value: Any) -> None:
        return None

    def clear(self, *, essence: Any) -> Any:
        return essence


def _settings(*, scanning: bool) -> kopf.OperatorSettings:
    """Return kopf's settings; each one that differs from its default was measured to matter."""
    settings = kopf.OperatorSettings()
    settings.scanning.disabled = not scanning
    settings.posting.enabled = False  # Our Events are our own.
    settings.persistence.finalizer = f"{DOMAIN}/not-used"  # Any name in use would be stripped.
    settings.persistence.diffbase_storage = _NoDiffBase()
    settings.persistence.progress_storage = _NoProgress()
    settings.queueing.idle_timeout = 0.1  # A worker per object holds its memory that long.
    settings.networking.error_backoffs = _Backoffs()
    settings.networking.request_timeout = 30
    settings.networking.connect_timeout = 5
    settings.watching.chunk_size = 500
    settings.watching.server_timeout = 300
    settings.watching.client_timeout = 330
    settings.process.ultimate_exiting_timeout = None  # It would kill the whole process.
    return settings
