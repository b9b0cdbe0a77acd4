"""The Helm actions, step by step. Each step returns whether to decide again."""

from __future__ import annotations

import asyncio
import itertools
import logging
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Final

from helm_operator import status
from helm_operator.annotations import RECONCILE, RESET
from helm_operator.backoff import retry_delay
from helm_operator.decision import Action, Attempt
from helm_operator.errors import Conflict, HelmError, HelmErrorKind
from helm_operator.helm import Helm, decode_release, mark_failed, redact, secret_strings, sensitive_strings
from helm_operator.kube import Kube
from helm_operator.reconciler.finalizers import Finalizers
from helm_operator.reconciler.passes import Overtaken, Pass, same_wish
from helm_operator.reconciler.sight import Sight
from helm_operator.release import (
    CustomResource,
    DesiredRelease,
    ReleaseContent,
    ReleaseRecord,
    ReleaseStatus,
    Remediation,
)
from helm_operator.removal import remove_leftovers
from helm_operator.repair import inventory_of
from helm_operator.settings import Settings
from helm_operator.values import describe_change
from helm_operator.watchers import ResourceCache, ResourceKey

logger = logging.getLogger(__name__)

_CONFLICTS: Final = "other field managers hold fields of the chart; they are taken over"


@dataclass(slots=True)
class _Running:
    """A Helm action under way, and the wish that it serves."""

    task: asyncio.Task[None]
    resource: CustomResource
    overtaken: bool = False


class Actions:
    """Installs, upgrades, recovers and uninstalls; one action of a custom resource at a time."""

    def __init__(
        self,
        *,
        sight: Sight,
        kube: Kube,
        helm: Helm,
        finalizers: Finalizers,
        resources: ResourceCache,
        made: Callable[[Pass], None],
        mend: Callable[[Pass, int], Awaitable[None]],
        settings: Settings,
        clock: Callable[[], float],
    ) -> None:
        """`made` is told when an action came to a good end; `mend` puts objects of a revision right before one."""
        self._sight = sight
        self._kube = kube
        self._helm = helm
        self._finalizers = finalizers
        self._resources = resources
        self._made = made
        self._mend = mend
        self._settings = settings
        self._clock = clock
        self.process = secrets.token_hex(4)
        """This operator process, as in ATTEMPT_LABEL."""
        self._attempts = itertools.count(1)
        self._running: dict[ResourceKey, _Running] = {}

    def notice(self, key: ResourceKey, resource: CustomResource | None) -> None:
        """Cancel a running action whose wish is no longer the newest one."""
        running = self._running.get(key)
        if running is None or (resource is not None and same_wish(running.resource, resource)):
            return
        running.overtaken = True
        running.task.cancel()

    async def install(self, p: Pass) -> bool:
        await self._finalizers.ensure(p)
        await self._run(p, Action.INSTALL, self._helm.install(self._marked(p)))
        if self._must_take_fields(p):
            await self._run(p, Action.INSTALL, self._helm.upgrade(self._marked(p, take_fields=True)), _CONFLICTS)
        await self._remedy_install(p)
        return False

    async def upgrade(self, p: Pass) -> bool:
        await self._finalizers.ensure(p)
        adopted = not p.outcome.owned
        because = p.decision.because if adopted else await self._what_changed(p)
        running = status.deployed_record(p.outcome.records)
        if running is not None and not adopted:
            await self._mend(p, running.revision)
            p.outcome.content = None  # It speaks of the revision that is about to be replaced.
        # Helm goes on from a failed first install by an upgrade; to everybody else it is still the install.
        action = Action.INSTALL if status.never_deployed(p.outcome.records) else Action.UPGRADE
        await self._run(p, action, self._helm.upgrade(self._marked(p)), because)
        if self._must_take_fields(p):
            await self._run(p, action, self._helm.upgrade(self._marked(p, take_fields=True)), _CONFLICTS)
        deployed = status.deployed_record(p.outcome.records)
        if action is Action.INSTALL:
            await self._remedy_install(p)
        elif self._left_a_failure(p) and p.wishes.upgrade.remediation is Remediation.ROLLBACK and deployed is not None:
            await self._remedy(p, f"roll-back to revision {deployed.revision}", self._rollback_call(p, deployed))
        if adopted and p.outcome.helm_error is None:
            p.outcome.adopted = {"token": p.release.name, "revision": p.outcome.records[0].revision}
        return False

    async def recover(self, p: Pass) -> bool:
        """End a half-done action; then the ordinary rules apply."""
        await self._finalizers.ensure(p)
        newest = p.outcome.records[0]
        if newest.status.pending and len(p.outcome.records) > 1:
            # What Helm does itself when it is asked to stop. The objects stay as they are.
            await self._mark_failed(p, newest)
            await self._sight.look(p)
            return True
        # A first install that never came to its end: only a new one runs all of its hooks.
        await self._run(p, Action.RECOVER, self._uninstall_call(p))
        return p.outcome.helm_error is None

    async def uninstall(self, p: Pass) -> bool:
        await self._take_inventory(p)
        await self._run(p, Action.UNINSTALL, self._uninstall_call(p))
        return p.outcome.helm_error is None

    async def finish(self, p: Pass) -> bool:
        """See that the objects are gone, then let the custom resource go."""
        await self._take_inventory(p)
        p.outcome.uninstalled = True
        waiting = await remove_leftovers(self._kube, p.outcome.inventory, p.release)
        p.outcome.waiting_for = tuple(waiting) if p.wishes.uninstall.wait else ()
        if not p.outcome.waiting_for:
            await self._finalizers.release(p)
        return False

    async def let_go(self, p: Pass) -> bool:
        await self._finalizers.release(p)
        return False

    def _marked(self, p: Pass, *, take_fields: bool = False) -> DesiredRelease:
        """Return what is desired, with the mark of this attempt."""
        attempt = f"{self.process}.{next(self._attempts)}"
        upgrade = replace(p.desired.upgrade, force_conflicts=True) if take_fields else p.desired.upgrade
        return replace(p.desired, attempt=attempt, upgrade=upgrade)

    def _must_take_fields(self, p: Pass) -> bool:
        """Whether Helm was refused over fields of other managers, and shall take them.

        The correction of drift would take them back as well, so an upgrade does not stop there.
        """
        error = p.outcome.helm_error
        if error is None or error.kind is not HelmErrorKind.FIELD_CONFLICT:
            return False
        return p.desired.upgrade.force_conflicts is None and bool(p.outcome.records)

    def _left_a_failure(self, p: Pass) -> bool:
        """Whether the action failed in a way that left a failed revision behind."""
        newest = p.outcome.records[0] if p.outcome.looked and p.outcome.records else None
        error = p.outcome.helm_error
        return (
            error is not None
            and error.kind is not HelmErrorKind.CANCELLED
            and p.outcome.owned
            and newest is not None
            and newest.status is ReleaseStatus.FAILED
        )

    async def _remedy_install(self, p: Pass) -> None:
        if self._left_a_failure(p) and p.wishes.install.remediation is Remediation.UNINSTALL:
            await self._remedy(p, "uninstall of the failed install", self._uninstall_call(p))

    async def _remedy(self, p: Pass, what: str, call: Awaitable[None]) -> None:
        """Undo a failed action. The failure stays what is told; that of the remedy comes behind it."""
        failure = p.outcome.helm_error
        assert failure is not None  # noqa: S101 - _left_a_failure has looked
        logger.info("%s: %s of release %s begins", p.key, what, p.release)
        try:
            await self._interruptible(p, call)
            told = f"{failure}. It was followed by a {what}"
        except HelmError as error:
            told = f"{failure}. The {what} failed as well: {redact(str(error), p.secrets)}"
        p.outcome.helm_error = HelmError(told, kind=failure.kind, output=failure.output)
        await self._sight.look(p)

    async def _rollback_call(self, p: Pass, to: ReleaseRecord) -> None:
        options = p.wishes.upgrade
        await self._helm.rollback(
            p.release,
            to.revision,
            timeout=p.kind.watch.timeout,
            history_max=p.kind.watch.history_max,
            force=options.rollback_force,
            force_conflicts=bool(options.force_conflicts),
            disable_hooks=options.disable_hooks,
        )

    async def _uninstall_call(self, p: Pass) -> None:
        try:
            # Half-done releases are purged: only what the custom resource's deletion leaves may be kept.
            keep = p.wishes.uninstall.keep_history and p.resource.deleting
            remarks = await self._helm.uninstall(
                p.release,
                timeout=p.kind.watch.timeout,
                keep_history=keep,
                disable_hooks=p.wishes.uninstall.disable_hooks,
                description=p.wishes.uninstall.description if keep else "",
            )
        except HelmError as error:
            if error.kind is not HelmErrorKind.NOT_FOUND:
                raise
        else:
            if remarks:
                logger.info("%s: helm uninstall of %s says: %s", p.key, p.release, redact(remarks, p.secrets))

    async def _run(self, p: Pass, action: Action, call: Awaitable[None], because: str = "") -> None:
        """Run one Helm action, and look at what it left behind."""
        outcome = p.outcome
        outcome.action, outcome.started_at = action, self._clock()
        outcome.because = because or p.decision.because
        outcome.next_attempt_at, outcome.failures = None, 0
        logger.info("%s: %s of release %s begins: %s", p.key, action, p.release, outcome.because)
        error: HelmError | None = None
        try:
            await self._interruptible(p, call)
        except HelmError as found:
            error = self._note_failure(p, action, found)
        outcome.helm_error, outcome.finished_at = error, self._clock()
        tokens = {RECONCILE: p.wishes.force_token, RESET: p.wishes.reset_token}
        if error is None or error.kind is not HelmErrorKind.CANCELLED:
            outcome.handled = {name: token for name, token in tokens.items() if token is not None} or None
        took = outcome.finished_at - outcome.started_at
        if error is None:
            self._made(p)
            logger.info("%s: %s of release %s done in %.2f s", p.key, action, p.release, took)
        else:
            logger.warning("%s: %s of release %s failed: %s", p.key, action, p.release, error)
        await self._sight.look(p)

    def _note_failure(self, p: Pass, action: Action, error: HelmError) -> HelmError:
        """Plan the next try, and return the error with nothing secret in it."""
        outcome = p.outcome
        shown = HelmError(redact(str(error), p.secrets), kind=error.kind, output=redact(error.output, p.secrets))
        digest = outcome.desired.input_digest if outcome.desired else ""
        previous = None if p.forgiven else Attempt.from_status(self._sight.known_status(p))
        if error.kind is HelmErrorKind.CANCELLED:
            # Our own doing: it does not count, and earlier failures go on counting.
            outcome.failures = status.failed_attempts(previous, action, digest) - 1
            outcome.next_attempt_at = self._clock() if outcome.failures else None
            return shown
        outcome.failures = status.failed_attempts(previous, action, digest)
        retries = {Action.INSTALL: p.wishes.install.retries, Action.UPGRADE: p.wishes.upgrade.retries}.get(action)
        exhausted = retries is not None and outcome.failures > retries
        if (error.kind not in status.TERMINAL and not exhausted) or action is Action.UNINSTALL:
            settings = self._settings
            delay = retry_delay(
                outcome.failures, base=settings.retry_base, ceiling=settings.retry_ceiling, spread=p.resource.uid
            )
            outcome.next_attempt_at = self._clock() + delay
            outcome.capped = settings.retry_base * 2.0 ** (outcome.failures - 1) >= settings.retry_ceiling
        return shown

    async def _interruptible(self, p: Pass, call: Awaitable[None]) -> None:
        async def run() -> None:
            await call

        task = asyncio.create_task(run())
        running = self._running[p.key] = _Running(task, p.resource)
        # The wish may have changed while the steps before this one waited.
        self.notice(p.key, self._resources.get(p.key))
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:  # Shutdown: end Helm, then report as ever.
            task.cancel()
            await asyncio.wait({task})
        finally:
            del self._running[p.key]
        if task.cancelled():
            why = "a newer wish overtook it" if running.overtaken else "the operator shuts down"
            raise HelmError(f"cancelled: {why}", kind=HelmErrorKind.CANCELLED)
        task.result()

    async def _mark_failed(self, p: Pass, record: ReleaseRecord) -> None:
        logger.warning("%s: %s", p.key, p.decision.because)
        payload = await self._kube.release_payload(p.release, record.revision)
        marked = await asyncio.to_thread(mark_failed, payload, "Interrupted, and marked as failed by helm-operator")
        try:
            await self._kube.replace_release(record, marked, ReleaseStatus.FAILED)
        except Conflict:
            raise Overtaken from None  # Somebody works on it after all.

    async def _what_changed(self, p: Pass) -> str:
        """Say in which way the inputs differ from those of the running revision."""
        deployed = status.deployed_record(p.outcome.records)
        if deployed is None or deployed.input_digest == p.desired.input_digest:
            return p.decision.because
        content = await self._sight.read(p, deployed.revision)
        p.outcome.content = None  # It speaks of the revision that is about to be replaced.
        difference = _difference(content, p.desired)
        failed = p.outcome.records[0].revision != deployed.revision
        return f"{p.decision.because}; {difference}" if failed else difference

    async def _take_inventory(self, p: Pass) -> None:
        """Learn what the release consists of, while its record is there to tell."""
        outcome = p.outcome
        known = list(outcome.inventory)
        recorded = self._sight.known_status(p)
        known += [*status.recorded_inventory(recorded), *status.recorded_leftovers(recorded)]
        if outcome.records and outcome.owned:
            newest = outcome.records[0].revision
            payload = await self._kube.release_payload(p.release, newest)
            try:
                content = await asyncio.to_thread(decode_release, payload)
            except ValueError as error:
                logger.warning("%s: revision %d of release %s tells no objects: %s", p.key, newest, p.release, error)
            else:
                known += await inventory_of(self._kube, content, p.release)
                p.secrets |= secret_strings(content.objects) | sensitive_strings(content.values)
        outcome.inventory = tuple(dict.fromkeys(known))


def _difference(content: ReleaseContent, desired: DesiredRelease) -> str:
    parts = []
    if (content.chart.name, content.chart.version) != (desired.chart.name, desired.chart.version):
        parts.append(f"chart {content.chart} became {desired.chart}")
    if changed := describe_change(content.values, desired.values):
        parts.append(f"values changed: {changed}")
    return "; ".join(parts) or "the files of the chart changed"
