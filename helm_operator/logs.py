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
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    for name, least in _NOISY.items():
        logging.getLogger(name).setLevel(max(level, least))


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
        return json.dumps(line, ensure_ascii=False)


class _ConsoleFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        text = f"{_moment(record)} {record.levelname:<7} {record.getMessage()}"
        if record.exc_info:
            text += "\n" + self.formatException(record.exc_info)
        return text
