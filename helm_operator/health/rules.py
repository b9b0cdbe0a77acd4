"""From one live object to its verdict: rules for all kinds first, then the rule of the kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

from helm_operator.conditions import cut
from helm_operator.health import objects, workloads
from helm_operator.health.events import newest
from helm_operator.health.fields import Subject, inside, mappings, moment, number, sentence, text, word
from helm_operator.health.generic import generic
from helm_operator.health.pods import PATIENCE, pod
from helm_operator.health.verdict import UNOBSERVED, Health, Verdict, progressing, unhealthy, unhealthy_from
from helm_operator.release import Json

Rule = Callable[[Subject], Verdict]

MAX_MESSAGE: Final = 600
"""Bytes of a verdict's message: five of them and a count fit into a condition, and thousands into memory."""


def assess(
    item: Any,
    *,
    now: float,
    pods: Sequence[Json] = (),
    warnings: Sequence[Json] = (),
    load_balancers: bool = False,
    has_status: bool | None = None,
) -> Verdict:
    """Return the health of one live object of a release.

    Args:
        item: the object (`Json`) as the API server has it; whatever is in it, this does not raise.
        now: Unix time.
        pods: the Pods that belong to a workload, or that use a claim.
        warnings: Events about the object and about these Pods; those that are no warnings are passed over.
        load_balancers: whether Services and Ingresses need the address of a load balancer.
        has_status: whether the kind has a status subresource, as discovery says; None if that is not known.
    """
    if not isinstance(item, Mapping) or not text(item.get("kind")):
        return UNOBSERVED
    subject = Subject(item, now, tuple(mappings(pods)), tuple(mappings(warnings)), load_balancers, has_status)
    verdict = _for_all_kinds(subject) or _RULES.get((subject.group, subject.kind), generic)(subject)
    if verdict.health is not Health.HEALTHY:
        event = newest(subject.warnings)
        if event and not event.repeats(verdict.reason, verdict.message):
            verdict = replace(verdict, message=sentence(verdict.message, str(event), between="; "))
    return replace(verdict, message=cut(verdict.message, MAX_MESSAGE))


def _for_all_kinds(subject: Subject) -> Verdict | None:
    """Return what holds whatever the kind: deletion, an older generation, the conditions that kstatus coined.

    Source: cli-utils, pkg/kstatus/status/generic.go.
    """
    deleted = inside(subject.item, "metadata", "deletionTimestamp")
    if text(deleted):
        return _terminating(subject, moment(deleted))
    generation = number(inside(subject.item, "metadata", "generation"), -1)
    observed = number(subject.status("observedGeneration"), generation)
    # Without a status subresource each write of the status is a new generation, and none is ever observed. A higher
    # one than the object's is left from before it was restored from a backup; its controller may never touch it.
    if observed < generation and subject.has_status is not False:
        return progressing("GenerationNotObserved", "its controller has not looked at its newest generation yet")
    for condition in subject.conditions:
        if condition.type == "Reconciling" and condition.status == "True":
            return progressing(word(condition.reason, "Reconciling"), sentence("Reconciling", condition.told))
        if condition.type == "Stalled" and condition.status == "True":
            return unhealthy(word(condition.reason, "Stalled"), sentence("Stalled", condition.told))
    return None


def _terminating(subject: Subject, since: float | None) -> Verdict:
    finalizers = inside(subject.item, "metadata", "finalizers")
    names = [text(name) for name in finalizers] if isinstance(finalizers, list) else []
    holders = sentence("finalizers", ", ".join(name for name in names if name)) if any(names) else ""
    deadline = None if since is None else since + PATIENCE
    return unhealthy_from(deadline, subject.now, "Terminating", sentence("it is being deleted", holders, between="; "))


def _workload(rule: Callable[[Subject, workloads.JudgePod], Verdict]) -> Rule:
    def judge(subject: Subject) -> Verdict:
        return rule(subject, partial(_pod_of_a_workload, now=subject.now))

    return judge


def _pod_of_a_workload(item: Mapping[str, Any], now: float) -> Verdict:
    subject = Subject(item, now)
    return _for_all_kinds(subject) or pod(subject)


_RULES: Final[Mapping[tuple[str, str], Rule]] = {
    ("", "Pod"): pod,
    ("apps", "Deployment"): _workload(workloads.deployment),
    ("apps", "StatefulSet"): _workload(workloads.stateful_set),
    ("apps", "DaemonSet"): _workload(workloads.daemon_set),
    ("apps", "ReplicaSet"): _workload(workloads.replica_set),
    ("", "ReplicationController"): _workload(workloads.replica_set),
    ("batch", "Job"): _workload(workloads.job),
    ("batch", "CronJob"): _workload(workloads.cron_job),
    ("", "Service"): objects.service,
    ("networking.k8s.io", "Ingress"): objects.ingress,
    ("", "PersistentVolumeClaim"): objects.claim,
    ("", "PersistentVolume"): objects.volume,
    ("policy", "PodDisruptionBudget"): objects.disruption_budget,
    ("autoscaling", "HorizontalPodAutoscaler"): objects.autoscaler,
    ("apiextensions.k8s.io", "CustomResourceDefinition"): objects.definition,
    ("apiregistration.k8s.io", "APIService"): objects.api_service,
}
"""By group and kind; the version does not matter. Everything else goes by its conditions."""

_STATELESS: Final = frozenset(
    {
        ("", "ConfigMap"),
        ("", "Secret"),
        ("", "ServiceAccount"),
        ("", "LimitRange"),
        ("rbac.authorization.k8s.io", "Role"),
        ("rbac.authorization.k8s.io", "RoleBinding"),
        ("rbac.authorization.k8s.io", "ClusterRole"),
        ("rbac.authorization.k8s.io", "ClusterRoleBinding"),
        ("networking.k8s.io", "NetworkPolicy"),
        ("networking.k8s.io", "IngressClass"),
        ("scheduling.k8s.io", "PriorityClass"),
        ("storage.k8s.io", "StorageClass"),
        ("admissionregistration.k8s.io", "MutatingWebhookConfiguration"),
        ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"),
    }
)


def needs_metadata_only(api_version: str, kind: str) -> bool:
    """Return whether objects of a built-in kind have no status, so that their metadata tells their health."""
    return (api_version.rpartition("/")[0], kind) in _STATELESS
