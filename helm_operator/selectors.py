"""Label selectors: what Kubernetes calls metav1.LabelSelector, with its validation."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from helm_operator.values import json_type

_NAME: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
_PREFIX: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_MAX_NAME: Final = 63
_MAX_PREFIX: Final = 253


class Operator(StrEnum):
    """The operators of matchExpressions."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"

    @property
    def takes_values(self) -> bool:
        return self in (Operator.IN, Operator.NOT_IN)


@dataclass(frozen=True, slots=True, order=True)
class Requirement:
    """One condition on one label. `values` is sorted, and empty for (DoesNot)Exist."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()
    exact: bool = False
    """Whether it came from matchLabels; only its written form differs."""

    def matches(self, labels: Mapping[str, str]) -> bool:
        match self.operator:
            case Operator.IN:
                return labels.get(self.key) in self.values
            case Operator.NOT_IN:
                # As in Kubernetes: an object without the label is not in the set either.
                return labels.get(self.key) not in self.values
            case Operator.EXISTS:
                return self.key in labels
            case Operator.DOES_NOT_EXIST:
                return self.key not in labels

    def __str__(self) -> str:
        match self.operator:
            case Operator.IN if self.exact:
                return f"{self.key}={self.values[0]}"
            case Operator.IN:
                return f"{self.key} in ({','.join(self.values)})"
            case Operator.NOT_IN:
                return f"{self.key} notin ({','.join(self.values)})"
            case Operator.EXISTS:
                return self.key
            case Operator.DOES_NOT_EXIST:
                return f"!{self.key}"


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """All requirements must hold; without any, every object matches."""

    requirements: tuple[Requirement, ...] = ()

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, Any]) -> LabelSelector:
        """Read the API form, `{matchLabels: {…}, matchExpressions: [{key, operator, values}]}`.

        Raises:
            ValueError: an unknown field or operator, a key or value that can be no label, or
                values where the operator takes none (or the other way round).
        """
        unknown = sorted(str(key) for key in mapping.keys() - {"matchLabels", "matchExpressions"})
        if unknown:
            raise ValueError(f"unknown field {unknown[0]!r}: expected matchLabels or matchExpressions")
        labels = mapping.get("matchLabels") or {}
        if not isinstance(labels, Mapping):
            raise _wrong("matchLabels", "a map", labels)
        expressions = mapping.get("matchExpressions") or []
        if not isinstance(expressions, list):
            raise _wrong("matchExpressions", "a list", expressions)
        requirements = [_equality(key, value) for key, value in labels.items()]
        requirements += [_expression(number, item) for number, item in enumerate(expressions, start=1)]
        return cls(tuple(sorted(requirements)))

    @property
    def empty(self) -> bool:
        """Whether every object matches."""
        return not self.requirements

    def matches(self, labels: Mapping[str, str] | None) -> bool:
        """Return whether an object with these labels (None: it has none) is selected."""
        return all(requirement.matches(labels or {}) for requirement in self.requirements)

    def __str__(self) -> str:
        """Return the form of the API's `labelSelector` query parameter; "" where empty."""
        return ",".join(str(requirement) for requirement in self.requirements)


def _equality(key: Any, value: Any) -> Requirement:
    where = f"matchLabels: key {key!r}"
    return Requirement(_checked_key(key, where), Operator.IN, (_checked_value(value, where),), exact=True)


def _expression(number: int, item: Any) -> Requirement:
    where = f"matchExpressions {number}"
    if not isinstance(item, Mapping):
        raise _wrong(where, "a map with key, operator and values", item)
    unknown = sorted(str(key) for key in item.keys() - {"key", "operator", "values"})
    if unknown:
        raise ValueError(f"{where}: unknown field {unknown[0]!r}: expected key, operator or values")
    where = f"{where}: key {item.get('key')!r}"
    key = _checked_key(item.get("key"), where)
    name = item.get("operator")
    if name not in list(Operator):
        raise ValueError(f"{where}: operator {name!r} is not one of {', '.join(Operator)}")
    operator = Operator(name)
    values = item.get("values") or []
    if not isinstance(values, list):
        raise _wrong(f"{where}: operator {operator}: values", "a list", values)
    if operator.takes_values and not values:
        raise ValueError(f"{where}: operator {operator} needs at least one value")
    if values and not operator.takes_values:
        raise ValueError(f"{where}: operator {operator} takes no values")
    checked = {_checked_value(value, f"{where}: operator {operator}") for value in values}
    return Requirement(key, operator, tuple(sorted(checked)))


def _checked_key(key: Any, where: str) -> str:
    if not isinstance(key, str) or not key:
        raise ValueError(f"{where}: expected the name of a label")
    prefix, slash, name = key.rpartition("/")
    if slash and not (len(prefix) <= _MAX_PREFIX and _PREFIX.fullmatch(prefix)):
        raise ValueError(f"{where}: the part before / must be a DNS name in lower case")
    if not (len(name) <= _MAX_NAME and _NAME.fullmatch(name)):
        raise ValueError(
            f"{where}: a label's name has 1 to {_MAX_NAME} letters, digits, '-', '_' or '.', "
            "and starts and ends with a letter or digit"
        )
    return key


def _checked_value(value: Any, where: str) -> str:
    if not isinstance(value, str):
        raise _wrong(where, "a string, as all label values are (put it in quotes)", value)
    if value and not (len(value) <= _MAX_NAME and _NAME.fullmatch(value)):
        raise ValueError(
            f"{where}: {value[:80]!r} is no label value: at most {_MAX_NAME} letters, digits, '-', '_' or '.', "
            "and it starts and ends with a letter or digit"
        )
    return value


def _wrong(where: str, expected: str, value: Any) -> ValueError:
    return ValueError(f"{where}: expected {expected}, not {json_type(value)}")
