"""`python3 -m et_operator`."""

import sys

from et_operator.cli import main

if __name__ == "__main__":
    sys.exit(main())
