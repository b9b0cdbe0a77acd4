import pytest
from hypothesis import given
from hypothesis import strategies as st

from helm_operator.errors import TerminalError
from helm_operator.values import (
    MAX_INDEX,
    describe_change,
    digest,
    format_path,
    merge,
    parse_path,
    set_path,
    values_from_spec,
)

LEAVES = st.sampled_from([None, True, 1, "", "x", []])


def maps(inner):
    return st.dictionaries(st.sampled_from("ab"), inner, max_size=2)


VALUES = maps(LEAVES | maps(LEAVES | maps(LEAVES)))


@pytest.mark.parametrize(
    ("base", "overlay", "merged"),
    [
        pytest.param({"a": {"b": 1, "c": 2}}, {"a": {"b": 3}}, {"a": {"b": 3, "c": 2}}, id="maps are merged"),
        pytest.param({"a": [1, 2]}, {"a": [3]}, {"a": [3]}, id="lists are replaced"),
        pytest.param({"a": {"b": 1}}, {"a": None}, {"a": None}, id="a null stays and hides a map"),
        pytest.param({"a": None}, {"a": {"b": None}}, {"a": {"b": None}}, id="a null inside stays"),
        pytest.param({"a": 1}, {"a": {"b": 1}}, {"a": {"b": 1}}, id="a map replaces a scalar"),
    ],
)
def test_merge(base, overlay, merged):
    assert merge(base, overlay) == merged


@given(VALUES, VALUES)
def test_merging_changes_no_argument_and_nothing_is_neutral(a, b):
    before = digest([a, b])

    merged = merge(a, b)

    assert merge(merged, {}) == merged
    assert merge({}, a) == merge(a, a) == a
    assert merge(merged, b) == merged
    assert digest([a, b]) == before


def test_a_digest_knows_what_matters():
    assert digest({"a": 1, "b": 2.0}) == digest({"b": 2, "a": 1.0})
    assert digest({"a": 9007199254740993}) != digest({"a": 9007199254740992})
    assert digest({"a": 1}) != digest({"a": True})
    assert digest({"a": "1"}) != digest({"a": 1})
    assert digest({"a": None}) != digest({})
    with pytest.raises(ValueError, match="nan is not JSON"):
        digest(float("nan"))


def test_a_change_is_described_by_its_paths_and_never_by_a_value():
    old = {"image": {"tag": "secret-1"}, "replicas": 1, "gone": None}
    new = {"image": {"tag": "secret-2"}, "replicas": 1.0, "debug": True}

    assert describe_change(old, new) == "debug, gone, image.tag"
    assert describe_change({}, dict.fromkeys("abcdefg")) == "a, b, c, d, e and 2 more"


def test_no_spec_means_no_values_and_a_list_is_refused():
    assert values_from_spec(None) == {}
    assert values_from_spec({"probe": None}) == {"probe": None}
    with pytest.raises(TerminalError, match="not a list"):
        values_from_spec([])


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("a", ("a",)),
        ("a.b-c", ("a", "b-c")),
        (r"a\.b.c\,d", ("a.b", "c,d")),
        ("a[0]", ("a", 0)),
        ("a[1][2].b", ("a", 1, 2, "b")),
        (r"a\[0]", ("a[0]",)),
    ],
)
def test_a_path_is_read_as_helm_reads_it_and_written_back(text, path):
    assert parse_path(text) == path
    assert parse_path(format_path(path)) == path


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "a name is missing at the end"),
        ("a.", "a name is missing at the end"),
        ("a..b", "a name is missing before '.'"),
        ("[0]", "a name is missing before"),
        ("a=b", "an unescaped '=' ends a key"),
        ("a,b", "an unescaped ',' ends a key"),
        ("a[", "']' is missing"),
        ("a[x]", "'x' is not a list index"),
        ("a[-1]", "negative"),
        (f"a[{MAX_INDEX + 1}]", "Helm's limit"),
        ("a[" + "9" * 5000 + "]", "Helm's limit"),
        ("a[0]b", "expected '.'"),
        ("a\\", "a backslash at the end"),
        (".".join("a" * 40), "more than 30"),
    ],
)
def test_what_is_no_path_is_refused_with_the_reason(text, fault):
    with pytest.raises(ValueError, match="path ") as caught:
        parse_path(text)
    assert fault in str(caught.value)


@given(st.lists(st.text(min_size=1, max_size=4), min_size=1, max_size=3))
def test_any_printable_names_survive_being_written_as_a_path(names):
    path = tuple("".join(char if char.isprintable() else "_" for char in name) for name in names)

    assert parse_path(format_path(path)) == path


@pytest.mark.parametrize(
    ("before", "path", "after"),
    [
        pytest.param({}, "a.b", {"a": {"b": "new"}}, id="maps are made"),
        pytest.param({"a": {"c": 1}}, "a.b", {"a": {"c": 1, "b": "new"}}, id="siblings stay"),
        pytest.param({"a": {"b": {"c": 1}}}, "a.b", {"a": {"b": "new"}}, id="a map is replaced"),
        pytest.param({}, "a[1]", {"a": [None, "new"]}, id="a list is filled up with nulls"),
        pytest.param({"a": [{"x": 1}]}, "a[0].b", {"a": [{"x": 1, "b": "new"}]}, id="an item is kept"),
    ],
)
def test_a_value_is_set_at_its_path_and_the_input_is_not_changed(before, path, after):
    untouched = digest(before)

    assert set_path(before, parse_path(path), "new") == after
    assert digest(before) == untouched


@pytest.mark.parametrize(
    ("values", "fault"), [({"a": "secret"}, "a is a string, not a map"), ({"a": None}, "a is null")]
)
def test_a_path_through_a_scalar_is_refused_without_the_value(values, fault):
    with pytest.raises(ValueError, match=fault):
        set_path(values, ("a", "b"), 1)
