"""When nothing of a session is left: what three of them wait for, and how it is found out.

A broker that asked CLOSE_IF_IDLE, a launcher of a newer epoch, and PID 1 after SIGTERM all wait
until no session is open and no marked process lives. Sessions are counted here, marked processes
by a Survey: one after each end of a process, and each SURVEY_SECONDS when no end can be seen.

What hangs in the kernel, or belongs to a user whom we may not signal, can keep them waiting for
ever. The operator lets a worker drain for so long and no longer, and a pod has a grace; the
launcher of a newer epoch is told after FENCE_SECONDS that this worker is none for it, so that it
gets another one.
"""

from __future__ import annotations

from typing import Any, Dict, List, Optional

from et_contract import frames
from launcher.protocol import transitions
from launcher.protocol.bridges import Bridges
from launcher.protocol.effects import Leave, Signal, SignalCommand, Survey
from launcher.protocol.endings import TERM
from launcher.protocol.leaving import Leaving
from launcher.protocol.sessions import Session
from launcher.protocol.signals import KILL
from launcher.protocol.transitions import DOOR, step

SURVEY_SECONDS = 0.5
FENCE_SECONDS = 60.0
"""What was killed of an older launcher has so long to be gone: a large process gives its memory
back for seconds."""
_AT_ONCE = 0.0


class Closing:
    """`grace` is the pod's terminationGracePeriodSeconds; effects are appended to `effects`."""

    def __init__(
        self,
        *,
        grace: float,
        sessions: Dict[bytes, Session],
        effects: List[Any],
        bridges: Bridges,
    ) -> None:
        self.leaving = Leaving(grace)
        self.is_fencing = False
        """Sessions of an older epoch are being killed."""
        self._fenced_for = 0.0
        """Seconds since, without those in which nobody looked: we were stopped with all others."""
        self._looked_at = 0.0
        self._door = transitions.OPEN
        self._sessions = sessions
        self._effects = effects
        self._bridges = bridges
        self._is_asked = False
        """CLOSE_IF_IDLE waits for its answer."""
        self._survey_at: Optional[float] = None
        self._command_lives = False

    @property
    def is_closed(self) -> bool:
        """No session will ever be started."""
        return self._door == transitions.CLOSED

    @property
    def is_fence_overdue(self) -> bool:
        """Whether something of an older epoch is left that nobody can end."""
        return self.is_fencing and self._fenced_for >= FENCE_SECONDS

    def refusal(self) -> Optional[str]:
        """Why no session may be started; None when one may."""
        if self.is_closed:
            return "the worker is leaving the job and takes no process any more"
        if not self.leaving.takes_sessions:
            return "the worker is being terminated"
        return None

    # ------------------------------------------------------------ events

    def spawn(self) -> None:
        """A session comes in: who asked to close must ask again."""
        self._door = step(DOOR, self._door, "SPAWN")
        self._is_asked = False

    def close_if_idle(self) -> None:
        """Answer CLOSED, or BUSY now and CLOSED when it becomes true."""
        self._door = step(DOOR, self._door, "CLOSE_IF_IDLE")
        if self.is_closed:
            self._bridges.say(frames.CLOSED, {})
            return
        self._is_asked = True
        self.look()

    def begin_epoch(self, now: float) -> None:
        """Kill what an older launcher started."""
        self._door = step(DOOR, self._door, "new epoch")
        self._is_asked = False
        if not self.is_fencing:
            self._fenced_for, self._looked_at = 0.0, now
        self.is_fencing = True  # whether sessions are known or not: a survey tells
        self._signal_all(KILL)

    def wait_for_fence(self, now: float) -> None:
        """What an older launcher has started has been looked for, and is there."""
        self._fenced_for += min(now - self._looked_at, 2 * SURVEY_SECONDS)
        self._looked_at = now

    def sigterm(self, now: float) -> None:
        """PID 1 got SIGTERM; each further one hastens the end."""
        if self.leaving.sigterm(now):
            self._advance(now)

    def surveyed(self, count: int, now: float) -> None:
        """`count` marked processes live."""
        opened = sum(session.is_open for session in self._sessions.values())
        if not count and not opened:
            self._become_idle()
        elif self._is_asked:
            self._bridges.say(frames.BUSY, {"sessions": opened, "processes": count})
        self._is_asked = False
        self._survey_at = now + SURVEY_SECONDS if self._is_waited_for() else None

    def process_ended(self) -> None:
        """The first process of a session was reaped, or a session settled: maybe the last one."""
        if self._is_waited_for():
            self.look()

    def orphan_ended(self) -> None:
        """Another child was reaped: look at the next tick, once for however many there are."""
        if self._is_waited_for():
            self._survey_at = _AT_ONCE

    def command_started(self) -> None:
        """The template's own command runs."""
        self._command_lives = True

    def command_ended(self) -> None:
        """The template's own command was reaped."""
        self._command_lives = False
        self.leave_when_over()

    def leave_when_over(self) -> None:
        """End PID 1 when neither the command nor an unacknowledged exit is left to wait for."""
        if self.leaving.state != transitions.DISMISSING or self._command_lives:
            return
        if not any(s.state == transitions.EXITED for s in self._sessions.values()):
            self.leaving.over()
            self._press()

    # ------------------------------------------------------------ time

    def deadline(self) -> Optional[float]:
        """When `tick` is due; None: never."""
        due = (self._survey_at, self.leaving.deadline())
        return min((at for at in due if at is not None), default=None)

    def tick(self, now: float) -> None:
        """Do what is due."""
        while self.leaving.tick(now):
            self._advance(now)
        if self._survey_at is not None and now >= self._survey_at:
            self.look()

    # ------------------------------------------------------------ inside

    def look(self) -> None:
        """Ask for a survey."""
        kills = self.is_fencing or self.leaving.state == transitions.KILLING
        self._survey_at = None
        self._effects.append(Survey(KILL if kills else 0))

    def _is_waited_for(self) -> bool:
        leaves = self.leaving.waits_for_sessions
        return self.is_fencing or leaves or self._door == transitions.ARMED

    def _become_idle(self) -> None:
        if self._door == transitions.ARMED:
            self._door = step(DOOR, self._door, "idle")
            self._bridges.say(frames.CLOSED, {})
        if self.leaving.waits_for_sessions:
            self.leaving.idle()
            self._press()

    def _advance(self, now: float) -> None:
        if self.leaving.state == transitions.PARTING:
            self._bridges.say(frames.TERMINATING, {"seconds": self.leaving.seconds_left(now)})
        self._press()

    def _press(self) -> None:
        """What the stage of leaving asks for, once per change."""
        state = self.leaving.state
        if state == transitions.PARTING:
            self.look()
        elif state == transitions.TERMINATING:
            self._signal_all(TERM)
        elif state == transitions.KILLING:
            self._signal_all(KILL)
        elif state == transitions.DISMISSING:
            if self._command_lives:
                self._effects.append(SignalCommand(TERM))
            self.leave_when_over()
        elif state == transitions.GONE:
            self._effects.append(Leave())

    def _signal_all(self, number: int) -> None:
        for session in self._sessions.values():
            if session.is_alive:
                session.ending.signalled(number, None)
                self._effects.append(Signal(session.id, number))
        self._survey_at = None
        self._effects.append(Survey(number))
