"""Case 39: the cluster says no to one object, by RBAC and by quota."""

import time

import pytest

from tests.cluster import eventually

pytestmark = [pytest.mark.cluster, pytest.mark.helm, pytest.mark.timeout(240)]

CALM = ("--retry-base=2s", "--retry-ceiling=8s")


def _rules(lab, *configmap_verbs):
    """Return all that the operator needs in a namespace for case 39's chart, but for what it may do to ConfigMaps."""
    rules = [
        {"apiGroups": [lab.group], "resources": ["widgets"], "verbs": ["get", "list", "watch", "patch"]},
        {"apiGroups": [lab.group], "resources": ["widgets/status"], "verbs": ["patch"]},
        {"apiGroups": [""], "resources": ["secrets"], "verbs": ["*"]},
        {"apiGroups": [""], "resources": ["services"], "verbs": ["*"]},
        {"apiGroups": [""], "resources": ["events"], "verbs": ["create"]},
    ]
    if configmap_verbs:
        rules.append({"apiGroups": [""], "resources": ["configmaps"], "verbs": list(configmap_verbs)})
    return rules


def _denied(lab, name="denied", colour="red"):
    return {
        "apiVersion": f"{lab.group}/v1alpha1",
        "kind": "Widget",
        "metadata": {"name": name},
        "spec": {"colour": colour},
    }


def test_case_39_a_missing_right_is_named_and_what_waited_for_it_goes_on_by_itself(make_lab):
    lab = make_lab("39")
    account = lab.account(*_rules(lab))
    lab.start(*CALM, env={"KUBECONFIG": str(account)})
    lab.api.post(lab.path(), _denied(lab))
    lab.reaches(
        "denied", Deployed="False", ReleaseFailed="True", Irreconcilable="True", says=["forbidden", "configmaps"]
    )
    assert lab.conditions("denied")["ReleaseFailed"]["reason"] == "InstallError"
    assert lab.conditions("denied")["Irreconcilable"]["reason"] == "Forbidden"

    lab.allow(*_rules(lab, "get", "list", "create"))
    lab.reaches("denied", ReleaseFailed="True", Irreconcilable="True", says=["forbidden", "configmaps", "patch"])
    lab.set_spec("denied", {"colour": "green"})
    time.sleep(5)
    lab.reaches("denied", ReleaseFailed="True", Irreconcilable="True", says=["patch"])
    assert len(lab.records("denied")) <= 10

    lab.allow(*_rules(lab, "get", "list", "create", "patch"))
    lab.deployed("denied", timeout=30)
    assert lab.data("denied-cfg") == {"colour": "green"}

    lab.delete("denied")
    lab.reaches("denied", ReleaseFailed="True", says=["forbidden", "delete"])
    assert lab.conditions("denied")["ReleaseFailed"]["reason"] == "UninstallError"
    assert lab.cr("denied")["metadata"]["deletionTimestamp"]
    lab.allow(*_rules(lab, "get", "list", "create", "patch", "delete"))
    lab.gone("denied", timeout=60)
    assert lab.object("configmaps", "denied-cfg") is None
    assert lab.records("denied") == []


def test_case_39_a_kind_that_may_not_be_watched_does_not_keep_others_from_being_served(make_lab):
    lab = make_lab("39")
    account = lab.account(*_rules(lab, "get", "create", "patch", "delete"))
    lab.start(*CALM, env={"KUBECONFIG": str(account)})
    for name in ("one", "two", "three"):
        lab.api.post(lab.path(), _denied(lab, name))
    for name in ("one", "two", "three"):
        lab.deployed(name, revision=1)
    # It is polled instead.
    lab.api.patch(lab.core("configmaps", "two-cfg"), {"data": {"colour": "hand"}})
    eventually(lambda: _equal(lab.data("two-cfg"), {"colour": "red"}))
    lab.set_spec("one", {"colour": "blue"})
    lab.deployed("one", revision=2)
    for name in ("one", "two", "three"):
        lab.delete(name)
    for name in ("one", "two", "three"):
        lab.gone(name)


def test_rights_in_the_namespace_are_enough(make_lab):
    lab = make_lab("39")
    account = lab.account(*_rules(lab, "*"), looks_around=False)
    lab.start(*CALM, env={"KUBECONFIG": str(account)})
    lab.api.post(lab.path(), _denied(lab))
    lab.deployed("denied", revision=1)
    lab.delete("denied")
    lab.gone("denied")


def test_rights_taken_away_and_given_back_are_told_and_healed(make_lab):
    lab = make_lab("39")
    everything = _rules(lab, "*")
    account = lab.account(*everything)
    operator = lab.start(*CALM, env={"KUBECONFIG": str(account)})
    lab.api.post(lab.path(), _denied(lab))
    lab.deployed("denied", revision=1)
    lab.allow(*_rules(lab))
    lab.set_spec("denied", {"colour": "green"})
    lab.reaches("denied", Deployed="True", Irreconcilable="True", says=["forbidden", "configmaps"])
    lab.allow()
    time.sleep(5)
    assert operator.process.poll() is None
    assert lab.records("denied")[0] == (1, "deployed")
    lab.allow(*everything)
    lab.deployed("denied", timeout=60)
    assert lab.data("denied-cfg") == {"colour": "green"}


def test_case_39_a_quota_is_told_by_its_name_and_its_raise_is_noticed(make_lab):
    lab = make_lab("39")
    lab.start(*CALM)
    # The namespace's own ConfigMap, kube-root-ca.crt, takes the only slot.
    eventually(lambda: lab.data("kube-root-ca.crt"))
    quota = lab.core("resourcequotas")
    lab.api.post(quota, {"metadata": {"name": "few"}, "spec": {"hard": {"count/configmaps": "1"}}})
    eventually(lambda: _equal(lab.api.get(f"{quota}/few")["status"]["used"], {"count/configmaps": "1"}))
    lab.api.post(lab.path(), _denied(lab))
    lab.reaches("denied", Deployed="False", ReleaseFailed="True", says=["exceeded quota: few"])
    time.sleep(10)
    assert len(lab.helm_runs()) <= 5
    lab.api.patch(f"{quota}/few", {"spec": {"hard": {"count/configmaps": "5"}}})
    lab.deployed("denied", timeout=30)
    assert lab.data("denied-cfg") == {"colour": "red"}


def _equal(one, other):
    assert one == other
