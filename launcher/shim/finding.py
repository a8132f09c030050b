"""Has the image's own launchers become ours, whatever has found them. Every Python imports it.

It stands as `sitecustomize` in BIN_DIR, first in the PYTHONPATH of the user's command. A login
shell, a venv, `conda activate` put other folders before ours in PATH, and a program may be called
by its whole path: then the image's own torchrun would train in the launcher alone. So a Python that
runs a launcher's program becomes our program of that name, which is told whose place it has taken;
what other launchers start finds ours first in PATH again.

PYTHONPATH is then as the user has it, for launchers send it to workers. What is started without
our folder in it is not looked at again: nothing goes round in a circle.

This file must be readable by every Python 3: an image may have older ones beside ours.
"""

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Container, List, MutableMapping

REAL = "EDL_REAL"
"""names.ENV_REAL, which cannot be imported here."""


def begin(ours: str, commands: "Container[str]") -> None:
    """Look at what this Python runs.

    Args:
        ours: BIN_DIR.
        commands: what the programs of launchers are called.
    """
    sys.path[:] = [path for path in sys.path if not is_same(path, ours)]
    try:
        words = read_words()
        folder, name = os.path.split(words[0] if words else "")
        if name in commands and os.path.isfile(words[0]) and not is_same(folder, ours):
            restore(os.environ, ours)
            if os.path.exists(os.path.join(ours, name)):
                os.environ[REAL] = words[0]
                os.execv(os.path.join(ours, name), [name, *words[1:]])
    except OSError as error:
        sys.stderr.write("edl: the image's own program runs: %s\n" % error)


def read_words() -> "List[str]":
    """The command line from the first word on that is no option of Python; raises OSError."""
    with open("/proc/self/cmdline", "rb") as file:
        words = [os.fsdecode(word) for word in file.read().split(b"\0")[1:-1]]
    while words and words[0].startswith("-"):
        del words[0]
    return words


def restore(environ: "MutableMapping[str, str]", ours: str) -> None:
    """Ours first in PATH, and nothing of it in any other variable."""
    path = environ.get("PATH", os.defpath).split(":")
    environ["PATH"] = ":".join([ours, *(folder for folder in path if not is_same(folder, ours))])
    known = environ.get("PYTHONPATH", "").split(":")
    others = [folder for folder in known if not is_same(folder, ours)]
    environ["PYTHONPATH"] = ":".join(others)
    if not any(others):
        del environ["PYTHONPATH"]
    environ.pop(REAL, None)


def is_same(folder: str, ours: str) -> bool:
    """Whether this is our folder, however it is written."""
    return os.path.realpath(folder or ".") == os.path.realpath(ours)


def hand_over() -> None:
    """Have the image's own sitecustomize do its part; raises what it raises, or that there is none.

    Python takes the latter for what it is.
    """
    own = sys.modules.pop(__name__)
    try:
        __import__(__name__)
    finally:
        sys.modules.setdefault(__name__, own)
