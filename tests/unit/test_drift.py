from helm_operator.drift import as_helm_applies, comes_and_goes, differences, object_ref, ours_to_repair
from helm_operator.release import ReleaseKey

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
