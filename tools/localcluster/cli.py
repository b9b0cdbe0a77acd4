"""The commands: build, run, up, down, status."""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import os
import shlex
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from tools.localcluster.build import (
    CLIENT_TOOLS,
    PLANE_TOOLS,
    TOOLS,
    Builder,
    ToolSources,
    client_environment,
    default_cache,
    find_tools,
)
from tools.localcluster.errors import Interrupted, LocalClusterError
from tools.localcluster.plane import ControlPlane
from tools.localcluster.process import Signals, run_guarded

_FAILED: Final = 1
_NOT_RUNNING: Final = 3  # systemctl's code for it
_NOT_FOUND: Final = 127  # a shell's

_DESCRIPTION: Final = """\
A local Kubernetes control plane (etcd, API server, controller manager, scheduler, kwok with one Node) for development
and tests, and Helm 4 and 3, all built from pinned Go modules; Linux only. The first build takes about ten minutes.
"""
_EPILOG: Final = """\
environment: KUBEBUILDER_ASSETS (a folder with etcd, kube-apiserver and kubectl, used instead of building these),
LOCALCLUSTER_USE_PATH_TOOLS=1 (as --use-path-tools), XDG_CACHE_HOME (where builds are kept)
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return the exit code."""
    options = _parser().parse_args(arguments)
    if sys.platform != "linux":
        print(
            "localcluster: only Linux can guarantee that no process is left; use a Linux machine or container",
            file=sys.stderr,
        )
        return _FAILED
    with Signals() as signals:
        try:
            code = int(options.action(options, signals))
            sys.stdout.flush()
        except LocalClusterError as error:
            print(f"localcluster: {error}", file=sys.stderr)
            return _FAILED
        except BrokenPipeError:
            # The reader (`| head`) has what it wanted. Python would complain once more when it closes the stream.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 0
        except Interrupted as interruption:
            print("localcluster: interrupted", file=sys.stderr)
            return 128 + interruption.signum
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tools.localcluster", description=_DESCRIPTION, epilog=_EPILOG)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    build = commands.add_parser("build", help="build what is missing in the cache")
    build.add_argument(
        "tools", nargs="*", metavar="TOOL", help=f"only these of: {', '.join(tool.name for tool in TOOLS)}"
    )
    build.set_defaults(action=_build)

    run = commands.add_parser("run", help="run a command against a new control plane, which ends with the command")
    _add_sources(run)
    _add_audit(run)
    run.add_argument(
        "--use-existing-cluster", action="store_true", help="start none: use the cluster of the variable KUBECONFIG"
    )
    run.add_argument("--logs", type=Path, metavar="DIR", help="copy the control plane's logs there at the end")
    run.add_argument("command", nargs=argparse.REMAINDER, metavar="-- COMMAND…")
    run.set_defaults(action=_run)

    up = commands.add_parser("up", help="start a control plane that stays")
    _add_sources(up)
    _add_audit(up)
    _add_state(up)
    up.set_defaults(action=_up)

    down = commands.add_parser("down", help="stop it, and remove its data")
    _add_state(down)
    down.add_argument("--keep-logs", action="store_true", help="leave the logs in the state folder")
    down.set_defaults(action=_down)

    status = commands.add_parser("status", help=f"tell what runs; exit code {_NOT_RUNNING} unless all does")
    _add_state(status)
    status.set_defaults(action=_status)
    return parser


def _add_sources(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--use-path-tools",
        action="store_true",
        default=os.environ.get("LOCALCLUSTER_USE_PATH_TOOLS", "") not in ("", "0", "false"),
        help="take helm and kubectl from PATH",
    )


def _add_audit(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--audit", action="store_true", help="write an audit log of all requests")


def _add_state(parser: argparse.ArgumentParser) -> None:
    default = default_cache().with_name("localcluster-state")
    parser.add_argument("--state", type=Path, default=default, metavar="DIR", help="the state folder (%(default)s)")


def _sources(options: argparse.Namespace) -> ToolSources:
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    return ToolSources(Path(assets) if assets else None, options.use_path_tools)


def _build(options: argparse.Namespace, signals: Signals) -> int:
    names = [tool.name for tool in TOOLS]
    unknown = [name for name in options.tools if name not in names]
    if unknown:
        raise LocalClusterError(f"unknown tools {', '.join(unknown)}: there are {', '.join(names)}")
    for name, path in Builder(check=signals.check).build(options.tools or None).items():
        print(f"{name}\t{path}")
    return 0


def _up(options: argparse.Namespace, signals: Signals) -> int:
    if (options.state / "state.json").exists():
        plane = ControlPlane.attach(options.state)
        running = [process is not None for process in plane.status().values()]
        if all(running):
            print("runs already")
            _print_export(plane)
            return 0
        if any(running):
            raise LocalClusterError(f"the control plane in {options.state} runs in part: stop it with `down` first")
    tools = find_tools({*PLANE_TOOLS, *CLIENT_TOOLS}, _sources(options), Builder(check=signals.check))
    plane = ControlPlane(options.state, tools=tools, detach=True, audit=options.audit, check=signals.check)
    plane.start()
    print(f"ready in {plane.ready_after:.1f} s at {plane.url}, logs in {plane.logs}")
    _print_export(plane)
    return 0


def _print_export(plane: ControlPlane) -> None:
    print(f"export KUBECONFIG={shlex.quote(str(plane.kubeconfig))}")
    variables = client_environment(plane.tools, "$PATH")
    # Not quoted as a whole: the shell shall put in its own PATH.
    print(f'export PATH="{variables.pop("PATH")}"')
    for name, value in variables.items():
        print(f"export {name}={shlex.quote(value)}")


def _down(options: argparse.Namespace, signals: Signals) -> int:
    del signals  # what stops is not interrupted
    if not (options.state / "state.json").exists():
        if not options.keep_logs:
            shutil.rmtree(options.state / "logs", ignore_errors=True)
        print(f"nothing runs in {options.state}")
        return 0
    started = time.monotonic()
    ControlPlane.attach(options.state).stop(keep_logs=options.keep_logs)
    if not options.keep_logs:
        with contextlib.suppress(OSError):
            options.state.rmdir()  # not when it holds files of others
    print(f"stopped in {time.monotonic() - started:.1f} s")
    return 0


def _status(options: argparse.Namespace, signals: Signals) -> int:
    del signals
    if not (options.state / "state.json").exists():
        print(f"nothing runs in {options.state}")
        return _NOT_RUNNING
    plane = ControlPlane.attach(options.state)
    processes = plane.status()
    for name, process in processes.items():
        print(f"{name}\t{f'pid {process.pid}' if process else 'ended'}")
    if not all(processes.values()):
        return _NOT_RUNNING
    try:
        code, _ = plane.request("GET", "/readyz")
    except OSError as error:
        print(f"{plane.url} does not answer: {error}")
        return _NOT_RUNNING
    print(f"{plane.url} /readyz {code}")
    _print_export(plane)
    return 0 if code == 200 else _NOT_RUNNING


def _run(options: argparse.Namespace, signals: Signals) -> int:
    command = options.command[1:] if options.command[:1] == ["--"] else options.command
    if not command:
        raise LocalClusterError("run what? `run -- COMMAND…`")
    builder = Builder(check=signals.check)
    if options.use_existing_cluster:
        if not os.environ.get("KUBECONFIG"):
            raise LocalClusterError(
                "--use-existing-cluster needs the variable KUBECONFIG: the default cluster is never used unasked"
            )
        tools = find_tools(CLIENT_TOOLS, _sources(options), builder)
        environment = os.environ | client_environment(tools, os.environ.get("PATH", os.defpath))
        return run_guarded(command, environment, signals) if _can_run(command, environment) else _NOT_FOUND
    tools = find_tools({*PLANE_TOOLS, *CLIENT_TOOLS}, _sources(options), builder)
    environment = os.environ | client_environment(tools, os.environ.get("PATH", os.defpath))
    # Asked before anything is started.
    if not _can_run(command, environment):
        return _NOT_FOUND
    with _run_folder() as folder:
        plane = ControlPlane(folder, tools=tools, audit=options.audit, check=signals.check)
        try:
            plane.start()
            print(f"localcluster: ready in {plane.ready_after:.1f} s at {plane.url}", file=sys.stderr, flush=True)
            environment |= {"KUBECONFIG": str(plane.kubeconfig), "LOCALCLUSTER_STATE": str(folder)}
            return run_guarded(command, environment, signals)
        finally:
            _stop_run(plane, folder, options.logs)


def _can_run(command: Sequence[str], environment: dict[str, str]) -> bool:
    if shutil.which(command[0], path=environment["PATH"]):
        return True
    print(f"localcluster: {command[0]} is not found", file=sys.stderr)
    return False


def _stop_run(plane: ControlPlane, folder: Path, logs: Path | None) -> None:
    # The command may have restarted processes through `attach`; state.json knows them.
    for each in (plane, ControlPlane.attach(folder)) if (folder / "state.json").exists() else (plane,):
        each.stop(keep_logs=True)
    if logs is not None and plane.logs.exists():
        shutil.copytree(plane.logs, logs, dirs_exist_ok=True)


@contextlib.contextmanager
def _run_folder() -> Iterator[Path]:
    """Make a folder for one run; remove it, and those of earlier runs that could not (SIGKILL), by their free locks."""
    runs = default_cache().with_name("localcluster-runs")
    runs.mkdir(parents=True, exist_ok=True)
    for old in runs.glob("run-*/lock"):
        with contextlib.suppress(OSError), old.open() as lock:  # held by a run, or just now removed by another sweep
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(old.parent, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(prefix="run-", dir=runs))
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)
