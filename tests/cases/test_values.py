"""Cases 01, 02, 04, 05, 06, 07: what goes in as spec comes out in the templates."""

import base64
import json
import os

import pytest
import yaml

pytestmark = [pytest.mark.cluster, pytest.mark.helm]


def test_case_01_big_integers_and_number_like_keys_arrive_unchanged(make_lab):
    lab = make_lab("01")
    lab.start()
    lab.create("cr.json")
    lab.deployed("nums", revision=1)

    data = lab.data("nums-nums")
    assert data["plain"] == data["cast"] == "104857600"
    assert (data["port"], data["ratio"]) == ("8080", "0.5")
    everything = yaml.safe_load(data["all.yaml"])
    assert everything["big"] == 9007199254740993
    assert everything["weights"] == {"50": "changed", "90": "new"}

    spec = lab.cr("nums")["spec"]
    lab.set_spec("nums", {**spec, "maxBytes": 104857601})
    lab.deployed("nums", revision=2)
    assert lab.data("nums-nums")["plain"] == "104857601"
    lab.stays_quiet("nums")


def test_case_02_a_null_takes_a_chart_default_away_and_an_empty_spec_brings_it_back(make_lab):
    lab = make_lab("02")
    lab.start()
    lab.create("cr.json")
    lab.deployed("nul", revision=1)
    without = {"probe": "false", "cpu": "false", "memory": "1Gi"}
    assert lab.data("nul-top") == without
    assert lab.data("nul-kid") == {"has": "false"}
    lab.stays_quiet("nul")

    spec = lab.cr("nul")["spec"]
    lab.set_spec("nul", {})
    lab.deployed("nul", revision=2)
    assert lab.data("nul-top") == {"probe": "true", "cpu": "true", "memory": "1Gi"}
    assert lab.data("nul-kid") == {"has": "true"}

    lab.set_spec("nul", spec)
    lab.deployed("nul", revision=3)
    assert lab.data("nul-top") == without


def test_case_04_no_character_of_a_value_is_evaluated_lost_or_shown(make_lab):
    lab = make_lab("04")
    lab.start("--zap-log-level=debug")
    lab.create("cr.json")
    lab.deployed("odd", revision=1)
    odd = lab.cr("odd")["spec"]["odd"]

    def stored():
        return {key: base64.b64decode(text).decode() for key, text in lab.data("odd-odd", "secrets").items()}

    assert stored() == odd
    changed = {**odd, "comma": "ns1,ns2,ns3"}
    lab.set_spec("odd", {"odd": changed})
    lab.deployed("odd", revision=2)
    assert stored() == changed
    lab.stays_quiet("odd", periods=2)

    shown = lab.log + json.dumps(lab.cr("odd")["status"]) + json.dumps(lab.api.items(lab.core("events")))
    for value in odd.values():
        assert value not in shown
        assert json.dumps(value)[1:-1] not in shown
    lab.delete("odd")
    lab.gone("odd")


def test_case_05_overrides_keep_their_types_and_switch_aliased_subcharts(make_lab):
    lab = make_lab("05")
    operator = lab.start()
    lab.create()
    lab.deployed("ov", revision=1)

    main = lab.data("ov-main")
    assert (main["replicas"], main["tag"]) == ("3", "0755")
    assert lab.data("ov-cache") == {"site": "south"}
    assert lab.object("configmaps", "ov-spare") is None
    operator.says("overrideValues set .*cache.enabled.*replicas")


def test_case_06_environment_variables_in_overrides_are_expanded_once(make_lab):
    lab = make_lab("06")
    password = "p$5,{x}=y $HOME"
    env = {"WATCHED": "ns1,ns2", "DB_PASSWORD": password, "REGISTRY": "r.example", "TAG": "1e3"}
    operator = lab.start("--zap-log-level=debug", env=env)
    lab.create()
    lab.deployed("env", revision=1)

    data = {key: base64.b64decode(text).decode() for key, text in lab.data("env-env", "secrets").items()}
    assert data == {
        "watched": "ns1,ns2",
        "password": password,
        "literal": "cost-$5",
        "missing": "",
        "joined": "r.example/app:1e3",
    }
    operator.says("NOT_SET_ANYWHERE")
    shown = lab.log + json.dumps(lab.cr("env")) + json.dumps(lab.api.items(lab.core("events")))
    assert password not in shown


def test_case_07_no_spec_a_null_spec_and_an_empty_spec_mean_the_defaults(make_lab):
    lab = make_lab("07")
    lab.start()
    lab.create()
    for name in ("absent", "empty", "nothing"):
        lab.deployed(name, revision=1)
        assert lab.data(f"{name}-cfg") == {"colour": "blue"}

    before = lab.snapshot("empty", "nothing")
    lab.set_spec("absent", {"colour": "red"})
    lab.deployed("absent", revision=2)
    assert lab.data("absent-cfg") == {"colour": "red"}
    lab.api.patch(lab.path("absent"), [{"op": "remove", "path": "/spec"}], "application/json-patch+json")
    lab.deployed("absent", revision=3)
    assert lab.data("absent-cfg") == {"colour": "blue"}

    after = lab.snapshot("empty", "nothing")
    assert [after["cr", name] for name in ("empty", "nothing")] == [before["cr", name] for name in ("empty", "nothing")]
    assert '"level": "error"' not in lab.log


HOSTILE = {
    "keys": {
        "{{ .Values }}": "a",
        "$(id)": "b",
        "two\nlines": "c",
        "quotes \" and '": "d",
        "yes": "e",
        "null": "f",
        "1e3": "g",
        "a.b[0],c=d": "h",
        "<<": {"x": "y"},
        "&anchor": "*alias",
        "---": "...",
        "k" * 1500: "long",
    },
    "words": ["yes", "~", "0x1f", "1_000", "2026-01-01", "<<", "!!int 1", "*a", "# no comment", "- a\n- b", "\u2028"],
    "deep": json.loads("[" * 150 + "]" * 150),
    "large": {str(number): "text that packs well " * 10 for number in range(4000)},
}


def test_hostile_specs_arrive_unchanged_or_are_refused_and_harm_nobody_else(make_lab):
    lab = make_lab("04")
    lab.start()
    odd = {"word": "plain"}
    bad = {
        "too-deep-path": {"a": json.loads('{"a":' * 40 + "1000001" + "}" * 40)},
        "too-much": {"noise": base64.b64encode(os.urandom(900_000)).decode()},
    }
    for name, spec in {**HOSTILE, **bad, "calm": {}}.items():
        wrapped = {name: spec} if not isinstance(spec, dict) else spec
        body = {"apiVersion": f"{lab.group}/v1alpha1", "kind": "Widget", "metadata": {"name": name}}
        lab.api.post(lab.path(), {**body, "spec": {"odd": odd, "hostile": wrapped}})
    for name in ("calm", *HOSTILE):
        lab.deployed(name, revision=1, timeout=90)
        spec = lab.cr(name)["spec"]
        assert json.loads(lab.helm("get", "values", name, "--output=json")) == spec
    lab.reaches("too-deep-path", Irreconcilable="True", Stalled="True", says=["hostile"], timeout=60)
    lab.reaches("too-much", Irreconcilable="True", Stalled="True", says=["1048576", "values: "], timeout=60)
    assert {lab.conditions(name)["Irreconcilable"]["reason"] for name in bad} == {"InvalidValues", "ReleaseTooLarge"}
    assert [lab.records(name) for name in bad] == [[], []]
    lab.set_spec("too-much", {"odd": odd})
    lab.deployed("too-much", revision=1)
