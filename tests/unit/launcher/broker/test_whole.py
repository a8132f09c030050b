"""Two agents, a whole broker and three shims in memory: bytes cut anywhere, time, crashes, echoes.

What must hold at every moment: a session is started once; its signals come once and in order; the
code that a shim leaves with is that of its process, which has ended, and every byte before it is
written, or is among those that it was told were lost. At the end every exit stands in the report
once, and agents keep none.

What is cut is lost on its way to the broker alone: the agent may read on from a stream that the
broker has given up, until the next one takes over.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, example, given, settings

from et_contract import frames
from et_contract.documents import HostConfig, Member, MemberState, Report
from et_contract.frames import Decoder, Frame
from launcher.broker.bodies import KnownSession, read_welcome
from launcher.broker.brokering import Broker
from launcher.broker.memories import Identity, Memory
from launcher.protocol import effects
from launcher.protocol.agents import Agent
from launcher.protocol.claims import Claim
from launcher.protocol.outputs import RING

PATTERN = bytes(range(251)) * 40_000
HARMLESS = (10, 12)
"""Signals that end nothing here."""
MEMBERS = tuple(Member(f"w-{n}", f"uid-{n}", 2, MemberState.ACTIVE, "main") for n in range(2))
CONFIG = HostConfig("job", "ns", "j", 1, 1, 2, 1, MEMBERS)
IDENTITY = Identity("job", "ns", "j", 1, "l")
FIRST = Memory(Report(1, "l", 1))

WORKER, SHIM = st.integers(0, 1), st.integers(0, 2)
CHANNEL = st.sampled_from(frames.CHANNELS)
PORTION = st.sampled_from([1, 31, 33, 1000, 70_000, 1 << 30])
STEPS = st.lists(
    st.one_of(
        st.tuples(
            st.just("produce"), SHIM, CHANNEL, st.sampled_from([1, 1000, 300_000, 3_000_000])
        ),
        st.tuples(st.just("end"), SHIM, st.sampled_from([0, 3, 134])),
        st.tuples(st.just("down"), WORKER, PORTION),
        st.tuples(st.just("up"), WORKER, PORTION),
        st.tuples(st.just("echo"), WORKER),
        st.tuples(st.just("cut"), WORKER),
        st.tuples(st.just("close"), WORKER),
        st.tuples(st.just("attach"), WORKER),
        st.tuples(st.just("hear"), SHIM, PORTION),
        st.tuples(st.just("say"), SHIM, PORTION),
        st.tuples(st.just("write"), SHIM, CHANNEL, PORTION),
        st.tuples(st.just("signal"), SHIM),
        st.tuples(st.just("part"), SHIM),
        st.tuples(st.just("connect"), SHIM),
        st.tuples(st.just("restart")),
        st.tuples(st.just("wait"), st.sampled_from([0.1, 3.0, 6.0, 31.0])),
    ),
    max_size=60,
)


ALL = 1 << 30
STARTED = [
    *[(name, number, *rest) for name, *rest in (("attach",), ("up", ALL), ("down", ALL))
      for number in range(2)],
    *[(name, number, *rest) for name, *rest in (("connect",), ("say", ALL)) for number in range(3)],
    *[("up", number, ALL) for number in range(2)],
]  # fmt: skip


@dataclass
class Line:
    """Bytes on their way, and what unpacks them at the other end."""

    data: bytearray = field(default_factory=bytearray)
    decoder: Decoder = field(default_factory=Decoder)

    def take(self, count: int) -> list[Frame]:
        self.decoder.feed(bytes(self.data[:count]))
        del self.data[:count]
        return list(self.decoder)


@dataclass
class Worker:
    agent: Agent
    connection: int = 0
    is_open: bool = False
    is_welcomed: bool = False
    down: Line = field(default_factory=Line)
    up: Line = field(default_factory=Line)
    last: Frame | None = None
    kept: tuple[KnownSession, ...] = ()
    """The sessions of its last WELCOME."""


@dataclass
class Shim:
    claim: Claim
    host: int
    peer: int = 0
    hears: Line = field(default_factory=Line)
    says: Line = field(default_factory=Line)
    spawned: int = 0
    code: int | None = None
    is_lost: bool = False
    gaps: dict[int, list[tuple[int, int]]] = field(
        default_factory=lambda: {channel: [] for channel in frames.CHANNELS}
    )
    """Of each channel, what it was told has been dropped."""
    come: dict[int, int] = field(default_factory=lambda: dict.fromkeys(frames.CHANNELS, 0))
    produced: dict[int, int] = field(default_factory=lambda: dict.fromkeys(frames.CHANNELS, 0))
    written: dict[int, bytearray] = field(
        default_factory=lambda: {channel: bytearray() for channel in frames.CHANNELS}
    )
    signals: list[int] = field(default_factory=list)
    delivered: list[int] = field(default_factory=list)

    def note(self, frame: Frame) -> None:
        """What comes of the channels, and what never will."""
        if frame.type == frames.LOST:
            self.is_lost = True
        elif frame.type == frames.DATA:
            end = frame.offset + len(frame.payload)
            self.come[frame.flags] = max(self.come[frame.flags], end)
        elif frame.type == frames.DROPPED:
            end = frames.decode_json(frame)["to"]
            if end > self.come[frame.flags]:
                self.gaps[frame.flags].append((self.come[frame.flags], end))
                self.come[frame.flags] = end

    def check_output(self) -> None:
        """All that was produced is written, but for the gaps, and each of these is told."""
        told = bytes(self.written[frames.STDERR]).count(b"edl: ")
        assert told == sum(map(len, self.gaps.values()))
        for channel in frames.CHANNELS if not told else (frames.STDOUT,):
            whole, start = b"", 0
            for gap, end in self.gaps[channel]:
                whole += PATTERN[start:gap]
                start = end
            whole += PATTERN[start : self.produced[channel]]
            assert bytes(self.written[channel]) == whole


class Whole:
    """Each step is a method; `finish` mends everything and lets it end."""

    is_kept = True

    def __init__(self) -> None:
        self.now = 100.0
        self.memory = FIRST
        self.workers = [
            Worker(Agent(instance=f"i{n}", job="j", pod=f"uid-{n}", epoch=1, grace=60))
            for n in range(2)
        ]
        self.shims = [
            Shim(Claim(session=bytes([65 + n]) * 16, host=f"w-{n % 2}", command="c"), n % 2)
            for n in range(3)
        ]
        self.peers: dict[int, Shim] = {}
        self.last_peer = 0
        self.broker = self.make_broker()

    def make_broker(self) -> Broker:
        broker = Broker(IDENTITY, self.memory, wire=self, shelf=self, now=self.now)
        broker.take_config(CONFIG, self.now)
        return broker

    # ------------------------------------------------------------ the wire and the shelf
    def to_agent(self, uid: str, data: bytes) -> None:
        worker = self.workers[int(uid[-1])]
        if worker.is_welcomed:
            worker.up.data += data

    def to_peer(self, peer: int, data: bytes, sessions: int = 1) -> bool:
        if peer in self.peers:
            self.peers[peer].hears.data += data
        return peer in self.peers

    def hang_up(self, peer: int) -> None:
        self.lose_peer(peer)

    def publish(self, text: str) -> None:
        pass

    def keep(self, memory: Memory) -> None:
        self.memory = memory

    # ------------------------------------------------------------ workers
    def find(self, session: bytes) -> Shim:
        return self.shims[session[0] - 65]

    def carry_out(self, worker: Worker, wanted: list[Any]) -> None:
        for effect in wanted:
            if isinstance(effect, effects.Send):
                if effect.connection == worker.connection and worker.is_open:
                    worker.down.data += effect.data
            elif isinstance(effect, effects.Spawn):
                self.find(effect.session).spawned += 1
                self.carry_out(worker, worker.agent.started(effect.session, 7))
            elif isinstance(effect, effects.Signal):
                self.deliver(effect)
            elif isinstance(effect, effects.Sweep):
                self.carry_out(worker, worker.agent.swept(effect.session, 0))
            elif isinstance(effect, effects.Survey):
                self.carry_out(worker, worker.agent.surveyed(0, self.now))

    def deliver(self, effect: effects.Signal) -> None:
        if effect.number in HARMLESS:
            self.find(effect.session).delivered.append(effect.number)
        else:
            self.end(effect.session[0] - 65, 128 + effect.number)

    def produce(self, index: int, channel: int, size: int) -> None:
        shim = self.shims[index]
        agent, session = self.workers[shim.host].agent, shim.claim.session
        if shim.spawned and shim.code is None and agent.wants(session, channel):
            start = shim.produced[channel]
            shim.produced[channel] += len(PATTERN[start : start + size])
            agent.output(session, channel, PATTERN[start : start + size])

    def end(self, index: int, code: int) -> None:
        shim = self.shims[index]
        if not shim.spawned or shim.code is not None:
            return
        shim.code = code
        worker = self.workers[shim.host]
        for channel in frames.CHANNELS:
            self.carry_out(worker, worker.agent.output_ended(shim.claim.session, channel))
        self.carry_out(worker, worker.agent.ended(shim.claim.session, code, "x", self.now))

    # ------------------------------------------------------------ streams
    def attach(self, number: int) -> None:
        worker = self.workers[number]
        if worker.is_open:
            return
        worker.connection += 1
        worker.is_open = True
        worker.down, worker.up, worker.last = Line(), Line(), None
        worker.agent.connected(worker.connection, self.now)
        worker.up.data += self.broker.build_hello(f"uid-{number}", worker.connection)

    def close(self, number: int) -> None:
        """The agent hears that the stream which was cut has ended."""
        worker = self.workers[number]
        if not worker.is_open:
            self.carry_out(worker, worker.agent.disconnected(worker.connection))

    def cut(self, number: int) -> None:
        """The agent hears of it from the next connection, or when it has heard nothing for long."""
        worker = self.workers[number]
        if worker.is_welcomed:
            self.broker.lose_stream(f"uid-{number}")
        worker.is_open = worker.is_welcomed = False

    def up(self, number: int, count: int) -> None:
        worker = self.workers[number]
        for frame in worker.up.take(count):
            taken = worker.agent.receive(worker.connection, frame, self.now)
            self.carry_out(worker, taken)

    def down(self, number: int, count: int) -> None:
        worker = self.workers[number]
        while worker.is_open and len(worker.down.data) < count:
            data = worker.agent.next_data(worker.connection)
            if data is None:
                break
            worker.down.data += data
        for frame in worker.down.take(count) if worker.is_open else ():
            self.take(number, frame)
            worker.last = frame

    def echo(self, number: int) -> None:
        """The last frame comes once more."""
        worker = self.workers[number]
        if worker.last is not None and worker.is_welcomed and worker.last.type != frames.WELCOME:
            self.take(number, worker.last)

    def take(self, number: int, frame: Frame) -> None:
        worker = self.workers[number]
        if frame.type == frames.WELCOME:
            worker.is_welcomed = True
            welcome = read_welcome(frame)
            worker.kept = welcome.sessions
            self.broker.take_welcome(f"uid-{number}", welcome, self.now)
        elif frame.type == frames.REJECT:
            self.cut(number)
        else:
            self.broker.take_agent_frame(f"uid-{number}", frame, self.now)

    # ------------------------------------------------------------ shims
    def connect(self, index: int) -> None:
        shim = self.shims[index]
        if shim.peer == 0:
            self.last_peer += 1
            shim.peer = self.last_peer
            self.peers[shim.peer] = shim
            shim.hears, shim.says = Line(), Line()
            shim.says.data += shim.claim.opening()

    def part(self, index: int) -> None:
        """What was said is still heard, as from a socket that was closed."""
        self.say(index, 1 << 30)
        if self.shims[index].peer:
            self.lose_peer(self.shims[index].peer)

    def lose_peer(self, peer: int) -> None:
        shim = self.peers.pop(peer, None)
        if shim is not None:
            shim.peer = 0
            self.broker.lose_peer(peer, self.now)

    def say(self, index: int, count: int) -> None:
        shim = self.shims[index]
        if shim.peer:
            for frame in shim.says.take(count):
                self.broker.take_peer_frame(shim.peer, frame, self.now)

    def hear(self, index: int, count: int) -> None:
        shim = self.shims[index]
        if not shim.peer:
            return
        for frame in shim.hears.take(count):
            shim.note(frame)
            shim.claim.receive(frame)
        shim.says.data += shim.claim.outgoing()

    def signal(self, index: int) -> None:
        shim = self.shims[index]
        shim.signals.append(HARMLESS[len(shim.signals) % len(HARMLESS)])
        said = shim.claim.signal(shim.signals[-1])
        if shim.peer:
            shim.says.data += said

    def write(self, index: int, channel: int, count: int) -> None:
        shim = self.shims[index]
        data = bytes(shim.claim.unwritten(channel)[:count])
        shim.written[channel] += data
        shim.claim.wrote(channel, len(data))
        if shim.peer:
            shim.says.data += shim.claim.outgoing()

    # ------------------------------------------------------------ all of it
    def restart(self) -> None:
        """The broker dies; the next one knows what was kept."""
        for number in range(2):
            self.cut(number)
        for shim in self.shims:
            shim.peer = 0
        self.peers.clear()
        self.broker.conclude(self.now)
        report = self.memory.report
        report = replace(report, broker_start=report.broker_start + 1)
        self.memory = replace(self.memory, report=report)
        self.broker = self.make_broker()

    def wait(self, seconds: float) -> None:
        self.now += seconds
        self.broker.conclude(self.now)
        for number, worker in enumerate(self.workers):
            if worker.is_open:
                # An open stream is pinged; what is under way counts as one.
                worker.up.data += self.broker.build_ping(self.now) if worker.is_welcomed else b""
                self.up(number, 1 << 30)
            self.carry_out(worker, worker.agent.tick(self.now))

    def check(self) -> None:
        for shim in self.shims:
            assert shim.spawned <= 1
            assert shim.delivered == shim.signals[: len(shim.delivered)]
            code = shim.claim.exit_code
            if code is not None:
                assert code == shim.code
            if code is not None and not shim.is_lost:
                shim.check_output()

    def finish(self) -> None:
        for _ in range(3000):
            for number in range(2):
                self.attach(number)
                self.up(number, 1 << 30)
                self.down(number, 1 << 20)
            for index in range(3):
                self.connect(index)
                self.say(index, 1 << 30)
                self.end(index, 7)
                self.hear(index, 1 << 30)
                for channel in frames.CHANNELS:
                    self.write(index, channel, 1 << 30)
                self.say(index, 1 << 30)
            self.broker.conclude(self.now)
            self.check()
            if all(shim.claim.exit_code is not None for shim in self.shims):
                return
        raise AssertionError("some session does not end")

    def reattach(self) -> None:
        """New streams, once all that is under way has come."""
        for number in range(2):
            self.up(number, ALL)
            self.cut(number)
            self.attach(number)
            self.up(number, ALL)
            self.down(number, ALL)

    def run(self, steps: Iterable[tuple[Any, ...]]) -> None:
        """Step by step, and what must hold after each."""
        for name, *arguments in steps:
            getattr(self, name)(*arguments)
            self.check()


UNWRITTEN = [
    *[("produce", 0, frames.STDOUT, 1), ("down", 0, ALL)] * 2,
    ("hear", 0, ALL),
    ("part", 0),
    ("connect", 0),
    ("say", 0, ALL),
    ("write", 0, frames.STDOUT, ALL),
    ("write", 0, frames.STDOUT, ALL),
    ("say", 0, ALL),
    ("up", 0, ALL),
    ("produce", 0, frames.STDOUT, 1),
]
"""A shim comes back before it has written what it has, and its ACK is ahead of what came since."""


@pytest.mark.long
@settings(deadline=None, max_examples=200, suppress_health_check=[HealthCheck.too_slow])
@given(st.booleans(), STEPS)
@example(True, UNWRITTEN)
def test_whatever_happens_exits_are_true_and_stand_in_the_report_once(
    starts: bool, steps: list[Any]
):
    whole = Whole()
    whole.run([*(STARTED if starts else ()), *steps])
    whole.finish()
    whole.reattach()
    assert [worker.kept for worker in whole.workers] == [(), ()]
    exits = whole.memory.report.exits
    for shim in whole.shims:
        told = [e for e in exits[f"uid-{shim.host}"] if e.session == shim.claim.session.hex()]
        assert [e.code for e in told] == [shim.code]
        # Only who stays away is given up, and only what exceeds the ring is let go.
        if whole.now < 102.0 and sum(shim.produced.values()) <= RING:
            assert not shim.is_lost
            assert not any(shim.gaps.values())


def test_every_signal_is_delivered_however_often_the_stream_is_cut_or_the_broker_is_away():
    whole = Whole()
    whole.run(STARTED)
    for act in (("cut", 0), ("restart",), ("cut", 0)):
        whole.run([("signal", 0), act, ("signal", 0), *STARTED])
    shim = whole.shims[0]
    assert len(shim.signals) == 6
    assert shim.delivered == shim.signals
    whole.run([("down", 0, ALL), ("hear", 0, ALL)])
    assert not shim.claim.signals.is_waiting()


def test_a_loss_of_more_than_the_ring_is_told_and_still_ends_with_0():
    whole = Whole()
    whole.run([*STARTED, ("cut", 0), ("close", 0)])
    whole.run([*[("produce", 0, frames.STDOUT, 3_000_000)] * 2, ("end", 0, 0)])
    whole.finish()
    shim = whole.shims[0]
    assert shim.gaps[frames.STDOUT] == [(0, 6_000_000 - RING)]
    assert b"edl: w-0: 1805696 bytes of stdout were dropped" in shim.written[frames.STDERR]
    assert shim.claim.exit_code == 0
