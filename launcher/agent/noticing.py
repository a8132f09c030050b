"""The file in which scripts read what is said of the end of their pod."""

from __future__ import annotations

import contextlib
import os


class NoticeFile:
    """The file at `path`, in a folder that scripts have too; its absence is that nothing is said.

    What is there at first was said to a container before this one.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        with contextlib.suppress(OSError):
            os.unlink(path)

    def show(self, text: str) -> None:
        """Have the file say this, "" for none; raises OSError.

        Who reads it finds the old text or the new. A link in the place of the draft is removed, not
        followed.
        """
        if not text:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._path)
            return
        draft = self._path + ".new"
        with contextlib.suppress(FileNotFoundError):
            os.unlink(draft)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        with os.fdopen(os.open(draft, flags, 0o644), "w", encoding="ascii") as file:
            os.fchmod(file.fileno(), 0o644)  # whatever the umask says: ranks may be another user
            file.write(text)
        os.rename(draft, self._path)
