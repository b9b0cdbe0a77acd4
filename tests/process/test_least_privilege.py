"""The rules of config/rbac and of the README are enough, and none of them can be left out unnoticed."""

import json
import os
import re
from pathlib import Path

import pytest
import yaml

from tests.cluster import eventually

pytestmark = [pytest.mark.cluster, pytest.mark.helm, pytest.mark.timeout(300)]

ROOT = Path(__file__).parents[2]
RBAC = ROOT / "config" / "rbac"
CALM = ("--retry-base=2s", "--retry-ceiling=8s")
WORKLOAD = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: "{{ .Release.Name }}-app"}
spec:
  selector: {matchLabels: {app: "{{ .Release.Name }}"}}
  template:
    metadata: {labels: {app: "{{ .Release.Name }}"}}
    spec:
      {{- if .Values.nowhere }}
      nodeSelector: {no-such: node}
      {{- end }}
      containers: [{name: app, image: example.com/app:1}]
"""


def _operators_rules():
    """Return the rules of config/rbac, without those for the sample charts' custom resources."""
    role = yaml.safe_load((RBAC / "cluster_role.yaml").read_text())
    return [rule for rule in role["rules"] if rule["apiGroups"] != ["apps.helm-operator.io"]]


def _chart_rules(lab):
    """Return the README's rules for a chart of one's own, for the lab's kind."""
    text = re.search(r"```yaml\n# role.yaml\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)[1]
    role = next(document for document in yaml.safe_load_all(text) if document["kind"] == "ClusterRole")
    return json.loads(json.dumps(role["rules"]).replace("example.com", lab.group).replace("greetings", "widgets"))


def _lease_rules():
    return yaml.safe_load((RBAC / "leader_election_role.yaml").read_text())["rules"]


def _clusterwide(lab):
    account = lab.account(*_lease_rules(), looks_around=False)
    lab.allow_everywhere(*_operators_rules(), *_chart_rules(lab))
    return account, ""


def _namespaced(lab):
    around = ["customresourcedefinitions", "namespaces"]
    rules = [rule for rule in _operators_rules() if rule["resources"][0] not in around]
    account = lab.account(*rules, *_chart_rules(lab), *_lease_rules(), looks_around=False)
    lab.allow_everywhere(*(rule for rule in _operators_rules() if rule["resources"][0] in around))
    return account, lab.namespace


@pytest.mark.parametrize("scope", [_clusterwide, _namespaced])
@pytest.mark.parametrize("helm", ["helm4", "helm3"])
def test_the_documented_rights_are_enough_for_all_that_the_operator_does(make_lab, request, helm, scope):
    lab = make_lab("17", helm=request.getfixturevalue(helm))
    lab.write("chart/templates/app.yaml", WORKLOAD)
    watch = yaml.safe_load((lab.folder / "watches.yaml").read_text())[0]
    lab.write("watches.yaml", json.dumps([watch | {"upgrade": {"remediation": "rollback", "retries": 0}}]))
    account, namespaces = scope(lab)
    lab.start(
        *CALM,
        "--leader-elect",
        "--leader-election-id=helm-operator",
        f"--leader-election-namespace={lab.namespace}",
        env={"KUBECONFIG": str(account), "WATCH_NAMESPACE": namespaces},
        wait=False,
    )
    lab.api.post(lab.path(), {**lab.documents("cr.yaml")[0], "spec": {"port": 80}})
    lab.deployed("first", revision=1, timeout=60)
    lab.set_spec("first", {"port": 81})
    lab.deployed("first", revision=2)

    # Drift, by hand and by deletion.
    lab.api.patch(lab.core("configmaps", "first-cfg"), {"data": {"port": "1"}})
    lab.api.delete(lab.core("services", "first-svc"))
    eventually(lambda: _equal(lab.data("first-cfg"), {"port": "81"}))
    eventually(lambda: _equal(lab.object("services", "first-svc") is not None, True))

    # A failed upgrade, and its roll-back; somebody's roll-back by hand.
    lab.set_spec("first", {"port": 0})
    lab.reaches("first", Deployed="True", ReleaseFailed="True", says=["must be between 1 and 65535", "roll-back"])
    lab.set_spec("first", {"port": 82})
    lab.deployed("first")
    lab.helm("rollback", "first", "1")
    eventually(lambda: _equal(lab.data("first-cfg"), {"port": "82"}), timeout=60)
    lab.deployed("first")

    # Health, from Pods and Events.
    lab.set_spec("first", {"port": 82, "nowhere": True})
    lab.reaches("first", Deployed="True", Ready="False", says=["Pod first-app-"], timeout=60)
    assert lab.events("UpdateSuccessful")

    lab.delete("first")
    lab.gone("first", timeout=60)
    assert lab.records("first") == []

    events = _requests_of(f"system:serviceaccount:{lab.namespace}:operator")
    assert {"secrets", "leases", "pods", "events", "widgets"} <= {event["objectRef"]["resource"] for event in events}
    assert [_words(event) for event in events if event["responseStatus"]["code"] == 403] == []


def _requests_of(user):
    state = os.environ.get("LOCALCLUSTER_STATE")
    assert state, "the audit log is needed: run the tests by `make test`"
    lines = (Path(state) / "logs" / "audit.json").read_text().splitlines()
    events = (json.loads(line) for line in lines if user in line)
    return [
        event for event in events if event["stage"] == "ResponseComplete" and "resource" in event.get("objectRef", {})
    ]


def _words(event):
    where = event["objectRef"]
    return f"{event['verb']} {where['resource']} {where.get('subresource', '')} {where.get('namespace', '')}"


@pytest.mark.parametrize(
    ("resource", "verb", "says"),
    [
        pytest.param("secrets", "create", ["cannot create resource", '"secrets"'], id="create records"),
        pytest.param("secrets", "update", ["cannot update resource", '"secrets"'], id="update records"),
        pytest.param("services", "patch", ["cannot patch resource", '"services"'], id="patch objects"),
    ],
)
def test_a_right_that_was_taken_away_is_named_and_its_return_is_noticed(make_lab, resource, verb, says):
    lab = make_lab("17")
    rules = [*_operators_rules(), *_chart_rules(lab)]
    account = lab.account(*rules)
    lab.start(*CALM, env={"KUBECONFIG": str(account)})
    lab.api.post(lab.path(), {**lab.documents("cr.yaml")[0], "spec": {"port": 80}})
    lab.deployed("first", revision=1)

    lab.allow(*_without(rules, resource, verb))
    lab.set_spec("first", {"port": 81})
    lab.reaches("first", Irreconcilable="True", says=[*says, lab.namespace], timeout=60)
    assert lab.conditions("first")["Irreconcilable"]["reason"] == "Forbidden"

    lab.allow(*rules)
    lab.deployed("first", timeout=60)
    assert lab.data("first-cfg") == {"port": "81"}


def _without(rules, resource, verb):
    """Return the rules with one verb of one resource taken out."""
    left = []
    for rule in rules:
        others = [name for name in rule["resources"] if name != resource]
        left += [{**rule, "resources": others}] if others else []
        if resource in rule["resources"]:
            left.append({**rule, "resources": [resource], "verbs": [name for name in rule["verbs"] if name != verb]})
    return left


def _equal(one, other):
    assert one == other
