"""The flags of leader election mean what they mean to operator-sdk."""

import pytest

from helm_operator import cli
from helm_operator.settings import LeaseName, own_namespace

ID = "--leader-election-id=web-operator"
NAMESPACE = "--leader-election-namespace=ops"


@pytest.fixture(autouse=True)
def outside_of_a_pod(monkeypatch):
    monkeypatch.setattr(cli, "own_namespace", lambda: "")


def lease(*flags, **environ):
    return cli._lease(cli._parser().parse_args(["run", *flags]), environ)


@pytest.mark.parametrize(
    "flags", [(), ("--leader-elect=false",), ("--enable-leader-election=false",), (ID, NAMESPACE)], ids=str
)
def test_without_the_switch_there_is_no_election(flags):
    assert lease(*flags, OPERATOR_NAME="web-operator") is None


@pytest.mark.parametrize("switch", ["--leader-elect", "--leader-elect=true", "--leader-elect=1"])
def test_the_lease_is_named_by_two_flags(switch, caplog):
    assert lease(switch, ID, NAMESPACE) == LeaseName("ops", "web-operator")
    assert caplog.records == []


def test_the_old_switch_works_and_says_that_it_is_old(caplog):
    assert lease("--enable-leader-election", ID, NAMESPACE) == LeaseName("ops", "web-operator")
    assert "use --leader-elect" in caplog.text


@pytest.mark.parametrize("values", [("", ""), ("=true", "=false"), ("=false", "=false")])
def test_both_switches_are_refused(values, capsys):
    with pytest.raises(SystemExit) as ended:
        lease(f"--leader-elect{values[0]}", f"--enable-leader-election{values[1]}", ID, NAMESPACE)
    assert ended.value.code == 2
    assert "old name of --leader-elect" in capsys.readouterr().err


def test_the_old_variable_names_the_lease_unless_the_flag_does(caplog):
    assert lease("--leader-elect", NAMESPACE, OPERATOR_NAME="old") == LeaseName("ops", "old")
    assert "use --leader-election-id=old" in caplog.text
    caplog.clear()
    assert lease("--leader-elect", ID, NAMESPACE, OPERATOR_NAME="old") == LeaseName("ops", "web-operator")
    assert caplog.records == []


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        (("--leader-elect", NAMESPACE), "needs --leader-election-id"),
        (("--leader-elect", ID), "needs --leader-election-namespace"),
        (("--leader-elect", "--leader-election-id=Web_Operator", NAMESPACE), "--leader-election-id: 'Web_Operator'"),
        (("--leader-elect", "--leader-election-id=a/b", NAMESPACE), "--leader-election-id: 'a/b'"),
        (("--leader-elect", ID, "--leader-election-namespace=../x"), "--leader-election-namespace: '../x'"),
    ],
)
def test_what_is_missing_or_wrong_is_named(flags, text, capsys):
    with pytest.raises(SystemExit) as ended:
        lease(*flags)
    assert ended.value.code == 2
    assert text in capsys.readouterr().err


def test_in_a_pod_its_namespace_is_taken(tmp_path, monkeypatch):
    file = tmp_path / "namespace"
    file.write_text("ops\n")
    assert own_namespace(file) == "ops"
    assert own_namespace(tmp_path / "missing") == ""
    monkeypatch.setattr(cli, "own_namespace", lambda: "ops")
    assert lease("--leader-elect", ID) == LeaseName("ops", "web-operator")
    assert lease("--leader-elect", ID, "--leader-election-namespace=other") == LeaseName("other", "web-operator")
