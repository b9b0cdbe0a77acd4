"""Recorded errors of Helm 3 and 4: tests/stderr/<kind>-<helm>-<what>.txt."""

import signal
from pathlib import Path

import pytest

from helm_operator.errors import HelmErrorKind
from helm_operator.helm.classify import MAX_MESSAGE, helm_error

STDERR = Path(__file__).parent.parent / "stderr"
RECORDED = sorted(path.stem for path in STDERR.glob("*.txt"))
VERBS = {
    "pre-delete": "uninstall",
    "post-delete": "uninstall",
    "pre-rollback": "rollback",
    "object-uninstall": "uninstall",
    "records-uninstall": "uninstall",
    "uninstall": "uninstall",
    "rollback": "rollback",
    "rollback-revision": "rollback",
}


def recorded(name):
    kind, _, what = name.split("-", 2)
    text = (STDERR / f"{name}.txt").read_text()
    return HelmErrorKind(kind), helm_error(text, 1, verb=VERBS.get(what, "install"))


@pytest.mark.parametrize("name", RECORDED)
def test_recorded_errors(name):
    kind, error = recorded(name)
    message = str(error)

    assert error.kind is kind
    assert message
    assert message.strip() == message
    assert len(message.encode()) <= 2000
    for noise in ("Error: ", "level=", "Usage:", "WARNING", "FAILED: ", "[debug]", ".go:", "1 error occurred"):
        assert noise not in message
    assert "topsecret" not in message


@pytest.mark.parametrize("helm", ["helm3", "helm4"])
@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("Render-{}-required", ["words/templates/cm.yaml:1:10", "set spec.owner to the team that pays"]),
        ("Render-{}-fail", ["words/templates/cm.yaml:2:38", "see handbook page 7"]),
        ("Render-{}-lines", ["first line\nsecond line: of the advice\n  third"]),
        ("Render-{}-yaml", ["YAML", "words/templates/cm.yaml", "line 3"]),
        ("Render-{}-nil", ["nilp/templates/cm.yaml:5:13", ".Values.deep.er.still", "nil pointer"]),
        ("Values-{}-schema", ["'/port': got string, want integer", "'/mode'", "'/tls'"]),
        ("Chart-{}-kubeversion", [">=1.99.0-0", "v1.36.3"]),
        ("Chart-{}-dependencies", ["redis"]),
        ("Ownership-{}-unowned", ['ConfigMap "taken-cfg"', "ownership", "no owner"]),
        ("Ownership-{}-other", ['ConfigMap "taken-cfg"', "ownership", "release other"]),
        ("Ownership-{}-upgrade", ['Service "up-svc"', "ownership"]),
        ("NotFound-{}-uninstall", ['release "absent" does not exist']),
        ("NotFound-{}-upgrade", ['release "absent" does not exist, or']),
        ("Locked-{}-upgrade", ["another operation (install/upgrade/rollback) is in progress"]),
        ("Invalid-{}-job", ["stone-once", "field is immutable"]),
        ("Invalid-{}-sts", ["set-set", "updates to statefulset spec"]),
        ("Invalid-{}-quota", ["exceeded quota: few"]),
        ("Invalid-{}-webhook", ["gate.example.com"]),
        ("Invalid-{}-policy", ["services are frozen"]),
        ("Invalid-{}-noname", ["name may not be empty"]),
        ("Forbidden-{}-object", ["forbidden", "configmaps"]),
        ("Forbidden-{}-object-uninstall", ["forbidden", "cannot delete", "configmaps", "a-cfg"]),
        ("TooLarge-{}-install", ["1048576"]),
        ("Hook-{}-failed", ["pre-install", "hk2-hook"]),
        ("Hook-{}-post-delete", ["a hook failed", "timed out"]),
        ("Unreachable-{}-install", ["connection refused"]),
        ("UnknownKind-{}-install", ['no matches for kind "Nothing"']),
    ],
)
def test_messages_keep_what_the_reader_needs(helm, name, parts):
    _, error = recorded(name.format(helm))
    for part in parts:
        assert part in str(error)


def test_a_field_conflict_names_manager_and_field():
    _, error = recorded("FieldConflict-helm4-upgrade")
    assert 'conflict with "kubectl-patch" using v1: .data.colour' in str(error)


def test_the_object_that_did_not_get_ready_is_named():
    _, error = recorded("Timeout-helm4-wait")
    assert str(error).startswith("timed out: resource Deployment/")
    assert "Replicas: 0/1" in str(error)


def test_words_of_authors_do_not_change_the_kind():
    text = (
        "Error: INSTALLATION FAILED: execution error at (a/templates/b.yaml:1:2): connection refused: is forbidden: x\n"
    )
    assert helm_error(text, 1).kind is HelmErrorKind.RENDER


@pytest.mark.parametrize(
    "text",
    [
        'update: failed to update: Secret "sh.helm.release.v1.a.v1" is invalid: data: Too long: may not be more than',
        "create: failed to create: etcdserver: request is too large",
    ],
)
def test_a_record_that_is_too_large_is_told_with_what_helps(text):
    error = helm_error(f"Error: UPGRADE FAILED: {text}", 1)
    assert error.kind is HelmErrorKind.TOO_LARGE
    assert "1048576" in str(error)
    assert ".helmignore" in str(error)


def test_an_object_that_is_too_large_is_no_outage():
    text = "Error: UPGRADE FAILED: server-side apply failed for object a/b: etcdserver: request is too large"
    assert helm_error(text, 1).kind is HelmErrorKind.INVALID


def test_warnings_around_the_error_go():
    text = (
        "WARNING: Kubernetes configuration file is group-readable. This is insecure. Location: /k\n"
        "coalesce.go:298: warning: cannot overwrite table with non table for a.b (map[])\n"
        'level=WARN msg="upgrade failed" error="x"\n'
        'I1130 20:26:57.925204   18660 warnings.go:107] "Warning: unknown field"\n'
        "Error: UPGRADE FAILED: something odd\n"
        "Usage:\n  helm upgrade [RELEASE]\n"
    )
    error = helm_error(text, 1)
    assert str(error) == "something odd"
    assert error.kind is HelmErrorKind.OTHER
    assert error.output == text


def test_of_several_errors_the_newest_counts():
    assert str(helm_error("Error: first\nError: UPGRADE FAILED: second\n", 1)) == "second"


def test_errors_of_helm_3_in_numbers():
    items = '\t* Service "a" is invalid: x\n\t* Service "b" is invalid: y'
    error = helm_error(f"Error: INSTALLATION FAILED: 2 errors occurred:\n{items}\n\n\n", 1)
    assert str(error) == 'Service "a" is invalid: x\nService "b" is invalid: y'
    assert error.kind is HelmErrorKind.INVALID


def test_long_messages_lose_their_middle():
    text = f"Error: INSTALLATION FAILED: the beginning {'żółć ' * 5000} the cause"
    message = str(helm_error(text, 1))
    assert len(message.encode()) <= MAX_MESSAGE
    assert message.startswith("the beginning")
    assert message.endswith("the cause")


@pytest.mark.parametrize(
    ("stderr", "code", "says"),
    [
        ("", -signal.SIGKILL, "helm was killed by SIGKILL (out of memory?)"),
        ("", -signal.SIGSEGV, "helm was killed by SIGSEGV"),
        ("panic: nil map\n\ngoroutine 1 [running]:\nmain.main()\n", 2, "helm crashed: panic: nil map"),
    ],
)
def test_crashes(stderr, code, says):
    error = helm_error(stderr, code)
    assert str(error) == says
    assert error.kind is HelmErrorKind.CRASHED


def test_silence_is_said():
    assert str(helm_error("", 3)) == "helm failed with exit code 3 and did not say why"


def test_both_versions_were_recorded():
    kinds = {tuple(name.split("-")[:2]) for name in RECORDED}
    for kind in HelmErrorKind:
        if kind not in (HelmErrorKind.CRASHED, HelmErrorKind.FIELD_CONFLICT):
            assert {(kind.value, "helm3"), (kind.value, "helm4")} <= kinds
