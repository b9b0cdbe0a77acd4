"""From helm's standard error to HelmError: which kind it is, and what the reader needs of it. Pure.

The texts are those of Helm 3.22 and 4.3; tests/stderr holds recorded ones of both.
"""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Callable
from typing import Final

from helm_operator.errors import HelmError, HelmErrorKind
from helm_operator.helm.sizes import ADVICE, LIMIT

MAX_MESSAGE: Final = 4096
"""Bytes of a message, in UTF-8."""
MAX_OUTPUT: Final = 65_536
"""Characters of standard error that are kept for the debug log."""

_LOG_LINE: Final = re.compile(
    r"level=(DEBUG|INFO|WARN|ERROR) |WARNING: |[IWEF]\d{4} \d\d:\d\d:\d\d|\S+\.go:\d+: |\d{4}/\d\d/\d\d \d\d:\d\d:\d\d "
)
_TRAILER: Final = re.compile(r"^(Usage:|helm\.go:\d+: |See 'helm )", re.MULTILINE)
_FAILED: Final = re.compile(r"(INSTALLATION|UPGRADE|ROLLBACK) FAILED: ")
_WRAPPING: Final = re.compile(r"unable to continue with (install|update): |an error occurred while ", re.IGNORECASE)
_COUNTED: Final = re.compile(r"\d+ errors? occurred:\n")
_BULKY: Final = re.compile(r'(Invalid value: )(?:[{\[].*|map\[.*|"(?:[^"\\]|\\.){200,}"|[^\s:"{\[]{200,})(?=: )')
_WHOLE_OBJECT: Final = re.compile(r"(?<= is missing in ')\{.*\}(?=')")
_DELETE_FAILED: Final = re.compile(
    r'msg="uninstall: Failed to delete release" error=(".*"|\S+)$|\[debug\] uninstall: Failed to delete release: (.*)$',
    re.MULTILINE,
)
_WAIT_FOR_HOOKS_ONLY: Final = frozenset({"uninstall", "rollback"})
"""Helm does not say that it was a hook here; but as we run these, they wait for nothing else."""
_HOOK_RESULT: Final = re.compile(
    r"^(uninstallation completed with .*: )?"
    r"(timed out waiting for the condition|job \S+ failed: |pod \S+ failed|resource \S+ not ready\. status: )",
    re.MULTILINE,
)
_OBJECT_IN_THE_WAY: Final = re.compile(r'\w+ "[^"]*"(?: in namespace "[^"]*")?(?= exists and cannot be imported)')
_OWNER: Final = re.compile(r'key "([^"]+)" must equal "[^"]*": current value is "([^"]*)"')
_NO_DEPLOYED: Final = re.compile(r'("[^"]*") has no deployed releases')
_ALREADY_GONE: Final = re.compile(r"\Athe release named (\S+) is already deleted")
_NOT_LOADED: Final = re.compile(r"Release not loaded: ([^:]+): ")
_NOT_READY: Final = re.compile(r"(context deadline exceeded|timed out waiting for the condition)$", re.MULTILINE)


def helm_error(stderr: str, code: int, *, verb: str = "") -> HelmError:
    """Return the error for a helm that ended with exit code `code`; negative is minus a signal's number."""
    body = _body(stderr)
    output = stderr[:MAX_OUTPUT]
    if code < 0:
        message = f"helm was killed by {_signal_name(-code)}" + (" (out of memory?)" if code == -signal.SIGKILL else "")
        return HelmError(message, kind=HelmErrorKind.CRASHED, output=output)
    if verb in _WAIT_FOR_HOOKS_ONLY and _HOOK_RESULT.search(body):
        return HelmError(_cut(f"a hook failed: {_hook(body)}"), kind=HelmErrorKind.HOOK, output=output)
    for pattern, kind, rewrite in _RULES:
        if pattern.search(body):
            return HelmError(_cut(rewrite(body) if rewrite else body), kind=kind, output=output)
    message = body or f"helm failed with exit code {code} and did not say why"
    return HelmError(_cut(message), kind=HelmErrorKind.OTHER, output=output)


def _body(stderr: str) -> str:
    """Return the newest error in `stderr` without what Helm wraps around it."""
    text = stderr.replace("\r\n", "\n")
    at = max(text.rfind("\nError: "), 0 if text.startswith("Error: ") else -1)
    if at >= 0:
        text = text[at:].lstrip("\n").removeprefix("Error: ")
        if trailer := _TRAILER.search(text):
            text = text[: trailer.start()]
    lines = [line.rstrip() for line in text.splitlines() if not _LOG_LINE.match(line)]
    text = _FAILED.sub("", "\n".join(lines).strip(), count=1)
    text = _WRAPPING.sub("", text, count=1)
    if text.startswith("failed to delete release: ") and (found := _DELETE_FAILED.search(stderr)):
        # Helm tells the cause to its debug log alone, which is why uninstall runs with --debug.
        text = (_unquoted(found[1]) if found[1] else found[2]).removeprefix("[").removesuffix("]")
    # Whole objects say little, and may be Secrets.
    return _BULKY.sub(r"\1…", _WHOLE_OBJECT.sub("…", _uncounted(text)))


def _uncounted(text: str) -> str:
    r"""Return Helm 3's `2 errors occurred:\n\t* a\n\t* b` as lines."""
    found = _COUNTED.search(text)
    if not found:
        return text
    items = [line.strip().removeprefix("* ") for line in text[found.end() :].splitlines()]
    return text[: found.start()] + "\n".join(item for item in items if item)


def _unquoted(text: str) -> str:
    try:
        return str(json.loads(text))
    except ValueError:
        return text.strip('"')


def _ownership(body: str) -> str:
    found = _OBJECT_IN_THE_WAY.search(body)
    if not found:
        return body
    owner = {key.rpartition("/")[2]: value for key, value in _OWNER.findall(body)}
    whose = "it has no owner in Helm's labels and annotations"
    if owner.get("managed-by"):
        whose = f"it is managed by {owner['managed-by']}"
    elif "release-name" in owner or "release-namespace" in owner:
        name = f"release {owner['release-name']}" if "release-name" in owner else "a release of the same name"
        space = f" in namespace {owner['release-namespace']}" if "release-namespace" in owner else ""
        whose = f"it belongs to {name}{space}"
    return f"{found[0]} exists, and its ownership is not this release's: {whose}"


def _timeout(body: str) -> str:
    waiting = _NOT_READY.sub("", body).strip()
    return f"timed out: {waiting}" if waiting else "timed out before all objects were ready"


def _hook(body: str) -> str:
    return _NOT_READY.sub("timed out", body).strip()


def _interrupted(body: str) -> str:
    return "helm was interrupted" if body == "context canceled" else f"helm was interrupted: {body}"


def _crash(body: str) -> str:
    return f"helm crashed: {body.splitlines()[0]}"


def _record_too_large(_body: str) -> str:
    return (
        "the release is too large for its record: Helm keeps chart, values and manifest in one Secret of at most "
        f"{LIMIT} bytes, and the API server refused it. {ADVICE}, or have the chart make fewer or smaller objects"
    )


def _no_release(body: str) -> str:
    if found := _NO_DEPLOYED.search(body):
        return f"release {found[1]} does not exist, or no revision of it was ever deployed"
    if found := _ALREADY_GONE.search(body):
        return f"release {found[1]} is uninstalled already; only its history is left"
    found = _NOT_LOADED.search(body)
    return f'release "{found[1]}" does not exist' if found else "the release does not exist"


def _rule(
    pattern: str, kind: HelmErrorKind, rewrite: Callable[[str], str] | None = None
) -> tuple[re.Pattern[str], HelmErrorKind, Callable[[str], str] | None]:
    return re.compile(pattern, re.IGNORECASE | re.MULTILINE), kind, rewrite


# The first match wins. What chart authors write may say anything, so the kinds that carry their words come first, and
# are told by how Helm begins. A webhook that is down must not look like an API server that is down, nor a quota like
# a missing permission.
_RULES: Final = (
    _rule(r"\A(panic|fatal error|runtime): ", HelmErrorKind.CRASHED, _crash),
    _rule(
        r"\Avalues don't meet the specifications|\Afailed to parse -: |\Afailed pars(ing|e) --set", HelmErrorKind.VALUES
    ),
    _rule(
        r"\A(execution error at|parse error at|template: |YAML parse error on|\S+/templates/\S+:\d+:\d+$)"
        r"|\A(render error in|rendered manifests contain)"
        r"|\Aunable to build kubernetes objects from release manifest: (error parsing|unable to decode|Object ')",
        HelmErrorKind.RENDER,
    ),
    _rule(r"exists and cannot be imported into the current release", HelmErrorKind.OWNERSHIP, _ownership),
    _rule(r"another operation \(install/upgrade/rollback\) is in progress", HelmErrorKind.LOCKED),
    _rule(r"cannot re-?use a name that is still in use", HelmErrorKind.NAME_IN_USE),
    _rule(
        r"release: not found|has no deployed releases|\Athe release named \S+ is already deleted",
        HelmErrorKind.NOT_FOUND,
        _no_release,
    ),
    _rule(r"context canceled", HelmErrorKind.CANCELLED, _interrupted),
    _rule(r"\A(failed (pre|post)-|.*\bhooks? failed: |.*\bHook \S+ \S+ failed: )", HelmErrorKind.HOOK, _hook),
    # Only the record: an object of the chart that is too large is as invalid as any other one.
    _rule(
        r"\A(create|update): failed to (create|update): (Request entity too large"
        r"|Secret \"sh\.helm\.release\.v1\.[^\"]+\" is invalid: data: Too long|etcdserver: request is too large)",
        HelmErrorKind.TOO_LARGE,
        _record_too_large,
    ),
    _rule(
        r"failed calling webhook|admission webhook .* denied|denied request|exceeded quota"
        r"|request entity too large|request is too large",
        HelmErrorKind.INVALID,
    ),
    _rule(r"namespaces? \S+ not found|because it is being terminated", HelmErrorKind.NAMESPACE),
    _rule(
        r"cannot \S+ resource|asked for the client to provide credentials|\bUnauthorized\b|attempting to grant RBAC",
        HelmErrorKind.FORBIDDEN,
    ),
    _rule(r"Apply failed with \d+ conflicts?: ", HelmErrorKind.FIELD_CONFLICT),
    _rule(r"no matches for kind|could not find the requested resource", HelmErrorKind.UNKNOWN_KIND),
    _rule(
        r"cluster unreachable|connection (refused|reset)|no such host|i/o timeout|TLS handshake timeout|etcdserver:"
        r"|client connection lost|stream error|unexpected EOF|: EOF$|currently unable to handle the request"
        r"|network is unreachable|no route to host|broken pipe|Client\.Timeout exceeded|apiserver not ready"
        r"|unable to return a response in the time allotted|too many requests|server is overloaded",
        HelmErrorKind.UNREACHABLE,
    ),
    _rule(r"context deadline exceeded|timed out waiting for the condition", HelmErrorKind.TIMEOUT, _timeout),
    _rule(
        r"is invalid: |is forbidden: |field not declared in schema|failed to create typed patch|cannot be handled as a"
        r"|error validating|resource name may not be empty|invalid release name|field is immutable|is immutable",
        HelmErrorKind.INVALID,
    ),
    _rule(
        r"\Achart requires kubeVersion|\Alibrary charts are not|\Apath \".*\" not found|Chart\.yaml|chart archive"
        r"|\Acannot load |\Avalidation: |chart dependencies|not appear to be a gzipped archive|chart\.metadata",
        HelmErrorKind.CHART,
    ),
)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _cut(text: str) -> str:
    """Return `text` within MAX_MESSAGE bytes: its middle goes, for the cause is at the end."""
    raw = text.encode(errors="replace")
    if len(raw) <= MAX_MESSAGE:
        return raw.decode()
    head, tail = raw[: MAX_MESSAGE // 3], raw[-(MAX_MESSAGE * 2 // 3 - 16) :]
    return f"{head.decode(errors='ignore')} … {tail.decode(errors='ignore')}"
