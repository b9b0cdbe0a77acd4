"""Cases 12, 15, 22, 23, 27, 35: other hands, lost writes, and edits that mean nothing."""

import json
import time

import pytest

from tests.cluster import eventually
from tests.lab import PERIOD

pytestmark = [pytest.mark.cluster, pytest.mark.helm]


def test_case_12_what_people_do_with_helm_and_kubectl_is_put_right(make_lab):
    lab = make_lab("12")
    lab.start()
    lab.create()
    lab.deployed("hands", revision=1)

    def settles(colour, revision):
        def check():
            assert lab.data("hands-cfg") == {"colour": colour}
            listed = [entry["revision"] for entry in json.loads(lab.helm("list", "--output", "json"))]
            assert listed == [str(revision)]

        eventually(check, timeout=15)
        status = lab.deployed("hands", revision=revision)
        assert status["deployedRelease"]["name"] == "hands"
        # Its last write may come after the state that was waited for.
        eventually(lambda: lab.stays_quiet("hands", periods=1), timeout=10)

    settles("red", 1)
    lab.api.delete(lab.core("configmaps", "hands-cfg"))
    settles("red", 1)
    lab.helm("uninstall", "hands")
    settles("red", 1)
    lab.set_spec("hands", {"colour": "green"})
    settles("green", 2)
    lab.helm("rollback", "hands")
    settles("green", 4)
    lab.api.delete(lab.core("secrets", "sh.helm.release.v1.hands.v4"))
    settles("green", 4)
    uid = lab.object("configmaps", "hands-cfg")["metadata"]["uid"]
    for revision, _ in lab.records("hands"):
        lab.api.delete(lab.core("secrets", f"sh.helm.release.v1.hands.v{revision}"))
    eventually(lambda: _says(lab.records("hands")[-1][1], "deployed"))
    assert lab.object("configmaps", "hands-cfg")["metadata"]["uid"] == uid
    lab.deployed("hands")


def _says(one, other):
    assert one == other


def test_case_15_a_lost_status_write_is_made_up_for_without_a_second_revision(make_lab):
    lab = make_lab("15")
    first = lab.start()
    lab.create()
    lab.deployed("lost", revision=1)
    lab.stays_quiet("lost", periods=1)
    uid = lab.object("configmaps", "lost-cfg")["metadata"]["uid"]

    def as_it_should_be():
        entries = lab.conditions("lost")
        assert (entries["Deployed"]["status"], entries["Deployed"]["reason"]) == ("True", "InstallSuccessful")
        assert (entries["ReleaseFailed"]["status"], entries["Irreconcilable"]["status"]) == ("False", "False")
        assert lab.cr("lost")["status"]["deployedRelease"]["revision"] == 1

    # Variant C: the status is cleared.
    path = lab.path("lost") + "/status"
    foreign = {"type": "Audited", "status": "True", "reason": "Seen", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    lab.api.patch(path, [{"op": "replace", "path": "/status", "value": {"other": 1, "conditions": [foreign]}}], _JSON)
    eventually(as_it_should_be)
    assert lab.conditions("lost")["Audited"] == foreign
    assert lab.cr("lost")["status"]["other"] == 1

    # Variant A: the operator dies before it can write.
    first.kill()
    lab.api.patch(path, [{"op": "remove", "path": "/status"}], _JSON)
    lab.start()
    eventually(as_it_should_be)
    assert lab.object("configmaps", "lost-cfg")["metadata"]["uid"] == uid
    assert lab.records("lost") == [(1, "deployed")]


_JSON = "application/json-patch+json"


def test_case_22_a_guard_against_upgrades_does_not_disturb_what_did_not_change(make_lab):
    lab = make_lab("22")
    lab.start()
    lab.create()
    lab.deployed("guard", revision=1)
    lab.stays_quiet("guard", periods=5)
    lab.api.patch(lab.path("guard"), {"metadata": {"labels": {"team": "a"}}})
    time.sleep(PERIOD)
    lab.deployed("guard", revision=1)

    lab.api.delete(lab.core("configmaps", "guard-cfg"))
    eventually(lambda: lab.data("guard-cfg"))
    assert lab.data("guard-cfg") == {"colour": "red", "first": "true"}
    lab.deployed("guard", revision=1)

    lab.set_spec("guard", {"colour": "green"})
    lab.reaches("guard", Deployed="True", ReleaseFailed="True", says=["repeat the password on upgrade"])
    assert lab.data("guard-cfg")["colour"] == "red"
    lab.set_spec("guard", {"colour": "green", "password": "x"})
    lab.deployed("guard")
    assert lab.data("guard-cfg") == {"colour": "green", "first": "false"}
    lab.stays_quiet("guard", periods=2)


def test_case_23_random_values_and_the_clock_start_no_loop(make_lab):
    lab = make_lab("23")
    operator = lab.start()
    lab.create()
    lab.deployed("dice", revision=1)
    password = lab.data("dice-login", "secrets")["password"]
    lab.stays_quiet("dice", periods=5)
    operator.stop()
    before = lab.snapshot("dice")
    lab.start()
    time.sleep(3 * PERIOD)
    lab.api.patch(lab.path("dice"), {"metadata": {"annotations": {"note": "x"}}})
    time.sleep(2 * PERIOD)
    after = lab.snapshot("dice")
    assert {k: v for k, v in before.items() if k[0] != "cr"} == {k: v for k, v in after.items() if k[0] != "cr"}

    lab.api.patch(lab.core("secrets", "dice-login"), {"data": {"password": "aGFuZA=="}})
    eventually(lambda: _says(lab.data("dice-login", "secrets")["password"], password))
    lab.deployed("dice", revision=1)
    lab.set_spec("dice", {"colour": "green"})
    lab.deployed("dice", revision=2)
    assert lab.data("dice-login", "secrets")["password"] != password
    lab.stays_quiet("dice", periods=3)


def test_case_27_edits_that_are_not_about_the_release_start_nothing(make_lab):
    lab = make_lab("27")
    lab.start()
    lab.create()
    lab.deployed("calm", revision=1)
    moved = lab.conditions("calm")["Deployed"]["lastTransitionTime"]
    configmap = lab.object("configmaps", "calm-cfg")["metadata"]["resourceVersion"]
    runs = lab.helm_runs()
    time.sleep(1.1)  # So that a moved time would show.

    audited = {"type": "Audited", "status": "True", "reason": "Seen", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    status = lab.path("calm") + "/status"
    lab.api.patch(status, {"status": {"other": {"by": "someone"}}})
    lab.api.patch(status, [{"op": "add", "path": "/status/conditions/-", "value": audited}], _JSON)
    lab.api.patch(lab.path("calm"), {"metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}}})
    for number in range(50):
        lab.api.patch(status, {"status": {"count": number}})
    lab.set_spec("calm", {"colour": "red"})
    time.sleep(3 * PERIOD)

    assert lab.helm_runs() == runs
    assert lab.object("configmaps", "calm-cfg")["metadata"]["resourceVersion"] == configmap
    assert lab.conditions("calm")["Deployed"]["lastTransitionTime"] == moved
    lab.stays_quiet("calm", periods=2)

    lab.set_spec("calm", {"colour": "green"})
    lab.deployed("calm", revision=2)
    assert lab.conditions("calm")["Deployed"]["lastTransitionTime"] == moved
    assert lab.conditions("calm")["Audited"] == audited
    assert lab.cr("calm")["status"]["other"] == {"by": "someone"}


def test_case_35_lists_empty_documents_and_duplicates(make_lab):
    lab = make_lab("35")
    lab.start()
    lab.create()
    lab.deployed("docs", revision=1)
    two = lab.data("docs-two", "secrets")
    lab.api.delete(lab.core("configmaps", "docs-one"))
    lab.api.patch(lab.core("secrets", "docs-two"), {"data": {"b": "aGFuZA=="}})
    eventually(lambda: lab.data("docs-one"))
    eventually(lambda: _says(lab.data("docs-two", "secrets"), two))
    lab.set_spec("docs", {"twice": True})
    lab.deployed("docs", revision=2)
    data = lab.data("docs-same")
    assert data["from"] == "second"
    lab.stays_quiet("docs", periods=4)
    lab.delete("docs")
    lab.gone("docs")


def test_case_35_a_chart_without_objects(make_lab):
    lab = make_lab("35")
    lab.write("watches.yaml", (lab.folder / "watches.yaml").read_text().replace("./chart", "./bare-chart"))
    lab.start()
    lab.create()
    lab.deployed("docs", revision=1)
    lab.stays_quiet("docs", periods=2)
    lab.delete("docs")
    lab.gone("docs")


def test_case_35_an_object_without_a_name(make_lab):
    lab = make_lab("35")
    lab.write("watches.yaml", (lab.folder / "watches.yaml").read_text().replace("./chart", "./name-chart"))
    lab.start()
    lab.create()
    lab.reaches("docs", ReleaseFailed="True", Deployed="False", says=["name"])
    time.sleep(10)
    names = [item["metadata"]["name"] for item in lab.api.items(lab.core("configmaps"))]
    assert names == ["kube-root-ca.crt"]
    lab.delete("docs")
    lab.gone("docs")
