"""/healthz and /readyz for the kubelet."""

from __future__ import annotations

from collections.abc import Callable

from aiohttp import web


def parse_address(text: str) -> tuple[str | None, int] | None:
    """Read `host:port` or `:port` (all interfaces); `0` or an empty text gives None.

    Raises:
        ValueError: `text` is none of these.
    """
    if text in ("", "0"):
        return None
    host, colon, port = text.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    if not colon or not port.isdecimal() or int(port) > 65535 or (":" in host and not bracketed):
        raise ValueError(f"{text!r} is not an address: expected host:port, [IPv6]:port, :port or 0")
    return host.strip("[]") or None, int(port)


class Probes:
    """A small HTTP server; it answers from the loop that does the work, so a hang shows."""

    def __init__(self, address: str, *, ready: Callable[[], bool]) -> None:
        """`address` is read by `parse_address`; without one there is no server."""
        self._ready = ready
        self._runner: web.AppRunner | None = None
        self._bind = parse_address(address)

    async def start(self) -> None:
        if self._bind is None:
            return
        app = web.Application()
        app.router.add_get("/healthz", self._healthz)
        app.router.add_get("/readyz", self._readyz)
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        await web.TCPSite(self._runner, *self._bind).start()

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    async def _healthz(self, _: web.Request) -> web.Response:
        return web.Response(text="ok")

    async def _readyz(self, _: web.Request) -> web.Response:
        if self._ready():
            return web.Response(text="ok")
        return web.Response(status=503, text="not ready: the watches are not synced yet")
