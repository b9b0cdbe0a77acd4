"""Helm's release Secrets as their metadata shows them.

Source of names and labels: helm.sh/helm/v4/pkg/storage/driver, secrets.go and labels.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from helm_operator.release import ATTEMPT_LABEL, INPUT_LABEL, OWNER_LABEL, ReleaseKey, ReleaseRecord, ReleaseStatus

RELEASE_SELECTOR: Final = {"labelSelector": "owner=helm", "fieldSelector": "type=helm.sh/release.v1"}
"""The query that selects all release Secrets."""


def secret_name(key: ReleaseKey, revision: int) -> str:
    """Return the name of the Secret that holds a revision."""
    return f"sh.helm.release.v1.{key.name}.v{revision}"


def record_from_metadata(item: Mapping[str, Any]) -> ReleaseRecord | None:
    """Read one release Secret's metadata; None where the labels are not Helm's."""
    meta = item["metadata"]
    labels = meta.get("labels") or {}
    try:
        return ReleaseRecord(
            key=ReleaseKey(meta["namespace"], labels["name"]),
            revision=int(labels["version"]),
            status=ReleaseStatus(labels["status"]),
            owner_uid=labels.get(OWNER_LABEL),
            input_digest=labels.get(INPUT_LABEL),
            changed_at=float(labels.get("modifiedAt") or labels.get("createdAt") or 0),
            resource_version=str(meta.get("resourceVersion", "")),
            attempt=labels.get(ATTEMPT_LABEL),
        )
    except (KeyError, ValueError):
        return None
