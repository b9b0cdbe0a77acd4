"""YAML as Helm reads it: Helm's own `fromYaml` is the judge of our parser."""

import base64
import json
import os
import subprocess

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from helm_operator.helm.manifest import parse_document

pytestmark = pytest.mark.helm

TEMPLATE = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: cases}
data:
{{- range $path, $_ := .Files.Glob "cases/*" }}
  {{ base $path }}: {{ $.Files.Get $path | fromYaml | toJson | b64enc }}
{{- end }}
"""
SCALARS = """
y n Y N yes no Yes on off On true TRUE tRue ~ null Null NULL 0 00 07 09 0o17 0O17 017 0777 08 0x1F 0X1f -0x1f
0x 0b101 -0b11 0b2 1_000 1__0 1_ _1 -_1 +5 -5 - + . .5 .5e3 -.5 +.5 1. 1.0 1.5 1e3 1E3 1e+3 1e5_0 1e22 1e20
1e18 1e19 .e5 .5_0 1e999 0x1p-2 2001-12-14 2001-12-14t21:59:43.10-05:00 12:30:45 190:20:30 9223372036854775807
9223372036854775808 18446744073709551616 -9223372036854775808 -9223372036854775809 1,000 1.2.3 = <<
123456789.5 1234567.5 0.0001 0.00001 1.5e-7 -0 -0.0 'y' "5" !!str=5 !!int="5" !!float=5 !!bool=yes
!!binary=aGk= !foo=5 !!timestamp=2001-01-01
""".split()  # noqa: SIM905 (a table of 110 words)
DOCUMENTS = [
    "a: 1\na: 2\n",
    "b: &x {k: 1, l: 2}\nc:\n  k: 0\n  <<: *x\n  l: 9\n",
    "b: &x {k: 1}\nd: &y {k: 2, z: 1}\nc:\n  <<: [*x, *y]\n",
    "a: |\n  x\n   y\n\nb: >-\n  x\n  y\n",
    "a: 'it''s'\nb: \"\\u00e9\\x41\\U0001F6DF\\n\"\n",
    "a: 1\n...\nb: 2\n",
    "a:\n- b\n- - c\n",
    "# nothing\n",
    '{"a": {"b": [1, "x", null, true]}}',
    '"<<": {a: 1}\n',
    "a: !!set {x, y}\n",
]


@pytest.fixture(params=["helm4", "helm3"])
def judge(request, tmp_path):
    helm = request.getfixturevalue(request.param)
    chart = tmp_path / "chart"
    (chart / "templates").mkdir(parents=True)
    (chart / "cases").mkdir()
    (chart / "Chart.yaml").write_text("apiVersion: v2\nname: chart\nversion: 0.1.0\n")
    (chart / "templates" / "cm.yaml").write_text(TEMPLATE)

    def run(documents):
        for old in (chart / "cases").iterdir():
            old.unlink()
        for number, text in enumerate(documents):
            (chart / "cases" / f"c{number:04}").write_bytes(text.encode())
        env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
        done = subprocess.run([helm, "template", "x", str(chart)], capture_output=True, check=False, env=env)
        assert done.returncode == 0, done.stderr.decode()
        data = yaml.safe_load(done.stdout)["data"]
        return [json.loads(base64.b64decode(data[name])) for name in sorted(data)]

    return run


def as_float64(value):
    """Return a value with its numbers as Helm's fromYaml has them: it makes float64 of all."""
    if isinstance(value, dict):
        return {key: as_float64(item) for key, item in value.items()}
    if isinstance(value, list):
        return [as_float64(item) for item in value]
    return float(value) if type(value) is int else value


def check(texts, answers):
    for text, answer in zip(texts, answers, strict=True):
        if isinstance(answer.get("Error"), str):
            with pytest.raises(ValueError, match="manifest"):
                parse_document(text)
        else:
            ours = as_float64(parse_document(text) or {})
            assert json.dumps(ours, sort_keys=True) == json.dumps(as_float64(answer), sort_keys=True), text


def test_every_scalar_means_what_it_means_to_helm(judge):
    scalars = [scalar.replace("=", " ", 1) if scalar.startswith("!") else scalar for scalar in SCALARS]
    texts = [f"a: {scalar}\n" for scalar in scalars] + [f"{scalar}: a\n" for scalar in scalars] + DOCUMENTS
    check(texts, judge(texts))


@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.text("0123456789abeEoxnyNY+-._:~<= ", min_size=1, max_size=8), min_size=20, max_size=60))
def test_made_up_scalars_too(judge, scalars):
    texts = [f"a: {scalar}\n" for scalar in scalars]
    check(texts, judge(texts))
