"""watches.yaml: which kinds are watched, and with which charts. Strict, and all mistakes are told at once."""

from helm_operator.overrides import Override, apply_overrides
from helm_operator.watches.model import Watch, Watches
from helm_operator.watches.reading import load_watches

__all__ = ["Override", "Watch", "Watches", "apply_overrides", "load_watches"]
