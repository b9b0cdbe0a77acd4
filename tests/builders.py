"""Objects for tests: a release that is in sync, to be changed with dataclasses.replace."""

from dataclasses import replace
from pathlib import Path

from helm_operator.decision import Action, Decision, Situation
from helm_operator.errors import HelmError, HelmErrorKind
from helm_operator.health import Health, Summary
from helm_operator.release import (
    ChartInfo,
    DesiredRelease,
    ReleaseContent,
    ReleaseKey,
    ReleaseRecord,
    ReleaseStatus,
)
from helm_operator.status import Outcome, build_status

NOW = 1_800_000_000.0
KEY = ReleaseKey("shop", "web")


def record(
    revision=3, status=ReleaseStatus.DEPLOYED, *, owner="uid-1", digest="d1", changed_at=NOW - 3600, attempt=None
):
    return ReleaseRecord(KEY, revision, status, owner, digest, changed_at, str(100 + revision), attempt)


def desired(digest="d1"):
    return DesiredRelease(
        key=KEY,
        owner_uid="uid-1",
        chart=ChartInfo("webapp", "1.2.0", "1.27", "sha256:c"),
        chart_path=Path("charts/webapp"),
        values={},
        values_digest="sha256:v",
        input_digest=digest,
    )


def content(revision=3, *, notes="Visit http://web", description="Upgrade complete"):
    return ReleaseContent(
        revision=revision,
        status=ReleaseStatus.DEPLOYED,
        description=description,
        notes=notes,
        chart=ChartInfo("webapp", "1.2.0", "1.27"),
        values={},
        first_deployed="2026-11-30T09:00:00Z",
        last_deployed="2026-11-30T10:00:00Z",
        objects=(),
    )


IN_SYNC = Situation(
    owner_uid="uid-1",
    deleting=False,
    records=(record(),),
    desired=desired(),
    attempt=None,
    recorded_revision=3,
    now=NOW,
)


def outcome(**changes):
    """An upgrade to revision 3 that went well."""
    base = Outcome(
        generation=7,
        looked=True,
        records=(record(),),
        content=content(),
        desired=desired(),
        decision=Decision(Action.UPGRADE, "the inputs changed"),
        action=Action.UPGRADE,
        because="values changed: image.tag",
        started_at=NOW - 1,
        finished_at=NOW,
    )
    return replace(base, **changes)


def in_sync(**changes):
    return outcome(action=None, content=None, decision=Decision(Action.NOTHING, "in sync"), **changes)


def failed(kind=HelmErrorKind.INVALID, **changes):
    records = (record(4, ReleaseStatus.FAILED, digest="d2"), record())
    error = HelmError('Service "web" is invalid: spec.ports[0].port: must be between 1 and 65535', kind=kind)
    changes = {"records": records, "content": None, "desired": desired("d2"), "failures": 1, **changes}
    return outcome(**{"helm_error": error, "next_attempt_at": NOW + 5, **changes})


GOOD = build_status({}, outcome(), NOW)
HEALTHY = Summary(Health.HEALTHY, "Healthy", "all 3 objects are healthy")
ROLLING = Summary(Health.PROGRESSING, "Progressing", 'Deployment "web": 1 of 2 replicas are available')
BROKEN = Summary(Health.UNHEALTHY, "Unhealthy", 'Deployment "web": ImagePullBackOff')
