"""Objects for tests: a release that is in sync, to be changed with dataclasses.replace."""

from pathlib import Path

from helm_operator.decision import Situation
from helm_operator.release import (
    ChartInfo,
    DesiredRelease,
    ReleaseContent,
    ReleaseKey,
    ReleaseRecord,
    ReleaseStatus,
)

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
