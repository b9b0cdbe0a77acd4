"""The custom resource definitions: what their schemas promise, and that they say the same as the charts."""

import json
import re
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.cluster import eventually

ROOT = Path(__file__).parents[2]
CHARTS = {"Webapp": "webapp", "Memcached": "memcached"}
SAMPLES = sorted((ROOT / "config/samples").rglob("*.yaml"))
GROUP = "apps.helm-operator.io"


def load(path):
    return yaml.safe_load(path.read_text())


def crd(kind):
    return load(ROOT / f"crds/{GROUP}_{kind.lower()}s.yaml")


def version(kind):
    (only,) = crd(kind)["spec"]["versions"]
    return only


def part(kind, name):
    return version(kind)["schema"]["openAPIV3Schema"]["properties"][name]


def structural(schema, definitions, *, optional=False, merged=True):
    """Return the JSON schema of chart values as a CRD writes it.

    Chart defaults are merged in later, so nothing is required here except inside a list, and each key that the chart
    can do without may be null, which takes its default away. Free maps are kept as they are.
    """
    schema = dict(schema)
    schema.update(definitions.get(schema.pop("$ref", "").rpartition("/")[2], {}))
    types = [schema["type"]] if isinstance(schema["type"], str) else list(schema["type"])
    optional = optional or "null" in types
    types = [name for name in types if name != "null"]
    kept = ("description", "enum", "minimum", "maximum", "minLength", "maxLength", "pattern")
    result = {key: schema[key] for key in kept if key in schema}
    if types == ["integer", "string"]:
        result["x-kubernetes-int-or-string"] = True
    else:
        (result["type"],) = types
    if optional:
        result["nullable"] = True
        if "enum" in result:  # the API server looks for a null in the list as well, and does not find it even there
            result["pattern"] = f"^({'|'.join(result.pop('enum'))})$"
    required = schema.get("required", [])
    if "properties" in schema:
        result["properties"] = {
            name: structural(inner, definitions, optional=name not in required, merged=merged)
            for name, inner in schema["properties"].items()
        }
        if required and not merged:
            result["required"] = required
    elif isinstance(schema.get("additionalProperties"), dict):
        result["additionalProperties"] = structural(schema["additionalProperties"], definitions)
    elif "items" in schema:
        result["items"] = structural(schema["items"], definitions, merged=False)
    elif types == ["object"]:
        result["x-kubernetes-preserve-unknown-fields"] = True
    return result


def fields(schema, path=""):
    """Yield (path, schema) of a schema and all below it."""
    yield path, schema
    for name, inner in schema.get("properties", {}).items():
        yield from fields(inner, f"{path}.{name}")
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            yield from fields(schema[key], f"{path}[]")


@pytest.mark.parametrize("kind", CHARTS)
def test_the_spec_is_the_charts_schema(kind):
    values = json.loads((ROOT / f"charts/{CHARTS[kind]}/values.schema.json").read_text())
    spec = structural(values, values["definitions"])
    spec["description"] = part(kind, "spec")["description"]
    assert part(kind, "spec") == spec


@pytest.mark.parametrize("kind", CHARTS)
def test_defaults_are_left_to_the_chart(kind):
    assert [path for path, schema in fields(part(kind, "spec")) if "default" in schema] == []


@pytest.mark.parametrize("kind", CHARTS)
def test_every_field_is_described(kind):
    undescribed = [
        path
        for path, schema in fields(version(kind)["schema"]["openAPIV3Schema"])
        if not path.endswith("[]") and "description" not in schema
    ]
    assert undescribed in ([], [".metadata"])


def test_all_kinds_have_the_same_status():
    assert part("Webapp", "status") == part("Memcached", "status")
    assert version("Webapp")["additionalPrinterColumns"] == version("Memcached")["additionalPrinterColumns"]


def test_the_status_holds_the_whole_contract():
    names = {path for path, _ in fields(part("Webapp", "status"))}
    assert names >= {
        ".observedGeneration",
        *(f".conditions[].{name}" for name in ("type", "status", "reason", "message", "lastTransitionTime")),
        ".conditions[].observedGeneration",
        *(f".conditions[].release.{name}" for name in ("name", "namespace", "revision", "chart", "status")),
        *(f".deployedRelease.{name}" for name in ("name", "namespace", "revision", "status", "valuesDigest")),
        *(f".deployedRelease.{name}" for name in ("firstDeployed", "lastDeployed")),
        *(f".deployedRelease.chart.{name}" for name in ("name", "version", "appVersion", "digest")),
        *(f".deployedRelease.resources[].{name}" for name in ("apiVersion", "kind", "namespace", "name")),
        *(f".lastAttempt.{name}" for name in ("action", "because", "revision", "startedAt", "finishedAt")),
        *(f".lastAttempt.{name}" for name in ("succeeded", "failures", "nextAttemptAt", "error", "inputDigest")),
        *(f".history[].{name}" for name in ("revision", "chartVersion", "status", "digest", "deployedAt")),
        *(f".adoption.{name}" for name in ("token", "revision")),
    }


@pytest.mark.parametrize("kind", CHARTS)
def test_the_status_keeps_what_it_does_not_know(kind):
    status = part(kind, "status")
    for schema in (status, status["properties"]["conditions"]["items"], status["properties"]["lastAttempt"]):
        assert schema["x-kubernetes-preserve-unknown-fields"] is True


@pytest.mark.parametrize("kind", CHARTS)
def test_conditions_merge_by_type(kind):
    conditions = part(kind, "status")["properties"]["conditions"]
    assert conditions["x-kubernetes-list-type"] == "map"
    assert conditions["x-kubernetes-list-map-keys"] == ["type"]
    assert conditions["items"]["properties"]["status"]["enum"] == ["True", "False", "Unknown"]


@pytest.mark.parametrize("kind", CHARTS)
def test_the_status_is_a_subresource(kind):
    definition = crd(kind)["spec"]
    assert (definition["group"], definition["scope"], definition["names"]["kind"]) == (GROUP, "Namespaced", kind)
    assert version(kind)["subresources"] == {"status": {}}


@pytest.mark.parametrize("kind", CHARTS)
def test_every_printer_column_shows_a_field(kind):
    columns = version(kind)["additionalPrinterColumns"]
    paths = {path for path, _ in fields(version(kind)["schema"]["openAPIV3Schema"])}
    paths.add(".metadata.creationTimestamp")
    assert {column["name"] for column in columns} >= {"Ready", "Deployed", "Version", "Revision", "Reason", "Age"}
    for column in columns:
        assert re.sub(r"\[\?\(.*?\)]", "[]", column["jsonPath"]) in paths, column


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.name)
def test_samples_are_of_a_watched_kind(path):
    watched = {(f"{entry['group']}/{entry['version']}", entry["kind"]) for entry in load(ROOT / "watches.yaml")}
    if path.name != "kustomization.yaml":
        sample = load(path)
        assert (sample["apiVersion"], sample["kind"]) in watched


def kubectl(*arguments):
    return subprocess.run(["kubectl", *arguments], capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture(scope="module")
def _crds():
    for kind in CHARTS:
        applied = kubectl("apply", "--server-side", "-f", str(ROOT / f"crds/{GROUP}_{kind.lower()}s.yaml"))
        assert applied.returncode == 0, applied.stderr
        assert "Warning" not in applied.stderr
        name = crd(kind)["metadata"]["name"]
        eventually(lambda name=name: _established(name))


def _established(name):
    done = kubectl("wait", "--for=condition=Established", "--timeout=10s", f"crd/{name}")
    assert done.returncode == 0, done.stderr  # It fails at once where there are no conditions yet.


@pytest.mark.cluster
@pytest.mark.usefixtures("_crds")
@pytest.mark.parametrize(
    "path", [path for path in SAMPLES if path.name != "kustomization.yaml"], ids=lambda path: path.name
)
def test_the_api_server_takes_the_samples(path):
    answer = kubectl("apply", "--server-side", "--dry-run=server", "--validate=strict", "-f", str(path))
    assert answer.returncode == 0, answer.stderr
    assert "Warning" not in answer.stderr


def nulls(schema):
    """Return values with a null wherever the schema allows one, and as deep as it can be."""
    return {
        name: nulls(inner) if "properties" in inner else None
        for name, inner in schema["properties"].items()
        if "properties" in inner or inner.get("nullable")
    }


@pytest.mark.cluster
@pytest.mark.usefixtures("_crds")
@pytest.mark.parametrize("kind", CHARTS)
def test_the_api_server_keeps_every_null(tmp_path, kind):
    given = nulls(part(kind, "spec"))
    custom = {"apiVersion": f"{GROUP}/v1alpha1", "kind": kind, "metadata": {"name": "null"}, "spec": given}
    (tmp_path / "cr.json").write_text(json.dumps(custom))
    answer = kubectl("create", "--dry-run=server", "-o", "json", "-f", str(tmp_path / "cr.json"))
    assert answer.returncode == 0, answer.stderr
    assert json.loads(answer.stdout)["spec"] == given
