"""The broker without its sockets: what happens, and what follows from it.

Config, streams, connections and time come in as calls; frames go out through the `Wire`, the list
and the memory through the `Shelf`. Nothing here waits. After any number of calls `conclude` does
what follows from them; `due` says when it must be called even if nothing happens.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from et_contract import frames
from et_contract.documents import (
    DRIVER_STALLED,
    NO_RING,
    RING_NOT_BROKEN,
    WORKERS_IDLE,
    HostConfig,
    Member,
    MemberState,
)
from et_contract.frames import Frame, ProtocolError
from launcher.broker.blacklisting import UNKNOWN, Blacklist
from launcher.broker.bodies import Welcome, read_exit, read_noticed, read_pong
from launcher.broker.breaking import Breaks
from launcher.broker.departures import Departures, Step
from launcher.broker.facts import ALL_EXITS_KEPT, EXITS_KEPT, Ledger
from launcher.broker.graces import Graces
from launcher.broker.hosts import HostList, Verdict
from launcher.broker.idling import Idleness
from launcher.broker.launching import Launching
from launcher.broker.memories import AGAIN_SECONDS, Identity, Memory
from launcher.broker.notices import Notices
from launcher.broker.nudging import Nudging
from launcher.broker.pulses import STALL_SECONDS, Pulse
from launcher.broker.relaying import Relay, Wire
from launcher.broker.rings import Rings
from launcher.broker.sessions import Session, count_ranks
from launcher.broker.sights import Lookout
from launcher.broker.tails import Tails

_STALLED = f"the launcher's command has not asked for hosts for {STALL_SECONDS:.0f} s: it hangs"
_UNKEPT = "MemoryUnkept"
_FULL = (
    "the broker's disk is full: until it takes the memory the list of hosts stays as it is, and a "
    "broker that has just started speaks to no worker"
)
_RELAYED = frozenset(
    {frames.SPAWNED, frames.DATA, frames.DROPPED, frames.EXIT, frames.LOST, frames.SIGNALED}
)


class Shelf(Protocol):
    """Where things are put that must survive us. Both methods return when it is done, or failed."""

    @property
    def is_kept(self) -> bool:
        """Whether the next broker will find what was to be kept last."""

    def publish(self, text: str) -> None:
        """Write the list for readers that cannot reach us."""

    def keep(self, memory: Memory) -> None:
        """Write what the next broker must know."""


class Broker:
    """Everything the broker of one launcher knows and decides.

    Args:
        identity: of the job and the launcher.
        memory: of the broker before us; `brokerStart` in it is ours already.
        wire: where frames go.
        shelf: where the list and the memory go.
        now: monotonic seconds.
        is_held: see relaying.Relay.
    """

    def __init__(
        self,
        identity: Identity,
        memory: Memory,
        *,
        wire: Wire,
        shelf: Shelf,
        now: float,
        is_held: Callable[[bytes], bool] = lambda _: False,
    ) -> None:
        self.identity = identity
        self.ledger = Ledger(memory.report)
        self._departures = Departures(set(memory.told))
        self.hosts = HostList(
            identity.job_uid, identity.epoch, memory.hosts, departures=self._departures
        )
        self.connected: set[str] = set()
        """Uids whose agents have said WELCOME on the stream that is open."""
        is_first = identity.epoch == 1 and memory.report.broker_start == 1
        self.tails = Tails(is_cut=not is_first)
        self._wire = wire
        self._shelf = shelf
        self._relay = Relay(
            wire,
            hosts=self.hosts,
            started_at=now,
            start=memory.report.broker_start,
            on_spawn=self._note_spawn,
            is_held=is_held,
        )
        self._launching = Launching(self.hosts, self.ledger, wire)
        self._nudging = Nudging(number=memory.nudges, is_shown=memory.is_nudging)
        self._pulse = Pulse(DRIVER_STALLED in memory.report.problems)
        self._listed = memory.hosts.listed
        self._has_begun = memory.has_begun
        self._lookout = Lookout(self.hosts, self.ledger, self._relay, self.connected)
        if self._has_begun:  # the broker before us may have heard a start just now
            self._lookout.pace.note_start(now)
        self._blacklist = Blacklist(
            self.hosts,
            self.ledger,
            self._relay,
            failed=memory.failed,
            now=now,
        )
        self._unclaimed: set[bytes] = set()
        """Sessions of whose end their agents told before anybody said what they are."""
        self._idleness = Idleness()
        self._rings = Rings()
        self._graces = Graces(wire)
        self._breaks = Breaks(wire)
        self._notices = Notices(wire, identity)
        self.hosts.remove(*memory.report.closed)
        for uid in memory.report.closed:  # nothing is started there, also where no agent was asked
            self._close(uid)
        self._kept: Memory | None = None
        self._text: str | None = None
        self._answer = b""
        """HOSTS_LIST with this text."""
        self._now = now
        self._handlers: dict[int, Callable[[int, Frame], None]] = {
            frames.HOSTS: self._answer_hosts,
            frames.LAUNCH: self._register,
            frames.SCRIPT_DONE: self._launching.finish_script,
            frames.ENDED: self._end,
        }

    # ------------------------------------------------------------ what happens

    def take_config(self, config: HostConfig, now: float) -> Verdict:
        """The operator's word, as it was read."""
        self._now = now
        verdict = self.hosts.configure(config, now)
        if verdict is not Verdict.TAKEN:
            return verdict
        self.ledger.observe(config.generation)
        for uid in self.hosts.dismiss_spent():
            self._close(uid)
        members = self.hosts.members.values()
        for member in members:
            if member.state is MemberState.GONE:
                self.lose_stream(member.uid)
        self._graces.take(members, now)
        self._notices.take(config)
        if self._breaks.take(members, now):
            self._note_lost()
            for uid in self.connected:  # what an agent is told, it is told in answer to its PONG
                self._wire.to_agent(uid, self.build_ping(now))
        self.tails.follow(members)
        self._relay.bind(sum(m.slots for m in members if m.state is not MemberState.GONE))
        return verdict

    def take_welcome(self, uid: str, welcome: Welcome, now: float) -> None:
        """The agent of a wanted pod answered our HELLO."""
        self._now = now
        self.connected.add(uid)
        ends = [session.ended for session in welcome.sessions if session.ended is not None]
        for ended in ends[-EXITS_KEPT:]:  # an agent may name thousands
            # When it ended is not known, so it does not prove that its worker was told.
            key = bytes.fromhex(ended.session)
            session = self._relay.find_session(uid, key)
            if not self.ledger.end_session(uid, ended):
                continue
            if session is None:
                if len(self._unclaimed) < ALL_EXITS_KEPT:
                    self._unclaimed.add(key)
            elif not session.is_exited:
                newest = self._relay.find_cut(uid) or UNKNOWN
                self._blacklist.note_end(session, ended.code, newest)
        self._graces.tell(uid, now)
        self._notices.welcome(uid, noticed=welcome.noticed)  # before what is started there
        self._relay.attach(uid, welcome.sessions)
        if welcome.is_closed:
            self._close(uid)
        elif welcome.is_terminating:
            self.hosts.remove(uid)
        else:
            self.hosts.welcome(uid, now)

    def lose_stream(self, uid: str) -> None:
        """The stream of this pod ended, which means nothing for the pod."""
        self.connected.discard(uid)
        self._relay.detach(uid)
        self._departures.disarm(uid)
        self._breaks.forget(uid)
        self._notices.forget(uid)

    def take_agent_frame(self, uid: str, frame: Frame, now: float) -> None:
        """A frame after WELCOME; raises ProtocolError: drop the stream."""
        self._now = now
        if frame.type in _RELAYED:
            if frame.type == frames.EXIT:
                self._note_exit(uid, frame)
            session = self._relay.take_agent_frame(uid, frame)
            if session is not None and frame.type == frames.DATA:
                self._note_output(session, frame)
        elif frame.type == frames.CLOSED:
            self._close(uid)
        elif frame.type == frames.TERMINATING:
            self.hosts.remove(uid)
        elif frame.type == frames.PONG:
            self._note_pong(uid, frame)
        elif frame.type != frames.BUSY:
            raise ProtocolError(f"an agent sends no {frames.NAMES.get(frame.type, frame.type)}")

    def take_peer_frame(self, peer: int, frame: Frame, now: float) -> None:
        """A frame of a connection of our socket; raises ProtocolError: hang up."""
        self._now = now
        if (handle := self._handlers.get(frame.type)) is not None:
            handle(peer, frame)
        else:
            self._relay.take_shim_frame(peer, frame, now)

    def lose_peer(self, peer: int, now: float) -> None:
        """A connection of our socket ended."""
        self._now = now
        self._launching.leave(peer)
        self._relay.lose_peer(peer, now)

    def end_sessions(self, now: float) -> bool:
        """We are told to end: whether there is something to wait for first.

        When the user's command has ended, what it left in the workers is ended too. Otherwise
        nothing is: the next launcher, or the operator, decides what becomes of it.
        """
        self._now = now
        if self.hosts.is_fenced or self.ledger.report.ended is None:
            return False
        self._relay.end_all(now)
        return self.has_sessions

    def note_absence(self, now: float) -> None:
        """We were stopped until now: what came meanwhile has yet to be heard."""
        self._lookout.watched_from = now

    # ------------------------------------------------------------ what follows

    def conclude(self, now: float) -> None:
        """Do what is due; then keep, publish, and tell PID 1."""
        self._now = now
        if self.hosts.is_fenced:
            return
        self.hosts.gather(now)
        self._relay.advance(now)
        running = self._relay.find_running()
        ranks = count_ranks(running)
        self._note_ranks(ranks)
        self._lookout.note_ranks(ranks)
        is_heard = self._has_begun and self.ledger.report.ended is None
        idle_since = self.hosts.last_idle_read(ranks) if is_heard else None
        self._nudging.advance(idle_since, now)
        self._pulse.advance(running, now)
        self._watch_pulse()
        self._blacklist.advance(running, now)
        self._drain()
        for uid in self._departures.release(now):
            self._relay.release(uid)
        self._forget_others()
        self._launching.decide(now)
        self._watch_idleness(running)
        self._tell(NO_RING, self._rings.advance(ranks, self.hosts.members, now))
        self._tell(RING_NOT_BROKEN, self._rings.unbroken)
        self._keep()
        self._tell(_UNKEPT, "" if self._shelf.is_kept else _FULL)
        self._notices.tell_launcher(self._launching.tell)  # before GO
        self._launching.tell_all(self._text if self._is_served else None)

    def due(self) -> float:
        """When `conclude` must be called at the latest, monotonic seconds; inf for never."""
        if self.hosts.is_fenced:
            return math.inf
        parts = (self.hosts, self._relay, self._nudging, self._launching, self._pulse)
        times = [*(part.due() for part in parts)]
        times += [self._idleness.due(self._now), self._rings.due(self._now)]
        times.append(self._departures.due(self._lookout.look()))
        times += [] if self._shelf.is_kept else [self._now + AGAIN_SECONDS]
        return min((time for time in times if time is not None), default=math.inf)

    # ------------------------------------------------------------ what is so

    def wanted(self) -> dict[str, Member]:
        """By uid: the pods to which a stream is to be opened when there is none."""
        if self.hosts.is_fenced:
            return {}
        closed = self.ledger.report.closed
        return {
            uid: member
            for uid, member in self.hosts.members.items()
            if member.state is not MemberState.GONE
            and (uid not in closed or uid in self.connected or self._relay.has_claims(uid))
        }

    @property
    def has_sessions(self) -> bool:
        """Whether a process may run in a worker."""
        return bool(self._relay.find_running())

    def build_ping(self, now: float) -> bytes:
        """A question that only the agent answers, and that tells us how long the way is."""
        return frames.encode_json(frames.PING, {"sent": now})

    def build_hello(self, uid: str, connection: int) -> bytes:
        """The first frame of a stream; `connection` rises with each stream of ours to this pod."""
        body = {
            "job": self.identity.job_uid,
            "epoch": self.identity.epoch,
            "launcher": self.identity.launcher_uid,
            "brokerStart": self.ledger.report.broker_start,
            "connection": connection,
            "pod": uid,
        }
        return frames.encode_json(frames.HELLO, body)

    # ------------------------------------------------------------ PID 1 and discovery

    @property
    def launcher(self) -> int | None:
        """The connection of PID 1; None while it is not there."""
        return self._launching.peer

    def tell_launcher(self, data: bytes) -> bool:
        """Say something to PID 1; whether it is there."""
        return self._launching.tell(data)

    def _register(self, peer: int, frame: Frame) -> None:
        self._launching.register(peer, frame)
        self._notices.register(noticed=read_noticed(frame))

    def _answer_hosts(self, peer: int, frame: Frame) -> None:
        nonce = str(frames.decode_json(frame).get("nonce") or "")
        if self.hosts.is_of_command(nonce):
            self._pulse.beat(self._relay.find_running(), self._now)
            self._blacklist.note_read()
            self._lookout.pace.note_read(self._now)
        self._keep()
        if not self._is_served:
            # The reader goes on with the file, or waits.
            self._wire.hang_up(peer)
            return
        if self._wire.to_peer(peer, self._answer) and self.hosts.count_read(nonce, self._now):
            self.ledger.serve(self.hosts.memory.served_generation)

    def _end(self, peer: int, frame: Frame) -> None:
        self._launching.end(peer, frame)
        self._pulse.stop()

    def _watch_pulse(self) -> None:
        self._tell(DRIVER_STALLED, _STALLED if self._pulse.is_stalled else "")

    def _tell(self, reason: str, text: str) -> None:
        if text:
            self.ledger.complain(reason, text)
        else:
            self.ledger.withdraw(reason)

    def _watch_idleness(self, running: Sequence[Session]) -> None:
        memory, members = self.hosts.memory, self.hosts.members
        is_running = memory.started and self.ledger.report.ended is None
        uids = (entry.uid for entry in memory.listed if entry.uid in members and is_running)
        listed = {uid: members[uid].name for uid in uids if uid not in self._departures}
        busy = {one.uid for one in running}
        leaving = (uid for uid in busy - listed.keys() if uid in members)
        others = sum(members[uid].state is not MemberState.GONE for uid in leaving)
        used = busy | self._blacklist.done
        told = self._idleness.advance(
            listed, used, self._now, others=others, has_asked=memory.served_generation > 0
        )
        self._tell(WORKERS_IDLE, told)

    # ------------------------------------------------------------ leaving

    def _drain(self) -> None:
        sights = self._lookout.look()
        for uid, step in self._departures.decide(sights, self._now):
            if step is Step.ASK:
                self._wire.to_agent(uid, frames.encode(frames.CLOSE_IF_IDLE))
            else:
                self._close(uid)

    def _close(self, uid: str) -> None:
        self.hosts.remove(uid)
        self.ledger.close(uid)
        self._departures.close(uid)

    def _note_exit(self, uid: str, frame: Frame) -> None:
        session = self._relay.find_session(uid, frame.session)
        if session is None:
            return
        ended = read_exit(frame)
        if session.ranks and frame.session in self._unclaimed:
            self._unclaimed.discard(frame.session)
            self._blacklist.note_end(session, ended.code, UNKNOWN)
        if not self.ledger.end_session(uid, ended) or session.is_exited:
            return  # told again: others may have begun meanwhile
        self._blacklist.note_end(session, ended.code, self._relay.newest)
        if self._tells(session.ranks):
            self._departures.note_end(uid)

    def _note_output(self, session: Session, frame: Frame) -> None:
        self.tails.take(session, frame)
        if session.ranks:
            self._rings.note_output(self._now)

    def _note_lost(self) -> None:
        """Members are gone in which ranks ran that an elastic horovodrun has started."""
        members = self.hosts.members
        running = self._relay.find_running()
        used = {one.uid for one in running if one.blacklists and one.uid in members}
        gone = {uid for uid in used if members[uid].state is MemberState.GONE}
        for uid in sorted(gone):
            self._rings.lose(members[uid].name, used - gone, self._now)

    def _note_pong(self, uid: str, frame: Frame) -> None:
        pong = read_pong(frame)
        self._rings.hear(uid, pong.ranks)
        self._breaks.answer(uid, pong.clock, pong.sent)
        if pong.sent is not None and pong.sent <= self._now:
            self._relay.note_round_trip(uid, self._now - pong.sent)

    def _note_spawn(self, uid: str, ranks: int) -> None:
        if ranks:
            self._note_ranks([uid])
            self._lookout.pace.note_start(self._now)
            self._blacklist.note_start(uid)
        if self._tells(ranks):
            self._departures.note_spawn(uid, self._now)
        else:
            self._departures.disarm(uid)

    def _tells(self, ranks: int) -> bool:
        """Whether a start or an end tells of its host: a rank's, or any where none is known."""
        return ranks > 0 or not self._has_begun

    def _note_ranks(self, uids: Iterable[str]) -> None:
        """What started the ranks there knows of these hosts."""
        for uid in uids:
            self._has_begun = True
            self.hosts.join(uid)

    # ------------------------------------------------------------ keeping

    def _forget_others(self) -> None:
        """What the config does not speak of any more, so that we stay as small as the job."""
        config = self.hosts.config
        if config is None:
            return
        self._relay.forget(self.hosts.forget())
        self._lookout.forget(self.hosts.members)
        self.ledger.keep_only(self.hosts.members, (order.id for order in config.scripts))

    def _follow_list(self) -> None:
        """Before a changed list is seen by anybody: whether it needs a pseudo host beside it."""
        listed, before = self.hosts.memory.listed, self._listed
        if listed != before and self._has_begun:  # pseudo hosts are for ranks, and for nobody else
            self._nudging.follow_change(has_left=not set(before) <= set(listed))
        self._listed = listed
        self.hosts.nudge = self._nudging.shown

    @property
    def _is_served(self) -> bool:
        """Whether there is a list, and readers get it as it is now."""
        return self._text is not None and self._text == self.hosts.text

    def _keep(self) -> None:
        """Keep what the next broker must know; a changed list is published once that is kept."""
        self._follow_list()
        hosts = self.hosts.memory
        self.ledger.list(hosts.ever_listed, unlisted=self.hosts.unlisted, ready=hosts.ready)
        memory = Memory(
            self.ledger.report,
            hosts,
            told=self._departures.told,
            nudges=self._nudging.number,
            is_nudging=self._nudging.is_shown,
            has_begun=self._has_begun,
            failed=self._blacklist.failed,
        )
        if memory != self._kept:
            self._kept = memory
            self._shelf.keep(memory)
        text = self.hosts.text if self.hosts.is_known else None
        if text is not None and text != self._text and self._shelf.is_kept:
            self._text = text
            self._answer = frames.encode_json(frames.HOSTS_LIST, {"text": text})
            self._shelf.publish(text)
