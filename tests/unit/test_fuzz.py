"""What reads other people's words may say no, but only in its own way, and in bounded time and memory.

`make fuzz` tries many more examples than the ordinary run (FUZZ_EXAMPLES).
"""

import base64
import datetime
import gzip
import io
import json
import os
import tarfile
import tempfile
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from helm_operator.annotations import wishes
from helm_operator.charts import load_chart
from helm_operator.charts.files import Budget, read_archive
from helm_operator.charts.ignore import Rules
from helm_operator.durations import format_duration, parse_duration
from helm_operator.errors import ChartProblem, ConfigError, HelmErrorKind, TerminalError
from helm_operator.helm import decode_release, mark_failed, records
from helm_operator.helm.classify import MAX_MESSAGE, helm_error
from helm_operator.overrides import Override, apply_overrides, expand, typed
from helm_operator.release import ReleaseContent
from helm_operator.selectors import LabelSelector
from helm_operator.values import parse_path
from helm_operator.watches import Watches, load_watches

EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "60"))
MEGABYTES = 1_000_000

fuzz = settings(
    max_examples=EXAMPLES,
    deadline=datetime.timedelta(seconds=5),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    print_blob=True,
)

WORDS = st.sampled_from(
    [
        "",
        "~",
        "yes",
        "null",
        "0x1f",
        "1e999",
        "2026-01-01",
        "!!int x",
        "&a [*a]",
        "<<",
        "*a",
        "{{ x }}",
        "$(id)",
        "\0",
        "é\ud800",
    ]
)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20) | WORDS
TREES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
)
TAGS = st.sampled_from(
    ["int", "float", "bool", "null", "timestamp", "binary", "set", "omap", "pairs", "merge", "python/x"]
)
TAGGED = st.builds(lambda tag, value: f"!!{tag} {json.dumps(value)}", TAGS, TREES)
YAML = st.one_of(
    st.binary(max_size=300),
    st.text(max_size=300).map(lambda text: text.encode(errors="replace")),
    TREES.map(lambda tree: json.dumps(tree).encode()),
    TAGGED.map(lambda text: text.encode()),
)

LAUGHS = "\n".join(
    [
        "a0: &a0 [x]",
        *(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 30)),
        "name: web",
        "version: 1.0.0",
    ]
).encode()
MERGES = "\n".join(
    ["a0: &a0 {x: y}", *(f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 9)}]}}" for n in range(1, 30)), "<<: *a29"]
).encode()
CIRCLE = b"name: web\nversion: 1.0.0\nx: &x [*x]\ny: &y {z: *y}"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fuzz")
    (folder / "chart").mkdir()
    (folder / "chart" / "Chart.yaml").write_text("name: web\nversion: 0.1.0\n")
    return folder


def peak(call, *arguments):
    """Return the bytes that were in use at most."""
    tracemalloc.start()
    try:
        call(*arguments)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


# watches.yaml

KEYS = [
    "group",
    "version",
    "kind",
    "chart",
    "overrideValues",
    "selector",
    "reconcilePeriod",
    "timeout",
    "wait",
    "install",
]
ENTRIES = st.dictionaries(
    st.sampled_from([*KEYS, "upgrade", "uninstall", "historyMax", "values", "dryRunOption"]), TREES
)


def watches_of(folder, data):
    path = folder / "watches.yaml"
    path.write_bytes(data)
    try:
        assert isinstance(load_watches(path, {"HOME": "/"}), Watches)
    except ConfigError as error:
        assert error.problems
        assert all(str(problem) for problem in error.problems)


@fuzz
@given(YAML | st.lists(ENTRIES, max_size=3).map(lambda entries: json.dumps(entries).encode()))
@example(b"- " + b"[" * 2_000)
@example(b"- {group: &a [*a], selector: &b {matchLabels: *b}, overrideValues: &c {a: *c}}")
def test_watches_yaml(folder, data):
    watches_of(folder, data)


@pytest.mark.parametrize("bomb", [LAUGHS, MERGES], ids=["aliases", "merge keys"])
@pytest.mark.parametrize("key", ["selector", "overrideValues", "install"])
@pytest.mark.timeout(20)
def test_a_bomb_in_watches_yaml(folder, bomb, key):
    indented = bomb.replace(b"\n", b"\n    ")
    data = b"- group: a.example.com\n  version: v1\n  kind: A\n  chart: chart\n  %s:\n    %s\n" % (
        key.encode(),
        indented,
    )
    assert peak(watches_of, folder, data) < 20 * MEGABYTES


# Words in watches.yaml and in annotations


@fuzz
@given(st.text() | st.from_regex(r"[+-]?([0-9]{1,25}(\.[0-9]{0,25})?(ns|us|ms|s|m|h|d)?){1,5}", fullmatch=True))
@example("9" * 100_000 + "h")
@example("0." + "9" * 100_000 + "h")
def test_durations(text):
    try:
        seconds = parse_duration(text)
    except ValueError as error:
        assert str(error)
    else:
        assert parse_duration(format_duration(seconds)) == pytest.approx(seconds, rel=1e-9, abs=1e-9)


@fuzz
@given(
    st.dictionaries(st.text(max_size=5), TREES)
    | st.fixed_dictionaries({"matchLabels": TREES, "matchExpressions": TREES})
)
def test_selectors(mapping):
    try:
        chosen = LabelSelector.from_mapping(mapping)
    except ValueError as error:
        assert str(error)
    else:
        assert chosen.matches({}) in (True, False)
        assert isinstance(str(chosen), str)


@fuzz
@given(
    st.text(alphabet="abc.[]\\,={}0123456789-+$", max_size=30),
    st.text(alphabet="$${}ABC_1* \n", max_size=30),
    st.dictionaries(st.text(max_size=3), TREES, max_size=3),
)
@example("a" + "[0]" * 1000, "", {})
@example("a[99999999999999999999]", "", {})
@example("a[65536][65536]", "", {})
@example(".".join("a" * 2000), "", {})
def test_overrides(key, text, base):
    before = json.dumps(base)
    try:
        path = parse_path(key)
        value, _ = expand(text, {"A": "1"})
        assert isinstance(apply_overrides(base, [Override(path, typed(value))]), dict)
    except (ValueError, TerminalError) as error:
        assert str(error)
    assert json.dumps(base) == before


NAMES = st.sampled_from(
    ["reconcile-period", "pause", "reconcile", "reset", "let-go", "upgrade-force", "install-description", "x"]
)


@fuzz
@given(st.dictionaries(NAMES.map(lambda name: f"helm-operator.io/{name}") | st.text(), st.text() | WORDS))
def test_annotations(folder, annotations):
    path = folder / "good.yaml"
    path.write_text("- {group: a.example.com, version: v1, kind: A, chart: chart}")
    (watch,) = load_watches(path, {}).entries
    found = wishes(annotations, watch)
    assert all(len(warning.encode(errors="replace")) < 2000 for warning in found.warnings)


@fuzz
@given(st.text(alphabet="ab*?[]^-!\\/# \n.", max_size=60))
@example("*a" * 200 + "\n")
def test_helmignore(text):
    try:
        rules = Rules.parse(text)
    except ValueError as error:
        assert str(error)
    else:
        assert rules.ignores("a" * 40 + "/b", directory=False) in (True, False)


# What Helm says


@fuzz
@given(
    st.text(max_size=2000) | st.binary(max_size=2000).map(lambda data: data.decode(errors="replace")),
    st.integers(-70, 300),
    st.sampled_from(["install", "upgrade", "uninstall", "rollback", ""]),
)
@example("Error: " * 20_000, 1, "install")
@example("Error: INSTALLATION FAILED: Invalid value: " + "{" * 100_000, 1, "install")
@example('Error: Invalid value: "' + "\\" * 100_000, 1, "install")
@example("Error: 2 errors occurred:\n" + "\t* a\n" * 50_000, 1, "install")
@example("Error: context deadline exceeded\n" + " \n" * 50_000, 1, "rollback")
@example('Error: failed to delete release: x\nmsg="uninstall: Failed to delete release" error="' + "\\" * 50_001, 1, "")
@example("Error: " + "namespaces a " * 20_000, 1, "install")
@example("Error: " + "hook " * 30_000, 1, "install")
def test_standard_error(text, code, verb):
    error = helm_error(text, code, verb=verb)
    assert isinstance(error.kind, HelmErrorKind)
    assert str(error)
    assert len(str(error).encode(errors="replace")) <= MAX_MESSAGE


# Release records


def payload(data):
    return base64.b64encode(base64.b64encode(data)).decode()


def decodes(text):
    for read in (decode_release, lambda record: mark_failed(record, "x")):
        try:
            assert isinstance(read(text), ReleaseContent | str)
        except ValueError as error:
            assert str(error)


RECORD = {"version": 3, "info": {"status": "deployed"}, "chart": {"metadata": {"name": "a"}}, "manifest": "a: b\n"}
RECORDS = st.fixed_dictionaries(
    {}, optional={key: TREES | st.just(value) for key, value in {**RECORD, "config": {}, "hooks": []}.items()}
)


@fuzz
@given(
    st.text(max_size=50)
    | st.binary(max_size=300).map(payload)
    | st.binary(max_size=300).map(lambda data: payload(gzip.compress(data)))
    | YAML.map(
        lambda data: payload(gzip.compress(json.dumps(RECORD | {"manifest": data.decode(errors="replace")}).encode()))
    )
    | RECORDS.map(lambda tree: payload(gzip.compress(json.dumps(tree).encode())))
    | st.integers(0, 100).map(lambda end: payload(gzip.compress(json.dumps(RECORD).encode())[:end]))
)
@example(payload(b'{"version": ' + b"9" * 5000 + b"}"))
@example(payload(b"[" * 100_000))
@example(payload(json.dumps(RECORD | {"manifest": LAUGHS.decode()}).encode()))
@example(payload(json.dumps(RECORD | {"manifest": CIRCLE.decode()}).encode()))
@example(payload(json.dumps(RECORD | {"manifest": "[" * 10_000}).encode()))
def test_release_records(text):
    decodes(text)


def test_a_record_that_unpacks_to_too_much_is_refused_at_the_limit(monkeypatch):
    monkeypatch.setattr(records, "MAX_RECORD", 1 * MEGABYTES)
    bomb = payload(gzip.compress(bytes(50 * MEGABYTES)))
    assert peak(decodes, bomb) < 10 * MEGABYTES


# Charts


def loads(data):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "web.tgz"
        path.write_bytes(data)
        try:
            load_chart(path)
        except ChartProblem as error:
            assert str(error).startswith(f"chart {path}: ")


def packed(files):
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w:gz") as archive:
        for name, kind, content in files:
            member = tarfile.TarInfo(name)
            member.type, member.size, member.linkname = kind, len(content), name
            archive.addfile(member, io.BytesIO(content))
    return target.getvalue()


PATHS = st.sampled_from(
    [
        "Chart.yaml",
        "values.yaml",
        "values.schema.json",
        "requirements.yaml",
        ".helmignore",
        "templates/a",
        "charts/a.tgz",
        "charts/b/Chart.yaml",
    ]
) | st.text(max_size=20).map(lambda text: text.encode(errors="replace").decode())
TYPES = st.sampled_from([tarfile.REGTYPE] * 6 + [tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE])
MEMBERS = st.lists(st.tuples(PATHS.map(lambda path: f"web/{path}"), TYPES, YAML), max_size=5)
GOOD = ("web/Chart.yaml", tarfile.REGTYPE, b"name: web\nversion: 1.0.0\n")


@fuzz
@given(
    st.binary(max_size=300)
    | st.binary(max_size=2000).map(gzip.compress)
    | MEMBERS.map(packed)
    | MEMBERS.map(lambda members: packed([GOOD, *members]))
    | st.tuples(st.integers(0, 600), st.binary(min_size=1, max_size=20)).map(
        lambda change: gzip.compress(
            gzip.decompress(packed([GOOD]))[: change[0]]
            + change[1]
            + gzip.decompress(packed([GOOD]))[change[0] + len(change[1]) :]
        )
    )
)
@example(packed([("web/Chart.yaml", tarfile.REGTYPE, CIRCLE)]))
@example(packed([GOOD, ("web/values.yaml", tarfile.REGTYPE, b"[" * 100_000)]))
@example(packed([GOOD, ("web/values.schema.json", tarfile.REGTYPE, b"[" * 100_000)]))
@example(packed([("web/Chart.yaml", tarfile.REGTYPE, b"a: " + b"[" * 10_000)]))
@example(packed([("web/Chart.yaml", tarfile.REGTYPE, b"name: !!int web\nversion: !!timestamp 1.0.0\nx: !!bool y")]))
def test_chart_archives(data):
    loads(data)


@fuzz
@given(st.lists(st.binary(min_size=512, max_size=512), max_size=4))
def test_tar_headers(blocks):
    try:
        read_archive(io.BytesIO(gzip.compress(b"".join(blocks))), Budget())
    except ChartProblem as error:
        assert str(error)


@pytest.mark.parametrize("bomb", [LAUGHS, MERGES], ids=["aliases", "merge keys"])
@pytest.mark.parametrize("name", ["Chart.yaml", "values.yaml", "requirements.yaml"])
@pytest.mark.timeout(20)
def test_a_bomb_in_a_chart(bomb, name):
    members = {GOOD[0]: GOOD, f"web/{name}": (f"web/{name}", tarfile.REGTYPE, bomb + b"\nname: web\nversion: 1.0.0")}
    assert peak(loads, packed(list(members.values()))) < 20 * MEGABYTES
