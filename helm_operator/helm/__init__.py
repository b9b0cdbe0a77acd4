"""What the operator asks of Helm, and what it reads of Helm's records; the only importer of pyhelm3."""

from helm_operator.helm.cli import HelmCli
from helm_operator.helm.port import Helm
from helm_operator.helm.records import decode_release, kept, mark_failed
from helm_operator.helm.redact import redact, secret_strings, sensitive_strings

__all__ = [
    "Helm",
    "HelmCli",
    "decode_release",
    "kept",
    "mark_failed",
    "redact",
    "secret_strings",
    "sensitive_strings",
]
