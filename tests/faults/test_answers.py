"""What an API server, or what stands before it, may answer: none of it is mistaken for "there is no such thing"."""

import time

import pytest

from tests.cluster import JSON_PATCH, eventually
from tests.faults.proxy import Proxy, status
from tests.lab import PERIOD

pytestmark = [pytest.mark.cluster, pytest.mark.helm]

CALM = ("--retry-base=1s", "--retry-ceiling=4s")


@pytest.fixture
def stage(make_lab):
    lab = make_lab("48")
    with Proxy(lab.api) as proxy:
        lab.proxy = proxy
        lab.reached = {"KUBECONFIG": proxy.kubeconfig(lab.folder / "proxy.kubeconfig")}
        yield lab
        for operator in lab._operators:
            operator.stop()


def _deployed(lab):
    operator = lab.start(*CALM, env=lab.reached)
    lab.create()
    lab.deployed("gap", revision=1)
    eventually(lambda: lab.stays_quiet("gap", periods=1), timeout=30)
    return operator


def test_a_server_that_does_not_serve_crds_yet_is_asked_again(stage):
    lab = stage
    lab.create()
    ready = time.monotonic() + 4
    refusal = status(404, "NotFound", "the server could not find the requested resource")

    def rule(_method, path):
        return refusal if f"/apis/{lab.group}" in path and time.monotonic() < ready else None

    lab.proxy.rule = rule
    lab.start(*CALM, env=lab.reached)
    lab.deployed("gap", revision=1, timeout=45)


ANSWERS = {
    "503": status(503, "ServiceUnavailable", "apiserver is shutting down"),
    "500": status(500, "InternalError", "etcdserver: request timed out"),
    "429": status(429, "TooManyRequests", "too many requests", Retry_After="2"),
    "401": status(401, "Unauthorized", "Unauthorized"),
    "403": status(403, "Forbidden", "everything is forbidden"),
    "404": (404, {"Content-Type": "text/plain"}, "404 page not found\n"),
    "html": (200, {"Content-Type": "text/html"}, "<html>Welcome to the hotel's network</html>"),
    "empty": (200, {"Content-Type": "application/json"}, "{}"),
    "cut": "cut",
}


@pytest.mark.parametrize("answer", ANSWERS)
def test_an_answer_that_says_nothing_of_the_release_changes_nothing(stage, answer):
    lab = stage
    operator = _deployed(lab)
    uid = lab.object("configmaps", "gap-cfg")["metadata"]["uid"]
    runs = list(lab.helm_runs())
    began = time.monotonic()
    lab.proxy.rule = lambda method, _path: "cut" if method == "STREAM" else ANSWERS[answer]
    lab.set_spec("gap", {"colour": "green"})
    lab.api.delete(lab.core("configmaps", "gap-cfg"))
    time.sleep(4 * PERIOD)
    assert operator.process.poll() is None, operator.log
    requests = [entry for entry in lab.proxy.requests if entry[0] > began + 1]
    assert len(requests) / (4 * PERIOD) < 30, "requests came as a storm"
    assert lab.records("gap") == [(1, "deployed")]
    assert "uninstall" not in lab.helm_runs()
    assert lab.helm_runs()[len(runs) :].count("install") == 0
    assert "Traceback" not in lab.log
    lab.proxy.rule = None
    lab.deployed("gap", timeout=70)
    eventually(lambda: _holds(lab, "green"), timeout=30)
    assert lab.object("configmaps", "gap-cfg")["metadata"]["uid"] != uid
    assert [state for _, state in lab.records("gap")].count("deployed") == 1
    assert len(lab.records("gap")) <= 6


@pytest.mark.parametrize("answer", ["503", "429", "404", "403", "empty", "cut"])
def test_a_deletion_waits_until_it_is_known_what_there_is_to_delete(stage, answer):
    lab = stage
    _deployed(lab)
    lab.api.patch(lab.core("configmaps", "gap-cfg"), {"metadata": {"finalizers": ["example.com/hold"]}})

    def rule(_method, path):
        return ANSWERS[answer] if "/secrets" in path or "/configmaps" in path else None

    lab.proxy.rule = rule
    lab.delete("gap")
    time.sleep(3 * PERIOD)
    assert lab.cr("gap") is not None, "the finalizer went on the word of an error"
    lab.proxy.rule = None
    lab.api.patch(lab.core("configmaps", "gap-cfg"), {"metadata": {"finalizers": None}})
    lab.gone("gap", timeout=60)
    assert lab.records("gap") == []
    assert lab.object("configmaps", "gap-cfg") is None


def test_a_status_that_is_refused_does_not_start_another_helm(stage):
    lab = stage

    def rule(method, path):
        return ANSWERS["500"] if method == "PATCH" and path.partition("?")[0].endswith("/status") else None

    lab.proxy.rule = rule
    lab.start(*CALM, env=lab.reached)
    lab.create()
    eventually(lambda: _is(lab.records("gap"), [(1, "deployed")]))
    time.sleep(4 * PERIOD)
    assert lab.helm_runs() == ["install"]
    lab.proxy.rule = None
    lab.deployed("gap", revision=1, timeout=70)


def test_watches_that_break_all_the_time_lose_nothing(stage):
    lab = stage
    _deployed(lab)
    lab.proxy.rule = lambda method, _path: "cut" if method == "STREAM" else None
    for colour in ("green", "blue"):
        lab.set_spec("gap", {"colour": colour})
        time.sleep(1)
    lab.proxy.rule = None
    lab.deployed("gap", timeout=60)
    _holds(lab, "blue")
    lab.api.delete(lab.core("configmaps", "gap-cfg"))
    eventually(lambda: _holds(lab, "blue"), timeout=30)


def test_a_release_secret_without_content_is_told(make_lab):
    lab = make_lab("48")
    lab.start(*CALM)
    lab.create()
    lab.deployed("gap", revision=1)
    path = lab.core("secrets", "sh.helm.release.v1.gap.v1")
    lab.api.patch(path, [{"op": "remove", "path": "/data"}], JSON_PATCH)
    lab.set_spec("gap", {"colour": "green"})
    lab.reaches("gap", Irreconcilable="True", says=["revision 1", "cannot be read"])
    assert "Traceback" not in lab.log
    lab.api.delete(path)
    lab.deployed("gap", timeout=40)
    _holds(lab, "green")


def test_objects_whose_record_is_lost_go_with_their_custom_resource(make_lab):
    lab = make_lab("48")
    lab.write("chart/templates/guard.yaml", '{{ if .Values.broken }}{{ fail "broken on purpose" }}{{ end }}')
    lab.start(*CALM)
    lab.create()
    lab.deployed("gap", revision=1)
    lab.set_spec("gap", {"colour": "red", "broken": True})
    lab.reaches("gap", ReleaseFailed="True", says=["broken on purpose"])
    for revision, _ in lab.records("gap"):
        lab.api.delete(lab.core("secrets", f"sh.helm.release.v1.gap.v{revision}"))
    time.sleep(2 * PERIOD)
    lab.delete("gap")
    lab.gone("gap")
    assert lab.object("configmaps", "gap-cfg") is None


def _holds(lab, colour):
    assert lab.data("gap-cfg") == {"colour": colour}


def _is(one, other):
    assert one == other
