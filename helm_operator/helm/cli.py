"""The port `Helm` by the helm executable."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from helm_operator.errors import HelmError, HelmErrorKind
from helm_operator.helm.command import HelmCommand
from helm_operator.helm.encode import EncodedValues, encode
from helm_operator.release import DesiredRelease, ReleaseKey

OLDEST: Final = (3, 17)
"""The oldest Helm that is supported."""

_VERSION: Final = re.compile(r"v?(\d+)\.(\d+)(?:[.+-].*)?")


class HelmCli:
    """Runs a helm executable against one cluster.

    `kubeconfig` is a file; without one Helm takes the Pod's service account. `home` is a directory
    for Helm's caches; it is made if it is missing. `grace` is in seconds: how long a cancelled helm
    may take to write down that it failed, before it is killed.

    `validate=True` lets Helm download and read the cluster's OpenAPI document in each run, which costs
    more than all the rest of it. Measured with Kubernetes 1.36: both Helm versions say the same of an
    unknown field or a wrong type with and without it, as it is the API server that finds them.
    `force_conflicts` lets server-side apply take fields from other field managers (Helm 4 only).
    """

    def __init__(
        self,
        executable: str = "helm",
        *,
        kubeconfig: str | None = None,
        home: Path,
        grace: float = 10.0,
        validate: bool = False,
        force_conflicts: bool = False,
    ) -> None:
        for folder in ("tmp", "cache", "config", "data"):
            (home / folder).mkdir(parents=True, exist_ok=True)
        self._executable = executable
        self._command = HelmCommand(executable, kubeconfig=kubeconfig, home=home, grace=grace)
        self._options = [] if validate else ["--disable-openapi-validation"]
        if force_conflicts:
            self._options.append("--force-conflicts")

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
        return text if text.startswith("v") else f"v{text}"

    async def install(self, desired: DesiredRelease) -> None:
        values = _encoded(desired)
        await self._command.install(
            desired.key.name,
            desired.chart_path,
            *self._install_options(desired, values),
            values=values.document,
            timeout=desired.timeout,
        )

    async def upgrade(self, desired: DesiredRelease) -> None:
        values = _encoded(desired)
        await self._command.upgrade(
            desired.key.name,
            desired.chart_path,
            *self._install_options(desired, values),
            values=values.document,
            timeout=desired.timeout,
            history_max=desired.history_max,
        )

    async def rollback(self, key: ReleaseKey, revision: int, *, timeout: float, history_max: int) -> None:
        await self._command.rollback(
            key.name, revision, namespace=key.namespace, timeout=timeout, history_max=history_max
        )

    async def uninstall(self, key: ReleaseKey, *, timeout: float) -> str:
        said = await self._command.uninstall(key.name, namespace=key.namespace, timeout=timeout)
        return remarks(said, key.name)

    def _install_options(self, desired: DesiredRelease, values: EncodedValues) -> list[str]:
        labels = ",".join(f"{name}={value}" for name, value in desired.labels.items())
        wait = ["--wait"] if desired.wait else []
        return ["--namespace", desired.key.namespace, "--labels", labels, *values.arguments, *wait, *self._options]


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
