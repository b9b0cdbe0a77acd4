"""The control plane: etcd, API server, controller manager, scheduler and kwok, with one Node, on free ports."""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import os
import random
import secrets
import shutil
import signal
import socket
import ssl
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from tools.localcluster.build import PLANE_TOOLS, Builder, ToolSources, find_tools
from tools.localcluster.errors import LocalClusterError, PortTakenError
from tools.localcluster.process import ProcessId, identify, spawn, tail, wait_gone

NODE: Final = "local"
_CONTROLLERS: Final = ("kube-controller-manager", "kube-scheduler", "kwok")
_HOST: Final = "127.0.0.1"
_POLL: Final = 0.03
"""Seconds between two looks at something awaited; a look costs about 1 ms."""

_AUDIT_POLICY: Final = """\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules: [{level: Metadata}]
"""


class ControlPlane:
    """A Kubernetes control plane in `state_dir`; as a context manager it runs inside the `with` block.

    It dies with this process, even after SIGKILL, unless `detach` is set. `audit` writes one JSON object a request
    (level Metadata: verb, object, user agent) to `audit_log`. `apiserver_arguments` are added to the API server's.
    `check` is called several times a second while something is awaited; it may raise to give up.
    """

    def __init__(
        self,
        state_dir: Path,
        *,
        tools: Mapping[str, Path] | None = None,
        detach: bool = False,
        audit: bool = False,
        apiserver_arguments: Sequence[str] = (),
        check: Callable[[], None] = lambda: None,
    ) -> None:
        # Absolute: it is written into files that others read from elsewhere.
        self.state_dir = state_dir.absolute()
        self.detach = detach
        self.audit = audit
        self.apiserver_arguments = tuple(apiserver_arguments)
        self.ready_after: float | None = None
        """Seconds from the start to a Node that takes Pods, once started."""
        self._tools = dict(tools) if tools is not None else None
        self._check = check
        self._ports: dict[str, int] = {}
        self._processes: dict[str, ProcessId] = {}
        self._children: dict[str, subprocess.Popen[bytes]] = {}

    @classmethod
    def attach(cls, state_dir: Path) -> Self:
        """Return the control plane that another process started in `state_dir`.

        What is started through it, such as a restarted API server, stays as long as the rest when `up` or `run`
        started that; with another process's control plane, it dies with this process.

        Raises:
            LocalClusterError: there is none.
        """
        file = state_dir.absolute() / "state.json"
        try:
            state = json.loads(file.read_text())
        except FileNotFoundError:
            raise LocalClusterError(f"no control plane in {state_dir}: start one with `up`") from None
        plane = cls(
            state_dir,
            tools={name: Path(path) for name, path in state["tools"].items()},
            # Below `run`, its guard ends whatever this process leaves.
            detach=state["detach"] or os.environ.get("LOCALCLUSTER_STATE") == str(file.parent),
            audit=state["audit"],
            apiserver_arguments=state["apiserverArguments"],
        )
        plane._ports = state["ports"]
        plane._processes = {name: ProcessId(**process) for name, process in state["processes"].items()}
        return plane

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig, of the group system:masters."""
        return self.state_dir / "kubeconfig"

    @property
    def logs(self) -> Path:
        return self.state_dir / "logs"

    @property
    def audit_log(self) -> Path | None:
        """The audit log, one JSON object a line; None without `audit`."""
        return self.logs / "audit.json" if self.audit else None

    @property
    def url(self) -> str:
        """The API server's URL.

        Raises:
            LocalClusterError: the control plane was not started.
        """
        return f"https://{_HOST}:{self._port('apiserver')}"

    @property
    def tools(self) -> Mapping[str, Path]:
        """The executables by name; found, or built, when first asked for.

        Raises:
            LocalClusterError: they cannot be built.
        """
        if self._tools is None:
            self._tools = find_tools(PLANE_TOOLS, ToolSources(), Builder(check=self._check))
        return self._tools

    def status(self) -> dict[str, ProcessId | None]:
        """Return each process that was started, None in place of those that ended."""
        return {name: process if process.alive else None for name, process in self._processes.items()}

    def start(self, timeout: float = 60.0) -> None:
        """Start everything; return when Pods can run, at the latest after `timeout` seconds.

        Raises:
            LocalClusterError: something ended or was not ready in time; nothing is left running then.
        """
        if any(self.status().values()):
            raise LocalClusterError(f"the control plane in {self.state_dir} runs already: stop it with `down`")
        tools = self.tools
        for name in PLANE_TOOLS:
            if name not in tools:
                raise LocalClusterError(f"the control plane cannot run without {name}")
        try:
            try:
                self._start(timeout)
            except PortTakenError:
                # Between the choice of a port and its use another program may take it.
                self.stop()
                self._start(timeout)
        except BaseException:
            self.stop(keep_logs=True)
            raise

    def stop(self, *, keep_logs: bool = False) -> None:
        """Kill all processes, make sure that they are gone, and remove the data.

        Raises:
            LocalClusterError: a process does not end (it hangs in the kernel).
        """
        # SIGKILL, and all at once: the data is thrown away, so there is nothing to end in order; a paused one dies too.
        for process in self._processes.values():
            process.send(signal.SIGKILL)
        self._reap(self._processes)
        left = wait_gone(self._processes.values(), timeout=10.0)
        if left:
            pids = ", ".join(str(process.pid) for process in left)
            raise LocalClusterError(
                f"processes {pids} did not end within 10 s of SIGKILL; the data stays in {self.state_dir}"
            )
        self._processes.clear()
        self._ports.clear()
        for name in ("data", "certs", "secrets") if keep_logs else ("data", "certs", "secrets", "logs"):
            shutil.rmtree(self.state_dir / name, ignore_errors=True)
        for name in ("kubeconfig", "state.json"):
            (self.state_dir / name).unlink(missing_ok=True)

    def kill_apiserver(self) -> None:
        """Kill the API server at once, as a crash would."""
        self._end(["kube-apiserver"], signal.SIGKILL, timeout=10.0)

    def start_apiserver(self, timeout: float = 60.0) -> None:
        """Start the API server again, on the same port and with the same data; return when it is ready.

        The controllers are started anew: as they are, they would try again only up to half a minute later.

        Raises:
            LocalClusterError: it runs already, or was not ready within `timeout` seconds.
        """
        if self._processes["kube-apiserver"].alive:
            raise LocalClusterError("the API server runs already")
        deadline = time.monotonic() + timeout
        # Connections that a client opens just now could have the port as their own.
        self._until(lambda: _is_free(self._port("apiserver")), deadline, "its port is still in use", ())
        self._spawn_apiserver()
        self._until(self._is_ready, deadline, "the API server is not ready", ("kube-apiserver",))
        self._end(_CONTROLLERS, signal.SIGKILL, timeout=10.0)
        # The new kwok would leave the Node alone until the old one's lease runs out.
        self._ask("DELETE", f"/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{NODE}")
        self._spawn_controllers()

    def restart_apiserver(self, timeout: float = 60.0) -> None:
        """End the API server in order (after 10 s by force) and start it again on the same port.

        Raises:
            LocalClusterError: it was not ready within `timeout` seconds.
        """
        self._end(["kube-apiserver"], signal.SIGTERM, timeout=10.0)
        self.start_apiserver(timeout)

    def pause_apiserver(self) -> None:
        """Stop the API server's execution: connections stay open and nothing answers."""
        self._processes["kube-apiserver"].send(signal.SIGSTOP)

    def resume_apiserver(self) -> None:
        """Let a paused API server go on."""
        self._processes["kube-apiserver"].send(signal.SIGCONT)

    def kubectl(self, *arguments: str, input: str | None = None, timeout: float = 60.0) -> str:  # noqa: A002 - subprocess's word
        """Run kubectl as the administrator, at most `timeout` seconds; return what it printed.

        Raises:
            LocalClusterError: kubectl failed; the message has what it said.
            subprocess.TimeoutExpired: it took too long.
        """
        command = [str(self.tools["kubectl"]), f"--kubeconfig={self.kubeconfig}", *arguments]
        # A cache of its own: kubectl's default one is by address, and an earlier control plane had the same perhaps.
        command.insert(1, f"--cache-dir={self.state_dir / 'data' / 'kubectl'}")
        # Given empty rather than inherited: a kubectl that reads standard input by mistake must not wait for a human.
        answer = subprocess.run(
            command, input=input or "", capture_output=True, text=True, timeout=timeout, check=False
        )
        if answer.returncode:
            said = answer.stderr.strip() or answer.stdout.strip()
            raise LocalClusterError(f"kubectl {' '.join(arguments)} ended with {answer.returncode}: {said}")
        return answer.stdout

    def audit_events(self) -> Iterator[dict[str, Any]]:
        """Yield the audit log's events so far; nothing without `audit`."""
        if self.audit_log is not None and self.audit_log.exists():
            with self.audit_log.open() as lines:
                # A line that is being written lacks its end.
                yield from (json.loads(line) for line in lines if line.endswith("\n"))

    def request(self, method: str, path: str, body: object = None, timeout: float = 5.0) -> tuple[int, Any]:
        """Send one request as the administrator; return the status code and the JSON answer (text if it is none).

        `timeout` is in seconds, for each wait on the connection.

        Raises:
            OSError: there is no connection, or no answer in time.
            http.client.HTTPException: the connection broke during the answer.
        """
        context = ssl.create_default_context(cafile=str(self._certificate))
        connection = http.client.HTTPSConnection(_HOST, self._port("apiserver"), timeout=timeout, context=context)
        headers = {"Authorization": f"Bearer {self._token()}", "Content-Type": "application/json"}
        try:
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            answer = connection.getresponse()
            content = answer.read()
        finally:
            connection.close()
        try:
            return answer.status, json.loads(content)
        except ValueError:
            return answer.status, content.decode(errors="replace")

    # The start

    def _start(self, timeout: float) -> None:
        started = time.monotonic()
        deadline = started + timeout
        self._prepare()
        self._spawn("etcd", self._etcd_arguments())
        # The API server's etcd client, refused once, would wait a second.
        self._until(self._etcd_accepts, deadline, "etcd is not ready", ("etcd",))
        self._spawn_apiserver()
        self._until(self._is_ready, deadline, "the API server is not ready", ("etcd", "kube-apiserver"))
        self._write_kubeconfig()
        self._spawn_controllers()
        self._until(self._create_node, deadline, "the Node cannot be created", tuple(self._processes))
        self._until(
            self._default_account_exists, deadline, "the default ServiceAccount is missing", tuple(self._processes)
        )
        self._until(self._node_takes_pods, deadline, "the Node does not take Pods", tuple(self._processes))
        self.ready_after = time.monotonic() - started

    def _prepare(self) -> None:
        for name in ("data", "certs", "secrets", "logs"):
            folder = self.state_dir / name
            if folder.exists():
                shutil.rmtree(folder)  # of an earlier control plane, whose processes are gone
            folder.mkdir(parents=True, mode=0o700)
        (self.state_dir / "secrets" / "token").write_text(secrets.token_hex(16))
        (self.state_dir / "secrets" / "tokens.csv").write_text(f'{self._token()},admin,admin,"system:masters"\n')
        (self.state_dir / "secrets" / "audit-policy.yaml").write_text(_AUDIT_POLICY)
        self._ports = dict(zip(("etcd", "apiserver"), _free_ports(2), strict=True))

    def _spawn(self, name: str, arguments: Sequence[str]) -> None:
        child = spawn([self.tools[name], *arguments], self.logs / f"{name}.log", detach=self.detach)
        self._children[name] = child
        self._processes[name] = identify(child.pid)
        # At once: after a SIGKILL in the middle of `up`, `down` must find what runs.
        self._write_state()

    def _spawn_apiserver(self) -> None:
        self._spawn("kube-apiserver", self._apiserver_arguments())

    def _spawn_controllers(self) -> None:
        self._spawn("kube-controller-manager", self._controller_manager_arguments())
        self._spawn("kube-scheduler", self._client_arguments())
        self._spawn("kwok", self._kwok_arguments())

    def _etcd_arguments(self) -> list[str]:
        url = f"http://{_HOST}:{self._port('etcd')}"
        return [
            f"--data-dir={self.state_dir / 'data' / 'etcd'}",
            f"--listen-client-urls={url}",
            f"--advertise-client-urls={url}",
            f"--listen-peer-urls=http://{_HOST}:0",  # there are no peers; the kernel chooses, so it is never taken
            "--unsafe-no-fsync",
            "--heartbeat-interval=20",  # ms; a lone member elects itself after the time-out
            "--election-timeout=200",
            "--log-level=warn",
        ]

    def _apiserver_arguments(self) -> list[str]:
        arguments = [
            f"--etcd-servers=http://{_HOST}:{self._port('etcd')}",
            f"--bind-address={_HOST}",
            f"--advertise-address={_HOST}",
            f"--secure-port={self._port('apiserver')}",
            "--endpoint-reconciler-type=none",  # the Service `kubernetes` cannot have a loopback address
            f"--cert-dir={self.state_dir / 'certs'}",
            f"--token-auth-file={self.state_dir / 'secrets' / 'tokens.csv'}",
            "--authorization-mode=RBAC",
            # The serving key that it makes itself does for ServiceAccounts' tokens as well.
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-signing-key-file={self.state_dir / 'certs' / 'apiserver.key'}",
            f"--service-account-key-file={self.state_dir / 'certs' / 'apiserver.key'}",
            "--service-cluster-ip-range=10.96.0.0/16",  # room for scale runs
            "--allow-privileged=true",
            "--max-requests-inflight=2000",
            "--max-mutating-requests-inflight=1000",
            "--etcd-count-metric-poll-period=0",
            "--etcd-db-metric-poll-interval=0",
            "--profiling=false",
            # Without it, an end in order waits a minute for watches to end by themselves.
            "--shutdown-watch-termination-grace-period=1s",
        ]
        if self.audit_log is not None:
            arguments += [
                f"--audit-policy-file={self.state_dir / 'secrets' / 'audit-policy.yaml'}",
                f"--audit-log-path={self.audit_log}",
                "--audit-log-maxsize=10000",  # MB; a rotation would hide requests from those who count them
            ]
        return [*arguments, *self.apiserver_arguments]

    def _controller_manager_arguments(self) -> list[str]:
        key, certificate = self.state_dir / "certs" / "apiserver.key", self._certificate
        return [
            *self._client_arguments(),
            f"--service-account-private-key-file={key}",
            f"--root-ca-file={certificate}",
            "--concurrent-namespace-syncs=20",
            "--node-monitor-period=1s",
            "--horizontal-pod-autoscaler-sync-period=5s",
        ]

    def _client_arguments(self) -> list[str]:
        return [
            f"--kubeconfig={self.kubeconfig}",
            "--leader-elect=false",
            "--secure-port=0",  # nobody asks for its metrics, and a port less can be taken
            "--kube-api-qps=1000",
            "--kube-api-burst=2000",
        ]

    def _kwok_arguments(self) -> list[str]:
        return [
            f"--kubeconfig={self.kubeconfig}",
            f"--config={self.tools['kwok'].parent / 'stages.yaml'}",
            "--manage-all-nodes=true",
            "--node-lease-duration-seconds=40",  # a kubelet's; without leases the Node becomes unreachable
            "--cidr=10.128.0.0/16",
        ]

    def _create_node(self) -> bool:
        node = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": NODE, "labels": {"kubernetes.io/hostname": NODE, "kubernetes.io/os": "linux"}},
        }
        return self._ask("POST", "/api/v1/nodes", node)[0] in (http.client.CREATED, http.client.CONFLICT)

    def _default_account_exists(self) -> bool:
        return self._ask("GET", "/api/v1/namespaces/default/serviceaccounts/default")[0] == http.client.OK

    def _node_takes_pods(self) -> bool:
        status, node = self._ask("GET", f"/api/v1/nodes/{NODE}")
        if status != http.client.OK or node["spec"].get("taints"):
            return False
        conditions = node.get("status", {}).get("conditions", [])
        return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)

    def _etcd_accepts(self) -> bool:
        try:
            socket.create_connection((_HOST, self._port("etcd")), timeout=5.0).close()
        except OSError:
            return False
        return True

    def _is_ready(self) -> bool:
        return self._certificate.exists() and self._ask("GET", "/readyz")[0] == http.client.OK

    def _ask(self, method: str, path: str, body: object = None) -> tuple[int, Any]:
        """As `request`, with 0 in place of a connection's failure."""
        try:
            return self.request(method, path, body)
        except (OSError, http.client.HTTPException):
            return 0, None

    def _until(self, condition: Callable[[], bool], deadline: float, otherwise: str, needed: Iterable[str]) -> None:
        while not condition():
            self._check()
            for name in needed:
                if not self._processes[name].alive:
                    raise self._ended(name)
            if time.monotonic() > deadline:
                raise LocalClusterError(f"{otherwise}; the logs are in {self.logs}")
            time.sleep(_POLL)

    def _ended(self, name: str) -> LocalClusterError:
        log = self.logs / f"{name}.log"
        last = tail(log)
        if "address already in use" in last:
            return PortTakenError(f"{name} found its port taken")
        return LocalClusterError(f"{name} ended; the last lines of {log}:\n{last}")

    # The rest

    @property
    def _certificate(self) -> Path:
        """The serving certificate and its authority, which the API server makes on its first start."""
        return self.state_dir / "certs" / "apiserver.crt"

    def _token(self) -> str:
        return (self.state_dir / "secrets" / "token").read_text()

    def _port(self, name: str) -> int:
        try:
            return self._ports[name]
        except KeyError:
            raise LocalClusterError("the control plane was not started") from None

    def _end(self, names: Sequence[str], signum: int, timeout: float) -> None:
        """Send the signal, and SIGKILL to those that still run after `timeout` seconds."""
        processes = [self._processes[name] for name in names]
        for process in processes:
            process.send(signum)
            process.send(signal.SIGCONT)  # a paused one would not see the signal
        left = wait_gone(processes, timeout)
        for process in left:
            process.send(signal.SIGKILL)
        wait_gone(left, timeout=10.0)
        self._reap(names)

    def _reap(self, names: Iterable[str]) -> None:
        for name in names:
            child = self._children.pop(name, None)
            if child is not None:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    child.wait(timeout=10.0)

    def _write_state(self) -> None:
        state = {
            "url": self.url,
            "kubeconfig": str(self.kubeconfig),
            "ports": self._ports,
            "processes": {name: vars(process) for name, process in self._processes.items()},
            "detach": self.detach,
            "audit": self.audit,
            "apiserverArguments": self.apiserver_arguments,
            "tools": {name: str(path) for name, path in self.tools.items()},
        }
        _write_whole(self.state_dir / "state.json", json.dumps(state, indent=2) + "\n")

    def _write_kubeconfig(self) -> None:
        authority = base64.b64encode(self._certificate.read_bytes()).decode()
        text = f"""\
apiVersion: v1
kind: Config
clusters:
- name: local
  cluster:
    server: {self.url}
    certificate-authority-data: {authority}
users:
- name: admin
  user:
    token: {self._token()}
contexts:
- name: local
  context:
    cluster: local
    user: admin
current-context: local
"""
        _write_whole(self.kubeconfig, text)


def _write_whole(path: Path, text: str) -> None:
    """Write a file for the owner only, so that readers see the old or the new one."""
    part = path.with_name(f".{path.name}.part")
    part.touch(mode=0o600)
    part.write_text(text)
    part.replace(path)


def _free_ports(count: int) -> list[int]:
    """Return free ports below those that the kernel gives to outgoing connections.

    In that range, a client that tries to reach a stopped API server could get its very port, and keep it.

    Raises:
        LocalClusterError: none are free.
    """
    lowest = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    candidates = range(10_000, lowest) if lowest > 11_000 else range(61_000, 65_536)
    found: list[int] = []
    for port in random.sample(candidates, k=len(candidates)):
        if _is_free(port):
            found.append(port)
            if len(found) == count:
                return found
    raise LocalClusterError(f"no free ports between {candidates[0]} and {candidates[-1]}")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        # As Go's listeners do: ports of connections that ended lately are free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((_HOST, port))
        except OSError:
            return False
    return True
