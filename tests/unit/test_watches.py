import json
import re

import pytest

from helm_operator.drift_policy import DriftMode, DriftPolicy, Target
from helm_operator.errors import ConfigError
from helm_operator.release import InstallOptions, Remediation, UninstallOptions, UpgradeOptions
from helm_operator.selectors import LabelSelector
from helm_operator.watches import Override, load_watches

ENTRY = {"group": "shop.example.com", "version": "v1", "kind": "Web", "chart": "./chart"}


def written(entries):
    """Return entries as YAML with one key a line."""
    texts = ["\n  ".join(f"{key}: {json.dumps(value)}" for key, value in entry.items()) for entry in entries]
    return "".join(f"- {text}\n" for text in texts)


@pytest.fixture
def load(tmp_path):
    """Read a watches.yaml, given as text or as entries, that stands beside two charts."""
    for name, extra in (("chart", ""), ("lib-chart", "type: library\n")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "Chart.yaml").write_text(f"apiVersion: v2\nname: web\nversion: 0.1.0\n{extra}")

    def load(content, environ=None):
        path = tmp_path / "watches.yaml"
        text = written(content) if isinstance(content, list) else content
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return load_watches(path, environ or {})

    return load


@pytest.fixture
def problems(load, tmp_path):
    """Return each problem as one line, without the folder."""

    def problems(content, environ=None):
        with pytest.raises(ConfigError) as caught:
            load(content, environ)
        return [str(problem).removeprefix(f"{tmp_path}/") for problem in caught.value.problems]

    return problems


def test_an_entry_with_only_the_required_keys_has_the_documented_defaults(load, tmp_path):
    watches = load([ENTRY])
    (watch,) = watches.entries

    assert str(watch) == "shop.example.com/v1 Web"
    assert (watch.chart.path, watch.chart.info.name) == (tmp_path / "chart", "web")
    assert (watch.watch_dependent_resources, watch.wait, watch.timeout, watch.history_max) == (True, False, 300, 10)
    assert (watch.reconcile_period, watch.max_concurrent_reconciles, watch.dry_run_option) == (None, None, None)
    assert (watch.overrides, watch.selector) == ((), LabelSelector())
    assert watch.install == InstallOptions(retries=None, remediation=Remediation.NONE, disable_hooks=False)
    assert watch.upgrade == UpgradeOptions(
        retries=None,
        remediation=Remediation.NONE,
        cleanup_on_fail=False,
        force=False,
        force_conflicts=None,
        rollback_force=False,
        disable_hooks=False,
    )
    assert watch.uninstall == UninstallOptions(wait=True, keep_history=False, orphan=False, disable_hooks=False)
    assert (watches.warnings, watches.path) == ((), tmp_path / "watches.yaml")


def test_every_key_is_read(load):
    selector = {"matchExpressions": [{"key": "tier", "operator": "Exists", "values": []}]}
    keys = {
        "watchDependentResources": False,
        "overrideValues": {"a.b": 1},
        "selector": selector,
        "reconcilePeriod": "1m30s",
        "maxConcurrentReconciles": 2,
        "dryRunOption": "server",
        "timeout": "10m",
        "wait": True,
        "historyMax": 3,
        "install": {"retries": 0, "remediation": "uninstall", "disableHooks": True},
        "upgrade": {
            "retries": 5,
            "remediation": "rollback",
            "cleanupOnFail": True,
            "force": True,
            "disableHooks": True,
        },
        "uninstall": {"wait": False, "keepHistory": True, "disableHooks": True},
    }

    (watch,) = load([ENTRY | keys]).entries

    assert (watch.watch_dependent_resources, watch.wait, watch.timeout, watch.history_max) == (False, True, 600, 3)
    assert (watch.reconcile_period, watch.max_concurrent_reconciles, watch.dry_run_option) == (90, 2, "server")
    assert watch.overrides == (Override(("a", "b"), 1),)
    assert str(watch.selector) == "tier"
    assert watch.install == InstallOptions(retries=0, remediation=Remediation.UNINSTALL, disable_hooks=True)
    assert watch.upgrade == UpgradeOptions(
        retries=5, remediation=Remediation.ROLLBACK, cleanup_on_fail=True, force=True, disable_hooks=True
    )
    assert watch.uninstall == UninstallOptions(wait=False, keep_history=True, disable_hooks=True)


@pytest.mark.parametrize(
    ("key", "value", "options"),
    [
        pytest.param("install", {"remediation": "none"}, InstallOptions(), id="none is the default"),
        pytest.param("upgrade", {"forceConflicts": True}, UpgradeOptions(force_conflicts=True), id="taking fields"),
        pytest.param("uninstall", {"orphan": True}, UninstallOptions(orphan=True), id="leaving the release"),
        pytest.param("upgrade", {}, UpgradeOptions(), id="an empty map says nothing"),
        pytest.param("uninstall", None, UninstallOptions(), id="nor does no value"),
        pytest.param("upgrade", {"retries": None, "force": None}, UpgradeOptions(), id="nor do keys without one"),
    ],
)
def test_options_of_actions(load, key, value, options):
    (watch,) = load([ENTRY | {key: value}]).entries

    assert getattr(watch, key) == options


@pytest.mark.parametrize(
    ("lines", "line", "key", "fault"),
    [
        pytest.param("install: [a]", 5, "install", "expected a map, not a list", id="a list for options"),
        pytest.param("install: uninstall", 5, "install", "expected a map, not a string", id="a word for options"),
        pytest.param(
            "install:\n  retires: 1", 6, "install.retires", "unknown key; did you mean retries?", id="a misspelt key"
        ),
        pytest.param("install:\n  force: true", 6, "install.force", "unknown key", id="a key of another action"),
        pytest.param(
            "install:\n  retries: -1",
            6,
            "install.retries",
            "expected a whole number from 0 up, not -1",
            id="less than no retries",
        ),
        pytest.param(
            "install:\n  retries: 1.5",
            6,
            "install.retries",
            "expected a whole number from 0 up, not 1.5",
            id="half a retry",
        ),
        pytest.param(
            "upgrade:\n  retries: '3'",
            6,
            "upgrade.retries",
            "expected a whole number from 0 up, not a string",
            id="retries in quotes",
        ),
        pytest.param(
            "install:\n  remediation: rollback",
            6,
            "install.remediation",
            "expected uninstall or none, not 'rollback'",
            id="an install cannot be rolled back",
        ),
        pytest.param(
            "upgrade:\n  remediation: uninstall",
            6,
            "upgrade.remediation",
            "expected rollback or none, not 'uninstall'",
            id="an upgrade is not uninstalled",
        ),
        pytest.param(
            "upgrade:\n  remediation: no",
            6,
            "upgrade.remediation",
            "expected a string, not a boolean; put it in quotes",
            id="no is a boolean in YAML",
        ),
        pytest.param(
            "upgrade:\n\n  cleanupOnFail: 1",
            7,
            "upgrade.cleanupOnFail",
            "expected true or false, not a number",
            id="a number for a flag",
        ),
        pytest.param(
            "upgrade:\n  CleanUpOnFail: true",
            6,
            "upgrade.CleanUpOnFail",
            "unknown key; did you mean cleanupOnFail?",
            id="another case",
        ),
        pytest.param(
            "upgrade: {force: true, forceConflicts: true}",
            5,
            "upgrade.forceConflicts",
            "cannot be true together with upgrade.force",
            id="two kinds of force",
        ),
        pytest.param(
            "upgrade:\n  force: true\n  force: false",
            7,
            "upgrade",
            "key force stands twice, first in line 6",
            id="a key that stands twice",
        ),
        pytest.param(
            "uninstall:\n  wait: yes please",
            6,
            "uninstall.wait",
            "expected true or false, not a string",
            id="words for a flag",
        ),
        pytest.param(
            "uninstall: {orphan: true, keepHistory: true}",
            5,
            "uninstall.keepHistory",
            "cannot be true together with uninstall.orphan",
            id="an orphan with a history",
        ),
        pytest.param(
            "uninstall:\n  description: x",
            6,
            "uninstall.description",
            "unknown key",
            id="descriptions come by annotation",
        ),
        pytest.param('uninstall:\n  "a\\nb": x', 6, "uninstall", "unknown key", id="a key that is not printable"),
    ],
)
def test_a_bad_option_is_told_with_its_own_key(problems, lines, line, key, fault):
    head = "- group: g.example\n  version: v1\n  kind: Web\n  chart: ./chart\n"
    (problem,) = problems(head + "".join(f"  {text}\n" for text in lines.split("\n")))

    assert problem.startswith(f"watches.yaml:{line}: entry 1 (g.example/v1 Web), key {key}: {fault}")


def test_all_bad_options_are_told_at_once(problems):
    told = problems([ENTRY | {"install": {"a": 1, "retries": "x"}, "upgrade": {"force": "y"}}])

    assert [problem.partition("key ")[2].partition(":")[0] for problem in told] == [
        "install.a",
        "install.retries",
        "upgrade.force",
    ]


def test_a_key_without_a_value_is_a_key_left_out(load):
    optional = ("overrideValues", "selector", "reconcilePeriod", "watchDependentResources")

    assert load([ENTRY | dict.fromkeys(optional)]).entries == load([ENTRY]).entries


def test_the_core_group_is_empty(load):
    (watch,) = load([ENTRY | {"group": "", "kind": "Service"}]).entries

    assert (watch.api_version, str(watch)) == ("v1", "v1 Service")


def test_an_anchor_may_serve_several_entries_and_own_keys_win(load):
    anchored = (
        "- &base {group: shop.example.com, version: v1, kind: Web, chart: ./chart, timeout: 1m}\n"
        "- {<<: *base, kind: Api, timeout: 2m}\n"
        "- {kind: Job, <<: [{timeout: 3m}, *base]}\n"
    )

    assert [(watch.kind, watch.timeout) for watch in load(anchored).entries] == [
        ("Web", 60),
        ("Api", 120),
        ("Job", 180),
    ]


def test_comments_a_byte_order_mark_and_an_empty_second_document_do_no_harm(load):
    assert load(f"\ufeff---\n{written([ENTRY])}\n#+kubebuilder:scaffold:watch\n---\n# end\n").entries


def test_a_chart_is_looked_for_beside_the_file_first_and_then_in_the_working_directory(load, tmp_path, monkeypatch):
    there = tmp_path / "elsewhere"
    for name in ("chart", "only-there"):
        (there / name).mkdir(parents=True)
        (there / name / "Chart.yaml").write_text("apiVersion: v2\nname: there\nversion: 0.1.0\n")
    monkeypatch.chdir(there)

    names = ["chart", "only-there", str(there / "chart")]
    charts = [load([ENTRY | {"chart": name}]).entries[0].chart for name in names]

    assert [chart.info.name for chart in charts] == ["web", "there", "there"]
    assert all(chart.path.is_absolute() for chart in charts)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("", "watches.yaml: is empty: expected a list of entries"),
        ("# nothing\n---\n", "watches.yaml: is empty: expected a list of entries"),
        ("[]", "watches.yaml:1: expected a list of entries, not an empty one"),
        ("\n{}", "watches.yaml:2: expected a list of entries, not a map"),
        ("- kind: [", "watches.yaml:1: is not valid YAML: expected the node content, but found '<stream end>'"),
        ("- a: 1\n\tb: 2", "watches.yaml:2: is not valid YAML: found character '\\t' that cannot start any token"),
        ("- *a", "watches.yaml:1: is not valid YAML: found undefined alias 'a'"),
        (b"\n\n- \xff", "watches.yaml:3: is not UTF-8 text"),
        ("\n- \x01", "watches.yaml:2: is not valid YAML: it contains a control character"),
        ("[" * 3000, "watches.yaml: is not valid YAML: nested too deeply"),
        ("- a\n---\n- b", "watches.yaml:3: a second YAML document (---); all entries belong into one list"),
        ("- a", "watches.yaml:1: entry 1: expected a map, not a string"),
        ("- &a {<<: *a}", "watches.yaml:1: entry 1: a merge key (<<) that leads to itself"),
    ],
)
def test_a_file_that_is_no_list_of_entries_is_refused(problems, content, problem):
    assert problems(content) == [problem]


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"watches\.yaml: cannot be read: No such file or directory"):
        load_watches(tmp_path / "watches.yaml", {})


@pytest.mark.parametrize(
    ("key", "value", "fault"),
    [
        ("reconcilePeriods", "5s", "unknown key; did you mean reconcilePeriod?"),
        ("watchdependentresources", True, "unknown key; did you mean watchDependentResources?"),
        ("WAIT", True, "unknown key; did you mean wait?"),
        ("xyz", 1, "unknown key"),
        ("values", "a: b", "is not built yet"),
        ("chart", "./nowhere", "no such file or directory"),
        ("chart", "./lib-chart", "a library chart (type: library) cannot be installed"),
        ("chart", "", "expected the path of a directory or .tgz"),
        ("chart", "a\0b", "expected the path of a directory or .tgz"),
        ("chart", "x" * 5000, "File name too long"),
        ("chart", ["./chart"], "expected a string, not a list"),
        ("chart", "oci://registry.example.com/web", "remote charts are not built yet"),
        ("chart", {"repo": "x"}, "charts from a repository (a map) are not built yet"),
        ("group", "Shop.example.com", "'Shop.example.com' is not an API group"),
        ("group", f"{'a' * 254}", "is not an API group"),
        ("group", None, 'is missing (the core group is group: "")'),
        ("version", 1, "expected a string, not a number; put it in quotes"),
        ("version", "V1", "'V1' is not an API version: expected one such as v1 or v1alpha1"),
        ("kind", "web", "'web' is not a kind: expected CamelCase, letters and digits; did you mean Web?"),
        ("kind", "W" * 64, "is not a kind"),
        ("kind", True, "expected a string, not a boolean; put it in quotes"),
        ("watchDependentResources", "true", "expected true or false, not a string"),
        ("wait", 1, "expected true or false, not a number"),
        ("reconcilePeriod", "soon", "'soon' is not a duration"),
        ("reconcilePeriod", "-5s", "the duration -5s is not more than 0"),
        ("reconcilePeriod", "0s", "the duration 0s is not more than 0"),
        ("timeout", 60, "expected a duration with a unit, such as 60s"),
        ("timeout", ["1m"], "expected a string, not a list"),
        ("maxConcurrentReconciles", 0, "expected a whole number from 1 up, not 0"),
        ("maxConcurrentReconciles", "2", "expected a whole number from 1 up, not a string"),
        ("historyMax", 1.5, "expected a whole number from 1 up, not 1.5"),
        ("historyMax", True, "expected a whole number from 1 up, not a boolean"),
        ("dryRunOption", "all", "expected client or server, not 'all'"),
        ("selector", ["a"], "expected a map, not a list"),
        ("selector", {"matchExpressions": [{"key": "a", "operator": "Is"}]}, "operator 'Is' is not one of In, NotIn"),
        ("overrideValues", ["a"], "expected a map, not a list"),
    ],
)
def test_a_bad_value_is_told_with_line_entry_and_key(problems, key, value, fault):
    entry = {**ENTRY, key: value}
    line = list(entry).index(key) + 1

    (problem,) = problems([entry])

    assert problem.startswith(f"watches.yaml:{line}: entry 1 (")
    assert f"), key {key}: " in problem
    assert fault in problem


def test_aliases_that_lead_to_themselves_or_would_fill_the_memory_are_survived(problems):
    head = "- group: g.example\n  version: v1\n  kind: Web\n  chart: ./chart\n"
    levels = ["&l0 [x]", *(f"&l{n} [{', '.join([f'*l{n - 1}'] * 9)}]" for n in range(1, 30))]
    bomb = f"  selector:\n    matchExpressions: [{', '.join(levels)}]\n"

    assert "an alias that leads to itself" in problems(f"{head}  selector: {{matchLabels: &a [*a]}}\n")[0]
    assert "matchExpressions 1: expected a map" in problems(head + bomb)[0]


@pytest.mark.parametrize("key", list(ENTRY))
def test_a_required_key_may_not_be_missing(problems, key):
    (problem,) = problems([{name: value for name, value in ENTRY.items() if name != key}])

    assert f", key {key}: is missing" in problem


def test_all_problems_are_told_at_once_in_the_order_of_their_lines(problems):
    text = """\
- {group: shop.example.com, version: v1, kind: Web, chart: ./nowhere}
- group: shop.example.com
  version: v1
  kind: Web
  chart: ./chart
  chart: ./lib-chart
  timeout: soon
- {group: shop.example.com, chart: ./chart}
"""
    second = "entry 2 (shop.example.com/v1 Web)"
    told = problems(text)

    assert told[0].startswith("watches.yaml:1: entry 1 (shop.example.com/v1 Web), key chart: chart ")
    assert told[1:] == [
        f"watches.yaml:2: {second}: the same group, version and kind as the entry in line 1",
        f"watches.yaml:6: {second}: key chart stands twice, first in line 5",
        f"watches.yaml:7: {second}, key timeout: 'soon' is not a duration: expected a number before 'soon'",
        "watches.yaml:8: entry 3 (shop.example.com), key version: is missing",
        "watches.yaml:8: entry 3 (shop.example.com), key kind: is missing",
    ]


def test_two_versions_of_one_kind_are_allowed_with_a_warning(load):
    watches = load([ENTRY, ENTRY | {"version": "v2"}])

    assert len(watches.entries) == 2
    assert "entry 2 (shop.example.com/v2 Web): the API server shows each Web in v1 (line 1)" in watches.warnings[0]


def overrides(load, text, environ=None):
    """Read the lines of overrideValues."""
    indented = "".join(f"    {line}\n" for line in text.splitlines())
    entry = "- group: g.example\n  version: v1\n  kind: Web\n  chart: ./chart\n  overrideValues:\n"
    return load(entry + indented, environ)


@pytest.mark.parametrize(
    ("line", "value"),
    [
        pytest.param("a: true", True, id="a boolean"),
        pytest.param("a: 3", 3, id="an integer"),
        pytest.param("a: 1.5", 1.5, id="a float"),
        pytest.param("a: ~", None, id="null"),
        pytest.param("a: word", "word", id="a word"),
        pytest.param('a: ""', "", id="nothing"),
        pytest.param('a: "0755"', "0755", id="a string with a leading zero stays one"),
        pytest.param('a: "3"', "3", id="quotes make text"),
        pytest.param("a: 'true'", "true", id="of a word as well"),
        pytest.param("a: $N", 3, id="what a variable holds is typed as --set types it"),
        pytest.param('a: "$N"', "3", id="but not in quotes"),
        pytest.param("a: 2026-11-30", "2026-11-30", id="a date is text"),
        pytest.param("a: 1:30", "1:30", id="no numbers to the base of 60"),
        pytest.param("a: 1e3", "1e3", id="a commit's digest is no number"),
        pytest.param("a: cost-$$5", "cost-$5", id="a literal dollar sign"),
        pytest.param("a: ${W}", "ns1,ns2", id="a comma splits nothing"),
        pytest.param("a: $P", "p$5,{x}=y {{ $HOME }}", id="expanded once"),
    ],
)
def test_override_values_have_types(load, line, value):
    environ = {"N": "3", "W": "ns1,ns2", "P": "p$5,{x}=y {{ $HOME }}", "HOME": "/root"}

    watches = overrides(load, line, environ)

    (override,) = watches.entries[0].overrides
    assert (override.path, override.value, override.from_environment) == (("a",), value, "$" in line)
    assert type(watches.entries[0].overrides[0].value) is type(value)
    assert watches.warnings == ()


def test_override_keys_are_paths(load):
    watches = overrides(load, "a.b[0]: x\n8080: y\na\\.c: z\n")

    assert [override.path for override in watches.entries[0].overrides] == [("a", "b", 0), ("8080",), ("a.c",)]


def test_a_variable_that_is_not_set_counts_as_empty_and_is_told(load, tmp_path):
    watches = overrides(load, "fine: x\nmissing.tag: $NOPE", {"EMPTY": ""})

    assert watches.entries[0].overrides[1].value == ""
    assert watches.warnings == (
        f"{tmp_path}/watches.yaml:7: entry 1 (g.example/v1 Web), key overrideValues, path missing.tag: "
        "the environment variable NOPE is not set and counts as empty",
    )


@pytest.mark.parametrize(
    ("text", "line", "fault"),
    [
        ("a: {b: 1}", 6, "path a: expected a string, number, boolean or null, not a map"),
        ("a: [1]", 6, "path a: expected a string, number, boolean or null, not a list"),
        ("a: !secret x", 6, "of the unknown type !secret"),
        ("a: !!int x", 6, "'x' is not a number"),
        ("a: .nan", 6, ".nan is not a number that a chart can get"),
        ("a: 9223372036854775808", 6, "does not fit into 64 bits"),
        ("a: '{{ $X }}'", 6, "templates in overrideValues are not built yet"),
        ("a: ${X", 6, "write $$ for a dollar sign"),
        ("'a[': 1", 6, "path a[: path 'a[': ']' is missing"),
        ("? [x]\n: 1", 6, "a key must be text, not a list"),
        ("yes: 1", 6, "a key must be text, not a boolean; put it in quotes"),
        ("a: 1\na: 2", 7, "key a stands twice, first in line 6"),
        ("a.b: 1\na: 2", 7, "path a: cannot be set together with path a.b (line 6)"),
        ("a: 1\n'a[0].c': 2", 7, "path a[0].c: cannot be set together with path a (line 6)"),
    ],
)
def test_bad_overrides_are_told_with_their_place(problems, text, line, fault):
    (problem,) = overrides(problems, text)

    assert problem.startswith(f"watches.yaml:{line}: entry 1 (g.example/v1 Web), key overrideValues")
    assert fault in problem


def test_what_a_variable_holds_is_in_no_message(load, problems):
    watch = overrides(load, "password: $SECRET", {"SECRET": "hunter2"}).entries[0]
    (problem,) = overrides(problems, "password: $SECRET\npassword.x: $SECRET", {"SECRET": "hunter2"})

    assert "hunter2" not in f"{watch!r} {watch} {watch.overrides} {problem}"


def test_drift_is_read(load):
    target = {"group": "apps", "kind": "Deployment|StatefulSet", "labelSelector": {"matchLabels": {"a": "b"}}}
    drift = {"mode": "warn", "ignore": [{"paths": ["/spec/replicas", "/data/a~1b"], "target": target}, {"paths": [""]}]}
    (watch,) = load([{**ENTRY, "drift": drift}]).entries

    assert watch.drift.mode is DriftMode.WARN
    first, second = watch.drift.ignore
    assert first.paths == (("spec", "replicas"), ("data", "a/b"))
    assert (first.target.group, first.target.name) == (re.compile("apps"), None)
    assert first.target.kind == re.compile("Deployment|StatefulSet")
    assert first.target.labels == LabelSelector.from_mapping(target["labelSelector"])
    assert (second.paths, second.target) == (((),), Target())


def test_without_a_word_about_drift_it_is_corrected_and_nothing_is_ignored(load):
    assert load([ENTRY]).entries[0].drift == DriftPolicy(DriftMode.CORRECT, ())


@pytest.mark.parametrize("text", ["off", '"off"'])
def test_a_plain_off_is_no_boolean_here(load, text):
    (watch,) = load(f"{written([ENTRY])}  drift: {{mode: {text}}}\n").entries
    assert watch.drift.mode is DriftMode.OFF


@pytest.mark.parametrize(
    ("drift", "key", "fault"),
    [
        ("off", "drift", "expected a map, not a string"),
        ({"modus": "warn"}, "drift.modus", "unknown key"),
        ({"mode": "warning"}, "drift.mode", "expected correct, warn, off, not 'warning'; did you mean warn?"),
        ({"mode": False}, "drift.mode", "expected a string, not a boolean; put it in quotes"),
        ({"ignore": {}}, "drift.ignore", "expected a list, not a map"),
        ({"ignore": ["/spec"]}, "drift.ignore[0]", "expected a map, not a string"),
        ({"ignore": [{}]}, "drift.ignore[0].paths", "is missing"),
        ({"ignore": [{"target": {}, "paths": None}]}, "drift.ignore[0].paths", "is missing"),
        ({"ignore": [{"paths": []}]}, "drift.ignore[0].paths", "expected at least one JSON pointer"),
        ({"ignore": [{"paths": "/spec"}]}, "drift.ignore[0].paths", "expected a list, not a string"),
        ({"ignore": [{"paths": ["/a", 1]}]}, "drift.ignore[0].paths[1]", "expected a string, not a number"),
        ({"ignore": [{"paths": ["spec"]}]}, "drift.ignore[0].paths[0]", "'spec' is no JSON pointer: it starts with /"),
        ({"ignore": [{"paths": ["/a~b"]}]}, "drift.ignore[0].paths[0]", "'/a~b' is no JSON pointer: ~ is written ~0"),
        ({"ignore": [{"paths": ["/a"], "path": 1}]}, "drift.ignore[0].path", "unknown key; did you mean paths?"),
        (
            {"ignore": [{"paths": ["/a"]}, {"paths": ["/a"], "target": {"kinds": "x"}}]},
            "drift.ignore[1].target.kinds",
            "unknown key; did you mean kind?",
        ),
        (
            {"ignore": [{"paths": ["/a"], "target": {"name": "*"}}]},
            "drift.ignore[0].target.name",
            "'*' is no regular expression: nothing to repeat",
        ),
        (
            {"ignore": [{"paths": ["/a"], "target": {"labelSelector": {"a": "b"}}}]},
            "drift.ignore[0].target.labelSelector",
            "unknown field 'a': expected matchLabels or matchExpressions",
        ),
    ],
)
def test_mistakes_in_drift_are_told_with_their_place(problems, drift, key, fault):
    (problem,) = problems([{**ENTRY, "drift": drift}])
    assert problem.startswith(f"watches.yaml:5: entry 1 (shop.example.com/v1 Web), key {key}: {fault}")
