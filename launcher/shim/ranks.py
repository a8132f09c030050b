"""How the ranks of an elastic horovodrun find launcher/ranks, which ends a broken ring. Pure.

Where a rank is Python, a line of sh before that puts our folder first in PYTHONPATH: before the
launcher's, which horovodrun repeats, or the worker's own, and in place of neither. Nobody else gets
to see it: a shell's script would extend the variable, or ask whether it is set, and mean another.
So the line looks, in the worker, what `python` is there: a shell's script runs as if it were alone.
"""

from __future__ import annotations

import os
import re

from et_contract import options, paths, wrappers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, List, Optional, Sequence

PYTHON = re.compile(r"python[0-9.]*")
_OPTIONS = re.compile(r"-(?!-)([^-cmWX]*)(.*)", re.DOTALL)
"""Letters without a value, and one with whatever follows."""
_ISOLATING = frozenset("IES")
# pip and uv write `#!/bin/sh` and `'''exec' python` before a Python script.
_IS_SHELLS = (
    r'(read -r a; case $a in "#!"*sh | "#!"*sh\ *) read -r a; case $a in ???exec*) exit 1; esac;;'
    ' *) exit 1; esac) 2>/dev/null <"$(command -v "$1")"'
)
_ENTER = (
    "if [ -r {0}/sitecustomize.py ] && ! " + _IS_SHELLS + ";"
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

    Programs that run another one (`nice`, `numactl`, `conda run`) stay before it. Some would do
    other things with another one: `uv run train.py` starts a Python of its own, which finds
    nothing of ours. A worker that lacks the folder goes without it, and so does Python that would
    not look there.
    """
    _, place = options.read(words, options.HOROVODRUN)
    if words[place : place + 1] == ["--"]:
        place += 1
    ways = wrappers.find_ways(words[place:])
    place += wrappers.find_program(words[place:])
    if place >= len(words) or wrappers.GUARDS in ways:
        return None
    is_asked = is_python if wrappers.READS not in ways else is_named_python
    if not is_asked(words[place]):
        return None
    if is_named_python(words[place]) and is_isolated(words[place + 1 :]):
        return list(words)
    enter = ["/bin/sh", "-c", _ENTER.format(folder), "sh"]
    return [*words[:place], *enter, *words[place:]]


def is_named_python(program: str) -> bool:
    """Whether a command of this name is Python, wherever it runs."""
    return PYTHON.fullmatch(os.path.basename(program)) is not None


def is_isolated(words: Sequence[str]) -> bool:
    """Whether Python's own options, before script or module, leave PYTHONPATH or its hook out."""
    place = 0
    while place < len(words) and words[place][:1] == "-" and words[place] not in ("-", "--"):
        found = _OPTIONS.match(words[place])
        if found is None:  # --check-hash-based-pycs and its value
            place += 2
            continue
        plain, special = found.groups()
        if _ISOLATING.intersection(plain):
            return True
        if special[:1] in ("c", "m"):
            return False
        place += 2 if special in ("W", "X") else 1
    return False
