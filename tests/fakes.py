"""Helm in memory: it writes release records as Helm does, and fails where it does not know what Helm would do."""

import asyncio
import base64
import copy
import gzip
import json
from dataclasses import dataclass, field

from helm_operator.errors import HelmError, HelmErrorKind
from helm_operator.helm import kept
from helm_operator.helm.sizes import ROOM, stored, too_large
from helm_operator.release import INPUT_LABEL, OWNER_LABEL, ObjectRef, ReleaseRecord, ReleaseStatus, UpgradeOptions


@dataclass
class Revision:
    """One release Secret."""

    number: int
    status: ReleaseStatus
    labels: dict
    chart: object
    values: dict
    objects: list
    hooks: list = field(default_factory=list)
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


@dataclass(frozen=True)
class _How:
    """How an action on a release is done."""

    action: str
    description: str
    force: bool = False
    force_conflicts: bool = False
    cleanup: bool = False
    hooks: bool = True
    history_max: int = 0


class FakeHelm:
    """The port `Helm` in memory.

    `charts` maps a chart's path to a function of (desired, upgrading) that returns the objects, or
    raises HelmError as Helm would while rendering. A path that is not in it is a chart that Helm
    cannot load. Objects with the annotation helm.sh/hook are made when their time comes, and stay.
    `cluster` maps ObjectRefs to the ReleaseKey that owns the object, None for nobody.

    What a test may set: `reachable`; `failures`, errors that the next actions end with once their
    record is written and their objects are made; `hold`, an asyncio.Event that actions wait for while
    their record is pending; `additions`, objects with something that others have set in them, and
    `conflicts`, objects with a field of the chart that another manager holds.
    `calls` are the names of the actions that were begun.
    """

    def __init__(self, store, charts):
        self.store = store
        self.charts = charts
        self.cluster = {}
        self.reachable = True
        self.failures = []
        self.hold = None
        self.additions = set()
        self.conflicts = set()
        self.calls = []

    field_manager = "helm"

    async def version(self):
        return "v4.3.1"

    async def check(self, options):
        if options.force_conflicts and not options.force and (await self.version()).startswith("v3."):
            raise HelmError("forceConflicts needs Helm 4", kind=HelmErrorKind.OTHER)

    async def install(self, desired):
        self._begin("install")
        await self.check(desired.upgrade)
        chart = self._chart(desired)
        history = self.store.revisions(desired.key)
        if history:
            raise HelmError("cannot reuse a name that is still in use", kind=HelmErrorKind.NAME_IN_USE)
        objects = chart(desired, False)
        self._check_owners(desired.key, objects)
        revision = self._revision(desired, 1, objects, ReleaseStatus.PENDING_INSTALL)
        how = _How(
            "install",
            description=desired.install.description or "Install complete",
            force_conflicts=desired.upgrade.force_conflicts,
            hooks=not desired.install.disable_hooks,
        )
        await self._run(desired.key, revision, how)

    async def upgrade(self, desired):
        self._begin("upgrade")
        await self.check(desired.upgrade)
        chart = self._chart(desired)
        history = self.store.revisions(desired.key)
        self._check_upgradable(desired.key, history)
        objects = chart(desired, True)
        self._check_owners(desired.key, objects)
        number = history[-1].number + 1
        revision = self._revision(desired, number, objects, ReleaseStatus.PENDING_UPGRADE)
        revision.labels = history[-1].labels | revision.labels
        how = _How(
            "upgrade",
            description=desired.upgrade.description or "Upgrade complete",
            force=desired.upgrade.force,
            force_conflicts=desired.upgrade.force_conflicts,
            cleanup=desired.upgrade.cleanup_on_fail,
            hooks=not desired.upgrade.disable_hooks,
            history_max=desired.history_max,
        )
        await self._run(desired.key, revision, how)

    async def rollback(
        self, key, revision, *, timeout, history_max, force=False, force_conflicts=False, disable_hooks=False
    ):
        self._begin("rollback")
        await self.check(UpgradeOptions(force=force, force_conflicts=force_conflicts))
        history = self.store.revisions(key)
        if not history:
            raise HelmError("the release does not exist", kind=HelmErrorKind.NOT_FOUND)
        target = next((old for old in history if old.number == revision), None)
        if target is None:
            raise HelmError(f"release has no {revision} version", kind=HelmErrorKind.OTHER)
        new = copy.deepcopy(target)
        new.number = history[-1].number + 1
        new.status = ReleaseStatus.PENDING_ROLLBACK
        how = _How(
            "rollback",
            description=f"Rollback to {revision}",
            force=force,
            force_conflicts=force_conflicts,
            hooks=not disable_hooks,
            history_max=history_max,
        )
        await self._run(key, new, how)

    async def uninstall(self, key, *, timeout, keep_history=False, disable_hooks=False, description=""):
        self._begin("uninstall")
        history = self.store.revisions(key)
        if not history:
            raise HelmError(f'release "{key.name}" does not exist', kind=HelmErrorKind.NOT_FOUND)
        newest = history[-1]
        if newest.status is ReleaseStatus.UNINSTALLED:
            if keep_history:
                raise HelmError(f'release "{key.name}" is uninstalled already', kind=HelmErrorKind.NOT_FOUND)
            self.store.drop(key)
            return ""
        newest.status = ReleaseStatus.UNINSTALLING
        self.store.write(key, newest)
        await self._wait_or_fail()
        self._run_hooks(key, newest, "delete", wanted=not disable_hooks)
        kept_objects = [item for item in newest.objects if kept(item)]
        for item in newest.objects:
            if item not in kept_objects:
                self.cluster.pop(_ref(item, key), None)
        if keep_history:
            newest.status, newest.description = ReleaseStatus.UNINSTALLED, description or "Uninstallation complete"
            self.store.write(key, newest)
        else:
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
        if stored(desired.bulk.packed) > ROOM:
            raise too_large(stored(desired.bulk.packed), desired.bulk, 0)
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
            objects=[item for item in objects if not _events(item)],
            hooks=[item for item in objects if _events(item)],
        )

    async def _run(self, key, revision, how):
        before, there = list(self.store.revisions(key)), set(self.cluster)
        self.store.write(key, revision)
        try:
            self._run_hooks(key, revision, how.action, wanted=how.hooks)
            self._apply(key, revision, how)
            await self._wait_or_fail()
        except (HelmError, asyncio.CancelledError) as error:
            revision.status = ReleaseStatus.FAILED
            revision.description = str(error) or "context canceled"
            self.store.write(key, revision)
            if how.cleanup:
                self.cluster = {ref: owner for ref, owner in self.cluster.items() if ref in there}
            raise
        for old in before:
            if old.status is ReleaseStatus.DEPLOYED:
                old.status = ReleaseStatus.SUPERSEDED
                self.store.write(key, old)
        revision.status, revision.description = ReleaseStatus.DEPLOYED, how.description
        self.store.write(key, revision)
        for old in self.store.revisions(key)[: -how.history_max] if how.history_max else []:
            self.store.drop(key, old.number)

    def _apply(self, key, revision, how):
        for item in revision.objects:
            ref = _ref(item, key)
            if how.force:
                self.additions.discard(ref)
            elif ref in self.conflicts and not how.force_conflicts:
                message = f'{ref}: Apply failed with 1 conflict: conflict with "somebody"'
                raise HelmError(message, kind=HelmErrorKind.FIELD_CONFLICT)
            self.conflicts.discard(ref)
            self.cluster[ref] = key

    def _run_hooks(self, key, revision, action, *, wanted):
        for item in revision.hooks if wanted else []:
            if _events(item) & {f"pre-{action}", f"post-{action}"}:
                self.cluster[_ref(item, key)] = key

    async def _wait_or_fail(self):
        if self.hold is not None:
            await self.hold.wait()
        await asyncio.sleep(0)
        if self.failures:
            raise self.failures.pop(0)


def _events(item):
    """Return the moments at which a hook is run; none where the object is no hook."""
    hook = item["metadata"].get("annotations", {}).get("helm.sh/hook", "")
    return {event.strip() for event in hook.split(",")} - {""}


def _ref(item, key):
    meta = item["metadata"]
    return ObjectRef(item["apiVersion"], item["kind"], meta.get("namespace", key.namespace), meta["name"])
