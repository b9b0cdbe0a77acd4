"""Watches on custom resources, release records and the objects of releases, and their small caches."""

from helm_operator.watchers.dependents import Coverage, Dependents
from helm_operator.watchers.reflector import Reflector, Sink
from helm_operator.watchers.releases import ReleaseCache
from helm_operator.watchers.resources import ResourceCache, ResourceKey

__all__ = [
    "Coverage",
    "Dependents",
    "Reflector",
    "ReleaseCache",
    "ResourceCache",
    "ResourceKey",
    "Sink",
]
