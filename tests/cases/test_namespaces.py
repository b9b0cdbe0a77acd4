"""Cases 32 and 33: a release that makes a namespace, cluster-scoped objects, and objects elsewhere."""

import time

import pytest

from tests.cluster import JSON_PATCH, eventually
from tests.lab import PERIOD

pytestmark = [pytest.mark.cluster, pytest.mark.helm]


def _inn(make_lab):
    lab = make_lab("32")
    lab.start()
    name = f"inn-{lab.namespace}"
    lab.api.post(lab.path(), {**lab.documents("cr.yaml")[0], "metadata": {"name": name}})
    lab.deployed(name, revision=1)
    return lab, name, f"/api/v1/namespaces/{name}-room"


def _let_go(lab, room):
    lab.api.patch(f"{room}/configmaps/chair", [{"op": "remove", "path": "/metadata/finalizers"}], JSON_PATCH)


def test_case_32_a_release_that_makes_its_own_namespace_ends_with_it(make_lab):
    lab, name, room = _inn(make_lab)
    lab.api.delete(f"{room}/secrets/lamp")
    eventually(lambda: _is_there(lab.api.get(f"{room}/secrets/lamp")))
    for path in (room, f"{room}/secrets/lamp", f"{room}/configmaps/chair"):
        assert "ownerReferences" not in lab.api.get(path)["metadata"], path
    eventually(lambda: lab.stays_quiet(name, periods=1))

    lab.delete(name)
    lab.reaches(name, Deployed="False", says=['ConfigMap "chair"', "example.com/slow"])
    _let_go(lab, room)
    lab.gone(name, timeout=20)
    assert lab.api.get(room) is None
    assert lab.records(name) == []


def test_case_32_a_namespace_that_is_deleted_under_its_release_comes_back(make_lab):
    lab, name, room = _inn(make_lab)
    lab.api.delete(room)
    lab.reaches(name, Irreconcilable="True", says=["being terminated"])
    time.sleep(2 * PERIOD)
    before = lab.cr(name)["status"]
    time.sleep(5 * PERIOD)
    assert lab.cr(name)["status"] == before  # The same failure is told once.
    _let_go(lab, room)

    def is_back():
        _is_there(lab.api.get(room))
        assert "deletionTimestamp" not in lab.api.get(room)["metadata"]
        _is_there(lab.api.get(f"{room}/configmaps/chair"))
        _is_there(lab.api.get(f"{room}/secrets/lamp"))

    eventually(is_back, timeout=60)
    lab.deployed(name)
    lab.delete(name)
    eventually(lambda: _let_go(lab, room))
    lab.gone(name)


def test_case_33_cluster_scoped_and_far_objects_live_as_long_as_their_release(make_lab):
    lab = make_lab("33")
    lab.start()
    name = f"wide-{lab.namespace}"
    role = f"/apis/rbac.authorization.k8s.io/v1/clusterroles/{lab.namespace}-{name}-reader"
    far = f"/api/v1/namespaces/kube-public/configmaps/{name}-far"
    near = lab.core("configmaps", f"{name}-near")
    lab.api.post(lab.path(), {**lab.documents("cr.yaml")[0], "metadata": {"name": name}})
    lab.deployed(name, revision=1)
    uids = {path: lab.api.get(path)["metadata"]["uid"] for path in (role, far, near)}
    for path in (role, far):
        assert "ownerReferences" not in lab.api.get(path)["metadata"]
    time.sleep(35)  # The garbage collector learns of new kinds within 30 s.
    assert uids == {path: lab.api.get(path)["metadata"]["uid"] for path in uids}

    lab.api.patch(role, {"rules": [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["*"]}]})
    lab.api.patch(far, {"data": {"a": "hand"}})
    eventually(lambda: _equal(lab.api.get(role)["rules"][0]["resources"], ["pods"]))
    eventually(lambda: _equal(lab.api.get(far)["data"], {"a": "1"}))
    for path in (role, far):
        lab.api.delete(path)
    for path in (role, far):
        eventually(lambda path=path: _is_there(lab.api.get(path)))
    lab.deployed(name, revision=1)

    lab.set_spec(name, {"rules": ["pods", "nodes"]})
    lab.deployed(name, revision=2)
    assert lab.api.get(role)["rules"][0]["resources"] == ["pods", "nodes"]
    lab.api.patch(far, {"metadata": {"finalizers": ["example.com/hold"]}})
    lab.delete(name)
    lab.reaches(name, Deployed="False", says=[f"{name}-far", "example.com/hold"])
    lab.api.patch(far, {"metadata": {"finalizers": None}})
    lab.gone(name)
    assert [path for path in (role, far, near) if lab.api.get(path)] == []


def _is_there(body):
    assert body is not None


def _equal(one, other):
    assert one == other
