"""How a session ends: its first process, and then whatever that has left behind.

* The first process returns, and nobody holds the output: the session is over. What runs on was
  sent to the background on purpose, with its output elsewhere, as behind ssh.
* It returns, and others hold the output: LINGER_SECONDS later they are ended.
* A signal ends it, or one that should end it was sent: its children are ended all the same,
  wherever their output goes.

A session that is being ended is over when none of its processes is left. The process group has had
the signal that was sent. What has left the group, or was sent none, gets TERM LINGER_SECONDS after
the end of the first process. KILL_SECONDS after TERM all of it gets KILL. What is there
LAST_SECONDS later hangs in the kernel and runs no more, or belongs to a user whom we may not
signal: then the output is closed, and the end told. `now` is a monotonic time in seconds.
"""

from __future__ import annotations

from collections import namedtuple
from typing import Optional

from launcher.protocol.signals import ENDING, KILL

LINGER_SECONDS = 1.0
"""What children of an ended process have to end by themselves."""
KILL_SECONDS = 30.0
"""From TERM to KILL."""
LOOK_SECONDS = 0.5
"""How often one looks for what is left, besides after each end of a process that we reap."""
LAST_SECONDS = 5.0

TERM = 15
SIGNALLED = 128
"""From this exit code on a signal was the end, as a shell says it too."""

Step = namedtuple("Step", ["signal", "spares_group"])
"""Send `signal` unless 0 to what is left of the session, with or without its process group."""


class Ending:
    """One session's end. The agent tells it what happens, and does the Steps that it answers."""

    def __init__(self) -> None:
        self.is_told = False
        """The process group has got a signal that should end it."""
        self.is_forced = False
        """No process of the session may outlive its end."""
        self.is_empty = False
        """No process of the session was there at the last look."""
        self.is_hopeless = False
        """The time for ending the rest is over: the session's end is told, whatever is left."""
        self._ended_at: Optional[float] = None
        self._term_at: Optional[float] = None
        self._kill_at: Optional[float] = None
        self._close_at: Optional[float] = None
        self._look_at: Optional[float] = None

    @property
    def lingers(self) -> bool:
        """The children of the ended process may still end by themselves, and close their output."""
        return self._ended_at is not None and self._term_at is not None

    def signalled(self, number: int, now: Optional[float]) -> None:
        """A signal goes to the process group; without `now` somebody else sees to the KILL."""
        if number not in ENDING:
            return
        self.is_told = self.is_forced = True
        self.child_ended()
        if now is None:
            return
        if number == KILL:
            self._kill(now)
        elif number == TERM and self._kill_at is None and self._close_at is None:
            self._kill_at = now + KILL_SECONDS

    def first_ended(self, code: int, now: float) -> None:
        """The first process was reaped."""
        self._ended_at = now
        self._term_at = now + LINGER_SECONDS if self._close_at is None else None
        self.is_forced = self.is_forced or code >= SIGNALLED
        self._look_at = now if self.is_forced else self._term_at

    def child_ended(self) -> None:
        """A process was reaped that may have been the last one of this session: look at once."""
        if self._ended_at is not None and self.is_forced:
            self._look_at = self._ended_at

    def swept(self, count: int) -> None:
        """`count` of its processes live."""
        if self._ended_at is not None:
            self.is_empty = count == 0
            self.is_hopeless = self.is_hopeless or (self.is_empty and not self.lingers)

    def over(self) -> None:
        """The end is known: nothing is due any more."""
        self._ended_at = self._kill_at = None

    def deadline(self) -> Optional[float]:
        """When `step` has something to do."""
        due = [self._kill_at]
        if self._ended_at is not None:
            due += [self._look_at, self._close_at]
        return min((at for at in due if at is not None), default=None)

    def step(self, now: float) -> Optional[Step]:
        """What the time asks for; None: nothing. The answer to a Step is `swept`."""
        if self._kill_at is not None and now >= self._kill_at:
            self._kill(now)
            return Step(KILL, spares_group=False)
        if self._ended_at is None:
            return None
        if self._close_at is not None and now >= self._close_at:
            self._close_at = None
            self.is_hopeless = True
        if self._look_at is None or now < self._look_at:
            return None
        self._look_at = now + LOOK_SECONDS
        if self._term_at is None or now < self._term_at:
            return Step(0, spares_group=False)
        return self._terminate(now)

    def _terminate(self, now: float) -> Step:
        self._term_at = None
        self.is_forced = True
        if self._kill_at is None:
            self._kill_at = now + KILL_SECONDS
        return Step(TERM, spares_group=self.is_told)

    def _kill(self, now: float) -> None:
        self._kill_at = self._term_at = None
        self._look_at = now + LOOK_SECONDS
        if self._close_at is None:
            self._close_at = now + LAST_SECONDS
