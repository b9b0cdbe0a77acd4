"""How a pass looks at releases: from memory, at the API server, and into the payload of a revision."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from helm_operator import status
from helm_operator.errors import RetryableError
from helm_operator.helm import decode_release, redact, secret_strings, sensitive_strings
from helm_operator.kube import Kube
from helm_operator.reconciler.passes import Pass
from helm_operator.release import Json, ReleaseContent
from helm_operator.repair import inventory_of
from helm_operator.report import Reporter
from helm_operator.watchers import Dependents, ReleaseCache


class Sight:
    """Fills in what a pass sees."""

    def __init__(self, kube: Kube, releases: ReleaseCache, dependents: Dependents, reporter: Reporter) -> None:
        self._kube = kube
        self._releases = releases
        self._dependents = dependents
        self._reporter = reporter

    def known_status(self, p: Pass) -> Json:
        """Return the newest status of the custom resource."""
        return self._reporter.known_status(p.key, p.resource)

    async def observe(self, p: Pass) -> None:
        if not self._releases.knows(p.release.namespace):
            await self.look(p)
            return
        p.outcome.records = self._releases.records(p.release)
        p.outcome.looked = True
        self._note_owner(p)

    async def look(self, p: Pass) -> None:
        p.outcome.looked = False
        records, version = await self._kube.release_records(p.release)
        self._releases.observe(p.release, records, version)
        p.outcome.records, p.outcome.looked, p.fresh = records, True, True
        self._note_owner(p)

    def _note_owner(self, p: Pass) -> None:
        p.outcome.owned = not p.outcome.records or p.outcome.records[0].owner_uid == p.resource.uid

    async def read(self, p: Pass, revision: int) -> ReleaseContent:
        """Read a revision's payload; its texts are redacted, and its secrets noted."""
        payload = await self._kube.release_payload(p.release, revision)
        try:
            content = await asyncio.to_thread(decode_release, payload)
        except ValueError as error:
            raise RetryableError(
                f"revision {revision} of release {p.release.name} cannot be read: {error}. Delete its Secret to have "
                "the release made anew; the pass is tried again with growing pauses",
                reason="ReconcileError",
            ) from error
        p.secrets |= secret_strings(content.objects) | sensitive_strings(content.values)
        deployed = status.deployed_record(p.outcome.records)
        if deployed is not None and deployed.revision == revision:
            notes = redact(content.notes, p.secrets)
            p.outcome.content = content = replace(content, notes=notes)
            p.outcome.inventory = await inventory_of(self._kube, content, p.release)
            if p.kind.watch.watch_dependent_resources:
                self._dependents.ensure_watched(p.outcome.inventory)
        return content
