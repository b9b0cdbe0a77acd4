"""The rules of a `.helmignore` file, with all of Helm's peculiarities.

Source: helm.sh/helm/v4/pkg/ignore; the patterns are those of Go's filepath.Match.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

FILE = ".helmignore"


@dataclass(frozen=True, slots=True)
class _Rule:
    pattern: re.Pattern[str]
    negated: bool
    only_directories: bool
    whole_path: bool

    def matches(self, path: str) -> bool:
        return self.pattern.fullmatch(path if self.whole_path else path.rpartition("/")[2]) is not None


@dataclass(frozen=True, slots=True)
class Rules:
    """What of a chart's directory is not part of the chart."""

    rules: tuple[_Rule, ...]

    @classmethod
    def parse(cls, text: str) -> Rules:
        """Read the text of a `.helmignore` file ("" where there is none).

        Raises:
            ValueError: a pattern that Helm refuses.
        """
        lines = (line.strip() for line in text.removeprefix("\ufeff").splitlines())
        # The last rule is Helm's own.
        return cls(tuple(_rule(line) for line in [*lines, "templates/.?*"] if line and not line.startswith("#")))

    def ignores(self, path: str, *, directory: bool) -> bool:
        """Return whether `path`, relative to the chart, is left out. An ignored directory is left out whole."""
        for rule in self.rules:
            misfit = rule.only_directories and not directory
            if rule.negated:
                # Helm's "!x" does not bring x back: it leaves out everything that is not x.
                if misfit or not rule.matches(path):
                    return True
            elif not misfit and rule.matches(path):
                return True
        return False


def _rule(line: str) -> _Rule:
    if "**" in line:
        raise ValueError(f"pattern {line!r}: Helm does not support **")
    text = line.removeprefix("!")
    body = text.removesuffix("/")
    return _Rule(
        pattern=re.compile("".join(_translated(body.removeprefix("/"), line)), re.DOTALL),
        negated=line.startswith("!"),
        only_directories=text.endswith("/"),
        whole_path="/" in body,
    )


def _translated(glob: str, line: str) -> Iterator[str]:
    """Yield the parts of a regular expression for one of Go's patterns."""
    rest = glob
    while rest:
        char, rest = rest[0], rest[1:]
        if char == "*":
            yield "[^/]*"
        elif char == "?":
            yield "[^/]"
        elif char == "[":
            part, rest = _character_class(rest, line)
            yield part
        elif char == "\\":
            char, rest = _escaped("\\" + rest, line)
            yield re.escape(char)
        else:
            yield re.escape(char)


def _character_class(rest: str, line: str) -> tuple[str, str]:
    negation, rest = ("^", rest[1:]) if rest.startswith("^") else ("", rest)
    ranges = ""
    while not (ranges and rest.startswith("]")):
        low, rest = _end_of_range(rest, line)
        high, rest = _end_of_range(rest[1:], line) if rest.startswith("-") else (low, rest)
        if high < low:
            raise ValueError(f"pattern {line!r}: the range {low}-{high} runs backwards")
        ranges += f"{re.escape(low)}-{re.escape(high)}"
    return f"[{negation}{ranges}]", rest[1:]


def _end_of_range(rest: str, line: str) -> tuple[str, str]:
    if rest[:1] in ("", "-", "]"):
        raise ValueError(f"pattern {line!r}: a [ without its ], or an empty range")
    return _escaped(rest, line)


def _escaped(rest: str, line: str) -> tuple[str, str]:
    """Return the first character, unescaped, and what follows."""
    if not rest.startswith("\\"):
        return rest[0], rest[1:]
    if len(rest) == 1:
        raise ValueError(f"pattern {line!r}: a backslash at the end escapes nothing")
    return rest[1], rest[2:]
