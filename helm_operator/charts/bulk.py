"""How much of a release record a chart takes. Pure.

Helm stores all of a chart's own files in the record of each release: base64 within JSON, and that
compressed. Source: helm.sh/helm/v4/pkg/storage/driver/util.go, encodeRelease.
"""

from __future__ import annotations

import base64
import zlib
from typing import Final

from helm_operator.charts.files import Contents
from helm_operator.release import ChartBulk

LARGEST: Final = 3
"""Files that are named where a release is too large."""
_ENOUGH: Final = 4 * 1024**2
"""Packed bytes from which on it does not matter how many more there are: no record holds a quarter of that."""


def measure(files: Contents) -> ChartBulk:
    """Return what a chart's own files (without those of subcharts) take in a record."""
    packer = zlib.compressobj(zlib.Z_BEST_COMPRESSION)
    packed = 0
    for content in files.values():
        packed += len(packer.compress(base64.b64encode(content)))
        if packed > _ENOUGH:
            break
    packed += len(packer.flush())
    sizes = sorted(((len(content), name) for name, content in files.items()), reverse=True)
    # A name need not be UTF-8, but is told to people.
    return ChartBulk(packed, tuple((name.encode(errors="replace").decode(), size) for size, name in sizes[:LARGEST]))
