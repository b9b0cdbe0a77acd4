import pytest

from helm_operator.selectors import LabelSelector


def selector(key="tier", operator="In", values=None):
    expression = {"key": key, "operator": operator} | ({} if values is None else {"values": values})
    return LabelSelector.from_mapping({"matchExpressions": [expression]})


@pytest.mark.parametrize(
    ("chosen", "labels", "matches"),
    [
        pytest.param(LabelSelector(), None, True, id="without requirements all match"),
        pytest.param(LabelSelector.from_mapping({"matchLabels": {"tier": "web"}}), {"tier": "web"}, True, id="equal"),
        pytest.param(LabelSelector.from_mapping({"matchLabels": {"tier": "web"}}), {"tier": "db"}, False, id="unequal"),
        pytest.param(LabelSelector.from_mapping({"matchLabels": {"tier": "web"}}), None, False, id="no labels at all"),
        pytest.param(selector(values=["a", "b"]), {"tier": "b"}, True, id="In"),
        pytest.param(selector(values=["a", "b"]), {"tier": "c"}, False, id="not in"),
        pytest.param(selector(operator="NotIn", values=["a"]), {"tier": "a"}, False, id="NotIn"),
        pytest.param(selector(operator="NotIn", values=["a"]), {}, True, id="NotIn matches a missing label"),
        pytest.param(selector(operator="Exists", values=[]), {"tier": ""}, True, id="Exists, with an empty list"),
        pytest.param(selector(operator="DoesNotExist"), {"tier": ""}, False, id="DoesNotExist"),
    ],
)
def test_a_selector_matches_as_in_kubernetes(chosen, labels, matches):
    assert chosen.matches(labels) is matches


def test_all_requirements_must_hold_and_are_written_in_order():
    both = LabelSelector.from_mapping(
        {
            "matchLabels": {"shop.example.com/tier": "web"},
            "matchExpressions": [
                {"key": "env", "operator": "NotIn", "values": ["b", "a"]},
                {"key": "app", "operator": "Exists"},
                {"key": "old", "operator": "DoesNotExist"},
                {"key": "zone", "operator": "In", "values": ["x"]},
            ],
        }
    )

    assert str(both) == "app,env notin (a,b),!old,shop.example.com/tier=web,zone in (x)"
    assert both.matches({"shop.example.com/tier": "web", "app": "1", "zone": "x"})
    assert not both.matches({"shop.example.com/tier": "web", "zone": "x"})
    assert not both.empty
    assert LabelSelector.from_mapping({"matchLabels": None}) == LabelSelector()
    assert LabelSelector().empty


@pytest.mark.parametrize(
    ("mapping", "fault"),
    [
        ({"matchlabels": {}}, "unknown field 'matchlabels'"),
        ({"matchLabels": ["a"]}, "matchLabels: expected a map, not a list"),
        ({"matchLabels": {"a": True}}, "expected a string.*not a boolean"),
        ({"matchLabels": {"a": "-x"}}, "'-x' is no label value"),
        ({"matchLabels": {"A.example.com/x": "1"}}, "must be a DNS name"),
        ({"matchLabels": {"a" * 64: "1"}}, "1 to 63 letters"),
        ({"matchExpressions": {}, "x": 1}, "unknown field 'x'"),
        ({"matchExpressions": {"key": "a"}}, "matchExpressions: expected a list, not a map"),
        ({"matchExpressions": ["a"]}, "matchExpressions 1: expected a map"),
        ({"matchExpressions": [{"operator": "Exists"}]}, "expected the name of a label"),
        ({"matchExpressions": [{"key": "a", "operator": "Equals"}]}, "'Equals' is not one of In, NotIn"),
        ({"matchExpressions": [{"key": "a", "operator": ["In"]}]}, "is not one of"),
        ({"matchExpressions": [{"key": "a", "operator": "In"}]}, "needs at least one value"),
        ({"matchExpressions": [{"key": "a", "operator": "In", "values": "x"}]}, "expected a list, not a string"),
        ({"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["x"]}]}, "takes no values"),
        ({"matchExpressions": [{"key": "a", "operator": "Exists", "value": "x"}]}, "unknown field 'value'"),
    ],
)
def test_a_bad_selector_is_refused_with_its_place(mapping, fault):
    with pytest.raises(ValueError, match=fault):
        LabelSelector.from_mapping(mapping)
