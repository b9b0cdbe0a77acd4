import pytest
from hypothesis import given
from hypothesis import strategies as st

from helm_operator.errors import TerminalError
from helm_operator.overrides import Override, apply_overrides, conflict, expand, typed
from helm_operator.values import parse_path


@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        ("$A", "one"),
        ("${A}", "one"),
        ("x${A}y$B!", "xoney$A!"),
        ("$A_", ""),
        ("cost-$$5", "cost-$5"),
        ("$$A", "$A"),
        ("$5", ""),
        ("100$", "100$"),
        ("a $ b", "a $ b"),
        ("$.", "$."),
        ("{x},y=z", "{x},y=z"),
    ],
)
def test_variables_are_expanded_once_as_go_does_it(text, expanded):
    assert expand(text, {"A": "one", "B": "$A"})[0] == expanded


def test_variables_that_are_not_set_are_named_once_each():
    assert expand("$X-${Y z}-$X-$A-$EMPTY", {"A": "one", "EMPTY": ""}) == ("---one-", ("X", "Y z"))


@pytest.mark.parametrize("text", ["${", "${}", "${A"])
def test_a_brace_without_its_partner_is_refused(text):
    with pytest.raises(ValueError, match="dollar sign"):
        expand(text, {"A": "one"})


@given(st.text(max_size=6))
def test_what_a_variable_holds_is_never_looked_at(secret):
    assert expand("<$S>", {"S": secret}) == (f"<{secret}>", ())


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("true", True),
        ("FALSE", False),
        ("Null", None),
        ("0", 0),
        ("-7", -7),
        ("+7", 7),
        ("9223372036854775807", 2**63 - 1),
    ],
)
def test_text_becomes_what_helm_set_makes_of_it(text, value):
    assert typed(text) == value
    assert type(typed(text)) is type(value)


@pytest.mark.parametrize(
    "text", ["", "0755", "1e3", "1.5", "1_000", " 1", "٣", "yes", "~", "0x1F", "9223372036854775808", "9" * 5000]
)
def test_all_else_stays_text(text):
    assert typed(text) == text


@pytest.mark.parametrize(
    ("first", "second", "clash"),
    [
        ("a", "b", False),
        ("a.b", "a.c", False),
        ("a[0]", "a[1]", False),
        ("a", "a", True),
        ("a", "a.b", True),
        ("a.b", "a", True),
        ("a[0].x", "a[0]", True),
        ("a.b", "a[0]", True),
    ],
)
def test_paths_clash_when_one_leads_through_the_other(first, second, clash):
    assert conflict(parse_path(first), parse_path(second)) is clash


def test_overrides_win_and_leave_their_input_alone():
    spec = {"replicas": 9, "cache": {"enabled": False, "size": 1}}

    result = apply_overrides(spec, (Override(("cache", "enabled"), True), Override(("replicas",), 3)))

    assert result == {"replicas": 3, "cache": {"enabled": True, "size": 1}}
    assert spec == {"replicas": 9, "cache": {"enabled": False, "size": 1}}


def test_an_override_that_does_not_fit_names_its_path_and_shows_no_value():
    override = Override(("db", "password"), "hunter2")

    with pytest.raises(TerminalError) as caught:
        apply_overrides({"db": "postgres"}, (override,))

    assert caught.value.reason == "InvalidValues"
    assert "db.password" in str(caught.value)
    assert "db is a string, not a map" in str(caught.value)
    assert "hunter2" not in f"{caught.value} {override!r} {override}"
    assert "postgres" not in str(caught.value)
