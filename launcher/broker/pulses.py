"""Whether the user's command still asks for the list of hosts, as horovodrun does each second.

A horovodrun that hangs ends nothing by itself: its workers train on until their output has nowhere
to go, or stand still at the next change. The questions for the list are the only sign of life that
it gives, see horovod/runner/elastic/driver.py, `_discover_hosts`.

Only who has asked steadily can fall silent: mpirun never asks, a script may ask now and then. And
only while ranks of those that ran when it last asked still have their shims: what is no rank, what
is started afterwards and what is left alone say nothing of a horovodrun that may long have ended.
So a stall ends with the last of those ranks.

No I/O, no clock: all times are monotonic seconds handed in.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from launcher.broker.sessions import Session

STALL_SECONDS = 30.0
"""A command with a pulse that asks nothing for so long, while ranks of its own run, is stalled."""
BEATS = 10
"""So many questions, each within STALL_SECONDS of the last, are a pulse."""
LATE_SECONDS = 5.0
"""A broker that calls `advance` so long after `due` was stopped itself in between, as on a machine
that is suspended. Questions may have come that it has yet to read: the wait begins anew."""


@dataclass(slots=True)
class Pulse:
    """The command's pulse; `is_stalled` stays until it asks again, or its ranks have ended."""

    is_stalled: bool = False
    _beats: int = 0
    _last: float = 0.0
    _ranks: frozenset[bytes] = frozenset()
    """Ids of the sessions of all ranks that ran at the last question, or were seen in a stall: a
    broker that begins in one knows of none, and their shims come back one after the other."""

    def beat(self, running: Iterable[Session], now: float) -> None:
        """The user's command has asked while these ran, whether or not it was answered."""
        self._ranks = frozenset(session.id for session in running if session.ranks)
        is_steady = self._beats > 0 and now - self._last < STALL_SECONDS
        self._beats = self._beats + 1 if is_steady else 1
        self._last = now
        self.is_stalled = False

    def stop(self) -> None:
        """The user's command has ended."""
        self.is_stalled = False
        self._beats = 0

    def advance(self, running: Iterable[Session], now: float) -> None:
        """Draw the conclusion when it is time, or take it back; these run now."""
        if self.is_stalled:
            self._look_again(running)
            return
        due = self.due()
        if due is None or now < due:
            return
        if self._ranks.isdisjoint(s.id for s in running if s.peer is not None):
            self._beats = 0
        elif now > due + LATE_SECONDS:
            self._last = now
        else:
            self.is_stalled = True

    def due(self) -> float | None:
        """When `advance` has something to do."""
        if self.is_stalled or self._beats < BEATS:
            return None
        return self._last + STALL_SECONDS

    def _look_again(self, running: Iterable[Session]) -> None:
        """End the stall with the last rank; one whose shim may yet connect again is there."""
        ranks = {session.id for session in running if session.ranks and not session.is_given_up}
        if self._ranks and self._ranks.isdisjoint(ranks):
            self.stop()
        self._ranks |= ranks
