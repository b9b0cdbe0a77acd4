"""Processes: started so that none outlives its parent, known by more than their pid, and ended for sure."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import FrameType, TracebackType
from typing import Final, Self

from tools.localcluster.errors import Interrupted

_SCRIPT: Final = Path(__file__).with_name("die_with_parent.py")


@dataclass(frozen=True)
class ProcessId:
    """A process: its pid, and its start in clock ticks since boot, since pids are used again."""

    pid: int
    started: int

    @property
    def alive(self) -> bool:
        return _start_ticks(self.pid) == self.started

    def send(self, signum: int) -> None:
        """Send a signal; nothing happens when the process is gone."""
        if self.alive:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signum)


def identify(pid: int) -> ProcessId:
    """Return the identity of a child that was not waited for yet (its pid cannot be someone else's).

    A child that ended already gets an identity that is not alive.
    """
    return ProcessId(pid, _start_ticks(pid) or 0)


def _start_ticks(pid: int) -> int | None:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The command's name, in parentheses, may itself have spaces and parentheses. See proc(5): state is field 3.
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else int(fields[19])


def dying_with_parent(command: Sequence[str | Path]) -> list[str]:
    """Return the command that runs `command` (an absolute path first) so that it dies with this process."""
    # Isolated and without site: it starts in 15 ms, and no environment variable can change it.
    return [sys.executable, "-I", "-S", str(_SCRIPT), str(os.getpid()), *map(str, command)]


class _Spawner:
    """Starts processes from a thread that lives as long as this process.

    The kernel's parent-death signal comes when the *thread* that forked ends: a child of a short-lived worker thread
    would die too early.
    """

    def __init__(self) -> None:
        self._executor: ThreadPoolExecutor | None = None
        self._lock = threading.Lock()

    def spawn(self, command: list[str], log: Path, *, detach: bool) -> subprocess.Popen[bytes]:
        if detach or threading.current_thread() is threading.main_thread():
            return self._popen(command, log, detach=detach)
        with self._lock:
            if self._executor is None:
                self._executor = ThreadPoolExecutor(1, "localcluster-spawner")
        return self._executor.submit(self._popen, command, log, detach=detach).result()

    def _popen(self, command: list[str], log: Path, *, detach: bool) -> subprocess.Popen[bytes]:
        with log.open("ab") as output:
            return subprocess.Popen(
                command if detach else dying_with_parent(command),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # a terminal's Ctrl-C is for the tool, which then stops them in order
            )


_spawner: Final = _Spawner()
_detached: Final[list[subprocess.Popen[bytes]]] = []
"""Kept, since Python warns when a process's object goes before the process: here that is the intention."""


def spawn(command: Sequence[str | Path], log: Path, *, detach: bool) -> subprocess.Popen[bytes]:
    """Start a command whose output is appended to `log`; unless it is detached, it dies with this process."""
    child = _spawner.spawn([str(part) for part in command], log, detach=detach)
    if detach:
        _detached.append(child)
    return child


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """Kill a process that leads a session of its own, with what it started there, and wait for it."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def wait_gone(processes: Iterable[ProcessId], timeout: float) -> list[ProcessId]:
    """Wait up to `timeout` seconds for the processes to end; return those that still run."""
    deadline = time.monotonic() + timeout
    left = [process for process in processes if process.alive]
    while left and time.monotonic() < deadline:
        time.sleep(0.01)
        left = [process for process in left if process.alive]
    return left


def tail(log: Path, lines: int = 20) -> str:
    """Return the last lines of a log, at most 8 KiB; a hint if there are none."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - 8192))
            text = file.read().decode(errors="replace")
    except FileNotFoundError:
        return "(no log)"
    return "\n".join(text.splitlines()[-lines:]) or "(the log is empty)"


class Signals:
    """Notes SIGINT, SIGTERM and SIGHUP while it is entered, for loops that ask.

    Signals that interrupt anywhere could do so between the start of a process and the note of its pid.
    """

    SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def __init__(self) -> None:
        self._received: list[int] = []
        self._before: dict[int, object] = {}

    def __enter__(self) -> Self:
        for signum in self.SIGNALS:
            self._before[signum] = signal.signal(signum, self._note)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        for signum, handler in self._before.items():
            signal.signal(signum, handler)  # type: ignore[arg-type]  # what signal() returned

    def _note(self, signum: int, _frame: FrameType | None) -> None:
        self._received.append(signum)

    def take(self) -> int | None:
        """Return the oldest signal that was not taken yet, and forget it."""
        return self._received.pop(0) if self._received else None

    def check(self) -> None:
        """Raise if a signal came.

        Raises:
            Interrupted: one did.
        """
        signum = self.take()
        if signum is not None:
            raise Interrupted(signum)


_GUARD: Final = Path(__file__).with_name("guard.py")


def run_guarded(command: Sequence[str], environment: Mapping[str, str], signals: Signals, grace: float = 15.0) -> int:
    """Run a command in the foreground; return its exit code, or 128 + N after signal N.

    Signals that come meanwhile are handed on; `grace` seconds later the command is killed. No descendant of the
    command is left when this returns, nor when this process is killed.
    """
    # A terminal itself sends Ctrl-C to its whole foreground group; sent twice, it would cut the command's cleanup.
    terminal = os.isatty(0) and os.tcgetpgrp(0) == os.getpgrp()
    mode = "shared" if terminal else "own"
    guard = subprocess.Popen(
        [sys.executable, "-I", "-S", str(_GUARD), str(os.getpid()), mode, *command], env=dict(environment)
    )
    deadline: float | None = None
    while True:
        try:
            return guard.wait(timeout=0.05)
        except subprocess.TimeoutExpired:
            signum = signals.take()
        if signum is not None and not (terminal and signum == signal.SIGINT):
            guard.send_signal(signum)
            deadline = deadline or time.monotonic() + grace
        if deadline is not None and time.monotonic() > deadline:
            guard.send_signal(signal.SIGUSR1)
            deadline = float("inf")
