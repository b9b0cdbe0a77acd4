"""What is inside a release Secret. Pure; safe to run in a worker thread.

Source of the format: helm.sh/helm/v4/pkg/storage/driver, util.go, and pkg/release/v1.
"""

from __future__ import annotations

import base64
import binascii
import gzip
import json
import zlib
from collections.abc import Mapping
from typing import Any, Final

from helm_operator.helm.manifest import parse_manifest
from helm_operator.release import ChartInfo, Json, ReleaseContent, ReleaseStatus

MAX_RECORD: Final = 256 * 1024 * 1024
"""Bytes of an unpacked record. Secrets end at 1 MiB, but 1 MiB of gzip can hold a thousand times that."""

_GZIP: Final = b"\x1f\x8b\x08"
_KEEP_ANNOTATION: Final = "helm.sh/resource-policy"


def decode_release(payload: str) -> ReleaseContent:
    """Return what a release Secret's `data.release` (as the API gives it) says.

    Raises:
        ValueError: the payload is no Helm record, or its manifest is no YAML.
    """
    record = _record(payload)
    info = _map(record, "info")
    return ReleaseContent(
        revision=record["version"],
        status=_status(info.get("status")),
        description=_text(info, "description"),
        notes=_text(info, "notes"),
        chart=_chart(_map(_map(record, "chart"), "metadata")),
        values=_map(record, "config"),
        first_deployed=_text(info, "first_deployed"),
        last_deployed=_text(info, "last_deployed"),
        objects=tuple(parse_manifest(_text(record, "manifest"))),
    )


def mark_failed(payload: str, description: str) -> str:
    """Return the payload of a revision as Helm leaves one that failed; nothing else in it changes.

    Raises:
        ValueError: the payload is no Helm record.
    """
    record = _record(payload)
    record["info"] = {**_map(record, "info"), "status": str(ReleaseStatus.FAILED), "description": description}
    packed = gzip.compress(json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode())
    return base64.b64encode(base64.b64encode(packed)).decode()


def kept(item: Json) -> bool:
    """Return whether Helm leaves an object alone when its release goes (`helm.sh/resource-policy: keep`).

    Helm's uninstall looks at whole documents: it does delete the items of a List that say so.
    """
    annotations = _map(_map(item, "metadata"), "annotations")
    policy = annotations.get(_KEEP_ANNOTATION)
    return isinstance(policy, str) and policy.strip().lower() == "keep"


def _record(payload: str) -> Json:
    try:
        packed = base64.b64decode(base64.b64decode(payload, validate=True), validate=True)
        record: Any = json.loads(_unpack(packed))
    except (binascii.Error, zlib.error, UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise ValueError(f"the release record cannot be decoded: {error}") from error
    revision = record.get("version") if isinstance(record, dict) else None
    if not isinstance(revision, int):
        raise ValueError("the release record is no JSON object with a revision")  # noqa: TRY004 (one error type)
    return dict(record)


def _unpack(packed: bytes) -> bytes:
    # Records of Helm before 3.0 final were not compressed; Helm still reads them.
    if not packed.startswith(_GZIP):
        return packed
    stream = zlib.decompressobj(wbits=31)
    record = stream.decompress(packed, MAX_RECORD)
    if stream.unconsumed_tail:
        raise ValueError(f"the release record is over {MAX_RECORD} bytes")
    if not stream.eof:
        raise ValueError("the release record is cut off")
    return record


def _status(word: Any) -> ReleaseStatus:
    try:
        return ReleaseStatus(word)
    except ValueError:
        return ReleaseStatus.UNKNOWN


def _chart(metadata: Json) -> ChartInfo:
    return ChartInfo(
        name=_text(metadata, "name"),
        version=_text(metadata, "version"),
        app_version=_text(metadata, "appVersion"),
    )


def _map(parent: Mapping[str, Any], key: str) -> Json:
    value = parent.get(key)
    return value if isinstance(value, dict) else {}


def _text(parent: Mapping[str, Any], key: str) -> str:
    value = parent.get(key)
    return value if isinstance(value, str) else ""
