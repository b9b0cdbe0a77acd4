"""The errors of this tool: each message says what happened and what to do."""


class LocalClusterError(Exception):
    """The local control plane cannot be built, started or stopped; the message is for the user."""


class PortTakenError(LocalClusterError):
    """Another program took a port between the choice and the use; other ports may do."""


class Interrupted(BaseException):  # not an Exception: no handler of errors may swallow it, as with KeyboardInterrupt
    """A signal asked the tool to end; `signum` tells which one."""

    def __init__(self, signum: int) -> None:
        super().__init__(f"interrupted by signal {signum}")
        self.signum = signum
