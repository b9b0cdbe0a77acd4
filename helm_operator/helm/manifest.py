"""Manifests as the API server understands them: YAML 1.1 in the way of Go's libraries.

PyYAML's own loaders differ from Helm's in what changes an object: dates, base-60 numbers, octals,
`y` and `n`, merge keys. So libyaml only parses here, and the meaning of each scalar is decided below.
Source of the rules: go.yaml.in/yaml/v2 (resolve.go, decode.go), sigs.k8s.io/yaml, and
k8s.io/apimachinery/pkg/util/yaml for where a document ends.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import math
import re
import struct
from collections.abc import Iterator
from decimal import Decimal
from typing import Any, Final

import yaml

from helm_operator.release import Json

try:
    from yaml.cyaml import CParser as _Parser  # type: ignore[attr-defined] # the stubs forgot it
except ImportError:  # PyYAML without libyaml: the same nodes, many times slower
    from yaml.loader import BaseLoader as _Parser  # type: ignore[assignment]

_TAG: Final = "tag:yaml.org,2002:"
_PLAIN: Final = "?"
_SEPARATOR: Final = re.compile(r"^---.*\n?", re.MULTILINE)
_INTEGER: Final = re.compile(r"([+-]?)(?:0[xX]([0-9a-fA-F]+)|0[bB]([01]+)|0[oO]?([0-7]+)|([1-9][0-9]*|0))")
_FLOAT: Final = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_DOT_FLOAT: Final = re.compile(r"\.[0-9][0-9_]*([eE][-+]?[0-9]+)?")
_WORDS: Final[dict[str, Any]] = {
    **dict.fromkeys(["y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"], True),
    **dict.fromkeys(["n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"], False),
    **dict.fromkeys(["", "~", "null", "Null", "NULL"]),
    **dict.fromkeys([".nan", ".NaN", ".NAN"], math.nan),
    **dict.fromkeys([".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"], math.inf),
    **dict.fromkeys(["-.inf", "-.Inf", "-.INF"], -math.inf),
}


def parse_manifest(text: str) -> list[Json]:
    """Return the objects of a manifest in order; Lists are flattened, empty documents dropped.

    Raises:
        ValueError: a document is no YAML, or means something that JSON cannot say.
    """
    objects: list[Json] = []
    for document in _SEPARATOR.split(text):
        value = parse_document(document)
        if isinstance(value, dict):
            objects.extend(_flatten(value))
        elif value is not None:
            raise _bad("has a document that is not an object")
    return objects


def parse_document(text: str) -> Any:
    """Return the JSON value of the first YAML document in `text`; None where there is none.

    Numbers come out as the API server reads them: whole ones within 64 bits are int.

    Raises:
        ValueError: the text is no YAML, or means something that JSON cannot say.
    """
    loader = _Loader(text)
    try:
        node = loader.get_node() if loader.check_node() else None
        return None if node is None else _Builder().build(node)
    except (yaml.YAMLError, RecursionError) as error:
        # The whole text of the error would quote the document, and that may be a Secret.
        raise _bad(f"cannot be parsed: {getattr(error, 'problem', None) or type(error).__name__}") from error
    finally:
        loader.dispose()


class _Loader(_Parser, yaml.resolver.BaseResolver):
    """libyaml's parser; it marks each untagged plain scalar and leaves its meaning open."""

    def __init__(self, text: str) -> None:
        _Parser.__init__(self, text)
        yaml.resolver.BaseResolver.__init__(self)

    def resolve(self, kind: Any, value: Any, implicit: Any) -> str:
        if kind is yaml.ScalarNode and implicit[0]:
            return _PLAIN
        return f"{_TAG}str"


class _Builder:
    """Turns the nodes of one document into JSON values; an alias shares the value of its anchor."""

    def __init__(self) -> None:
        self._done: dict[int, Any] = {}
        self._open: set[int] = set()

    def build(self, node: yaml.Node) -> Any:
        if isinstance(node, yaml.ScalarNode):
            return _json_number(_scalar(node.tag, node.value))
        if id(node) in self._done:
            return self._done[id(node)]
        if id(node) in self._open:
            raise _bad("has an anchor that contains itself")
        self._open.add(id(node))
        value: Any
        if isinstance(node, yaml.SequenceNode):
            value = [self.build(item) for item in node.value]
        else:
            value = {}
            self._fill(node, value)
        self._open.discard(id(node))
        self._done[id(node)] = value
        return value

    def _fill(self, node: yaml.Node, result: Json) -> None:
        for key, value in node.value:
            if _is_merge(key):
                self._merge(value, result)
            else:
                # A key that comes twice counts the last time, merged keys included: as in Go.
                result[_key(key)] = self.build(value)

    def _merge(self, node: yaml.Node, result: Json) -> None:
        parts = reversed(node.value) if isinstance(node, yaml.SequenceNode) else [node]
        for part in parts:
            if isinstance(part, yaml.MappingNode):
                result.update(self.build(part))
            else:
                raise _bad("has a merge key (<<) of something that is no map")


def _is_merge(node: yaml.Node) -> bool:
    return isinstance(node, yaml.ScalarNode) and node.value == "<<" and node.tag in (_PLAIN, f"{_TAG}merge")


def _scalar(tag: str, text: str) -> Any:
    """Return what a scalar means: null, bool, int, float or string."""
    if tag == _PLAIN:
        return _resolve(text)
    if tag == f"{_TAG}binary":
        try:
            return base64.b64decode("".join(text.splitlines()), validate=True).decode()
        except (binascii.Error, UnicodeDecodeError) as error:
            raise _bad("has a !!binary that is not base64 of text") from error
    name = tag.removeprefix(_TAG)
    if name not in ("bool", "int", "float", "null"):
        return text
    value = _resolve(text)
    if name == "float" and type(value) is int:
        return float(value)
    if type(value).__name__ != name.replace("null", "NoneType"):
        raise _bad(f"has a !!{name} that is none")
    return value


def _resolve(text: str) -> Any:
    """Return the meaning of a plain scalar."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] == ".":
        if _DOT_FLOAT.fullmatch(text):
            with contextlib.suppress(ValueError):  # An underscore counts between digits only, in Go as here.
                return float(text)
        return text
    if text[0] not in "+-0123456789":
        return text
    plain = text.replace("_", "")
    if found := _INTEGER.fullmatch(plain):
        sign, *forms = found.groups()
        number = next(int(digits, base) for digits, base in zip(forms, (16, 2, 8, 10), strict=True) if digits)
        number = -number if sign == "-" else number
        if -(2**63) <= number < 2**63 or (number < 2**64 and not sign):
            return number
    if _FLOAT.fullmatch(plain):
        value = float(plain)
        return value if math.isfinite(value) else text
    return text


def _json_number(value: Any) -> Any:
    """Return the number that the API server makes of the JSON that Helm's YAML library writes."""
    if isinstance(value, float):
        if not math.isfinite(value):
            raise _bad(f"has the number {value}, which JSON cannot say")
        # Go writes 1.0 as 1 and 2.0**62 by its shortest digits; what then fits into int64 is read as int64.
        whole = int(Decimal(repr(value))) if value.is_integer() else 2**63
        return whole if -(2**63) <= whole < 2**63 else value
    if type(value) is int and value >= 2**63:
        return float(value)
    return value


def _key(node: yaml.Node) -> str:
    """Return a map key as text: `80`, `true` and `1.5` are keys in YAML, but not in JSON."""
    value = _scalar(node.tag, node.value) if isinstance(node, yaml.ScalarNode) else None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return _float_key(value)
    if value is None or (isinstance(value, int) and value >= 2**63):
        raise _bad("has a map key that JSON cannot say")
    return str(value)


def _float_key(value: float) -> str:
    """Return the shortest decimal that is the same 32-bit float, in Go's %g form."""
    if not math.isfinite(value):
        return ".nan" if math.isnan(value) else (".inf" if value > 0 else "-.inf")
    try:
        short = struct.pack("<f", value)
    except OverflowError:
        return ".inf" if value > 0 else "-.inf"
    single: float = struct.unpack("<f", short)[0]
    text = next(t for digits in range(9) if struct.pack("<f", float(t := f"{single:.{digits}e}")) == short)
    mantissa, _, exponent = text.partition("e")
    if -5 < int(exponent) < 6:
        return f"{float(text):.{max(len(mantissa.partition('.')[2]) - int(exponent), 0)}f}"
    return text


def _flatten(item: Json) -> Iterator[Json]:
    items = item.get("items")
    # The API machinery takes whatever has items for a List.
    if not isinstance(items, list):
        yield item
        return
    for inner in items:
        if isinstance(inner, dict):
            # In a ConfigMapList the items need not say what they are.
            said = "kind" in inner or "apiVersion" in inner
            yield from _flatten(inner if said else {**_item_type(item), **inner})
        else:
            raise _bad("has a List with an item that is not an object")


def _item_type(parent: Json) -> Json:
    return {"apiVersion": parent.get("apiVersion"), "kind": str(parent.get("kind", "")).removesuffix("List")}


def _bad(what: str) -> ValueError:
    return ValueError(f"the manifest {what}")
