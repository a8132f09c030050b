"""Files in which ranks, scripts and commands read what PID 1 of their container tells them.

noticing.py, ranks.py and shim/placing.py say what is in them. Their folders can be the user's.
"""

from __future__ import annotations

import contextlib
import os


def write_whole(path: str, text: str, mode: int = 0o644) -> None:
    """Have the file say this for everybody; raises OSError.

    Who reads it finds the old text or the new. A link in the place of the draft is removed, not
    followed, and a pipe is, not waited for.
    """
    draft = path + ".new"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(draft)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    with os.fdopen(os.open(draft, flags, mode), "w", encoding="utf-8") as file:
        os.fchmod(file.fileno(), mode)  # whatever the umask says: ranks may be another user
        file.write(text)
    os.rename(draft, path)
