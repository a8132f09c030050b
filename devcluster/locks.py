"""Keeping two commands from doing the same work at once.

A lock lives as long as the process that holds it, whatever becomes of that; its file says nothing.
"""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from devcluster.reporting import say


@contextmanager
def hold(path: Path) -> Iterator[None]:
    """Hold the lock of this file, waiting for it if a running process has it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"- waiting for another command that holds {path.name}")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
