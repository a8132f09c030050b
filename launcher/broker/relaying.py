"""Which session belongs to which agent and which shim, and what is said when one of them is away.

To shims the relay is the agent, to agents the shim. It passes bytes on and keeps none of them: an
agent sends only what its shim has made room for by acknowledging, so what waits here for a slow
shim is bounded by that session's window and delays nobody else. What it keeps is what a stream that
was cut needs to go on: the SPAWN until it was answered, the last acknowledged offsets, the last
signal that should end the process.

No I/O, no clock: frames go in, and go out through the `Wire` that was handed in.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Protocol

from launcher import contract
from launcher.broker.bodies import KnownSession, read_opening
from launcher.broker.sessions import Session
from launcher.broker.windows import Windows
from launcher.documents import Member
from launcher.protocol import frames
from launcher.protocol.claims import ENDING_SIGNALS
from launcher.protocol.frames import Frame, ProtocolError

RESUME_SECONDS = 5.0
"""A shim that is away for longer has died."""
CLAIM_SECONDS = 30.0
"""After the broker's start: the time in which shims come back for their sessions."""
TERM_SECONDS = 30.0
"""From TERM to KILL for a session that nobody wants any more."""
LAST_SECONDS = 5.0
"""The same when the user's command has ended, and we shall end soon."""

_OUTPUT = (frames.DATA, frames.DROPPED)
_MOST_INSTANCE = 64
_TERM = 15
_KILL = 9


class Wire(Protocol):
    """The two ends of the relay. Nothing here waits, and nothing raises."""

    def to_agent(self, uid: str, data: bytes) -> None:
        """Queue a frame for the stream of this pod; dropped when there is none."""

    def to_peer(self, peer: int, data: bytes, sessions: int = 1) -> bool:
        """Queue bytes for a connection of our socket, which so many sessions share.

        False when it has ended.
        """

    def hang_up(self, peer: int) -> None:
        """End a connection of our socket after what is queued for it."""


class Relay:
    """All sessions of a launcher.

    Args:
        wire: where frames go.
        find: the member that a host name means, or None.
        started_at: monotonic seconds of the broker's start.
        on_spawn: told the uid whenever a SPAWN goes to an agent.
    """

    def __init__(
        self,
        wire: Wire,
        *,
        find: Callable[[str], Member | None],
        started_at: float,
        on_spawn: Callable[[str], None],
    ) -> None:
        self._wire = wire
        self._find = find
        self._claim_by = started_at + CLAIM_SECONDS
        self._on_spawn = on_spawn
        self._is_bound = False
        self._sessions: dict[bytes, Session] = {}
        self._by_peer: dict[int, dict[bytes, Session]] = {}
        self._alone: dict[bytes, Session] = {}
        self._attached: set[str] = set()
        self._refused: dict[str, str] = {}
        self._windows = Windows(self._sessions)
        self._term_seconds = TERM_SECONDS

    # ------------------------------------------------------------ from the config

    def bind(self, expected: int) -> None:
        """The config was read: `expected` slots, and host names have their meaning."""
        self._is_bound = True
        self._windows.expect(expected)
        for session in [session for session in self._sessions.values() if not session.uid]:
            if session.peer is None:
                self._forget(session)
            else:
                self._place(session)

    def refuse(self, uid: str, reason: str) -> None:
        """This pod takes no SPAWN any more: answer in its place from now on."""
        self._refused[uid] = reason

    def release(self, uid: str, reason: str) -> None:
        """The pod is gone: 137 for what was running there, 255 for what never started."""
        self.refuse(uid, reason)
        self._attached.discard(uid)
        for session in [session for session in self._sessions.values() if session.uid == uid]:
            self._lose(session, reason)

    # ------------------------------------------------------------ from shims

    def take_shim_frame(self, peer: int, frame: Frame, now: float) -> None:
        """One frame of a shim's connection; raises ProtocolError: hang up.

        A connection may open any number of sessions.
        """
        if frame.type in (frames.SPAWN, frames.RESUME):
            self._open(peer, frame)
            return
        session = self._sessions.get(frame.session)
        if session is None:
            # Under way when the session ended.
            return
        if session.peer != peer:
            raise ProtocolError("a frame of a session that this connection has not opened")
        if frame.type == frames.ACK:
            self._acknowledge(session, frame, now)
        elif frame.type == frames.SIGNAL:
            self._signal(session, frame)
        elif frame.type == frames.EXIT_ACK:
            self._pass_on(session, frame)
            self._forget(session)
        else:
            raise ProtocolError(f"a shim sends no {frames.NAMES.get(frame.type, frame.type)}")

    def lose_peer(self, peer: int, now: float) -> None:
        """The connection ended: the shim comes back soon, or has died."""
        for session in self._by_peer.pop(peer, {}).values():
            session.peer = None
            if session.is_sent:
                self._leave_alone(session, now + RESUME_SECONDS)
            else:
                self._forget(session)

    # ------------------------------------------------------------ from agents

    def attach(self, uid: str, known: Iterable[KnownSession]) -> None:
        """A stream to this pod is open; `known` are the sessions of its WELCOME."""
        self._attached.add(uid)
        listed = {entry.id: entry.ended is not None for entry in known}
        for key, is_exited in listed.items():
            session = self._sessions.get(key) or self._meet(key, uid)
            session.is_exited = is_exited
        for session in [session for session in self._sessions.values() if session.uid == uid]:
            if session.peer is not None:
                self._introduce(session)
            elif session.id not in listed:
                self._forget(session)
            elif session.is_exited and session.is_given_up:
                self._let_go(session)
            elif session.ending is not None:
                self._wire.to_agent(uid, session.encode_signal(session.ending))

    def detach(self, uid: str) -> None:
        """The stream is cut. Sessions stay; nobody is told."""
        self._attached.discard(uid)
        self._windows.forget_round_trip(uid)

    def note_round_trip(self, uid: str, seconds: float) -> None:
        """A PING to this pod was answered."""
        self._windows.note_round_trip(uid, seconds)

    def take_agent_frame(self, uid: str, frame: Frame) -> None:
        """One frame about a session; raises ProtocolError: drop the stream."""
        if not self.knows(uid, frame.session):
            # Late: the shim has acknowledged the end, or was told that the pod is gone.
            return
        session = self._sessions[frame.session]
        if frame.type == frames.SPAWNED:
            session.instance = str(frames.decode_json(frame).get("instance") or "")[:_MOST_INSTANCE]
            session.opening = None
        elif frame.type == frames.EXIT:
            session.is_exited = True
        elif frame.type in _OUTPUT:
            if not session.find_flow(frame).take(frame):
                # The shim has it, will have it, or could not place it.
                return
            self._windows.check(session)
        if session.peer is None:
            self._answer_alone(session, frame)
        else:
            sharing = len(self._by_peer[session.peer])
            self._wire.to_peer(session.peer, _encode(frame), sharing)
        if frame.type == frames.LOST:
            self._forget(session)

    # ------------------------------------------------------------ time

    def end_all(self, now: float) -> None:
        """The user's command has ended, and all shims with it: `advance` ends what they left."""
        self._term_seconds = LAST_SECONDS
        for peer in list(self._by_peer):
            self.lose_peer(peer, now)
        for session in self._alone.values():
            if session.alone_until is not None:
                wait = LAST_SECONDS if session.ending == _TERM else 0.0
                session.alone_until = min(session.alone_until, now + wait)

    def advance(self, now: float) -> None:
        """End what nobody claims: TERM, half a minute later KILL; what has ended is let go."""
        for session in list(self._alone.values()):
            if session.alone_until is None or now < session.alone_until:
                continue
            session.is_given_up = True
            self._send(session, session.acknowledge())
            if session.is_exited:
                self._let_go(session)
                continue
            session.ending = _TERM if session.ending is None else _KILL
            session.alone_until = now + self._term_seconds if session.ending == _TERM else None
            self._send(session, session.encode_signal(session.ending))

    def due(self) -> float | None:
        """When `advance` has something to do."""
        times = [s.alone_until for s in self._alone.values() if s.alone_until is not None]
        return min(times, default=None)

    # ------------------------------------------------------------ what is so

    def count_running(self) -> Counter[str]:
        """By uid: the sessions that may have a process."""
        sessions = self._sessions.values()
        return Counter(s.uid for s in sessions if s.is_sent and not s.is_exited)

    def knows(self, uid: str, session: bytes) -> bool:
        """Whether this pod may say anything of this session."""
        found = self._sessions.get(session)
        return found is not None and found.uid == uid

    def has_claims(self, uid: str) -> bool:
        """Whether a shim still waits for something from this pod."""
        return any(s.uid == uid and s.peer is not None for s in self._sessions.values())

    # ------------------------------------------------------------ inside

    def _open(self, peer: int, frame: Frame) -> None:
        body = read_opening(frame)
        session = self._sessions.get(frame.session)
        if session is None:
            session = self._sessions[frame.session] = Session(frame.session, body["host"])
        self._adopt(session, peer)
        wish = body.get("window")
        session.most_window = min(wish if type(wish) is int else frames.WINDOW, frames.MOST_WINDOW)
        session.go_on_from(body.get("received") or dict.fromkeys(frames.STREAMS, 0))
        if frame.type == frames.SPAWN:
            session.opening = body
        else:
            session.opening = None
            session.is_sent = True
            session.instance = body["instance"]
        if session.uid:
            self._introduce(session)
        elif self._is_bound:
            self._place(session)

    def _adopt(self, session: Session, peer: int) -> None:
        if session.peer is not None and session.peer != peer:
            # Its shim has come back before we saw it go; the rest of that connection follows.
            self._disown(session)
            self._wire.hang_up(session.peer)
        session.peer = peer
        session.is_given_up = False
        session.ending = None
        self._alone.pop(session.id, None)
        self._by_peer.setdefault(peer, {})[session.id] = session

    def _place(self, session: Session) -> None:
        """Find the pod of a session whose host is only a name so far."""
        member = self._find(session.host)
        if member is None:
            self._lose(session, f"no worker {session.host} in this job")
            return
        session.uid = member.uid
        self._introduce(session)

    def _introduce(self, session: Session) -> None:
        """Open a session at its agent, or go on with it there, on this stream."""
        refusal = self._refused.get(session.uid)
        if refusal is not None and not session.is_sent:
            self._lose(session, refusal)
            return
        if session.uid not in self._attached:
            return
        if session.opening is not None:
            body = {**session.opening, "window": self._windows.open(session)}
            self._wire.to_agent(session.uid, frames.encode_json(frames.SPAWN, body, session.id))
            session.is_sent = True
            self._on_spawn(session.uid)
        else:
            self._wire.to_agent(session.uid, session.encode_resume(self._windows.open(session)))
        if session.ending is not None:
            self._wire.to_agent(session.uid, session.encode_signal(session.ending))

    def _acknowledge(self, session: Session, frame: Frame, now: float) -> None:
        session.find_flow(frame).acknowledge(frame.offset)
        # Without a payload: windows are ours to give.
        self._pass_on(session, frame._replace(payload=b""))
        for changed in self._windows.widen(session, now):
            self._send(changed, changed.encode_window())

    def _signal(self, session: Session, frame: Frame) -> None:
        number = frames.decode_json(frame).get("signal")
        if type(number) is not int:
            raise ProtocolError("SIGNAL without a number")
        if number in ENDING_SIGNALS:
            session.ending = number
        self._pass_on(session, frame)

    def _answer_alone(self, session: Session, frame: Frame) -> None:
        """In the place of a shim that is gone for good; one that may come back is waited for."""
        if not session.is_given_up:
            return
        self._send(session, session.acknowledge())
        if frame.type == frames.EXIT:
            self._let_go(session)

    def _meet(self, key: bytes, uid: str) -> Session:
        """A session that runs and that no shim has claimed since we started."""
        session = Session(key, host="", uid=uid, is_sent=True)
        self._sessions[key] = session
        self._leave_alone(session, self._claim_by)
        return session

    def _leave_alone(self, session: Session, until: float) -> None:
        session.ending = None
        session.alone_until = until
        self._alone[session.id] = session

    def _lose(self, session: Session, reason: str) -> None:
        if session.peer is not None:
            code = contract.EXIT_GONE if session.is_sent else contract.EXIT_REFUSED
            body = {"reason": reason, "code": code}
            self._wire.to_peer(session.peer, frames.encode_json(frames.LOST, body, session.id))
        self._forget(session)

    def _let_go(self, session: Session) -> None:
        """It has ended, and we know it in the place of its shim."""
        self._send(session, frames.encode(frames.EXIT_ACK, session.id))
        self._forget(session)

    def _forget(self, session: Session) -> None:
        self._sessions.pop(session.id, None)
        self._alone.pop(session.id, None)
        self._disown(session)

    def _disown(self, session: Session) -> None:
        if session.peer is not None:
            self._by_peer.get(session.peer, {}).pop(session.id, None)

    def _pass_on(self, session: Session, frame: Frame) -> None:
        if session.is_sent:
            self._send(session, _encode(frame))

    def _send(self, session: Session, data: bytes) -> None:
        if data and session.uid in self._attached:
            self._wire.to_agent(session.uid, data)


def _encode(frame: Frame) -> bytes:
    return frames.encode(
        frame.type, frame.session, frame.payload, flags=frame.flags, offset=frame.offset
    )
