"""A second, third ... chance for a notification that horovodrun has lost.

horovodrun tells rank 0 of a change once, swallows every error in doing so, and does not even try
before rank 0 has registered (horovod/runner/elastic/driver.py:210-238); rank 0 forgets what it was
told during a reset (horovod/common/elastic.py, on_reset). A pseudo host with 0 slots changes the
list, so that horovodrun looks and tells again; it never gets a rank, and where the ranks would stay
as they are nobody is told.

No I/O, no clock: all times are monotonic seconds handed in.
"""

from __future__ import annotations

from dataclasses import dataclass

from hostdiscovery.hosts import Host, nudge_host

FIRST_SECONDS = 10.0
EVERY_SECONDS = 15.0
SHOWN_SECONDS = 2.0
LIMIT = 8


@dataclass(slots=True)
class Nudging:
    """The pseudo host that is on the list, if one is.

    A round begins when horovodrun first reads a list that was changed, and ends when the hosts that
    were taken off run nothing any more and those that came run something; the numbers go on, for a
    name is used once.
    """

    shown: Host | None = None
    number: int = 0
    """Of the last one."""
    _given: int = 0
    _round: float | None = None
    _next_at: float | None = None
    _read_at: float | None = None

    def note_read(self, now: float) -> None:
        """The user's command has read the list."""
        if self.shown is not None and self._read_at is None:
            self._read_at = now

    def advance(self, served_at: float | None, now: float) -> None:
        """Show or hide the pseudo host.

        Args:
            served_at: when the newest change was first read that has had no effect yet; None when
                there is no such change.
            now: monotonic seconds.
        """
        if self._read_at is not None and now >= self._read_at + SHOWN_SECONDS:
            self.shown = self._read_at = None
        self._follow(served_at)
        if self._next_at is None or now < self._next_at or self.shown is not None:
            return
        self.number += 1
        self._given += 1
        self.shown = nudge_host(self.number)
        self._next_at = now + EVERY_SECONDS if self._given < LIMIT else None

    def _follow(self, served_at: float | None) -> None:
        if served_at is None:
            self._round = self._next_at = None
        elif self._round is None or served_at > self._round:
            self._round = served_at
            self._given = 0
            self._next_at = served_at + FIRST_SECONDS

    def due(self) -> float | None:
        """When `advance` has something to do."""
        if self.shown is not None:
            return None if self._read_at is None else self._read_at + SHOWN_SECONDS
        return self._next_at
