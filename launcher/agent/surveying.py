"""Finding what a session has left behind: children that moved to a session of their own.

A process belongs to us when its environment carries the id of a session that this agent started,
or when it is in the kernel session of one (`sudo` and `env -i` clear the environment).
"""

from __future__ import annotations

import os
from typing import FrozenSet, Iterator, Optional, Set, Tuple

from launcher import contract

_MARK = contract.ENV_SESSION.encode() + b"="
_HEX = 32
"""Length of a session id in hexadecimal."""


class Surveyor:
    """Knows the sessions that were ever started here; `proc` is where procfs is mounted."""

    def __init__(self, proc: str = "/proc") -> None:
        self._proc = proc
        self._marks: Set[bytes] = set()
        self._leaders: Set[int] = set()

    def add(self, session: bytes, leader: int) -> None:
        """`leader` was started for `session`, and called setsid."""
        self._marks.add(session.hex().encode())
        self._leaders.add(leader)

    def forget(self, leader: int) -> None:
        """`leader` was reaped: its number may come again, unless others keep the session."""
        if not any(sid == leader for _, _, sid in self._processes()):
            self._leaders.discard(leader)

    def survey(self, number: int, spared: FrozenSet[int] = frozenset()) -> int:
        """Count our living processes; send each `number` unless 0.

        Process groups in `spared` are counted and not signalled.
        """
        # A parent that forks and ends during one pass can hide its child from it, not from two.
        return self._pass(number, spared) or self._pass(number, spared)

    def _pass(self, number: int, spared: FrozenSet[int]) -> int:
        count = 0
        for pid, group, sid in self._processes():
            if sid in self._leaders or self._is_marked(pid):
                count += 1
                if number and group not in spared:
                    _kill(pid, number)
        return count

    def _processes(self) -> Iterator[Tuple[int, int, int]]:
        """(pid, process group, session) of what lives; zombies and ourselves do not count."""
        own = os.getpid()
        for name in os.listdir(self._proc):
            if not name.isdigit() or int(name) == own:
                continue
            stat = self._read(name + "/stat")
            if stat is None:
                continue
            # proc(5): pid, name in parentheses (and with some), state, ppid, group, session
            fields = stat[stat.rfind(b")") + 2 :].split()
            if fields[0] not in (b"Z", b"X"):
                yield int(name), int(fields[2]), int(fields[3])

    def _is_marked(self, pid: int) -> bool:
        environ = self._read(f"{pid}/environ") or b""
        start = 0 if environ.startswith(_MARK) else environ.find(b"\0" + _MARK) + 1
        if start == 0 and not environ.startswith(_MARK):
            return False
        start += len(_MARK)
        return environ[start : start + _HEX] in self._marks

    def _read(self, path: str) -> Optional[bytes]:
        """None: it has ended, or is not ours to look at."""
        try:
            with open(f"{self._proc}/{path}", "rb") as file:
                return file.read()
        except OSError:
            return None


def _kill(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        # Gone meanwhile; or another user's, which the next survey still counts.
        return
