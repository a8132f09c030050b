"""Runs the image's own torchrun in the workers, with one rendezvous in the launcher.

    torchrun [argument...]                          in the launcher, first in PATH
    boot.py torchrun -- HOST:PORT [argument...]     in a worker

Finds the image's torchrun and the Python that it runs under, where torch is; in the launcher
gathering.py goes on there, in a worker joining.py.
"""

from __future__ import annotations

import os
import sys

sys.path.insert(0, __file__.rpartition("/launcher/")[0])  # `python3 -I` adds no folder

from et_contract import paths
from launcher.shim import beginnings, programs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Mapping, Sequence


def main(argv: Sequence[str], environ: Mapping[str, str] = os.environ) -> int:
    """Becomes gathering.py; returns only when it cannot."""
    beginnings.note("torchrun")
    return _become("gathering.py", argv, environ)


def join(argv: Sequence[str], environ: Mapping[str, str] = os.environ) -> int:
    """Becomes joining.py; returns only when it cannot. `argv` begins with the rendezvous."""
    return _become("joining.py", argv, environ)


def _become(program: str, argv: Sequence[str], environ: Mapping[str, str]) -> int:
    path = environ.get("PATH", "")
    real = programs.find_program("torchrun", path, paths.BIN_DIR)
    if real is None:
        programs.say("torchrun is not in PATH: is torch installed in this image?")
        return programs.NOT_FOUND
    inside = __file__.rpartition("/")[0] + "/" + program
    python = programs.find_interpreter(real) or ["/usr/bin/env", "python3"]
    return programs.become([*python, inside, real, *argv], environ)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
