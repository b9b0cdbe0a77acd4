"""Any other kind, by the conditions that most controllers write.

Sources: cli-utils, pkg/kstatus/status/{generic,status}.go: Ready decides, else the object is current. Beyond
kstatus: a condition that speaks of an older generation does not count; Ready=False is a fault when its reason says so
or when it lasts; other words than Ready that are in wide use are read; a custom resource is not current before its
controller had a moment to speak.
"""

from __future__ import annotations

import re
from typing import Final

from helm_operator.health.fields import Condition, Subject, find, inside, mapping, number, sentence, text, word
from helm_operator.health.pods import PATIENCE
from helm_operator.health.verdict import Verdict, healthy, progressing, switching, unhealthy, unhealthy_from

SPEAKING: Final = 10.0
"""Seconds in which a controller writes its first status, if there is one at all."""

ABNORMAL: Final = ("Failed", "Failure", "Error", "Degraded", "ReleaseFailed", "Irreconcilable")
"""Types that are True when something is wrong; the last two are operator-sdk's."""

NORMAL: Final = ("Available", "Healthy", "Deployed", "Established", "Programmed", "Accepted", "Succeeded")
"""Types that are True when all is well, of controllers without Ready; each one that is there must hold."""

_FAULT: Final = re.compile(r"Fail|Error|Err[A-Z]|Invalid|Denied|Forbidden|Exceeded|Unauthorized|Degraded|Unhealthy")
"""A reason that tells of a fault and not of a wait."""

_BUILT_IN: Final = frozenset(
    {
        "",
        "admissionregistration.k8s.io",
        "apiextensions.k8s.io",
        "apiregistration.k8s.io",
        "apps",
        "authentication.k8s.io",
        "authorization.k8s.io",
        "autoscaling",
        "batch",
        "certificates.k8s.io",
        "coordination.k8s.io",
        "discovery.k8s.io",
        "events.k8s.io",
        "extensions",
        "flowcontrol.apiserver.k8s.io",
        "internal.apiserver.k8s.io",
        "networking.k8s.io",
        "node.k8s.io",
        "policy",
        "rbac.authorization.k8s.io",
        "resource.k8s.io",
        "scheduling.k8s.io",
        "storage.k8s.io",
        "storagemigration.k8s.io",
    }
)
"""Groups that the API server itself serves: their objects without a status need none."""


def generic(subject: Subject) -> Verdict:
    """Judge an object of a kind that has no rule of its own."""
    ready, conditions = _ready(subject), subject.conditions
    if ready and ready.status == "True":
        return _normal(subject, ready)
    for type_ in ABNORMAL:
        found = find(conditions, type_)
        if found and found.status == "True":
            return unhealthy(word(found.reason, type_), sentence(type_, found.told))
    if ready:
        return _normal(subject, ready)
    progress = find(conditions, "Progressing")
    if progress and progress.status == "True" and progress.reason != "NewReplicaSetAvailable":
        return progressing("Progressing", sentence("Progressing", progress.told))
    verdicts = [_normal(subject, found) for type_ in NORMAL if (found := find(conditions, type_))]
    if verdicts:
        return max(verdicts, key=lambda verdict: verdict.health.severity)
    phase = text(subject.status("phase"))
    if phase in {"Failed", "Error"}:
        return unhealthy(phase, sentence(f"its phase is {phase}", text(subject.status("message"))))
    return _without_words(subject)


def _ready(subject: Subject) -> Condition | None:
    conditions = subject.conditions
    ready = find(conditions, "Ready")
    if ready and ready.status in {"True", "False", "Unknown"}:
        return ready
    not_ready = find(conditions, "NotReady")  # Strimzi's way to say Ready=False
    if not_ready and not_ready.status == "True":
        return Condition("Ready", "False", not_ready.reason, not_ready.message, not_ready.since, None)
    return None


def _normal(subject: Subject, condition: Condition) -> Verdict:
    generation = number(inside(subject.item, "metadata", "generation"), -1)
    observed = condition.observed_generation
    if observed is not None and 0 <= observed < generation and subject.has_status is not False:
        return progressing("GenerationNotObserved", f"{condition.type} speaks of an older generation")
    if condition.status == "True":
        return healthy()
    lacks = sentence(f"{condition.type} is {condition.status or 'not set'}", condition.told)
    reason = word(condition.reason, f"Not{condition.type}")
    if condition.status != "False":
        return progressing(reason, lacks)
    if _FAULT.search(condition.reason) or condition.type == "Succeeded":  # the latter is False at the end only
        return unhealthy(reason, lacks)
    since = None if condition.since is None else condition.since + PATIENCE
    return unhealthy_from(since, subject.now, reason, lacks)


def _without_words(subject: Subject) -> Verdict:
    if subject.group in _BUILT_IN or subject.has_status is False or mapping(subject.item.get("status")):
        return healthy()
    deadline = subject.created_plus(SPEAKING)
    if deadline is None:
        return healthy("NoStatus")
    # Many kinds never have a status (a ServiceMonitor), so silence may delay, but not for long.
    wait = progressing("NotObserved", "no controller has written a status yet")
    return switching(deadline, subject.now, wait, healthy("NoStatus"))
