"""How helm is run: a script named helm stands in for it, so no helm is needed."""

import asyncio
import contextlib
import json
import logging
import os
import time
from pathlib import Path

import pytest

from helm_operator.errors import HelmError, HelmErrorKind
from helm_operator.helm import HelmCli
from helm_operator.helm import command as module
from helm_operator.helm.cli import remarks
from helm_operator.helm.command import duration, environment
from helm_operator.release import ChartBulk, ChartInfo, DesiredRelease, InstallOptions, ReleaseKey, UpgradeOptions

KEY = ReleaseKey("shop", "web")


def desired(values=None, **changes):
    return DesiredRelease(
        key=KEY,
        owner_uid="uid-1",
        chart=ChartInfo("webapp", "1.2.0"),
        chart_path=Path("/charts/web app;$(id)"),
        values=values or {},
        values_digest="sha256:v",
        input_digest="d1",
        **changes,
    )


class Script:
    """A helm that is a shell script; `answers` of it are what it wrote into its folder."""

    def __init__(self, folder):
        self.folder = folder
        self.path = folder / "bin" / "helm"
        self.path.parent.mkdir()

    def helm(self, body, **options):
        head = '#!/bin/sh\ncd "$(dirname "$0")"\n'
        self.path.write_text(head + body)
        self.path.chmod(0o755)
        return HelmCli(str(self.path), home=self.folder / "home", **options)

    def read(self, name):
        return (self.path.parent / name).read_text()

    async def started(self, name="pid"):
        async with asyncio.timeout(10):
            while not (self.path.parent / name).exists() or not self.read(name).strip():  # noqa: ASYNC110 (a file)
                await asyncio.sleep(0.01)
        return int(self.read(name))


@pytest.fixture
def script(tmp_path):
    return Script(tmp_path)


RECORDING = "printf '%s\\n' \"$@\" > args; cat > stdin; env > env\n"
STUBBORN = "trap '' TERM\n(trap '' TERM; echo $$ > pid; while :; do sleep 0.05; done) &\nwait\nwait\nwait\n"


RENDERING = f"""case "$*" in
*--dry-run=server*) printf '%s\\n' "$@" > rendered; cat > /dev/null; cat rendering;;
*) {RECORDING}
esac
"""


def alive(pid):
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def _running(word):
    """Return the command lines of processes that have this word."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            found.append((folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"))
    return [line for line in found if word in line]


async def test_install_says_all_without_a_shell(script):
    values = {"password": "s3cr3t", "big": 10**6}
    await script.helm(RECORDING).install(desired(values, timeout=300.0, wait=True))

    args = script.read("args").splitlines()
    assert args[:3] == ["install", "web", "/charts/web app;$(id)"]
    assert args[args.index("--namespace") + 1] == "shop"
    assert args[args.index("--timeout") + 1] == "300s"
    assert args[args.index("--labels") + 1] == "helm-operator.io/owner-uid=uid-1,helm-operator.io/input-digest=d1"
    assert args[args.index("--values") + 1] == "-"
    assert args[args.index("--set") + 1] == "big=1000000"
    assert "--wait" in args
    assert "s3cr3t" not in " ".join(args)
    assert json.loads(script.read("stdin")) == values


async def test_upgrade_never_reuses_values_and_never_installs(script):
    await script.helm(RECORDING).upgrade(desired(history_max=3))

    args = script.read("args").splitlines()
    assert args[:2] == ["upgrade", "web"]
    assert "--reset-values" in args
    assert args[args.index("--history-max") + 1] == "3"
    assert not {"--install", "--wait", "--reuse-values", "--create-namespace"} & set(args)


@pytest.mark.parametrize("verb", ["install", "upgrade"])
async def test_a_chart_that_cannot_fit_into_a_record_starts_no_helm(script, verb):
    helm = script.helm(RENDERING)
    bulk = ChartBulk(900_000, (("data/blob.bin", 900_123), ("README.md", 12)))

    with pytest.raises(HelmError) as caught:
        await getattr(helm, verb)(desired({"a": "b"}, bulk=bulk))

    assert caught.value.kind is HelmErrorKind.TOO_LARGE
    for part in ("1048576", "1200000", "data/blob.bin (900123 bytes)", "values: ", ".helmignore"):
        assert part in str(caught.value)
    assert [path.name for path in script.path.parent.iterdir()] == ["helm"]


@pytest.mark.parametrize("verb", ["install", "upgrade"])
@pytest.mark.parametrize(
    ("random_bytes", "fits"),
    [(1_000, True), (700_000, True), (775_000, False)],
    ids=["small", "large", "no room to grow"],
)
async def test_a_large_chart_is_rendered_and_measured_before_helm_acts(script, verb, random_bytes, fits):
    helm = script.helm(RENDERING)
    (script.path.parent / "rendering").write_bytes(os.urandom(random_bytes))
    call = getattr(helm, verb)(desired(bulk=ChartBulk(300_000, (("blob", 300_000),))))

    if fits:
        await call
        assert script.read("args").splitlines()[0] == verb
    else:
        with pytest.raises(HelmError, match="too large for its record") as caught:
            await call
        assert caught.value.kind is HelmErrorKind.TOO_LARGE
        assert not (script.path.parent / "args").exists()
    rendered = script.read("rendered").splitlines()
    assert rendered[:2] == [verb, "web"]
    assert {"--namespace", "--values", "--output=json"} <= set(rendered)


async def test_large_values_are_measured_and_small_ones_cost_nothing(script):
    helm = script.helm(RENDERING)
    (script.path.parent / "rendering").write_bytes(b"{}")

    await helm.install(desired({"a": "x" * 100_000}, bulk=ChartBulk(10_000)))
    assert not (script.path.parent / "rendered").exists()
    await helm.install(desired({"a": "x" * 300_000}, bulk=ChartBulk(10_000)))
    assert (script.path.parent / "rendered").exists()


async def test_a_rendering_that_fails_leaves_the_word_to_the_action(script):
    helm = script.helm('case "$*" in *--dry-run=server*) exit 1;; esac\necho "Error: the action" >&2; exit 1')

    with pytest.raises(HelmError, match=r"^the action$"):
        await helm.install(desired(bulk=ChartBulk(300_000)))


async def test_rollback_and_uninstall(script):
    helm = script.helm(RECORDING)
    await helm.rollback(KEY, 7, timeout=0.5, history_max=0)
    assert script.read("args").split() == [
        "rollback",
        "web",
        "7",
        "--namespace",
        "shop",
        "--history-max",
        "0",
        "--timeout",
        "0.5s",
    ]
    await helm.uninstall(KEY, timeout=90.0)
    assert script.read("args").split() == ["uninstall", "web", "--namespace", "shop", "--timeout", "90s", "--debug"]
    assert script.read("stdin") == ""


ANSWERING = 'if [ "$1" = version ]; then echo asked >> asked; echo VERSION; exit; fi\n' + RECORDING
FORCE, TAKE = UpgradeOptions(force=True), UpgradeOptions(force_conflicts=True)


async def test_without_options_no_flag_is_given_and_no_version_asked(script):
    helm = script.helm(ANSWERING.replace("VERSION", "v4.3.1"))
    extra = {"--no-hooks", "--cleanup-on-fail", "--keep-history", "--force", "--force-replace", "--force-conflicts"}
    for call in (
        helm.install(desired()),
        helm.upgrade(desired()),
        helm.rollback(KEY, 1, timeout=1.0, history_max=1),
        helm.uninstall(KEY, timeout=1.0),
    ):
        await call
        args = script.read("args")
        assert not extra & set(args.splitlines())
        assert "--description" not in args
        assert "--server-side" not in args
    assert not (script.path.parent / "asked").exists()


async def test_options_become_flags(script):
    helm = script.helm(RECORDING)
    install = InstallOptions(disable_hooks=True, description="-a b\u2026")
    upgrade = UpgradeOptions(disable_hooks=True, cleanup_on_fail=True, description="c")

    await helm.install(desired(install=install, upgrade=upgrade))
    args = script.read("args").splitlines()
    assert {"--no-hooks", "--description=-a b\u2026"} <= set(args)
    assert "--cleanup-on-fail" not in args

    await helm.upgrade(desired(install=install, upgrade=upgrade))
    assert {"--no-hooks", "--cleanup-on-fail", "--description=c"} <= set(script.read("args").splitlines())

    await helm.uninstall(KEY, timeout=1.0, keep_history=True, disable_hooks=True, description="d")
    assert {"--no-hooks", "--keep-history", "--description=d"} <= set(script.read("args").splitlines())


@pytest.mark.parametrize(
    ("version", "options", "flags"),
    [
        pytest.param("v3.22.0", FORCE, ["--force"], id="Helm 3 replaces"),
        pytest.param("v4.3.1", FORCE, ["--force-replace", "--server-side=false"], id="Helm 4 replaces"),
        pytest.param("v4.3.1", TAKE, ["--force-conflicts", "--server-side=true"], id="Helm 4 takes fields"),
    ],
)
async def test_force_has_another_flag_in_each_version(script, version, options, flags):
    helm = script.helm(ANSWERING.replace("VERSION", version))

    await helm.upgrade(desired(upgrade=options))
    assert script.read("args").splitlines()[-len(flags) :] == flags
    await helm.rollback(
        KEY, 1, timeout=1.0, history_max=1, force=options.force, force_conflicts=options.force_conflicts
    )
    assert script.read("args").splitlines()[-len(flags) :] == flags
    assert script.read("asked").splitlines() == ["asked"]


async def test_helm_3_cannot_take_fields_and_is_not_run(script):
    helm = script.helm(ANSWERING.replace("VERSION", "v3.22.0"))
    for call in (helm.check(TAKE), helm.upgrade(desired(upgrade=TAKE)), helm.install(desired(upgrade=TAKE))):
        with pytest.raises(HelmError, match=r"^forceConflicts needs Helm 4, and .*helm is v3\.22\.0$"):
            await call
    assert not (script.path.parent / "args").exists()


async def test_the_environment_has_none_of_the_outside_s_helm(script, monkeypatch):
    monkeypatch.setenv("HELM_DRIVER", "configmap")
    monkeypatch.setenv("HELM_KUBETOKEN", "t")
    monkeypatch.setenv("HELM_BURST_LIMIT", "500")
    monkeypatch.setenv("KUBECONFIG", "/elsewhere")
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy")
    await script.helm(RECORDING, kubeconfig="/k").install(desired())

    env = dict(line.split("=", 1) for line in script.read("env").splitlines() if "=" in line)
    assert "HELM_DRIVER" not in env
    assert "HELM_KUBETOKEN" not in env
    assert (env["KUBECONFIG"], env["HELM_BURST_LIMIT"], env["HTTPS_PROXY"]) == ("/k", "500", "http://proxy")
    for name in ("HOME", "TMPDIR", "HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"):
        assert Path(env[name]).is_dir()
        assert Path(env[name]).is_relative_to(script.folder / "home")


def test_without_a_kubeconfig_helm_takes_the_service_account(tmp_path):
    assert "KUBECONFIG" not in environment({"KUBECONFIG": "/elsewhere"}, home=tmp_path, kubeconfig=None)


async def test_uninstall_hands_on_remarks(script):
    helm = script.helm(
        "echo 'These resources were kept due to the resource policy:'; echo '[ConfigMap] a'; echo\n"
        "echo 'release \"web\" uninstalled'; echo 'level=DEBUG msg=x' >&2\n"
    )
    assert await helm.uninstall(KEY, timeout=1.0) == (
        "These resources were kept due to the resource policy:\n[ConfigMap] a"
    )
    assert remarks('release "web" uninstalled\n', "web") == ""


async def test_a_failure_is_classified(script):
    helm = script.helm("echo 'Error: INSTALLATION FAILED: cannot reuse a name that is still in use' >&2; exit 1\n")
    with pytest.raises(HelmError, match=r"^cannot reuse a name that is still in use$") as caught:
        await helm.install(desired())
    assert caught.value.kind is HelmErrorKind.NAME_IN_USE
    assert caught.value.output.startswith("Error: ")


async def test_values_that_helm_cannot_be_given(script):
    with pytest.raises(HelmError, match=r"^a is an integer beyond 64 bits$") as caught:
        await script.helm("exit 0\n").install(desired({"a": 2**64}))
    assert caught.value.kind is HelmErrorKind.VALUES


@pytest.mark.parametrize("body", [None, "kill -9 $$\n"])
async def test_a_helm_that_is_missing_or_killed(script, body):
    helm = script.helm(body or "")
    if body is None:
        script.path.unlink()
    with pytest.raises(HelmError) as caught:
        await helm.install(desired())
    assert caught.value.kind is HelmErrorKind.CRASHED


async def test_the_log_has_verb_release_and_duration_only(script, caplog):
    caplog.set_level(logging.DEBUG)
    await script.helm("exit 0\n").install(desired({"pin": 12345678, "password": "s3cr3t"}))
    (line,) = [r.getMessage() for r in caplog.records if r.name.startswith(("helm_operator", "pyhelm3"))]
    assert line.startswith("helm install web: exit code 0 after ")
    assert "12345678" not in caplog.text


async def test_sigterm_lets_helm_end_by_itself(script):
    body = "trap 'echo gone > said; exit 1' TERM\necho $$ > pid\nwhile :; do sleep 0.05; done\n"
    task = asyncio.create_task(script.helm(body).install(desired()))
    pid = await script.started()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert script.read("said") == "gone\n"
    assert not alive(pid)


async def test_a_stubborn_helm_and_its_children_are_killed_after_the_grace(script):
    task = asyncio.create_task(script.helm(STUBBORN, grace=0.3).install(desired()))
    pid = await script.started()
    started = time.monotonic()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert 0.25 < time.monotonic() - started < 5
    assert not alive(pid)


async def test_a_helm_that_is_cancelled_while_it_starts_is_ended_with_its_children(script):
    for rounds in range(40):  # The start takes so many rounds of the loop that some of these fall into it.
        task = asyncio.create_task(script.helm(STUBBORN, grace=0.05).install(desired()))
        for _ in range(rounds):
            await asyncio.sleep(0)
        task.cancel()
        async with asyncio.timeout(5):
            with pytest.raises(asyncio.CancelledError):
                await task
        assert not _running(str(script.path.parent))


async def test_cancelling_again_does_not_shorten_the_end(script):
    task = asyncio.create_task(script.helm(STUBBORN, grace=0.5).install(desired()))
    pid = await script.started()
    for _ in range(3):
        task.cancel()
        await asyncio.sleep(0.05)
    assert not task.done()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not alive(pid)


async def test_our_deadline_is_behind_helms_timeout(script, monkeypatch):
    monkeypatch.setattr(module, "MARGIN", 0.2)
    with pytest.raises(HelmError, match="did not end within") as caught:
        await script.helm(STUBBORN, grace=0.1).install(desired(timeout=0.1))
    assert caught.value.kind is HelmErrorKind.TIMEOUT
    assert not alive(await script.started())


async def test_a_replica_that_may_not_act_starts_no_helm(script):
    helm = script.helm("echo x >> ran; echo v4.3.1\n", may_act=lambda: False)
    for call in (
        helm.install(desired()),
        helm.upgrade(desired()),
        helm.rollback(KEY, 1, timeout=1.0, history_max=1),
        helm.uninstall(KEY, timeout=1.0),
    ):
        with pytest.raises(HelmError, match="does not lead") as caught:
            await call
        assert caught.value.kind is HelmErrorKind.CANCELLED
    assert not (script.path.parent / "ran").exists()
    assert await helm.version() == "v4.3.1"


@pytest.mark.parametrize(("left", "least", "most"), [(0.4, 0.35, 5.0), (0.0, 0.0, 0.3)])
async def test_helm_is_dead_before_another_replica_may_act(script, left, least, most):
    task = asyncio.create_task(script.helm(STUBBORN, grace=60.0, time_left=lambda: left).install(desired()))
    pid = await script.started()
    started = time.monotonic()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert least < time.monotonic() - started < most
    assert not alive(pid)


async def test_a_lot_of_output_does_not_block(script):
    helm = script.helm("head -c 3000000 /dev/zero; head -c 3000000 /dev/zero >&2; exit 1\n")
    with pytest.raises(HelmError) as caught:
        await helm.install(desired())
    assert len(caught.value.output) <= 65_536


@pytest.mark.parametrize(
    ("text", "version"),
    [("v4.3.1", "v4.3.1"), ("v3.17.0", "v3.17.0"), ("v3.22.0+g1234", "v3.22.0+g1234"), ("4.0.0-rc.1", "v4.0.0-rc.1")],
)
async def test_versions(script, text, version):
    assert await script.helm(f"echo {text}\n").version() == version


@pytest.mark.parametrize("text", ["v3.16.4", "v2.17.0", "v5.0.0", "", "dev"])
async def test_versions_that_will_not_do(script, text):
    with pytest.raises(HelmError, match=r"v3\.17 or newer, or v4, is needed"):
        await script.helm(f"echo {text}\n").version()


def test_durations():
    assert [duration(seconds) for seconds in (300, 300.0, 0.5, 1.25, 1e6)] == [
        "300s",
        "300s",
        "0.5s",
        "1.25s",
        "1000000s",
    ]
