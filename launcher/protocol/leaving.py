"""The way out of a worker: what PID 1 does with the seconds it has left after SIGTERM.

    SIGTERM            sessions may end by themselves: Horovod lets removed hosts go at a commit
    deadline - 10 s    they are sent SIGTERM, no session is started any more; earlier where a
                       quarter of the grace that is told is more: who saves long has a long grace
    deadline - 3 s     they are sent SIGKILL
    deadline - 1 s     PID 1 ends, and everything with it

The deadline is that of the pod's deletion, once the broker has told it: whoever deletes a pod may
choose another grace than the template's, and a hook may use up part of it before SIGTERM. A node
that shuts down deletes nothing and leaves less than it says. So the deadline is the template's
where nothing is told, and sessions are sent SIGTERM after UNTOLD seconds. Who is told may be late:
it is over so long after SIGTERM at the latest. And sessions are ended by it if no SIGTERM comes, or
another signal that we do not take for one. PID 1 stays then, and the template's own command: where
it ends, so does a hook of the pod, which the kubelet runs before it sends SIGTERM.

Another SIGTERM goes on to the next line at once. When nothing of a session is left, the
template's own command gets its SIGTERM and all that is left of the grace. PID 1 ends when that is
over and each exit is acknowledged: a broker whose stream is cut has until then to come back.
"""

from __future__ import annotations

import math
from typing import Optional

from launcher.protocol import transitions
from launcher.protocol.transitions import LEAVING, step

UNTOLD = 10.0
_TERM, _KILL, _END = 10.0, 3.0, 1.0
_SHARE = 0.25


class Leaving:
    """`grace` is the pod's terminationGracePeriodSeconds; times are monotonic seconds."""

    def __init__(self, grace: float) -> None:
        self.state = transitions.STAYING
        self._grace = grace
        self._is_told = False
        self._deadline = math.inf
        self._reserve = _TERM
        """What sessions have of the grace after SIGTERM, with what it takes to end them."""
        self._sigterm_at = math.inf
        """When PID 1 first got it."""
        self._untold_at = math.inf
        """When sessions are sent SIGTERM because nothing is told."""

    @property
    def is_begun(self) -> bool:
        """SIGTERM has come, or what was told is due."""
        return self.state != transitions.STAYING

    @property
    def waits_for_sessions(self) -> bool:
        """Whether the next step is that nothing of a session lives."""
        return self.state in (
            transitions.PARTING,
            transitions.TERMINATING,
            transitions.KILLING,
        )

    @property
    def takes_sessions(self) -> bool:
        """Whether a process that is started now still has time to be of use."""
        return self.state in (transitions.STAYING, transitions.PARTING)

    def seconds_left(self, now: float) -> Optional[float]:
        """Until PID 1 ends at the latest, if SIGTERM comes; None while it stays."""
        return max(0.0, self._deadline - _END - now) if self.is_begun else None

    def tell(self, seconds: float, grace: Optional[float], now: float) -> None:
        """The pod is being deleted and has so long; what is said later only makes it less.

        `seconds` are what is left of the deletion's `grace` since it was first read of, which may
        have been late; None: a former broker does not say it.
        """
        told = now + seconds
        latest = self._sigterm_at + (math.inf if grace is None else grace)
        if not self._is_told and latest > now:
            told = min(told, latest)
        is_assumed = self.takes_sessions and not self._is_told
        if is_assumed or told < self._deadline:
            self._deadline = told
            self._reserve = max(_TERM, _SHARE * (seconds if grace is None else grace))
        self._untold_at = math.inf
        self._is_told = True

    def sigterm(self, now: float) -> bool:
        """PID 1 got SIGTERM; whether anything changed."""
        is_first, self._sigterm_at = not self._has_sigterm, min(self._sigterm_at, now)
        if is_first and self.waits_for_sessions:
            return False  # a hook held it up until the time had come
        if self.state == transitions.PARTING:
            self._deadline = min(self._deadline, now + _TERM)
        elif self.state == transitions.TERMINATING:
            self._deadline = min(self._deadline, now + _KILL)
        elif not self.is_begun and not self._is_told:
            self._deadline = now + self._grace
            self._untold_at = now + UNTOLD
        self.state = step(LEAVING, self.state, "SIGTERM")
        return True

    def idle(self) -> None:
        """Nothing of a session lives."""
        self.state = step(LEAVING, self.state, "idle" if self._has_sigterm else "empty")

    def over(self) -> None:
        """Nothing is left to wait for."""
        self.state = step(LEAVING, self.state, "over")

    def deadline(self) -> Optional[float]:
        """When `tick` has something to do."""
        if self.state == transitions.GONE or math.isinf(self._deadline):
            return None
        if self.takes_sessions:
            return min(self._deadline - self._reserve, self._untold_at)
        if self.state == transitions.TERMINATING:
            return self._deadline - _KILL
        return self._deadline - _END if self._has_sigterm else None

    def tick(self, now: float) -> bool:
        """Go on where the time has come; whether anything changed. Call until it has not."""
        due = self.deadline()
        if due is None or now < due:
            return False
        on_the_way = self.takes_sessions or self.state == transitions.TERMINATING
        self.state = step(LEAVING, self.state, "time" if on_the_way else "over")
        return True

    @property
    def _has_sigterm(self) -> bool:
        return not math.isinf(self._sigterm_at)
