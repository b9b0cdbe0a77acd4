"""The control plane of tools/localcluster and its commands, with scripts in place of the real programs."""

import socket
from pathlib import Path

import pytest

from tools.localcluster import ControlPlane, cli
from tools.localcluster import plane as plane_module
from tools.localcluster.build import PLANE_TOOLS
from tools.localcluster.errors import Interrupted, LocalClusterError, PortTakenError


def executable(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def tools(tmp_path: Path) -> dict[str, Path]:
    return {name: executable(tmp_path / "tools" / name, "exec sleep 60") for name in PLANE_TOOLS}


class TestStart:
    def test_tells_the_last_lines_of_what_ended(self, tmp_path: Path, tools: dict[str, Path]) -> None:
        executable(tools["etcd"], "echo no space; exit 1")
        plane = ControlPlane(tmp_path / "state", tools=tools)

        with pytest.raises(LocalClusterError, match=r"etcd ended; the last lines of .*/etcd\.log:\nno space"):
            plane.start()

        assert plane.status() == {}
        assert [path.name for path in (tmp_path / "state").iterdir()] == ["logs"]

    def test_a_taken_port_is_tried_once_more(self, tmp_path: Path, tools: dict[str, Path]) -> None:
        count = tmp_path / "count"
        executable(tools["etcd"], f"echo x >> {count}; echo 'listen tcp: bind: address already in use'; exit 1")

        with pytest.raises(PortTakenError):
            ControlPlane(tmp_path / "state", tools=tools).start()

        assert count.read_text() == "x\nx\n"

    def test_an_interruption_stops_what_was_started(self, tmp_path: Path, tools: dict[str, Path]) -> None:
        started = []

        def check() -> None:
            started.extend(plane.status().values())
            raise Interrupted(15)

        plane = ControlPlane(tmp_path / "state", tools=tools, check=check)
        with pytest.raises(Interrupted):
            plane.start()

        assert len(started) == 1
        assert not started[0].alive

    def test_time_is_limited(self, tmp_path: Path, tools: dict[str, Path]) -> None:
        with pytest.raises(LocalClusterError, match="etcd is not ready; the logs are in"):
            ControlPlane(tmp_path / "state", tools=tools).start(timeout=0.1)

    def test_lacks_a_tool(self, tmp_path: Path) -> None:
        with pytest.raises(LocalClusterError, match="cannot run without etcd"):
            ControlPlane(tmp_path, tools={}).start()

    def test_twice(self, tmp_path: Path, tools: dict[str, Path]) -> None:
        plane = ControlPlane(tmp_path / "state", tools=tools)
        plane._prepare()
        try:
            plane._spawn("etcd", [])
            with pytest.raises(LocalClusterError, match="runs already"):
                plane.start()
        finally:
            plane.stop()


class TestState:
    def test_another_process_can_stop_it(self, tmp_path: Path, tools: dict[str, Path]) -> None:
        plane = ControlPlane(tmp_path / "state", tools=tools, audit=True)
        plane._prepare()
        plane._spawn("etcd", [])
        url = plane.url

        other = ControlPlane.attach(tmp_path / "state")
        assert (other.url, other.audit_log, dict(other.tools)) == (url, plane.audit_log, tools)
        assert other.status() == plane.status()
        other.stop()

        assert plane.status() == {"etcd": None}
        plane.stop()
        assert list((tmp_path / "state").iterdir()) == []

    def test_secrets_are_the_owners(self, tmp_path: Path, tools: dict[str, Path]) -> None:
        plane = ControlPlane(tmp_path / "state", tools=tools)
        plane._prepare()
        plane._certificate.write_text("certificate")
        plane._write_kubeconfig()

        assert plane.kubeconfig.stat().st_mode & 0o077 == 0
        assert (plane.state_dir / "secrets").stat().st_mode & 0o077 == 0
        assert (plane.state_dir / "certs").stat().st_mode & 0o077 == 0

    def test_nothing_there(self, tmp_path: Path) -> None:
        with pytest.raises(LocalClusterError, match="no control plane in"):
            ControlPlane.attach(tmp_path)

        with pytest.raises(LocalClusterError, match="was not started"):
            _ = ControlPlane(tmp_path, tools={}).url

    def test_audit_events_skip_the_line_being_written(self, tmp_path: Path) -> None:
        plane = ControlPlane(tmp_path, tools={}, audit=True)
        assert list(plane.audit_events()) == []

        plane.logs.mkdir()
        assert plane.audit_log is not None
        plane.audit_log.write_text('{"verb": "get"}\n{"verb": "li')

        assert list(plane.audit_events()) == [{"verb": "get"}]


class TestPorts:
    def test_are_not_those_of_outgoing_connections(self) -> None:
        lowest, highest = map(int, Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split())
        ports = plane_module._free_ports(5)

        assert len(set(ports)) == 5
        assert not any(lowest <= port <= highest for port in ports)

    def test_a_listener_is_seen(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            assert not plane_module._is_free(listener.getsockname()[1])


class TestCommands:
    @pytest.fixture(autouse=True)
    def _surroundings(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
        for name in ("KUBECONFIG", "KUBEBUILDER_ASSETS"):
            monkeypatch.delenv(name, raising=False)
        executable(tmp_path / "path" / "kubectl", "")
        executable(tmp_path / "path" / "helm", "echo v4.3.1")
        monkeypatch.setenv("PATH", f"{tmp_path / 'path'}:/usr/bin:/bin")
        monkeypatch.setenv("LOCALCLUSTER_USE_PATH_TOOLS", "1")

    def test_existing_cluster(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("KUBECONFIG", "/some/config")
        script = f'echo "$KUBECONFIG $HELM_OPERATOR_HELM4" > {tmp_path}/out; exit 9'

        assert cli.main(["run", "--use-existing-cluster", "--", "sh", "-c", script]) == 9

        assert (tmp_path / "out").read_text() == f"/some/config {tmp_path}/path/helm\n"

    def test_existing_cluster_must_be_named(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert cli.main(["run", "--use-existing-cluster", "--", "true"]) == 1
        assert "needs the variable KUBECONFIG" in capsys.readouterr().err

    def test_a_command_that_is_not_found(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setenv("KUBECONFIG", "/some/config")

        assert cli.main(["run", "--use-existing-cluster", "--", "no-such-command"]) == 127
        assert "no-such-command is not found" in capsys.readouterr().err

    def test_no_command(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert cli.main(["run"]) == 1
        assert "run what?" in capsys.readouterr().err

    def test_a_failed_start_leaves_its_logs_when_asked(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tools: dict[str, Path]
    ) -> None:
        executable(tools["etcd"], "echo no space; exit 1")
        monkeypatch.setattr(cli, "find_tools", lambda *_: tools)

        assert cli.main(["run", "--logs", str(tmp_path / "logs"), "--", "true"]) == 1

        assert (tmp_path / "logs" / "etcd.log").read_text() == "no space\n"
        assert list((tmp_path / "cache/helm-operator/localcluster-runs").iterdir()) == []

    def test_what_a_killed_run_left_is_removed(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tools: dict[str, Path]
    ) -> None:
        runs = tmp_path / "cache/helm-operator/localcluster-runs"
        (runs / "run-old").mkdir(parents=True)
        (runs / "run-old" / "lock").touch()

        with cli._run_folder() as first, cli._run_folder() as second:
            assert sorted(runs.iterdir()) == sorted([first, second])

    def test_nothing_runs(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert cli.main(["status", "--state", str(tmp_path / "none")]) == 3
        assert cli.main(["down", "--state", str(tmp_path / "none")]) == 0
        assert "nothing runs in" in capsys.readouterr().out

    def test_status_and_down(self, tmp_path: Path, tools: dict[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
        plane = ControlPlane(tmp_path / "state", tools=tools)
        plane._prepare()
        plane._spawn("etcd", [])
        pid = plane.status()["etcd"].pid
        state = str(tmp_path / "state")

        assert cli.main(["status", "--state", state]) == 3  # no API server answers
        assert f"etcd\tpid {pid}" in capsys.readouterr().out
        assert cli.main(["down", "--state", state]) == 0
        assert not Path(state).exists()
        plane.stop()

    def test_unknown_tool(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert cli.main(["build", "nginx"]) == 1
        assert "unknown tools nginx: there are etcd, kwok, helm4" in capsys.readouterr().err
