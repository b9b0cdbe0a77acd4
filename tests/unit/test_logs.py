import json
import logging
import re
import subprocess
import sys
from pathlib import Path

import pytest

from helm_operator.logs import set_up_logging

MOMENT = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"


@pytest.fixture
def lines(capsys, monkeypatch):
    """Set logging up, log by a function, and return the lines on standard error; put logging back."""
    root = logging.getLogger()
    kept = root.handlers[:], root.level
    levels = {name: logging.getLogger(name).level for name in ("kopf", "kubernetes", "asyncio", "aiohttp", "pyhelm3")}

    def lines(log, *, encoder="json", level=logging.INFO):
        set_up_logging(encoder=encoder, level=level)
        log()
        told = capsys.readouterr()
        assert told.out == ""
        *whole, rest = told.err.split("\n")
        assert rest == ""
        return whole

    yield lines
    root.handlers[:], root.level = kept
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)


def log(name="helm_operator.test", level=logging.INFO, message="%s is there", *arguments):
    logging.getLogger(name).log(level, message, *(arguments or ("x",)))


def test_a_line_is_one_json_object(lines):
    (line,) = lines(lambda: log("helm_operator.a", logging.WARNING, "%s", 'Grüße "🚢"\nzwei\u2028'))

    parsed = json.loads(line)
    assert re.fullmatch(MOMENT, parsed.pop("ts"))
    assert parsed == {"level": "warning", "logger": "helm_operator.a", "msg": 'Grüße "🚢"\nzwei\u2028'}
    assert "🚢" in line


def fail():
    try:
        int("no")
    except ValueError:
        logging.getLogger("helm_operator").exception("it failed")


def test_a_traceback_stays_in_its_line_of_json(lines):
    (line,) = lines(fail)
    assert json.loads(line)["stacktrace"].endswith("ValueError: invalid literal for int() with base 10: 'no'")


def test_console_lines_are_for_people(lines):
    (line,) = lines(lambda: log(message="%s is there"), encoder="console")
    assert re.fullmatch(f"{MOMENT} INFO    x is there", line)

    told = lines(fail, encoder="console")
    assert told[0].endswith("ERROR   it failed")
    assert told[-1] == "ValueError: invalid literal for int() with base 10: 'no'"


def test_lines_below_the_level_are_not_written(lines):
    def both():
        log(level=logging.INFO)
        log(level=logging.ERROR)

    assert len(lines(both, level=logging.ERROR)) == 1
    assert len(lines(lambda: log(level=logging.DEBUG), level=logging.DEBUG)) == 1


@pytest.mark.parametrize(
    "name", ["kopf.objects", "kubernetes.client.rest", "asyncio", "aiohttp.access", "pyhelm3.command"]
)
def test_the_libraries_do_not_log_requests_or_commands_even_at_debug(lines, name):
    """pyhelm3 and the client would write whole command lines and bodies, with what is secret in them."""
    assert lines(lambda: log(name, logging.DEBUG, "Secret %s", "x"), level=logging.DEBUG) == []
    assert len(lines(lambda: log(name, logging.ERROR), level=logging.DEBUG)) == 1


def test_a_library_never_logs_more_than_was_asked_for(lines):
    assert lines(lambda: log("kopf", logging.WARNING), level=logging.ERROR) == []


def test_setting_up_twice_writes_a_line_once(lines):
    lines(lambda: None)
    assert len(lines(log)) == 1


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_a_line_is_json_whatever_standard_error_can_write(encoding):
    code = "import logging; from helm_operator.logs import set_up_logging; "
    code += "set_up_logging(encoder='json', level=20); logging.warning('Grüße \U0001f6a2')"
    env = {"PYTHONIOENCODING": encoding, "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, env=env)
    assert json.loads(done.stderr.decode(encoding))["msg"] == "Grüße 🚢"


def test_kopfs_tracebacks_become_one_line(lines):
    def log():
        try:
            int("no")
        except ValueError:
            logging.getLogger("kopf._cogs").exception("Request failed: %s\nmore", "GET /")

    (line,) = lines(log)
    parsed = json.loads(line)
    assert parsed["msg"] == "Request failed: GET / (ValueError: invalid literal for int() with base 10: 'no')"
    assert "stacktrace" not in parsed
