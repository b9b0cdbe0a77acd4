"""One pass over one custom resource: observe, desire, decide, act, report. Start at `reconciler.py`.

`sight` looks at releases, `oversight` keeps an eye on their objects, `actions` has what Helm does,
`finalizers` keeps the custom resource until all is gone, `passes` is what they hand to each other.
"""

from helm_operator.reconciler.passes import Next, Pass
from helm_operator.reconciler.reconciler import Reconciler

__all__ = ["Next", "Pass", "Reconciler"]
