"""The build of tools/localcluster, with a script in place of go."""

import fcntl
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tools.localcluster import build as build_module
from tools.localcluster.build import Builder, Tool, ToolSources, client_environment, default_cache, find_tools
from tools.localcluster.errors import Interrupted, LocalClusterError

ONE = Tool(
    "one", "m1", "example.com/one", "example.com/one/cmd", "one", ("example.com/one.version={v}/{major}.{minor}",)
)
TWO = Tool("two", "m2", "example.com/two", "example.com/two", "two/two")

# Notes each build's arguments in $FAKE_LOG; FAKE_FAIL fails the named package, FAKE_SLEEP (seconds) delays each.
GO = """#!/bin/sh
if [ "$1" = env ]; then
    echo "{\\"GOVERSION\\": \\"${FAKE_VERSION:-go1.26.8}\\", \\"GOOS\\": \\"linux\\", \\"GOARCH\\": \\"amd64\\"}"
    exit 0
fi
echo "$CGO_ENABLED $*" >> "$FAKE_LOG"
for package; do :; done
[ "$FAKE_FAIL" = "$package" ] && { echo "first line"; echo "cannot compile $package"; exit 2; }
while [ "$1" != -o ]; do shift; done
echo half > "$2"
[ -n "$FAKE_SLEEP" ] && sleep "$FAKE_SLEEP"
echo whole > "$2"
chmod +x "$2"
"""


class World:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = folder / "calls"
        folder.mkdir(exist_ok=True)
        self.log.touch()
        self.said: list[str] = []
        self.modules = folder / "modules"
        for tool in (ONE, TWO):
            module = self.modules / tool.module
            module.mkdir(parents=True)
            (module / "go.mod").write_text(f"module m\n\ngo 1.26.0\n\nrequire {tool.requirement} v1.36.3\n")
            (module / "go.sum").write_text("sums\n")
            (module / "tools.go").write_text("package tools\n")

    def builder(self, **more: object) -> Builder:
        return Builder(
            cache=self.folder / "cache", modules=self.modules, tools=(ONE, TWO), say=self.said.append, **more
        )

    def calls(self) -> list[str]:
        return self.log.read_text().splitlines()

    def unfinished(self) -> list[Path]:
        return list((self.folder / "cache").glob(".unfinished-*"))


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    world = World(tmp_path)
    go = tmp_path / "bin" / "go"
    go.parent.mkdir()
    go.write_text(GO)
    go.chmod(0o755)
    monkeypatch.setenv("PATH", f"{go.parent}:/usr/bin:/bin")
    monkeypatch.setenv("FAKE_LOG", str(world.log))
    return world


def executable(path: Path, text: str = "#!/bin/sh\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


class TestBuild:
    def test_builds_everything_once(self, world: World) -> None:
        paths = world.builder().build()

        assert {name: path.read_text() for name, path in paths.items()} == {"one": "whole\n", "two": "whole\n"}
        assert os.access(paths["one"], os.X_OK)
        assert world.builder().build() == paths
        assert len(world.calls()) == 2

    def test_passes_the_version_that_the_module_requires(self, world: World) -> None:
        world.builder().build(["one"])

        (call,) = world.calls()
        assert call.startswith(
            "0 build -mod=readonly -trimpath -ldflags -s -w -X example.com/one.version=v1.36.3/1.36 -o "
        )
        assert call.endswith(" example.com/one/cmd")

    def test_tells_start_end_and_total(self, world: World) -> None:
        world.builder().build()

        assert [line.split(" in ")[0] for line in world.said] == [
            "[1/2] one: building example.com/one/cmd (go1.26.8 linux/amd64)",
            "[1/2] one: done",
            "[2/2] two: building example.com/two (go1.26.8 linux/amd64)",
            "[2/2] two: done",
            "built 2 tools",
        ]

    def test_tells_that_it_goes_on(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("FAKE_SLEEP", "0.4")

        world.builder(heartbeat=0.1).build(["one"])

        assert any("one: still building after 0 s" in line for line in world.said)

    def test_a_failure_shows_the_log(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("FAKE_FAIL", "example.com/two")

        with pytest.raises(LocalClusterError, match="building two failed") as caught:
            world.builder().build()

        message = str(caught.value)
        log = world.folder / "cache" / "logs" / "two.build.log"
        assert "first line\ncannot compile example.com/two" in message
        assert str(log) in message
        assert world.unfinished() == []

    def test_resumes_with_what_is_missing(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("FAKE_FAIL", "example.com/two")
        with pytest.raises(LocalClusterError):
            world.builder().build()
        monkeypatch.delenv("FAKE_FAIL")

        world.builder().build()

        assert [call.split()[-1] for call in world.calls()] == [
            "example.com/one/cmd",
            "example.com/two",
            "example.com/two",
        ]

    def test_an_interruption_leaves_nothing_half_done(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("FAKE_SLEEP", "60")

        def check() -> None:
            if world.calls():
                raise Interrupted(signal.SIGTERM)

        builder = world.builder(check=check)
        with pytest.raises(Interrupted):
            builder.build(["one"])

        assert not builder.path(ONE).exists()
        assert world.unfinished() == []

    def test_a_killed_build_takes_go_with_it_and_is_cleaned_up(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("FAKE_SLEEP", "60")
        code = (
            "import sys; from pathlib import Path; sys.path.insert(0, sys.argv[1])\n"
            "from tools.localcluster.build import Builder, Tool\n"
            f"Builder(cache=Path(sys.argv[2]), modules=Path(sys.argv[3]), tools=({ONE!r}, {TWO!r})).build(['one'])\n"
        )
        root = Path(__file__).parents[2]
        child = subprocess.Popen([sys.executable, "-c", code, root, world.folder / "cache", world.modules])
        half = eventually(lambda: [path for folder in world.unfinished() for path in folder.glob("one")])[0]
        child.kill()
        child.wait()

        monkeypatch.delenv("FAKE_SLEEP")
        paths = world.builder().build(["one"])

        assert paths["one"].read_text() == "whole\n"
        assert not half.exists()
        eventually(lambda: not any(str(half) in line for line in command_lines()))

    def test_two_builds_do_not_collide(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("FAKE_SLEEP", "0.2")
        threads = [threading.Thread(target=world.builder().build) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert len(world.calls()) == 2
        assert sum("waiting for it" in line for line in world.said) == 1

    def test_waiting_for_the_lock_can_be_interrupted(self, world: World) -> None:
        def check() -> None:
            raise Interrupted(signal.SIGINT)

        (world.folder / "cache").mkdir()
        with (world.folder / "cache" / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            with pytest.raises(Interrupted):
                world.builder(check=check).build()


class TestKey:
    @pytest.mark.parametrize("name", ["go.mod", "go.sum", "tools.go"])
    def test_depends_on_the_module(self, world: World, name: str) -> None:
        before = world.builder().key(ONE), world.builder().key(TWO)
        with (world.modules / "m1" / name).open("a") as file:
            file.write("// more\n")

        assert world.builder().key(ONE) != before[0]
        assert world.builder().key(TWO) == before[1]

    def test_depends_on_the_go_version(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        before = world.builder().key(ONE)
        monkeypatch.setenv("FAKE_VERSION", "go1.27.0")

        assert world.builder().key(ONE) != before

    def test_depends_on_the_flags(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        before = world.builder().key(ONE)
        monkeypatch.setattr(build_module, "_BUILD_FLAGS", ("-mod=readonly",))

        assert world.builder().key(ONE) != before

    def test_is_the_same_elsewhere(self, world: World, tmp_path: Path) -> None:
        other = World(tmp_path / "other")

        assert world.builder().key(ONE) == other.builder().key(ONE)

    def test_the_cache_follows_xdg(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
        assert default_cache() == Path("/somewhere/helm-operator/localcluster")

        monkeypatch.setenv("XDG_CACHE_HOME", "relative")
        assert default_cache() == Path.home() / ".cache/helm-operator/localcluster"


class TestGo:
    def test_missing(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PATH", str(world.folder))

        with pytest.raises(LocalClusterError, match=r"install Go >= 1\.26\.0 .*KUBEBUILDER_ASSETS.*--use-path-tools"):
            world.builder().build()

    @pytest.mark.parametrize("version", ["go1.25.9", "go1.9", "go1.26rc1"])
    def test_too_old(self, world: World, monkeypatch: pytest.MonkeyPatch, version: str) -> None:
        monkeypatch.setenv("FAKE_VERSION", version)

        with pytest.raises(LocalClusterError, match=rf"is {version}, which is too old: install Go >= 1\.26\.0"):
            world.builder().build()

    def test_development_version(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("FAKE_VERSION", "devel go1.27-0123abc")

        world.builder().build()

    def test_a_pin_that_go_mod_lacks(self, world: World) -> None:
        (world.modules / "m1" / "go.mod").write_text("module m\n\ngo 1.26.0\n")

        with pytest.raises(LocalClusterError, match=r"go\.mod does not require example\.com/one"):
            world.builder().build()


class TestSources:
    def test_assets_win_over_the_build(self, world: World, tmp_path: Path) -> None:
        assets = tmp_path / "assets"
        for name in ("etcd", "kube-apiserver", "kubectl"):
            executable(assets / name)

        found = find_tools(["etcd", "kubectl", "one"], ToolSources(assets=assets), world.builder())

        assert found["etcd"] == assets / "etcd"
        assert found["kubectl"] == assets / "kubectl"
        assert found["one"] == world.builder().path(ONE)

    def test_incomplete_assets(self, world: World, tmp_path: Path) -> None:
        with pytest.raises(LocalClusterError, match="lacks etcd, kubectl"):
            find_tools(["etcd", "kubectl"], ToolSources(assets=tmp_path), world.builder())

    @pytest.mark.parametrize("major", [3, 4])
    def test_path_tools_need_no_go(
        self, world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, major: int
    ) -> None:
        folder = tmp_path / "path"
        executable(folder / "kubectl")
        helm = executable(folder / "helm", f"#!/bin/sh\necho v{major}.1.2+g0\n")
        monkeypatch.setenv("PATH", str(folder))

        found = find_tools(["kubectl", "helm4", "helm3"], ToolSources(use_path=True), world.builder())

        assert found == {"kubectl": folder / "kubectl", f"helm{major}": helm}

    def test_path_lacks_helm(self, world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        executable(tmp_path / "path" / "kubectl")
        monkeypatch.setenv("PATH", str(tmp_path / "path"))

        with pytest.raises(LocalClusterError, match="helm is not on PATH"):
            find_tools(["kubectl", "helm4"], ToolSources(use_path=True), world.builder())

    def test_environment(self) -> None:
        tools = {"kubectl": Path("/k/kubectl"), "helm4": Path("/c/helm4/helm"), "helm3": Path("/c/helm3/helm")}

        assert client_environment(tools, "/bin") == {
            "PATH": "/k:/c/helm4:/bin",
            "HELM_OPERATOR_HELM4": "/c/helm4/helm",
            "HELM_OPERATOR_HELM3": "/c/helm3/helm",
        }


class TestPins:
    """The modules of this repository, without building them."""

    @pytest.mark.parametrize("tool", build_module.TOOLS, ids=lambda tool: tool.name)
    def test_each_module_pins_its_command(self, tool: Tool) -> None:
        module = build_module.MODULES / tool.module

        assert f'_ "{tool.package}"' in (module / "tools.go").read_text()
        assert f"{tool.requirement} v" in (module / "go.mod").read_text()
        assert (module / "go.sum").stat().st_size > 0

    def test_helm_is_named_helm(self) -> None:
        assert [tool.file for tool in build_module.TOOLS if tool.name.startswith("helm")] == [
            "helm4/helm",
            "helm3/helm",
        ]


def eventually(condition, timeout: float = 5.0):
    """Return the condition's first true value; fail after `timeout` seconds."""
    deadline = time.monotonic() + timeout
    while not (value := condition()):
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)
    return value


def command_lines() -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.append(path.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found
