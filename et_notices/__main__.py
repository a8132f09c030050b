"""`python3 -m et_notices`."""

import sys

from et_notices.cli import main

if __name__ == "__main__":
    sys.exit(main())
