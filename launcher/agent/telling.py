"""Files in which ranks and scripts of this worker read what its agent tells them.

noticing.py and ranks.py say what is in them.
"""

from __future__ import annotations

import contextlib
import os


def write_whole(path: str, text: str) -> None:
    """Have the file say this for everybody; raises OSError.

    Who reads it finds the old text or the new. A link in the place of the draft is removed, not
    followed.
    """
    draft = path + ".new"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(draft)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    with os.fdopen(os.open(draft, flags, 0o644), "w", encoding="utf-8") as file:
        os.fchmod(file.fileno(), 0o644)  # whatever the umask says: ranks may be another user
        file.write(text)
    os.rename(draft, path)
