"""Values on their way into Helm: what goes to `--values -`, and what has to go by `--set`.

Two traps are closed here.
* Helm reads its values file as YAML, also when it is JSON, and YAML refuses the surrogate pairs of
  JSON, raw control characters, and keys over 1024 characters that are not marked as keys.
* Numbers of a values file become float64 in Helm: templates print 1048576 as `1.048576e+06`, and
  digits beyond 2**53 are lost. Only `--set` makes int64, so big integers are said there again.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from json.encoder import encode_basestring
from typing import Any, Final

from helm_operator.values import MAX_DOTS, MAX_INDEX, Path, format_path

FIRST_BIG: Final = 10**6
"""From this integer on, Go prints a float64 with an exponent."""
MAX_ARGUMENT: Final = 100_000
"""Bytes of one `--set` argument; Linux ends at 128 KiB."""
MAX_ARGUMENTS: Final = 1_000_000
"""Bytes of all `--set` arguments; Linux ends at 2 MiB, the environment included."""
MAX_SIMPLE_KEY: Final = 1000
"""Characters of an encoded key that YAML takes without a question mark; libyaml ends at 1024."""

_ESCAPED: Final = re.compile(r"[^\x00-\x7e]")
_SPECIAL: Final = re.compile(r"([\\.,=\[])")


@dataclass(frozen=True, slots=True)
class EncodedValues:
    """Values in the form that Helm takes: one document for stdin, and arguments for `--set`."""

    document: bytes
    sets: tuple[str, ...]

    @property
    def arguments(self) -> list[str]:
        return ["--values", "-", *(part for text in self.sets for part in ("--set", text))]


def encode(values: Mapping[str, Any]) -> EncodedValues:
    """Return `values` for Helm; every string, integer and null arrives there unchanged.

    Raises:
        ValueError: a value cannot be said to Helm; the message names its path.
    """
    encoder = _Encoder()
    try:
        document = encoder.map(values, ())
    except RecursionError:
        raise ValueError("the values are nested too deeply") from None
    # Without the line break, Helm before 4.3.1 may drop a last line of 4096 bytes.
    return EncodedValues(f"{document}\n".encode("ascii"), tuple(_arguments(encoder.integers)))


class _Encoder:
    """Writes JSON that is YAML too, and notes the big integers that it meets."""

    def __init__(self) -> None:
        self.integers: list[tuple[Path, int]] = []

    def map(self, values: Mapping[str, Any], path: Path) -> str:
        return "{" + ", ".join(self._entry(key, value, path) for key, value in values.items()) + "}"

    def _entry(self, key: Any, value: Any, path: Path) -> str:
        if not isinstance(key, str):
            raise _bad(path, f"has a key of type {type(key).__name__}")
        name = _string(key, path)
        mark = "? " if len(name) > MAX_SIMPLE_KEY else ""
        return f"{mark}{name}: {self._value(value, (*path, key))}"

    def _value(self, value: Any, path: Path) -> str:
        if isinstance(value, str):
            return _string(value, path)
        if value is None or isinstance(value, bool):
            return {None: "null", True: "true", False: "false"}[value]
        if isinstance(value, int):
            return self._integer(value, path)
        if isinstance(value, float):
            if not math.isfinite(value):
                raise _bad(path, f"is {value}, which is no JSON number")
            return repr(value)
        if isinstance(value, Mapping):
            return self.map(value, path)
        if isinstance(value, list | tuple):
            return "[" + ", ".join(self._value(item, (*path, at)) for at, item in enumerate(value)) + "]"
        raise _bad(path, f"is of type {type(value).__name__}, which is no JSON")

    def _integer(self, value: int, path: Path) -> str:
        if not -(2**63) <= value < 2**63:
            raise _bad(path, "is an integer beyond 64 bits")
        if abs(value) >= FIRST_BIG:
            self.integers.append((path, value))
        return str(value)


def _string(text: str, path: Path) -> str:
    quoted = encode_basestring(text)
    if not quoted.isascii() or "\x7f" in quoted:
        return _ESCAPED.sub(lambda found: _escape(found[0], path), quoted)
    return quoted


def _escape(char: str, path: Path) -> str:
    if "\ud800" <= char <= "\udfff":
        raise _bad(path, "has half of a surrogate pair, which is no character")
    return f"\\u{ord(char):04X}" if char <= "\uffff" else f"\\U{ord(char):08X}"


def _arguments(integers: list[tuple[Path, int]]) -> Iterator[str]:
    """Yield `--set` arguments: assignments, as many as fit into one argument."""
    chunk: list[str] = []
    size = total = 0
    for path, value in integers:
        text = f"{_set_path(path)}={value}"
        length = len(text.encode()) + 1
        total += length
        if length > MAX_ARGUMENT or total > MAX_ARGUMENTS:
            raise _bad(path, f"is an integer of {FIRST_BIG} or more, and the paths of these are too long for Helm")
        if size + length > MAX_ARGUMENT:
            yield ",".join(chunk)
            chunk, size = [], 0
        chunk.append(text)
        size += length
    if chunk:
        yield ",".join(chunk)


def _set_path(path: Path) -> str:
    """Return `path` in the grammar of Helm's `--set`.

    Source of grammar and limits: helm.sh/helm/v4/pkg/strvals, parser.go.
    """
    text, dots = "", 0
    for at, step in enumerate(path):
        if isinstance(step, int):
            if step > MAX_INDEX:
                raise _limit(path, f"lists of more than {MAX_INDEX + 1} items")
            text += f"[{step}]"
            continue
        if not step or "\0" in step:
            raise _limit(path, "an empty name" if not step else "a name with a NUL character")
        if at:
            # Helm counts the dots that follow a name, not those that follow an index.
            dots += isinstance(path[at - 1], str)
            text += "."
        text += _SPECIAL.sub(r"\\\1", step)
    if dots > MAX_DOTS:
        raise _limit(path, f"more than {MAX_DOTS} nested names")
    return text


def _limit(path: Path, what: str) -> ValueError:
    return _bad(path, f"is an integer of {FIRST_BIG} or more: Helm cannot take such below {what}; write it as a string")


def _bad(path: Path, what: str) -> ValueError:
    return ValueError(f"{format_path(path) or 'the values'} {what}")
