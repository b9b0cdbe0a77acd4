import pytest

from helm_operator.contest import Contest
from helm_operator.drift import (
    Difference,
    Drift,
    as_helm_applies,
    comes_and_goes,
    contested,
    detected,
    differences,
    left_alone,
    object_ref,
    ours_to_repair,
    with_ignored,
)
from helm_operator.release import ObjectRef, ReleaseKey

KEY = ReleaseKey("shop", "web")
ITEM = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "cfg", "labels": {"a": "b"}}, "data": {"k": "v"}}


def test_what_is_applied_carries_helms_marks_and_the_manifest_stays_untouched():
    body = as_helm_applies(ITEM, object_ref(ITEM, "shop"), KEY)

    assert body["metadata"]["labels"] == {"a": "b", "app.kubernetes.io/managed-by": "Helm"}
    assert body["metadata"]["annotations"]["meta.helm.sh/release-name"] == "web"
    assert body["metadata"]["namespace"] == "shop"
    assert ITEM["metadata"] == {"name": "cfg", "labels": {"a": "b"}}


def test_differences_are_paths_without_values():
    live = {"metadata": {"name": "cfg", "resourceVersion": "1"}, "data": {"k": "hunter2", "n": "1"}, "status": {"a": 1}}
    wanted = {"metadata": {"name": "cfg", "resourceVersion": "2"}, "data": {"k": "v", "n": "1"}}

    assert differences(live, wanted) == ["data.k"]


def test_what_only_the_server_writes_is_no_difference():
    assert differences({"metadata": {"uid": "1", "managedFields": []}}, {"metadata": {"uid": "2"}}) == []


def test_an_object_of_another_release_or_of_nobody_is_not_ours():
    other = {"metadata": {"annotations": {"meta.helm.sh/release-name": "x", "meta.helm.sh/release-namespace": "shop"}}}
    bare = {"metadata": {"managedFields": [{"manager": "kubectl-create"}]}}
    stripped = {"metadata": {"managedFields": [{"manager": "helm"}]}}

    assert not ours_to_repair(other, KEY, "helm")
    assert not ours_to_repair(bare, KEY, "helm")
    assert ours_to_repair(stripped, KEY, "helm")


def test_a_job_that_is_deleted_when_done_is_not_made_again():
    assert comes_and_goes({"kind": "Job", "spec": {"ttlSecondsAfterFinished": 0}})
    assert not comes_and_goes({"kind": "Job", "spec": {}})


@pytest.mark.parametrize(
    ("wanted", "live", "pointer", "kept"),
    [
        ({"a": 1, "b": 2}, {"a": 9, "b": 8}, ("a",), {"a": 9, "b": 2}),
        ({"a": 1, "b": 2}, {"b": 8}, ("a",), {"b": 2}),
        ({"b": 2}, {"a": 9, "b": 8}, ("a",), {"b": 2}),
        ({"a": {"x": 1, "y": 2}}, {"a": {"x": 5, "z": 6}}, ("a",), {"a": {"x": 5}}),
        ({"a": {"x": 1, "y": 2}}, {"a": {"x": 5}}, ("a", "x"), {"a": {"x": 5, "y": 2}}),
        ({"a": {"x": 1, "y": 2}}, {}, ("a", "x"), {"a": {"y": 2}}),
        ({"a": [{"x": 1}, {"x": 2}]}, {"a": [{"x": 7}, {"x": 8}]}, ("a", "1", "x"), {"a": [{"x": 1}, {"x": 8}]}),
        ({"a": [1, 2]}, {"a": [5]}, ("a", "1"), {"a": [1]}),
        ({"a": [1, 2]}, {"a": [5, 6, 7]}, ("a",), {"a": [5, 6, 7]}),
        ({"a": [1]}, {"a": [5]}, ("a", "-"), {"a": [1]}),
        ({"a": [1]}, {"a": [5]}, ("a", "4"), {"a": [1]}),
        ({"a": None}, {"a": {"x": 1}}, ("a",), {"a": {"x": 1}}),
        ({"a": "text"}, {"a": "other"}, ("a", "x"), {"a": "text"}),
    ],
)
def test_an_ignored_field_has_its_live_value_where_the_manifest_sets_it(wanted, live, pointer, kept):
    before = repr(wanted)
    assert with_ignored(wanted, live, [pointer]) == kept
    assert repr(wanted) == before


def test_an_ignored_entry_of_a_secret_is_ignored_in_its_string_data_too():
    secret = {"kind": "Secret", "stringData": {"a": "1", "b": "2"}, "data": {"c": "Mw=="}}
    live = {"kind": "Secret", "data": {"a": "OQ==", "b": "Mg==", "c": "OQ=="}}
    kept = with_ignored(secret, live, [("data", "a"), ("data", "c")])
    assert kept == {"kind": "Secret", "stringData": {"b": "2"}, "data": {"c": "OQ=="}}


def test_an_object_is_left_alone_by_exactly_one_value_of_the_annotation():
    assert left_alone({"annotations": {"helm-operator.io/drift": "disabled"}})
    for other in ({}, {"annotations": None}, {"annotations": {"helm-operator.io/drift": "enabled"}}):
        assert not left_alone(other)


def refs(count):
    return [ObjectRef("v1", "ConfigMap", "shop", f"c{number}") for number in range(count)]


def test_at_most_five_objects_with_five_paths_each_are_named_in_an_order_of_their_own():
    found = [Difference(ref, tuple(f"data.k{number}" for number in range(7))) for ref in refs(7)]
    drift = detected(reversed(found))
    assert drift == detected(found)
    assert drift.reason == "DriftDetected"
    assert 'ConfigMap "c0" (data.k0, data.k1, data.k2, data.k3, data.k4 and 2 more); ConfigMap "c1"' in drift.message
    assert '"c4"' in drift.message
    assert '"c5"' not in drift.message
    assert "; and 2 more objects" in drift.message


def test_what_is_missing_or_somebody_elses_is_told_as_such():
    one, two = refs(2)
    message = detected([Difference(one), Difference(two, foreign=True)]).message
    assert 'ConfigMap "c0" is missing; ConfigMap "c1" was made by somebody else' in message


def test_without_differences_and_without_contests_nothing_is_told():
    (ref,) = refs(1)
    assert detected([]) == contested({}) == contested({ref: Contest((1.0,), 0, ("data.k",))}) == Drift()


def test_a_contest_is_told_with_what_is_fought_over():
    one, two = refs(2)
    drift = contested({one: Contest((1.0,), 3, ("data.k",)), two: Contest((1.0,), 1)})
    assert drift.reason == "DriftContested"
    assert 'ConfigMap "c0" (data.k); ConfigMap "c1" is deleted' in drift.message
