"""Runs the image's own torchrun in the workers, with one rendezvous in the launcher.

    torchrun [argument...]                          in the launcher, first in PATH
    boot.py torchrun -- HOST:PORT [argument...]     in a worker

Finds the image's torchrun and the Python that it runs under, where torch is; in the launcher
gathering.py goes on there, in a worker joining.py. In a worker it is the one that the launcher has
found, where that is there too.
"""

from __future__ import annotations

import os
import sys

sys.path.insert(0, __file__.rpartition("/launcher/")[0])  # `python3 -I` adds no folder

from et_contract import names, paths
from launcher.shim import beginnings, programs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Mapping, Optional, Sequence


def main(argv: Sequence[str], environ: Mapping[str, str] = os.environ) -> int:
    """Becomes gathering.py; returns only when it cannot."""
    beginnings.note("torchrun")
    return _become("gathering.py", _find_first(environ), argv, environ)


def join(argv: Sequence[str], environ: Mapping[str, str] = os.environ) -> int:
    """Becomes joining.py; returns only when it cannot. `argv` begins with the rendezvous.

    The launcher's script may have activated an environment, of which this one's PATH knows nothing.
    """
    env = dict(environ)
    told = env.pop(names.ENV_REAL, None)
    if told is None or programs.is_program(told):
        return _become("joining.py", told or _find_first(env), argv, env)
    first = _find_first(env)
    if first is not None:
        programs.say(f"{told}, which the launcher has found, is not here: {first} runs instead")
    return _become("joining.py", first, argv, env)


def _find_first(environ: Mapping[str, str]) -> Optional[str]:
    return programs.find_program("torchrun", environ.get("PATH", ""), paths.BIN_DIR)


def _become(
    program: str, real: Optional[str], argv: Sequence[str], environ: Mapping[str, str]
) -> int:
    if real is None:
        programs.say("torchrun is not in PATH: is torch installed in this image?")
        return programs.NOT_FOUND
    inside = __file__.rpartition("/")[0] + "/" + program
    python = programs.find_interpreter(real)
    if not python:
        python = ["/usr/bin/env", "python3"]
        programs.say(f"{real} does not tell its Python: it runs under the first python3 in PATH")
    return programs.become([*python, inside, real, *argv], environ)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
