"""How the ranks of an elastic horovodrun find launcher/ranks, which ends a broken ring. Pure.

Where a rank is Python, a line of sh before that puts our folder first in PYTHONPATH: before the
launcher's, which horovodrun repeats, or the worker's own, and in place of neither. Nobody else gets
to see it: a shell's script would extend the variable, or ask whether it is set, and mean another.
"""

from __future__ import annotations

import re

from et_contract import options, paths, wrappers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, List, Optional, Sequence

PYTHON = re.compile(r"python[0-9.]*")
_ENTER = (
    "if [ -r {0}/sitecustomize.py ];"
    ' then export PYTHONPATH="{0}${{PYTHONPATH:+:$PYTHONPATH}}"; fi; exec "$@"'
)
LEFT_OUT = (
    "the command of the ranks does not begin with python: after the loss of a worker the others"
    " wait for Gloo's time-out, unless the script runs python as"
    f" PYTHONPATH={paths.RANKS_DIR}${{PYTHONPATH:+:$PYTHONPATH}} python"
)


def prepare(
    words: Sequence[str], is_python: Callable[[str], bool], folder: str = paths.RANKS_DIR
) -> Optional[List[str]]:
    """The words for horovodrun with ours before the Python of its ranks; None: that is not there.

    Programs that run another one (`nice`, `numactl`, `conda run`) stay before it. A worker that
    lacks the folder goes without it.
    """
    _, place = options.read(words, options.HOROVODRUN)
    if words[place : place + 1] == ["--"]:
        place += 1
    place += wrappers.find_program(words[place:])
    if place >= len(words) or not is_python(words[place]):
        return None
    enter = ["/bin/sh", "-c", _ENTER.format(folder), "sh"]
    return [*words[:place], *enter, *words[place:]]
