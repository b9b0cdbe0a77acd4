"""Chart values: merging, `--set` paths, digests, and what changed. Pure; no input is ever changed.

Results may share parts with the inputs, so nobody may change values in place.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from helm_operator.errors import TerminalError
from helm_operator.release import Json

Path = tuple[str | int, ...]
"""Names of map keys and indexes of list items, from the top down."""

MAX_INDEX: Final = 65536
"""Helm's limit for a list index in a `--set` path."""
MAX_DOTS: Final = 30
"""Helm's limit for nested names in a `--set` path."""

_INDEX: Final = re.compile(r"[+-]?[0-9]+")
_MISSING: Final = object()


def merge(base: Mapping[str, Any], overlay: Mapping[str, Any]) -> Json:
    """Return `overlay` over `base`, as Helm merges two values files.

    Maps merge at every depth; anything else, lists included, is replaced. A null stays a
    null: Helm needs it to take a chart's default away.
    Source: helm.sh/helm/v4/pkg/chart/v2/loader, MergeMaps.
    """
    merged = dict(base)
    for key, value in overlay.items():
        below = merged.get(key)
        if isinstance(below, dict) and isinstance(value, dict):
            merged[key] = merge(below, value)
        else:
            merged[key] = value
    return merged


def parse_path(text: str) -> Path:
    r"""Return the parts of a `--set` key: `a.b\.c[0]` is `("a", "b.c", 0)`.

    A backslash takes the next character as it is.
    Source of the grammar: helm.sh/helm/v4/pkg/strvals. Stricter in one way: names may not be
    empty (Helm sets nothing and says nothing).

    Raises:
        ValueError: the text is no path; the message says why.
    """
    parts: list[str | int] = []
    dots = at = 0
    while True:
        name, stop, at = _until(text, at, "=[,.")
        if stop in ("=", ","):
            raise ValueError(f"path {text!r}: an unescaped {stop!r} ends a key; write \\{stop}")
        if not name:
            raise ValueError(f"path {text!r}: a name is missing" + (f" before {stop!r}" if stop else " at the end"))
        parts.append(name)
        while stop == "[":
            index, at = _index(text, at)
            parts.append(index)
            behind, stop, at = _until(text, at, "[.=")
            if behind or stop == "=":
                raise ValueError(f"path {text!r}: expected '.', '[' or the end behind ']'")
        # Helm counts the dots that follow a name, not those that follow an index.
        dots += stop == "." and parts[-1] == name
        if not stop:
            return tuple(parts)
        if dots > MAX_DOTS:
            raise ValueError(f"path {text!r}: more than {MAX_DOTS} nested names, Helm's limit")


def set_path(values: Mapping[str, Any], path: Path, value: Any) -> Json:
    """Return `values` with `value` at `path`, as Helm's `--set` puts it.

    Missing maps and lists are made, and lists are filled up with nulls.

    Raises:
        ValueError: `path` is empty, or leads through something that is not a map or list.
    """
    if not path or not isinstance(path[0], str):
        raise ValueError("a path starts with a name")
    result: Json = _set(dict(values), path, value, ())
    return result


def digest(value: Any) -> str:
    """Return `sha256:<hex>` of a JSON value; equal for equal values.

    The order of keys does not matter, nor whether 1 is written 1.0. Big integers count
    with every digit.

    Raises:
        ValueError: `value` is not JSON: NaN, an infinity, a key that is not a string, another type.
    """
    text = json.dumps(_canonical(value), sort_keys=True, separators=(",", ":"), allow_nan=False)
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def values_from_spec(spec: Any) -> Json:
    """Return a custom resource's spec as chart values; no spec means no values.

    Raises:
        TerminalError: `spec` is not a map (reason InvalidValues).
    """
    if spec is None:
        return {}
    if isinstance(spec, dict):
        return spec
    if isinstance(spec, Mapping):
        return dict(spec)
    raise TerminalError(f"spec must be a map of chart values, not {json_type(spec)}", reason="InvalidValues")


def describe_change(old: Mapping[str, Any], new: Mapping[str, Any], limit: int = 5) -> str:
    """Return which leaves differ, such as `image.tag, replicaCount and 3 more`; never a value.

    At most `limit` paths are named. The text is empty where nothing differs.
    """
    paths = list(_changes(dict(old), dict(new), ""))
    named, more = paths[:limit], len(paths) - limit
    if more > 0:
        return f"{', '.join(named)} and {more} more" if named else f"{more} values"
    return ", ".join(named)


def _until(text: str, at: int, stops: str) -> tuple[str, str, int]:
    """Return the characters up to one of `stops`, that stop ("" at the end), and where to go on."""
    taken: list[str] = []
    while at < len(text):
        char = text[at]
        at += 1
        if char in stops:
            return "".join(taken), char, at
        if char == "\\":
            if at == len(text):
                raise ValueError(f"path {text!r}: a backslash at the end escapes nothing")
            char = text[at]
            at += 1
        taken.append(char)
    return "".join(taken), "", at


def _index(text: str, at: int) -> tuple[int, int]:
    digits, stop, at = _until(text, at, "]")
    if not stop:
        raise ValueError(f"path {text!r}: ']' is missing")
    if not _INDEX.fullmatch(digits):
        raise ValueError(f"path {text!r}: {digits!r} is not a list index")
    # The length comes first: Python refuses to convert thousands of digits.
    if len(digits.lstrip("+-0")) > len(str(MAX_INDEX)) or not 0 <= int(digits[-8:].lstrip("+-") or 0) <= MAX_INDEX:
        raise ValueError(f"path {text!r}: index {digits[:20]} is over {MAX_INDEX}, Helm's limit")
    if digits.startswith("-"):
        raise ValueError(f"path {text!r}: index {digits} is negative")
    return int(digits[-8:].lstrip("+")), at


def _set(target: Any, path: Path, value: Any, done: Path) -> Any:
    """Return `target` (ours to change at its top level) with `value` at `path`."""
    step, rest = path[0], path[1:]
    if isinstance(step, str):
        below = target.get(step, _MISSING)
        target[step] = _set(_child(below, rest, (*done, step)), rest, value, (*done, step)) if rest else value
        return target
    target.extend([None] * (step + 1 - len(target)))
    if not rest:
        target[step] = value
        return target
    below = target[step]
    # Inside a list, strvals replaces what is no map, and takes a null for an empty list.
    if (isinstance(rest[0], str) and not isinstance(below, dict)) or below is None:
        below = _MISSING
    target[step] = _set(_child(below, rest, (*done, step)), rest, value, (*done, step))
    return target


def _child(below: Any, rest: Path, done: Path) -> Any:
    """Return a copy of the map or list that the next step of a path goes into."""
    if not rest:
        return None
    wanted = dict if isinstance(rest[0], str) else list
    if below is _MISSING:
        return wanted()
    if not isinstance(below, wanted):
        raise _wrong(format_path(done), below, "a map" if wanted is dict else "a list")
    return wanted(below)


def _canonical(value: Any) -> Any:
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str):
                raise _not_json(f"a key of type {type(key).__name__}")
        return {key: _canonical(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_canonical(item) for item in value]
    if isinstance(value, float):
        if not math.isfinite(value):
            raise _not_json(str(value))
        return int(value) if value.is_integer() else value
    if value is None or isinstance(value, str | int):
        return value
    raise _not_json(f"a {type(value).__name__}")


def _not_json(what: str) -> ValueError:
    return ValueError(f"{what} is not JSON")


def _wrong(name: str, value: Any, expected: str) -> ValueError:
    return ValueError(f"{name} is {json_type(value)}, not {expected}")


def _changes(old: Any, new: Any, path: str) -> Iterator[str]:
    # A map that came or went whole is told by its leaves, like one that was edited.
    if isinstance(old, dict) and new is _MISSING and old:
        new = {}
    if isinstance(new, dict) and old is _MISSING and new:
        old = {}
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted(old.keys() | new.keys(), key=str):
            name = escape_name(str(key))
            yield from _changes(old.get(key, _MISSING), new.get(key, _MISSING), f"{path}.{name}" if path else name)
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for index, (before, after) in enumerate(zip(old, new, strict=True)):
            yield from _changes(before, after, f"{path}[{index}]")
    elif not _same(old, new):
        yield path


def _same(old: Any, new: Any) -> bool:
    if isinstance(old, bool) or isinstance(new, bool):
        return old is new
    if isinstance(old, list) and isinstance(new, list):
        return len(old) == len(new) and all(map(_same, old, new))
    return bool(old == new)


def escape_name(name: str) -> str:
    r"""Return a map key as it is written in a `--set` path, fit for one line of text."""
    text = re.sub(r"([\\.,=\[])", r"\\\1", name)
    return "".join(char if char.isprintable() else "?" for char in text)


def format_path(path: Path) -> str:
    """Return a path in `--set` form, for people."""
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f"{'.' if text else ''}{escape_name(step)}"
    return text


def json_type(value: Any) -> str:
    """Return what a JSON value is, in words: `a map`, `null`, `a boolean`."""
    if value is None:
        return "null"
    names = {bool: "a boolean", int: "a number", float: "a number", str: "a string", list: "a list", dict: "a map"}
    return names.get(type(value), f"a {type(value).__name__}")
