"""`drift` of watches.yaml: what happens to changed objects, and which of their fields are left alone. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from helm_operator.release import ObjectRef
from helm_operator.selectors import LabelSelector

Pointer = tuple[str, ...]
"""A JSON pointer's parts from the top down; the empty one is the whole object."""

_ESCAPE: Final = re.compile(r"~(.?)", re.DOTALL)
_ESCAPED: Final = {"0": "~", "1": "/"}
_NO_LABELS: Final = LabelSelector()


class DriftMode(StrEnum):
    """What happens to an object that is not as the release's manifest says."""

    CORRECT = "correct"
    """It is told and put right."""
    WARN = "warn"
    """It is told, and left as it is."""
    OFF = "off"
    """Nobody looks."""


@dataclass(frozen=True, slots=True)
class Target:
    """Which objects a rule is for. What is None fits every object; a pattern fits the whole text."""

    group: re.Pattern[str] | None = None
    """The core group is the empty text."""
    version: re.Pattern[str] | None = None
    kind: re.Pattern[str] | None = None
    name: re.Pattern[str] | None = None
    namespace: re.Pattern[str] | None = None
    """Objects of the cluster have the empty text."""
    labels: LabelSelector = _NO_LABELS

    def matches(self, ref: ObjectRef, labels: Mapping[str, str]) -> bool:
        """Return whether the rule is for an object with these labels."""
        version = ref.api_version.rpartition("/")[2]
        pairs = (
            (self.group, ref.group),
            (self.version, version),
            (self.kind, ref.kind),
            (self.name, ref.name),
            (self.namespace, ref.namespace),
        )
        fits = all(pattern is None or pattern.fullmatch(text) for pattern, text in pairs)
        return fits and self.labels.matches(labels)


@dataclass(frozen=True, slots=True)
class IgnoreRule:
    """Fields that others may change in some objects."""

    paths: tuple[Pointer, ...]
    target: Target = Target()


@dataclass(frozen=True, slots=True)
class DriftPolicy:
    """What one watch says about drift."""

    mode: DriftMode = DriftMode.CORRECT
    ignore: tuple[IgnoreRule, ...] = ()

    def ignored(self, ref: ObjectRef, labels: Mapping[str, str]) -> tuple[Pointer, ...]:
        """Return which fields of an object are left alone; `labels` are those of its manifest."""
        return tuple(path for rule in self.ignore if rule.target.matches(ref, labels) for path in rule.paths)


def parse_pointer(text: str) -> Pointer:
    """Return the parts of a JSON pointer (RFC 6901): `/data/a~1b` is `("data", "a/b")`.

    Raises:
        ValueError: the text is none; the message says why.
    """
    if text and not text.startswith("/"):
        raise ValueError(f"{text[:80]!r} is no JSON pointer: it starts with /, such as /spec/replicas")
    if any(match[1] not in _ESCAPED for match in _ESCAPE.finditer(text)):
        raise ValueError(f"{text[:80]!r} is no JSON pointer: ~ is written ~0, and a / within a name ~1")
    parts = text.split("/")[1:]
    return tuple(_ESCAPE.sub(lambda match: _ESCAPED[match[1]], part) for part in parts)
