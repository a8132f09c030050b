"""The agent's end: sessions, the one stream that may command them, and the way out.

No I/O, no clock: `now` is a monotonic time in seconds, handed in; each call returns the effects
to carry out, in order (effects.py). Which step is legal in which state is said in transitions.py;
a frame that is not raises ProtocolError, changes nothing, and `drop` ends its connection.

What it promises, however often and wherever connections are cut:
* A session id is started at most once. Nothing but SPAWN starts anything.
* A signal is delivered at most once, and SIGNALED is said after that.
* Only the newest bridge of the newest launcher is obeyed; a newer epoch is answered when no
  process of an older one lives, and refused for good where one cannot be ended.
* An exit is kept until it is acknowledged, and then as a tombstone while there is room.
* CLOSED is said when no session is open, no marked process lives, and none will ever be started.
* Without a stream sessions live for ever, and never wait for a reader.
"""

from __future__ import annotations

import json
from typing import Any, Callable, Dict, FrozenSet, List, Optional

from et_contract import frames
from et_contract.frames import Frame, ProtocolError
from launcher.protocol.bodies import find_fault, read_break, read_grace, read_notice
from launcher.protocol.bridges import Bridges
from launcher.protocol.closing import Closing
from launcher.protocol.effects import CloseOutput, Signal, Spawn, Sweep, TellRanks
from launcher.protocol.fences import Fence
from launcher.protocol.notices import Notices
from launcher.protocol.sessions import GONE, REFUSED, Session
from launcher.protocol.signals import ENDING, KILL, read_signal
from launcher.protocol.tombstones import Tombstones

Effects = List[Any]

CROWDED = "the worker has %d processes, no more are started in it" % frames.WORKER_SESSIONS
UNENDING = "what an older launcher has started here does not end, though it was killed"


class Agent:
    """See the module.

    `instance` names this process, `job` and `pod` are uids, `epoch` is the floor for HELLO, `grace`
    the pod's terminationGracePeriodSeconds; an `heir` comes after another agent of this epoch, and
    does not know what that has run.
    """

    def __init__(
        self,
        *,
        instance: str,
        job: str,
        pod: str,
        epoch: int,
        grace: float,
        is_heir: bool = False,
    ) -> None:
        self.instance = instance
        self.count_ranks: Optional[Callable[[], List[int]]] = None
        """How far those are that run here, where that is known: see launcher/agent/ranks.py."""
        self.shows_notices = False
        """Whether scripts here can read of the end of their pod: only then it is told us."""
        self._effects: Effects = []
        self._sessions: Dict[bytes, Session] = {}
        self._tombstones = Tombstones(is_forgetful=is_heir)
        self._ready: Dict[bytes, Session] = {}
        """Sessions that may have something to send, in turn: the others cost nothing."""
        self._bridges = Bridges(Fence(job=job, pod=pod, epoch=epoch), self._effects)
        self._closing = Closing(
            grace=grace, sessions=self._sessions, effects=self._effects, bridges=self._bridges
        )
        self._notices = Notices(self._effects)
        self._handlers: Dict[int, Callable[[int, Frame, float], None]] = {
            frames.HELLO: self._on_hello,
            frames.PING: self._on_ping,
            frames.PONG: self._on_pong,
            frames.CLOSE_IF_IDLE: self._on_close_if_idle,
            frames.GRACE: self._on_grace,
            frames.BREAK: self._on_break,
            frames.NOTICE: self._on_notice,
            frames.SPAWN: self._on_spawn,
            frames.RESUME: self._on_resume,
            frames.ACK: self._on_ack,
            frames.SIGNAL: self._on_signal,
            frames.EXIT_ACK: self._on_exit_ack,
        }

    # ------------------------------------------------------------ connections

    def connected(self, connection: int, now: float) -> None:
        """A bridge has come; `connection` is any number that is not in use."""
        self._bridges.connected(connection, now)

    def disconnected(self, connection: int) -> Effects:
        """A bridge has gone. Its sessions live on, and wait for no reader."""
        self._bridges.disconnected(connection)
        self._unclaim_without_stream()
        self._closing.leave_when_over()
        return self._take()

    def drop(self, connection: int, reason: str, *, is_fenced: bool = False) -> Effects:
        """End a connection, and say why; `is_fenced`: this launcher is never obeyed."""
        self._bridges.drop(connection, reason, is_fenced=is_fenced)
        return self._take() + self.disconnected(connection)

    def receive(self, connection: int, frame: Frame, now: float) -> Effects:
        """Take one frame; raises ProtocolError, then nothing has changed."""
        if self._bridges.check(connection, frame):
            self._handlers[frame.type](connection, frame, now)
            self._bridges.heard(connection, now)
        return self._take()

    def next_data(self, connection: int) -> Optional[bytes]:
        """The next DATA or DROPPED for this connection, each session in its turn; None: nothing."""
        if connection != self._bridges.holder:
            return None
        while self._ready:
            key, session = next(iter(self._ready.items()))
            del self._ready[key]
            data = session.output.next_frame(key) if session.is_claimed else None
            if data is not None:
                self._ready[key] = session
                return data
        return None

    # ------------------------------------------------------------ frames

    def _on_hello(self, connection: int, frame: Frame, now: float) -> None:
        is_new_epoch = self._bridges.admit(connection, frame)
        self._unclaim_without_stream()
        if is_new_epoch:
            self._closing.begin_epoch(now)
        self._answer_hello(now)

    def _on_ping(self, connection: int, frame: Frame, now: float) -> None:
        payload = frame.payload
        if self.count_ranks is not None:
            try:
                body: Dict[str, Any] = frames.decode_json(frame)
            except ProtocolError:  # anything may be asked, and comes back
                body = {}
            if body:
                payload = json.dumps({**body, "ranks": self.count_ranks(), "clock": now}).encode()
        self._bridges.reply(connection, frames.encode(frames.PONG, payload=payload))

    def _on_pong(self, _connection: int, _frame: Frame, _now: float) -> None:
        """A sign of life, nothing more."""

    def _on_close_if_idle(self, _connection: int, _frame: Frame, _now: float) -> None:
        self._closing.close_if_idle()

    def _on_grace(self, _connection: int, frame: Frame, now: float) -> None:
        self._closing.leaving.tell(*read_grace(frame), now)

    def _on_break(self, _connection: int, frame: Frame, now: float) -> None:
        self._effects.append(TellRanks(*read_break(frame, now)))

    def _on_notice(self, _connection: int, frame: Frame, now: float) -> None:
        self._notices.take(*read_notice(frame), now)

    def _on_spawn(self, connection: int, frame: Frame, _now: float) -> None:
        body = frames.decode_json(frame)
        session = self._find(frame.session)
        if session is not None:
            session.claim(frame, body, dict.fromkeys(frames.CHANNELS, 0))
            self._ready[session.id] = session
            if session.pid:
                self._bridges.send(session.spawned_frame(self.instance))
            self._tell_exit(session)
            return
        if body.get("again") is True and self._tombstones.is_forgetful:
            self._lose(connection, frame, "the worker may have run it and forgotten it", GONE)
            return
        refusal = self._closing.refusal() or find_fault(body) or self._find_excess()
        if refusal is not None:
            self._lose(connection, frame, refusal, REFUSED)
            return
        session = Session(frame.session)
        session.spawn(frame, body)
        self._closing.spawn()
        self._sessions[session.id] = session
        self._effects.append(Spawn(session.id, body["command"], body.get("env") or {}))

    def _on_resume(self, connection: int, frame: Frame, _now: float) -> None:
        body = frames.decode_json(frame)
        received = frames.decode_counts(frame, body, "received")
        session = self._find(frame.session)
        if body.get("instance") != self.instance:
            self._lose(connection, frame, "the worker was started anew", GONE)
        elif session is None:
            self._lose(connection, frame, "the worker does not know this session", GONE)
        elif session.output.is_behind(received):
            # The connection is also others': a shim that counts wrongly is lost alone.
            self._lose(connection, frame, "it was never as far as its shim has it", GONE)
        else:
            session.claim(frame, body, received)
            self._ready[session.id] = session
            self._tell_exit(session)

    def _on_ack(self, _connection: int, frame: Frame, _now: float) -> None:
        session = self._find(frame.session)
        if session is not None:
            session.acknowledge(frame)
            self._ready[session.id] = session

    def _on_signal(self, _connection: int, frame: Frame, now: float) -> None:
        number = read_signal(frame)
        session = self._find(frame.session)
        if session is not None:
            if session.take_signal(frame) and session.is_open:
                self._signal(session, number, now)
            self._bridges.send(session.signaled_frame(frame.flags))

    def _on_exit_ack(self, _connection: int, frame: Frame, _now: float) -> None:
        session = self._find(frame.session)
        if session is not None and session.acknowledge_exit(frame):
            self._sessions.pop(session.id, None)
            self._tombstones.bury(session)
            self._closing.leave_when_over()

    # ------------------------------------------------------------ processes

    def started(self, session: bytes, pid: int) -> Effects:
        """The Spawn was carried out."""
        target = self._sessions[session]
        target.started(pid)
        self._bridges.send(target.spawned_frame(self.instance))
        return self._take()

    def not_started(self, session: bytes, reason: str) -> Effects:
        """The Spawn failed: it counts as an exit."""
        target = self._sessions[session]
        target.not_started(reason)
        return self._after_end(target)

    @property
    def open_sessions(self) -> FrozenSet[bytes]:
        """The sessions whose exit is not yet known."""
        return frozenset(key for key, session in self._sessions.items() if session.is_open)

    def wants(self, session: bytes, channel: int) -> bool:
        """Whether this pipe should be read now."""
        target = self._sessions.get(session)
        return target is None or target.wants(channel)

    def output(self, session: bytes, channel: int, data: bytes) -> None:
        """Bytes were read; those of a session that is fenced off go nowhere."""
        target = self._sessions.get(session)
        if target is not None:
            target.add_output(channel, data)
            if target.is_claimed:
                self._ready[session] = target

    def output_ended(self, session: bytes, channel: int) -> Effects:
        """The pipe is closed."""
        target = self._sessions.get(session)
        if target is None:
            return []
        target.end_output(channel)
        return self._after_end(target)

    def ended(self, session: bytes, code: int, reason: str, now: float) -> Effects:
        """The session's first process was reaped; `code` is 128 + n for signal n."""
        target = self._sessions.get(session)
        if target is None:
            return []
        target.ended(code, reason, now)
        self._advance(target, now)
        return self._after_end(target)

    def swept(self, session: bytes, count: int) -> Effects:
        """The Sweep found `count` processes of this session."""
        target = self._sessions.get(session)
        if target is None or not target.is_open:
            return []
        target.swept(count)
        if target.wants_closing():
            self._effects.append(CloseOutput(session))
        return self._after_end(target)

    def orphan_ended(self) -> Effects:
        """Another child was reaped: it may have been the last one that somebody waits for."""
        for session in self._sessions.values():
            session.ending.child_ended()
        self._closing.orphan_ended()
        return self._take()

    def command_started(self) -> None:
        """The template's own command runs."""
        self._closing.command_started()

    def command_ended(self) -> Effects:
        """The template's own command was reaped: the pod lives on until it is deleted."""
        self._closing.command_ended()
        return self._take()

    def surveyed(self, count: int, now: float) -> Effects:
        """The Survey found `count` marked processes."""
        if self._closing.is_fencing:
            self._closing.wait_for_fence(now)
            self._end_fence(count)
            self._answer_hello(now)
        self._closing.surveyed(count, now)
        return self._take()

    # ------------------------------------------------------------ time

    def sigterm(self, now: float) -> Effects:
        """PID 1 got SIGTERM; each further one hastens the end."""
        self._closing.sigterm(now)
        return self._take()

    def deadline(self) -> Optional[float]:
        """When `tick` is due; None: never."""
        due = [self._bridges.deadline(), self._closing.deadline(), self._notices.deadline()]
        due += [session.ending.deadline() for session in self._sessions.values()]
        return min((at for at in due if at is not None), default=None)

    def tick(self, now: float) -> Effects:
        """Do what is due."""
        self._bridges.tick(now)
        self._notices.tick(now)
        self._unclaim_without_stream()
        for session in self._sessions.values():
            self._advance(session, now)
            if session.settle():
                self._tell_exit(session)
                self._closing.process_ended()
        self._closing.tick(now)
        self._closing.leave_when_over()
        return self._take()

    # ------------------------------------------------------------ inside

    def _take(self) -> Effects:
        taken = list(self._effects)
        del self._effects[:]
        return taken

    def _find_excess(self) -> Optional[str]:
        """What is said to one session too many; None while there is room."""
        return CROWDED if len(self._sessions) >= frames.WORKER_SESSIONS else None

    def _find(self, session: bytes) -> Optional[Session]:
        return self._sessions.get(session) or self._tombstones.find(session)

    def _end_fence(self, count: int) -> None:
        """Begin anew, unless something of an older launcher lives."""
        if count or any(session.is_alive for session in self._sessions.values()):
            return
        self._effects += [CloseOutput(s.id) for s in self._sessions.values() if s.is_open]
        self._sessions.clear()
        self._tombstones.clear()
        self._ready.clear()
        self._closing.is_fencing = False

    def _answer_hello(self, now: float) -> None:
        """Let the newest bridge command as soon as nothing of an older launcher can."""
        if not self._closing.is_fencing:
            self._welcome(now)
        elif self._closing.is_fence_overdue:
            self._bridges.refuse(UNENDING)

    def _welcome(self, now: float) -> None:
        body = {
            "instance": self.instance,
            "epoch": self._bridges.epoch,
            "closed": self._closing.is_closed,
            "terminating": self._closing.leaving.seconds_left(now),
            "sessions": [session.describe() for session in self._sessions.values()],
            **({"noticed": self._notices.is_told} if self.shows_notices else {}),
        }
        self._bridges.welcome(body)

    def _unclaim_without_stream(self) -> None:
        if self._bridges.holder is None:
            for session in self._sessions.values():
                session.is_claimed = False

    def _signal(self, session: Session, number: int, now: float) -> None:
        """The process group gets the signal; of what an ended process has left who had none yet."""
        is_told = session.ending.is_told and number != KILL
        session.ending.signalled(number, now)
        if number in ENDING:
            # Also while it lives, and first: now its children can be told by their parents.
            is_swept = number == KILL or not session.is_alive
            self._effects.append(Sweep(session.id, number if is_swept else 0, is_told))
        if session.is_alive:
            self._effects.append(Signal(session.id, number))

    def _advance(self, session: Session, now: float) -> None:
        """What is due on the way to its end."""
        step = session.ending.step(now)
        if step is not None:
            self._effects.append(Sweep(session.id, *step))
        if step is not None and step.signal == KILL and session.is_alive:
            self._effects.append(Signal(session.id, KILL))
        if session.wants_closing():
            self._effects.append(CloseOutput(session.id))

    def _after_end(self, session: Session) -> Effects:
        self._tell_exit(session)
        if not session.is_alive:
            self._closing.process_ended()
        return self._take()

    def _tell_exit(self, session: Session) -> None:
        if not session.is_open:
            self._bridges.send(session.exit_frame())

    def _lose(self, connection: int, frame: Frame, reason: str, code: int) -> None:
        body = {"reason": reason, "code": code}
        self._bridges.reply(connection, frames.encode_json(frames.LOST, body, frame.session))
