"""Run as a script: runs a command and sees to it that nothing of it is left.

`python guard.py PARENT_PID shared|own COMMAND…`; exits as the command does, with 128 + N after signal N. With `own`
the command gets a process group of its own and SIGINT is handed on to it; with `shared` the terminal does that.
SIGTERM and SIGHUP are handed on, SIGUSR1 kills everything, and so does the end of the parent.
"""

import contextlib
import ctypes
import os
import signal
import sys
import time
from pathlib import Path
from types import FrameType

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_NOT_FOUND = 127


class _Guard:
    def __init__(self, parent: int, command: list[str], *, own_group: bool) -> None:
        self._parent = parent
        self._command = command
        self._own_group = own_group
        self._child: int | None = None
        self._early: list[int] = []

    def run(self) -> int:
        signal.signal(signal.SIGUSR1, self._kill)
        for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            # Functions, never SIG_IGN: an ignored signal would stay ignored in the command.
            signal.signal(each, self._forward)
        libc = ctypes.CDLL(None, use_errno=True)
        # As subreaper it gets the orphans among the command's descendants, so none can hide from the kill below.
        for option, value in ((_PR_SET_CHILD_SUBREAPER, 1), (_PR_SET_PDEATHSIG, int(signal.SIGUSR1))):
            if libc.prctl(option, value, 0, 0, 0) != 0:
                print(f"prctl({option}): {os.strerror(ctypes.get_errno())}", file=sys.stderr)
                return 1
        if os.getppid() != self._parent:
            return 1
        self._child = self._start(libc)
        for signum in self._early:
            self._forward(signum, None)
        code = self._wait()
        _kill_descendants()
        return code

    def _start(self, libc: ctypes.CDLL) -> int:
        guard = os.getpid()
        child = os.fork()
        if child:
            if self._own_group:
                # Both sides do it, so that it is done before either goes on; the child may have exec'ed already.
                with contextlib.suppress(PermissionError, ProcessLookupError):
                    os.setpgid(child, child)
            return child
        try:
            if self._own_group:
                os.setpgid(0, 0)
            libc.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
            if os.getppid() == guard:
                os.execvp(self._command[0], self._command)  # noqa: S606 - no shell is wanted
        except OSError as error:
            print(f"{self._command[0]}: {error.strerror}", file=sys.stderr)
        finally:
            os._exit(_NOT_FOUND)

    def _wait(self) -> int:
        while True:
            pid, status = os.waitpid(-1, 0)
            if pid == self._child:
                code = os.waitstatus_to_exitcode(status)
                return code if code >= 0 else 128 - code

    def _forward(self, signum: int, _frame: FrameType | None) -> None:
        if self._child is None:
            self._early.append(signum)
        elif self._own_group:
            _signal_group(self._child, signum)
        elif signum != signal.SIGINT:
            os.kill(self._child, signum)

    def _kill(self, _signum: int, _frame: FrameType | None) -> None:
        _kill_descendants()
        os._exit(128 + signal.SIGKILL)


def _signal_group(group: int, signum: int) -> None:
    try:
        os.killpg(group, signum)
    except ProcessLookupError:
        return


def _kill_descendants(timeout: float = 10.0) -> None:
    """Kill all descendants, again until there are none; give up after `timeout` seconds (one stuck in the kernel)."""
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        pids = _descendants(os.getpid())
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        if not _reap() and not pids:
            return
        time.sleep(0.005)


def _reap() -> bool:
    """Wait for the children that ended; return whether others are left."""
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return False
        if pid == 0:
            return True


def _descendants(root: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                stat = (folder / "stat").read_text()
            except (FileNotFoundError, ProcessLookupError):
                continue
            # The name in parentheses may have any character; the parent's pid is the second field after it.
            children.setdefault(int(stat.rpartition(")")[2].split()[1]), []).append(int(folder.name))
    found, todo = [], [root]
    while todo:
        below = children.get(todo.pop(), [])
        found += below
        todo += below
    return found


if __name__ == "__main__":
    sys.exit(_Guard(int(sys.argv[1]), sys.argv[3:], own_group=sys.argv[2] == "own").run())
