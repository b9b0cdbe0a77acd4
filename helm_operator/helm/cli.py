"""The port `Helm` by the helm executable."""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Final

from helm_operator.errors import HelmError, HelmErrorKind
from helm_operator.helm.command import HelmCommand
from helm_operator.helm.encode import EncodedValues, encode
from helm_operator.helm.sizes import ROOM, WORTH_A_LOOK, record_size, stored, too_large
from helm_operator.release import DesiredRelease, ReleaseKey, UpgradeOptions

OLDEST: Final = (3, 17)
"""The oldest Helm that is supported."""

_VERSION: Final = re.compile(r"v?(\d+)\.(\d+)(?:[.+-].*)?")


class HelmCli:
    """Runs a helm executable against one cluster.

    `kubeconfig` is a file; without one Helm takes the Pod's service account. `home` is a directory
    for Helm's caches; it is made if it is missing. `grace` is in seconds: how long a cancelled helm
    may take to write down that it failed, before it is killed. While `may_act` says no, helm is not
    started; `time_left` gives the seconds after which another process may act, so that helm must be dead:
    it shortens the grace.

    `validate=True` lets Helm download and read the cluster's OpenAPI document in each run, which costs
    more than all the rest of it. Measured with Kubernetes 1.36: both Helm versions say the same of an
    unknown field or a wrong type with and without it, as it is the API server that finds them.
    """

    def __init__(
        self,
        executable: str = "helm",
        *,
        kubeconfig: str | None = None,
        home: Path,
        grace: float = 10.0,
        may_act: Callable[[], bool] = lambda: True,
        time_left: Callable[[], float] = lambda: math.inf,
        validate: bool = False,
    ) -> None:
        for folder in ("tmp", "cache", "config", "data"):
            (home / folder).mkdir(parents=True, exist_ok=True)
        self._executable = executable
        self._command = HelmCommand(
            executable, kubeconfig=kubeconfig, home=home, grace=grace, may_act=may_act, time_left=time_left
        )
        self._options = [] if validate else ["--disable-openapi-validation"]
        self._version: str | None = None

    @property
    def field_manager(self) -> str:
        """The executable's base name: both Helm 3 and 4 write objects under it."""
        return Path(self._executable).name

    async def version(self) -> str:
        """Return Helm's version, such as `v4.3.1`.

        Raises:
            HelmError: helm cannot be run (CRASHED), or is older than v3.17 or newer than v4 (OTHER).
        """
        text = (await self._command.version()).strip()
        found = _VERSION.fullmatch(text)
        if not found or not OLDEST <= (int(found[1]), int(found[2])) < (5, 0):
            message = f"{self._executable} is Helm {text or 'of unknown version'}; v3.17 or newer, or v4, is needed"
            raise HelmError(message, kind=HelmErrorKind.OTHER)
        self._version = text if text.startswith("v") else f"v{text}"
        return self._version

    async def check(self, options: UpgradeOptions) -> None:
        await self._force(force=options.force, conflicts=bool(options.force_conflicts))

    async def install(self, desired: DesiredRelease) -> None:
        values, options = _encoded(desired), desired.install
        await self._check_size("install", desired, values)
        force = await self._force(conflicts=bool(desired.upgrade.force_conflicts and not desired.upgrade.force))
        await self._command.install(
            desired.key.name,
            desired.chart_path,
            *self._common(desired, values),
            *_plain(disable_hooks=options.disable_hooks, description=options.description),
            *force,
            values=values.document,
            timeout=desired.timeout,
        )

    async def upgrade(self, desired: DesiredRelease) -> None:
        values, options = _encoded(desired), desired.upgrade
        await self._check_size("upgrade", desired, values)
        force = await self._force(force=options.force, conflicts=bool(options.force_conflicts))
        await self._command.upgrade(
            desired.key.name,
            desired.chart_path,
            *self._common(desired, values),
            *_plain(disable_hooks=options.disable_hooks, description=options.description),
            *(["--cleanup-on-fail"] if options.cleanup_on_fail else []),
            *force,
            values=values.document,
            timeout=desired.timeout,
            history_max=desired.history_max,
        )

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
        options = [*_plain(disable_hooks=disable_hooks), *await self._force(force=force, conflicts=force_conflicts)]
        await self._command.rollback(
            key.name, revision, *options, namespace=key.namespace, timeout=timeout, history_max=history_max
        )

    async def uninstall(
        self,
        key: ReleaseKey,
        *,
        timeout: float,
        keep_history: bool = False,
        disable_hooks: bool = False,
        description: str = "",
    ) -> str:
        options = _plain(disable_hooks=disable_hooks, description=description)
        options += ["--keep-history"] if keep_history else []
        said = await self._command.uninstall(key.name, *options, namespace=key.namespace, timeout=timeout)
        return remarks(said, key.name)

    def _common(self, desired: DesiredRelease, values: EncodedValues) -> list[str]:
        labels = ",".join(f"{name}={value}" for name, value in desired.labels.items())
        wait = ["--wait"] if desired.wait else []
        return ["--namespace", desired.key.namespace, "--labels", labels, *values.arguments, *wait, *self._options]

    async def _check_size(self, verb: str, desired: DesiredRelease, values: EncodedValues) -> None:
        """Refuse a release that does not fit into its record. A small one costs nothing, a large one a dry run.

        Raises:
            HelmError: TOO_LARGE.
        """
        size, given = stored(desired.bulk.packed), len(values.document)
        if size <= ROOM:
            if size + given < WORTH_A_LOOK:
                return
            try:
                release = await self._command.render(
                    verb,
                    desired.key.name,
                    desired.chart_path,
                    *self._common(desired, values),
                    values=values.document,
                    timeout=desired.timeout,
                )
            except HelmError:
                return  # The action itself says it better.
            size = await asyncio.to_thread(record_size, release)
        if size > ROOM:
            raise too_large(size, desired.bulk, given)

    async def _force(self, *, force: bool = False, conflicts: bool = False) -> list[str]:
        """Return the flags that this version of Helm has for it. Raises as `check`."""
        if not force and not conflicts:
            return []  # Most calls need not know the version.
        helm3 = (self._version or await self.version()).startswith("v3.")
        if force:
            # Helm 4 refuses to replace objects together with server-side apply.
            return ["--force"] if helm3 else ["--force-replace", "--server-side=false"]
        if helm3:
            message = f"forceConflicts needs Helm 4, and {self._executable} is {self._version}"
            raise HelmError(message, kind=HelmErrorKind.OTHER)
        # Left to itself, Helm 4 goes on with client-side patches where Helm 3 or a replacement was there before,
        # and refuses these together with --force-conflicts.
        return ["--force-conflicts", "--server-side=true"]


def _plain(*, disable_hooks: bool, description: str = "") -> list[str]:
    """Return the flags that all of Helm's actions have."""
    hooks = ["--no-hooks"] if disable_hooks else []
    return [*hooks, f"--description={description}"] if description else hooks


def remarks(said: str, release: str) -> str:
    """Return what is worth telling of helm uninstall's output: all but that it did what it was told."""
    noise = f'release "{release}" uninstalled'
    lines = [line.rstrip() for line in said.splitlines()]
    return "\n".join(line for line in lines if line and line != noise and not line.startswith("WARNING: Kubernetes"))


def _encoded(desired: DesiredRelease) -> EncodedValues:
    try:
        return encode(desired.values)
    except ValueError as error:
        raise HelmError(str(error), kind=HelmErrorKind.VALUES) from error
