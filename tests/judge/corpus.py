"""Objects with the health that each has, and kstatus' word where ours differs from it on purpose."""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from helm_operator.health import Health

H, P, U, UNKNOWN = Health.HEALTHY, Health.PROGRESSING, Health.UNHEALTHY, Health.UNKNOWN

NOW = datetime(2025, 3, 1, 12, tzinfo=UTC).timestamp()
"""In the past for kstatus, which asks the real clock: its 15 s for the scheduler are over in all objects."""


@dataclass(frozen=True)
class Case:
    """One object. `kstatus` is empty where kstatus must agree."""

    says: str
    item: Any
    health: Health
    reason: str
    lacks: str = ""
    kstatus: str = ""
    why: str = ""
    given: dict[str, Any] = field(default_factory=dict)


def ago(seconds):
    return datetime.fromtimestamp(NOW - seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def obj(kind, api="v1", spec=None, status=None, **meta):
    body = {"apiVersion": api, "kind": kind, "metadata": {"name": "x", "creationTimestamp": ago(3600)} | meta}
    return body | ({} if spec is None else {"spec": spec}) | ({} if status is None else {"status": status})


def cond(type_, status="True", reason="", message="", since=None, **more):
    times = {} if since is None else {"lastTransitionTime": ago(since)}
    return {"type": type_, "status": status, "reason": reason, "message": message} | times | more


def deployment(spec=None, conditions=None, **counts):
    if conditions is None:
        conditions = [cond("Progressing", reason="NewReplicaSetAvailable"), cond("Available")]
    usual = {"replicas": 2, "updatedReplicas": 2, "readyReplicas": 2, "availableReplicas": 2, "observedGeneration": 3}
    status = usual | counts | {"conditions": conditions}
    return obj(
        "Deployment", "apps/v1", {"replicas": 2, "progressDeadlineSeconds": 600} | (spec or {}), status, generation=3
    )


def stateful(spec=None, **counts):
    status = {
        "replicas": 2,
        "readyReplicas": 2,
        "currentReplicas": 2,
        "updatedReplicas": 2,
        "currentRevision": "a",
        "updateRevision": "a",
    }
    update = {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}}
    return obj("StatefulSet", "apps/v1", {"replicas": 2} | update | (spec or {}), status | counts)


def daemon(spec=None, **counts):
    status = {
        "observedGeneration": 1,
        "desiredNumberScheduled": 3,
        "currentNumberScheduled": 3,
        "updatedNumberScheduled": 3,
        "numberAvailable": 3,
        "numberReady": 3,
    }
    return obj("DaemonSet", "apps/v1", spec or {}, status | counts, generation=1)


def replica_set(kind="ReplicaSet", api="apps/v1", conditions=(), **counts):
    status = {"replicas": 2, "fullyLabeledReplicas": 2, "readyReplicas": 2, "availableReplicas": 2}
    return obj(kind, api, {"replicas": 2}, status | counts | {"conditions": list(conditions)})


def job(spec=None, conditions=(), **status):
    return obj("Job", "batch/v1", spec or {}, {"startTime": ago(60), "conditions": list(conditions)} | status)


def pod(phase="Running", conditions=(), containers=(), init=(), spec=None, age=3600, more=None, **meta):
    status = {"phase": phase, "conditions": list(conditions), "containerStatuses": list(containers)} | (more or {})
    if init:
        status["initContainerStatuses"] = list(init)
    return obj("Pod", "v1", spec or {}, status, **({"creationTimestamp": ago(age)} | meta))


def box(state, last=None, restarts=0, name="c", ready=False, image="registry.example.com/web:1"):
    """Return a container's status."""
    last_state = {"terminated": last} if last else {}
    return {
        "name": name,
        "image": image,
        "ready": ready,
        "restartCount": restarts,
        "state": state,
        "lastState": last_state,
    }


def waiting(reason, message=""):
    return {"waiting": {"reason": reason, "message": message}}


def running(seconds=60):
    return {"running": {"startedAt": ago(seconds)}}


def ended(code=1, reason="Error"):
    return {"exitCode": code, "reason": reason}


def warning(reason, message, age=10, **more):
    return {"type": "Warning", "reason": reason, "message": message, "lastTimestamp": ago(age)} | more


def custom(conditions=None, status=None, api="example.com/v1", kind="Widget", **meta):
    if conditions is not None:
        status = (status or {}) | {"conditions": conditions}
    return obj(kind, api, {}, status, **meta)


NOT_READY = cond("Ready", "False", "ContainersNotReady", "containers with unready status: [c]", since=60)
SCHEDULED = cond("PodScheduled")
CANNOT_SCHEDULE = cond("PodScheduled", "False", "Unschedulable", "0/3 nodes are available: 3 Insufficient cpu.")
LOOPS = box(waiting("CrashLoopBackOff", "back-off 40s restarting failed container"), ended(), restarts=4)
CANNOT_PULL = box(waiting("ImagePullBackOff", 'Back-off pulling image "x": ErrImagePull: not found'))
PROGRESSED = cond("Progressing", reason="NewReplicaSetAvailable")
ROLLING = [cond("Progressing", reason="ReplicaSetUpdated"), cond("Available")]

pulling_pod = pod("Pending", [SCHEDULED, NOT_READY], [CANNOT_PULL], name="web-1")
looping_pod = pod("Running", [NOT_READY], [LOOPS], name="web-2")
starting_pod = pod("Pending", [SCHEDULED], [box(waiting("ContainerCreating"))], age=5, name="web-3")
evicted_pod = pod("Failed", more={"reason": "Evicted", "message": "low on memory"}, age=900, name="web-0")

COMMON = [
    Case(
        "an object that is deleted is on its way out",
        deployment() | {"metadata": {"deletionTimestamp": ago(5)}},
        P,
        "Terminating",
        "it is being deleted",
    ),
    Case(
        "an object whose deletion hangs names its finalizers",
        obj("ConfigMap", deletionTimestamp=ago(3600), finalizers=["example.com/keep"]),
        U,
        "Terminating",
        "finalizers: example.com/keep",
        "Terminating",
        "what hangs for ten minutes needs a hand",
    ),
    Case(
        "a generation that its controller has not seen is on its way",
        deployment(observedGeneration=2),
        P,
        "GenerationNotObserved",
    ),
    Case(
        "a status from before a restore counts",
        deployment(observedGeneration=9),
        H,
        "Healthy",
        "",
        "InProgress",
        "a controller need not touch an object that was restored from a backup",
    ),
    Case("Reconciling is on its way", custom([cond("Reconciling", reason="Rolling"), cond("Ready")]), P, "Rolling"),
    Case(
        "Stalled does not work",
        custom([cond("Stalled", reason="BadSpec", message="no such size")]),
        U,
        "BadSpec",
        "no such size",
    ),
    Case("Reconciling before Stalled wins", custom([cond("Reconciling"), cond("Stalled")]), P, "Reconciling"),
    Case("Stalled before Reconciling wins", custom([cond("Stalled"), cond("Reconciling")]), U, "Stalled"),
    Case("Stalled=False means nothing", custom([cond("Stalled", "False"), cond("Ready")]), H, "Healthy"),
    Case("Stalled holds for kinds with a rule too", deployment(conditions=[cond("Stalled", reason="S")]), U, "S"),
    Case("a ConfigMap works by being there", obj("ConfigMap"), H, "Healthy"),
    Case("a Secret works by being there", obj("Secret"), H, "Healthy"),
    Case("a ServiceAccount works by being there", obj("ServiceAccount"), H, "Healthy"),
    Case(
        "a Role works by being there",
        obj("Role", "rbac.authorization.k8s.io/v1", creationTimestamp=ago(1)),
        H,
        "Healthy",
    ),
    Case("a Namespace works by being there", obj("Namespace", status={"phase": "Active"}), H, "Healthy"),
    Case(
        "a webhook configuration works by being there",
        obj("MutatingWebhookConfiguration", "admissionregistration.k8s.io/v1", creationTimestamp=ago(1)),
        H,
        "Healthy",
    ),
    Case(
        "an object without a kind cannot be judged",
        {"metadata": {}},
        UNKNOWN,
        "NotObserved",
        "",
        "Current",
        "what was not read is not known",
    ),
    Case("Reconciling=False means nothing", custom([cond("Reconciling", "False"), cond("Ready")]), H, "Healthy"),
    Case(
        "a custom resource that its controller has not seen is on its way",
        custom([cond("Ready")], {"observedGeneration": 1}, generation=2),
        P,
        "GenerationNotObserved",
    ),
    Case(
        "an object on its way out names all that hold it",
        obj("ConfigMap", deletionTimestamp=ago(5), finalizers=["a/x", "b/y"]),
        P,
        "Terminating",
        "it is being deleted; finalizers: a/x, b/y",
    ),
]

DEPLOYMENTS = [
    Case("a Deployment with all its replicas is healthy", deployment(), H, "Healthy"),
    Case(
        "a Deployment scaled to nothing is healthy",
        deployment({"replicas": 0}, replicas=0, updatedReplicas=0, readyReplicas=0, availableReplicas=0),
        H,
        "Healthy",
    ),
    Case("a Deployment lacks replicas", deployment(replicas=1), P, "CreatingPods", "1 of 2 replicas created"),
    Case(
        "a Deployment without a number wants one",
        deployment({"replicas": None}, replicas=0),
        P,
        "CreatingPods",
        "0 of 1 replica created",
    ),
    Case(
        "a Deployment lacks updates", deployment(updatedReplicas=1), P, "RolloutInProgress", "1 of 2 replicas updated"
    ),
    Case(
        "a Deployment has old Pods left", deployment(replicas=3), P, "RolloutInProgress", "1 old replica still to end"
    ),
    Case(
        "a Deployment rolls out and lacks availability",
        deployment(conditions=ROLLING, availableReplicas=1),
        P,
        "RolloutInProgress",
        "1 of 2 replicas available",
    ),
    Case(
        "a Deployment lacks readiness", deployment(readyReplicas=1), P, "ReplicasUnavailable", "1 of 2 replicas ready"
    ),
    Case(
        "a Deployment has not reported its new ReplicaSet",
        deployment(conditions=ROLLING),
        P,
        "RolloutInProgress",
        "the new ReplicaSet",
    ),
    Case(
        "a Deployment without a deadline needs no report",
        deployment({"progressDeadlineSeconds": None}, conditions=[cond("Available")]),
        H,
        "Healthy",
    ),
    Case(
        "a Deployment has not reported availability",
        deployment(conditions=[PROGRESSED]),
        P,
        "RolloutInProgress",
        "the Deployment is not yet",
    ),
    Case(
        "a Deployment over its deadline does not work",
        deployment(conditions=[cond("Progressing", "False", "ProgressDeadlineExceeded")], availableReplicas=0),
        U,
        "ProgressDeadlineExceeded",
        "0 of 2 replicas available",
    ),
    Case(
        "a paused Deployment that runs is healthy",
        deployment({"paused": True}, updatedReplicas=1),
        H,
        "Paused",
        "paused",
        "InProgress",
        "its owner wants it to wait",
    ),
    Case(
        "a paused Deployment without a Pod is healthy",
        deployment({"paused": True}, [], replicas=0, updatedReplicas=0, readyReplicas=0, availableReplicas=0),
        H,
        "Paused",
        "paused",
        "InProgress",
        "its owner wants it to wait",
    ),
    Case(
        "a paused Deployment whose Pods fail is not healthy",
        deployment({"paused": True}, availableReplicas=1),
        P,
        "ReplicasUnavailable",
        "1 of 2 replicas available",
    ),
    Case(
        "a Deployment against a quota does not work",
        deployment(
            conditions=[*ROLLING, cond("ReplicaFailure", reason="FailedCreate", message="exceeded quota: q")],
            replicas=1,
        ),
        U,
        "ReplicaFailure",
        "1 of 2 replicas created; FailedCreate: exceeded quota: q",
        "InProgress",
        "the quota will not grow by waiting",
    ),
    Case(
        "a Deployment with all replicas does not mind an old ReplicaFailure",
        deployment(conditions=[PROGRESSED, cond("Available"), cond("ReplicaFailure")]),
        H,
        "Healthy",
    ),
    Case(
        "a Deployment that broke down lately may come back",
        deployment(conditions=[PROGRESSED, cond("Available", "False", since=60)], availableReplicas=0),
        P,
        "ReplicasUnavailable",
        "0 of 2 replicas available",
    ),
    Case(
        "a Deployment that broke down for long does not work",
        deployment(conditions=[PROGRESSED, cond("Available", "False", since=601)], availableReplicas=0),
        U,
        "ReplicasUnavailable",
        "0 of 2 replicas available",
        "InProgress",
        "nobody keeps a deadline after a roll-out",
    ),
    Case(
        "a Deployment says why its Pod does not start",
        deployment(conditions=ROLLING, availableReplicas=1),
        U,
        "ImagePullBackOff",
        "1 of 2 replicas available; Pod web-1: container c: ImagePullBackOff: cannot pull image",
        "InProgress",
        "a Pod that cannot work is told before the deadline",
        {"pods": [pulling_pod]},
    ),
    Case(
        "a Deployment over its deadline says why",
        deployment(conditions=[cond("Progressing", "False", "ProgressDeadlineExceeded")], availableReplicas=0),
        U,
        "ImagePullBackOff",
        "not found",
        given={"pods": [pulling_pod]},
    ),
    Case(
        "the worst Pod of a Deployment speaks",
        deployment(conditions=ROLLING, availableReplicas=0),
        U,
        "CrashLoopBackOff",
        "Pod web-2",
        "InProgress",
        "a Pod that cannot work is told before the deadline",
        {"pods": [starting_pod, looping_pod]},
    ),
    Case(
        "a Pod that starts leaves its Deployment on its way",
        deployment(conditions=ROLLING, availableReplicas=1),
        P,
        "RolloutInProgress",
        "Pod web-3: the Pod is scheduled",
        given={"pods": [starting_pod]},
    ),
    Case("a healthy Deployment is not asked for its Pods", deployment(), H, "Healthy", given={"pods": [looping_pod]}),
    Case(
        "an old Pod that crashes does not spoil the upgrade that cures it",
        deployment(conditions=ROLLING, updatedReplicas=1),
        P,
        "RolloutInProgress",
        "Pod web-3",
        given={
            "pods": [
                looping_pod
                | {"metadata": {"name": "old", "creationTimestamp": ago(99), "labels": {"pod-template-hash": "a"}}},
                starting_pod
                | {"metadata": {"name": "web-3", "creationTimestamp": ago(9), "labels": {"pod-template-hash": "b"}}},
            ]
        },
    ),
    Case(
        "an evicted Pod that was replaced is only a trace",
        deployment(availableReplicas=1),
        P,
        "ReplicasUnavailable",
        "Pod web-3",
        given={"pods": [evicted_pod, starting_pod]},
    ),
    Case(
        "an evicted Pod without a successor is the fault",
        deployment(availableReplicas=1),
        U,
        "PodFailed",
        "Pod web-0: the Pod failed: Evicted: low on memory",
        "InProgress",
        "kstatus' reader for ReplicaSets says so",
        {"pods": [evicted_pod]},
    ),
    Case(
        "a Deployment with the highest number for its deadline has none",
        deployment({"progressDeadlineSeconds": 2147483647}, conditions=[cond("Available")]),
        H,
        "Healthy",
    ),
    Case(
        "a Deployment whose arrival is in doubt is on its way",
        deployment(conditions=[cond("Progressing", "Unknown", "NewReplicaSetAvailable"), cond("Available")]),
        P,
        "RolloutInProgress",
    ),
    Case(
        "a Deployment that says it is not available is on its way",
        deployment(conditions=[PROGRESSED, cond("Available", "False")]),
        P,
        "RolloutInProgress",
    ),
    Case(
        "a Deployment with enough replicas for its own taste is on its way to all",
        deployment(conditions=[PROGRESSED, cond("Available", since=9999)], availableReplicas=1),
        P,
        "ReplicasUnavailable",
    ),
    Case(
        "a Deployment that broke down is given its own patience",
        deployment(
            {"progressDeadlineSeconds": 60}, [PROGRESSED, cond("Available", "False", since=61)], availableReplicas=0
        ),
        U,
        "ReplicasUnavailable",
        "",
        "InProgress",
        "nobody keeps a deadline after a roll-out",
    ),
    Case(
        "a Deployment without a deadline that broke down is given the usual patience",
        deployment(
            {"progressDeadlineSeconds": None}, [PROGRESSED, cond("Available", "False", since=601)], availableReplicas=0
        ),
        U,
        "ReplicasUnavailable",
        "",
        "InProgress",
        "nobody keeps a deadline after a roll-out",
    ),
    Case(
        "a quota outweighs what a Pod says",
        deployment(conditions=[*ROLLING, cond("ReplicaFailure", message="quota")], replicas=1),
        U,
        "ReplicaFailure",
        "Pod web-1",
        "InProgress",
        "the quota will not grow by waiting",
        {"pods": [pulling_pod]},
    ),
    Case(
        "a Deployment over its deadline whose Pod starts stays so",
        deployment(conditions=[cond("Progressing", "False", "ProgressDeadlineExceeded")], availableReplicas=0),
        U,
        "ProgressDeadlineExceeded",
        "Pod web-3",
        given={"pods": [starting_pod]},
    ),
    Case(
        "a Deployment without a ReplicaFailure is on its way",
        deployment(conditions=[*ROLLING, cond("ReplicaFailure", "False")], replicas=1),
        P,
        "CreatingPods",
    ),
    Case(
        "a Pod that failed after all others started is the fault",
        deployment(availableReplicas=1),
        U,
        "PodFailed",
        "Pod web-4",
        "InProgress",
        "nothing has taken its place",
        {"pods": [starting_pod, pod("Failed", age=1, name="web-4")]},
    ),
]

STATEFUL_SETS = [
    Case("a StatefulSet with all its replicas is healthy", stateful(), H, "Healthy"),
    Case("a StatefulSet lacks replicas", stateful(replicas=1), P, "CreatingPods", "1 of 2 replicas created"),
    Case("a StatefulSet lacks readiness", stateful(readyReplicas=1), P, "RolloutInProgress", "1 of 2 replicas ready"),
    Case("a StatefulSet has Pods to end", stateful(replicas=3), P, "RolloutInProgress", "1 old replica"),
    Case("a StatefulSet lacks updates", stateful(updatedReplicas=1), P, "RolloutInProgress", "1 of 2 replicas updated"),
    Case(
        "a StatefulSet updates down to its partition and is done",
        stateful(
            {"updateStrategy": {"rollingUpdate": {"partition": 1}}},
            updatedReplicas=1,
            currentReplicas=1,
            updateRevision="b",
        ),
        H,
        "Healthy",
    ),
    Case(
        "a StatefulSet has not come down to its partition",
        stateful({"updateStrategy": {"rollingUpdate": {"partition": 1}}}, updatedReplicas=0),
        P,
        "RolloutInProgress",
        "0 of 1 replica updated",
    ),
    Case(
        "a StatefulSet with its partition above all replicas is done",
        stateful({"updateStrategy": {"rollingUpdate": {"partition": 5}}}, updatedReplicas=0),
        H,
        "Healthy",
    ),
    Case(
        "a StatefulSet without a partition lacks current Pods",
        stateful({"updateStrategy": {}}, currentReplicas=1),
        P,
        "RolloutInProgress",
        "1 of 2 replicas of the current revision",
    ),
    Case(
        "a StatefulSet without a partition has two revisions",
        stateful({"updateStrategy": {}}, updateRevision="b"),
        P,
        "RolloutInProgress",
        "the update has not come to its end",
    ),
    Case(
        "a StatefulSet under OnDelete does not wait for updates",
        stateful({"updateStrategy": {"type": "OnDelete"}}, updatedReplicas=0, updateRevision="b"),
        H,
        "Healthy",
    ),
    Case(
        "a StatefulSet under OnDelete still needs its Pods",
        stateful({"updateStrategy": {"type": "OnDelete"}}, readyReplicas=0),
        P,
        "RolloutInProgress",
        "0 of 2 replicas ready",
        "Current",
        "OnDelete says when Pods are replaced, not whether they must work",
    ),
    Case(
        "a StatefulSet with minReadySeconds needs availability",
        stateful({"minReadySeconds": 9}, availableReplicas=1),
        P,
        "RolloutInProgress",
        "1 of 2 replicas available",
        "Current",
        "its author says how long a Pod must hold to count",
    ),
    Case(
        "a StatefulSet whose Pod crashes does not work",
        stateful(readyReplicas=1),
        U,
        "CrashLoopBackOff",
        "Pod web-2: container c",
        "InProgress",
        "a Pod that cannot work is told",
        {"pods": [looping_pod]},
    ),
    Case(
        "a StatefulSet that may not create Pods says why",
        stateful(replicas=0),
        U,
        "FailedCreate",
        "0 of 2 replicas created; exceeded quota: q",
        "InProgress",
        "only an Event tells it",
        {"warnings": [warning("FailedCreate", "exceeded quota: q")]},
    ),
    Case(
        "a StatefulSet that has all Pods by now does not mind an old FailedCreate",
        stateful(readyReplicas=1),
        P,
        "RolloutInProgress",
        given={"warnings": [warning("FailedCreate", "exceeded quota: q")]},
    ),
    Case(
        "a StatefulSet without a number wants one",
        stateful({"replicas": None}, replicas=0),
        P,
        "CreatingPods",
        "0 of 1 replica created",
    ),
    Case(
        "a StatefulSet without a partition that has arrived is healthy", stateful({"updateStrategy": {}}), H, "Healthy"
    ),
    Case(
        "a StatefulSet that lacks Pods is not failed by another warning",
        stateful(replicas=1),
        P,
        "CreatingPods",
        "Other: else",
        given={"warnings": [warning("Other", "else")]},
    ),
    Case(
        "a StatefulSet without a partition says first what it lacks",
        stateful({"updateStrategy": {}}, currentReplicas=1, updateRevision="b"),
        P,
        "RolloutInProgress",
        "1 of 2 replicas of the current revision",
    ),
]

DAEMON_SETS = [
    Case("a DaemonSet on all its nodes is healthy", daemon(), H, "Healthy"),
    Case(
        "a DaemonSet without nodes is healthy",
        daemon(
            desiredNumberScheduled=0,
            currentNumberScheduled=0,
            updatedNumberScheduled=0,
            numberAvailable=0,
            numberReady=0,
        ),
        H,
        "Healthy",
    ),
    Case(
        "a DaemonSet that nobody has looked at is on its way",
        obj("DaemonSet", "apps/v1", generation=1),
        P,
        "NotObserved",
    ),
    Case(
        "a DaemonSet without a count is on its way",
        daemon(desiredNumberScheduled=None),
        P,
        "NotObserved",
    ),
    Case(
        "a DaemonSet without a generation observed is on its way",
        daemon(observedGeneration=None),
        P,
        "NotObserved",
        "",
        "error",
        "kstatus takes null for a fault of its input",
    ),
    Case("a DaemonSet lacks Pods", daemon(currentNumberScheduled=2), P, "CreatingPods", "2 of 3 replicas created"),
    Case(
        "a DaemonSet lacks updates", daemon(updatedNumberScheduled=2), P, "RolloutInProgress", "2 of 3 replicas updated"
    ),
    Case(
        "a DaemonSet lacks availability",
        daemon(numberAvailable=1),
        P,
        "ReplicasUnavailable",
        "1 of 3 replicas available",
    ),
    Case("a DaemonSet lacks readiness", daemon(numberReady=1), P, "ReplicasUnavailable", "1 of 3 replicas ready"),
    Case(
        "a DaemonSet under OnDelete does not wait for updates",
        daemon({"updateStrategy": {"type": "OnDelete"}}, updatedNumberScheduled=0),
        H,
        "Healthy",
        "",
        "InProgress",
        "Pods are replaced when somebody deletes them, which may be never",
    ),
    Case(
        "a DaemonSet under OnDelete still needs its Pods",
        daemon({"updateStrategy": {"type": "OnDelete"}}, numberReady=0),
        P,
        "ReplicasUnavailable",
    ),
    Case(
        "a DaemonSet whose Pod cannot pull does not work",
        daemon(numberReady=2),
        U,
        "ImagePullBackOff",
        "Pod web-1",
        "InProgress",
        "a Pod that cannot work is told",
        {"pods": [pulling_pod]},
    ),
]

REPLICA_SETS = [
    Case("a ReplicaSet with all its replicas is healthy", replica_set(), H, "Healthy"),
    Case("a ReplicaSet lacks labels", replica_set(fullyLabeledReplicas=1), P, "RolloutInProgress", "labelled"),
    Case(
        "a ReplicaSet lacks availability",
        replica_set(availableReplicas=1),
        P,
        "ReplicasUnavailable",
        "1 of 2 replicas available",
    ),
    Case("a ReplicaSet lacks readiness", replica_set(readyReplicas=1), P, "ReplicasUnavailable", "ready"),
    Case("a ReplicaSet has Pods to end", replica_set(replicas=3), P, "RolloutInProgress", "1 old replica"),
    Case(
        "a ReplicaSet against a quota does not work",
        replica_set(replicas=0, conditions=[cond("ReplicaFailure", reason="FailedCreate", message="quota")]),
        U,
        "ReplicaFailure",
        "quota",
        "InProgress",
        "the quota will not grow by waiting",
    ),
    Case(
        "a ReplicationController is judged like a ReplicaSet",
        replica_set("ReplicationController", "v1", availableReplicas=1),
        P,
        "ReplicasUnavailable",
        "",
        "Current",
        "kstatus has no rule for it",
    ),
    Case(
        "a ReplicaSet lacks replicas",
        replica_set(replicas=1, fullyLabeledReplicas=1),
        P,
        "CreatingPods",
        "1 of 2 replicas created",
    ),
    Case(
        "a ReplicaSet without a number wants one",
        replica_set(fullyLabeledReplicas=1, availableReplicas=1, readyReplicas=1, replicas=1) | {"spec": {}},
        H,
        "Healthy",
    ),
]

JOBS = [
    Case("a complete Job is healthy", job(conditions=[cond("Complete")], succeeded=1), H, "JobCompleted"),
    Case(
        "a failed Job does not work",
        job(conditions=[cond("Failed", reason="BackoffLimitExceeded", message="limit reached")]),
        U,
        "JobFailed",
        "the Job failed: BackoffLimitExceeded: limit reached",
    ),
    Case(
        "a Job that is about to fail does not work",
        job(conditions=[cond("FailureTarget", reason="PodFailurePolicy")]),
        U,
        "JobFailed",
        "PodFailurePolicy",
        "Current",
        "its fate is sealed",
    ),
    Case("a Job that has not started is on its way", obj("Job", "batch/v1", {}), P, "JobNotStarted"),
    Case(
        "a Job that runs is on its way",
        job({"completions": 3}, active=1, succeeded=1, failed=2),
        P,
        "JobRunning",
        "1 of 3 completions, 2 Pods failed",
        "Current",
        "Helm and Flux wait for Jobs; what it is for is not yet done",
    ),
    Case(
        "a Job without a Pod is on its way",
        job(),
        P,
        "CreatingPods",
        "0 of 1 completion, and no Pod yet",
        "Current",
        "Helm and Flux wait for Jobs; what it is for is not yet done",
    ),
    Case(
        "a Job that may not create Pods says why",
        job(),
        U,
        "FailedCreate",
        "forbidden",
        "Current",
        "Helm and Flux wait for Jobs; what it is for is not yet done",
        {"warnings": [warning("FailedCreate", "pods is forbidden")]},
    ),
    Case(
        "a suspended Job is healthy",
        obj("Job", "batch/v1", {"suspend": True}),
        H,
        "Suspended",
        "suspended",
        "InProgress",
        "its owner wants it to wait",
    ),
    Case(
        "a Job whose Pod failed tries again",
        job(failed=1),
        P,
        "JobRunning",
        "1 Pod failed",
        "Current",
        "Helm and Flux wait for Jobs; what it is for is not yet done",
        {"pods": [evicted_pod]},
    ),
    Case(
        "a Job whose Pod cannot pull does not work",
        job(active=1),
        U,
        "ImagePullBackOff",
        "Pod web-1",
        "Current",
        "a Pod that cannot work is told",
        {"pods": [pulling_pod]},
    ),
    Case("a CronJob works by being there", obj("CronJob", "batch/v1", {"suspend": False}), H, "Healthy"),
    Case(
        "a suspended CronJob is healthy, with a note",
        obj("CronJob", "batch/v1", {"suspend": True}),
        H,
        "Suspended",
        "suspended",
    ),
    Case(
        "a Job that is neither complete nor failed is on its way",
        job(conditions=[cond("Complete", "False"), cond("Failed", "False")], active=1),
        P,
        "JobRunning",
        "0 of 1 completion",
        "Current",
        "Helm and Flux wait for Jobs; what it is for is not yet done",
    ),
    Case(
        "a Job between two Pods is on its way",
        job({"completions": 2}, succeeded=1),
        P,
        "JobRunning",
        "1 of 2 completions",
        "Current",
        "Helm and Flux wait for Jobs; what it is for is not yet done",
    ),
]

PODS = [
    Case("a ready Pod is healthy", pod("Running", [cond("Ready")], [box(running(), ready=True)]), H, "Healthy"),
    Case("a Pod that succeeded is healthy", pod("Succeeded"), H, "PodCompleted"),
    Case(
        "a Pod that failed does not work",
        pod("Failed", containers=[box({"terminated": ended(3)})]),
        U,
        "PodFailed",
        "the Pod failed; container c ended with exit code 3",
        "Current",
        "a failure is not current",
    ),
    Case(
        "an evicted Pod does not work",
        pod("Failed", more={"reason": "Evicted", "message": "low on memory"}),
        U,
        "PodFailed",
        "Evicted: low on memory",
        "Current",
        "a failure is not current",
    ),
    Case(
        "a Pod that runs and is not ready is on its way",
        pod("Running", [NOT_READY], [box(running())]),
        P,
        "PodNotReady",
        "containers with unready status: [c]",
    ),
    Case(
        "a Pod that is not ready for long does not work",
        pod("Running", [NOT_READY | {"lastTransitionTime": ago(601)}], [box(running(601))]),
        U,
        "PodNotReady",
        "is not ready",
        "InProgress",
        "waiting for ten minutes is failing",
    ),
    Case("a Pod that nobody has reported yet is on its way", pod("", age=5), P, "PodPending"),
    Case(
        "a Pod in a phase that nobody knows cannot be judged",
        pod("Unknown"),
        UNKNOWN,
        "NodeLost",
        "",
        "error",
        "kstatus has no word for it",
    ),
    Case(
        "a Pod that cannot be scheduled is given a moment",
        pod("Pending", [CANNOT_SCHEDULE], age=5),
        P,
        "Unschedulable",
        "Insufficient cpu",
        "Failed",
        "the same rule, but kstatus asks the real clock",
    ),
    Case(
        "a Pod that cannot be scheduled does not work",
        pod("Pending", [CANNOT_SCHEDULE], age=16),
        U,
        "Unschedulable",
        "0/3 nodes are available: 3 Insufficient cpu.",
    ),
    Case(
        "a Pod behind a scheduling gate waits by wish",
        pod("Pending", [cond("PodScheduled", "False", "SchedulingGated")]),
        P,
        "SchedulingGated",
    ),
    Case(
        "a Pod whose containers are being made is on its way",
        pod("Pending", [SCHEDULED], [box(waiting("ContainerCreating"))], age=60),
        P,
        "PodPending",
        "scheduled",
    ),
    Case(
        "a Pod whose containers are never made does not work",
        pod("Pending", [SCHEDULED], [box(waiting("ContainerCreating"))], age=601),
        U,
        "PodPending",
        "not up",
        "InProgress",
        "waiting for ten minutes is failing",
    ),
    Case(
        "a Pod whose init container runs is on its way, however long",
        pod("Pending", [SCHEDULED], [box(waiting("PodInitializing"))], [box(running(4000), name="migrate")]),
        P,
        "PodInitializing",
        "an init container runs",
    ),
    Case(
        "a Pod whose init container crashes does not work",
        pod(
            "Pending",
            [SCHEDULED],
            [box(waiting("PodInitializing"))],
            [box(waiting("CrashLoopBackOff"), ended(2), 3, "migrate")],
        ),
        U,
        "CrashLoopBackOff",
        "container migrate: CrashLoopBackOff, it ended with exit code 2",
        "InProgress",
        "kstatus does not read init containers",
    ),
    Case(
        "a Pod in a crash loop does not work, whatever the delay",
        looping_pod,
        U,
        "CrashLoopBackOff",
        "container c: CrashLoopBackOff, it ended with exit code 1",
    ),
    Case(
        "a Pod killed for its memory says so",
        pod("Running", [NOT_READY], [box(waiting("CrashLoopBackOff"), ended(137, "OOMKilled"), 3)]),
        U,
        "OOMKilled",
        "exit code 137 (OOMKilled)",
    ),
    Case(
        "a Pod between two crashes does not work",
        pod("Running", [NOT_READY], [box(running(20), ended(), 2)]),
        U,
        "CrashLoopBackOff",
        "exit code 1",
        "InProgress",
        "the verdict shall not flap with the container",
    ),
    Case(
        "a Pod that just ended and will be restarted is not waited for",
        pod("Running", [NOT_READY], [box({"terminated": ended()}, ended(), 1)]),
        U,
        "CrashLoopBackOff",
        "exit code 1",
        "InProgress",
        "the verdict shall not flap with the container",
    ),
    Case(
        "a Pod that crashed once may start well",
        pod("Running", [NOT_READY], [box(running(20), ended(), 1)]),
        P,
        "PodNotReady",
    ),
    Case(
        "a Pod that crashed long ago is judged by its readiness",
        pod("Running", [NOT_READY], [box(running(900), ended(), 9)]),
        P,
        "PodNotReady",
    ),
    Case(
        "a container that ended for the first time will be restarted",
        pod("Running", [NOT_READY], [box({"terminated": ended(2)})]),
        P,
        "ContainerFailed",
        "it will be restarted",
    ),
    Case(
        "a container that ended and is not restarted does not work",
        pod("Running", [NOT_READY], [box({"terminated": ended(2)})], spec={"restartPolicy": "Never"}),
        U,
        "ContainerFailed",
        "container c: ended with exit code 2",
        "InProgress",
        "nobody will start it again",
    ),
    Case(
        "a container that has done its work is no fault",
        pod("Running", [NOT_READY], [box({"terminated": ended(0, "Completed")}), box(running(), name="d")]),
        P,
        "PodNotReady",
    ),
    Case(
        "an image that cannot be pulled is given a moment",
        pod("Pending", [SCHEDULED], [box(waiting("ErrImagePull", "not found"))], age=29),
        P,
        "ImagePullBackOff",
        "not found",
    ),
    Case(
        "an image that cannot be pulled does not work",
        pod("Pending", [SCHEDULED], [box(waiting("ErrImagePull", "not found"))], age=31),
        U,
        "ImagePullBackOff",
        'container c: ImagePullBackOff: cannot pull image "registry.example.com/web:1": not found',
        "InProgress",
        "kstatus reads no word but CrashLoopBackOff",
    ),
    Case(
        "the back-off of a pull says the same as the pull",
        pulling_pod,
        U,
        "ImagePullBackOff",
        'container c: ImagePullBackOff: cannot pull image "registry.example.com/web:1": not found',
        "InProgress",
        "kstatus reads no word but CrashLoopBackOff",
    ),
    Case(
        "an init container's image counts too",
        pod("Pending", [SCHEDULED], [box(waiting("PodInitializing"))], [CANNOT_PULL | {"name": "init"}]),
        U,
        "ImagePullBackOff",
        "container init",
        "InProgress",
        "kstatus reads no word but CrashLoopBackOff",
    ),
    Case(
        "an image name that is none is hopeless at once",
        pod("Pending", [SCHEDULED], [box(waiting("InvalidImageName"))], age=1),
        U,
        "InvalidImageName",
        "",
        "InProgress",
        "no second attempt cures it",
    ),
    Case(
        "a missing Secret does not work",
        pod("Pending", [SCHEDULED], [box(waiting("CreateContainerConfigError", 'secret "s" not found'))]),
        U,
        "CreateContainerConfigError",
        'secret "s" not found',
        "InProgress",
        "kstatus reads no word but CrashLoopBackOff",
    ),
    Case(
        "a word that nobody knows counts as well",
        pod("Pending", [SCHEDULED], [box(waiting("RunContainerError"))]),
        U,
        "RunContainerError",
        "",
        "InProgress",
        "kstatus reads no word but CrashLoopBackOff",
    ),
    Case(
        "the worst container speaks",
        pod("Pending", [SCHEDULED], [box({"terminated": ended()}, name="a"), CANNOT_PULL]),
        U,
        "ImagePullBackOff",
        "",
        "InProgress",
        "kstatus reads no word but CrashLoopBackOff",
    ),
    Case(
        "a ready container beside one that is not is no fault",
        pod("Running", [NOT_READY], [box(running(20), ended(), 5, ready=True), box(running(), name="d")]),
        P,
        "PodNotReady",
    ),
    Case(
        "a container that is not restarted says how it ended",
        pod("Running", [NOT_READY], [box({"terminated": ended(137, "OOMKilled")})], spec={"restartPolicy": "Never"}),
        U,
        "OOMKilled",
        "container c: ended with exit code 137 (OOMKilled)",
        "InProgress",
        "nobody will start it again",
    ),
    Case(
        "a Pod that the scheduler fails on without a word does not work",
        pod("Pending", [cond("PodScheduled", "False")], age=16),
        U,
        "Unschedulable",
        "",
        "InProgress",
        "kstatus wants the very reason",
    ),
    Case(
        "the first container whose grace ends is looked at again",
        pod("Running", [NOT_READY], [box(running(20), ended(), 2), box(waiting("ErrImagePull"), name="d")], age=10),
        U,
        "CrashLoopBackOff",
        "container c",
        "InProgress",
        "the verdict shall not flap with the container",
    ),
]

OBJECTS = [
    Case("a Service needs nothing", obj("Service", spec={"type": "ClusterIP"}), H, "Healthy"),
    Case(
        "a load balancer without a cluster address is on its way",
        obj("Service", spec={"type": "LoadBalancer"}),
        P,
        "NoClusterIP",
    ),
    Case(
        "a load balancer need not have an address",
        obj("Service", spec={"type": "LoadBalancer", "clusterIP": "10.0.0.1"}),
        H,
        "Healthy",
    ),
    Case(
        "a load balancer must have an address if asked for",
        obj("Service", spec={"type": "LoadBalancer", "clusterIP": "10.0.0.1"}),
        P,
        "NoLoadBalancer",
        "",
        "Current",
        "by option",
        {"load_balancers": True},
    ),
    Case(
        "a load balancer with its address is healthy",
        obj(
            "Service",
            spec={"type": "LoadBalancer", "clusterIP": "10.0.0.1"},
            status={"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}},
        ),
        H,
        "Healthy",
        given={"load_balancers": True},
    ),
    Case("an Ingress needs nothing", obj("Ingress", "networking.k8s.io/v1"), H, "Healthy"),
    Case(
        "an Ingress must have an address if asked for",
        obj("Ingress", "networking.k8s.io/v1"),
        P,
        "NoLoadBalancer",
        "",
        "Current",
        "by option",
        {"load_balancers": True},
    ),
    Case("a bound claim is healthy", obj("PersistentVolumeClaim", status={"phase": "Bound"}), H, "Healthy"),
    Case(
        "a claim that has lost its volume does not work",
        obj("PersistentVolumeClaim", status={"phase": "Lost"}),
        U,
        "ClaimLost",
        "",
        "InProgress",
        "it does not come back",
    ),
    Case("a claim that nobody has looked at is on its way", obj("PersistentVolumeClaim"), P, "ClaimPending"),
    Case(
        "a new claim is on its way",
        obj("PersistentVolumeClaim", status={"phase": "Pending"}, creationTimestamp=ago(5)),
        P,
        "ClaimPending",
    ),
    Case(
        "a claim that no Pod uses may stay unbound",
        obj("PersistentVolumeClaim", status={"phase": "Pending"}),
        H,
        "AwaitsConsumer",
        "no Pod uses it",
        "InProgress",
        "under WaitForFirstConsumer it is never bound",
    ),
    Case(
        "a claim that a Pod waits for is on its way",
        obj("PersistentVolumeClaim", status={"phase": "Pending"}, creationTimestamp=ago(60)),
        P,
        "ClaimPending",
        given={"pods": [starting_pod]},
    ),
    Case(
        "a claim that a Pod waits for in vain does not work",
        obj("PersistentVolumeClaim", status={"phase": "Pending"}),
        U,
        "ClaimPending",
        "not bound",
        "InProgress",
        "waiting for ten minutes is failing",
        {"pods": [starting_pod]},
    ),
    Case(
        "a claim with a provisioner at work is on its way",
        obj(
            "PersistentVolumeClaim",
            status={"phase": "Pending"},
            creationTimestamp=ago(60),
            annotations={"volume.kubernetes.io/storage-provisioner": "csi.example.com"},
        ),
        P,
        "ClaimPending",
    ),
    Case(
        "a claim whose provisioner fails does not work",
        obj("PersistentVolumeClaim", status={"phase": "Pending"}),
        U,
        "ProvisioningFailed",
        "no space",
        "InProgress",
        "only an Event tells it",
        {"warnings": [warning("ProvisioningFailed", "no space")]},
    ),
    Case("a volume that is bound is healthy", obj("PersistentVolume", status={"phase": "Bound"}), H, "Healthy"),
    Case(
        "a volume that failed does not work",
        obj("PersistentVolume", status={"phase": "Failed", "message": "m"}),
        U,
        "VolumeFailed",
        "the volume failed: m",
        "Current",
        "kstatus has no rule for it",
    ),
    Case("a budget is healthy", obj("PodDisruptionBudget", "policy/v1"), H, "Healthy"),
    Case(
        "a budget with too few Pods is its workload's matter",
        obj(
            "PodDisruptionBudget",
            "policy/v1",
            status={"conditions": [cond("DisruptionAllowed", "False", "InsufficientPods")]},
        ),
        H,
        "Healthy",
    ),
    Case(
        "a budget that cannot be counted does not work",
        obj(
            "PodDisruptionBudget",
            "policy/v1",
            status={"conditions": [cond("DisruptionAllowed", "False", "SyncFailed", "no scale")]},
        ),
        U,
        "SyncFailed",
        "no scale",
        "Current",
        "newer than kstatus' rule",
    ),
    Case(
        "a budget that its controller has not seen is on its way",
        obj("PodDisruptionBudget", "policy/v1", status={"observedGeneration": 1}, generation=2),
        P,
        "GenerationNotObserved",
    ),
    Case(
        "a scaler that is active is healthy",
        obj(
            "HorizontalPodAutoscaler",
            "autoscaling/v2",
            status={"conditions": [cond("AbleToScale"), cond("ScalingActive")]},
        ),
        H,
        "Healthy",
    ),
    Case(
        "a scaler without metrics is a note",
        obj(
            "HorizontalPodAutoscaler",
            "autoscaling/v2",
            status={"conditions": [cond("ScalingActive", "False", "FailedGetResourceMetric", "no metrics")]},
        ),
        H,
        "ScalingInactive",
        "it does not scale: FailedGetResourceMetric: no metrics",
    ),
    Case(
        "a scaler of nothing is not even a note",
        obj(
            "HorizontalPodAutoscaler",
            "autoscaling/v2",
            status={"conditions": [cond("ScalingActive", "False", "ScalingDisabled")]},
        ),
        H,
        "Healthy",
    ),
    Case(
        "a scaler without its target does not work",
        obj(
            "HorizontalPodAutoscaler",
            "autoscaling/v2",
            status={"conditions": [cond("AbleToScale", "False", "FailedGetScale", "not found")]},
        ),
        U,
        "FailedGetScale",
        "not found",
        "Current",
        "kstatus has no rule for it",
    ),
    Case(
        "a definition that is served is healthy",
        obj(
            "CustomResourceDefinition",
            "apiextensions.k8s.io/v1",
            status={"conditions": [cond("NamesAccepted"), cond("Established")]},
        ),
        H,
        "Healthy",
    ),
    Case(
        "a definition that nobody has looked at is on its way",
        obj("CustomResourceDefinition", "apiextensions.k8s.io/v1"),
        P,
        "Installing",
    ),
    Case(
        "a definition that is being installed is on its way",
        obj(
            "CustomResourceDefinition",
            "apiextensions.k8s.io/v1",
            status={"conditions": [cond("Established", "False", "Installing")]},
        ),
        P,
        "Installing",
    ),
    Case(
        "a definition whose names are taken does not work",
        obj(
            "CustomResourceDefinition",
            "apiextensions.k8s.io/v1",
            status={"conditions": [cond("NamesAccepted", "False", "ListKindConflict", "taken")]},
        ),
        U,
        "ListKindConflict",
        "its names are refused: taken",
    ),
    Case(
        "a definition that is not established does not work",
        obj(
            "CustomResourceDefinition",
            "apiextensions.k8s.io/v1",
            status={"conditions": [cond("Established", "False", "NotAccepted")]},
        ),
        U,
        "NotAccepted",
    ),
    Case(
        "an API that answers is healthy",
        obj("APIService", "apiregistration.k8s.io/v1", status={"conditions": [cond("Available")]}),
        H,
        "Healthy",
    ),
    Case(
        "an API that nobody has asked is on its way",
        obj("APIService", "apiregistration.k8s.io/v1"),
        P,
        "NotObserved",
        "",
        "Current",
        "kstatus has no rule for it",
    ),
    Case(
        "an API that does not answer yet is on its way",
        obj(
            "APIService",
            "apiregistration.k8s.io/v1",
            status={"conditions": [cond("Available", "False", "MissingEndpoints", since=30)]},
        ),
        P,
        "MissingEndpoints",
        "it does not answer",
        "Current",
        "kstatus has no rule for it",
    ),
    Case(
        "an API that does not answer does not work",
        obj(
            "APIService",
            "apiregistration.k8s.io/v1",
            status={"conditions": [cond("Available", "False", "MissingEndpoints", "no endpoints", since=61)]},
        ),
        U,
        "MissingEndpoints",
        "no endpoints",
        "Current",
        "kstatus has no rule for it",
    ),
    Case(
        "a claim with a volume of its choice is on its way",
        obj("PersistentVolumeClaim", spec={"volumeName": "v"}, status={"phase": "Pending"}, creationTimestamp=ago(60)),
        P,
        "ClaimPending",
    ),
    Case(
        "a claim with a node chosen is on its way",
        obj(
            "PersistentVolumeClaim",
            status={"phase": "Pending"},
            creationTimestamp=ago(60),
            annotations={"volume.kubernetes.io/selected-node": "n"},
        ),
        P,
        "ClaimPending",
    ),
    Case(
        "a claim with a provisioner of old at work is on its way",
        obj(
            "PersistentVolumeClaim",
            status={"phase": "Pending"},
            creationTimestamp=ago(60),
            annotations={"volume.beta.kubernetes.io/storage-provisioner": "p"},
        ),
        P,
        "ClaimPending",
    ),
    Case(
        "a claim that no Pod uses does not mind another warning",
        obj("PersistentVolumeClaim", status={"phase": "Pending"}),
        H,
        "AwaitsConsumer",
        "",
        "InProgress",
        "under WaitForFirstConsumer it is never bound",
        {"warnings": [warning("Other", "else")]},
    ),
    Case(
        "a definition in doubt is on its way",
        obj(
            "CustomResourceDefinition",
            "apiextensions.k8s.io/v1",
            status={"conditions": [cond("Established", "Unknown")]},
        ),
        P,
        "Installing",
    ),
    Case(
        "a definition that does not say why its names are refused does not work",
        obj(
            "CustomResourceDefinition",
            "apiextensions.k8s.io/v1",
            status={"conditions": [cond("NamesAccepted", "False")]},
        ),
        U,
        "NamesNotAccepted",
    ),
    Case(
        "a definition that does not say why it is not served does not work",
        obj(
            "CustomResourceDefinition", "apiextensions.k8s.io/v1", status={"conditions": [cond("Established", "False")]}
        ),
        U,
        "NotEstablished",
    ),
    Case(
        "an API that does not answer after exactly a minute does not work",
        obj("APIService", "apiregistration.k8s.io/v1", status={"conditions": [cond("Available", "False", since=60)]}),
        U,
        "Unavailable",
        "",
        "Current",
        "kstatus has no rule for it",
    ),
    Case(
        "a claim without a date of birth is on its way",
        obj("PersistentVolumeClaim", status={"phase": "Pending"}, creationTimestamp=None),
        P,
        "ClaimPending",
    ),
]

CUSTOM = [
    Case("Ready=True is healthy", custom([cond("Ready")]), H, "Healthy"),
    Case(
        "Ready=True outweighs all other words",
        custom([cond("Degraded"), cond("Available", "False"), cond("Ready")]),
        H,
        "Healthy",
    ),
    Case(
        "Ready=False is on its way",
        custom([cond("Ready", "False", "Issuing", "asked the CA", since=5)]),
        P,
        "Issuing",
        "Ready is False: Issuing: asked the CA",
    ),
    Case(
        "Ready=Unknown is on its way", custom([cond("Ready", "Unknown", since=9999)]), P, "NotReady", "Ready is Unknown"
    ),
    Case(
        "Ready=False with a reason that is a fault does not work",
        custom([cond("Ready", "False", "BuildFailed", "boom", since=5)]),
        U,
        "BuildFailed",
        "boom",
        "InProgress",
        "the reason says so",
    ),
    Case(
        "Ready=False for long does not work",
        custom([cond("Ready", "False", "Issuing", since=601)]),
        U,
        "Issuing",
        "",
        "InProgress",
        "waiting for ten minutes is failing",
    ),
    Case(
        "Ready that speaks of an older generation does not count",
        custom([cond("Ready", observedGeneration=1)], generation=2),
        P,
        "GenerationNotObserved",
        "Ready speaks of an older generation",
        "Current",
        "the same rule, for controllers that write it per condition",
    ),
    Case(
        "Strimzi's NotReady is Ready=False",
        custom([cond("NotReady", reason="Creating", since=5)]),
        P,
        "Creating",
        "",
        "Current",
        "in wide use",
    ),
    Case("Available=True is healthy", custom([cond("Available")]), H, "Healthy"),
    Case(
        "Available=False is on its way",
        custom([cond("Available", "False", since=5)]),
        P,
        "NotAvailable",
        "",
        "Current",
        "in wide use",
    ),
    Case(
        "Available and Degraded does not work",
        custom([cond("Available"), cond("Degraded", reason="OneDown")]),
        U,
        "OneDown",
        "Degraded: OneDown",
        "Current",
        "in wide use",
    ),
    Case(
        "Available and Progressing is on its way",
        custom([cond("Available"), cond("Progressing")]),
        P,
        "Progressing",
        "",
        "Current",
        "in wide use",
    ),
    Case("Progressing that has arrived is healthy", custom([cond("Available"), PROGRESSED]), H, "Healthy"),
    Case(
        "one normal word that does not hold decides",
        custom([cond("Accepted"), cond("Programmed", "False", since=5)]),
        P,
        "NotProgrammed",
        "",
        "Current",
        "in wide use",
    ),
    Case(
        "Succeeded=False is the end",
        custom([cond("Succeeded", "False", "TaskRunTimeout")]),
        U,
        "TaskRunTimeout",
        "",
        "Current",
        "in wide use",
    ),
    Case("words that nobody knows mean nothing", custom([cond("Purple", "False")]), H, "Healthy"),
    Case(
        "a failed phase does not work",
        custom(status={"phase": "Failed", "message": "m"}),
        U,
        "Failed",
        "its phase is Failed: m",
        "Current",
        "in wide use",
    ),
    Case(
        "a new custom resource is given a moment",
        custom(creationTimestamp=ago(2)),
        P,
        "NotObserved",
        "",
        "Current",
        "kstatus takes it for current before its controller has seen it",
    ),
    Case(
        "a new custom resource with an empty status is given a moment",
        custom(status={}, creationTimestamp=ago(2)),
        P,
        "NotObserved",
        "",
        "Current",
        "kstatus takes it for current before its controller has seen it",
    ),
    Case(
        "a custom resource of an API that looks built in is one too",
        custom(api="gateway.networking.k8s.io/v1", creationTimestamp=ago(2)),
        P,
        "NotObserved",
        "",
        "Current",
        "kstatus takes it for current before its controller has seen it",
    ),
    Case("a custom resource that never has a status is healthy", custom(), H, "NoStatus"),
    Case(
        "a new custom resource without a status subresource is healthy",
        custom(creationTimestamp=ago(2)),
        H,
        "Healthy",
        given={"has_status": False},
    ),
    Case(
        "an older generation is natural without a status subresource",
        custom([cond("Ready", observedGeneration=1)], {"observedGeneration": 1}, generation=2),
        H,
        "Healthy",
        "",
        "InProgress",
        "each write of such a status is a new generation",
        {"has_status": False},
    ),
    Case(
        "our own resource is healthy when it is deployed and ready",
        custom(
            [
                cond("Ready", reason="Healthy"),
                cond("Deployed"),
                cond("ReleaseFailed", "False"),
                cond("Irreconcilable", "False"),
            ],
            {"observedGeneration": 2},
            generation=2,
        ),
        H,
        "Healthy",
    ),
    Case(
        "our own resource that rolls out is on its way",
        custom([cond("Ready", "False", "Progressing", since=5), cond("Deployed"), cond("Reconciling")]),
        P,
        "Reconciling",
    ),
    Case(
        "our own resource whose objects fail does not work",
        custom([cond("Ready", "False", "Unhealthy", 'Deployment "web": 0 of 1', since=5), cond("Deployed")]),
        U,
        "Unhealthy",
        'Deployment "web"',
        "InProgress",
        "the reason says so",
    ),
    Case(
        "our own resource whose first release failed does not work",
        custom(
            [
                cond("Ready", "False", "NotDeployed", since=5),
                cond("Deployed", "False", "InstallError"),
                cond("ReleaseFailed", reason="InstallError", message="boom"),
            ]
        ),
        U,
        "InstallError",
        "ReleaseFailed: InstallError: boom",
        "InProgress",
        "another condition says so",
    ),
    Case(
        "our own resource that is not deployed yet is on its way",
        custom([cond("Ready", "False", "NotDeployed", since=5), cond("Deployed", "False", "NotInstalled")]),
        P,
        "NotDeployed",
    ),
    Case(
        "operator-sdk's resource is healthy when it is deployed",
        custom([cond("Initialized"), cond("Deployed")]),
        H,
        "Healthy",
    ),
    Case(
        "operator-sdk's resource with a failed release does not work",
        custom([cond("Deployed"), cond("ReleaseFailed", reason="UpgradeError", message="boom")]),
        U,
        "UpgradeError",
        "boom",
        "Current",
        "in wide use",
    ),
    Case(
        "operator-sdk's resource that cannot be reconciled does not work",
        custom([cond("Deployed"), cond("Irreconcilable", reason="ReconcileError")]),
        U,
        "ReconcileError",
        "",
        "Current",
        "in wide use",
    ),
    Case(
        "Ready that speaks of this generation counts",
        custom([cond("Ready", observedGeneration=2)], generation=2),
        H,
        "Healthy",
    ),
    Case("Available and not Degraded is healthy", custom([cond("Available"), cond("Degraded", "False")]), H, "Healthy"),
    Case(
        "an erroneous phase does not work",
        custom(status={"phase": "Error"}),
        U,
        "Error",
        "its phase is Error",
        "Current",
        "in wide use",
    ),
    Case(
        "Strimzi's NotReady for long does not work",
        custom([cond("NotReady", reason="Creating", since=601)]),
        U,
        "Creating",
        "Ready is False",
        "Current",
        "in wide use",
    ),
    Case("a custom resource without a date of birth is healthy", custom(creationTimestamp=None), H, "NoStatus"),
    Case("Progressing=False means nothing", custom([cond("Available"), cond("Progressing", "False")]), H, "Healthy"),
    Case("NotReady=False means nothing", custom([cond("NotReady", "False")]), H, "Healthy"),
    Case("Ready that is neither means nothing", custom([cond("Ready", "Maybe")]), H, "Healthy"),
]

CASES = [
    *COMMON,
    *DEPLOYMENTS,
    *STATEFUL_SETS,
    *DAEMON_SETS,
    *REPLICA_SETS,
    *JOBS,
    *PODS,
    *OBJECTS,
    *CUSTOM,
]
