"""The keys `install`, `upgrade` and `uninstall` of an entry in watches.yaml, and how nested maps are read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import yaml

from helm_operator.release import InstallOptions, Remediation, UninstallOptions, UpgradeOptions
from helm_operator.selectors import LabelSelector
from helm_operator.watches import nodes
from helm_operator.watches.nodes import Misfit

Report = Callable[[yaml.Node, str, str], None]
"""Takes a place, what is wrong there, and the key, such as `upgrade.retries`."""

Readers = Mapping[str, tuple[str, Callable[[yaml.Node], Any]]]
"""By key: the field that it sets, and what reads its value."""


def install_options(node: yaml.Node, report: Report) -> InstallOptions:
    """Return what `install` says; mistakes in it are reported, and count as left out.

    Raises:
        Misfit: `node` is no map.
    """
    return InstallOptions(**fields("install", _INSTALL, node, report))


def upgrade_options(node: yaml.Node, report: Report) -> UpgradeOptions:
    """Return what `upgrade` says; see install_options."""
    options = UpgradeOptions(**fields("upgrade", _UPGRADE, node, report))
    if options.force and options.force_conflicts:
        message = "cannot be true together with upgrade.force, which does not use server-side apply"
        report(node, message, "upgrade.forceConflicts")
    return options


def uninstall_options(node: yaml.Node, report: Report) -> UninstallOptions:
    """Return what `uninstall` says; see install_options."""
    options = UninstallOptions(**fields("uninstall", _UNINSTALL, node, report))
    if options.orphan and options.keep_history:
        message = "cannot be true together with uninstall.orphan, which leaves the whole release as it is"
        report(node, message, "uninstall.keepHistory")
    return options


def fields(key: str, readers: Readers, node: yaml.Node, report: Report) -> dict[str, Any]:
    """Return what a map under `key` says, by field; mistakes in it are reported, and count as left out.

    Raises:
        Misfit: `node` is no map.
    """
    found: dict[str, Any] = {}
    for name, entry in nodes.entries(node, lambda place, message: report(place, message, key)).items():
        path = f"{key}.{name}" if name.isprintable() else key
        if name not in readers:
            report(entry.key, f"unknown key{nodes.suggestion(name, readers)}", path)
        elif nodes.kind(entry.value) != "null":  # A key without a value is a key left out.
            field, read = readers[name]
            try:
                found[field] = read(entry.value)
            except Misfit as error:
                report(error.node, str(error), path)
    return found


def label_selector(node: yaml.Node) -> LabelSelector:
    """Return a label selector.

    Raises:
        Misfit: `node` is none.
    """
    if not isinstance(node, yaml.MappingNode):
        raise Misfit(node, f"expected a map, not {nodes.kind_in_words(node)}")
    try:
        return LabelSelector.from_mapping(nodes.plain(node))
    except Misfit:
        raise
    except ValueError as error:
        raise Misfit(node, str(error)) from error


def _retries(node: yaml.Node) -> int:
    return nodes.count(node, least=0)


def _remediation(cure: Remediation) -> Callable[[yaml.Node], Remediation]:
    """Return a reader that takes this cure, or none."""

    def read(node: yaml.Node) -> Remediation:
        text = nodes.text(node)
        if text not in (cure, Remediation.NONE):
            raise Misfit(node, f"expected {cure} or none, not {text[:80]!r}")
        return Remediation(text)

    return read


_INSTALL: Final[Readers] = {
    "retries": ("retries", _retries),
    "remediation": ("remediation", _remediation(Remediation.UNINSTALL)),
    "disableHooks": ("disable_hooks", nodes.boolean),
}
_UPGRADE: Final[Readers] = {
    "retries": ("retries", _retries),
    "remediation": ("remediation", _remediation(Remediation.ROLLBACK)),
    "cleanupOnFail": ("cleanup_on_fail", nodes.boolean),
    "force": ("force", nodes.boolean),
    "forceConflicts": ("force_conflicts", nodes.boolean),
    "disableHooks": ("disable_hooks", nodes.boolean),
}
_UNINSTALL: Final[Readers] = {
    "wait": ("wait", nodes.boolean),
    "keepHistory": ("keep_history", nodes.boolean),
    "orphan": ("orphan", nodes.boolean),
    "disableHooks": ("disable_hooks", nodes.boolean),
}
