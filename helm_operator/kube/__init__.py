"""The only package that imports the kubernetes client."""

from helm_operator.kube.client import KubeClient
from helm_operator.kube.port import Credentials, Kube, Leases, Resource, WatchEvent
from helm_operator.kube.records import RELEASE_SELECTOR, record_from_metadata
from helm_operator.kube.transport import load_configuration

__all__ = [
    "RELEASE_SELECTOR",
    "Credentials",
    "Kube",
    "KubeClient",
    "Leases",
    "Resource",
    "WatchEvent",
    "load_configuration",
    "record_from_metadata",
]
