"""Case 46: a CRD that comes late, keeps no status, or has the wrong scope."""

import time

import pytest

from tests.cluster import eventually
from tests.lab import PERIOD

pytestmark = [pytest.mark.cluster, pytest.mark.helm]


def test_case_46a_a_crd_that_comes_after_the_operator(make_lab):
    lab = make_lab("46", crd=None)
    operator = lab.start()
    time.sleep(5)
    lab.install_crd()
    lab.create()
    lab.deployed("bare", revision=1, timeout=15)
    lab.delete_crd()
    lab.install_crd()
    lab.create()
    lab.deployed("bare", revision=1, timeout=30)
    assert operator.process.poll() is None


def test_case_46b_without_a_status_subresource_the_conditions_are_stored_and_start_no_loop(make_lab):
    lab = make_lab("46", crd="crd-no-subresource.yaml")
    lab.start()
    lab.create()
    lab.reaches("bare", Deployed="True", ReleaseFailed="False", Irreconcilable="False")
    time.sleep(PERIOD)
    lab.stays_quiet("bare", periods=5)
    assert lab.records("bare") == [(1, "deployed")]


def test_case_46c_a_crd_that_drops_the_conditions_is_told_once(make_lab):
    lab = make_lab("46", crd="crd-pruned.yaml")
    operator = lab.start()
    lab.create()
    operator.says("drops a part of the status")
    time.sleep(PERIOD)
    lab.stays_quiet("bare", periods=5)
    assert lab.records("bare") == [(1, "deployed")]
    assert lab.log.count("drops a part of the status") == 1
    lab.delete("bare")
    lab.gone("bare")
    assert lab.records("bare") == []


def test_case_46d_a_cluster_scoped_kind_is_refused_with_the_way_out(make_lab):
    lab = make_lab("46", crd="crd-cluster.yaml")
    lab.start(env={"WATCH_NAMESPACE": ""})
    path = f"/apis/{lab.group}/v1alpha1/widgets"
    lab.api.post(path, lab.documents("cr.yaml")[0])

    def check():
        entries = lab.api.get(f"{path}/bare").get("status", {}).get("conditions", [])
        told = {entry["type"]: entry for entry in entries}
        assert told["Irreconcilable"]["status"] == "True"
        assert "Namespaced" in told["Irreconcilable"]["message"]

    eventually(check)
    assert lab.helm_runs() == []
