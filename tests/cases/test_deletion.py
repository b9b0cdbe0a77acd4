"""Case 43: deleting a custom resource works, whatever state it is in."""

import time

import pytest

from tests.cluster import JSON_PATCH, eventually

pytestmark = [pytest.mark.cluster, pytest.mark.helm]


def _deployed(make_lab):
    lab = make_lab("43")
    operator = lab.start()
    lab.create()
    lab.deployed("end", revision=1)
    return lab, operator


def _nothing_is_left(lab):
    assert lab.object("configmaps", "end-cfg") is None
    assert lab.object("services", "end-svc") is None
    assert lab.records("end") == []


def test_case_43_plainly(make_lab):
    lab, _ = _deployed(make_lab)
    lab.delete("end")
    lab.gone("end", timeout=15)
    _nothing_is_left(lab)


def test_case_43a_with_values_that_cannot_be_rendered(make_lab):
    lab, _ = _deployed(make_lab)
    lab.set_spec("end", {"colour": None})
    lab.reaches("end", ReleaseFailed="True")
    lab.delete("end")
    lab.gone("end", timeout=15)
    _nothing_is_left(lab)


def test_case_43b_when_the_release_was_uninstalled_by_hand(make_lab):
    lab, operator = _deployed(make_lab)
    operator.kill()
    lab.helm("uninstall", "end")
    lab.delete("end")
    lab.start()
    lab.gone("end", timeout=15)
    _nothing_is_left(lab)
    assert '"level": "error"' not in lab.log


def test_case_43c_an_object_that_somebody_holds_is_waited_for_and_named(make_lab):
    lab, _ = _deployed(make_lab)
    path = lab.core("configmaps", "end-cfg")
    lab.api.patch(path, {"metadata": {"finalizers": ["example.com/hold"]}})
    lab.delete("end")
    says = ['ConfigMap "end-cfg"', "finalizer example.com/hold"]
    lab.reaches("end", Deployed="False", says=says)
    lab.api.patch(path, [{"op": "remove", "path": "/metadata/finalizers"}], JSON_PATCH)
    lab.gone("end", timeout=15)
    _nothing_is_left(lab)

    lab.create()
    lab.deployed("end", revision=1)
    assert "deletionTimestamp" not in lab.object("configmaps", "end-cfg")["metadata"]


def test_case_43d_when_the_chart_is_broken(make_lab):
    lab, _ = _deployed(make_lab)
    (lab.folder / "chart" / "Chart.yaml").write_text("name: [")
    lab.reaches("end", Deployed="True", Irreconcilable="True", says=["Chart.yaml"], timeout=30)
    lab.delete("end")
    lab.gone("end", timeout=15)
    _nothing_is_left(lab)


def test_case_43e_when_the_operator_dies_between_uninstall_and_the_end(make_lab):
    lab, operator = _deployed(make_lab)
    path = lab.core("configmaps", "end-cfg")
    lab.api.patch(path, {"metadata": {"finalizers": ["example.com/hold"]}})
    lab.delete("end")
    lab.reaches("end", Deployed="False")
    operator.kill()
    lab.api.patch(path, [{"op": "remove", "path": "/metadata/finalizers"}], JSON_PATCH)
    lab.start()
    lab.gone("end", timeout=15)
    _nothing_is_left(lab)


def test_case_43f_when_the_crd_is_deleted_the_releases_go_and_the_operator_serves_it_again(make_lab):
    lab, _ = _deployed(make_lab)
    lab.delete_crd()
    _nothing_is_left(lab)
    time.sleep(2)
    lab.install_crd()
    lab.create()
    lab.deployed("end", revision=1, timeout=40)


def test_finalizers_of_operator_sdk_go_too_and_those_of_others_stay(make_lab):
    lab, _ = _deployed(make_lab)
    names = [*lab.cr("end")["metadata"]["finalizers"], "helm.sdk.operatorframework.io/uninstall-release", "a.example/b"]
    lab.api.patch(lab.path("end"), {"metadata": {"finalizers": names}})
    lab.delete("end")
    eventually(lambda: _has_only(lab.cr("end"), ["a.example/b"]))
    lab.reaches("end", Deployed="False", says=["uninstalled"])
    lab.api.patch(lab.path("end"), {"metadata": {"finalizers": None}})
    lab.gone("end")


def _has_only(body, finalizers):
    assert body["metadata"]["finalizers"] == finalizers
