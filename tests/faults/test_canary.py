"""Marked secrets go down every path, and are looked for in all that the operator says: none may turn up.

Looked through: the log at level debug, the words of every helm process, Events, and the custom resource without
its spec.
"""

import base64
import json
import secrets
import time
from pathlib import Path

import pytest
import yaml

from tests.cluster import eventually

pytestmark = [pytest.mark.cluster, pytest.mark.helm, pytest.mark.timeout(240)]

TALKATIVE = ("--zap-log-level=debug", "--retry-base=1s", "--retry-ceiling=4s")


class Canaries:
    """Makes secrets that share a mark, and finds that mark again: plain, or within base64 text."""

    def __init__(self):
        self.mark = f"CANARY{secrets.token_hex(8)}"
        self.numbers = []
        self.count = 0

    def new(self, *, tail=""):
        self.count += 1
        return f"{self.mark}-{self.count}{tail}"

    def number(self):
        self.numbers.append(secrets.randbelow(8 * 10**14) + 10**14)
        return self.numbers[-1]

    def needles(self):
        yield self.mark
        yield self.mark.lower()
        yield from map(str, self.numbers)
        for shift in range(3):
            # The middle of the text, which is the same whatever stands around it.
            yield base64.b64encode(b" " * shift + self.mark.encode()).decode()[4 if shift else 0 : -4]


def leaks(lab, needles, *more):
    """Return where the needles are found, with what stands around them."""
    token = yaml.safe_load(Path(lab.kubeconfig).read_text())["users"][0]["user"]["token"]
    found = []
    for place, text in _told(lab, *more):
        for needle in (*needles, token):
            at = text.find(needle)
            if at >= 0:
                found.append(f"{place}: …{text[max(0, at - 200) : at + 80]}…")
    return found


def _told(lab, *bodies):
    yield "log", lab.log
    words = lab.folder / "helm-words"
    yield "helm's words", words.read_text() if words.exists() else ""
    for event in lab.api.items(lab.core("events")):
        yield f"Event {event['reason']}", json.dumps(event, ensure_ascii=False)
    for body in [*lab.api.items(lab.path()), *bodies]:
        shown = {key: value for key, value in body.items() if key != "spec"}
        yield f"custom resource {body['metadata']['name']}", json.dumps(shown, ensure_ascii=False)


SECRET = """\
apiVersion: v1
kind: Secret
metadata: {name: "{{ .Release.Name }}-cred"}
stringData:
  password: {{ .Values.db.password | quote }}
  url: "postgres://app:{{ .Values.db.password }}@db/app"
  blob: {{ .Values.blob | default "none" | quote }}
  key: {{ .Values.privateKey | default "none" | quote }}
  pin: {{ .Values.db.pin | default 0 | quote }}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: "{{ .Release.Name }}-cfg"}
data: {ini: "password={{ .Values.db.password }}"}
---
apiVersion: v1
kind: Service
metadata: {name: "{{ .Release.Name }}-svc"}
spec: {ports: [{port: {{ .Values.port }}}]}
"""

BREAKS = """\
{{- $way := .Values.break | default "no" }}
{{- $password := .Values.db.password }}
{{- if eq $way "fail" }}{{ fail (printf "the password %s (%s) is bad" $password (b64enc $password)) }}{{ end }}
{{- if eq $way "dump" }}{{ fail (toYaml .Values) }}{{ end }}
{{- if eq $way "dump-json" }}{{ fail (toJson .Values) }}{{ end }}
{{- if eq $way "required" }}{{ required (printf "%q needs a host" $password) .Values.db.nohost }}{{ end }}
{{- if eq $way "int" }}{{ $x := mustToDate "2006" $password }}{{ end }}
{{- if eq $way "lookup" }}{{ index .Values.db $password "x" }}{{ end }}
{{- if eq $way "yaml" }}
a: {{ $password }}: {{ $password }}
 - {{ $password }}
{{- end }}
{{- if eq $way "name" }}
apiVersion: v1
kind: ConfigMap
metadata: {name: "x{{ $password }}"}
{{- end }}
{{- if eq $way "kind" }}
apiVersion: v1
kind: "{{ $password }}"
metadata: {name: x}
{{- end }}
{{- if eq $way "data" }}
apiVersion: v1
kind: Secret
metadata: {name: "{{ .Release.Name }}-data"}
data: {password: "{{ $password }}!"}
{{- end }}
{{- if eq $way "type" }}
apiVersion: v1
kind: Secret
metadata: {name: "{{ .Release.Name }}-data"}
stringData: {password: [{{ $password | quote }}]}
{{- end }}
{{- if eq $way "label" }}
apiVersion: v1
kind: ConfigMap
metadata: {name: "{{ .Release.Name }}-label", labels: {a: "{{ $password }} {{ $password }}"}}
{{- end }}
{{- if eq $way "hook" }}
apiVersion: v1
kind: Service
metadata:
  name: "{{ .Release.Name }}-hook"
  annotations: {helm.sh/hook: "pre-install,pre-upgrade", a: "{{ $password }}"}
spec: {externalName: "{{ $password }}!", type: ExternalName}
{{- end }}
"""

SCHEMA = {
    "type": "object",
    "properties": {
        "port": {"type": "integer"},
        "db": {"type": "object", "properties": {"password": {"type": "string", "not": {"pattern": "schema$"}}}},
        "mode": {"enum": ["fast", "slow"]},
        "apiToken": {"type": "integer"},
        "secretList": {"type": "array", "items": {"pattern": "^[a-z]+$"}},
    },
}

WAYS = [
    *("fail", "dump", "dump-json", "required", "int", "lookup", "yaml"),
    *("name", "kind", "data", "type", "label", "hook"),
]


ODD = ['"quoted"', "back\\slash", "ümläut", "tab\tline\nbreak", "<html>&amp;", "%41 $(id)", "🔑"]


@pytest.fixture
def stage(make_lab):
    lab = make_lab("48")
    for path in (lab.folder / "chart/templates").glob("*"):
        path.unlink()
    lab.write("chart/values.yaml", "port: 80\ndb: {password: changeme}\n")
    lab.write("chart/templates/all.yaml", SECRET)
    lab.write("chart/templates/breaks.yaml", BREAKS)
    lab.write("chart/values.schema.json", json.dumps(SCHEMA))
    notes = "Log in with {{ .Values.db.password }} or {{ .Values.db.password | b64enc }}, {{ .Values.blob }}.\n"
    lab.write("chart/templates/NOTES.txt", notes)
    lab.start(*TALKATIVE)
    return lab


def _post(lab, name, spec):
    body = lab.documents("cr.yaml")[0]
    lab.api.post(lab.path(), {**body, "metadata": {"name": name}, "spec": spec})


def test_no_path_shows_a_marked_secret(stage):
    lab, canaries = stage, Canaries()
    key = f"-----BEGIN KEY-----\n{canaries.new()}\n{canaries.new()}\n-----END KEY-----\n"

    def spec(**more):
        db = {"password": canaries.new(tail=more.pop("tail", "")), "user": "app"}
        return {"db": db, "blob": canaries.new(), "privateKey": key, **more}

    # Good: install with notes, an upgrade, a hand edit and a deletion that are put right.
    _post(lab, "good", spec())
    lab.deployed("good", revision=1)
    lab.set_spec("good", spec())
    lab.deployed("good", revision=2)
    wanted = lab.data("good-cred", "secrets")
    ini = lab.data("good-cfg")
    hand = base64.b64encode(canaries.new().encode()).decode()
    lab.api.patch(lab.core("secrets", "good-cred"), {"data": {"password": hand, "blob": hand}})
    lab.api.patch(lab.core("configmaps", "good-cfg"), {"data": {"ini": canaries.new()}})
    eventually(lambda: _equal(lab.data("good-cred", "secrets"), wanted))
    eventually(lambda: _equal(lab.data("good-cfg"), ini))
    lab.api.delete(lab.core("secrets", "good-cred"))
    eventually(lambda: _equal(lab.data("good-cred", "secrets"), wanted))
    _check(lab, canaries, "good")

    # Failed upgrades and installs, by each way in which a chart, Helm and the API server name what they got.
    for way in WAYS:
        lab.set_spec("good", spec(**{"break": way}))
        _fails(lab, "good")
        _check(lab, canaries, f"upgrade, {way}")
        _post(lab, f"bad-{way}", spec(**{"break": way}))
        _fails(lab, f"bad-{way}")
        _check(lab, canaries, f"install, {way}")
    for what in (
        {"tail": "schema"},
        {"mode": "quick"},
        {"apiToken": canaries.new()},
        {"secretList": [canaries.new()]},
        {"port": 0},
    ):
        lab.set_spec("good", spec(**what))
        _fails(lab, "good")
        _check(lab, canaries, f"upgrade, {what}")

    # Back to good, by hand-run helm, and away.
    lab.set_spec("good", spec())
    lab.deployed("good")
    chart = str(lab.folder / "chart")
    lab.helm("upgrade", "good", chart, "--set", f"db.password={canaries.new()}", "--force-conflicts")
    time.sleep(1)
    lab.deployed("good")
    lab.helm("uninstall", "good")
    time.sleep(1)
    lab.deployed("good")
    last = lab.cr("good")
    for name in ("good", *(f"bad-{way}" for way in WAYS)):
        lab.delete(name)
    for name in ("good", *(f"bad-{way}" for way in WAYS)):
        lab.gone(name, timeout=40)
    _check(lab, canaries, "deletion", last)
    assert canaries.count > 30


def test_secrets_with_odd_characters_are_not_shown_in_any_spelling(stage):
    lab, canaries = stage, Canaries()
    for number, odd in enumerate(
        ('"quoted"', "back\\slash", "ümläut", "tab\tline\nbreak", "<html>&amp;", "%41 $(id)", "🔑")
    ):
        name = f"odd-{number}"
        for way in ("dump", "dump-json", "fail", "required"):
            spec = {"db": {"password": canaries.new(tail=odd)}, "break": way}
            if lab.cr(name) is None:
                _post(lab, name, spec)
            else:
                lab.set_spec(name, spec)
            _fails(lab, name)
    _check(lab, canaries, "odd characters")


def test_case_37_secrets_stay_secret_and_repairs_write_real_bytes(make_lab):
    lab = make_lab("37")
    lab.start(*TALKATIVE)
    texts = ["s3cr3t-Zq9-top", "s3cr3t-Zq9-new", "stolen-Kx7"]
    needles = [*texts, *(base64.b64encode(text.encode()).decode().rstrip("=")[:-1] for text in texts)]
    lab.create()
    lab.deployed("hush", revision=1)
    assert len(json.dumps(lab.cr("hush"))) < 65_536
    cred, config = lab.data("hush-cred", "secrets"), lab.data("hush-cfg")
    assert base64.b64decode(cred["password"]) == b"s3cr3t-Zq9-top"
    stolen = base64.b64encode(b"stolen-Kx7").decode()
    lab.api.patch(lab.core("secrets", "hush-cred"), {"data": {"password": stolen}})
    lab.api.patch(lab.core("configmaps", "hush-cfg"), {"data": {"app.ini": "password=stolen-Kx7"}})
    eventually(lambda: _equal(lab.data("hush-cred", "secrets"), cred))
    eventually(lambda: _equal(lab.data("hush-cfg"), config))
    lab.set_spec("hush", {"password": "s3cr3t-Zq9-new", "notesSize": 90000})
    lab.deployed("hush", revision=2)
    assert base64.b64decode(lab.data("hush-cred", "secrets")["password"]) == b"s3cr3t-Zq9-new"
    assert "s3cr3t-Zq9-new" in lab.data("hush-cfg")["app.ini"]
    assert leaks(lab, needles) == []
    lab.set_spec("hush", {"password": "s3cr3t-Zq9-new", "notesSize": "many"})
    time.sleep(2)
    lab.set_spec("hush", {"password": "s3cr3t-Zq9-new", "notesSize": 10})
    lab.deployed("hush")
    last = lab.cr("hush")
    lab.delete("hush")
    lab.gone("hush")
    assert leaks(lab, needles, last) == []


def _fails(lab, name):
    """Wait until the newest spec failed."""

    def check():
        body = lab.cr(name)
        conditions = {entry["type"]: entry["status"] for entry in body.get("status", {}).get("conditions", [])}
        assert body["status"]["observedGeneration"] == body["metadata"]["generation"]
        assert "True" in (conditions.get("ReleaseFailed"), conditions.get("Irreconcilable")), body["status"]

    eventually(check, timeout=30)


def _check(lab, canaries, where, *more):
    assert leaks(lab, list(canaries.needles()), *more) == [], where


def _equal(one, other):
    assert one == other
