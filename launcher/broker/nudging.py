"""A pseudo host on the list, for two things that horovodrun does not do by itself.

It tells rank 0 of a change once, swallows every error in doing so, and does not even try before
rank 0 has registered (horovod/runner/elastic/driver.py:210-238); rank 0 forgets what it was told
during a reset (horovod/common/elastic.py, on_reset). A pseudo host with 0 slots under a new name
changes the list, so that horovodrun looks and tells again; it never gets a rank, and where the
ranks would stay as they are nobody is told. When rank 0 can hear is not to be seen from here: a
script may load its data for an hour first. So a change is told again for as long as it has had no
effect. It costs horovodrun a look, and rank 0, where it can hear, a line in a queue.

And when hosts have only left, workers do not synchronize their state (`skip_sync`,
horovod/common/elastic.py:151-175). Whoever is new in the next ring waits for just that, and the
training stands still for ever: a spare that takes a rank over, or a host that comes between the
telling and the ring, which may be long. So a new pseudo host makes each such change one of leaving
and coming. For the same reason a pseudo host never leaves the list alone.

No I/O, no clock: all times are monotonic seconds handed in.
"""

from __future__ import annotations

from dataclasses import dataclass

from et_contract.hosts import Host, nudge_host

FIRST_SECONDS = 10.0
EVERY_SECONDS = 15.0
"""Between nudges while a change is new."""
LATER_SECONDS = 60.0
NEW_SECONDS = 120.0
"""Since it was first read."""


@dataclass(slots=True)
class Nudging:
    """Which pseudo host is on the list, if one is.

    A round of nudges begins when horovodrun first reads a list that was changed. It ends when the
    hosts that were taken off run nothing any more and those that came run something, with another
    change, which begins one of its own, or with the user's command. The numbers go on, for a name
    is used once.
    """

    number: int = 0
    """The number in the name of the newest pseudo host."""
    is_shown: bool = False
    _round: float | None = None
    _next_at: float | None = None

    @property
    def shown(self) -> Host | None:
        """The pseudo host that is on the list."""
        return nudge_host(self.number) if self.is_shown else None

    def follow_change(self, *, has_left: bool) -> None:
        """Real hosts have come, or some have left."""
        self.is_shown = has_left
        self.number += has_left

    def advance(self, served_at: float | None, now: float) -> None:
        """Show another pseudo host when it is time.

        Args:
            served_at: when the newest change was first read that has had no effect yet; None when
                there is no such change.
            now: monotonic seconds.
        """
        self._follow(served_at)
        if self._round is None or self._next_at is None or now < self._next_at:
            return
        self.number += 1
        self.is_shown = True
        is_new = now < self._round + NEW_SECONDS
        self._next_at = now + (EVERY_SECONDS if is_new else LATER_SECONDS)

    def _follow(self, served_at: float | None) -> None:
        if served_at is None:
            self._round = self._next_at = None
        elif self._round is None or served_at > self._round:
            self._round = served_at
            self._next_at = served_at + FIRST_SECONDS

    def due(self) -> float | None:
        """When `advance` has something to do."""
        return self._next_at
