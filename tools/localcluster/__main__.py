"""`python -m tools.localcluster`."""

import sys

from tools.localcluster.cli import main

if __name__ == "__main__":
    sys.exit(main())
