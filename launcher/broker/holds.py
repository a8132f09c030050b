"""Whether the shim of a session lives though it says nothing; the other end is shim/holding.py.

The folder is open to the user's processes: no look at it waits, follows a link or takes a lock for
longer than the look. What follows for a session is decided in orphans.py.
"""

from __future__ import annotations

import errno
import fcntl
import os
from contextlib import suppress
from pathlib import Path

from launcher.shim.holding import FOLDER

_NOTHING = (errno.ENOENT, errno.ELOOP, errno.ENXIO)
"""No such name, or one that no shim has made."""


class Holds:
    """Looks for the locks of shims beside our socket."""

    def __init__(self, socket: Path) -> None:
        self._folder = socket.parent / FOLDER

    def prepare(self) -> None:
        """Make the folder, for the user's container may run as anybody; raises OSError."""
        self._folder.mkdir(exist_ok=True)
        if self._folder.stat().st_uid == os.geteuid():
            self._folder.chmod(0o777)

    def is_held(self, session: bytes) -> bool:
        """Whether a living process stands for this session; what a dead one left is removed.

        Who cannot look, for want of rights or of descriptors, does not know that it is dead.
        """
        path = self._folder / session.hex()
        try:
            # A name that others have made must not make us wait, or lead us elsewhere.
            file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError as error:
            return error.errno not in _NOTHING
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with suppress(OSError):
                path.unlink()
        except OSError:
            return True
        finally:
            os.close(file)
        return False
