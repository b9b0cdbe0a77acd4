"""A Kubernetes operator that runs one Helm release for each custom resource."""

__version__ = "0.1.0"
