"""What the command line and the environment decide."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_ACCOUNT_NAMESPACE: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


@dataclass(frozen=True, slots=True)
class LeaseName:
    """The Lease that the replicas of one operator share."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of one operator process; all times are in seconds."""

    watches_file: Path = Path("watches.yaml")
    namespaces: tuple[str, ...] = ()
    """The namespaces that are served; empty means all."""
    reconcile_period: float = 60.0
    """Between two re-checks of a custom resource, where neither annotation nor watch says it."""
    max_concurrent_reconciles: int = os.cpu_count() or 1
    """Helm actions at once for one kind, where its watch does not say it."""
    retry_base: float = 5.0
    """Pause after the first failure of a Helm action; it doubles with each further one."""
    retry_ceiling: float = 600.0
    probe_address: str = ":8081"
    """Host and port of /healthz and /readyz; `0` turns them off."""
    helm: str = "helm"
    kubeconfig: str | None = None
    shutdown_grace: float = 20.0
    """How long running actions may take to end after SIGTERM."""
    lease: LeaseName | None = None
    """What is held by the replica that acts; None: this one acts without asking."""


def namespaces_from(text: str | None) -> tuple[str, ...]:
    """Read WATCH_NAMESPACE: names parted by commas; nothing means all namespaces."""
    return tuple(dict.fromkeys(name for part in (text or "").split(",") if (name := part.strip())))


def own_namespace(file: Path = _ACCOUNT_NAMESPACE) -> str:
    """Return the namespace of the Pod that we run in; empty outside of one."""
    try:
        return file.read_text().strip()
    except OSError:
        return ""
