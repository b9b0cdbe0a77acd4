"""Charts on disk: is it one that Helm can install, what is in it, and did it change?

What Helm would only say at the first install is said here, when the operator starts. The
digest tells content, not packaging: a directory and the archive that `helm package` makes of
it have the same. Source of the rules: helm.sh/helm/v4/pkg/chart/v2.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import yaml

from helm_operator.charts.bulk import measure
from helm_operator.charts.files import Budget, Contents, Stamp, read_archive, read_directory, take_stamp
from helm_operator.errors import ChartProblem
from helm_operator.nesting import deeper_than
from helm_operator.release import ChartBulk, ChartInfo, Json
from helm_operator.values import digest, json_type

__all__ = ["Chart", "changed", "load_chart"]

MAX_DEPTH: Final = 20
"""Our limit for charts within charts."""
MAX_NESTING: Final = 100
"""Our limit for lists and maps within each other in Chart.yaml."""
MAX_NODES: Final = 100_000
"""Our limit for what Chart.yaml holds."""

# As lenient as Helm: a leading v, and missing parts.
_VERSION: Final = re.compile(r"v?[0-9]+(\.[0-9]+){0,2}(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?")
# Lock files have a time in them, and no say in what is installed.
_UNCOUNTED: Final = frozenset({"Chart.yaml", "Chart.lock", "requirements.yaml", "requirements.lock"})


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart on disk that Helm can install, as it was when it was read."""

    path: Path
    """Absolute; a directory or a .tgz."""
    info: ChartInfo
    stamp: Stamp = field(repr=False)
    """Cheap fingerprint of the files, see `changed`."""
    bulk: ChartBulk = field(default=ChartBulk(), repr=False)

    def __str__(self) -> str:
        return str(self.info)


def load_chart(path: Path) -> Chart:
    """Read and check a chart; a relative path is relative to the working directory.

    Raises:
        ChartProblem: it is missing, cannot be read, is no chart, or can never be installed.
    """
    path = path.absolute()
    budget = Budget()
    try:
        # The stamp comes first: what changes while the files are read must count as changed.
        stamp = take_stamp(path)
        if path.is_dir():
            contents = read_directory(path, budget)
        else:
            with path.open("rb") as file:
                contents = read_archive(file, budget)
        loaded = _load(contents, budget)
        _check_installable(loaded)
    except FileNotFoundError as error:
        raise ChartProblem(f"chart {error.filename or path}: no such file or directory") from error
    except OSError as error:
        raise ChartProblem(f"chart {path}: cannot be read: {error.strerror or error}") from error
    except ChartProblem as error:
        raise ChartProblem(f"chart {path}: {error}") from error
    about = loaded.metadata
    info = ChartInfo(about["name"], about["version"], about.get("appVersion", ""), loaded.digest)
    own, _ = _split(contents)  # Helm keeps no subcharts in a record.
    return Chart(path, info, stamp, measure(own))


def changed(chart: Chart) -> bool:
    """Return whether the chart's files may have changed since it was read; no content is read."""
    try:
        return take_stamp(chart.path) != chart.stamp
    except OSError:
        return True


@dataclass(frozen=True, slots=True)
class _Loaded:
    metadata: Json
    """Chart.yaml with all scalars as text, and without what is empty."""
    subcharts: tuple[_Loaded, ...]
    digest: str


def _load(contents: Contents, budget: Budget, depth: int = 0) -> _Loaded:
    if depth > MAX_DEPTH:
        raise ChartProblem(f"charts within charts, more than {MAX_DEPTH} deep")
    if "Chart.yaml" not in contents:
        raise ChartProblem("Chart.yaml is missing, so this is not a chart")
    metadata = _yaml_map("Chart.yaml", contents["Chart.yaml"])
    if "requirements.yaml" in contents:
        metadata |= _yaml_map("requirements.yaml", contents["requirements.yaml"])
    faults = list(_faults(metadata))
    if faults:
        raise ChartProblem(f"Chart.yaml: {'; '.join(faults)}")
    _check_values(contents.get("values.yaml", b""))
    _check_schema(contents.get("values.schema.json", b"{}"))
    files, nested = _split(contents)
    subcharts = []
    for name, inner in nested.items():
        try:
            unpacked = read_archive(io.BytesIO(inner[""]), budget) if "" in inner else inner
            subcharts.append(_load(unpacked, budget, depth + 1))
        except ChartProblem as error:
            raise ChartProblem(f"charts/{name}: {error}") from error
    everything = {
        "metadata": metadata,
        "files": {name: sha256(content).hexdigest() for name, content in files.items() if name not in _UNCOUNTED},
        "charts": sorted([chart.metadata["name"], chart.digest] for chart in subcharts),
    }
    return _Loaded(metadata, tuple(subcharts), digest(everything))


def _split(contents: Contents) -> tuple[Contents, dict[str, Contents]]:
    """Return the chart's own files, and those of its subcharts; a packaged subchart is one file named ""."""
    own: Contents = {}
    nested: dict[str, Contents] = {}
    for path, content in contents.items():
        folder, _, below = path.partition("/")
        name, _, inner = below.partition("/")
        if folder != "charts" or not below or path.endswith(".prov"):
            own[path] = content
        elif name[0] not in "_.":
            # A stray file is an empty subchart here, which fails as it fails in Helm.
            files = nested.setdefault(name, {})
            if inner or name.endswith(".tgz"):
                files[inner] = content
    return own, nested


def _check_installable(chart: _Loaded) -> None:
    if chart.metadata.get("type") == "library":
        raise ChartProblem("a library chart (type: library) cannot be installed")
    present = {subchart.metadata["name"] for subchart in chart.subcharts}
    missing = sorted({dependency["name"] for dependency in chart.metadata.get("dependencies", [])} - present)
    if missing:
        names = ", ".join(missing)
        raise ChartProblem(f"Chart.yaml names dependencies that charts/ lacks: {names} (run helm dependency build)")


def _faults(metadata: Json) -> Iterator[str]:
    api_version = metadata.get("apiVersion", "v1")
    if api_version not in ("v1", "v2"):
        yield f"apiVersion must be v1 or v2, not {api_version!r}"
    name = metadata.get("name", "")
    if not isinstance(name, str) or not name or name in (".", "..") or "/" in name:
        yield f"name must be a name without /, not {name!r}" if name else "name is missing"
    version = metadata.get("version", "")
    if not isinstance(version, str) or not _VERSION.fullmatch(version):
        yield f"version must be a SemVer version, not {version!r}" if version else "version is missing"
    if not isinstance(metadata.get("appVersion", ""), str):
        yield "appVersion must be text"
    if metadata.get("type", "") not in ("", "application", "library"):
        yield f"type must be application or library, not {metadata['type']!r}"
    dependencies = metadata.get("dependencies", [])
    if not isinstance(dependencies, list):
        yield f"dependencies must be a list, not {json_type(dependencies)}"
    elif not all(isinstance(item, dict) and isinstance(item.get("name"), str) for item in dependencies):
        yield "each of the dependencies must be a map with a name"


class _TextLoader(yaml.SafeLoader):
    """Leaves all scalars but nulls as they are written: `version: 1.10` is not the number 1.1."""


_TextLoader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag.endswith((":null", ":merge"))]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


_AS_WRITTEN: Final = ("bool", "float", "int", "null", "str", "timestamp")
# What asks for another type (`!!set`) is refused.
_TextLoader.yaml_constructors = {
    f"tag:yaml.org,2002:{name}": constructor
    for name, constructor in (
        *((name, yaml.SafeLoader.construct_yaml_str) for name in _AS_WRITTEN),
        ("null", yaml.SafeLoader.construct_yaml_null),
        ("seq", yaml.SafeLoader.construct_yaml_seq),
        ("map", yaml.SafeLoader.construct_yaml_map),
    )
} | {None: yaml.SafeLoader.construct_undefined}


def _yaml_map(name: str, data: bytes) -> Json:
    try:
        if deeper_than(MAX_NESTING, data):
            raise ChartProblem(f"{name} is nested more than {MAX_NESTING} deep")
        # A safe loader with fewer types.
        parsed = yaml.load(data, Loader=_TextLoader)  # noqa: S506
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ChartProblem(f"{name} is not valid YAML: {_one_line(error)}") from error
    if not isinstance(parsed, dict):
        raise ChartProblem(f"{name} must be a YAML map, not {json_type(parsed)}")
    cleaner = _Cleaner(name)
    try:
        return {str(key): value for key, item in parsed.items() if (value := cleaner.clean(key, item))}
    except RecursionError as error:
        raise ChartProblem(f"{name} has an alias that leads to itself, or aliases too deep in each other") from error


class _Cleaner:
    """Turns Chart.yaml into what `helm package` would write: cleaned, and without what is empty.

    Aliases can make billions of values of a few lines, or a value that holds itself.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._left = MAX_NODES

    def clean(self, key: Any, value: Any) -> Any:
        self._left -= 1
        if self._left < 0:
            raise ChartProblem(f"{self._name} has more than {MAX_NODES} values, with what its aliases repeat")
        if isinstance(value, dict):
            return {str(inner): kept for inner, item in value.items() if (kept := self.clean(key, item))}
        if isinstance(value, list):
            return [self.clean(key, item) for item in value]
        if value is None or value == "false":
            return ""
        text = str(value)
        if key == "annotations":
            return text
        return "".join(" " if char.isspace() else char for char in text if char.isspace() or char.isprintable())


def _check_values(data: bytes) -> None:
    """Check that every document of values.yaml is a map or empty."""
    at_top = False
    try:
        # libyaml, which Helm's parser is a translation of; and events need no recursion.
        for event in yaml.parse(data, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
            empty = isinstance(event, yaml.ScalarEvent) and event.value in ("", "~", "null")
            if at_top and not empty and not isinstance(event, yaml.MappingStartEvent):
                raise ChartProblem("values.yaml must be a YAML map")
            at_top = isinstance(event, yaml.DocumentStartEvent)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ChartProblem(f"values.yaml is not valid YAML: {_one_line(error)}") from error


def _check_schema(data: bytes) -> None:
    try:
        json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ChartProblem(f"values.schema.json is not valid JSON: {_one_line(error)}") from error


def _one_line(error: Exception) -> str:
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark:
        return f"line {error.problem_mark.line + 1}: {error.problem or error.context}"
    return " ".join(str(error).split())[:200]
