"""The files of a chart, from a directory or an archive, within Helm's limits."""

from __future__ import annotations

import gzip
import io
import os
import posixpath
import re
import stat
import tarfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from helm_operator.charts import ignore
from helm_operator.errors import ChartProblem

Contents = dict[str, bytes]
"""Path within the chart (always with `/`) to content, without a byte order mark."""

Stamp = tuple[tuple[str, int, int, int], ...]
"""For each file: path, size in bytes, times of change of its content and of its inode in nanoseconds."""

MAX_SIZE: Final = 100 * 1024 * 1024
"""Helm's limit for the files of a chart together, in bytes."""
MAX_FILES: Final = 20_000
"""Our limit: 100 MiB of empty files take half a minute to read."""

_DRIVE: Final = re.compile(r"[a-zA-Z]:/")
_BOM: Final = b"\xef\xbb\xbf"


class OverBudget(ChartProblem):
    """The files of a chart are too large, or too many."""


class Budget:
    """How many bytes and files the chart may still have; one budget for it and the archives in it."""

    def __init__(self, size: int = MAX_SIZE, files: int = MAX_FILES) -> None:
        self.left = size
        self._files = files
        self._seen = 0

    def take_file(self) -> None:
        """Count one file.

        Raises:
            OverBudget: they are too many.
        """
        self._seen += 1
        if self._seen > self._files:
            raise OverBudget(f"it has more than {self._files} files")

    def take(self, size: int) -> None:
        """Count `size` bytes.

        Raises:
            OverBudget: they are too many.
        """
        self.left -= size
        if self.left < 0:
            raise OverBudget(f"its files are larger than {MAX_SIZE // 1024**2} MiB together, Helm's limit")


class _Metered(io.RawIOBase):
    """A stream that counts what is read, so that no archive fills the memory."""

    def __init__(self, source: Any, budget: Budget) -> None:
        self._source = source
        self._budget = budget

    def read(self, size: int = -1) -> bytes:
        data: bytes = self._source.read(size)
        self._budget.take(len(data))
        return data


def take_stamp(path: Path) -> Stamp:
    """Return the stamp of a directory or archive; no content is read.

    Raises:
        OSError: something cannot be looked at.
    """
    if not path.is_dir():
        return (_entry(path.name, path.stat()),)
    return tuple(sorted(_entry(name, info) for name, _, info in _walk(path, None)))


def read_directory(top: Path, budget: Budget) -> Contents:
    """Return the files of an unpacked chart, without what its `.helmignore` leaves out.

    Raises:
        OSError: something cannot be read.
        ChartProblem: too large, a bad `.helmignore`, or something that is no file (a dangling link, a socket).
    """
    rule_file = top / ignore.FILE
    try:
        text = rule_file.read_text("utf-8") if rule_file.exists() else ""
        rules = ignore.Rules.parse(text)
    except ValueError as error:
        raise ChartProblem(f"{ignore.FILE}: {error}") from error
    contents: Contents = {}
    for name, path, info in _walk(top, rules):
        if not stat.S_ISREG(info.st_mode):
            raise ChartProblem(f"{name} is neither a file nor a directory, or a link that leads nowhere or in a circle")
        try:
            budget.take_file()
            budget.take(info.st_size)
        except OverBudget as error:
            raise ChartProblem(f"{error}; the limit was passed at {name!r}") from error
        contents[name] = path.read_bytes().removeprefix(_BOM)
    return contents


def read_archive(data: io.BufferedIOBase, budget: Budget) -> Contents:
    """Return the files of a packaged chart (.tgz), without the name of its top directory.

    Raises:
        OSError: it cannot be read.
        ChartProblem: broken, too large, or with names or links that have no place in a chart.
    """
    contents: Contents = {}
    reading = "its beginning"
    try:
        with (
            gzip.GzipFile(fileobj=data) as unzipped,
            tarfile.open(fileobj=_Metered(unzipped, budget), mode="r|") as archive,
        ):
            for member in archive:
                if member.isdir():
                    continue
                reading = repr(member.name)
                budget.take_file()
                name = _name(member.name)
                # A sparse file would unpack to any size that its header claims, without a byte in the archive.
                content = archive.extractfile(member) if member.isreg() and not member.issparse() else None
                if content is None:
                    raise ChartProblem(f"{reading} in the archive is a link, a device or a sparse file")
                if name in contents:
                    raise ChartProblem(f"{reading} is in the archive more than once")
                contents[name] = content.read().removeprefix(_BOM)
                reading = f"what follows {reading}"
    except OverBudget as error:
        raise ChartProblem(f"{error}; the limit was passed at {reading} in the archive") from error
    except (tarfile.TarError, gzip.BadGzipFile, EOFError, zlib.error, ValueError, OverflowError) as error:
        raise ChartProblem(f"not a chart archive (.tgz), or a broken one, at {reading}: {error}") from error
    return contents


def _name(member: str) -> str:
    """Return a member's path without the top directory."""
    # Archives made on Windows may have backslashes.
    parts = member.split("\\" if "\\" in member else "/")
    name = "/".join(parts[1:])
    clean = posixpath.normpath(name)
    if name.startswith("/") or clean == ".." or clean.startswith("../") or parts[0] == ".." or _DRIVE.match(clean):
        raise ChartProblem(f"{member!r} in the archive leads out of the chart")
    if clean == ".":
        raise ChartProblem(f"{member!r} is at the top of the archive: all files belong into one directory")
    return clean


def _walk(top: Path, rules: ignore.Rules | None) -> Iterator[tuple[str, Path, os.stat_result]]:
    """Yield path, place and stat of everything but the directories that it goes into. Links are followed."""

    def below(
        folder: Path, prefix: str, above: frozenset[tuple[int, int]]
    ) -> Iterator[tuple[str, Path, os.stat_result]]:
        for path in sorted(folder.iterdir()):
            name = prefix + path.name
            try:
                info = path.stat()
            except OSError:
                info = path.lstat()
            directory = stat.S_ISDIR(info.st_mode)
            if rules and rules.ignores(name, directory=directory):
                continue
            identity = (info.st_dev, info.st_ino)
            if directory and identity not in above:
                yield from below(path, f"{name}/", above | {identity})
            else:
                yield name, path, info

    info = top.stat()
    yield from below(top, "", frozenset({(info.st_dev, info.st_ino)}))


def _entry(name: str, info: os.stat_result) -> tuple[str, int, int, int]:
    return name, info.st_size, info.st_mtime_ns, info.st_ctime_ns
