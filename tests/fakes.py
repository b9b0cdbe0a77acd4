"""Helm in memory: it writes release records as Helm does, and fails where it does not know what Helm would do."""

import asyncio
import base64
import copy
import gzip
import json
from dataclasses import dataclass, field

from helm_operator.errors import HelmError, HelmErrorKind
from helm_operator.helm import kept
from helm_operator.release import INPUT_LABEL, OWNER_LABEL, ObjectRef, ReleaseRecord, ReleaseStatus


@dataclass
class Revision:
    """One release Secret."""

    number: int
    status: ReleaseStatus
    labels: dict
    chart: object
    values: dict
    objects: list
    description: str = ""
    notes: str = ""
    changed_at: float = 0.0
    resource_version: int = 0


@dataclass
class ReleaseStore:
    """The release Secrets of a cluster that is not there. `now` is the time of the next write."""

    now: float = 1_800_000_000.0
    _releases: dict = field(default_factory=dict)
    _version: int = 0

    def revisions(self, key):
        """Return the revisions, oldest first."""
        return self._releases.get(key, [])

    def write(self, key, revision):
        """Add a revision, or note that it changed."""
        self._version += 1
        revision.resource_version = self._version
        revision.changed_at = self.now
        history = self._releases.setdefault(key, [])
        if revision not in history:
            history.append(revision)

    def drop(self, key, number=None):
        """Delete the whole history, or one revision of it."""
        left = [] if number is None else [r for r in self.revisions(key) if r.number != number]
        if left:
            self._releases[key] = left
        else:
            self._releases.pop(key, None)

    def records(self, key):
        """Return what the metadata of the Secrets tells, newest first."""
        return tuple(
            ReleaseRecord(
                key=key,
                revision=revision.number,
                status=revision.status,
                owner_uid=revision.labels.get(OWNER_LABEL),
                input_digest=revision.labels.get(INPUT_LABEL),
                changed_at=revision.changed_at,
                resource_version=str(revision.resource_version),
            )
            for revision in reversed(self.revisions(key))
        )

    def payload(self, key, number):
        """Return `data.release` of a Secret. KeyError: there is no such revision."""
        found = [revision for revision in self.revisions(key) if revision.number == number]
        if not found:
            raise KeyError((key, number))
        return release_payload(found[0])


def release_payload(revision):
    """Return a revision in the form in which Helm stores it and the API gives it."""
    chart = revision.chart
    record = {
        "version": revision.number,
        "info": {
            "status": revision.status.value,
            "description": revision.description,
            "notes": revision.notes,
            "first_deployed": "2026-11-30T09:00:00Z",
            "last_deployed": "2026-11-30T10:00:00Z",
        },
        "chart": {"metadata": {"name": chart.name, "version": chart.version, "appVersion": chart.app_version}},
        "config": revision.values,
        "manifest": "".join(f"---\n# Source: chart\n{json.dumps(item)}\n" for item in revision.objects),
    }
    packed = gzip.compress(json.dumps(record).encode())
    return base64.b64encode(base64.b64encode(packed)).decode()


class FakeHelm:
    """The port `Helm` in memory.

    `charts` maps a chart's path to a function of (desired, upgrading) that returns the objects, or
    raises HelmError as Helm would while rendering. A path that is not in it is a chart that Helm
    cannot load. `cluster` maps ObjectRefs to the ReleaseKey that owns the object, None for nobody.

    What a test may set: `reachable`; `failures`, errors that the next actions end with once their
    record is written; `hold`, an asyncio.Event that actions wait for while their record is pending.
    `calls` are the names of the actions that were begun.
    """

    def __init__(self, store, charts):
        self.store = store
        self.charts = charts
        self.cluster = {}
        self.reachable = True
        self.failures = []
        self.hold = None
        self.calls = []

    field_manager = "helm"

    async def version(self):
        return "v4.3.1"

    async def install(self, desired):
        self._begin("install")
        chart = self._chart(desired)
        history = self.store.revisions(desired.key)
        if history:
            raise HelmError("cannot reuse a name that is still in use", kind=HelmErrorKind.NAME_IN_USE)
        objects = chart(desired, False)
        self._check_owners(desired.key, objects)
        await self._run(desired.key, self._revision(desired, 1, objects, ReleaseStatus.PENDING_INSTALL))

    async def upgrade(self, desired):
        self._begin("upgrade")
        chart = self._chart(desired)
        history = self.store.revisions(desired.key)
        self._check_upgradable(desired.key, history)
        objects = chart(desired, True)
        self._check_owners(desired.key, objects)
        number = history[-1].number + 1
        revision = self._revision(desired, number, objects, ReleaseStatus.PENDING_UPGRADE)
        revision.labels = history[-1].labels | revision.labels
        await self._run(desired.key, revision, history_max=desired.history_max)

    async def rollback(self, key, revision, *, timeout, history_max):
        self._begin("rollback")
        history = self.store.revisions(key)
        if not history:
            raise HelmError("the release does not exist", kind=HelmErrorKind.NOT_FOUND)
        target = next((old for old in history if old.number == revision), None)
        if target is None:
            raise HelmError(f"release has no {revision} version", kind=HelmErrorKind.OTHER)
        new = copy.deepcopy(target)
        new.number = history[-1].number + 1
        new.status = ReleaseStatus.PENDING_ROLLBACK
        new.description = f"Rollback to {revision}"
        await self._run(key, new, history_max=history_max)

    async def uninstall(self, key, *, timeout):
        self._begin("uninstall")
        history = self.store.revisions(key)
        if not history:
            raise HelmError(f'release "{key.name}" does not exist', kind=HelmErrorKind.NOT_FOUND)
        newest = history[-1]
        newest.status = ReleaseStatus.UNINSTALLING
        self.store.write(key, newest)
        await self._wait_or_fail()
        kept_objects = [item for item in newest.objects if kept(item)]
        for item in newest.objects:
            if item not in kept_objects:
                self.cluster.pop(_ref(item, key), None)
        self.store.drop(key)
        lines = [f"[{item['kind']}] {item['metadata']['name']}" for item in kept_objects]
        return "\n".join(["These resources were kept due to the resource policy:", *lines]) if lines else ""

    def _begin(self, action):
        self.calls.append(action)
        if not self.reachable:
            raise HelmError("kubernetes cluster unreachable: connection refused", kind=HelmErrorKind.UNREACHABLE)

    def _chart(self, desired):
        if desired.chart_path not in self.charts:
            raise HelmError(f'path "{desired.chart_path}" not found', kind=HelmErrorKind.CHART)
        return self.charts[desired.chart_path]

    def _check_upgradable(self, key, history):
        newest = history[-1].status if history else None
        if newest is not None and newest.pending:
            message = "another operation (install/upgrade/rollback) is in progress"
            raise HelmError(message, kind=HelmErrorKind.LOCKED)
        usable = newest in (ReleaseStatus.FAILED, ReleaseStatus.SUPERSEDED)
        if not usable and all(old.status is not ReleaseStatus.DEPLOYED for old in history):
            raise HelmError(f'"{key.name}" has no deployed releases', kind=HelmErrorKind.NOT_FOUND)

    def _check_owners(self, key, objects):
        for item in objects:
            ref = _ref(item, key)
            if self.cluster.get(ref, key) != key:
                raise HelmError(f"{ref} exists, and its ownership is not ours", kind=HelmErrorKind.OWNERSHIP)

    def _revision(self, desired, number, objects, status):
        return Revision(
            number=number,
            status=status,
            labels=dict(desired.labels),
            chart=desired.chart,
            values=copy.deepcopy(desired.values),
            objects=objects,
        )

    async def _run(self, key, revision, *, history_max=0):
        before = list(self.store.revisions(key))
        self.store.write(key, revision)
        try:
            await self._wait_or_fail()
        except (HelmError, asyncio.CancelledError) as error:
            revision.status = ReleaseStatus.FAILED
            revision.description = str(error) or "context canceled"
            self.store.write(key, revision)
            raise
        for item in revision.objects:
            self.cluster[_ref(item, key)] = key
        for old in before:
            if old.status is ReleaseStatus.DEPLOYED:
                old.status = ReleaseStatus.SUPERSEDED
                self.store.write(key, old)
        revision.status = ReleaseStatus.DEPLOYED
        self.store.write(key, revision)
        for old in self.store.revisions(key)[:-history_max] if history_max else []:
            self.store.drop(key, old.number)

    async def _wait_or_fail(self):
        if self.hold is not None:
            await self.hold.wait()
        await asyncio.sleep(0)
        if self.failures:
            raise self.failures.pop(0)


def _ref(item, key):
    meta = item["metadata"]
    return ObjectRef(item["apiVersion"], item["kind"], meta.get("namespace", key.namespace), meta["name"])
