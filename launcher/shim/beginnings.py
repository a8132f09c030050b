"""Whether the launcher that a command names is ours; people are told where it seems not to be.

Ours are found by PATH alone. A venv, `conda activate` or a login shell puts other folders before
ours there, and a program may be called by its whole path: then the image's own torchrun trains in
the launcher alone, and horovodrun lacks what an elastic job in pods needs.

Each of ours notes that it begins, in a folder that PID 1 has made; PID 1 looks there.
"""

from __future__ import annotations

import os
from contextlib import suppress
from itertools import islice

from et_contract import paths, starters

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Optional, Sequence

MOST_NOTES = 1024
"""Files that are taken away: everybody may write there, and make any number of them."""
LOOK_SECONDS = 60.0
"""From the command's start; what is told then may be about one that still prepares."""


def note(name: str, folder: str = paths.BEGUN_DIR) -> None:
    """Note that our program of this name begins; being unable to is no reason not to."""
    with suppress(OSError):
        os.close(os.open(f"{folder}/{name}", os.O_WRONLY | os.O_CREAT, 0o644))


class Beginnings:
    """What PID 1 of the launcher knows of them.

    Args:
        argv: the command that it runs.
        folder: where ours leave their notes.
        ours: the folder of ours, first in the command's PATH.
    """

    def __init__(self, argv: Sequence[str], folder: str, ours: str) -> None:
        self._folder = folder
        self._ours = ours
        self._needed = starters.find_needed(argv)
        self._look_at: Optional[float] = None
        """Set while there is a command that needs one of ours."""

    def prepare(self) -> None:
        """Make the folder, empty: a container that has restarted finds that of the last one.

        Where that fails nothing is told; it is no reason not to train.
        """
        with suppress(OSError):
            os.makedirs(self._folder, exist_ok=True)
            os.chmod(self._folder, 0o1777)  # noqa: S103 (a command may become another user)
            with os.scandir(self._folder) as entries:
                found = [entry.path for entry in islice(entries, MOST_NOTES)]
            for path in found:
                os.unlink(path)

    def expect(self, now: float) -> None:
        """The command has started."""
        if self._needed is not None:
            self._look_at = now + LOOK_SECONDS

    def find_missed(self, now: float, *, is_over: bool = False) -> str:
        """What to tell people, once; "" for nothing.

        Args:
            now: monotonic seconds.
            is_over: the command has ended.
        """
        if self._look_at is None or not (is_over or now >= self._look_at):
            return ""
        self._look_at = None
        with suppress(OSError), os.scandir(self._folder) as entries:
            if next(entries, None) is None:
                return self._describe(is_over=is_over)
        return ""

    def _describe(self, *, is_over: bool) -> str:
        name, ours = self._needed, self._ours
        seen = "the command has ended" if is_over else f"{LOOK_SECONDS:.0f} s of the command"
        return (
            f"{seen}, and {ours}/{name} has not begun: if {name} has, it is another one, which"
            " runs without the workers of this job. A script, a venv, conda or a login shell has"
            f" put another folder before {ours} in PATH, or it was called by its whole path. Write"
            f" {ours}/{name}, which runs the next {name} in PATH, or PATH={ours}:$PATH after"
            " activate"
        )
