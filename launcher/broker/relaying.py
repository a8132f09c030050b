"""Which session belongs to which agent and which shim, and what is said when one of them is away.

To shims the relay is the agent, to agents the shim. It passes bytes on and keeps none of them: an
agent sends only what its shim has made room for by acknowledging, so what waits here for a slow
shim is bounded by that session's window and delays nobody else. What it keeps is what a stream that
was cut needs to go on: the SPAWN until it was answered, the last acknowledged offsets, the signals
until they are delivered.

No I/O, no clock: frames go in, and go out through the `Wire` that was handed in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from et_contract import frames
from et_contract.documents import Member
from et_contract.frames import Frame, ProtocolError
from launcher.broker.bodies import KnownSession, read_opening
from launcher.broker.hosts import HostList
from launcher.broker.orphans import Orphans
from launcher.broker.sessions import Session
from launcher.broker.starts import TOO_MANY, Starts
from launcher.broker.windows import Windows
from launcher.protocol.signals import ENDING

RESUME_SECONDS = 5.0
"""A shim that is away for longer has died."""
CLAIM_SECONDS = 30.0
"""After the broker's start: the time in which shims come back for their sessions."""
MOST_SESSIONS = 65_536
"""Of all workers: eight for each slot of the largest job. Whoever asks for more, be it for what
never ran, is told so; what agents name beyond that is not followed."""
FULL = f"the launcher has {MOST_SESSIONS} processes in its workers, no more are followed"
CROWDED = f"the worker has {frames.WORKER_SESSIONS} processes, no more are started in it"

_OUTPUT = (frames.DATA, frames.DROPPED)
_ANSWERS = (frames.SPAWNED, frames.EXIT)


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
        hosts: the members, by the names that sessions have, and those that have left.
        started_at: monotonic seconds of the broker's start.
        start: how many brokers of this launcher there were, with this one.
        on_spawn: told the uid and how many ranks it is whenever a SPAWN goes to an agent.
        is_held: whether the shim of a session lives though it has no connection.
    """

    def __init__(
        self,
        wire: Wire,
        *,
        hosts: HostList,
        started_at: float,
        start: int = 1,
        on_spawn: Callable[[str, int], None],
        is_held: Callable[[bytes], bool] = lambda _: False,
    ) -> None:
        self._wire = wire
        self._hosts = hosts
        self._claim_by = started_at + CLAIM_SECONDS
        self._start = start
        self._on_spawn = on_spawn
        self._is_bound = False
        self._sessions: dict[bytes, Session] = {}
        self._by_uid: dict[str, dict[bytes, Session]] = {"": {}}
        self._by_peer: dict[int, dict[bytes, Session]] = {}
        self._orphans = Orphans(self._send, self._forget, is_held)
        self._attached: set[str] = set()
        self._starts = Starts()
        self._windows = Windows(self._sessions)
        self.newest = 0
        """Number of the newest session."""
        self._cuts: dict[str, int] = {}
        """By uid: the newest when the stream that was there last ended."""

    # ------------------------------------------------------------ from the config

    def bind(self, expected: int) -> None:
        """The config was read: `expected` slots, and host names have their meaning."""
        self._is_bound = True
        self._windows.expect(expected)
        named = self._hosts.find_named()
        for session in self._at(""):
            if session.peer is None:
                self._forget(session)
            else:
                self._place(session, named)

    def release(self, uid: str) -> None:
        """The pod has left, as is known: 137 for what ran there, 255 for what never started."""
        self._attached.discard(uid)
        self._cuts.pop(uid, None)
        self._starts.clear(uid)
        for session in self._at(uid):
            self._lose(session, self._hosts.departures[uid].refusal)

    def forget(self, uids: Iterable[str]) -> None:
        """The pods `uids` have left, and their names mean nobody any more."""
        for uid in uids:
            self._by_uid.pop(uid, None)

    # ------------------------------------------------------------ from shims

    def take_shim_frame(self, peer: int, frame: Frame, now: float) -> None:
        """One frame of a shim's connection; raises ProtocolError: hang up.

        A connection may open any number of sessions.
        """
        if frame.type in (frames.SPAWN, frames.RESUME):
            self._open(peer, frame)
            return
        session = self._sessions.get(frame.session)
        if session is None or session.peer is None:  # under way when it ended
            return
        if session.peer != peer:
            raise ProtocolError("a frame of a session that this connection has not opened")
        if frame.type == frames.ACK:
            self._acknowledge(session, frame, now)
        elif frame.type == frames.SIGNAL:
            self._signal(session, frame)
        elif frame.type == frames.EXIT_ACK:
            self._pass_on(session, frame)
            # Where it has not come, nobody waits for it any more.
            self._forget(session) if session.is_exited else self._leave(session, now)
        else:
            raise ProtocolError(f"a shim sends no {frames.NAMES.get(frame.type, frame.type)}")

    def lose_peer(self, peer: int, now: float) -> None:
        """The connection ended: the shim comes back soon, or has died."""
        for session in list(self._by_peer.pop(peer, {}).values()):
            self._leave(session, now + RESUME_SECONDS)

    # ------------------------------------------------------------ from agents

    def attach(self, uid: str, known: Iterable[KnownSession]) -> None:
        """A stream to this pod is open; `known` are the sessions of its WELCOME.

        What it says of a session of another pod is not believed.
        """
        self._attached.add(uid)
        self._cuts.pop(uid, None)
        listed = {entry.id: entry.ended is not None for entry in known}
        for key, is_exited in listed.items():
            session = self._sessions.get(key) or self._follow_unclaimed(key, uid)
            if session is not None and session.uid == uid:
                session.note_listed(is_exited=is_exited)
        for session in self._at(uid):
            if session.id not in listed:
                session.note_unlisted()
            if session.peer is not None:
                self._start_or_resume(session)
            elif session.id not in listed:
                self._forget(session)
            elif session.is_exited and session.is_given_up:
                self._orphans.acknowledge_end(session)
            else:
                self._send(session, session.encode_signals())

    def detach(self, uid: str) -> None:
        """The stream is cut. Sessions stay; nobody is told."""
        if uid in self._attached:
            self._cuts[uid] = self.newest
        self._attached.discard(uid)
        self._starts.clear(uid)
        self._windows.forget_round_trip(uid)

    def note_round_trip(self, uid: str, seconds: float) -> None:
        """A PING to this pod was answered."""
        self._windows.note_round_trip(uid, seconds)

    def take_agent_frame(self, uid: str, frame: Frame) -> Session | None:
        """One frame about a session: which, if it is news. ProtocolError: drop the stream."""
        session = self.find_session(uid, frame.session)
        if session is None:  # late: its end was acknowledged, or told
            return None
        is_news = session.take(frame)
        if is_news and frame.type in _OUTPUT:
            self._windows.check(session, len(frame.payload))
        if session.peer is None:
            self._orphans.answer(session, frame)
        elif is_news:
            sharing = len(self._by_peer[session.peer])
            self._wire.to_peer(session.peer, frames.encode_frame(frame), sharing)
        if frame.type == frames.LOST:
            self._forget(session)
        elif frame.type in _ANSWERS:  # to a SPAWN
            self._finish_start(session)
        return session if is_news else None

    # ------------------------------------------------------------ time

    def end_all(self, now: float) -> None:
        """All shims have ended with the user's command: `advance` ends what they left."""
        for peer in list(self._by_peer):
            self.lose_peer(peer, now)
        self._orphans.hasten(now)

    def advance(self, now: float) -> None:
        """End what nobody claims, step by step."""
        self._orphans.advance(now)

    def due(self) -> float | None:
        """When `advance` has something to do."""
        return self._orphans.due()

    # ------------------------------------------------------------ what is so

    def find_running(self) -> list[Session]:
        """The sessions that may have a process, in the order of their numbers."""
        return [session for session in self._sessions.values() if session.is_running]

    def find_session(self, uid: str, key: bytes) -> Session | None:
        """The session, if this pod may say anything of it."""
        return self._by_uid.get(uid, {}).get(key)

    def find_cut(self, uid: str) -> int:
        """The number that was `newest` when this pod was last heard; 0 where it is or never was."""
        return self._cuts.get(uid, 0)

    def has_claims(self, uid: str) -> bool:
        """Whether a shim still waits for something from this pod."""
        return any(session.peer is not None for session in self._by_uid.get(uid, {}).values())

    def is_busy(self, uid: str) -> bool:
        """Whether a shim waits for something from this pod, or a process may run there."""
        return any(s.peer is not None or s.is_running for s in self._by_uid.get(uid, {}).values())

    # ------------------------------------------------------------ inside

    @property
    def _is_full(self) -> bool:
        return len(self._sessions) >= MOST_SESSIONS

    def _open(self, peer: int, frame: Frame) -> None:
        body = read_opening(frame)
        session = self._sessions.get(frame.session)
        if session is None:
            if self._is_full:
                is_new = frame.type == frames.SPAWN and "again" not in body
                code = frames.EXIT_REFUSED if is_new else frames.EXIT_GONE
                self._tell_lost(peer, frame.session, FULL, code)
                return
            session = self._make(frame.session, host=body["host"])
        self._adopt(session, peer)
        session.open(frame, body)
        if session.opening is None:
            self._starts.withdraw(session)
        elif not self._starts.keep(session):
            self._lose(session, TOO_MANY)
            return
        if session.uid:
            self._start_or_resume(session)
        elif self._is_bound:
            self._place(session, self._hosts.find_named())

    def _adopt(self, session: Session, peer: int) -> None:
        if session.peer is not None and session.peer != peer:
            # Its shim has come back before we saw it go; the rest of that connection follows.
            self._disown(session)
            self._wire.hang_up(session.peer)
        session.peer = peer
        self._orphans.discard(session)
        self._by_peer.setdefault(peer, {})[session.id] = session

    def _place(self, session: Session, named: Mapping[str, Member]) -> None:
        """Find the pod of a session whose host is only a name so far."""
        member = named.get(session.host)
        if member is None:
            self._lose(session, f"no worker {session.host} in this job")
            return
        there = self._by_uid.get(member.uid, ())
        if session.opening is not None and len(there) >= frames.WORKER_SESSIONS:
            self._lose(session, CROWDED)
            return
        self._by_uid[""].pop(session.id, None)
        session.uid = member.uid
        self._add(session)
        if session.uid in self._attached:
            session.note_unlisted()
        self._start_or_resume(session)

    def _start_or_resume(self, session: Session) -> None:
        """Open a session at its agent, or go on with it there, on this stream."""
        refusal = self._hosts.departures.find_refusal(session.uid, may_run=session.is_sent)
        if refusal is not None:
            self._lose(session, refusal)
            return
        if session.opening is not None:
            self._cancel(session, session.signals.ending or session.ending)
        if session.uid not in self._attached or session.id not in self._sessions:
            return
        is_start = session.opening is not None
        if is_start and not self._starts.may_send(session):
            return
        self._wire.to_agent(session.uid, session.start_or_resume(self._windows.open(session)))
        if is_start:
            self._on_spawn(session.uid, session.ranks)
        self._send(session, session.encode_signals())

    def _finish_start(self, session: Session) -> None:
        """A SPAWN was answered, or is not meant any more: others may have waited for that."""
        if not self._starts.finish(session):
            return
        waiting = self._starts.next(session.uid)
        while waiting is not None:
            self._start_or_resume(waiting)
            following = self._starts.next(session.uid)
            waiting = following if following is not waiting else None

    def _cancel(self, session: Session, signal: int | None) -> None:
        """With a signal that ends what has not been started: it never is, where that is sure."""
        if signal is not None and not session.is_sent:
            self._lose(session, "it was ended before it was started", 128 + signal)

    def _acknowledge(self, session: Session, frame: Frame, now: float) -> None:
        session.find_flow(frame).acknowledge(frame.offset)
        # Without a payload: windows are ours to give.
        self._pass_on(session, frame._replace(payload=b""))
        for changed in self._windows.widen(session, now):
            self._send(changed, changed.encode_window())

    def _signal(self, session: Session, frame: Frame) -> None:
        signal = session.take_signal(frame)
        if signal in ENDING:
            self._cancel(session, signal)
        self._pass_on(session, frame._replace(payload=b'{"signal":%d}' % signal))

    def _leave(self, session: Session, until: float) -> None:
        """The session's shim has gone; it is waited for `until` then."""
        self._disown(session)
        session.peer = None
        if session.is_sent:
            self._orphans.add(session, until)
        else:
            self._forget(session)

    def _follow_unclaimed(self, key: bytes, uid: str) -> Session | None:
        """Follow a session that an agent names and no shim has claimed yet, if there is room."""
        if self._is_full:
            return None
        session = self._make(key, uid=uid)
        self._orphans.add(session, self._claim_by)
        return session

    def _make(self, key: bytes, *, host: str = "", uid: str = "") -> Session:
        self.newest += 1
        return self._add(Session(key, host, uid=uid, number=self.newest, start=self._start))

    def _lose(self, session: Session, reason: str, code: int | None = None) -> None:
        if session.peer is not None:
            guess = frames.EXIT_GONE if session.is_sent else frames.EXIT_REFUSED
            self._tell_lost(session.peer, session.id, reason, code or guess)
        self._forget(session)

    def _tell_lost(self, peer: int, key: bytes, reason: str, code: int) -> None:
        body = {"reason": reason, "code": code}
        sharing = max(len(self._by_peer.get(peer, ())), 1)
        self._wire.to_peer(peer, frames.encode_json(frames.LOST, body, key), sharing)

    def _forget(self, session: Session) -> None:
        self._sessions.pop(session.id, None)
        self._windows.close(session)
        self._by_uid.get(session.uid, {}).pop(session.id, None)
        self._orphans.discard(session)
        self._disown(session)
        self._finish_start(session)

    def _disown(self, session: Session) -> None:
        if session.peer is not None:
            self._by_peer.get(session.peer, {}).pop(session.id, None)

    def _add(self, session: Session) -> Session:
        self._sessions[session.id] = session
        self._by_uid.setdefault(session.uid, {})[session.id] = session
        return session

    def _at(self, uid: str) -> list[Session]:
        return list(self._by_uid.get(uid, {}).values())

    def _pass_on(self, session: Session, frame: Frame) -> None:
        if session.is_sent:
            self._send(session, frames.encode_frame(frame))

    def _send(self, session: Session, data: bytes) -> None:
        if data and session.uid in self._attached:
            self._wire.to_agent(session.uid, data)
