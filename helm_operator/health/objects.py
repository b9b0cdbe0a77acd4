"""Objects that run nothing themselves: services, claims, definitions, budgets, scalers.

Sources: cli-utils, pkg/kstatus/status/core.go (Service, claim, budget, definition); for kinds without a rule there:
Kubernetes API reference (conditions of APIService and HorizontalPodAutoscaler, phases of PersistentVolume).
"""

from __future__ import annotations

from typing import Final

from helm_operator.health.events import newest
from helm_operator.health.fields import Condition, Subject, find, inside, mappings, sentence, text, word
from helm_operator.health.pods import PATIENCE, SCHEDULING
from helm_operator.health.verdict import Verdict, healthy, progressing, switching, unhealthy, unhealthy_from

SERVING: Final = 60.0
"""Seconds that the Pods behind an APIService may take before its absence is a fault."""


def service(subject: Subject) -> Verdict:
    """Judge a Service; whether it has endpoints is its Pods' matter."""
    if subject.spec("type") != "LoadBalancer":
        return healthy()
    if not text(subject.spec("clusterIP")):
        return progressing("NoClusterIP", "it has no cluster address yet")
    return _load_balancer(subject)


def ingress(subject: Subject) -> Verdict:
    """Judge an Ingress: without a class it is nobody's, so an address is asked for by wish only."""
    return _load_balancer(subject)


def _load_balancer(subject: Subject) -> Verdict:
    if subject.load_balancers and not mappings(subject.status("loadBalancer", "ingress")):
        return progressing("NoLoadBalancer", "no load balancer has given it an address yet")
    return healthy()


def claim(subject: Subject) -> Verdict:
    """Judge a PersistentVolumeClaim.

    Under `WaitForFirstConsumer` a claim that no Pod uses is never bound, and misses nothing. The class is not in
    the object, but a claim that is being worked on shows it: a Pod, a node or a provisioner has been chosen.
    """
    phase = text(subject.status("phase"))
    if phase == "Bound":
        return healthy()
    if phase == "Lost":
        return unhealthy("ClaimLost", "its volume is gone")
    event = newest(subject.warnings)
    if event and event.reason == "ProvisioningFailed":
        return unhealthy(event.reason, sentence("the claim is not bound", event.message))
    annotations = inside(subject.item, "metadata", "annotations")
    worked_on = (
        subject.pods
        or text(subject.spec("volumeName"))
        or any(
            text(inside(annotations, f"volume.{domain}/{name}"))
            for domain, name in (
                ("kubernetes.io", "selected-node"),
                ("kubernetes.io", "storage-provisioner"),
                ("beta.kubernetes.io", "storage-provisioner"),
            )
        )
    )
    deadline = subject.created_plus(PATIENCE if worked_on else SCHEDULING)
    if phase != "Pending" or worked_on or deadline is None:
        return unhealthy_from(deadline if worked_on else None, subject.now, "ClaimPending", "the claim is not bound")
    return switching(
        deadline,
        subject.now,
        progressing("ClaimPending", "the claim is not bound"),
        healthy("AwaitsConsumer", "the claim is not bound, and no Pod uses it"),
    )


def volume(subject: Subject) -> Verdict:
    """Judge a PersistentVolume."""
    if subject.status("phase") == "Failed":
        return unhealthy("VolumeFailed", sentence("the volume failed", text(subject.status("message"))))
    return healthy()


def disruption_budget(subject: Subject) -> Verdict:
    """Judge a PodDisruptionBudget: too few Pods are their workload's matter, a count that fails is its own."""
    allowed = find(subject.conditions, "DisruptionAllowed")
    if allowed and allowed.reason == "SyncFailed":
        return unhealthy("SyncFailed", sentence("disruptions cannot be counted", allowed.message))
    return healthy()


def autoscaler(subject: Subject) -> Verdict:
    """Judge a HorizontalPodAutoscaler.

    Without metrics it leaves the replicas as they are and its target works: a note, not a fault. (A cluster without
    a metrics server would else never be ready.) Without a target it does nothing at all.
    """
    able, active = find(subject.conditions, "AbleToScale"), find(subject.conditions, "ScalingActive")
    if able and able.status == "False":
        return unhealthy(word(able.reason, "UnableToScale"), sentence("it cannot scale its target", able.message))
    if active and active.status == "False" and active.reason != "ScalingDisabled":
        return healthy("ScalingInactive", sentence("it does not scale", active.told))
    return healthy()


def definition(subject: Subject) -> Verdict:
    """Judge a CustomResourceDefinition."""
    conditions = subject.conditions
    names, established = find(conditions, "NamesAccepted"), find(conditions, "Established")
    if names and names.status == "False":
        return unhealthy(word(names.reason, "NamesNotAccepted"), sentence("its names are refused", names.message))
    if established and established.status == "True":
        return healthy()
    if established and established.status == "False" and established.reason != "Installing":
        return unhealthy(word(established.reason, "NotEstablished"), sentence("it is not served", established.message))
    return progressing("Installing", "it is not served yet")


def api_service(subject: Subject) -> Verdict:
    """Judge an APIService."""
    available = find(subject.conditions, "Available")
    if available is None:
        return progressing("NotObserved", "nobody has looked yet whether it answers")
    if available.status == "True":
        return healthy()
    return unhealthy_from(
        _since(subject, available, SERVING),
        subject.now,
        word(available.reason, "Unavailable"),
        sentence("it does not answer", available.message),
    )


def _since(subject: Subject, condition: Condition, seconds: float) -> float | None:
    return subject.created_plus(seconds) if condition.since is None else condition.since + seconds
