"""Does a release fit into its record? Pure.

Helm keeps the chart's files, the values, the manifest and the hooks in one Secret, as base64 of gzip of
JSON. The API server counts that base64. Helm writes the record before it does anything else, so a record
that is over the limit leaves nothing behind; but one that is just below it grows when hooks have run, and
Helm ends with objects that are there and a record that says `pending`.
"""

from __future__ import annotations

import zlib
from typing import Final

from helm_operator.errors import HelmError, HelmErrorKind
from helm_operator.release import ChartBulk

LIMIT: Final = 1_048_576
"""Bytes of data in a Secret. Source: k8s.io/api/core/v1, MaxSecretSize."""
ROOM: Final = LIMIT - 32_768
"""What a record may have before the action: it grows by the times of the hooks and by what went wrong."""
WORTH_A_LOOK: Final = LIMIT // 4
"""Bytes of chart and values together from which on the release is rendered to be measured."""

ADVICE: Final = "Leave files out of the chart (.helmignore), split the chart, or make the values smaller"


def stored(packed: int) -> int:
    """Return the bytes that `packed` bytes of gzip have in the Secret."""
    return -(-packed // 3) * 4


def record_size(release: bytes) -> int:
    """Return the bytes that a release has in its Secret; `release` is its JSON, as Helm prints and stores it."""
    return stored(len(zlib.compress(release, zlib.Z_BEST_COMPRESSION)))


def too_large(size: int, bulk: ChartBulk, values: int) -> HelmError:
    """Return the error for a record of `size` bytes; `values` is the size of the values in bytes."""
    files = ", ".join(f"{name} ({count} bytes)" for name, count in bulk.largest)
    return HelmError(
        f"the release is too large for its record: Helm keeps chart, values and manifest in one Secret of at most "
        f"{LIMIT} bytes, and this one would have at least {size} (more than {ROOM} are refused, as the record grows "
        f"while Helm acts). Nothing was changed. The largest files of the chart: {files}; the values: {values} bytes. "
        f"{ADVICE}",
        kind=HelmErrorKind.TOO_LARGE,
    )
