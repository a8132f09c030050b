"""`python -m et`, `et` and `kubectl et`.

All that runs without the libraries of the command line: where one is missing it says what to
install, and imports nothing else of ours before.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

NEEDED = ("typer", "rich")


def main() -> int:
    """Run the command line; 1 with a sentence when its libraries are not installed."""
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        sys.stderr.write(
            f"et: the Python package {missing[0]} is missing: "
            "the command line is installed with pip install 'et-operator[cli]'\n"
        )
        return 1
    from et.commands import app

    app(prog_name="kubectl et" if Path(sys.argv[0]).name.startswith("kubectl") else "et")
    return 0


if __name__ == "__main__":
    sys.exit(main())
