"""`python3 -m et_scheduler`."""

import sys

from et_scheduler.cli import main

if __name__ == "__main__":
    sys.exit(main())
