"""Durations as Go writes them, such as `90s` or `1h30m`: the form of Helm and Kubernetes."""

from __future__ import annotations

import math
import re
from fractions import Fraction
from typing import Final

_NANOSECONDS: Final = {
    "ns": 1,
    "us": 1_000,
    "\u00b5s": 1_000,  # micro sign
    "\u03bcs": 1_000,  # Greek mu; keyboards and editors give either
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
}
_LARGEST: Final = 2**63 - 1
"""Go counts nanoseconds in an int64; about 292 years."""

_PART: Final = re.compile(r"([0-9]*)(\.[0-9]*)?([^0-9.]*)")


def parse_duration(text: str) -> float:
    """Return the seconds that a Go duration such as `1h30m`, `-1.5s` or `0` stands for.

    The grammar is that of Go's time.ParseDuration: a sign, then numbers with a unit each.

    Raises:
        ValueError: `text` is no duration, or is longer than Go can count (about 292 years).
    """
    sign, rest = (text[0], text[1:]) if text[:1] in ("+", "-") and text else ("", text)
    if rest == "0":
        return 0.0
    if not rest:
        raise ValueError(f"{text!r} is not a duration: expected numbers with units, such as 90s or 1h30m")
    total = 0
    while rest:
        match = _PART.match(rest)
        whole, fraction, unit = match.groups(default="") if match else ("", "", "")
        if not whole and len(fraction) < 2:
            raise ValueError(f"{text!r} is not a duration: expected a number before {rest!r}")
        if not unit:
            raise ValueError(f"{text!r} is not a duration: the last number lacks a unit (ns, us, ms, s, m, h)")
        if unit not in _NANOSECONDS:
            raise ValueError(f"{text!r} is not a duration: unknown unit {unit!r} (known: ns, us, ms, s, m, h)")
        total += _nanoseconds(text, whole, fraction[1:], _NANOSECONDS[unit])
        if total > _LARGEST + (sign == "-"):
            raise _too_long(text)
        rest = rest[len(whole) + len(fraction) + len(unit) :]
    return (-total if sign == "-" else total) / 10**9  # Not 1e9: it would round twice.


def format_duration(seconds: float) -> str:
    """Return seconds as Go prints a duration: `1m30s`, `1h0m0s`, `250ms`, `0s`.

    Raises:
        ValueError: `seconds` is infinite or not a number.
    """
    if not math.isfinite(seconds):
        raise ValueError(f"{seconds} seconds are not a duration")
    left = round(abs(Fraction(seconds)) * _NANOSECONDS["s"])  # In floats, long ones would lose their last digits.
    sign = "-" if seconds < 0 and left else ""
    if left == 0:
        return "0s"
    if left < _NANOSECONDS["s"]:
        unit = next(unit for unit in ("ms", "\u00b5s", "ns") if left >= _NANOSECONDS[unit])
        return f"{sign}{_decimal(left, _NANOSECONDS[unit])}{unit}"
    minutes, rest = divmod(left, _NANOSECONDS["m"])
    hours, minutes_left = divmod(minutes, 60)
    text = f"{_decimal(rest, _NANOSECONDS['s'])}s"
    if minutes:
        text = f"{minutes_left}m{text}"
    if hours:
        text = f"{hours}h{text}"
    return sign + text


def _nanoseconds(text: str, whole: str, fraction: str, unit: int) -> int:
    # The lengths are bounded: Python refuses to convert numbers of thousands of digits.
    digits = whole.lstrip("0")
    if len(digits) > 19:
        raise _too_long(text)
    behind = fraction[:20]
    # Go drops what is below a nanosecond, and so does int().
    return int((int(digits or "0") + Fraction(int(behind or "0"), 10 ** len(behind))) * unit)


def _too_long(text: str) -> ValueError:
    return ValueError(f"{text[:40]!r} is not a duration: longer than 2562047h47m16s, the most that Go can count")


def _decimal(amount: int, unit: int) -> str:
    whole, rest = divmod(amount, unit)
    fraction = str(rest).rjust(len(str(unit)) - 1, "0").rstrip("0") if rest else ""
    return f"{whole}.{fraction}" if fraction else str(whole)
