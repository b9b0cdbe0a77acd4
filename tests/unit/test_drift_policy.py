import re

import pytest

from helm_operator.drift_policy import DriftPolicy, IgnoreRule, Target, parse_pointer
from helm_operator.release import ObjectRef
from helm_operator.selectors import LabelSelector

WEB = ObjectRef("apps/v1", "Deployment", "shop", "web")
CONFIG = ObjectRef("v1", "ConfigMap", "shop", "web-cfg")
ROLE = ObjectRef("rbac.authorization.k8s.io/v1", "ClusterRole", "", "web")


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("", ()),
        ("/spec/replicas", ("spec", "replicas")),
        ("/metadata/annotations/a~1b", ("metadata", "annotations", "a/b")),
        ("/data/~01", ("data", "~1")),
        ("/spec/ports/0/", ("spec", "ports", "0", "")),
    ],
)
def test_a_json_pointer_is_read(text, parts):
    assert parse_pointer(text) == parts


@pytest.mark.parametrize("text", ["spec/replicas", ".spec", "/a~", "/a~2b", "/a~/b"])
def test_what_is_no_json_pointer_is_refused(text):
    with pytest.raises(ValueError, match="is no JSON pointer"):
        parse_pointer(text)


@pytest.mark.parametrize(
    ("target", "fits"),
    [
        (Target(), {WEB, CONFIG, ROLE}),
        (Target(kind=re.compile("Deployment|ConfigMap")), {WEB, CONFIG}),
        (Target(name=re.compile("web")), {WEB, ROLE}),
        (Target(name=re.compile("web.*")), {WEB, CONFIG, ROLE}),
        (Target(group=re.compile("")), {CONFIG}),
        (Target(group=re.compile("apps"), version=re.compile("v1")), {WEB}),
        (Target(version=re.compile("v2")), set()),
        (Target(namespace=re.compile("")), {ROLE}),
        (Target(labels=LabelSelector.from_mapping({"matchLabels": {"tier": "web"}})), {WEB, CONFIG, ROLE}),
        (Target(labels=LabelSelector.from_mapping({"matchLabels": {"tier": "db"}})), set()),
    ],
)
def test_a_rule_is_for_the_objects_of_its_target(target, fits):
    policy = DriftPolicy(ignore=(IgnoreRule((("data",),), target),))
    assert {ref for ref in (WEB, CONFIG, ROLE) if policy.ignored(ref, {"tier": "web"})} == fits


def test_all_rules_that_fit_count():
    policy = DriftPolicy(ignore=(IgnoreRule((("a",), ("b",))), IgnoreRule((("c",),))))
    assert policy.ignored(WEB, {}) == (("a",), ("b",), ("c",))
