"""The end of what each worker's processes print: what is left of it when its pod is deleted.

The relay keeps no output; this keeps so little of it that all workers together are a few MiB,
whatever they print. Whose a line is, the config says and the stream on which it came.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from et_contract.documents import Member, MemberState
from et_contract.frames import Frame
from et_contract.tails import ALL_BYTES, MOST_BYTES, LastLines, cut_lines
from launcher.broker.sessions import Session


@dataclass(slots=True)
class _Tail:
    worker: str
    is_cut: bool
    printed: bytearray = field(default_factory=bytearray)


class Tails:
    """The last bytes of each worker, until it is gone or the launcher ends; then they are told.

    Args:
        is_cut: there was a broker before us, here or in a former launcher, which may have passed
            on more.
    """

    def __init__(self, *, is_cut: bool) -> None:
        self._is_cut = is_cut
        self._tails: dict[str, _Tail] = {}
        self._over: list[LastLines] = []

    def follow(self, members: Iterable[Member]) -> None:
        """The workers that there are; of one that is gone, or not named any more, all has come."""
        there = {m.uid: m.name for m in members if m.state is not MemberState.GONE}
        most = self._most
        for uid in self._tails.keys() - there.keys():
            self._end(uid, most)
        for uid, name in there.items():
            if uid not in self._tails:
                self._tails[uid] = _Tail(name, self._is_cut)

    def take(self, session: Session, frame: Frame) -> None:
        """DATA on its way to a shim; what comes a second time, for one that is back, is known."""
        tail = self._tails.get(session.uid)
        if tail is None:
            return
        known = max(session.told.get(frame.flags, 0) - frame.offset, 0)
        session.told[frame.flags] = frame.offset + max(len(frame.payload), known)
        tail.printed += frame.payload[known:]
        if len(tail.printed) > 2 * self._most:
            tail.is_cut = True
            del tail.printed[: -self._most]

    def end_all(self) -> None:
        """The launcher ends."""
        most = self._most
        for uid in list(self._tails):
            self._end(uid, most)

    def hand_over(self) -> list[LastLines]:
        """The last lines of each worker that is over, each worker's once."""
        over, self._over = self._over, []
        return over

    @property
    def _most(self) -> int:
        return min(MOST_BYTES, ALL_BYTES // max(len(self._tails), 1))

    def _end(self, uid: str, most: int) -> None:
        tail = self._tails.pop(uid)
        is_cut = tail.is_cut or len(tail.printed) > most
        lines, is_cut = cut_lines(bytes(tail.printed[-most:]), most, is_cut=is_cut)
        self._over.append(LastLines(tail.worker, lines, is_cut))
