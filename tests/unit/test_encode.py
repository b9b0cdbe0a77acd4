"""What Helm is given, without Helm; tests/helm/test_encode.py has Helm's own judgement."""

import json

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from helm_operator.helm.encode import MAX_ARGUMENT, encode
from helm_operator.values import format_path, parse_path, set_path

NAMES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=4)
INTEGERS = st.integers(-(2**63), 2**63 - 1)
VALUES = st.dictionaries(
    NAMES,
    st.recursive(
        st.one_of(st.none(), st.booleans(), INTEGERS, st.text(st.characters(exclude_categories=["Cs"]), max_size=4)),
        lambda below: st.one_of(st.lists(below, max_size=3), st.dictionaries(NAMES, below, max_size=3)),
        max_leaves=6,
    ),
    max_size=3,
)


@given(VALUES)
def test_the_document_is_one_ascii_line_of_yaml(values):
    document = encode(values).document
    assert document.isascii()
    assert document.endswith(b"\n")
    assert document.count(b"\n") == 1
    assert yaml.safe_load(document) == values


@given(VALUES)
def test_big_integers_are_said_again(values):
    blurred = json.loads(json.dumps(values), parse_int=lambda text: int(text) if len(text.strip("-")) < 7 else 0)
    for argument in encode(values).sets:
        for assignment in _assignments(argument):
            name, _, number = assignment.rpartition("=")
            blurred = set_path(blurred, parse_path(name), int(number))
    assert blurred == values


def test_small_integers_and_floats_are_not():
    assert encode({"port": 8080, "ratio": 0.5, "big": 1e9, "yes": True, "text": "1048576"}).sets == ()


def test_paths_are_escaped():
    values = {"a.b": [{"c,d=e[0]": 10**6}], "x\\": -(10**6)}
    assert encode(values).sets == (r"a\.b[0].c\,d\=e\[0]=1000000,x\\=-1000000",)
    assert encode(values).arguments[:3] == ["--values", "-", "--set"]


def test_many_integers_are_several_arguments():
    sets = encode({"list": [10**18] * 10_000}).sets
    assert len(sets) > 1
    assert all(len(text) <= MAX_ARGUMENT for text in sets)


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"a": {"b": [2**63]}}, r"a.b\[0\] is an integer beyond 64 bits"),
        ({"a": -(2**63) - 1}, "a is an integer beyond 64 bits"),
        ({"a": {"": 10**6}}, "an empty name"),
        ({"a\0": 10**6}, "NUL"),
        ({"a": float("nan")}, "a is nan"),
        ({"a": {"b": "\ud83d"}}, "a.b has half of a surrogate pair"),
        ({"\udfff": 1}, "half of a surrogate pair"),
        ({"a": {1: 2}}, "a has a key of type int"),
        ({"a": object()}, "a is of type object"),
        ({"a": [0] * 65_537 + [10**6]}, "65537 items"),
        ({"a": {"x" * 200: [10**9] * 10_000}}, "too long for Helm"),
    ],
)
def test_what_cannot_be_said_is_an_error_with_its_path(values, says):
    with pytest.raises(ValueError, match=says):
        encode(values)


def test_names_nested_too_deep_for_helm():
    deep = shallow = 10**6
    for _ in range(31):
        shallow = {"a": shallow}
    encode(shallow)
    encode({"list": [shallow]})
    for _ in range(32):
        deep = {"a": deep}
    with pytest.raises(ValueError, match="30 nested names; write it as a string"):
        encode(deep)
    endless = 1
    for _ in range(5000):
        endless = [endless]
    with pytest.raises(ValueError, match="nested too deeply"):
        encode({"a": endless})


def test_the_same_numbers_elsewhere_are_no_matter():
    encode({"": {"small": 1}, "list": [0] * 70_000, "deep\0": "text"})
    assert format_path(("a.b", 0)) == r"a\.b[0]"


def _assignments(argument):
    """Split at commas that are not escaped."""
    parts, at, start = [], 0, 0
    while at < len(argument):
        if argument[at] == "\\":
            at += 1
        elif argument[at] == ",":
            parts.append(argument[start:at])
            start = at + 1
        at += 1
    return [*parts, argument[start:]]
