"""What the ranks of this worker say to its agent, and what it says to them, in files.

How far each is it says in one that is called as its process: launcher/ranks writes there once
Horovod is imported, when hvd.init() begins, and when it has formed
a ring. Who has ended says nothing any more, nor does another program that it has become: a rank
has its file open, and locked. Who never imports Horovod never does.

Which addresses nobody has any more they read in another one (launcher/ranks/parting.py).
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from itertools import islice
from typing import Iterator, List, Sequence

from et_contract import paths
from et_contract.texts import read_file
from launcher.agent.telling import write_whole

STATES = (b"imported", b"entered", b"joined")
MOST_FILES = 1024
_MOST_BYTES = 16


class RankFiles:
    """The folder of these files, empty at first; where it cannot be made nobody says anything.

    A rank may be another user than the agent, so everybody may write there. Whoever runs here can
    put a link in its place: what that leads to is not ours to look at or end.
    Beside it is what says who is gone: of a container before this one it says nothing.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._gone = os.path.join(os.path.dirname(folder), os.path.basename(paths.GONE_FILE))
        with contextlib.suppress(OSError):
            os.unlink(self._gone)
        with contextlib.suppress(OSError):
            os.makedirs(folder, exist_ok=True)
            with self._open() as place:
                for name in _list_names(place):
                    with contextlib.suppress(OSError):  # a folder has no place there
                        os.unlink(place + name)  # of a container before this one
                os.chmod(place, 0o1777)  # noqa: S103 (whatever the umask says)

    def count(self) -> List[int]:
        """How many living ranks are in each of STATES."""
        found = [0] * len(STATES)
        with contextlib.suppress(OSError), self._open() as place:
            for name in _list_names(place):
                _count_one(found, place, name)
        return found

    def tell(self, before: float, addresses: Sequence[str]) -> None:
        """Write that nobody has these any more, as of this time; raises OSError."""
        write_gone(self._gone, before, addresses)

    @contextlib.contextmanager
    def _open(self) -> Iterator[str]:
        """The folder's path while it is open, by what is open; OSError where it is no folder."""
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        number = os.open(self._folder, flags)
        try:
            yield "/proc/self/fd/%d/" % number
        finally:
            os.close(number)


def write_gone(path: str, before: float, addresses: Sequence[str]) -> None:
    """Write what launcher/ranks/parting.py reads, whole or not at all; raises OSError."""
    write_whole(path, "\n".join([repr(before), *addresses]))


def _count_one(found: List[int], place: str, name: str) -> None:
    try:
        if not os.path.exists("/proc/" + name):
            os.unlink(place + name)
            return
        state = STATES.index(read_file(place + name, _MOST_BYTES, os.O_NOFOLLOW))
        found[state] += _is_locked(place + name)
    except (OSError, ValueError):  # just being written, or not by ours
        return


def _list_names(place: str) -> List[str]:
    with os.scandir(place) as entries:
        return [e.name for e in islice(entries, MOST_FILES) if e.name.isdigit()]


def _is_locked(path: str) -> bool:
    """Whether a rank has the file open; it has a word only once it is locked."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False
