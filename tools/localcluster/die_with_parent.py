"""Run as a script: replaces itself by a command that the kernel kills when the parent ends, even by SIGKILL.

`python die_with_parent.py PARENT_PID COMMAND…`. A script, and not subprocess's preexec_fn: that one forks the
caller, which Python warns of when the caller (pytest, asyncio) has threads.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Arm the kernel's parent-death signal, then become the command."""
    parent, command = int(sys.argv[1]), sys.argv[2:]
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0) != 0:
        sys.exit(f"prctl(PR_SET_PDEATHSIG): {os.strerror(ctypes.get_errno())}")
    # The parent may have ended before the signal was armed.
    if os.getppid() != parent:
        sys.exit("the parent is gone")
    os.execv(command[0], command)  # noqa: S606 - no shell is wanted


if __name__ == "__main__":
    main()
