"""Conditions with the semantics of metav1.Condition, plus the release that each speaks of.

Three verbs and silence: a type that nobody mentions keeps its last observation.
Source of the rules: Kubernetes API conventions, "Typical status properties".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any, Final

Condition = dict[str, Any]

MAX_MESSAGE: Final = 4096
"""Longest message, in bytes of UTF-8."""

_REASON = re.compile(r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?")
_CUT = "… (cut)"


class ConditionType(StrEnum):
    """The condition types that this operator owns."""

    READY = "Ready"
    DEPLOYED = "Deployed"
    RELEASE_FAILED = "ReleaseFailed"
    IRRECONCILABLE = "Irreconcilable"
    DRIFTED = "Drifted"
    """There only while it is True."""
    PAUSED = "Paused"
    """There only while it is True."""
    RECONCILING = "Reconciling"
    """There only while it is True (kstatus)."""
    STALLED = "Stalled"
    """There only while it is True (kstatus)."""


ORDER: Final = tuple(ConditionType)
"""Ours come first and in this order; foreign ones follow in theirs."""


def cut(text: str, limit: int = MAX_MESSAGE) -> str:
    """Return `text` in at most `limit` bytes of UTF-8, with a mark where it was cut."""
    data = text.encode()
    if len(data) <= limit:
        return text
    room = limit - len(_CUT.encode())
    return data[:room].decode(errors="ignore") + _CUT


class ConditionSet:
    """The conditions of one custom resource while its status is being computed.

    `observe_condition`: we looked, and it holds (True).
    `observe_absence`: we looked, and it does not hold (False).
    `observe_unknown`: we looked, and cannot tell (Unknown).
    No call: we did not look; the last observation stands, as do other controllers' entries.
    """

    def __init__(self, previous: Iterable[Mapping[str, Any]], *, generation: int | None, now: str) -> None:
        """Start from `previous`; `generation` is None where the resource keeps none that is of use.

        `now` is RFC 3339 in UTC, to the second.
        """
        self._by_type: dict[str, Condition] = {
            str(entry["type"]): dict(entry) for entry in previous if entry.get("type")
        }
        self._generation = generation
        self._now = now

    def observe_condition(
        self, type_: ConditionType, reason: str, message: str = "", release: Mapping[str, Any] | None = None
    ) -> None:
        self._set(type_, "True", reason, message, release)

    def observe_absence(
        self, type_: ConditionType, reason: str, message: str = "", release: Mapping[str, Any] | None = None
    ) -> None:
        self._set(type_, "False", reason, message, release)

    def observe_unknown(
        self, type_: ConditionType, reason: str, message: str = "", release: Mapping[str, Any] | None = None
    ) -> None:
        self._set(type_, "Unknown", reason, message, release)

    def remove(self, type_: ConditionType) -> None:
        """Take a condition away that is there only while it is True."""
        self._by_type.pop(type_, None)

    def __contains__(self, type_: str) -> bool:
        return type_ in self._by_type

    def get(self, type_: str) -> Condition | None:
        return self._by_type.get(type_)

    def as_list(self) -> list[Condition]:
        """Return all conditions: ours first, in a fixed order, then the foreign ones."""
        ours = [self._by_type[type_] for type_ in ORDER if type_ in self._by_type]
        return ours + [entry for type_, entry in self._by_type.items() if type_ not in ORDER]

    def _set(
        self, type_: ConditionType, status: str, reason: str, message: str, release: Mapping[str, Any] | None
    ) -> None:
        if not _REASON.fullmatch(reason):  # The API server would answer 422.
            raise ValueError(f"not a condition reason: {reason!r}")
        before = self._by_type.get(type_, {})
        # Only a change of status is a transition; a new reason or message is not.
        stays = before.get("status") == status and before.get("lastTransitionTime")
        entry: Condition = {
            "type": str(type_),
            "status": status,
            "reason": reason,
            "message": cut(message),
            "lastTransitionTime": before["lastTransitionTime"] if stays else self._now,
        }
        if release:
            entry["release"] = dict(release)
        if self._generation is not None:
            entry["observedGeneration"] = self._generation
        self._by_type[type_] = entry
