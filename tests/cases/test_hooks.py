"""Cases 29 and 30: hooks that fail on the way in and on the way out."""

import time

import pytest

from tests.cluster import eventually
from tests.lab import PERIOD

pytestmark = [pytest.mark.cluster, pytest.mark.helm]


def test_case_29_a_failed_hook_is_told_and_its_leftovers_are_no_obstacle(make_lab):
    lab = make_lab("29")
    lab.start()
    lab.create()
    lab.reaches("hooked", Deployed="False", ReleaseFailed="True", says=["pre-install", "hooked-step2"])
    assert lab.conditions("hooked")["ReleaseFailed"]["reason"] == "InstallError"
    time.sleep(20)
    assert 2 <= len(lab.helm_runs()) <= 5  # At 0, 5 and 15 seconds, less a fifth for the spread.
    told = [*lab.events(), *(entry["message"] for entry in lab.conditions("hooked").values())]
    assert not [text for text in told if "already exists" in text]
    assert lab.object("configmaps", "hooked-main") is None

    lab.set_spec("hooked", {"port": 80})
    lab.deployed("hooked")
    assert lab.data("hooked-main") == {"port": "80"}
    assert lab.object("configmaps", "hooked-step1") is None
    assert lab.object("services", "hooked-step2") is not None
    lab.api.delete(lab.core("services", "hooked-step2"))
    eventually(lambda: lab.stays_quiet("hooked"), timeout=30)
    assert lab.object("services", "hooked-step2") is None
    assert lab.object("configmaps", "hooked-probe") is None

    lab.delete("hooked")
    lab.gone("hooked")
    assert lab.object("configmaps", "hooked-main") is None
    assert lab.records("hooked") == []


def test_case_30_a_hook_that_fails_after_the_deletion_is_told_and_holds_nothing_back(make_lab):
    lab = make_lab("30")
    lab.start()
    lab.create()
    lab.deployed("bye", revision=1)
    lab.delete("bye")
    lab.gone("bye", timeout=30)
    assert lab.object("configmaps", "bye-main") is None
    assert lab.records("bye") == []
    assert any("bye" in text and "uninstall failed" in text for text in lab.events("UninstallError"))


def test_objects_that_outlive_an_uninstall_whose_hook_failed_are_waited_for(make_lab):
    lab = make_lab("30")
    lab.start()
    lab.create()
    lab.deployed("bye", revision=1)
    path = lab.core("configmaps", "bye-main")
    lab.api.patch(path, {"metadata": {"finalizers": ["example.com/hold"]}})
    lab.delete("bye")
    eventually(lambda: _equal(lab.records("bye"), []))
    time.sleep(10)
    assert lab.cr("bye") is not None, "the custom resource went before its objects"
    lab.reaches("bye", says=['ConfigMap "bye-main"', "example.com/hold"])
    lab.api.patch(path, {"metadata": {"finalizers": None}})
    lab.gone("bye")


def test_case_30_a_hook_that_fails_before_the_deletion_holds_it_back_until_it_is_mended(make_lab):
    lab = make_lab("30")
    lab.start()
    body = lab.documents("cr.yaml")[0]
    lab.api.post(lab.path(), {**body, "spec": {"when": "pre-delete"}})
    lab.deployed("bye", revision=1)
    lab.delete("bye")
    lab.reaches("bye", ReleaseFailed="True", says=["pre-delete", "bye"])
    entries = lab.conditions("bye")
    assert entries["ReleaseFailed"]["reason"] == "UninstallError"
    # Helm has marked the release as being uninstalled, but all of it runs.
    assert entries["Deployed"]["message"] != "nothing is deployed"
    assert lab.cr("bye")["status"]["deployedRelease"]["resources"]

    started = time.monotonic()
    lab.api.post(lab.path(), {**body, "metadata": {"name": "other"}})
    lab.deployed("other", revision=1)
    assert time.monotonic() - started < 5
    time.sleep(20)
    assert 2 <= lab.helm_runs().count("uninstall") <= 5
    assert lab.cr("bye")["metadata"]["deletionTimestamp"]
    assert lab.object("configmaps", "bye-main") is not None

    def without_hooks(record):
        record["hooks"] = []

    newest, state = lab.records("bye")[-1]
    assert state in ("deployed", "uninstalling")
    lab.edit_record("bye", newest, without_hooks)
    lab.gone("bye", timeout=60)
    assert lab.object("configmaps", "bye-main") is None


def _equal(one, other):
    assert one == other


def test_a_release_without_objects_but_hooks_is_deployed(make_lab):
    lab = make_lab("29")
    text = (lab.folder / "chart/templates/all.yaml").read_text()
    lab.write("chart/templates/all.yaml", text.rpartition("---")[0])
    lab.start()
    lab.api.post(lab.path(), {**lab.documents("cr.yaml")[0], "spec": {"port": 80}})
    lab.deployed("hooked", revision=1)
    time.sleep(2 * PERIOD)
    eventually(lambda: lab.stays_quiet("hooked", periods=1))
    lab.delete("hooked")
    lab.gone("hooked")
