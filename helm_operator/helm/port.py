"""What the operator asks of Helm: the one port, which `HelmCli` and the tests' fake implement."""

from __future__ import annotations

from typing import Protocol

from helm_operator.release import DesiredRelease, ReleaseKey, UpgradeOptions


class Helm(Protocol):
    """Runs Helm's actions on releases of one cluster.

    Every method raises HelmError on failure and leaves the release as Helm left it.
    A cancelled call ends helm (SIGTERM, then SIGKILL after the grace) before it returns,
    so that nothing acts on the release afterwards.
    """

    @property
    def field_manager(self) -> str:
        """The field manager under which Helm writes objects."""

    async def version(self) -> str:
        """Return Helm's version, such as `v4.3.1`."""

    async def check(self, options: UpgradeOptions) -> None:
        """Raise HelmError (OTHER) if this version of Helm cannot do what `options` ask for."""

    async def install(self, desired: DesiredRelease) -> None:
        """Create the release. An existing release of that name is an error (NAME_IN_USE).

        One that does not fit into its record is refused before anything is written (TOO_LARGE).
        """

    async def upgrade(self, desired: DesiredRelease) -> None:
        """Make a new revision of an existing release; values of earlier ones are not reused.

        A release that does not fit into its record is refused as in `install`.
        """

    async def rollback(
        self,
        key: ReleaseKey,
        revision: int,
        *,
        timeout: float,
        history_max: int,
        force: bool = False,
        force_conflicts: bool = False,
        disable_hooks: bool = False,
    ) -> None:
        """Make a new revision that repeats `revision`. `timeout` is in seconds; for the others, see UpgradeOptions."""

    async def uninstall(
        self,
        key: ReleaseKey,
        *,
        timeout: float,
        keep_history: bool = False,
        disable_hooks: bool = False,
        description: str = "",
    ) -> str:
        """Delete the release, its objects and its history; `timeout` is in seconds.

        With `keep_history` the records stay, the newest one as `uninstalled` with `description`.
        Another uninstall without it takes them away.

        Returns Helm's remarks, such as objects that it left alone; empty where there are none.
        A release that does not exist, or of which only the history is left to keep, is an error (NOT_FOUND).
        """
