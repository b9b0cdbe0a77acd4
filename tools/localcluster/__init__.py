"""A local Kubernetes control plane for development and tests, built from pinned Go modules.

`python -m tools.localcluster --help` tells the commands; `ControlPlane` is the interface for tests.
"""

from tools.localcluster.build import Builder, ToolSources, find_tools
from tools.localcluster.errors import LocalClusterError
from tools.localcluster.plane import ControlPlane

__all__ = ["Builder", "ControlPlane", "LocalClusterError", "ToolSources", "find_tools"]
