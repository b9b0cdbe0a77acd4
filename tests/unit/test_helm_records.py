"""What release Secrets hold: tests/helm/test_manifest.py has Helm's own judgement on the YAML."""

import base64
import gzip
import json

import pytest

from helm_operator.helm import decode_release, kept
from helm_operator.helm import records as module
from helm_operator.helm.manifest import parse_document, parse_manifest
from helm_operator.release import ChartInfo, ReleaseStatus

RECORD = {
    "name": "web",
    "namespace": "shop",
    "version": 4,
    "info": {
        "status": "deployed",
        "description": "Upgrade complete",
        "notes": "Visit",
        "first_deployed": "2026-11-30T09:00:00Z",
        "last_deployed": "2026-11-30T10:00:00Z",
    },
    "chart": {"metadata": {"name": "webapp", "version": "1.2.0", "appVersion": "1.27"}, "templates": []},
    "config": {"big": 9007199254740993},
    "manifest": "---\n# Source: a.yaml\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {a: 'yes'}\n",
    "hooks": [{"name": "h", "manifest": "kind: Job"}],
}


def pack(record, *, compress=gzip.compress):
    raw = compress(record if isinstance(record, bytes) else json.dumps(record).encode())
    return base64.b64encode(base64.b64encode(raw)).decode()


def test_a_record():
    content = decode_release(pack(RECORD))

    assert (content.revision, content.status) == (4, ReleaseStatus.DEPLOYED)
    assert (content.description, content.notes) == ("Upgrade complete", "Visit")
    assert content.chart == ChartInfo("webapp", "1.2.0", "1.27")
    assert content.values == {"big": 9007199254740993}
    assert (content.first_deployed, content.last_deployed) == ("2026-11-30T09:00:00Z", "2026-11-30T10:00:00Z")
    assert [item["data"] for item in content.objects] == [{"a": "yes"}]


def test_what_helm_leaves_out():
    content = decode_release(pack({"version": 1}))
    assert content.status is ReleaseStatus.UNKNOWN
    assert (content.values, content.objects, content.notes) == ({}, (), "")


def test_records_of_old_were_not_compressed():
    assert decode_release(pack(RECORD, compress=bytes)).revision == 4


@pytest.mark.parametrize(
    "payload",
    [
        "",
        "%%%",
        base64.b64encode(b"no base64!").decode(),
        pack(b"not json"),
        pack([1]),
        pack({"version": "1"}),
        pack({"version": 1, "manifest": "a: [\n"}),
        pack({"version": 1, "manifest": "just text\n"}),
        pack(b"x", compress=lambda raw: gzip.compress(raw)[:-4]),
        pack(b"x", compress=lambda raw: b"\x1f\x8b\x08rubbish"),
    ],
    ids=[
        "nothing",
        "no base64",
        "no base64 inside",
        "no JSON",
        "no object",
        "no revision",
        "a broken manifest",
        "a manifest without objects",
        "cut off",
        "no gzip behind the magic",
    ],
)
def test_rubbish_is_a_value_error(payload):
    with pytest.raises(ValueError, match=r"release record|manifest"):
        decode_release(payload)


def test_a_record_that_unpacks_to_too_much(monkeypatch):
    monkeypatch.setattr(module, "MAX_RECORD", 100)
    with pytest.raises(ValueError, match="over 100 bytes"):
        decode_release(pack(RECORD))


def test_lists_and_documents_without_objects():
    manifest = """\
---
# Source: chart/templates/b-comments.yaml
# nothing but a remark
---
---
# Source: chart/templates/c-list.yaml
apiVersion: v1
kind: List
items:
  - apiVersion: v1
    kind: ConfigMap
    metadata: {name: one}
  - apiVersion: v1
    kind: List
    items:
      - {apiVersion: v1, kind: Secret, metadata: {name: two}}
---
apiVersion: v1
kind: ConfigMapList
items: [{metadata: {name: three}}]
---
apiVersion: v1
kind: ConfigMap
metadata: {name: four}
data:
  text: |
    ---
    not a document: [
"""
    objects = parse_manifest(manifest)
    assert [(item["kind"], item["metadata"]["name"]) for item in objects] == [
        ("ConfigMap", "one"),
        ("Secret", "two"),
        ("ConfigMap", "three"),
        ("ConfigMap", "four"),
    ]
    assert objects[3]["data"]["text"] == "---\nnot a document: [\n"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("yes", True),
        ("n", False),
        ("Off", False),
        ("~", None),
        ("2026-11-30", "2026-11-30"),
        ("12:30:45", "12:30:45"),
        ("0644", 420),
        ("0o644", 420),
        ("1_000", 1000),
        ("9223372036854775807", 9223372036854775807),
        ("18446744073709551615", 18446744073709551616.0),
        ("1.0", 1),
        ("1e3", 1000),
        ("1.5", 1.5),
        ("'5'", "5"),
        ("!!str 5", "5"),
        ("=", "="),
    ],
)
def test_scalars_mean_what_they_mean_to_the_api_server(text, value):
    found = parse_document(f"a: {text}")["a"]
    assert found == value
    assert type(found) is type(value)


def test_keys_are_strings():
    assert parse_document("{80: a, y: b, 1.5: c, 0x10: d}") == {"80": "a", "true": "b", "1.5": "c", "16": "d"}


def test_of_a_key_that_comes_twice_the_last_counts():
    assert parse_document("a: 1\na: 2\n") == {"a": 2}


@pytest.mark.parametrize("text", ["a: &x [*x]", "~: a", "a: .nan", "[a]: b", "a: !!int x", "<<: 5", "a: !!binary '%'"])
def test_what_json_cannot_say(text):
    with pytest.raises(ValueError, match="the manifest"):
        parse_document(text)


def test_errors_do_not_quote_the_document():
    with pytest.raises(ValueError, match="cannot be parsed") as caught:
        parse_document('password: "s3cr3t-Zq9\nb: [')
    assert "s3cr3t" not in str(caught.value)


@pytest.mark.parametrize(
    ("annotations", "is_kept"),
    [
        ({"helm.sh/resource-policy": "keep"}, True),
        ({"helm.sh/resource-policy": " Keep "}, True),
        ({"helm.sh/resource-policy": "delete"}, False),
        ({}, False),
        (None, False),
    ],
)
def test_kept(annotations, is_kept):
    assert kept({"metadata": {"annotations": annotations}}) is is_kept
    assert kept({}) is False
