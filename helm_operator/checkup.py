"""The health of a release's objects, with the Pods and warnings that explain what is wrong.

The verdicts come from the watches and cost nothing. Only where something is not healthy are
Pods and Events read, and not more often than every few seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from helm_operator.errors import ApiError
from helm_operator.health import MISSING, UNOBSERVED, Health, Summary, Verdict, assess, summarise
from helm_operator.kube import Kube
from helm_operator.release import Json, ObjectRef
from helm_operator.selectors import LabelSelector
from helm_operator.watchers import Coverage, Dependents

LOOK_SECONDS: Final = 10.0
"""Pause between two looks at the Pods of a release that is not healthy."""

_EXPLAINED: Final = 3
"""Objects of one release whose Pods and Events are read."""
_WARNED_PODS: Final = 2
_WORKLOADS: Final = frozenset({"Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "ReplicationController", "Job"})
_BEING_MADE: Final = Verdict(Health.PROGRESSING, "Missing", "it is not there yet")


class Checkup:
    """Tells how a release is."""

    def __init__(self, kube: Kube, dependents: Dependents, clock: Callable[[], float]) -> None:
        self._kube = kube
        self._dependents = dependents
        self._clock = clock

    def verdicts(
        self, refs: Iterable[ObjectRef], polled: Mapping[ObjectRef, Verdict]
    ) -> dict[ObjectRef, Verdict] | None:
        """Return the health of these objects from memory; None while a watch is only starting.

        `polled` has the verdicts on objects that no watch tells of.
        """
        found: dict[ObjectRef, Verdict] = {}
        for ref in refs:
            match self._dependents.coverage(ref):
                case Coverage.STARTING:
                    return None
                case Coverage.NOT_WATCHED:
                    found[ref] = polled.get(ref, UNOBSERVED)
                case Coverage.WATCHED:
                    verdict = self._dependents.health(ref)
                    found[ref] = _BEING_MADE if verdict is MISSING else verdict
        # A finished Job may be taken away as planned (ttlSecondsAfterFinished).
        return {ref: verdict for ref, verdict in found.items() if not (verdict is _BEING_MADE and ref.kind == "Job")}

    async def rejudge(self, verdicts: dict[ObjectRef, Verdict]) -> None:
        """Judge those objects anew whose verdict has had its time."""
        now = self._clock()
        due = [ref for ref, verdict in verdicts.items() if verdict.recheck_at is not None and verdict.recheck_at <= now]
        for ref in due:
            try:
                verdicts[ref] = self._dependents.rejudge(ref, await self._kube.get_object(ref))
            except ApiError:
                verdicts[ref] = replace(verdicts[ref], recheck_at=now + LOOK_SECONDS)

    async def explain(self, verdicts: dict[ObjectRef, Verdict]) -> Summary:
        """Return the summary, with what Pods and warnings say about the worst objects."""
        worst = sorted(
            (ref for ref, verdict in verdicts.items() if verdict.health is not Health.HEALTHY),
            key=lambda ref: (-verdicts[ref].health.severity, ref),
        )
        explained = dict(verdicts)
        for ref in worst[:_EXPLAINED]:
            try:
                explained[ref] = await self._look(ref)
            except ApiError:
                continue  # The verdict stands without its explanation.
        return summarise(explained)

    async def _look(self, ref: ObjectRef) -> Verdict:
        live = await self._kube.get_object(ref)
        pods = await self._pods(live, ref) if ref.kind in _WORKLOADS else []
        bad = [pod for pod in pods if assess(pod, now=self._clock()).health is not Health.HEALTHY]
        warnings: list[Json] = []
        for item in [live, *bad[:_WARNED_PODS]]:
            warnings += await self._warnings(item)
        return assess(live, now=self._clock(), pods=pods, warnings=warnings)

    async def _pods(self, live: Mapping[str, Any], ref: ObjectRef) -> list[Json]:
        spec = live.get("spec")
        selector = spec.get("selector") if isinstance(spec, Mapping) else None
        if not isinstance(selector, Mapping):
            return []
        if ref.kind == "ReplicationController":
            selector = {"matchLabels": selector}
        try:
            text = str(LabelSelector.from_mapping(selector))
        except ValueError:
            return []
        if not text:
            return []  # It would be all Pods of the namespace.
        query = {"labelSelector": text}
        items, _ = await self._kube.list(f"/api/v1/namespaces/{ref.namespace}/pods", query, metadata_only=False)
        return [{"apiVersion": "v1", "kind": "Pod", **item} for item in items]

    async def _warnings(self, item: Mapping[str, Any]) -> list[Json]:
        meta = item["metadata"]
        if not meta.get("namespace"):
            return []
        query = {"fieldSelector": f"type=Warning,involvedObject.uid={meta['uid']}"}
        items, _ = await self._kube.list(f"/api/v1/namespaces/{meta['namespace']}/events", query, metadata_only=False)
        return items
