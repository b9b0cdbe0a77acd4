import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helm_operator.health import MISSING, UNOBSERVED, Health, Summary, Verdict, assess, summarise
from helm_operator.health.rules import _RULES, MAX_MESSAGE
from helm_operator.release import ObjectRef
from tests.judge.corpus import (
    CASES,
    NOW,
    SCHEDULED,
    ago,
    box,
    cond,
    custom,
    deployment,
    looping_pod,
    obj,
    pod,
    pulling_pod,
    starting_pod,
    stateful,
    waiting,
    warning,
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.says)
def test_an_object_is_judged(case):
    verdict = assess(case.item, now=NOW, **case.given)

    assert (verdict.health, verdict.reason) == (case.health, case.reason), verdict
    assert case.lacks in verdict.message
    assert verdict.message or verdict.health is Health.HEALTHY


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.says)
def test_a_verdict_holds_until_it_says_so_and_changes_then(case):
    verdict = assess(case.item, now=NOW, **case.given)
    if verdict.recheck_at is None:
        for later in (NOW + 1, NOW + 100_000):
            assert assess(case.item, now=later, **case.given) == verdict
    else:
        assert verdict.recheck_at > NOW
        assert assess(case.item, now=verdict.recheck_at - 0.001, **case.given) == verdict
        assert assess(case.item, now=verdict.recheck_at, **case.given) != verdict


def test_the_sentences_of_the_corpus_are_all_different():
    assert len({case.says for case in CASES}) == len(CASES)


def test_a_message_counts_neither_seconds_nor_restarts():
    again = pod("Running", [cond("Ready", "False", since=5)], [dict(looping_pod["status"]["containerStatuses"][0])])
    again["status"]["containerStatuses"][0] |= {"restartCount": 40, "state": waiting("CrashLoopBackOff", "back-off 5m")}

    assert assess(again, now=NOW) == assess(looping_pod, now=NOW)


def test_the_two_words_for_a_failing_pull_make_one_verdict():
    pull = pod("Pending", [SCHEDULED], [box(waiting("ErrImagePull", "not found"))])
    back_off = pod("Pending", [SCHEDULED], [box(waiting("ImagePullBackOff", 'Back-off pulling "x"'))])

    assert assess(pull, now=NOW) == assess(pulling_pod, now=NOW)
    assert assess(back_off, now=NOW).message.endswith('cannot pull image "registry.example.com/web:1"')


def test_the_newest_warning_is_told_and_others_are_not():
    events = [
        warning("Old", "old", age=99),
        warning("Unhealthy", "Readiness probe failed: 500", age=9),
        warning("Older", "older", age=999),
        warning("Pulled", "not a warning", age=1) | {"type": "Normal"},
    ]

    verdict = assess(deployment(availableReplicas=1), now=NOW, warnings=events)

    assert verdict.message == "1 of 2 replicas available; Unhealthy: Readiness probe failed: 500"


@pytest.mark.parametrize(
    "newest",
    [
        pytest.param({"eventTime": ago(5), "lastTimestamp": None, "message": None, "note": "here"}, id="the new API"),
        pytest.param({"series": {"lastObservedTime": ago(5)}, "message": "here"}, id="a series"),
        pytest.param({"deprecatedLastTimestamp": ago(5), "message": "here"}, id="the old API through the new one"),
        pytest.param({"lastTimestamp": ago(5), "message": "here"}, id="the old API"),
        pytest.param({"metadata": {"creationTimestamp": ago(5)}, "message": "here"}, id="its creation at least"),
    ],
)
def test_the_age_of_a_warning_is_read_in_every_form(newest):
    event = {"type": "Warning", "reason": "New", "metadata": {"creationTimestamp": ago(500)}} | newest

    verdict = assess(deployment(availableReplicas=1), now=NOW, warnings=[warning("Old", "old", age=50), event])

    assert verdict.message.endswith("; New: here")


@pytest.mark.parametrize(
    ("pods", "event"),
    [
        pytest.param([looping_pod], warning("BackOff", "Back-off restarting failed container"), id="crash loop"),
        pytest.param([pulling_pod], warning("Failed", "Error: ImagePullBackOff"), id="pull"),
        pytest.param(
            [pod("Pending", [SCHEDULED], [box(waiting("ErrImageNeverPull"))])],
            warning("ErrImageNeverPull", "Container image is not present"),
            id="an image that is not there",
        ),
        pytest.param(
            [pod("Pending", [SCHEDULED], [box(waiting("InvalidImageName"))])],
            warning("InspectFailed", "Failed to apply default image tag"),
            id="an image name that is none",
        ),
        pytest.param(
            [pod("Pending", [SCHEDULED], [box(waiting("CreateContainerConfigError", "no secret"))])],
            warning("Failed", "Error: secret not found"),
            id="missing Secret",
        ),
        pytest.param(
            [pod("Running", [], [box(waiting("CrashLoopBackOff"), {"exitCode": 137, "reason": "OOMKilled"})])],
            warning("BackOff", "Back-off restarting failed container"),
            id="out of memory",
        ),
        pytest.param(
            [pod("Pending", [cond("PodScheduled", "False", "Unschedulable", "no node")])],
            warning("FailedScheduling", "0/3 nodes"),
            id="no node",
        ),
        pytest.param([], warning("Same", "1 of 2 replicas available"), id="the very words"),
    ],
)
def test_a_warning_that_repeats_the_verdict_is_left_out(pods, event):
    item = deployment(availableReplicas=1)

    assert assess(item, now=NOW, pods=pods, warnings=[event]) == assess(item, now=NOW, pods=pods)


def test_a_quota_is_told_once():
    item = deployment(conditions=[cond("ReplicaFailure", message="quota q")], replicas=1)

    assert assess(item, now=NOW, warnings=[warning("FailedCreate", "other")]) == assess(item, now=NOW)
    told = assess(stateful(replicas=0), now=NOW, warnings=[warning("FailedCreate", "quota q")])
    assert told.message == "0 of 2 replicas created; quota q"


def test_a_warning_without_a_reason_is_none():
    item = deployment(availableReplicas=1)

    assert assess(item, now=NOW, warnings=[warning("", "m")]) == assess(item, now=NOW)


def test_a_healthy_object_is_not_spoilt_by_a_warning():
    assert assess(deployment(), now=NOW, warnings=[warning("Old", "trouble")]) == Verdict(Health.HEALTHY, "Healthy")


def test_a_message_is_one_line_and_short():
    verdict = assess(custom([cond("Ready", "False", message="a\n" * 9999)]), now=NOW)

    assert "\n" not in verdict.message
    assert len(verdict.message.encode()) <= MAX_MESSAGE


def test_a_reason_that_no_condition_could_carry_is_replaced():
    assert assess(custom([cond("Ready", "False", "not a reason!", since=1)]), now=NOW).reason == "NotReady"


def test_of_pods_alike_always_the_same_one_is_named():
    twin = looping_pod | {"metadata": looping_pod["metadata"] | {"name": "web-0"}}
    item = stateful(readyReplicas=0)

    one, other = (assess(item, now=NOW, pods=pods) for pods in ([twin, looping_pod], [looping_pod, twin]))

    assert one == other
    assert "Pod web-0: " in one.message


def test_a_pod_that_is_being_deleted_speaks_last():
    leaving = looping_pod | {"metadata": {"name": "a", "deletionTimestamp": ago(5)}}

    verdict = assess(stateful(readyReplicas=0), now=NOW, pods=[leaving, starting_pod])

    assert "Pod web-3" in verdict.message


def test_many_pods_are_judged_in_no_time():
    pods = [pulling_pod | {"metadata": {"name": f"web-{n}", "creationTimestamp": ago(3600)}} for n in range(5000)]

    assert assess(deployment(availableReplicas=0), now=NOW, pods=pods).reason == "ImagePullBackOff"


# Hostile input. Names that rules look for, so that the search gets past the first test.
# fmt: off
KEYS = [
    "status", "spec", "metadata", "conditions", "type", "reason", "message", "lastTransitionTime",
    "observedGeneration", "generation", "phase", "replicas", "availableReplicas", "creationTimestamp",
    "deletionTimestamp", "finalizers", "labels", "annotations", "containerStatuses", "initContainerStatuses", "state",
    "lastState", "waiting", "terminated", "running", "startedAt", "exitCode", "restartCount", "ready", "image",
    "name", "updateStrategy", "rollingUpdate", "partition", "paused", "suspend", "loadBalancer", "ingress",
    "startTime", "desiredNumberScheduled", "progressDeadlineSeconds", "series", "eventTime", "lastTimestamp",
    "completions", "minReadySeconds", "volumeName", "clusterIP",
]
WORDS = [
    "True", "False", "Unknown", "Ready", "Available", "Progressing", "Stalled", "Reconciling", "Running", "Pending",
    "Failed", "CrashLoopBackOff", "ImagePullBackOff", "Unschedulable", "PodScheduled", "ProgressDeadlineExceeded",
    "NewReplicaSetAvailable", "OnDelete", "Warning", "LoadBalancer", "2025-03-01T12:00:00Z",
    "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "2025-03-01",
]
# fmt: on
scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.sampled_from([10**400, "\ud800"])
    | st.sampled_from(WORDS)
    | st.text(max_size=20)
)
json = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=5),
    max_leaves=30,
)
kinds = st.sampled_from([*sorted(_RULES), ("example.com", "Widget"), ("", "ServiceAccount")])


@settings(deadline=None)
@given(item=json, pods=st.lists(json, max_size=3), warnings=st.lists(json, max_size=3), pair=kinds)
def test_whatever_json_it_is_given_it_does_not_raise(item, pods, warnings, pair):
    group, kind = pair
    typed = {"apiVersion": f"{group}/v1" if group else "v1", "kind": kind}
    for each in (item, typed | (item if isinstance(item, dict) else {"status": item})):
        verdict = assess(each, now=NOW, pods=pods, warnings=warnings)
        summarise({ObjectRef("v1", "Pod", "", "x"): verdict}).message.encode()
        assert verdict.reason


def places(item, path=()):
    """Yield the path of every value inside of `item`."""
    for name, value in item.items() if isinstance(item, dict) else enumerate(item) if isinstance(item, list) else ():
        yield (*path, name)
        yield from places(value, (*path, name))


def replaced(item, path, value):
    if not path:
        return value
    copy = dict(item) if isinstance(item, dict) else list(item)
    copy[path[0]] = replaced(item[path[0]], path[1:], value)
    return copy


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.says)
def test_any_field_may_have_any_type(case):
    whole = {"item": case.item, "pods": [looping_pod, starting_pod], "warnings": [warning("A", "b")]} | case.given
    for path in places(whole):
        for junk in (None, -1, "junk", ["junk", None, {}], {"a": {"b": "c"}}):
            args = replaced(whole, path, junk)
            assert assess(args.pop("item"), now=NOW, **args).reason


# Summaries.
def ref(name, kind="Deployment", namespace="shop"):
    return ObjectRef("apps/v1", kind, namespace, name)


GOOD = Verdict(Health.HEALTHY, "Healthy")
SLOW = Verdict(Health.PROGRESSING, "RolloutInProgress", "1 of 2 replicas available", recheck_at=NOW + 9)
BAD = Verdict(Health.UNHEALTHY, "PodFailed", "the Pod failed")


@pytest.mark.parametrize(
    ("verdicts", "summary"),
    [
        pytest.param({}, Summary(Health.HEALTHY, "Healthy", "the release has no objects"), id="nothing is healthy"),
        pytest.param(
            {ref("web"): GOOD}, Summary(Health.HEALTHY, "Healthy", "its only object is healthy"), id="one is healthy"
        ),
        pytest.param(
            {ref("web"): GOOD, ref("db"): GOOD},
            Summary(Health.HEALTHY, "Healthy", "all 2 objects are healthy"),
            id="all are healthy",
        ),
        pytest.param(
            {ref("web"): Verdict(Health.HEALTHY, "Paused", "its roll-out is paused"), ref("db"): GOOD},
            Summary(Health.HEALTHY, "Healthy", 'all 2 objects are healthy | Deployment "web": its roll-out is paused'),
            id="what is healthy may have a note",
        ),
        pytest.param(
            {ref("web"): SLOW, ref("db"): GOOD},
            Summary(Health.PROGRESSING, "Progressing", 'Deployment "web": 1 of 2 replicas available', NOW + 9),
            id="one that is on its way delays all",
        ),
        pytest.param(
            {ref("a"): SLOW, ref("b"): BAD, ref("c"): GOOD},
            Summary(
                Health.UNHEALTHY,
                "Unhealthy",
                'Deployment "b": the Pod failed | Deployment "a": 1 of 2 replicas available',
                NOW + 9,
            ),
            id="the worst comes first",
        ),
        pytest.param(
            {ref("a"): SLOW, ref("b"): UNOBSERVED},
            Summary(
                Health.UNKNOWN,
                "Unknown",
                'Deployment "b": it could not be read | Deployment "a": 1 of 2 replicas available',
                NOW + 9,
            ),
            id="doubt outweighs a delay",
        ),
        pytest.param(
            {ref("a"): UNOBSERVED, ref("b"): MISSING},
            Summary(
                Health.UNHEALTHY,
                "Unhealthy",
                'Deployment "b": it is not in the cluster | Deployment "a": it could not be read',
            ),
            id="a fault outweighs doubt",
        ),
        pytest.param(
            {ref("web"): BAD, ref("web", namespace="other"): GOOD, ref("role", "ClusterRole", ""): BAD},
            Summary(
                Health.UNHEALTHY,
                "Unhealthy",
                'ClusterRole "role": the Pod failed | Deployment "shop/web": the Pod failed',
            ),
            id="in several namespaces the namespace is named",
        ),
    ],
)
def test_a_release_is_as_its_worst_object(verdicts, summary):
    assert summarise(verdicts) == summary


def test_five_culprits_are_named_and_the_others_counted():
    many = {ref(f"web-{n}"): SLOW for n in range(4)} | {ref(f"db-{n}"): BAD for n in range(3)}

    message = summarise(many).message

    assert [part.partition(":")[0] for part in message.split(" | ")] == [
        'Deployment "db-0"',
        'Deployment "db-1"',
        'Deployment "db-2"',
        'Deployment "web-0"',
        'Deployment "web-1"',
        "and 2 more objects",
    ]
    assert summarise(dict(reversed(many.items()))).message == message
    assert summarise(dict(list(many.items())[:6])).message.endswith("| and 1 more object")
    assert " more " not in summarise(dict(list(many.items())[:5])).message


def test_five_notes_are_told_and_the_others_counted():
    paused = Verdict(Health.HEALTHY, "Paused", "its roll-out is paused")

    message = summarise({ref(f"web-{n}"): paused for n in range(7)}).message

    assert message.startswith('all 7 objects are healthy | Deployment "web-0": its roll-out is paused | ')
    assert message.endswith("| and 2 more notes")


def test_the_summary_fits_into_a_condition_with_its_count():
    long = Verdict(Health.UNHEALTHY, "PodFailed", "ä" * 5000)

    message = summarise({ref(f"web-{n}"): long for n in range(9)}).message

    assert len(message.encode()) <= 4096
    assert message.endswith("and 4 more objects")


def test_the_summary_is_due_when_the_first_verdict_is():
    later = Verdict(Health.PROGRESSING, "A", "a", recheck_at=NOW + 99)

    assert summarise({ref("a"): later, ref("b"): SLOW, ref("c"): BAD}).recheck_at == NOW + 9


@pytest.mark.parametrize(
    ("api", "kind"),
    [
        ("v1", "ServiceAccount"),
        ("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy"),
        ("apiextensions.k8s.io/v1", "NewKind"),
        ("apiregistration.k8s.io/v1", "NewKind"),
        ("apps/v1", "ControllerRevision"),
        ("authentication.k8s.io/v1", "TokenReview"),
        ("authorization.k8s.io/v1", "SubjectAccessReview"),
        ("autoscaling/v2", "Scale"),
        ("batch/v1", "NewKind"),
        ("certificates.k8s.io/v1", "CertificateSigningRequest"),
        ("coordination.k8s.io/v1", "Lease"),
        ("discovery.k8s.io/v1", "EndpointSlice"),
        ("events.k8s.io/v1", "Event"),
        ("extensions/v1beta1", "OldKind"),
        ("internal.apiserver.k8s.io/v1alpha1", "StorageVersion"),
        ("flowcontrol.apiserver.k8s.io/v1", "FlowSchema"),
        ("networking.k8s.io/v1", "NetworkPolicy"),
        ("node.k8s.io/v1", "RuntimeClass"),
        ("policy/v1", "Eviction"),
        ("rbac.authorization.k8s.io/v1", "ClusterRole"),
        ("resource.k8s.io/v1", "DeviceClass"),
        ("scheduling.k8s.io/v1", "PriorityClass"),
        ("storage.k8s.io/v1", "StorageClass"),
        ("storagemigration.k8s.io/v1beta1", "StorageVersionMigration"),
    ],
)
def test_a_kind_that_is_built_in_is_not_waited_for(api, kind):
    assert assess(obj(kind, api, creationTimestamp=ago(1)), now=NOW) == Verdict(Health.HEALTHY, "Healthy")


@pytest.mark.parametrize("type_", ["Failed", "Failure", "Error", "Degraded", "ReleaseFailed", "Irreconcilable"])
def test_an_abnormal_word_that_is_true_is_a_fault(type_):
    verdict = assess(custom([cond(type_, message="m")]), now=NOW)

    assert verdict == Verdict(Health.UNHEALTHY, type_, f"{type_}: m")


@pytest.mark.parametrize(
    "type_", ["Available", "Healthy", "Deployed", "Established", "Programmed", "Accepted", "Succeeded"]
)
def test_a_normal_word_that_is_not_true_is_a_wait(type_):
    assert assess(custom([cond(type_, "Unknown")]), now=NOW).health is Health.PROGRESSING
    assert assess(custom([cond(type_)]), now=NOW).health is Health.HEALTHY


@pytest.mark.parametrize("item", [None, 1, "Pod", [], {}, {"kind": 3}], ids=repr)
def test_what_is_no_object_cannot_be_judged(item):
    assert assess(item, now=NOW) == UNOBSERVED
