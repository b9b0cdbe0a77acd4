"""Log lines: JSON for machines, or one line of text for people."""

from __future__ import annotations

import datetime
import json
import logging
import sys

_NOISY = {
    "kopf": logging.WARNING,
    "kopf._core.reactor.running": logging.ERROR,
    "kubernetes": logging.INFO,
    "asyncio": logging.WARNING,
    "aiohttp": logging.WARNING,
    "pyhelm3": logging.WARNING,
}


def set_up_logging(*, encoder: str, level: int) -> None:
    """Send log lines of `level` and above to standard error; `encoder` is `json` or `console`."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_JsonFormatter() if encoder == "json" else _ConsoleFormatter())
    handler.addFilter(_OneLine())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    for name, least in _NOISY.items():
        logging.getLogger(name).setLevel(max(level, least))


class _OneLine(logging.Filter):
    """kopf logs whole tracebacks of what it will try again; a line says as much."""

    def filter(self, record: logging.LogRecord) -> bool:
        if record.name.startswith("kopf") and record.exc_info and record.exc_info[1] is not None:
            error = record.exc_info[1]
            text = f"{record.getMessage().splitlines()[0][:200]} ({type(error).__name__}: {str(error)[:500]})"
            record.msg, record.args, record.exc_info, record.exc_text = text, (), None, None
        return True


def _moment(record: logging.LogRecord) -> str:
    moment = datetime.datetime.fromtimestamp(record.created, datetime.UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


class _JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line = {
            "ts": _moment(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "msg": record.getMessage(),
        }
        if record.exc_info:
            line["stacktrace"] = self.formatException(record.exc_info)
        # Where standard error cannot write a character, Python's own escape for it would break the JSON.
        unicode = (getattr(sys.stderr, "encoding", None) or "").lower().replace("-", "") == "utf8"
        return json.dumps(line, ensure_ascii=not unicode)


class _ConsoleFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        text = f"{_moment(record)} {record.levelname:<7} {record.getMessage()}"
        if record.exc_info:
            text += "\n" + self.formatException(record.exc_info)
        return text
