"""overrideValues: chart values that watches.yaml sets and no custom resource can change. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from helm_operator import values
from helm_operator.errors import TerminalError
from helm_operator.release import Json

_VARIABLE: Final = re.compile(
    r"""\$(?:
        (?P<dollar>\$)
      | \{(?P<braced>[^}]+)\}
      | (?P<broken>\{)
      | (?P<name>[*\#@!?0-9-]|[A-Za-z_][A-Za-z0-9_]*)
    )""",
    re.VERBOSE,
)
_INTEGER: Final = re.compile(r"0|[+-]?[0-9]+")
_WORDS: Final = {"true": True, "false": False, "null": None}


@dataclass(frozen=True, slots=True)
class Override:
    """One chart value that always wins. The value may be a credential, so no text shows it."""

    path: values.Path
    value: Any = field(repr=False)
    """A string, integer, float, boolean or None."""
    from_environment: bool = False
    """Whether a variable had a part in the value; it may be a credential then."""

    def __str__(self) -> str:
        return values.format_path(self.path)


def expand(text: str, environ: Mapping[str, str]) -> tuple[str, tuple[str, ...]]:
    """Return `text` with `$NAME` and `${NAME}` replaced, and the names that are not set.

    As Go's os.ExpandEnv does it: once (what a variable holds is not looked at), and with
    nothing for a variable that is not set. Two things differ: `$$` is a dollar sign, and a brace
    without its partner is an error.

    Raises:
        ValueError: a `${` without its `}`, or without a name.
    """
    missing: list[str] = []

    def replacement(match: re.Match[str]) -> str:
        if match["broken"]:
            raise ValueError("${ without a name and a } behind it; write $$ for a dollar sign")
        if match["dollar"]:
            return "$"
        name = match["braced"] or match["name"]
        if name not in environ and name not in missing:
            missing.append(name)
        return environ.get(name, "")

    return _VARIABLE.sub(replacement, text), tuple(missing)


def typed(text: str) -> Any:
    """Return a string as `helm --set` understands it: true, false, null, an integer, or the string.

    Integers are those that an int64 holds; one with a leading zero stays a string.
    Source: helm.sh/helm/v4/pkg/strvals, typedVal.
    """
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    if _INTEGER.fullmatch(text) and (text == "0" or not text.startswith("0")) and len(text) <= 40:
        number = int(text)
        return number if fits_int64(number) else text
    return text


def fits_int64(number: int) -> bool:
    """Return whether Helm can hold this integer without losing digits."""
    return -(2**63) <= number < 2**63


def conflict(first: values.Path, second: values.Path) -> bool:
    """Return whether no values can have both paths: one leads through the other, or a list would be a map."""
    for here, there in zip(first, second, strict=False):
        if here != there:
            return type(here) is not type(there)
    return True


def apply_overrides(base: Json, overrides: Iterable[Override]) -> Json:
    """Return `base` with all overrides set; `base` is not changed.

    Raises:
        TerminalError: `base` has something else where an override needs a map or list
            (reason InvalidValues); the message names the path and no value.
    """
    result = base
    for override in overrides:
        try:
            result = values.set_path(result, override.path, override.value)
        except ValueError as error:
            raise TerminalError(
                f"the operator sets {override}, which does not fit the values: {error}", reason="InvalidValues"
            ) from error
    return result
