"""Values as charts see them, with `helm template` as the judge, on both Helm versions."""

import base64
import json
import os
import subprocess

import pytest
import yaml
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from helm_operator.helm.encode import encode
from helm_operator.values import merge

pytestmark = pytest.mark.helm

TEMPLATE = """\
{{- define "numbers" }}
{{- if kindIs "map" . }}{{ range . }}{{ include "numbers" . }}{{ end }}
{{- else if kindIs "slice" . }}{{ range . }}{{ include "numbers" . }}{{ end }}
{{- else if not (or (kindIs "string" .) (kindIs "bool" .) (kindIs "invalid" .)) }}{{ . }};{{ end }}
{{- end -}}
apiVersion: v1
kind: ConfigMap
metadata: {name: values}
data:
  json: {{ .Values | toJson | b64enc }}
  numbers: {{ include "numbers" .Values | quote }}
"""

NAMES = st.one_of(
    st.sampled_from(
        ["a", "b", "image", "tag", "yes", "y", "1", "null", "<<", "a.b", "x=y", "p[0]", "c,d", "\\", "{q}"]
    ),
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=6),
).filter(lambda name: "\0" not in name and name != "global")
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
INTEGERS = st.one_of(st.integers(-(2**63), 2**63 - 1), st.integers(-2_000_000, 2_000_000))
SCALARS = st.one_of(st.none(), st.booleans(), INTEGERS, TEXTS)


def trees(scalars):
    inner = st.recursive(
        scalars,
        lambda below: st.one_of(st.lists(below, max_size=3), st.dictionaries(NAMES, below, max_size=3)),
        max_leaves=8,
    )
    return st.dictionaries(NAMES, inner, max_size=4)


@pytest.fixture(params=["helm4", "helm3"])
def template(request, tmp_path):
    """Return what a chart with the given defaults makes of values: them as JSON, and its numbers as printed."""
    helm = request.getfixturevalue(request.param)
    chart = tmp_path / "chart"
    (chart / "templates").mkdir(parents=True)
    (chart / "Chart.yaml").write_text("apiVersion: v2\nname: chart\nversion: 0.1.0\n")
    (chart / "templates" / "cm.yaml").write_text(TEMPLATE)

    def run(values, defaults=None):
        (chart / "values.yaml").write_bytes(encode(defaults or {}).document)
        encoded = encode(values)
        done = subprocess.run(
            [helm, "template", "name", str(chart), *encoded.arguments],
            input=encoded.document,
            capture_output=True,
            check=False,
            env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
        )
        assert done.returncode == 0, done.stderr.decode()
        data = yaml.safe_load(done.stdout)["data"]
        return json.loads(base64.b64decode(data["json"])), data["numbers"].split(";")[:-1]

    return run


def expected(defaults, values):
    """Return what Helm makes of a chart's defaults and values: merged, and a null takes a default away."""
    merged = merge(defaults, values)
    result = {}
    for key, value in merged.items():
        below = defaults.get(key)
        if value is None and key in defaults:
            continue
        result[key] = expected(below, values[key]) if _both_maps(below, values.get(key)) else value
    return result


def _both_maps(*values):
    return all(isinstance(value, dict) for value in values)


def numbers(value):
    """Return the numbers of a tree as text, in the order in which Go walks it."""
    if isinstance(value, dict):
        return [text for key in sorted(value, key=str.encode) for text in numbers(value[key])]
    if isinstance(value, list):
        return [text for item in value for text in numbers(item)]
    return [str(value)] if isinstance(value, int) and not isinstance(value, bool) else []


def same(got, wanted):
    """Compare with the types: 1 is not true, and 1.0 is not 1."""
    assert json.dumps(got, sort_keys=True) == json.dumps(wanted, sort_keys=True)


PROPERTY = settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))


@PROPERTY
@given(values=trees(SCALARS))
@example(values={"odd": "\x7f\x85\u2028\ufeff\ud7ff\ue000\ufffd\U0001f6df\U0010ffff\0\x01\t\n\r\\\"'{{ .x }}"})
@example(values={"big": 2**63 - 1, "low": -(2**63), "million": 10**6, "less": 999_999, "deep": [[{"a.b": [10**7]}]]})
@example(values={"a" * 3000: 10**9, "\U0001f6df" * 400: {"x" * 1024: "y"}})
def test_charts_get_what_the_custom_resource_says(template, values):
    got, printed = template(values)
    same(got, values)
    assert printed == numbers(values)


@PROPERTY
@given(defaults=trees(st.one_of(st.booleans(), st.integers(-999, 999), TEXTS)), values=trees(SCALARS))
@example(defaults={"a": {"b": 1, "c": [1, 2]}, "d": 1}, values={"a": {"b": None, "c": [10**6]}, "d": None})
@example(defaults={"a": {"b": {"c": 1}}}, values={"a": {"b": {"c": 10**6, "e.f": 10**7}}})
@example(defaults={"a": {"b": 1}, "c": 2}, values={"a": 10**6, "c": {"d": 10**6}})
def test_helm_merges_them_over_the_defaults_as_we_think(template, defaults, values):
    got, _ = template(values, defaults)
    same(got, expected(defaults, values))


@pytest.mark.parametrize("value", [0.5, -0.0, 1e-7, 1e16, 1e21, 1.5e300, 123456789.25, 5e-324])
def test_floats_arrive_as_they_are(template, value):
    got, _ = template({"x": value})
    assert got["x"] == value


def test_a_subchart_gets_its_integers_and_nulls(template, tmp_path):
    kid = tmp_path / "chart" / "charts" / "kid"
    (kid / "templates").mkdir(parents=True)
    (kid / "Chart.yaml").write_text("apiVersion: v2\nname: kid\nversion: 0.1.0\n")
    (kid / "values.yaml").write_text("probe: {path: /kid}\nlimit: 5\n")
    (kid / "templates" / "fail.yaml").write_text(
        '{{ if or (hasKey .Values "probe") (ne (toString .Values.limit) "1048576") }}{{ fail "wrong" }}{{ end }}'
    )
    template({"kid": {"probe": None, "limit": 1048576}})


def test_as_many_big_integers_as_fit_on_a_command_line(template):
    values = {"list": list(range(10**6, 10**6 + 30_000))}
    got, printed = template(values)
    same(got, values)
    assert printed == numbers(values)


def test_the_line_break_at_the_end_of_a_full_buffer(template):
    size = len(encode({"x": ""}).document)
    values = {"x": "a" * (4096 * 2 - size)}
    assert len(encode(values).document) % 4096 == 0
    same(template(values)[0], values)
