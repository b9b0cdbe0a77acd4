"""Keeping secrets out of texts that people and logs see. Pure."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from helm_operator.release import Json

MASK: Final = "***"
SHORTEST: Final = 3
"""Characters of the shortest secret that is masked; shorter ones would tear any text apart."""
WORD_LENGTH: Final = 8
"""Below this many characters a secret is masked only where it stands as a word of its own."""

_HARMLESS: Final = frozenset({"true", "false", "null", "none", "yes", "off"})
_WORDS: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_SECRET_WORDS: Final = frozenset(
    {"password", "passwords", "passwd", "passphrase", "pwd", "pass", "pin", "secret", "secrets", "token", "tokens"}
    | {"credential", "credentials", "apikey", "dsn", "htpasswd", "dockerconfigjson", "auths"}
)
_KEY_WORDS: Final = frozenset(
    {"api", "access", "private", "encryption", "signing", "ssh", "tls", "ssl", "license", "master", "shared", "session"}
)
_NOT_SECRET: Final = frozenset(
    {"name", "names", "namespace", "ref", "refs", "path", "paths", "file", "files", "dir", "mount", "class"}
    | {
        "enabled",
        "create",
        "length",
        "ttl",
        "url",
        "mode",
        "policy",
        "version",
        "labels",
        "annotations",
        "kind",
        "user",
    }
)
_LONG_KEY: Final = 20


def redact(text: str, secrets: Iterable[str]) -> str:
    """Return `text` with each of `secrets` as `***`: plain, base64, or escaped as in a quoted string.

    Of a secret of several lines each line counts as well. Secrets of one or two characters, and
    words like `true`, stay.
    """
    forms = {form for secret in secrets for form in _forms(secret) if form in text}
    for form in sorted(forms, key=lambda form: (-len(form), form)):
        if len(form) < WORD_LENGTH:
            text = re.sub(rf"(?<!\w){re.escape(form)}(?!\w)", MASK, text)
        else:
            text = text.replace(form, MASK)
    return text


def secret_strings(objects: Iterable[Json]) -> set[str]:
    """Return the strings of the Secrets among the objects of a manifest: as given, and decoded."""
    found: set[str] = set()
    for item in objects:
        if item.get("kind") != "Secret" or item.get("apiVersion") != "v1":
            continue
        for text in _texts(item.get("stringData")):
            found.add(text)
        for text in _texts(item.get("data")):
            found.add(text)
            try:
                found.add(base64.b64decode(text).decode())
            except (binascii.Error, UnicodeDecodeError):
                continue  # bytes cannot turn up in a text
    return found - {""}


def sensitive_strings(values: Mapping[str, Any]) -> set[str]:
    """Return the strings of chart values that, by their names, are secrets: `db.password`, `apiKey` ….

    References do not count: `existingSecret`, `secretName` and the like name objects.
    """
    return set(_sensitive(values, inside=False)) - {""}


def _forms(secret: str) -> Iterator[str]:
    for plain in {secret, secret.strip(), *_long_lines(secret)}:
        if len(plain) < SHORTEST or plain.lower() in _HARMLESS:
            continue
        yield plain
        quoted = json.dumps(plain, ensure_ascii=False)[1:-1]
        yield quoted
        # As Go writes JSON for web pages, and as JSON and YAML write what is not ASCII.
        yield quoted.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
        yield json.dumps(plain)[1:-1]
        yield "".join(
            char if char < "\x7f" or (char.isprintable() and ord(char) < 0x10000) else f"\\U{ord(char):08X}"
            for char in quoted
        )
        if len(plain) >= SHORTEST + 1:
            yield base64.b64encode(plain.encode(errors="surrogatepass")).decode()


def _long_lines(secret: str) -> list[str]:
    lines = [line.strip() for line in secret.splitlines()]
    return [line for line in lines if len(line) >= WORD_LENGTH] if len(lines) > 1 else []


def _sensitive(value: Any, *, inside: bool) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _sensitive(item, inside=_is_sensitive(str(key), item, inside=inside))
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _sensitive(item, inside=inside)
    elif inside and isinstance(value, str | int | float) and not isinstance(value, bool):
        yield str(value)


def _is_sensitive(key: str, value: Any, *, inside: bool) -> bool:
    words = [word.lower() for word in _WORDS.findall(key)]
    if not words or words[-1] in _NOT_SECRET or words[0] == "existing" or words[:2] == ["image", "pull"]:
        return inside and not words
    if inside or not _SECRET_WORDS.isdisjoint(words):
        return True
    if words[-1] in ("key", "keys"):
        # A lone `key` is as often the name of a label or an entry as it is a key.
        lone = len(words) == 1 and isinstance(value, str) and len(value) >= _LONG_KEY
        return lone or not _KEY_WORDS.isdisjoint(words)
    return False


def _texts(data: Any) -> Iterator[str]:
    if isinstance(data, Mapping):
        yield from (text for text in data.values() if isinstance(text, str))
