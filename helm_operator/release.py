"""Value types: names, releases as they are, releases as they should be.

Everything here is immutable and knows nothing of Helm's or Kubernetes' clients.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

Json = dict[str, Any]

DOMAIN = "helm-operator.io"
"""Prefix of our labels, annotations and finalizer."""

OWNER_LABEL = f"{DOMAIN}/owner-uid"
"""Label on release Secrets: uid of the custom resource that the release belongs to."""

INPUT_LABEL = f"{DOMAIN}/input-digest"
"""Label on release Secrets: digest of the inputs that made the revision."""

ATTEMPT_LABEL = f"{DOMAIN}/attempt"
"""Label on release Secrets: `<operator process>.<number>` of the action that made the revision.

Helm hands labels on from revision to revision, so one that an older revision has as well
tells that somebody else made the newer one.
"""

FINALIZER = f"{DOMAIN}/uninstall-release"

FOREIGN_FINALIZERS = ("helm.sdk.operatorframework.io/uninstall-release", "uninstall-helm-release")
"""operator-sdk's finalizers: they mean the same and go together with ours."""

ADOPT_ANNOTATION = f"{DOMAIN}/adopt"
"""On a custom resource, one-shot: take over the existing release of its name."""

MAX_NAME = 53
"""Helm's limit for release names, in characters."""


class ReleaseStatus(StrEnum):
    """Helm's words for the state of one revision.

    Source: helm.sh/helm/v4/pkg/release/common, type Status.
    """

    UNKNOWN = "unknown"
    DEPLOYED = "deployed"
    UNINSTALLED = "uninstalled"
    SUPERSEDED = "superseded"
    FAILED = "failed"
    UNINSTALLING = "uninstalling"
    PENDING_INSTALL = "pending-install"
    PENDING_UPGRADE = "pending-upgrade"
    PENDING_ROLLBACK = "pending-rollback"

    @property
    def pending(self) -> bool:
        """Whether an action holds the release (Helm refuses another one meanwhile)."""
        return self.value.startswith("pending-")


@dataclass(frozen=True, slots=True, order=True)
class ReleaseKey:
    """Where a release lives: the namespace of its records, and its name."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True, order=True)
class ObjectRef:
    """One object of a release. `namespace` is empty for cluster-scoped objects."""

    api_version: str
    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f'{self.kind} "{self.name}"'

    @property
    def group(self) -> str:
        return self.api_version.rpartition("/")[0]

    def as_json(self) -> Json:
        scope = {"namespace": self.namespace} if self.namespace else {}
        return {"apiVersion": self.api_version, "kind": self.kind, **scope, "name": self.name}


@dataclass(frozen=True, slots=True)
class ChartInfo:
    """Which chart made a revision. `digest` is ours (`sha256:…`), empty where unknown."""

    name: str
    version: str
    app_version: str = ""
    digest: str = ""

    def __str__(self) -> str:
        return f"{self.name}-{self.version}"


@dataclass(frozen=True, slots=True)
class ChartBulk:
    """What a chart brings into the record of each release that is made of it."""

    packed: int = 0
    """Bytes of its own files, compressed as Helm does it; at least that many."""
    largest: tuple[tuple[str, int], ...] = ()
    """Its largest files: path and bytes, the largest first."""


@dataclass(frozen=True, slots=True)
class ReleaseRecord:
    """One revision as its Secret's metadata tells it; the payload is not looked at."""

    key: ReleaseKey
    revision: int
    status: ReleaseStatus
    owner_uid: str | None
    input_digest: str | None
    changed_at: float
    """Unix time in seconds of Helm's last write (labels modifiedAt, createdAt)."""
    resource_version: str
    attempt: str | None = None
    """Which action of which operator process made it; perhaps handed on from an older revision."""


@dataclass(frozen=True, slots=True)
class ReleaseContent:
    """What the payload of one release Secret says."""

    revision: int
    status: ReleaseStatus
    description: str
    notes: str
    chart: ChartInfo
    values: Json
    """The user-supplied values (Helm: config), without the chart's defaults."""
    first_deployed: str
    last_deployed: str
    objects: tuple[Json, ...]
    """The manifest's objects in Helm's order; Lists are flattened, hooks are not in it."""


class Remediation(StrEnum):
    """What is done about an action that failed and is not tried again soon."""

    NONE = "none"
    """The release stays as the failure left it."""
    UNINSTALL = "uninstall"
    """A failed first install is taken away."""
    ROLLBACK = "rollback"
    """A failed upgrade is followed by a roll-back to the revision that ran before."""


@dataclass(frozen=True, slots=True)
class InstallOptions:
    """How a release is installed. None of it is an input of the release: a change alone makes no new revision."""

    retries: int | None = None
    """Tries after the first failed one with the same input; None: for ever, with pauses that grow up to the limit."""
    remediation: Remediation = Remediation.NONE
    """NONE or UNINSTALL."""
    disable_hooks: bool = False
    """Run none of the chart's install hooks."""
    description: str = ""
    """The revision's text in `helm history`; empty: Helm's own."""


@dataclass(frozen=True, slots=True)
class UpgradeOptions:
    """How a release is upgraded, and rolled back. As with InstallOptions, a change alone makes no new revision."""

    retries: int | None = None
    """Tries after the first failed one with the same input; None: for ever, with pauses that grow up to the limit."""
    remediation: Remediation = Remediation.NONE
    """NONE or ROLLBACK."""
    cleanup_on_fail: bool = False
    """Delete the objects that a failed upgrade has created."""
    force: bool = False
    """Replace objects (PUT) instead of patching them.

    What others have set in them is lost, and what the API server does not let change stays a failure: nothing is
    deleted and created anew, and a claim that is bound to its volume cannot be replaced at all. Helm 4 leaves
    server-side apply for it, and keeps to client-side patches from then on.
    """
    force_conflicts: bool | None = None
    """Take fields that other field managers hold; only Helm 4 can. It has no meaning together with `force`.

    None: only after Helm was refused for it, as the correction of drift would take them back anyway.

    It holds for installs as well: objects that an earlier release left behind may have such fields.
    """
    rollback_force: bool = False
    """`force` for the roll-back after a failed upgrade."""
    disable_hooks: bool = False
    """Run none of the chart's upgrade hooks, and none of its rollback hooks."""
    description: str = ""
    """The revision's text in `helm history`; empty: Helm's own."""


@dataclass(frozen=True, slots=True)
class UninstallOptions:
    """What happens to a release when its custom resource is deleted."""

    wait: bool = True
    """Keep the custom resource until all objects of the release are gone."""
    keep_history: bool = False
    """Leave the release's records, the newest one as `uninstalled`."""
    orphan: bool = False
    """Uninstall nothing: the release and its objects stay as they are."""
    disable_hooks: bool = False
    """Run none of the chart's delete hooks."""
    description: str = ""
    """The text of the record that `keep_history` leaves; empty: Helm's own."""


@dataclass(frozen=True, slots=True)
class DesiredRelease:
    """What Helm shall be asked for; made by `plan`, never changed."""

    key: ReleaseKey
    owner_uid: str
    chart: ChartInfo
    chart_path: Path
    values: Json
    values_digest: str
    input_digest: str
    """At most 63 characters (a label value): chart, values and options that make a revision."""
    timeout: float = 300.0
    """Seconds that Helm waits for any single operation."""
    wait: bool = False
    history_max: int = 10
    install: InstallOptions = InstallOptions()
    upgrade: UpgradeOptions = UpgradeOptions()
    attempt: str = ""
    """See ATTEMPT_LABEL; set when the action begins."""
    bulk: ChartBulk = ChartBulk()
    """Lets the port tell in time that the release does not fit into its record."""

    @property
    def labels(self) -> dict[str, str]:
        attempt = {ATTEMPT_LABEL: self.attempt} if self.attempt else {}
        return {OWNER_LABEL: self.owner_uid, INPUT_LABEL: self.input_digest, **attempt}


@dataclass(frozen=True, slots=True)
class CustomResource:
    """The parts of a custom resource that a pass looks at."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str
    generation: int
    resource_version: str
    deleting: bool
    finalizers: tuple[str, ...]
    annotations: Mapping[str, str]
    spec: Any
    status: Json = field(default_factory=dict)

    @classmethod
    def from_body(cls, body: Mapping[str, Any]) -> CustomResource:
        """Read a custom resource from its API form.

        Raises:
            KeyError: `body` lacks name or uid; the API server never sends that.
        """
        meta = body["metadata"]
        status = body.get("status")
        return cls(
            api_version=body.get("apiVersion", ""),
            kind=body.get("kind", ""),
            namespace=meta.get("namespace") or "",
            name=meta["name"],
            uid=meta["uid"],
            generation=meta.get("generation") or 0,
            resource_version=meta.get("resourceVersion") or "",
            deleting=bool(meta.get("deletionTimestamp")),
            finalizers=tuple(meta.get("finalizers") or ()),
            annotations=dict(meta.get("annotations") or {}),
            spec=body.get("spec"),
            status=dict(status) if isinstance(status, Mapping) else {},
        )

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"


def release_name(name: str) -> str:
    """Return the release name for a custom resource's name.

    Names over Helm's 53 characters become their first 40, a dash and 12 hexadecimal
    digits of the name's SHA-256.
    """
    if len(name) <= MAX_NAME:
        return name
    # A name may not have a dot beside a dash, so a cut behind a dot drops the dot.
    head = name[:40].rstrip(".")
    return f"{head}-{hashlib.sha256(name.encode()).hexdigest()[:12]}"
