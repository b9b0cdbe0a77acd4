"""The commands `run`, `check` and `version`.

Exit codes: 0 all is well, 1 the operator could not go on, 2 a flag, watches.yaml or a chart
is wrong.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import platform
import re
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NoReturn

from helm_operator import __version__
from helm_operator.durations import parse_duration
from helm_operator.errors import ConfigError, OperatorError
from helm_operator.logs import set_up_logging
from helm_operator.operator import Operator
from helm_operator.probes import parse_address
from helm_operator.settings import LeaseName, Settings, namespaces_from, own_namespace
from helm_operator.values import format_path
from helm_operator.watches import Watches, load_watches

logger = logging.getLogger(__name__)

_LEVELS: Final = {"debug": logging.DEBUG, "info": logging.INFO, "error": logging.ERROR, "panic": logging.CRITICAL}
_DEFAULTS: Final = Settings()
_ENDING: Final = (signal.SIGTERM, signal.SIGINT)
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code."""
    options = _parser().parse_args(_with_command(sys.argv[1:] if arguments is None else arguments))
    try:
        code: int = options.command(options)
    except ConfigError as error:
        for problem in error.problems:
            print(problem, file=sys.stderr)
        return 2
    except (OperatorError, OSError) as error:
        print(f"helm-operator: {error}", file=sys.stderr)
        return 1
    return code


def _with_command(arguments: Sequence[str]) -> list[str]:
    """Read flags without a command as those of `run`: operator-sdk's manifests leave the command to the image."""
    bare = bool(arguments) and arguments[0].startswith("-") and arguments[0] not in ("-h", "--help", "--version")
    return ["run", *arguments] if bare else list(arguments)


def _run(options: argparse.Namespace) -> int:
    level = options.zap_log_level if options.zap_log_level is not None else logging.INFO
    if options.zap_devel and options.zap_log_level is None:
        level = logging.DEBUG
    set_up_logging(encoder=options.zap_encoder or ("console" if options.zap_devel else "json"), level=level)
    _refuse_what_is_not_built(options)
    watches = load_watches(options.watches_file, os.environ)
    _warn(watches)
    settings = Settings(
        watches_file=options.watches_file,
        namespaces=namespaces_from(os.environ.get("WATCH_NAMESPACE")),
        reconcile_period=options.reconcile_period,
        max_concurrent_reconciles=options.max_concurrent_reconciles,
        retry_base=options.retry_base,
        retry_ceiling=max(options.retry_ceiling, options.retry_base),
        probe_address=options.health_probe_bind_address,
        helm=options.helm,
        lease=_lease(options, os.environ),
    )
    logger.info("helm-operator %s", __version__)
    asyncio.run(_serve(watches, settings))
    return 0


async def _serve(watches: Watches, settings: Settings) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in _ENDING:
        loop.add_signal_handler(number, stop.set)
    try:
        await Operator(watches, settings).run(stop)
    finally:
        # The loop would take its handlers away, and one more signal make an orderly end look like a crash.
        for number in _ENDING:
            loop.remove_signal_handler(number)
            signal.signal(number, signal.SIG_IGN)


def _check(options: argparse.Namespace) -> int:
    watches = load_watches(options.watches_file, os.environ)
    for warning in watches.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    for watch in watches.entries:
        print(f"{watch}: chart {watch.chart.info} from {watch.chart.path}")
    count = len(watches.entries)
    print(f"{watches.path}: {count} watch{'es' if count > 1 else ''}, no mistakes found")
    return 0


def _version(_: argparse.Namespace) -> int:
    print(f"helm-operator {__version__}, Python {platform.python_version()}, {platform.system()} {platform.machine()}")
    return 0


def _refuse_what_is_not_built(options: argparse.Namespace) -> None:
    if options.metrics_bind_address not in (None, "0", ""):
        logger.warning("--metrics-bind-address: metrics are not built yet; nothing listens on this address")
    for flag, name in _WITHOUT_EFFECT.items():
        if getattr(options, name, None):
            logger.warning("%s has no effect yet", flag)


def _lease(options: argparse.Namespace, environ: Mapping[str, str]) -> LeaseName | None:
    """Return the Lease that the replicas share; None: there is no election."""
    if options.enable_leader_election is not None:
        if options.leader_elect is not None:
            _fail("--enable-leader-election is the old name of --leader-elect: give --leader-elect only")
        logger.warning("--enable-leader-election is deprecated: use --leader-elect")
    if not (options.leader_elect or options.enable_leader_election):
        return None
    name = options.leader_election_id
    if not name and (name := environ.get("OPERATOR_NAME", "")):
        logger.warning("OPERATOR_NAME is deprecated: use --leader-election-id=%s", name)
    if not name:
        _fail("--leader-elect needs --leader-election-id: the Lease's name, the same for all replicas of this operator")
    namespace = options.leader_election_namespace or own_namespace()
    if not namespace:
        _fail("--leader-elect needs --leader-election-namespace: outside of a Pod there is no namespace of our own")
    for flag, text in (("--leader-election-id", name), ("--leader-election-namespace", namespace)):
        if not _NAME.fullmatch(text):
            _fail(f"{flag}: {text!r} is no name of an object: lower-case letters, digits, '-' and '.'")
    return LeaseName(namespace, name)


def _fail(message: str) -> NoReturn:
    print(f"helm-operator: {message}", file=sys.stderr)
    raise SystemExit(2)


def _warn(watches: Watches) -> None:
    for warning in watches.warnings:
        logger.warning("%s", warning)
    for watch in watches.entries:
        if watch.overrides:
            paths = ", ".join(format_path(override.path) for override in watch.overrides)
            logger.info("%s: overrideValues set %s in every custom resource", watch, paths)


_WITHOUT_EFFECT: Final = {
    "--metrics-secure": "metrics_secure",
    "--metrics-require-rbac": "metrics_require_rbac",
    "--enable-http2": "enable_http2",
    "--suppress-override-values": "suppress_override_values",
    "--zap-stacktrace-level": "zap_stacktrace_level",
    "--zap-time-encoding": "zap_time_encoding",
}
"""Flags of operator-sdk that are taken, so that its manifests start, and do nothing here."""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="helm-operator", description="Run one Helm release for each custom resource.", allow_abbrev=False
    )
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    run = commands.add_parser("run", help="serve the kinds of watches.yaml", allow_abbrev=False)
    run.set_defaults(command=_run)
    check = commands.add_parser(
        "check", help="find mistakes in watches.yaml and its charts; needs no cluster", allow_abbrev=False
    )
    check.set_defaults(command=_check)
    version = commands.add_parser("version", help="print the version")
    version.set_defaults(command=_version)
    for command in (run, check):
        command.add_argument(
            "--watches-file",
            type=Path,
            default=_DEFAULTS.watches_file,
            metavar="FILE",
            help="which kind gets which chart (default: ./watches.yaml)",
        )
    _add_run_flags(run)
    return parser


def _add_run_flags(run: argparse.ArgumentParser) -> None:
    add = run.add_argument
    add(
        "--reconcile-period",
        type=_checked(_positive_duration),
        default=_DEFAULTS.reconcile_period,
        metavar="DURATION",
        help="time between two re-checks of a custom resource (default: 1m0s)",
    )
    add(
        "--max-concurrent-reconciles",
        type=_checked(_positive_integer),
        default=_DEFAULTS.max_concurrent_reconciles,
        metavar="N",
        help="Helm actions at once for one kind (default: the number of CPUs)",
    )
    add(
        "--retry-base",
        type=_checked(_positive_duration),
        default=_DEFAULTS.retry_base,
        metavar="DURATION",
        help="pause after the first failure of a Helm action; doubles with each further one (default: 5s)",
    )
    add(
        "--retry-ceiling",
        type=_checked(_positive_duration),
        default=_DEFAULTS.retry_ceiling,
        metavar="DURATION",
        help="longest pause between two tries (default: 10m0s)",
    )
    add(
        "--health-probe-bind-address",
        type=_checked(_address),
        default=_DEFAULTS.probe_address,
        metavar="ADDRESS",
        help="where /healthz and /readyz are served; 0 turns them off (default: :8081)",
    )
    add("--helm", default=_DEFAULTS.helm, metavar="FILE", help="the helm executable (default: helm from PATH)")
    add("--zap-devel", **_SWITCH, help="console lines, at level debug")
    add("--zap-encoder", choices=("json", "console"), help="form of the log lines (default: json)")
    add("--zap-log-level", type=_checked(_level), metavar="LEVEL", help="debug, info, error, panic or a number")
    add("--leader-elect", **_TRISTATE, help="act only while holding a Lease, so that several replicas may run")
    add("--enable-leader-election", **_TRISTATE, help=argparse.SUPPRESS)
    add("--leader-election-id", default="", metavar="NAME", help="name of that Lease; needed with --leader-elect")
    add(
        "--leader-election-namespace",
        default="",
        metavar="NAMESPACE",
        help="where that Lease is (default: the Pod's namespace)",
    )
    add("--metrics-bind-address", "--metrics-addr", help="not built yet")
    for flag in ("--metrics-secure", "--metrics-require-rbac", "--enable-http2", "--suppress-override-values"):
        add(flag, **_SWITCH, help="taken for operator-sdk's sake; no effect yet")
    for flag in (
        "--zap-stacktrace-level",
        "--zap-time-encoding",
    ):
        add(flag, help="taken for operator-sdk's sake; no effect yet")


def _switch(text: str) -> bool:
    """Read a Go flag's boolean: `--flag`, `--flag=true` or `--flag=false`."""
    if text.lower() in ("1", "t", "true"):
        return True
    if text.lower() in ("0", "f", "false"):
        return False
    raise ValueError(f"{text!r} is neither true nor false")


def _positive_duration(text: str) -> float:
    seconds = parse_duration(text)
    if seconds <= 0:
        raise ValueError(f"{text!r} is not above zero")
    return seconds


def _positive_integer(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise ValueError(f"{text!r} is not a whole number of at least 1")
    return int(text)


def _address(text: str) -> str:
    parse_address(text)
    return text


def _level(text: str) -> int:
    if text.lower() in _LEVELS:
        return _LEVELS[text.lower()]
    if text.isdecimal() and int(text) > 0:  # zap: any number above 0 means more than info.
        return logging.DEBUG
    raise ValueError(f"{text!r} is not a level: debug, info, error, panic or a number above 0")


def _checked(read: Callable[[str], Any]) -> Callable[[str], Any]:
    """Make argparse show a reader's own message."""

    def checked(text: str) -> Any:
        try:
            return read(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return checked


_SWITCH: Final[dict[str, Any]] = {"type": _checked(_switch), "nargs": "?", "const": True, "default": False}
_TRISTATE: Final = {**_SWITCH, "default": None}
"""A switch of which is known whether it was given."""
