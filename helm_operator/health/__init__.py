"""Whether the objects of a release work, as far as the objects themselves tell. Pure.

The rules are kstatus' (sigs.k8s.io/cli-utils, pkg/kstatus), re-stated, with its holes mended; each module names
its sources and where it decides otherwise. kstatus' words are mapped so: Current is healthy, InProgress and
Terminating are progressing, Failed is unhealthy.
"""

from helm_operator.health.rules import assess, needs_metadata_only
from helm_operator.health.summary import Summary, summarise
from helm_operator.health.verdict import MISSING, UNOBSERVED, Health, Verdict

__all__ = ["MISSING", "UNOBSERVED", "Health", "Summary", "Verdict", "assess", "needs_metadata_only", "summarise"]
