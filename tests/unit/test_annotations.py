"""What annotations of a custom resource ask for."""

import math
from pathlib import Path

import pytest

from helm_operator.annotations import MAX_DESCRIPTION, MAX_TOKEN, Wishes, wishes
from helm_operator.charts import Chart
from helm_operator.plan import desire
from helm_operator.release import (
    ChartInfo,
    CustomResource,
    InstallOptions,
    Remediation,
    UninstallOptions,
    UpgradeOptions,
)
from helm_operator.watches import Watch

SDK = "helm.sdk.operatorframework.io"
OURS = "helm-operator.io"
CHART = Chart(path=Path("/charts/web"), info=ChartInfo("web", "1.0.0"), stamp=())
TRUE = ("1", "t", "T", "TRUE", "true", "True")
FALSE = ("0", "f", "F", "FALSE", "false", "False")


def watch(**changes):
    return Watch(group="shop.example.com", version="v1", kind="Web", chart=CHART, **changes)


FULL = watch(
    reconcile_period=40.0,
    install=InstallOptions(retries=1, remediation=Remediation.UNINSTALL),
    upgrade=UpgradeOptions(retries=2, remediation=Remediation.ROLLBACK, cleanup_on_fail=True, force_conflicts=True),
    uninstall=UninstallOptions(keep_history=True),
)


def test_without_annotations_all_is_as_the_watch_says():
    wanted = Wishes(FULL.install, FULL.upgrade, FULL.uninstall, 40.0)
    others = {"kubectl.kubernetes.io/last-applied-configuration": "{}", "note": "helm-operator.io/pause"}

    assert wishes({}, FULL) == wishes(others, FULL) == wanted
    assert wishes({f"{OURS}/reset": ""}, FULL) == wanted
    assert not wanted.paused
    assert not wanted.let_go
    assert wanted.warnings == ()


FLAGS = [
    pytest.param(f"{SDK}/install-disable-hooks", lambda w: w.install.disable_hooks, id="no hooks on install"),
    pytest.param(f"{SDK}/upgrade-disable-hooks", lambda w: w.upgrade.disable_hooks, id="no hooks on upgrade"),
    pytest.param(f"{SDK}/uninstall-disable-hooks", lambda w: w.uninstall.disable_hooks, id="no hooks on uninstall"),
    pytest.param(f"{SDK}/upgrade-force", lambda w: w.upgrade.force, id="force an upgrade"),
    pytest.param(f"{SDK}/rollback-force", lambda w: w.upgrade.rollback_force, id="force a rollback"),
    pytest.param(f"{SDK}/uninstall-wait", lambda w: w.uninstall.wait, id="wait for an uninstall"),
    pytest.param(f"{OURS}/pause", lambda w: w.paused, id="pause"),
    pytest.param(f"{OURS}/let-go", lambda w: w.let_go, id="let go"),
]


@pytest.mark.parametrize(("name", "flag"), FLAGS)
def test_flags_are_read_as_go_reads_booleans(name, flag):
    opposite = watch(
        install=InstallOptions(disable_hooks=True),
        upgrade=UpgradeOptions(disable_hooks=True, force=True, rollback_force=True),
        uninstall=UninstallOptions(disable_hooks=True),
    )
    for value in TRUE:
        found = wishes({name: value}, watch(uninstall=UninstallOptions(wait=False)))
        assert (flag(found), found.warnings) == (True, ())
    for value in FALSE:
        found = wishes({name: value}, opposite)
        assert (flag(found), found.warnings) == (False, ())


@pytest.mark.parametrize(("name", "flag"), FLAGS)
@pytest.mark.parametrize("value", ["", "yes", "tRUE", " true", "on", "2", "\0", "x" * 200_000])
def test_a_bad_flag_keeps_the_default_and_is_told(name, flag, value):
    found = wishes({name: value}, FULL)

    assert flag(found) == flag(wishes({}, FULL))
    (warning,) = found.warnings
    assert warning.startswith(f"annotation {name}: ")
    assert warning.endswith(" is neither true nor false; it counts as left out")
    assert len(warning) < 200


def test_a_flag_changes_nothing_else_of_the_watch():
    found = wishes({f"{SDK}/upgrade-force": "true", f"{SDK}/uninstall-wait": "false"}, FULL)

    assert found.install == FULL.install
    assert found.upgrade == UpgradeOptions(
        retries=2, remediation=Remediation.ROLLBACK, cleanup_on_fail=True, force_conflicts=True, force=True
    )
    assert found.uninstall == UninstallOptions(wait=False, keep_history=True)
    assert found.reconcile_period == 40.0


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        pytest.param("3s", 3.0, id="seconds"),
        pytest.param("1h2m4s", 3724.0, id="Go's way of writing it"),
        pytest.param("1s", 1.0, id="the shortest"),
        pytest.param("0s", math.inf, id="none at all, as in operator-sdk"),
    ],
)
def test_the_period_of_the_annotation_wins(value, seconds):
    for base in (watch(), FULL):
        found = wishes({f"{SDK}/reconcile-period": value}, base)
        assert (found.reconcile_period, found.warnings) == (seconds, ())


@pytest.mark.parametrize("value", ["4x", "60", "", "-5s", "1ms", "999ms", "9" * 5000 + "h"])
def test_a_bad_period_keeps_that_of_the_watch_and_is_told(value):
    found = wishes({f"{SDK}/reconcile-period": value}, FULL)

    assert found.reconcile_period == 40.0
    (warning,) = found.warnings
    assert warning.startswith(f"annotation {SDK}/reconcile-period: ")
    assert len(warning) < 200
    assert wishes({f"{SDK}/reconcile-period": value}, watch()).reconcile_period is None


@pytest.mark.parametrize("action", ["install", "upgrade", "uninstall"])
@pytest.mark.parametrize(
    ("value", "description"),
    [
        pytest.param("release 7, for ticket 12", "release 7, for ticket 12", id="text stays"),
        pytest.param("", "", id="none is Helm's own"),
        pytest.param("two\nlines\0\x1b[31m", "two lines  [31m", id="it becomes one line"),
        pytest.param("x" * 256, "x" * 256, id="the longest"),
        pytest.param("x" * 200_000, "x" * 255 + "…", id="and one that Linux would not hand over"),
    ],
)
def test_descriptions_are_one_line_of_bounded_length(action, value, description):
    found = wishes({f"{SDK}/{action}-description": value}, watch())

    assert getattr(found, action).description == description
    assert len(description) <= MAX_DESCRIPTION
    assert found.warnings == ()


@pytest.mark.parametrize(
    ("name", "token"),
    [
        pytest.param("reconcile", lambda w: w.force_token, id="of a new revision"),
        pytest.param("reset", lambda w: w.reset_token, id="of a fresh start"),
    ],
)
def test_tokens_are_any_text_and_bounded(name, token):
    def read(text):
        return token(wishes({f"{OURS}/{name}": text}, watch()))

    long = "x" * MAX_TOKEN
    assert [read(text) for text in ("", "2026-11-30T10:00:00Z", "false", long)] == [
        None,
        "2026-11-30T10:00:00Z",
        "false",
        long,
    ]
    assert read(long + "a") != read(long + "b")
    assert len(read(long * 1000)) <= MAX_TOKEN


def test_orphaned_releases_are_let_go():
    orphaning = watch(uninstall=UninstallOptions(orphan=True))

    assert wishes({}, orphaning).let_go
    assert wishes({f"{OURS}/let-go": "false"}, orphaning).let_go
    assert wishes({f"{OURS}/let-go": "true"}, watch()).uninstall == UninstallOptions()


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        pytest.param(f"{OURS}/paused", f"; did you mean {OURS}/pause?", id="a misspelt one of ours"),
        pytest.param(f"{SDK}/upgrade-forced", f"; did you mean {SDK}/upgrade-force?", id="and of operator-sdk"),
        pytest.param(f"{OURS}/xyzzy-12345678901234567890", "", id="nothing like it"),
    ],
)
def test_unknown_names_under_our_prefixes_are_told(name, hint):
    found = wishes({name: "true", f"{OURS}/adopt": "web"}, watch())

    assert found.warnings == (f"annotation {name} is unknown and does nothing{hint}",)
    assert not found.paused
    assert not found.upgrade.force


def test_all_that_is_wrong_is_told_and_the_rest_counts():
    found = wishes(
        {f"{SDK}/upgrade-force": "si", f"{SDK}/reconcile-period": "soon", f"{OURS}/pause": "true", f"{OURS}/x": ""},
        watch(),
    )

    assert found.paused
    assert len(found.warnings) == 3


def test_wishes_reach_the_desired_release_but_not_its_digest():
    meta = {"name": "web", "namespace": "shop", "uid": "uid-1"}
    resource, base = CustomResource.from_body({"kind": "Web", "metadata": meta, "spec": {}}), watch()
    wished = wishes({f"{SDK}/upgrade-force": "true", f"{SDK}/install-description": "hello"}, base)

    plain, desired = desire(resource, base, CHART), desire(resource, base, CHART, wished)

    assert (plain.install, plain.upgrade) == (base.install, base.upgrade)
    assert (desired.install.description, desired.upgrade.force) == ("hello", True)
    assert desired.input_digest == plain.input_digest
    assert desire(resource, FULL, CHART).input_digest == plain.input_digest
    assert desire(resource, FULL, CHART).upgrade == FULL.upgrade
