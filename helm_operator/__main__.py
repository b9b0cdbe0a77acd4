"""`python -m helm_operator` is `helm-operator`."""

import sys

from helm_operator.cli import main

if __name__ == "__main__":
    sys.exit(main())
