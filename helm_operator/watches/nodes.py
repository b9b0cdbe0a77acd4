"""YAML read as nodes, so that each mistake can be told with its line."""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from helm_operator.errors import ConfigError, Problem
from helm_operator.nesting import deeper_than

_MERGE: Final = "tag:yaml.org,2002:merge"
_MAX_DEPTH: Final = 50
_KINDS: Final = {
    "str": "a string",
    "bool": "a boolean",
    "int": "a number",
    "float": "a number",
    "null": "null",
    "timestamp": "a date",
    "seq": "a list",
    "map": "a map",
}


class Misfit(ValueError):
    """A node is not what it should be; `node` is the place."""

    def __init__(self, node: yaml.Node, message: str) -> None:
        super().__init__(message)
        self.node = node


@dataclass(frozen=True, slots=True)
class Entry:
    """A key and its value in a YAML map."""

    key: yaml.Node
    value: yaml.Node


def read(path: Path) -> yaml.Node | None:
    """Return the one document of a YAML file, None where there is none.

    Raises:
        ConfigError: it cannot be read, is not UTF-8, not YAML, or has more than one document.
    """

    def refuse(line: int | None, message: str) -> ConfigError:
        return ConfigError([Problem(str(path), line, "", message)])

    data = b""
    try:
        data = path.read_bytes()
        text = data.decode()
        if deeper_than(_MAX_DEPTH, text):
            raise refuse(None, "is not valid YAML: nested too deeply")
        documents = [node for node in yaml.compose_all(text, Loader=yaml.SafeLoader) if kind(node) != "null"]
    except OSError as error:
        raise refuse(None, f"cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise refuse(data.count(b"\n", 0, error.start) + 1, "is not UTF-8 text") from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        reason = error.problem or error.context or "broken"
        raise refuse(mark.line + 1 if mark else None, f"is not valid YAML: {reason}") from error
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise refuse(line, "is not valid YAML: it contains a control character") from error
    if len(documents) > 1:
        raise refuse(line_of(documents[1]), "a second YAML document (---); all entries belong into one list")
    return documents[0] if documents else None


def line_of(node: yaml.Node) -> int:
    """Return the line that a node starts in, counted from 1."""
    return int(node.start_mark.line) + 1


def kind(node: yaml.Node) -> str:
    """Return the YAML type of a node in short: str, bool, int, float, null, seq, map, … or an unknown tag."""
    return str(node.tag).removeprefix("tag:yaml.org,2002:")


def kind_in_words(node: yaml.Node) -> str:
    """Return what a node is, for people."""
    return _KINDS.get(kind(node), f"of the unknown type {node.tag}")


def entries(
    node: yaml.Node,
    report: Callable[[yaml.Node, str], None],
    *,
    above: frozenset[int] = frozenset(),
    known: dict[int, dict[str, Entry]] | None = None,
) -> dict[str, Entry]:
    """Return a YAML map with its merge keys (`<<`) resolved; own keys win over merged ones.

    Keys that are no text and keys that stand twice are reported and left out. `above` and
    `known` are for the function itself: the maps that are being merged into, and those that were merged.

    Raises:
        Misfit: `node`, or what is merged into it, is not a map, or is merged into itself.
    """
    if not isinstance(node, yaml.MappingNode):
        raise Misfit(node, f"expected a map, not {kind_in_words(node)}")
    if id(node) in above:
        raise Misfit(node, "a merge key (<<) that leads to itself")
    own: dict[str, Entry] = {}
    merged: list[yaml.Node] = []
    for key, value in node.value:
        if key.tag == _MERGE:
            merged += value.value if isinstance(value, yaml.SequenceNode) else [value]
        elif not isinstance(key, yaml.ScalarNode) or kind(key) not in ("str", "int"):
            report(key, f"a key must be text, not {kind_in_words(key)}; put it in quotes")
        elif key.value in own:
            report(key, f"key {key.value} stands twice, first in line {line_of(own[key.value].key)}")
        else:
            own[key.value] = Entry(key, value)
    known = {} if known is None else known
    for source in merged:
        # Each is read once, or a few lines could take for ever.
        if id(source) not in known:
            # What is wrong in there is told for the place where it stands.
            known[id(source)] = entries(source, lambda *_: None, above=above | {id(node)}, known=known)
        for name, entry in known[id(source)].items():
            own.setdefault(name, entry)
    return own


def text(node: yaml.Node) -> str:
    """Return a string.

    Raises:
        Misfit: `node` is something else.
    """
    if kind(node) == "str" and isinstance(node, yaml.ScalarNode):
        return str(node.value)
    quotes = "; put it in quotes" if isinstance(node, yaml.ScalarNode) and kind(node) != "null" else ""
    raise Misfit(node, f"expected a string, not {kind_in_words(node)}{quotes}")


def boolean(node: yaml.Node) -> bool:
    """Return a boolean.

    Raises:
        Misfit: `node` is something else.
    """
    if kind(node) != "bool":
        raise Misfit(node, f"expected true or false, not {kind_in_words(node)}")
    return bool(scalar(node))


def count(node: yaml.Node, least: int = 1) -> int:
    """Return an integer from `least` up.

    Raises:
        Misfit: `node` is something else.
    """
    value = scalar(node) if kind(node) == "int" else None
    if not isinstance(value, int) or value < least:
        found = f"{node.value}" if kind(node) in ("int", "float") else kind_in_words(node)
        raise Misfit(node, f"expected a whole number from {least} up, not {found}")
    return value


def scalar(node: yaml.Node) -> str | bool | int | float | None:
    """Return a scalar as JSON knows it. Dates, and numbers to the base of 60, stay text, as in Go.

    Raises:
        Misfit: `node` is a map, a list, of an unknown type, or a number that is not JSON.
    """
    if not isinstance(node, yaml.ScalarNode):
        raise Misfit(node, f"expected a string, number, boolean or null, not {kind_in_words(node)}")
    what = kind(node)
    if what in ("str", "timestamp") or (what in ("int", "float") and ":" in node.value):
        return str(node.value)
    if what not in ("bool", "int", "float", "null"):
        raise Misfit(node, f"expected a string, number, boolean or null, not {kind_in_words(node)}")
    try:
        value: bool | int | float | None = yaml.constructor.SafeConstructor().construct_object(node)
    except (ValueError, KeyError, yaml.YAMLError) as error:
        raise Misfit(node, f"{node.value[:40]!r} is not {kind_in_words(node)}") from error
    if isinstance(value, float) and not math.isfinite(value):
        raise Misfit(node, f"{node.value} is not a number that a chart can get")
    return value


def plain(node: yaml.Node) -> Any:
    """Return a node as JSON: maps, lists and scalars.

    Raises:
        Misfit: a key twice or not text, an unknown type, an alias that leads to itself, or too deep.
    """
    return _plain(node, {}, 0)


def _plain(node: yaml.Node, seen: dict[int, Any], depth: int) -> Any:
    if depth > _MAX_DEPTH:
        raise Misfit(node, "nested too deeply, or an alias that leads to itself")

    def refuse(place: yaml.Node, message: str) -> None:
        raise Misfit(place, message)

    if id(node) not in seen:
        # Aliases are built once, or a few lines could become billions of objects.
        if isinstance(node, yaml.MappingNode):
            items = entries(node, refuse).items()
            seen[id(node)] = {name: _plain(entry.value, seen, depth + 1) for name, entry in items}
        elif isinstance(node, yaml.SequenceNode):
            seen[id(node)] = [_plain(item, seen, depth + 1) for item in node.value]
        else:
            seen[id(node)] = scalar(node)
    return seen[id(node)]


def suggestion(name: str, known: Collection[str]) -> str:
    """Return `; did you mean …?`, or "" where nothing is like `name`."""
    by_lower = {word.lower(): word for word in known}
    close = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.7)
    return f"; did you mean {by_lower[close[0]]}?" if close else ""
