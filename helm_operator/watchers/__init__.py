"""Watches on release records and on the objects of releases, and their small caches."""

from helm_operator.watchers.dependents import Dependents
from helm_operator.watchers.reflector import Reflector, Sink
from helm_operator.watchers.releases import ReleaseCache

__all__ = [
    "Dependents",
    "Reflector",
    "ReleaseCache",
    "Sink",
]
