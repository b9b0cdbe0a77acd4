"""What watches.yaml says, checked and ready for use."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from helm_operator.charts import Chart
from helm_operator.drift_policy import DriftPolicy
from helm_operator.overrides import Override
from helm_operator.release import InstallOptions, UninstallOptions, UpgradeOptions
from helm_operator.selectors import LabelSelector

EVERYTHING: Final = LabelSelector()


@dataclass(frozen=True, slots=True)
class Watch:
    """One entry: the custom resources of this kind are releases of this chart."""

    group: str
    """Empty for the core group."""
    version: str
    kind: str
    chart: Chart
    watch_dependent_resources: bool = True
    overrides: tuple[Override, ...] = ()
    selector: LabelSelector = EVERYTHING
    reconcile_period: float | None = None
    """Seconds between full checks; None: what the operator's flag says."""
    max_concurrent_reconciles: int | None = None
    """Helm actions at once for this kind; None: what the operator's flag says."""
    dry_run_option: str | None = None
    """client or server; accepted for compatibility."""
    timeout: float = 300.0
    """Seconds that Helm waits for any single operation."""
    wait: bool = False
    history_max: int = 10
    """Revisions that Helm keeps."""
    install: InstallOptions = field(default_factory=InstallOptions)
    upgrade: UpgradeOptions = field(default_factory=UpgradeOptions)
    uninstall: UninstallOptions = field(default_factory=UninstallOptions)
    drift: DriftPolicy = field(default_factory=DriftPolicy)

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    def __str__(self) -> str:
        return f"{self.api_version} {self.kind}"


@dataclass(frozen=True, slots=True)
class Watches:
    """A watches.yaml without mistakes."""

    entries: tuple[Watch, ...]
    warnings: tuple[str, ...]
    """What may be a mistake, one line each, with its place."""
    path: Path
