"""The file in which scripts read what is said of the end of their pod."""

from __future__ import annotations

import contextlib
import os

from launcher.agent.telling import write_whole


class NoticeFile:
    """The file at `path`, in a folder that scripts have too; its absence is that nothing is said.

    What is there at first was said to a container before this one.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        with contextlib.suppress(OSError):
            os.unlink(path)

    def show(self, text: str) -> None:
        """Have the file say this, "" for none; raises OSError. See write_whole."""
        if text:
            write_whole(self._path, text)
            return
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._path)
