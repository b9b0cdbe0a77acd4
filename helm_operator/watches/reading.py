"""From the nodes of watches.yaml to Watches, or to every problem in it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from helm_operator.charts import Chart, load_chart
from helm_operator.durations import parse_duration
from helm_operator.errors import ChartProblem, ConfigError, Problem
from helm_operator.overrides import Override, conflict, expand, fits_int64, typed
from helm_operator.values import parse_path
from helm_operator.watches import nodes
from helm_operator.watches.drift import drift_policy
from helm_operator.watches.model import Watch, Watches
from helm_operator.watches.nodes import Misfit
from helm_operator.watches.options import install_options, label_selector, uninstall_options, upgrade_options

_KIND: Final = re.compile(r"[A-Z][A-Za-z0-9]{0,62}")
_VERSION: Final = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
_GROUP: Final = re.compile(r"([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*)?")
_MAX_GROUP: Final = 253
_REMOTE: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")

_REQUIRED: Final = ("group", "version", "kind", "chart")
_NOT_BUILT: Final = (
    "values",
    "valuesFrom",
    "releaseName",
    "targetNamespace",
    "crds",
    "serviceAccountName",
    "labels",
    "annotations",
)


def load_watches(path: Path, environ: Mapping[str, str]) -> Watches:
    """Read and check watches.yaml and the charts that it names.

    A relative chart path is relative to the file's folder or, as in operator-sdk, to the
    working directory if only that has it. `environ` is what `overrideValues` may name.

    Raises:
        ConfigError: with all problems that were found, in the order of their lines.
    """
    root = nodes.read(path)
    if root is None:
        raise ConfigError([Problem(str(path), None, "", "is empty: expected a list of entries")])
    if not isinstance(root, yaml.SequenceNode) or not root.value:
        found = "an empty one" if isinstance(root, yaml.SequenceNode) else nodes.kind_in_words(root)
        raise ConfigError([Problem(str(path), nodes.line_of(root), "", f"expected a list of entries, not {found}")])
    return _File(path, environ).read(root.value)


class _File:
    """What is known while one watches.yaml is read."""

    def __init__(self, path: Path, environ: Mapping[str, str]) -> None:
        self.path = path
        self.environ = environ
        self.problems: list[Problem] = []
        self.warnings: list[Problem] = []
        self.kinds: dict[tuple[str, str, str], int] = {}
        self._charts: dict[str, Chart | ChartProblem] = {}

    def read(self, items: list[yaml.Node]) -> Watches:
        watches = [_Entry(self, number, item).read() for number, item in enumerate(items, start=1)]
        if self.problems:
            raise ConfigError(sorted(self.problems, key=lambda problem: problem.line or 0))
        warnings = sorted(self.warnings, key=lambda problem: problem.line or 0)
        return Watches(tuple(watch for watch in watches if watch), tuple(map(str, warnings)), self.path)

    def chart(self, text: str) -> Chart:
        """Return the chart at a path, read once however many entries name it.

        Raises:
            ChartProblem: see load_chart.
        """
        if text not in self._charts:
            beside = self.path.absolute().parent / text
            try:
                place = Path(text) if not beside.exists() and Path(text).exists() else beside
                self._charts[text] = load_chart(place)
            except OSError as error:
                self._charts[text] = ChartProblem(f"chart {beside}: {error.strerror or error}")
            except ChartProblem as error:
                self._charts[text] = error
        chart = self._charts[text]
        if isinstance(chart, ChartProblem):
            raise chart
        return chart


class _Entry:
    """One entry while it is read."""

    def __init__(self, file: _File, number: int, node: yaml.Node) -> None:
        self._file = file
        self._node = node
        self._where = f"entry {number}"
        self._keys: dict[str, nodes.Entry] = {}
        # Key, field of Watch, reader.
        self._table: dict[str, tuple[str, Callable[[yaml.Node], Any]]] = {
            "group": ("group", _group),
            "version": ("version", _version),
            "kind": ("kind", _kind),
            "chart": ("chart", self._chart),
            "watchDependentResources": ("watch_dependent_resources", nodes.boolean),
            "overrideValues": ("overrides", self._overrides),
            "selector": ("selector", label_selector),
            "reconcilePeriod": ("reconcile_period", _duration),
            "maxConcurrentReconciles": ("max_concurrent_reconciles", nodes.count),
            "dryRunOption": ("dry_run_option", _dry_run_option),
            "timeout": ("timeout", _duration),
            "wait": ("wait", nodes.boolean),
            "historyMax": ("history_max", nodes.count),
            "install": ("install", lambda node: install_options(node, self._report)),
            "upgrade": ("upgrade", lambda node: upgrade_options(node, self._report)),
            "uninstall": ("uninstall", lambda node: uninstall_options(node, self._report)),
            "drift": ("drift", lambda node: drift_policy(node, self._report)),
        }

    def read(self) -> Watch | None:
        """Return the watch; None if something is wrong, which the file has heard of then."""
        before = len(self._file.problems)
        misplaced: list[tuple[yaml.Node, str]] = []
        try:
            self._keys = nodes.entries(self._node, lambda node, message: misplaced.append((node, message)))
        except Misfit as error:
            self._report(error.node, str(error))
            return None
        self._where += self._title()
        for node, message in misplaced:
            self._report(node, message)
        self._check_keys()
        fields: dict[str, Any] = {}
        for key, (field, reader) in self._table.items():
            # As in operator-sdk, a key without a value is a key left out.
            if key in self._keys and nodes.kind(self._keys[key].value) != "null":
                try:
                    fields[field] = reader(self._keys[key].value)
                except Misfit as error:
                    self._report(error.node, str(error), key)
        self._check_kind(fields)
        return Watch(**fields) if len(self._file.problems) == before else None

    def _report(self, node: yaml.Node, message: str, key: str = "") -> None:
        self._file.problems.append(self._problem(node, message, key))

    def _problem(self, node: yaml.Node, message: str, key: str = "") -> Problem:
        where = f"{self._where}, key {key}" if key else self._where
        return Problem(str(self._file.path), nodes.line_of(node), where, message)

    def _title(self) -> str:
        parts = [self._keys[key].value.value if key in self._keys else "" for key in ("group", "version", "kind")]
        if not all(isinstance(part, str) and part.isprintable() for part in parts) or not any(parts):
            return ""
        group, version, kind = parts
        api_version = "/".join(part for part in (group, version) if part)
        return f" ({' '.join(part for part in (api_version, kind) if part)})"

    def _check_keys(self) -> None:
        for key, entry in self._keys.items():
            if key in _NOT_BUILT:
                self._report(entry.key, "is not built yet", key)
            elif key not in self._table:
                self._report(entry.key, f"unknown key{nodes.suggestion(key, (*self._table, *_NOT_BUILT))}", key)
        for key in _REQUIRED:
            if key not in self._keys or nodes.kind(self._keys[key].value) == "null":
                place = self._keys[key].key if key in self._keys else self._node
                hint = ' (the core group is group: "")' if key == "group" else ""
                self._report(place, f"is missing{hint}", key)

    def _check_kind(self, fields: Mapping[str, Any]) -> None:
        if not {"group", "version", "kind"} <= fields.keys():
            return
        group, version, kind = found = (fields["group"], fields["version"], fields["kind"])
        kinds = self._file.kinds
        if found in kinds:
            self._report(self._node, f"the same group, version and kind as the entry in line {kinds[found]}")
            return
        kinds[found] = nodes.line_of(self._node)
        for (other_group, other_version, other_kind), line in kinds.items():
            if (other_group, other_kind) == (group, kind) and other_version != version:
                self._warn(self._node, f"the API server shows each {kind} in {other_version} (line {line}) as well")

    def _warn(self, node: yaml.Node, message: str, key: str = "") -> None:
        self._file.warnings.append(self._problem(node, message, key))

    def _chart(self, node: yaml.Node) -> Chart:
        if isinstance(node, yaml.MappingNode):
            raise Misfit(node, "charts from a repository (a map) are not built yet")
        text = nodes.text(node)
        if _REMOTE.match(text):
            raise Misfit(node, "remote charts are not built yet; give the path of a directory or .tgz")
        if not text or not text.isprintable():
            raise Misfit(node, "expected the path of a directory or .tgz")
        try:
            return self._file.chart(text)
        except ChartProblem as error:
            raise Misfit(node, str(error)) from error

    def _overrides(self, node: yaml.Node) -> tuple[Override, ...]:
        def report(place: yaml.Node, message: str) -> None:
            self._report(place, message, "overrideValues")

        found: list[tuple[Override, str, yaml.Node]] = []
        for name, entry in nodes.entries(node, report).items():
            key = f"overrideValues, path {name}" if name.isprintable() else "overrideValues"
            try:
                value, expanded = self._override_value(entry.value, key)
                override = Override(_path(name, entry.key), value, from_environment=expanded)
            except Misfit as error:
                self._report(error.node, str(error), key)
                continue
            for other, other_name, other_key in found:
                if conflict(override.path, other.path):
                    line = nodes.line_of(other_key)
                    self._report(entry.key, f"cannot be set together with path {other_name} (line {line})", key)
            found.append((override, name, entry.key))
        return tuple(override for override, _, _ in found)

    def _override_value(self, node: yaml.Node, key: str) -> tuple[Any, bool]:
        """Return the value, and whether the environment had a part in it."""
        value = nodes.scalar(node)
        if isinstance(value, int) and not fits_int64(value):
            raise Misfit(node, f"{node.value[:40]} does not fit into 64 bits; put it in quotes")
        if not isinstance(value, str):
            return value, False
        if "{{" in value:
            raise Misfit(node, "templates in overrideValues are not built yet")
        try:
            expanded, missing = expand(value, self._file.environ)
        except ValueError as error:
            raise Misfit(node, str(error)) from error
        for name in missing:
            self._warn(node, f"the environment variable {name} is not set and counts as empty", key)
        # Quotes say that it is text; without them it is read as `helm --set` would.
        quoted = isinstance(node, yaml.ScalarNode) and node.style in ("'", '"')
        return expanded if quoted else typed(expanded), expanded != value


def _path(name: str, node: yaml.Node) -> tuple[str | int, ...]:
    try:
        return parse_path(name)
    except ValueError as error:
        raise Misfit(node, str(error)) from error


def _group(node: yaml.Node) -> str:
    text = nodes.text(node)
    if len(text) > _MAX_GROUP or not _GROUP.fullmatch(text):
        raise Misfit(node, f"{text[:80]!r} is not an API group: expected a DNS name in lower case, or empty for core")
    return text


def _version(node: yaml.Node) -> str:
    text = nodes.text(node)
    if not _VERSION.fullmatch(text):
        raise Misfit(node, f"{text[:80]!r} is not an API version: expected one such as v1 or v1alpha1")
    return text


def _kind(node: yaml.Node) -> str:
    text = nodes.text(node)
    if not _KIND.fullmatch(text):
        hint = f"; did you mean {text[:1].upper()}{text[1:]}?" if _KIND.fullmatch(text[:1].upper() + text[1:]) else ""
        raise Misfit(node, f"{text[:80]!r} is not a kind: expected CamelCase, letters and digits{hint}")
    return text


def _duration(node: yaml.Node) -> float:
    if nodes.kind(node) in ("int", "float"):
        raise Misfit(node, f"expected a duration with a unit, such as {node.value}s")
    try:
        seconds = parse_duration(nodes.text(node))
    except Misfit:
        raise
    except ValueError as error:
        raise Misfit(node, str(error)) from error
    if seconds <= 0:
        raise Misfit(node, f"the duration {node.value} is not more than 0")
    return seconds


def _dry_run_option(node: yaml.Node) -> str:
    text = nodes.text(node)
    if text not in ("client", "server"):
        raise Misfit(node, f"expected client or server, not {text[:80]!r}")
    return text
