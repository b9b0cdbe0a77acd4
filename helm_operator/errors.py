"""What can go wrong, by what can be done about it.

* OperatorError
  x ConfigError          the operator cannot start (flags, watches.yaml, a chart on disk)
  x LeadershipLost       another replica may act now, so this process has to end
  x ChartProblem         a chart on disk cannot be read, or can never be installed
  x PassError            one pass over one custom resource ended early
    + TerminalError      only another input (spec, chart, watches.yaml) helps
    + RetryableError     the same attempt may succeed later
      - HelmError        Helm was run and failed; `kind` says in which way
  x ApiError             a request to the API server failed; `status` is HTTP's
    + ApiUnavailable     nobody answered, or the answer was "not now"
    + Forbidden          403
    + NotFound           404
    + Conflict           409
    + Gone               410, the resourceVersion of a list or watch is too old
    + NotLeading         nothing was sent, as this replica may not act
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class OperatorError(Exception):
    """Base of all errors that this package raises on purpose."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake in a file, with its place.

    `line` counts from 1; None where the file as a whole is meant. `where` names the
    entry and key, such as `entry 2 (shop.example.com/v1 Web), key chart`.
    """

    file: str
    line: int | None
    where: str
    message: str

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        return ": ".join(part for part in (place, self.where, self.message) if part)


class ConfigError(OperatorError):
    """The operator cannot start; `problems` holds every mistake that was found."""

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = problems


class LeadershipLost(OperatorError):
    """Another replica may act now; the process ends, and its supervisor starts it again."""


class ChartProblem(OperatorError):
    """A chart on disk cannot be read, or can never be installed; the message names its path."""


class PassError(OperatorError):
    """A pass ended early; `reason` is a condition reason (CamelCase)."""

    def __init__(self, message: str, *, reason: str) -> None:
        super().__init__(message)
        self.reason = reason


class TerminalError(PassError):
    """A new attempt with the same inputs cannot succeed."""


class RetryableError(PassError):
    """A new attempt with the same inputs may succeed."""


class HelmErrorKind(StrEnum):
    """The ways in which a helm command fails, told apart by who must act and how."""

    NOT_FOUND = "NotFound"
    """The release does not exist."""
    LOCKED = "Locked"
    """Another install, upgrade or rollback of the release is under way."""
    UNREACHABLE = "Unreachable"
    """The API server did not answer Helm."""
    FORBIDDEN = "Forbidden"
    """The operator's account lacks a permission (401 or 403)."""
    VALUES = "Values"
    """The values break the chart's values.schema.json, or cannot be read."""
    RENDER = "Render"
    """A template failed: `fail`, `required`, bad YAML, a nil pointer."""
    CHART = "Chart"
    """The chart cannot be loaded, or does not fit the cluster (kubeVersion)."""
    OWNERSHIP = "Ownership"
    """An object of the chart exists and belongs to somebody else."""
    FIELD_CONFLICT = "FieldConflict"
    """Server-side apply: another field manager owns a field of the chart."""
    NAME_IN_USE = "NameInUse"
    """A release of that name exists already."""
    INVALID = "Invalid"
    """The API server refused an object (validation, immutable field, webhook, quota)."""
    UNKNOWN_KIND = "UnknownKind"
    """An object's kind is not known to the cluster."""
    NAMESPACE = "Namespace"
    """The namespace of an object is missing or terminating."""
    TOO_LARGE = "TooLarge"
    """The release record is over the size limit of a Secret (1 MiB)."""
    HOOK = "Hook"
    """A hook failed."""
    TIMEOUT = "Timeout"
    """Helm's own timeout ran out."""
    CANCELLED = "Cancelled"
    """We ended helm: shutdown, a newer wish, or our deadline."""
    CRASHED = "Crashed"
    """helm is missing, cannot be started, or died by a signal that we did not send."""
    OTHER = "Other"
    """None of the above; the message is Helm's."""


class HelmError(RetryableError):
    """A helm command failed.

    The message is what the reader needs: one or a few lines, trimmed, no usage text,
    no command line, no credentials, at most 4 KiB of UTF-8. `output` is Helm's whole
    (redacted) standard error for the debug log.
    """

    def __init__(self, message: str, *, kind: HelmErrorKind, output: str = "") -> None:
        super().__init__(message, reason="HelmError")
        self.kind = kind
        self.output = output


class ApiError(OperatorError):
    """A request to the API server failed.

    `status` is the HTTP status, 0 where there was no answer. `retry_after` is in
    seconds, None where the server did not say.
    """

    def __init__(self, message: str, *, status: int = 0, reason: str = "", retry_after: float | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.retry_after = retry_after


class ApiUnavailable(ApiError):
    """Nobody answered (refused, reset, timed out), or 429, or 5xx."""


class Forbidden(ApiError):
    """The account may not do this (401 or 403)."""


class NotFound(ApiError):
    """The object, or its kind, does not exist."""


class Conflict(ApiError):
    """The object changed since it was read, or exists already."""


class Gone(ApiError):
    """The resourceVersion is too old to continue a list or watch."""


class NotLeading(ApiError):
    """Nothing was sent: this replica does not lead (any more), so it may change nothing."""
