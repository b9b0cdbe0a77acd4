"""Two operators over one namespace: one acts, and what becomes of that when it ends, dies or freezes."""

import json
import re
import signal
import time
import urllib.request

import pytest

from tests.cluster import eventually

pytestmark = [pytest.mark.cluster, pytest.mark.helm, pytest.mark.timeout(180)]

ID = "lab-operator"
SLOW_HOOK = """\
apiVersion: v1
kind: Pod
metadata:
  name: {{ .Release.Name }}-hook
  annotations: {helm.sh/hook: pre-upgrade, helm.sh/hook-delete-policy: before-hook-creation}
spec:
  restartPolicy: Never
  nodeSelector: {there: is-no-such-node}
  containers: [{name: main, image: none.invalid/x}]
"""


def replica(lab, **options):
    flags = ["--leader-elect", f"--leader-election-id={ID}", f"--leader-election-namespace={lab.namespace}"]
    return lab.start(*flags, wait=False, **options)


def pair(lab):
    """Start two replicas; return the one that leads, then the other."""
    first = replica(lab)
    first.ready()
    second = replica(lab)
    second.says(r'_[-0-9a-f]{36} leads"')
    return first, second


def lease(lab):
    return lab.object("coordination.k8s.io/v1/leases", ID)


def answers(operator, name):
    with urllib.request.urlopen(f"http://127.0.0.1:{operator.port}/{name}", timeout=5) as answer:
        return answer.status == 200


def seconds_until(check, timeout):
    started = time.monotonic()
    eventually(check, timeout=timeout, pause=0.02)
    return time.monotonic() - started


def serves(operator):
    def check():
        assert '"msg": "serving ' in operator.log, operator.log

    return check


def test_one_of_two_acts_and_the_other_stands_by(make_lab):
    lab = make_lab("27")
    leader, other = pair(lab)
    lab.create()
    lab.deployed("calm", revision=1)
    lab.set_spec("calm", {"colour": "green"})
    lab.deployed("calm", revision=2)
    assert answers(other, "readyz")
    assert answers(other, "healthz")
    assert leader.helm_runs() == ["install", "upgrade"]
    assert other.helm_runs() == []
    found = lease(lab)
    identity = re.search(r"as (\S+_[-0-9a-f]{36})", leader.log)[1]
    assert found["spec"]["holderIdentity"] == identity
    assert f'"msg": "{identity} leads"' in other.log
    assert found["spec"]["leaseDurationSeconds"] == 15
    assert found["spec"]["leaseTransitions"] == 0
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", found["spec"]["renewTime"])
    eventually(lambda: _newer(lease(lab), found))
    lab.stays_quiet("calm", periods=2)


def _newer(new, old):
    assert new["spec"]["renewTime"] > old["spec"]["renewTime"]
    assert new["spec"]["acquireTime"] == old["spec"]["acquireTime"]


def test_a_leader_that_ends_in_order_hands_over_at_once(make_lab):
    lab = make_lab("27")
    leader, other = pair(lab)
    lab.create()
    lab.deployed("calm", revision=1)
    lab.set_spec("calm", {"colour": "green"})
    lab.deployed("calm", revision=2)
    leader.process.send_signal(signal.SIGTERM)
    took = seconds_until(serves(other), timeout=10)
    print(f"handed over in {took:.2f} s")
    assert took < 4
    assert leader.stop() == 0
    lab.set_spec("calm", {"colour": "blue"})
    lab.deployed("calm", revision=3)
    assert (leader.helm_runs(), other.helm_runs()) == (["install", "upgrade"], ["upgrade"])
    assert lease(lab)["spec"]["leaseTransitions"] == 1
    assert other.stop() == 0
    assert lease(lab)["spec"]["holderIdentity"] == ""


def test_a_leader_that_is_killed_is_followed_within_the_lease_time(make_lab):
    lab = make_lab("27")
    leader, other = pair(lab)
    lab.create()
    lab.deployed("calm", revision=1)
    leader.kill()
    lab.set_spec("calm", {"colour": "green"})
    took = seconds_until(serves(other), timeout=30)
    print(f"taken over in {took:.2f} s")
    assert 12 < took < 15 + 2.4 + 2
    lab.deployed("calm", revision=2)
    assert other.helm_runs() == ["upgrade"]


def test_a_leader_that_was_frozen_acts_no_more_and_ends(make_lab):
    lab = make_lab("27")
    leader, other = pair(lab)
    lab.create()
    lab.deployed("calm", revision=1)
    leader.process.send_signal(signal.SIGSTOP)
    frozen = time.monotonic()
    eventually(serves(other), timeout=25)
    lab.set_spec("calm", {"colour": "green"})
    lab.deployed("calm", revision=2)
    time.sleep(max(0.0, frozen + 20 - time.monotonic()))
    # Both now have something to do, and the old one still believes that it leads.
    body = lab.documents("cr.yaml")[0]
    for number in range(5):
        lab.api.post(lab.path(), {**body, "metadata": {"name": f"calm-{number}"}})
    leader.process.send_signal(signal.SIGCONT)
    took = seconds_until(lambda: _ended(leader), timeout=15)
    print(f"the old leader ended {took:.2f} s after it was thawed, with {leader.process.returncode}")
    assert leader.process.returncode == 1
    assert "this replica leads no more" in leader.log
    for number in range(5):
        lab.deployed(f"calm-{number}", revision=1)
    assert leader.helm_runs() == ["install"]
    assert other.helm_runs() == ["upgrade", *["install"] * 5]
    other.process.poll()
    assert other.process.returncode is None


def _ended(operator):
    assert operator.process.poll() is not None


def test_a_leader_that_loses_the_lease_ends_its_helm(make_lab):
    lab = make_lab("27")
    lab.write("chart/templates/hook.yaml", SLOW_HOOK)
    leader = replica(lab)
    leader.ready()
    lab.create()
    lab.deployed("calm", revision=1)
    lab.set_spec("calm", {"colour": "green"})
    eventually(lambda: _pending(lab))
    path = lab.core("coordination.k8s.io/v1/leases", ID)
    lab.api.patch(path, {"spec": {"holderIdentity": "somebody-else"}})
    eventually(lambda: _ended(leader), timeout=15)
    assert leader.process.returncode == 1
    assert "is held by somebody-else" in leader.log
    assert lab.records("calm") == [(1, "deployed"), (2, "pending-upgrade")], "helm was killed, it wrote nothing more"
    assert lab.conditions("calm")["Deployed"]["release"]["revision"] == 1
    assert lease(lab)["spec"]["holderIdentity"] == "somebody-else"


def _pending(lab):
    assert lab.records("calm")[-1] == (2, "pending-upgrade")


def test_an_order_to_end_ends_helm_before_the_other_one_takes_over(make_lab):
    lab = make_lab("27")
    lab.write("chart/templates/hook.yaml", SLOW_HOOK)
    leader, other = pair(lab)
    lab.create()
    lab.deployed("calm", revision=1)
    lab.set_spec("calm", {"colour": "green"})
    eventually(lambda: _pending(lab))
    leader.process.send_signal(signal.SIGTERM)
    took = seconds_until(serves(other), timeout=15)
    print(f"handed over in {took:.2f} s, with a running helm")
    assert took < 4
    assert leader.stop() == 0
    assert (2, "failed") in lab.records("calm")
    log = leader.log
    assert log.index("cancelled: the operator shuts down") < log.index("is given back")


def test_an_account_without_leases_is_told_and_leads_once_it_may(make_lab):
    lab = make_lab("27")
    rest = [
        {"apiGroups": [""], "resources": ["secrets", "configmaps", "events"], "verbs": ["*"]},
        {"apiGroups": [lab.group], "resources": ["*"], "verbs": ["*"]},
    ]
    config = lab.account(*rest)
    operator = replica(lab, env={"KUBECONFIG": str(config)})
    operator.says("leases.*is forbidden")
    assert "serving" not in operator.log
    assert operator.process.poll() is None
    leases = {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get", "create", "update"]}
    lab.allow(*rest, leases)
    operator.ready()
    assert operator.stop() == 0


def test_without_the_flag_nothing_asks_for_a_lease(make_lab):
    lab = make_lab("27")
    operator = lab.start()
    assert operator.stop() == 0
    assert lab.api.items(lab.core("coordination.k8s.io/v1/leases")) == []
    assert "lease" not in json.dumps(operator.messages())
