"""The command line: operator-sdk's flags, in both forms, and what is said about wrong ones."""

import logging
import platform
import sys

import pytest

from helm_operator import __version__, cli
from helm_operator.errors import HelmError, HelmErrorKind
from helm_operator.settings import Settings, namespaces_from

ENTRY = "- {group: shop.example.com, version: v1, kind: Web, chart: ./chart}\n"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Stand in a folder with a watches.yaml and its chart."""
    (tmp_path / "chart").mkdir()
    (tmp_path / "chart" / "Chart.yaml").write_text("apiVersion: v2\nname: web\nversion: 0.1.0\n")
    (tmp_path / "watches.yaml").write_text(ENTRY)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("WATCH_NAMESPACE", raising=False)
    return tmp_path


@pytest.fixture
def logs(monkeypatch):
    """Keep what logging was set up with, and leave logging as it is."""
    asked = {}
    monkeypatch.setattr(cli, "set_up_logging", lambda **kwargs: asked.update(kwargs))
    return asked


@pytest.fixture
def run(folder, logs, monkeypatch):
    """Run the command line up to the operator; returns its settings."""
    served = []

    class Operator:
        def __init__(self, watches, settings):
            assert [str(watch) for watch in watches.entries] == ["shop.example.com/v1 Web"]
            served.append(settings)

        async def run(self, stop):
            assert not stop.is_set()

    monkeypatch.setattr(cli, "Operator", Operator)

    def run(*arguments):
        assert cli.main(arguments) == 0
        return served.pop()

    return run


@pytest.fixture
def refused(folder, logs, capsys):
    """Run a wrong command line; returns what was said."""

    def refused(*arguments):
        with pytest.raises(SystemExit) as caught:
            cli.main(arguments)
        assert caught.value.code == 2
        return capsys.readouterr().err

    return refused


def test_without_flags_the_documented_defaults_hold(run, folder, logs):
    settings = run("run")

    assert (settings.reconcile_period, settings.retry_base, settings.retry_ceiling) == (60, 5, 600)
    assert (settings.probe_address, settings.helm, settings.namespaces) == (":8081", "helm", ())
    assert settings == Settings()
    assert logs == {"encoder": "json", "level": logging.INFO}


@pytest.mark.parametrize(
    ("flag", "value", "name", "wanted"),
    [
        ("--reconcile-period", "1m30s", "reconcile_period", 90),
        ("--reconcile-period", "500ms", "reconcile_period", 0.5),
        ("--max-concurrent-reconciles", "4", "max_concurrent_reconciles", 4),
        ("--retry-base", "1s", "retry_base", 1),
        ("--retry-ceiling", "1h", "retry_ceiling", 3600),
        ("--health-probe-bind-address", ":6789", "probe_address", ":6789"),
        ("--health-probe-bind-address", "0", "probe_address", "0"),
        ("--helm", "/usr/local/bin/helm", "helm", "/usr/local/bin/helm"),
    ],
)
def test_a_flags_value_stands_behind_a_blank_or_an_equals_sign(run, flag, value, name, wanted):
    assert getattr(run("run", flag, value), name) == wanted
    assert getattr(run("run", f"{flag}={value}"), name) == wanted
    assert getattr(run(f"{flag}={value}"), name) == wanted


def test_watches_may_lie_elsewhere(run, folder):
    elsewhere = folder / "etc"
    elsewhere.mkdir()
    for name in ("watches.yaml", "chart"):
        (folder / name).rename(elsewhere / name)
    for arguments in (["--watches-file", "etc/watches.yaml"], [f"--watches-file={elsewhere}/watches.yaml"]):
        run("run", *arguments)


SDK_FLAGS = [
    "--metrics-bind-address=:8443",
    "--metrics-secure",
    "--metrics-require-rbac",
    "--enable-http2",
    "--suppress-override-values",
    "--zap-stacktrace-level=error",
    "--zap-time-encoding=rfc3339",
]


@pytest.mark.parametrize("flag", SDK_FLAGS)
def test_what_is_not_built_yet_is_taken_with_a_warning_that_names_it(run, flag, caplog):
    run(flag)

    name = flag.partition("=")[0]
    assert [record.levelname for record in caplog.records if name in record.getMessage()] == ["WARNING"]


def test_the_arguments_of_operator_sdks_manifests_start_the_operator(run):
    """Their image has the command in its entry point, and ours has not: the arguments begin with a flag."""
    settings = run(
        "--metrics-bind-address=:8443",
        "--metrics-secure",
        "--metrics-require-rbac",
        "--leader-elect",
        "--leader-election-id=memcached-operator",
        "--leader-election-namespace=system",
        "--health-probe-bind-address=:8081",
    )
    assert settings.probe_address == ":8081"
    assert (settings.lease.namespace, settings.lease.name) == ("system", "memcached-operator")
    assert run("--metrics-addr", "127.0.0.1:8080", "--reconcile-period", "5s").reconcile_period == 5


@pytest.mark.parametrize("value", ["false", "False", "F", "0"])
def test_a_switch_may_be_off(run, value):
    assert run("run", f"--leader-elect={value}", f"--zap-devel={value}", f"--metrics-secure={value}").lease is None


@pytest.mark.parametrize(
    "argument",
    [
        "--reconcile-period=soon",
        "--reconcile-period=0s",
        "--reconcile-period=-1m",
        "--reconcile-period=60",
        "--max-concurrent-reconciles=0",
        "--max-concurrent-reconciles=-1",
        "--max-concurrent-reconciles=many",
        "--max-concurrent-reconciles=\N{SUPERSCRIPT TWO}",
        "--retry-base=",
        "--retry-ceiling=1",
        "--health-probe-bind-address=8081",
        "--health-probe-bind-address=:99999",
        "--health-probe-bind-address=::1",
        "--leader-elect=perhaps",
        "--zap-devel=2",
        "--zap-encoder=xml",
        "--zap-log-level=loud",
        "--zap-log-level=0",
        "--zap-log-level=-1",
    ],
)
def test_a_bad_value_is_refused_and_its_flag_is_named(refused, argument):
    flag, _, value = argument.partition("=")

    last = refused("run", argument).splitlines()[-1]
    assert f"argument {flag}: " in last
    assert value in last


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "COMMAND"),
        (["serve"], "serve"),
        (["run", "--frobnicate"], "--frobnicate"),
        (["--frobnicate"], "--frobnicate"),
        (["run", "--reconcile=5s"], "--reconcile=5s"),
        (["check", "--watches=x"], "--watches=x"),
        (["check", "--reconcile-period=5s"], "--reconcile-period=5s"),
        (["run", "watches.yaml"], "watches.yaml"),
        (["run", "--leader-election-id"], "--leader-election-id"),
    ],
)
def test_what_is_not_known_is_refused_by_name(refused, arguments, says):
    assert says in refused(*arguments)


@pytest.mark.parametrize(
    ("arguments", "encoder", "level"),
    [
        (["--zap-devel"], "console", logging.DEBUG),
        (["--zap-devel=true", "--zap-log-level=error"], "console", logging.ERROR),
        (["--zap-devel", "--zap-encoder", "json"], "json", logging.DEBUG),
        (["--zap-encoder=console"], "console", logging.INFO),
        (["--zap-log-level=debug"], "json", logging.DEBUG),
        (["--zap-log-level", "5"], "json", logging.DEBUG),
        (["--zap-log-level=Info"], "json", logging.INFO),
        (["--zap-log-level=panic"], "json", logging.CRITICAL),
    ],
)
def test_log_flags_mean_what_zaps_mean(run, logs, arguments, encoder, level):
    run("run", *arguments)
    assert logs == {"encoder": encoder, "level": level}


def test_the_longest_pause_is_never_below_the_first(run):
    assert run("run", "--retry-base=1h").retry_ceiling == 3600


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (None, ()),
        ("", ()),
        (" , ,", ()),
        ("shop", ("shop",)),
        (" shop , far,shop,", ("shop", "far")),
    ],
)
def test_watch_namespace_is_a_list_with_commas_and_nothing_means_all(run, monkeypatch, text, wanted):
    assert namespaces_from(text) == wanted
    if text is not None:
        monkeypatch.setenv("WATCH_NAMESPACE", text)
    assert run("run").namespaces == wanted


def test_check_tells_the_watches_and_needs_no_cluster(folder, capsys):
    assert cli.main(["check"]) == 0
    told = capsys.readouterr()
    assert told.out.splitlines() == [
        f"shop.example.com/v1 Web: chart web-0.1.0 from {folder}/chart",
        "watches.yaml: 1 watch, no mistakes found",
    ]
    assert told.err == ""


@pytest.mark.parametrize("command", [["check"], ["run"], ["--zap-devel=false"]])
def test_every_mistake_of_watches_yaml_is_a_line_and_the_exit_code_is_2(folder, logs, capsys, command):
    (folder / "watches.yaml").write_text(ENTRY.replace("v1", "'!'").replace("./chart", "./none"))

    assert cli.main(command) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2
    assert all("watches.yaml:1: entry 1" in line for line in lines)


@pytest.mark.parametrize(
    "error", [HelmError("helm is missing", kind=HelmErrorKind.CRASHED), OSError(98, "address in use")]
)
def test_an_operator_that_cannot_go_on_says_why_in_one_line(folder, logs, monkeypatch, capsys, error):
    class Operator:
        def __init__(self, *_):
            pass

        async def run(self, _):
            raise error

    monkeypatch.setattr(cli, "Operator", Operator)
    assert cli.main(["run"]) == 1
    assert capsys.readouterr().err == f"helm-operator: {error}\n"


def test_versions_are_told(capsys, monkeypatch):
    assert cli.main(["version"]) == 0
    assert capsys.readouterr().out.startswith(f"helm-operator {__version__}, Python {platform.python_version()}, ")
    with pytest.raises(SystemExit) as caught:
        cli.main(["--version"])
    assert caught.value.code == 0
    assert capsys.readouterr().out == f"{__version__}\n"
    monkeypatch.setattr(sys, "argv", ["helm-operator", "version"])
    assert cli.main() == 0


@pytest.mark.parametrize("arguments", [["--help"], ["-h"], ["run", "--help"], ["check", "--help"]])
def test_help_is_no_mistake(arguments, capsys):
    with pytest.raises(SystemExit) as caught:
        cli.main(arguments)
    assert caught.value.code == 0
    told = capsys.readouterr().out
    assert told.startswith("usage: helm-operator")
    if arguments[0] == "run":
        assert "--reconcile-period" in told
    elif arguments[0] != "check":
        assert "run " in told
        assert "check " in told
