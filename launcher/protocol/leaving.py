"""The way out of a worker: what PID 1 does with the seconds it has left after SIGTERM.

    SIGTERM            sessions may end by themselves: Horovod lets removed hosts go at a commit
    deadline - 10 s    they are sent SIGTERM, no session is started any more
    deadline - 3 s     they are sent SIGKILL
    deadline - 1 s     PID 1 ends, and everything with it

Another SIGTERM goes on to the next line at once. When nothing of a session is left, the
template's own command gets its SIGTERM and all that is left of the grace. PID 1 ends when that is
over and each exit is acknowledged: a broker whose stream is cut has until then to come back.
"""

from __future__ import annotations

from typing import Optional

from launcher.protocol import transitions
from launcher.protocol.transitions import LEAVING, step

_TERM, _KILL, _END = 10.0, 3.0, 1.0


class Leaving:
    """`grace` is the pod's terminationGracePeriodSeconds; times are monotonic seconds."""

    def __init__(self, grace: float) -> None:
        self.state = transitions.STAYING
        self._grace = grace
        self._deadline: Optional[float] = None

    @property
    def is_begun(self) -> bool:
        """SIGTERM has come."""
        return self.state != transitions.STAYING

    @property
    def takes_sessions(self) -> bool:
        """Whether a process that is started now still has time to be of use."""
        return self.state in (transitions.STAYING, transitions.PARTING)

    def seconds_left(self, now: float) -> Optional[float]:
        """Until PID 1 ends at the latest; None while it stays."""
        return None if self._deadline is None else max(0.0, self._deadline - _END - now)

    def sigterm(self, now: float) -> None:
        """PID 1 got SIGTERM."""
        if self._deadline is None:
            self._deadline = now + self._grace
        elif self.state == transitions.PARTING:
            self._deadline = min(self._deadline, now + _TERM)
        elif self.state == transitions.TERMINATING:
            self._deadline = min(self._deadline, now + _KILL)
        self.state = step(LEAVING, self.state, "SIGTERM")

    def idle(self) -> None:
        """Nothing of a session lives."""
        self.state = step(LEAVING, self.state, "idle")

    def over(self) -> None:
        """Nothing is left to wait for."""
        self.state = step(LEAVING, self.state, "over")

    def deadline(self) -> Optional[float]:
        """When `tick` has something to do."""
        if self._deadline is None or self.state == transitions.GONE:
            return None
        left = {transitions.PARTING: _TERM, transitions.TERMINATING: _KILL}
        return self._deadline - min(left.get(self.state, _END), self._grace)

    def tick(self, now: float) -> bool:
        """Go on where the time has come; whether anything changed. Call until it has not."""
        due = self.deadline()
        if due is None or now < due:
            return False
        on_the_way = self.state in (transitions.PARTING, transitions.TERMINATING)
        self.state = step(LEAVING, self.state, "time" if on_the_way else "over")
        return True
