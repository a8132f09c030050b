"""A lock for each session: by it the broker sees that its shim lives, also one that is stopped.

A file under the session's name, locked (flock) by the process that stands for it. However that
ends, the kernel takes the lock away; while it is stopped, by a signal, a debugger or a frozen
container, the lock stays. All sessions of a process are names of one file with one descriptor. A
name is there once the broker can read the file and the lock is on it, whatever our umask.
"""

from __future__ import annotations

import fcntl
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Optional

FOLDER = "shims"
"""Beside the broker's socket; the broker makes it."""


class Hold:
    """The sessions of this process. `broker` is the path of the broker's socket."""

    def __init__(self, broker: str) -> None:
        self._folder = os.path.join(os.path.dirname(broker), FOLDER)
        self._first: Optional[str] = None

    def add(self, session: bytes) -> None:
        """From now on this session is held. Where that cannot be, silence counts as an end."""
        path = os.path.join(self._folder, session.hex())
        try:
            if self._first is not None:
                os.link(self._first, path)
                return
            spare = _spare(path)
            file = os.open(spare, os.O_RDONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
            os.fchmod(file, 0o644)
            fcntl.flock(file, fcntl.LOCK_SH)  # and never closed
            os.rename(spare, path)
            self._first = path
        except OSError:
            return

    def drop(self, session: bytes) -> None:
        """A session is over. One name the file keeps, which is no session's: others follow."""
        path = os.path.join(self._folder, session.hex())
        if path != self._first:
            _remove(path)
            return
        try:
            os.rename(path, _spare(path))
            self._first = _spare(path)
        except OSError:
            return

    def close(self) -> None:
        """All of them are over."""
        if self._first is not None:
            _remove(self._first)


def _spare(path: str) -> str:
    """A name that is no session's."""
    return f"{path}.{os.getpid()}"


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        return
