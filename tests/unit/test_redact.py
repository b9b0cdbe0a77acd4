"""No Secret value in a text that people see."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helm_operator.helm import redact, secret_strings, sensitive_strings


def test_plain_base64_and_escaped_forms():
    secret = 'Zq9 "top"\nline'
    encoded = base64.b64encode(secret.encode()).decode()
    for text in (secret, encoded, 'Zq9 \\"top\\"\\nline'):
        assert redact(f"got {text}, want int", {secret}) == "got ***, want int"


def test_the_longest_goes_first():
    assert redact("password-long and password", {"password", "password-long"}) == "*** and ***"


def test_each_line_of_a_long_secret():
    key = "-----BEGIN KEY-----\nMIIEvQIBADANBg\nq83vEjRWeJCr\n-----END KEY-----"
    assert redact("yaml: line 3: could not find MIIEvQIBADANBg", {key}) == "yaml: line 3: could not find ***"


def test_short_secrets_go_as_words_only():
    assert redact("web-cfg: web is not a website", {"web"}) == "***-cfg: *** is not a website"
    assert redact("is true: ok of 10", {"true", "ok", "10", ""}) == "is true: ok of 10"


@given(st.text(min_size=8), st.text(), st.text())
def test_a_long_secret_never_shows(secret, before, after):
    text = redact(before + secret + after, {secret})
    assert secret.strip() == "" or len(secret.strip()) < 3 or secret not in text


def test_strings_of_secrets():
    encoded = base64.b64encode(b"s3cr3t-Zq9").decode()
    objects = [
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "data": {"a": encoded, "bytes": "/w==", "bad": "%%"},
            "stringData": {"b": "x"},
        },
        {"apiVersion": "v1", "kind": "Secret", "data": None},
        {"apiVersion": "v1", "kind": "ConfigMap", "data": {"c": "shown"}},
        {"apiVersion": "example.com/v1", "kind": "Secret", "stringData": {"d": "theirs"}},
    ]
    assert secret_strings(objects) == {encoded, "s3cr3t-Zq9", "/w==", "%%", "x"}


@pytest.mark.parametrize(
    "values",
    [
        {"password": "hidden"},
        {"db": {"rootPassword": "hidden"}},
        {"DB_PASSWORD": "hidden"},
        {"auth": [{"token": "hidden"}]},
        {"secrets": {"any": ["hidden"]}},
        {"apiKey": "hidden"},
        {"AWS_SECRET_ACCESS_KEY": "hidden"},
        {"tls": {"private-key": "hidden"}},
        {"pin": "hidden"},
        {"credentials": {"a": {"b": "hidden"}}},
    ],
)
def test_sensitive_names(values):
    assert sensitive_strings(values) == {"hidden"}


@pytest.mark.parametrize(
    "values",
    [
        {"existingSecret": "name"},
        {"secretName": "name"},
        {"imagePullSecrets": [{"name": "regcred"}]},
        {"secretKeyRef": {"name": "a", "key": "password"}},
        {"topologyKey": "kubernetes.io/hostname"},
        {"tolerations": [{"key": "node", "operator": "Exists"}]},
        {"automountServiceAccountToken": True},
        {"tokenPath": "/var/run"},
        {"colour": "red", "monkey": "ape"},
        {"secret": {"create": True, "name": "x", "annotations": {"a": "b"}}},
    ],
)
def test_references_and_ordinary_names_are_not(values):
    assert sensitive_strings(values) == set()


def test_numbers_and_long_keys_count():
    assert sensitive_strings({"pin": 12345678, "tls": {"key": "a" * 20}}) == {"12345678", "a" * 20}
