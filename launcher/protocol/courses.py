"""How long a shim waits for its session: to be started, to be told, and to end.

No I/O, no clock: `now` is a monotonic time in seconds, handed in.

* What should end it before anything was started is its end: 128 + n, and nothing ever is.
* A SPAWN that was never sent waits for the broker like ssh for a connection, and then is refused.
* KILL follows TERM when that was delivered: who never heard the one is not ended by the other.
* Whose caller has gone, or waits no longer, ends with 137, and the broker ends what is left.
"""

from __future__ import annotations

from signal import SIGTERM

from et_contract import frames
from launcher.protocol.signals import ENDING, KILL

TYPE_CHECKING = False
if TYPE_CHECKING:  # keeps `typing` out of the start of a worker process
    from typing import Optional

    from launcher.protocol.claims import Claim

KILL_AFTER_SECONDS = 30.0
"""From the delivery of TERM to KILL, and to the next one."""
SPAWN_SECONDS = 120.0
"""What a SPAWN that was never sent waits for the broker; like ssh's ConnectTimeout."""
LONGEST_OPENING = frames.HEADER.size + frames.MAX_PAYLOAD - 64
"""Bytes of a SPAWN that the broker takes, whatever it or we have to add when it is said again."""
_TOO_LONG = "the command is longer than 1 MiB"


class Course:
    """The course of one claim, from when its shim asks for it.

    Attributes:
        code: with what to leave whatever the claim says; None while that decides.
        reason: why nothing was started, for people.
    """

    def __init__(self, claim: Claim, now: float) -> None:
        self._claim = claim
        self._spawn_until: Optional[float] = now + SPAWN_SECONDS
        """None once a SPAWN was sent: from then on the process may exist."""
        self._is_ending = False
        """TERM was sent: KILL follows once it is delivered."""
        self._kill_at: Optional[float] = None
        self._leave_at: Optional[float] = None
        self._ends_with_kill = False
        self.code: Optional[int] = None
        self.reason = ""
        if len(claim.opening()) > LONGEST_OPENING:
            self._refuse(_TOO_LONG)

    @property
    def is_started(self) -> bool:
        """Whether the process may exist."""
        return self._spawn_until is None

    @property
    def is_left(self) -> bool:
        """Whether nobody waits for its code in the end."""
        return self._leave_at is not None

    def opened(self) -> None:
        """The claim's opening was sent, or may have been."""
        self._spawn_until = None
        self._claim.is_said = True

    def signal(self, number: int) -> bytes:
        """What to send to pass this signal on; nothing where it ends what was not started."""
        if not self.is_started and number in ENDING:
            self.code = 128 + number
            return b""
        self._is_ending = self._is_ending or number == SIGTERM
        return self._claim.signal(number)

    def leave(self, at: float, *, or_with_kill: bool = False) -> None:
        """Nobody waits for our code any longer than until then; or than until KILL was sent."""
        self._leave_at = at
        self._ends_with_kill = or_with_kill

    def advance(self, now: float) -> bytes:
        """Do what is due; what to send for it."""
        if self._spawn_until is not None and now >= self._spawn_until:
            self._refuse(f"no broker in this pod for {SPAWN_SECONDS:.0f} s")
        is_told = self._is_ending and not self._claim.signals.is_waiting(SIGTERM)
        if is_told and self._kill_at is None:
            self._kill_at = now + KILL_AFTER_SECONDS
        if self._leave_at is not None and now >= self._leave_at:
            self.code = frames.EXIT_GONE
        if self._kill_at is None or now < self._kill_at:
            return b""
        self._kill_at = now + KILL_AFTER_SECONDS
        self.code = frames.EXIT_GONE if self._ends_with_kill else self.code
        return self._claim.signal(KILL)

    def due(self) -> Optional[float]:
        """When `advance` has something to do; None: not before something happens."""
        dues = (self._spawn_until, self._kill_at, self._leave_at)
        return min((at for at in dues if at is not None), default=None)

    def _refuse(self, reason: str) -> None:
        self.reason = reason
        self.code = frames.EXIT_REFUSED
