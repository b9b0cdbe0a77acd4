"""Cases 17, 18, 20, 21: a failure is told in full, retried calmly, and over when its cause is."""

import time

import pytest

from tests.cluster import eventually
from tests.lab import PERIOD

pytestmark = [pytest.mark.cluster, pytest.mark.helm]

BAD_PORT = "must be between 1 and 65535"


def test_case_17_a_first_install_fails_and_is_corrected(make_lab):
    lab = make_lab("17")
    lab.start()
    lab.create()
    lab.reaches("first", Deployed="False", ReleaseFailed="True", says=["first-svc", BAD_PORT])
    entries = lab.conditions("first")
    assert entries["ReleaseFailed"]["reason"] == "InstallError"
    assert entries["ReleaseFailed"]["release"]["revision"] == 1
    time.sleep(10)
    assert 2 <= len(lab.helm_runs()) <= 4

    lab.set_spec("first", {"port": 81})
    lab.deployed("first")
    assert lab.object("services", "first-svc")["spec"]["ports"][0]["port"] == 81
    good = lab.cr("first")["status"]["deployedRelease"]["revision"]

    lab.set_spec("first", {"port": 0})
    lab.reaches("first", Deployed="True", ReleaseFailed="True", says=[BAD_PORT, f"Revision {good} stays deployed"])
    entries = lab.conditions("first")
    assert entries["ReleaseFailed"]["reason"] == "UpdateError"
    assert entries["Deployed"]["release"]["revision"] == good
    assert entries["ReleaseFailed"]["release"]["revision"] > good
    assert lab.object("services", "first-svc")["spec"]["ports"][0]["port"] == 81
    lab.set_spec("first", {"port": 82})
    lab.deployed("first")


def test_case_17_a_failed_install_can_be_deleted(make_lab):
    lab = make_lab("17")
    lab.start()
    lab.create()
    lab.reaches("first", ReleaseFailed="True")
    lab.delete("first")
    lab.gone("first", timeout=15)
    assert lab.object("configmaps", "first-cfg") is None
    assert lab.records("first") == []


def test_case_18_a_failing_upgrade_is_retried_calmly_and_its_history_is_bounded(make_lab):
    lab = make_lab("18")
    lab.start("--retry-base=2s")
    lab.create()
    lab.deployed("loop", revision=1)
    time.sleep(PERIOD)
    before = lab.cr("loop")["metadata"]["resourceVersion"]
    writes = _count_writes(lab, "loop", before)

    lab.set_spec("loop", {"colour": "green", "port": 0})
    lab.reaches("loop", Deployed="True", ReleaseFailed="True", says=[BAD_PORT])
    started = time.monotonic()
    # Tries at 0, 2, 6 and 14 seconds, less a fifth for the spread; the fifth comes 13 seconds later at the earliest.
    eventually(lambda: _tried(lab, 4), timeout=60)
    assert time.monotonic() - started > 10
    assert lab.records("loop")[-1] == (5, "failed")
    assert lab.helm_runs().count("upgrade") == 4
    assert lab.conditions("loop")["Deployed"]["release"]["revision"] == 1
    assert writes() <= 5  # One for each try, and the edit.

    lab.set_spec("loop", {"colour": "green", "port": 81})
    lab.deployed("loop")
    assert lab.data("loop-cfg") == {"colour": "green"}
    for number in range(1, 13):
        lab.set_spec("loop", {"colour": f"c{number}", "port": 81})
        lab.deployed("loop")
    records = lab.records("loop")
    assert len(records) <= 10
    assert records[-1][1] == "deployed"
    lab.stays_quiet("loop", periods=1)


def _tried(lab, times):
    assert lab.cr("loop")["status"]["lastAttempt"]["failures"] == times


def _count_writes(lab, name, since):
    """Count, by a watch opened later, how often the custom resource was written since then."""

    def count():
        import json
        import urllib.request

        url = f"{lab.api.server}{lab.path()}?watch=1&resourceVersion={since}&timeoutSeconds=1"
        request = urllib.request.Request(url, headers={"Authorization": f"Bearer {lab.api._token}"})
        with urllib.request.urlopen(request, context=lab.api._ssl, timeout=30) as answer:
            events = [json.loads(line) for line in answer.read().splitlines()]
        return len([event for event in events if event["object"]["metadata"]["name"] == name])

    return count


def test_case_20_an_immutable_field_is_told_and_the_old_values_heal_it(make_lab):
    lab = make_lab("20")
    lab.start()
    lab.create()
    lab.deployed("stone", revision=1)

    def uids():
        kinds = (("batch/v1/jobs", "stone-once"), ("apps/v1/statefulsets", "stone-set"))
        return [lab.object(kind, name)["metadata"]["uid"] for kind, name in kinds]

    before = uids()
    for bad, says in (({"tag": "2"}, ["stone-once", "field is immutable"]), ({"app": "mall"}, ["stone-set"])):
        lab.set_spec("stone", bad)
        lab.reaches("stone", Deployed="True", ReleaseFailed="True", says=says)
        newest = lab.records("stone")[-1][0]
        lab.set_spec("stone", {"tag": "1"})
        lab.deployed("stone")
        assert lab.records("stone")[-1][0] <= newest + 2  # A retry of the bad one may have come between.
        lab.stays_quiet("stone", periods=1)
    assert uids() == before


WORDS = [
    ({}, ["set spec.owner to the team that pays"]),
    ({"owner": "nobody"}, ["see handbook page 7"]),
    ({"owner": "a", "port": "x", "mode": "slow"}, ["port", "want integer", "mode"]),
    ({"owner": "a: b: c"}, ["YAML", "cm.yaml"]),
]


def test_case_21_what_the_chart_author_wants_to_say_arrives(make_lab):
    lab = make_lab("21")
    lab.start()
    lab.create()
    for spec, says in WORDS:
        lab.set_spec("words", spec)
        lab.reaches("words", ReleaseFailed="True", Irreconcilable="True", Deployed="False", says=says)
        _check_words(lab)
    lab.set_spec("words", {"owner": "ann"})
    lab.deployed("words", revision=1)
    for spec, says in WORDS:
        lab.set_spec("words", spec)
        lab.reaches("words", ReleaseFailed="True", Irreconcilable="True", Deployed="True", says=says)
        _check_words(lab)
    assert lab.data("words-cfg") == {"owner": "ann"}
    lab.set_spec("words", {"owner": "ann"})
    lab.deployed("words", revision=1)


def _check_words(lab):
    for entry in lab.conditions("words").values():
        assert "Traceback" not in entry["message"]
        assert "release: not found" not in entry["message"]
        assert len(entry["message"].encode()) <= 4096


def test_case_21_a_chart_for_another_kubernetes_says_which(make_lab):
    lab = make_lab("21")
    lab.write("watches.yaml", (lab.folder / "watches.yaml").read_text().replace("./chart", "./future-chart"))
    lab.start()
    lab.create()
    version = lab.api.get("/version")["gitVersion"]
    lab.reaches("words", ReleaseFailed="True", Irreconcilable="True", says=[">=1.99.0-0", version])
    assert lab.records("words") == []


def test_an_edit_during_an_action_overtakes_it(make_lab):
    lab = make_lab("17")
    hook = """
apiVersion: batch/v1
kind: Job
metadata:
  name: "{{ .Release.Name }}-slow"
  annotations: {helm.sh/hook: "pre-install,pre-upgrade", helm.sh/hook-delete-policy: before-hook-creation}
spec:
  suspend: {{ .Values.slow | default false }}
  template: {spec: {restartPolicy: Never, containers: [{name: c, image: "x.invalid/y"}]}}
"""
    lab.write("chart/templates/hook.yaml", hook)
    lab.start()
    lab.api.post(lab.path(), {**lab.documents("cr.yaml")[0], "spec": {"port": 80, "slow": True}})
    eventually(lambda: lab.data("first-cfg") if not lab.helm_runs() else lab.helm_runs())
    time.sleep(2)
    lab.set_spec("first", {"port": 83})
    lab.deployed("first", timeout=40)
    assert lab.object("services", "first-svc")["spec"]["ports"][0]["port"] == 83
