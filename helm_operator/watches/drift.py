"""The key `drift` of an entry in watches.yaml."""

from __future__ import annotations

import re
from typing import Final

import yaml

from helm_operator.drift_policy import DriftMode, DriftPolicy, IgnoreRule, Pointer, Target, parse_pointer
from helm_operator.watches import nodes
from helm_operator.watches.nodes import Misfit
from helm_operator.watches.options import Report, fields, label_selector


def drift_policy(node: yaml.Node, report: Report) -> DriftPolicy:
    """Return what `drift` says; mistakes in it are reported, and count as left out.

    Raises:
        Misfit: `node` is no map.
    """
    readers = {"mode": ("mode", _mode), "ignore": ("ignore", lambda value: _ignore(value, report))}
    return DriftPolicy(**fields("drift", readers, node, report))


def _mode(node: yaml.Node) -> DriftMode:
    # YAML 1.1 takes a plain `off` for a boolean.
    text = node.value if nodes.kind(node) == "bool" and node.value == "off" else nodes.text(node)
    if text not in list(DriftMode):
        raise Misfit(
            node, f"expected {', '.join(DriftMode)}, not {text[:80]!r}{nodes.suggestion(text, list(DriftMode))}"
        )
    return DriftMode(text)


def _ignore(node: yaml.Node, report: Report) -> tuple[IgnoreRule, ...]:
    rules = []
    for number, item in enumerate(_items(node)):
        key = f"drift.ignore[{number}]"
        readers = {
            "paths": ("paths", lambda value, key=key: _paths(value, f"{key}.paths", report)),
            "target": ("target", lambda value, key=key: _target(value, f"{key}.target", report)),
        }
        try:
            found = fields(key, readers, item, report)
        except Misfit as error:
            report(error.node, str(error), key)
            continue
        if "paths" in found:
            rules.append(IgnoreRule(**found))
        elif not _has(item, "paths"):
            report(item, "is missing", f"{key}.paths")
    return tuple(rules)


def _has(node: yaml.Node, name: str) -> bool:
    entry = nodes.entries(node, lambda *_: None).get(name)
    return entry is not None and nodes.kind(entry.value) != "null"


def _paths(node: yaml.Node, key: str, report: Report) -> tuple[Pointer, ...]:
    items = _items(node)
    if not items:
        raise Misfit(node, "expected at least one JSON pointer, such as /spec/replicas")
    found = []
    for number, item in enumerate(items):
        try:
            found.append(_pointer(item))
        except Misfit as error:
            report(error.node, str(error), f"{key}[{number}]")
    return tuple(found)


def _pointer(node: yaml.Node) -> Pointer:
    try:
        return parse_pointer(nodes.text(node))
    except Misfit:
        raise
    except ValueError as error:
        raise Misfit(node, str(error)) from error


def _target(node: yaml.Node, key: str, report: Report) -> Target:
    return Target(**fields(key, _TARGET, node, report))


def _pattern(node: yaml.Node) -> re.Pattern[str]:
    text = nodes.text(node)
    try:
        return re.compile(text)
    except (re.error, RecursionError, OverflowError) as error:
        raise Misfit(node, f"{text[:80]!r} is no regular expression: {error}") from error


def _items(node: yaml.Node) -> list[yaml.Node]:
    if not isinstance(node, yaml.SequenceNode):
        raise Misfit(node, f"expected a list, not {nodes.kind_in_words(node)}")
    return list(node.value)


_TARGET: Final = {
    **{name: (name, _pattern) for name in ("group", "version", "kind", "name", "namespace")},
    "labelSelector": ("labels", label_selector),
}
