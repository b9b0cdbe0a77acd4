"""Builds the tools from the pinned Go modules into a cache whose keys are hashes of all that goes in."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tools.localcluster.errors import LocalClusterError
from tools.localcluster.process import dying_with_parent, kill_group, tail

MODULES: Final = Path(__file__).parent / "modules"
_BUILD_FLAGS: Final = ("-mod=readonly", "-trimpath")
_ENVIRONMENT: Final = {"CGO_ENABLED": "0", "GOWORK": "off"}
"""Static binaries, and no go.work of some parent folder."""
_STAGES: Final = ("node/fast", "pod/fast")


@dataclass(frozen=True)
class Tool:
    """One command to build.

    `file` is the path inside the tool's cache folder. `{v}`, `{major}` and `{minor}` in `variables` stand for the
    version that the module's go.mod requires, so that a version is written in one place only.
    """

    name: str
    module: str
    requirement: str
    package: str
    file: str
    variables: tuple[str, ...] = ()


def _kubernetes(name: str) -> Tool:
    # Without these, `.Capabilities.KubeVersion` in charts would be v0.0.0-master.
    version = "k8s.io/component-base/version."
    variables = (f"{version}gitVersion={{v}}", f"{version}gitMajor={{major}}", f"{version}gitMinor={{minor}}")
    return Tool(name, "kubernetes", "k8s.io/kubernetes", f"k8s.io/kubernetes/cmd/{name}", name, variables)


def _helm(major: int) -> Tool:
    # Helm takes its field manager for server-side apply from its executable's name: it must be `helm`, in a folder
    # of its own. Without the version variable, pyhelm3 takes it for an unknown Helm.
    module = f"helm.sh/helm/v{major}"
    variables = (f"{module}/internal/version.version={{v}}",)
    return Tool(f"helm{major}", f"helm{major}", module, f"{module}/cmd/helm", f"helm{major}/helm", variables)


TOOLS: Final[tuple[Tool, ...]] = (
    # Short ones first: an interruption then loses least. kubectl and the API server compile what the last two share.
    Tool("etcd", "etcd", "go.etcd.io/etcd/server/v3", "go.etcd.io/etcd/server/v3", "etcd"),
    Tool("kwok", "kwok", "sigs.k8s.io/kwok", "sigs.k8s.io/kwok/cmd/kwok", "kwok"),
    _helm(4),
    _helm(3),
    _kubernetes("kubectl"),
    _kubernetes("kube-apiserver"),
    _kubernetes("kube-controller-manager"),
    _kubernetes("kube-scheduler"),
)

PLANE_TOOLS: Final = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok", "kubectl")
CLIENT_TOOLS: Final = ("kubectl", "helm4", "helm3")
_ASSETS: Final = ("etcd", "kube-apiserver", "kubectl")
"""What controller-runtime's envtest expects in KUBEBUILDER_ASSETS."""


def default_cache() -> Path:
    """Return `helm-operator/localcluster` in the user's folder for caches: `$XDG_CACHE_HOME`, or `~/.cache`."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    # The XDG specification tells programs to ignore relative paths.
    root = Path(base) if base.startswith("/") else Path.home() / ".cache"
    return root / "helm-operator" / "localcluster"


@dataclass
class Builder:
    """Builds tools into `cache`; what is there already is not built again.

    `heartbeat` is in seconds. `check` is called several times a second while something is awaited; it may raise to
    end the build, which leaves nothing half-done.
    """

    cache: Path = field(default_factory=default_cache)
    modules: Path = MODULES
    tools: tuple[Tool, ...] = TOOLS
    heartbeat: float = 10.0
    say: Callable[[str], None] = lambda line: print(line, flush=True)
    check: Callable[[], None] = lambda: None
    _go: tuple[str, str] | None = field(default=None, init=False, repr=False)

    def path(self, tool: Tool) -> Path:
        """Return where the tool's executable is, or will be.

        Raises:
            LocalClusterError: Go is missing or too old.
        """
        return self._folder(tool) / tool.file

    def key(self, tool: Tool) -> str:
        """Return the hash of all that decides about the binary: module, flags, Go's version and platform.

        Raises:
            LocalClusterError: Go is missing or too old.
        """
        digest = hashlib.sha256()
        folder = self.modules / tool.module
        for name in ("go.mod", "go.sum", "tools.go"):
            content = (folder / name).read_bytes()
            digest.update(f"{name} {len(content)}\n".encode() + content)
        flags = [tool.package, tool.file, *self._flags(tool), *(f"{k}={v}" for k, v in sorted(_ENVIRONMENT.items()))]
        digest.update("\0".join([*flags, self._find_go()[1]]).encode())
        return digest.hexdigest()[:16]

    def missing(self, names: Iterable[str]) -> list[Tool]:
        """Return those of the named tools that must be built, in the order in which they will be.

        Raises:
            LocalClusterError: Go is missing or too old.
        """
        wanted = set(names)
        return [tool for tool in self.tools if tool.name in wanted and not self.path(tool).exists()]

    def build(self, names: Iterable[str] | None = None) -> dict[str, Path]:
        """Build the named tools (all without names) as far as they are missing; return their executables' paths.

        Raises:
            LocalClusterError: Go is missing or too old, or a build failed.
        """
        wanted = [tool.name for tool in self.tools] if names is None else list(names)
        if self.missing(wanted):
            with self._lock():
                self._remove_leftovers()
                started = time.monotonic()
                # Asked again: whoever held the lock may have built them.
                missing = self.missing(wanted)
                for number, tool in enumerate(missing, start=1):
                    self._build(tool, f"[{number}/{len(missing)}]")
                if missing:
                    self.say(
                        f"built {len(missing)} tools in {time.monotonic() - started:.1f} s, cached in {self.cache}"
                    )
        return {tool.name: self.path(tool) for tool in self.tools if tool.name in wanted}

    def _folder(self, tool: Tool) -> Path:
        return self.cache / f"{tool.name}-{self.key(tool)}"

    def _flags(self, tool: Tool) -> list[str]:
        version = _required_version(self.modules / tool.module / "go.mod", tool.requirement)
        major, minor = version.removeprefix("v").split(".")[:2]
        variables = [text.format(v=version, major=major, minor=minor) for text in tool.variables]
        return [*_BUILD_FLAGS, "-ldflags", " ".join(["-s -w", *(f"-X {variable}" for variable in variables)])]

    def _find_go(self) -> tuple[str, str]:
        """Return Go's path and a line with its version and platform."""
        if self._go is None:
            needed = max((_go_directive(self.modules / tool.module / "go.mod") for tool in self.tools), default=(0,))
            readable = ".".join(map(str, needed))
            remedy = (
                f"install Go >= {readable} (https://go.dev/dl/), or take what is there with KUBEBUILDER_ASSETS "
                "(a folder with etcd, kube-apiserver and kubectl) and --use-path-tools (helm and kubectl from PATH)"
            )
            go = shutil.which("go")
            if go is None:
                raise LocalClusterError(f"building the local control plane needs Go, which is not on PATH: {remedy}")
            # Asked inside a module: Go may switch to the toolchain that the module names.
            answer = subprocess.run(
                [go, "env", "-json", "GOVERSION", "GOOS", "GOARCH"],
                cwd=self.modules / self.tools[0].module,
                env=os.environ | _ENVIRONMENT,
                capture_output=True,
                text=True,
                check=False,
            )
            if answer.returncode:
                raise LocalClusterError(f"{go} does not work ({answer.stderr.strip()}): {remedy}")
            facts = json.loads(answer.stdout)
            found = _version(facts["GOVERSION"])
            if found < needed:
                raise LocalClusterError(f"{go} is {facts['GOVERSION']}, which is too old: {remedy}")
            self._go = go, f"{facts['GOVERSION']} {facts['GOOS']}/{facts['GOARCH']}"
        return self._go

    @contextlib.contextmanager
    def _lock(self) -> Iterator[None]:
        self.cache.mkdir(parents=True, exist_ok=True)
        with (self.cache / "lock").open("a+") as file:
            waiting = False
            while True:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if not waiting:
                        self.say(f"another build holds {file.name}: waiting for it")
                    waiting = True
                self.check()
                time.sleep(0.1)
            yield

    def _remove_leftovers(self) -> None:
        # Only the lock's holder builds, so whatever is unfinished now was interrupted.
        for folder in self.cache.glob(".unfinished-*"):
            shutil.rmtree(folder, ignore_errors=True)

    def _build(self, tool: Tool, position: str) -> None:
        self.say(f"{position} {tool.name}: building {tool.package} ({self._find_go()[1]})")
        started = time.monotonic()
        unfinished = Path(tempfile.mkdtemp(prefix=f".unfinished-{tool.name}-", dir=self.cache))
        try:
            output = unfinished / tool.file
            output.parent.mkdir(exist_ok=True)
            self._go_run(tool, ["build", *self._flags(tool), "-o", str(output), tool.package], started)
            if tool.name == "kwok":
                self._copy_stages(tool, unfinished)
            self._publish(unfinished, self._folder(tool), tool)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
        size = self.path(tool).stat().st_size / 1e6
        self.say(f"{position} {tool.name}: done in {time.monotonic() - started:.1f} s, {size:.0f} MB")

    def _publish(self, unfinished: Path, folder: Path, tool: Tool) -> None:
        output = unfinished / tool.file
        with output.open("rb") as file:
            os.fsync(file.fileno())  # else the new name could outlive a power cut, and the content not
        unfinished.chmod(0o755)
        if folder.exists():
            shutil.rmtree(folder)  # without its executable, as `missing` found
        unfinished.rename(folder)

    def _copy_stages(self, tool: Tool, unfinished: Path) -> None:
        """Put kwok's own life-cycle stages beside it; its command has none built in."""
        log = self._go_run(tool, ["list", "-mod=readonly", "-m", "-f", "{{.Dir}}", tool.requirement], time.monotonic())
        folder = Path(log.read_text().strip().splitlines()[-1]) / "kustomize" / "stage"
        texts = [
            path.read_text()
            for stage in _STAGES
            for path in sorted((folder / stage).glob("*.yaml"))
            if path.name != "kustomization.yaml"
        ]
        if not texts:
            raise LocalClusterError(f"{folder} has no stages: is {tool.requirement} still laid out as in v0.8.0?")
        (unfinished / "stages.yaml").write_text("\n---\n".join(texts))

    def _go_run(self, tool: Tool, arguments: list[str], started: float) -> Path:
        """Run go in the tool's module; return its log.

        Raises:
            LocalClusterError: go failed.
        """
        log = self.cache / "logs" / f"{tool.name}.{arguments[0]}.log"
        log.parent.mkdir(exist_ok=True)
        with log.open("wb") as output:
            process = subprocess.Popen(
                dying_with_parent([self._find_go()[0], *arguments]),
                cwd=self.modules / tool.module,
                env=os.environ | _ENVIRONMENT,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # so that its compilers can be ended with it
            )
        try:
            self._wait(process, tool, started)
        except BaseException:
            kill_group(process)
            raise
        if process.returncode:
            raise LocalClusterError(
                f"building {tool.name} failed (go {arguments[0]} ended with {process.returncode}); the log is {log}, "
                f"its last lines:\n{tail(log)}"
            )
        return log

    def _wait(self, process: subprocess.Popen[bytes], tool: Tool, started: float) -> None:
        told = time.monotonic()
        while True:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=min(0.2, self.heartbeat))
                return
            self.check()
            if time.monotonic() - told >= self.heartbeat:
                told = time.monotonic()
                self.say(f"      {tool.name}: still building after {told - started:.0f} s")


@dataclass(frozen=True)
class ToolSources:
    """Where tools may come from besides the build: a folder as envtest lays it out, and PATH."""

    assets: Path | None = None
    use_path: bool = False


def find_tools(names: Iterable[str], sources: ToolSources, builder: Builder) -> dict[str, Path]:
    """Return the named tools' paths: from `sources` where these have them, else built.

    With `use_path`, a Helm version that PATH lacks is left out.

    Raises:
        LocalClusterError: a source lacks a tool that it must have, Go is missing, or a build failed.
    """
    wanted = list(names)
    found: dict[str, Path] = {}
    if sources.use_path:
        found |= _path_tools(wanted)
        # Whoever asks for PATH's tools does not want others to be built.
        wanted = [name for name in wanted if name not in CLIENT_TOOLS]
    if sources.assets is not None:
        found = _asset_tools(sources.assets, wanted) | found
    found |= builder.build([name for name in wanted if name not in found])
    return found


def _asset_tools(folder: Path, wanted: Iterable[str]) -> dict[str, Path]:
    names = [name for name in _ASSETS if name in wanted]
    lacking = [name for name in names if not os.access(folder / name, os.X_OK)]
    if lacking:
        raise LocalClusterError(
            f"KUBEBUILDER_ASSETS={folder} lacks {', '.join(lacking)}: unset it, or complete the folder"
        )
    return {name: folder / name for name in names}


def _path_tools(wanted: Iterable[str]) -> dict[str, Path]:
    found: dict[str, Path] = {}
    clients = [name for name in CLIENT_TOOLS if name in wanted]
    if "kubectl" in clients:
        found["kubectl"] = _on_path("kubectl")
    if any(name.startswith("helm") for name in clients):
        helm = _on_path("helm")
        answer = subprocess.run([helm, "version", "--short"], capture_output=True, text=True, check=False)
        match = re.match(r"v([34])\.", answer.stdout)
        if match is None:
            raise LocalClusterError(
                f"{helm} is neither Helm 3 nor Helm 4: `helm version --short` says {answer.stdout.strip()!r}"
            )
        found[f"helm{match[1]}"] = helm
    return found


def _on_path(name: str) -> Path:
    path = shutil.which(name)
    if path is None:
        raise LocalClusterError(
            f"--use-path-tools: {name} is not on PATH; install it, or leave the option out to build it"
        )
    return Path(path).absolute()


def client_environment(tools: Mapping[str, Path], path: str) -> dict[str, str]:
    """Return the variables by which a command finds kubectl and Helm: `path` is the PATH to put them in front of."""
    folders = [str(tools[name].parent) for name in ("kubectl", "helm4") if name in tools]
    if "helm4" not in tools and "helm3" in tools:
        folders.append(str(tools["helm3"].parent))
    variables = {"PATH": os.pathsep.join([*dict.fromkeys(folders), path])}
    return variables | {
        f"HELM_OPERATOR_{name.upper()}": str(tools[name]) for name in ("helm4", "helm3") if name in tools
    }


def _required_version(go_mod: Path, requirement: str) -> str:
    match = re.search(rf"^(?:require)?\s+{re.escape(requirement)}\s+(v[0-9]\S*)", go_mod.read_text(), re.MULTILINE)
    if match is None:
        raise LocalClusterError(f"{go_mod} does not require {requirement}")
    return match[1]


def _go_directive(go_mod: Path) -> tuple[int, ...]:
    match = re.search(r"^go\s+(\S+)", go_mod.read_text(), re.MULTILINE)
    return _version(match[1]) if match else (0,)


def _version(text: str) -> tuple[int, ...]:
    """Return the numbers of the first dotted version in `text`, such as `go1.26.8`; (0,) without one."""
    match = re.search(r"\d+(?:\.\d+)+", text)
    return tuple(map(int, match[0].split("."))) if match else (0,)
