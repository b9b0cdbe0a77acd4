"""What the annotations of one custom resource ask for, over what its watch says. Pure.

Ours start with `helm-operator.io/`; those of operator-sdk and helm-operator-plugins, with
`helm.sdk.operatorframework.io/`, mean what they mean there. None of them is an input of the
release: a change of annotations alone makes no new revision (but see RECONCILE).

A value that cannot be used never blocks anything, deletion least of all: it counts as left
out, and `Wishes.warnings` tells of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from helm_operator.durations import parse_duration
from helm_operator.release import ADOPT_ANNOTATION, DOMAIN, InstallOptions, UninstallOptions, UpgradeOptions
from helm_operator.values import digest
from helm_operator.watches import Watch
from helm_operator.watches.nodes import suggestion

PAUSE: Final = f"{DOMAIN}/pause"
"""`true`: nothing is installed, upgraded or repaired until it is taken away. A deletion is carried out all the same."""

RECONCILE: Final = f"{DOMAIN}/reconcile"
"""Any text, such as the time: one new revision for each new text, even if the inputs are the same."""

RESET: Final = f"{DOMAIN}/reset"
"""Any text: for each new one, past failures are forgotten, and what failed is tried again at once."""

LET_GO: Final = f"{DOMAIN}/let-go"
"""`true`: when the custom resource is deleted, nothing is uninstalled (any more) and nothing is waited for."""

SDK_DOMAIN: Final = "helm.sdk.operatorframework.io"
"""Prefix of the annotations of operator-sdk and helm-operator-plugins."""

SHORTEST_PERIOD: Final = 1.0
"""Seconds; a shorter period would keep the operator busy with one custom resource."""
MAX_DESCRIPTION: Final = 256
"""Characters of a description: Helm 4's own limit where it has one (rollback)."""
MAX_TOKEN: Final = 80
"""Characters of a token; of a longer one, the digest is taken, for tokens are kept in the status."""

_PREFIXES: Final = (f"{DOMAIN}/", f"{SDK_DOMAIN}/")
_SHOWN: Final = 40
_OURS: Final = frozenset({PAUSE, RECONCILE, RESET, LET_GO, ADOPT_ANNOTATION})
_BOOLEANS: Final = {
    **dict.fromkeys(("1", "t", "T", "TRUE", "true", "True"), True),
    **dict.fromkeys(("0", "f", "F", "FALSE", "false", "False"), False),
}
"""What Go's strconv.ParseBool takes."""


@dataclass(frozen=True, slots=True)
class Wishes:
    """How one custom resource wants to be treated."""

    install: InstallOptions
    upgrade: UpgradeOptions
    uninstall: UninstallOptions
    reconcile_period: float | None = None
    """Seconds between full checks; None: what the operator's flag says; infinite: none at all."""
    paused: bool = False
    force_token: str | None = None
    """One that was not acted on yet asks for a new revision."""
    reset_token: str | None = None
    """One that was not acted on yet asks to forget past failures."""
    let_go: bool = False
    """By its annotation or by the watch's `uninstall.orphan`: on deletion, only our finalizer goes."""
    warnings: tuple[str, ...] = ()
    """What is wrong with the annotations, a sentence each without a full stop."""


def wishes(annotations: Mapping[str, str], watch: Watch) -> Wishes:
    """Return what a custom resource with these annotations asks for; never fails."""
    found = {name: value for name, value in annotations.items() if name.startswith(_PREFIXES)}
    if not found:
        return Wishes(
            watch.install, watch.upgrade, watch.uninstall, watch.reconcile_period, let_go=watch.uninstall.orphan
        )
    reader = _Reader(found)
    install = replace(watch.install, **reader.fields(_INSTALL))
    upgrade = replace(watch.upgrade, **reader.fields(_UPGRADE))
    uninstall = replace(watch.uninstall, **reader.fields(_UNINSTALL))
    return Wishes(
        install=install,
        upgrade=upgrade,
        uninstall=uninstall,
        reconcile_period=reader.read(_PERIOD, _period, default=watch.reconcile_period),
        paused=reader.read(PAUSE, _boolean, default=False),
        force_token=reader.read(RECONCILE, _token),
        reset_token=reader.read(RESET, _token),
        let_go=reader.read(LET_GO, _boolean, default=False) or uninstall.orphan,
        warnings=(*reader.warnings, *_unknown(found)),
    )


class _Reader:
    """Reads single annotations, and collects what is wrong with them."""

    def __init__(self, annotations: Mapping[str, str]) -> None:
        self._annotations = annotations
        self.warnings: list[str] = []

    def read(self, name: str, parse: Callable[[str], Any], *, default: Any = None) -> Any:
        if name not in self._annotations:
            return default
        value = self._annotations[name]
        try:
            return parse(value)
        except ValueError as error:
            self.warnings.append(f"annotation {name}: {error}; it counts as left out")
            return default

    def fields(self, readers: _Readers) -> dict[str, Any]:
        """Return the fields that annotations set rightly."""
        fields = {field: self.read(name, parse) for name, (field, parse) in readers.items()}
        return {field: value for field, value in fields.items() if value is not None}


def _boolean(text: str) -> bool:
    if text not in _BOOLEANS:
        raise ValueError(f"{_shown(text)} is neither true nor false")
    return _BOOLEANS[text]


def _period(text: str) -> float:
    try:
        seconds = parse_duration(text)
    except ValueError:
        raise ValueError(f"{_shown(text)} is not a duration, such as 90s or 1h30m") from None
    if seconds == 0:
        return math.inf  # As in operator-sdk: no periodic check.
    if seconds < SHORTEST_PERIOD:
        raise ValueError(f"{_shown(text)} is less than one second (0s stands for never)")
    return seconds


def _token(text: str) -> str | None:
    return (text if len(text) <= MAX_TOKEN else digest(text)) or None


def _description(text: str) -> str:
    """Return one line that fits into helm's command line, whatever somebody wrote."""
    line = "".join(char if char.isprintable() else " " for char in text)
    return line if len(line) <= MAX_DESCRIPTION else line[: MAX_DESCRIPTION - 1] + "…"


def _shown(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else text[:_SHOWN] + "…")


def _unknown(annotations: Mapping[str, str]) -> list[str]:
    known = [*_OURS, *_INSTALL, *_UPGRADE, *_UNINSTALL, _PERIOD]
    return [
        f"annotation {name} is unknown and does nothing{suggestion(name, known)}"
        for name in sorted(annotations.keys() - set(known))
    ]


_Readers = Mapping[str, tuple[str, Callable[[str], Any]]]
"""By annotation: the field that it sets, and what reads its value."""

_PERIOD: Final = f"{SDK_DOMAIN}/reconcile-period"
_INSTALL: Final[_Readers] = {
    f"{SDK_DOMAIN}/install-disable-hooks": ("disable_hooks", _boolean),
    f"{SDK_DOMAIN}/install-description": ("description", _description),
}
_UPGRADE: Final[_Readers] = {
    f"{SDK_DOMAIN}/upgrade-force": ("force", _boolean),
    f"{SDK_DOMAIN}/rollback-force": ("rollback_force", _boolean),
    f"{SDK_DOMAIN}/upgrade-disable-hooks": ("disable_hooks", _boolean),
    f"{SDK_DOMAIN}/upgrade-description": ("description", _description),
}
_UNINSTALL: Final[_Readers] = {
    f"{SDK_DOMAIN}/uninstall-wait": ("wait", _boolean),
    f"{SDK_DOMAIN}/uninstall-disable-hooks": ("disable_hooks", _boolean),
    f"{SDK_DOMAIN}/uninstall-description": ("description", _description),
}
