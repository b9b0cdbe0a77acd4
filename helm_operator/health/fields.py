"""Reading of objects that anybody may have written: a field of the wrong type counts as absent."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

_REASON: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,127}")
_INT64: Final = 2**63


def mapping(value: Any) -> Mapping[str, Any]:
    """Return `value` if it is an object of JSON, else an empty one."""
    return value if isinstance(value, Mapping) else {}


def mappings(value: Any) -> list[Mapping[str, Any]]:
    """Return the objects in a list; other entries are left out."""
    return [entry for entry in value if isinstance(entry, Mapping)] if isinstance(value, list | tuple) else []


def inside(value: Any, *path: str) -> Any:
    """Return what is at `path` in nested objects, or None."""
    for name in path:
        value = mapping(value).get(name)
    return value


def text(value: Any) -> str:
    """Return a string on one line, safe to encode; anything else is empty."""
    return " ".join(value.encode(errors="replace").decode().split()) if isinstance(value, str) else ""


def number(value: Any, default: int = 0) -> int:
    """Return an integer as the API knows it (a float without a fraction is one)."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < _INT64:
        return default
    return int(value) if value == int(value) else default


def moment(value: Any) -> float | None:
    """Return the Unix time of an RFC 3339 time stamp, or None."""
    if not isinstance(value, str):
        return None
    try:
        when = datetime.fromisoformat(value)
        return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None


def word(value: Any, fallback: str) -> str:
    """Return a reason that a condition can carry."""
    return value if isinstance(value, str) and _REASON.fullmatch(value) else fallback


def sentence(*parts: str, between: str = ": ") -> str:
    """Return the parts that say something, joined."""
    return between.join(part for part in parts if part)


@dataclass(frozen=True, slots=True)
class Condition:
    """One entry of `status.conditions`."""

    type: str
    status: str
    reason: str
    message: str
    since: float | None
    observed_generation: int | None

    @property
    def told(self) -> str:
        """Reason and message as one text."""
        return sentence(self.reason, self.message)


def conditions(item: Any) -> list[Condition]:
    """Return the conditions of an object in their order; those without a type are left out."""
    return [
        Condition(
            type=entry["type"],
            status=text(entry.get("status")),
            reason=text(entry.get("reason")),
            message=text(entry.get("message")),
            since=moment(entry.get("lastTransitionTime")),
            observed_generation=number(entry.get("observedGeneration"), -1) if "observedGeneration" in entry else None,
        )
        for entry in mappings(inside(item, "status", "conditions"))
        if isinstance(entry.get("type"), str)
    ]


def find(among: Iterable[Condition], type_: str) -> Condition | None:
    """Return the condition of this type."""
    return next((condition for condition in among if condition.type == type_), None)


def holds(among: Iterable[Condition], type_: str) -> bool:
    """Return whether the condition of this type is there and True."""
    found = find(among, type_)
    return found is not None and found.status == "True"


@dataclass(frozen=True, slots=True)
class Subject:
    """An object and everything else that its rule may look at."""

    item: Mapping[str, Any]
    now: float
    pods: Sequence[Mapping[str, Any]] = ()
    warnings: Sequence[Mapping[str, Any]] = ()
    load_balancers: bool = False
    has_status: bool | None = None

    @property
    def kind(self) -> str:
        return text(self.item.get("kind"))

    @property
    def group(self) -> str:
        return text(self.item.get("apiVersion")).rpartition("/")[0]

    @property
    def created(self) -> float | None:
        return moment(inside(self.item, "metadata", "creationTimestamp"))

    @property
    def conditions(self) -> list[Condition]:
        return conditions(self.item)

    def spec(self, *path: str) -> Any:
        """Return a field of `spec`."""
        return inside(self.item, "spec", *path)

    def status(self, *path: str) -> Any:
        """Return a field of `status`."""
        return inside(self.item, "status", *path)

    def count(self, field: str) -> int:
        """Return a number in `status`; the API leaves out zeros."""
        return number(self.status(field))

    def created_plus(self, seconds: float) -> float | None:
        """Return the moment so long after the object's creation; None if that is not known."""
        return None if self.created is None else self.created + seconds
