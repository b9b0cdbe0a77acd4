"""How a helm process is run, and the verbs that pyhelm3 lacks: the only importer of pyhelm3.

pyhelm3 starts Helm through a shell, so that a cancelled call leaves helm running, and it logs whole
command lines. Here Helm is executed itself, in a process group of its own, and its end is waited for.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import logging
import math
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pyhelm3

from helm_operator.errors import HelmError, HelmErrorKind
from helm_operator.helm.classify import helm_error

MARGIN: Final = 60.0
"""Seconds beyond Helm's own timeout after which we end it: the timeout is per operation, not for the whole."""

_log = logging.getLogger(__name__)

_PIPES_SECONDS: Final = 0.5
"""How long a killed helm's last words may take to be read."""
_PR_SET_PDEATHSIG: Final = 1
"""Source: linux/prctl.h."""
_prctl = ctypes.CDLL(None).prctl if sys.platform == "linux" else None

_PACING: Final = frozenset({"HELM_BURST_LIMIT", "HELM_QPS"})
"""What we let through of Helm's variables: how fast it asks, never what it does."""


class HelmCommand(pyhelm3.Command):  # type: ignore[misc] # pyhelm3 has no types
    """Runs helm; `run` raises HelmError (kind by cause) where helm fails.

    `home` is a writable directory for Helm's caches. `kubeconfig` is a file; without one Helm takes
    the Pod's service account. `grace` is in seconds: from SIGTERM to SIGKILL. `may_act` and `time_left`:
    see `HelmCli`.
    """

    def __init__(
        self,
        executable: str,
        *,
        kubeconfig: str | None,
        home: Path,
        grace: float,
        may_act: Callable[[], bool] = lambda: True,
        time_left: Callable[[], float] = lambda: math.inf,
    ) -> None:
        super().__init__(executable=executable)
        self._home = home
        self._config = kubeconfig
        self._grace = grace
        self._may_act = may_act
        self._time_left = time_left

    async def run(self, command: Sequence[object], input: bytes | None = None, *, timeout: float = 0.0) -> bytes:  # noqa: A002 (pyhelm3's name)
        """Return helm's standard output; `timeout` is Helm's own, in seconds.

        Raises:
            HelmError: helm failed, did not end MARGIN seconds after its timeout (TIMEOUT), or was not
                started, as this process may not act (CANCELLED).
        """
        words = [str(word) for word in command]
        if words[0] != "version" and not self._may_act():
            raise HelmError("helm was not started: this replica does not lead", kind=HelmErrorKind.CANCELLED)
        started = time.monotonic()
        code: int | None = None
        try:
            process = await self._start(words, input)
            output, errors = await self._communicate(process, input, timeout + MARGIN)
            code = process.returncode
        finally:
            # Only the verb and the release: the other words may hold values.
            what = " ".join(word for word in words[:2] if not word.startswith("-"))
            ending = "ended by us or not started" if code is None else f"exit code {code}"
            _log.debug("helm %s: %s after %.2f s", what, ending, time.monotonic() - started)
        if code:
            raise helm_error(errors.decode(errors="replace"), code, verb=words[0])
        return output

    async def install(self, release: str, chart: Path, *options: str, values: bytes, timeout: float) -> None:
        """Create a release. Raises as `run`."""
        command = ["install", release, chart, "--timeout", duration(timeout), "--hide-notes", *options]
        await self.run(command, values, timeout=timeout)

    async def upgrade(
        self, release: str, chart: Path, *options: str, values: bytes, timeout: float, history_max: int
    ) -> None:
        """Make a new revision from `values` alone: without --reset-values, none would mean the old ones.

        Raises as `run`.
        """
        command = ["upgrade", release, chart, "--reset-values", "--history-max", history_max]
        command += ["--timeout", duration(timeout), "--hide-notes", *options]
        await self.run(command, values, timeout=timeout)

    async def render(self, verb: str, release: str, chart: Path, *options: str, values: bytes, timeout: float) -> bytes:
        """Return the release that `verb` (install or upgrade) would make, as JSON; nothing is written.

        Raises as `run`.
        """
        command = [verb, release, chart, "--dry-run=server", "--output=json", "--timeout", duration(timeout), *options]
        return await self.run(command, values, timeout=timeout)

    async def rollback(
        self, release: str, revision: int, *options: str, namespace: str, timeout: float, history_max: int
    ) -> None:
        """Repeat a revision; pyhelm3's own has one history limit for all releases. Raises as `run`."""
        command = ["rollback", release, revision, "--namespace", namespace]
        command += ["--history-max", history_max, "--timeout", duration(timeout), *options]
        await self.run(command, timeout=timeout)

    async def uninstall(self, release: str, *options: str, namespace: str, timeout: float) -> str:
        """Delete a release and return what Helm says of it; pyhelm3's own drops that. Raises as `run`."""
        command = ["uninstall", release, "--namespace", namespace, "--timeout", duration(timeout)]
        # Why an object could not be deleted is told with --debug only.
        return (await self.run([*command, "--debug", *options], timeout=timeout)).decode(errors="replace")

    async def _start(self, words: list[str], stdin: bytes | None) -> asyncio.subprocess.Process:
        """Return helm's process; being cancelled waits for it, for asyncio would end helm but not its children."""
        starting = asyncio.ensure_future(self._spawn(words, stdin))
        try:
            return await asyncio.shield(starting)
        except asyncio.CancelledError:
            await _settled(starting)
            if starting.exception() is None:
                process = starting.result()
                await self._end(process, asyncio.ensure_future(process.communicate(stdin)))
            raise

    async def _spawn(self, words: list[str], stdin: bytes | None) -> asyncio.subprocess.Process:
        try:
            return await asyncio.create_subprocess_exec(
                self._executable,
                *(word.encode() for word in words),
                stdin=asyncio.subprocess.DEVNULL if stdin is None else asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env=environment(os.environ, home=self._home, kubeconfig=self._config),
                start_new_session=True,
                preexec_fn=_end_with_us,
            )
        except (OSError, ValueError) as error:
            message = f"helm cannot be started: {error}"
            raise HelmError(message, kind=HelmErrorKind.CRASHED) from error

    async def _communicate(
        self, process: asyncio.subprocess.Process, stdin: bytes | None, deadline: float
    ) -> tuple[bytes, bytes]:
        talk = asyncio.ensure_future(process.communicate(stdin))
        try:
            done, _ = await asyncio.wait([talk], timeout=deadline)
        except asyncio.CancelledError:
            await self._end(process, talk)
            raise
        if not done:
            await self._end(process, talk)
            message = f"helm did not end within {deadline:.0f} seconds and was stopped"
            raise HelmError(message, kind=HelmErrorKind.TIMEOUT)
        return talk.result()

    async def _end(self, process: asyncio.subprocess.Process, talk: asyncio.Future[tuple[bytes, bytes]]) -> None:
        """End helm and return when it is gone; being cancelled meanwhile does not shorten that."""
        ending = asyncio.ensure_future(self._terminate(process, talk))
        cancelled = await _settled(ending)
        ending.result()
        if cancelled:
            raise asyncio.CancelledError

    async def _terminate(self, process: asyncio.subprocess.Process, talk: asyncio.Future[tuple[bytes, bytes]]) -> None:
        # The pipes are read on meanwhile: a helm that cannot write would not end.
        grace = min(self._grace, self._time_left())
        done: set[asyncio.Future[tuple[bytes, bytes]]] = set()
        if grace > 0:
            _signal(process, signal.SIGTERM)
            done, _ = await asyncio.wait([talk], timeout=grace)
        if not done:
            _signal(process, signal.SIGKILL)
            # A child outside of the group may hold the pipes, so these are not waited for long.
            await process.wait()
            await asyncio.wait([talk], timeout=_PIPES_SECONDS)
            talk.cancel()
            # asyncio has no public way to give the pipes up while somebody else holds their other end.
            process._transport.close()  # type: ignore[attr-defined] # noqa: SLF001
            await asyncio.sleep(0)  # The pipes are closed by the next round of the loop.
        with contextlib.suppress(asyncio.CancelledError, OSError):
            await talk


def environment(outside: Mapping[str, str], *, home: Path, kubeconfig: str | None) -> dict[str, str]:
    """Return helm's environment: the outside's, but none of its words to Helm.

    A HELM_DRIVER or HELM_NAMESPACE left over in a shell or an image would move the records away
    from where we watch, HELM_DEBUG would flood the error texts, HELM_KUBE* and KUBECONFIG would
    lead to another cluster. The rest stays: proxies, certificates, what credential plugins need.
    """
    env = {name: value for name, value in outside.items() if not name.startswith("HELM_") or name in _PACING}
    env.pop("KUBECONFIG", None)
    env |= {
        "HOME": str(home),
        "TMPDIR": str(home / "tmp"),
        "HELM_CACHE_HOME": str(home / "cache"),
        "HELM_CONFIG_HOME": str(home / "config"),
        "HELM_DATA_HOME": str(home / "data"),
    }
    if kubeconfig is not None:
        env["KUBECONFIG"] = kubeconfig
    return env


def duration(seconds: float) -> str:
    """Return seconds as Helm reads them; it refuses a bare number."""
    return f"{seconds:.3f}".rstrip("0").rstrip(".") + "s"


def _end_with_us() -> None:
    """Have the kernel end helm when this process dies, so that no helm acts that nobody knows of.

    It runs between fork and exec, so it does nothing but one system call.
    """
    if _prctl is not None:
        _prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


async def _settled(future: asyncio.Future[Any]) -> bool:
    """Wait until it is done, whatever becomes of it; return whether that wait was cancelled meanwhile."""
    cancelled = False
    while not future.done():
        try:
            await asyncio.wait([future])
        except asyncio.CancelledError:
            cancelled = True
    return cancelled


def _signal(process: asyncio.subprocess.Process, number: signal.Signals) -> None:
    # Helm itself may be gone while a child of it lives on in its group, and holds the pipes. The
    # kernel gives the group's id to nobody else as long as it has a member.
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, number)
