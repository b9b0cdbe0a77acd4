"""The processes of tools/localcluster: none may be left, whatever ends first."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tools.localcluster import process as process_module
from tools.localcluster.errors import Interrupted
from tools.localcluster.process import (
    ProcessId,
    Signals,
    identify,
    kill_group,
    run_guarded,
    spawn,
    tail,
    wait_gone,
)

ROOT = Path(__file__).parents[2]
PREAMBLE = (
    "import sys, os, time; from pathlib import Path; sys.path.insert(0, sys.argv[1]); folder = Path(sys.argv[2])\n"
)


def python(code: str, folder: Path) -> subprocess.Popen[bytes]:
    """Run code as another process, as one would use the tool."""
    return subprocess.Popen([sys.executable, "-c", PREAMBLE + code, str(ROOT), str(folder)])


def eventually(condition, timeout: float = 5.0):
    """Return the condition's first true value; fail after `timeout` seconds."""
    deadline = time.monotonic() + timeout
    while not (value := condition()):
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)
    return value


def noted_pid(file: Path) -> ProcessId:
    return identify(int(eventually(lambda: file.exists() and file.read_text().strip())))


class TestSpawn:
    def test_dies_with_a_parent_that_is_killed(self, tmp_path: Path) -> None:
        parent = python(
            "from tools.localcluster.process import spawn\n"
            "child = spawn(['/bin/sleep', '60'], folder / 'log', detach=False)\n"
            "(folder / 'part').write_text(str(child.pid)); (folder / 'part').rename(folder / 'pid')\n"
            "time.sleep(60)\n",
            tmp_path,
        )
        child = noted_pid(tmp_path / "pid")
        assert child.alive

        parent.kill()
        parent.wait()

        assert wait_gone([child], timeout=5.0) == []

    def test_outlives_the_parent_when_detached(self, tmp_path: Path) -> None:
        parent = python(
            "from tools.localcluster.process import spawn\n"
            "child = spawn(['/bin/sleep', '60'], folder / 'log', detach=True)\n"
            "(folder / 'part').write_text(str(child.pid)); (folder / 'part').rename(folder / 'pid')\n"
            "os.kill(os.getpid(), 9)\n",
            tmp_path,
        )
        child = noted_pid(tmp_path / "pid")
        parent.wait()
        try:
            assert child.alive
        finally:
            child.send(signal.SIGKILL)
        assert wait_gone([child], timeout=5.0) == []

    def test_outlives_the_thread_that_asked_for_it(self, tmp_path: Path) -> None:
        children = []
        thread = threading.Thread(
            target=lambda: children.append(spawn(["/bin/sleep", "60"], tmp_path / "log", detach=False))
        )
        thread.start()
        thread.join()

        try:
            with pytest.raises(subprocess.TimeoutExpired):
                children[0].wait(timeout=0.2)
        finally:
            kill_group(children[0])

    def test_output_goes_to_the_log(self, tmp_path: Path) -> None:
        spawn(["/bin/sh", "-c", "echo out; echo err >&2"], tmp_path / "log", detach=False).wait()

        assert tail(tmp_path / "log") == "out\nerr"


class TestProcessId:
    def test_another_process_with_the_same_pid_is_not_it(self) -> None:
        assert identify(os.getpid()).alive
        assert not ProcessId(os.getpid(), started=1).alive

    def test_a_child_that_ended_is_not_alive_before_it_is_waited_for(self) -> None:
        child = subprocess.Popen(["/bin/true"])
        identity = identify(child.pid)
        try:
            assert wait_gone([identity], timeout=5.0) == []
            identity.send(signal.SIGTERM)
            assert child.returncode is None
        finally:
            child.wait()

    def test_those_that_stay_are_told(self) -> None:
        child = subprocess.Popen(["/bin/sleep", "60"], start_new_session=True)
        identity = identify(child.pid)

        assert wait_gone([identity], timeout=0.05) == [identity]
        kill_group(child)
        assert wait_gone([identity], timeout=0.05) == []


class TestGuard:
    def run(self, *command: str) -> int:
        with Signals() as signals:
            return run_guarded(command, os.environ, signals)

    @pytest.mark.parametrize(
        ("script", "code"), [("exit 0", 0), ("exit 7", 7), ("kill -9 $$", 137), ("kill -15 $$", 143)]
    )
    def test_exit_code(self, script: str, code: int) -> None:
        assert self.run("sh", "-c", script) == code

    def test_missing_command(self, capfd: pytest.CaptureFixture[str]) -> None:
        assert self.run("/no/such/command") == 127
        assert "/no/such/command: No such file" in capfd.readouterr().err

    def test_daemons_of_the_command_are_ended(self, tmp_path: Path) -> None:
        file = tmp_path / "pid"

        assert self.run("sh", "-c", f"setsid sh -c 'echo $$ > {file}.part; mv {file}.part {file}; sleep 60' & "
                        f"while [ ! -e {file} ]; do sleep 0.01; done") == 0  # fmt: skip

        assert not identify(int(file.read_text())).alive

    def test_everything_ends_when_the_tool_is_killed(self, tmp_path: Path) -> None:
        tool = python(
            "from tools.localcluster.process import Signals, run_guarded\n"
            "os.chdir(folder)\n"
            "script = 'setsid sh -c \"echo \\\\$\\\\$ > a.part; mv a.part a; sleep 60\" & '\\\n"
            "    'echo $$ > b.part; mv b.part b; trap \"\" TERM INT HUP; sleep 60; sleep 60'\n"
            "with Signals() as signals: run_guarded(['sh', '-c', script], os.environ, signals)\n",
            tmp_path,
        )
        processes = [noted_pid(tmp_path / "a"), noted_pid(tmp_path / "b")]
        assert all(process.alive for process in processes)

        tool.kill()
        tool.wait()

        assert wait_gone(processes, timeout=5.0) == []

    @pytest.mark.parametrize(
        ("signum", "trap", "code"), [("TERM", "exit 5", 5), ("HUP", "exit 6", 6), ("INT", "exit 4", 4)]
    )
    def test_signals_are_handed_on(self, tmp_path: Path, signum: str, trap: str, code: int) -> None:
        # Without a terminal, so that SIGINT is handed on as well.
        tool = python(
            "os.dup2(os.open('/dev/null', os.O_RDONLY), 0)\n"
            "from tools.localcluster.process import Signals, run_guarded\n"
            f"script = 'trap \"{trap}\" {signum}; touch ' + str(folder / 'up') + '; while :; do sleep 0.02; done'\n"
            "with Signals() as signals: sys.exit(run_guarded(['sh', '-c', script], os.environ, signals))\n",
            tmp_path,
        )
        eventually((tmp_path / "up").exists)
        tool.send_signal(getattr(signal, f"SIG{signum}"))

        assert tool.wait(timeout=5.0) == code

    def test_who_ignores_the_signal_is_killed(self, tmp_path: Path) -> None:
        tool = python(
            "from tools.localcluster.process import Signals, run_guarded\n"
            "script = 'trap \"\" TERM; touch ' + str(folder / 'up') + '; while :; do sleep 0.02; done'\n"
            "with Signals() as signals: sys.exit(run_guarded(['sh', '-c', script], os.environ, signals, grace=0.1))\n",
            tmp_path,
        )
        eventually((tmp_path / "up").exists)
        tool.terminate()

        assert tool.wait(timeout=5.0) == 137


class TestSignals:
    def test_are_noted_until_asked_for(self) -> None:
        before = signal.getsignal(signal.SIGTERM)
        with Signals() as signals:
            signals.check()
            os.kill(os.getpid(), signal.SIGTERM)
            with pytest.raises(Interrupted) as caught:
                eventually(signals.check)
            signals.check()

        assert caught.value.signum == signal.SIGTERM
        assert signal.getsignal(signal.SIGTERM) is before


def test_tail(tmp_path: Path) -> None:
    log = tmp_path / "log"
    assert tail(log) == "(no log)"
    log.touch()
    assert tail(log) == "(the log is empty)"
    log.write_bytes(b"\xff" * 20_000 + b"\n" + b"".join(b"%d\n" % n for n in range(100)))
    assert tail(log, lines=2) == "98\n99"


def test_the_scripts_are_there() -> None:
    assert process_module._SCRIPT.is_file()
    assert process_module._GUARD.is_file()
