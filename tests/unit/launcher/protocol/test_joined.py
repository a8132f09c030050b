"""Both ends joined in memory, with cuts anywhere and bytes delivered in any portions."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, given, settings

from et_contract import frames
from launcher.protocol import effects
from launcher.protocol.agents import Agent
from launcher.protocol.claims import Claim
from launcher.protocol.outputs import RING

PATTERN = bytes(range(251)) * 100_000
SESSION = b"s" * 16
EXIT_CODES = st.sampled_from([0, 1, 134, 137, 255])
SIZES = st.sampled_from([1, 7, 1000, 40_000, 300_000])
PORTIONS = st.sampled_from([1, 31, 32, 33, 1000, 70_000, 10_000_000])
STREAM = st.sampled_from(frames.STREAMS)


def operations(sizes: st.SearchStrategy[int]) -> st.SearchStrategy[list[tuple[object, ...]]]:
    return st.lists(
        st.one_of(
            st.tuples(st.just("produce"), STREAM, sizes),
            st.tuples(st.just("down"), PORTIONS),
            st.tuples(st.just("up"), PORTIONS),
            st.tuples(st.just("write"), STREAM, SIZES),
            st.tuples(st.just("cut")),
            st.tuples(st.just("crash")),
            st.tuples(st.just("connect")),
            st.tuples(st.just("end")),
            st.tuples(st.just("signal")),
        ),
        max_size=40,
    )


class Link:
    """An agent, a relay that may lose what it holds, and a claim."""

    def __init__(self, code: int) -> None:
        self.code = code
        self.agent = Agent(instance="i", job="j", pod="p", epoch=1, grace=30)
        self.claim = Claim(session=SESSION, host="h", command="c", window=frames.WINDOW)
        self.spawns = 0
        self.connection = 0
        self.is_connected = False
        self.is_relay_new = True
        self.down, self.up = bytearray(), bytearray()
        self.from_agent, self.to_agent = frames.Decoder(), frames.Decoder()
        self.acked = {1: 0, 2: 0}
        self.produced = {1: 0, 2: 0}
        self.come = {1: 0, 2: 0}
        self.gaps: dict[int, list[tuple[int, int]]] = {1: [], 2: []}
        self.written = {1: bytearray(), 2: bytearray()}
        self.exits = 0
        self.has_ended = False
        self.is_open = False
        self.signals: list[int] = []
        self.delivered: list[int] = []

    def carry_out(self, wanted: list[object]) -> None:
        for effect in wanted:
            if isinstance(effect, effects.Spawn):
                self.spawns += 1
                self.carry_out(self.agent.started(effect.session, 100))
            elif isinstance(effect, effects.Signal):
                self.delivered.append(effect.number)
            elif isinstance(effect, effects.Sweep):
                self.carry_out(self.agent.swept(effect.session, 0))
            elif isinstance(effect, effects.Send) and effect.connection == self.connection:
                self.down += effect.data

    def connect(self) -> None:
        if self.is_connected:
            return
        self.is_connected = True
        self.connection += 1
        self.down, self.up = bytearray(), bytearray()
        self.from_agent, self.to_agent = frames.Decoder(), frames.Decoder()
        hello = {"job": "j", "pod": "p", "epoch": 1, "launcher": "l"}
        hello.update(brokerStart=0, connection=self.connection)
        self.agent.connected(self.connection, 0)
        self.up += frames.encode_json(frames.HELLO, hello)

    def cut(self) -> None:
        self.is_connected = self.is_open = False
        self.carry_out(self.agent.disconnected(self.connection))

    def crash(self) -> None:
        """The relay dies and comes back: all that it knew is gone."""
        self.cut()
        self.is_relay_new = True

    def move_up(self, count: int) -> None:
        portion, self.up[:] = bytes(self.up[:count]), self.up[count:]
        self.to_agent.feed(portion)
        for frame in self.to_agent:
            self.carry_out(self.agent.receive(self.connection, frame, 0))

    def move_down(self, count: int) -> None:
        while len(self.down) < count:
            data = self.agent.next_data(self.connection) if self.is_connected else None
            if data is None:
                break
            self.down += data
        portion, self.down[:] = bytes(self.down[:count]), self.down[count:]
        self.from_agent.feed(portion)
        for frame in self.from_agent:
            if frame.type == frames.WELCOME:
                self.open()
            else:
                self.observe(frame)
                self.claim.receive(frame)
        self.acknowledge()

    def open(self) -> None:
        """A new relay is opened by the shim; one that knows the session resumes by itself."""
        if self.is_relay_new or self.claim.instance is None:
            self.up += self.claim.opening()
        else:
            body = {"instance": "i", "received": [self.acked[1], self.acked[2]]}
            self.up += frames.encode_json(frames.RESUME, body, SESSION)
            self.up += self.claim.signals.encode()
        self.is_relay_new = False
        self.is_open = True

    def observe(self, frame: frames.Frame) -> None:
        if frame.type == frames.DATA:
            self.come[frame.flags] = max(self.come[frame.flags], frame.offset + len(frame.payload))
        elif frame.type == frames.DROPPED:
            end = frames.decode_json(frame)["to"]
            if end > self.come[frame.flags]:
                self.gaps[frame.flags].append((self.come[frame.flags], end))
                self.come[frame.flags] = end

    def acknowledge(self) -> None:
        decoder = frames.Decoder()
        data = self.claim.outgoing()
        decoder.feed(data)
        for frame in decoder:
            if frame.type == frames.ACK:
                self.acked[frame.flags] = frame.offset
            self.exits += frame.type == frames.EXIT_ACK
        if self.is_connected:
            self.up += data

    def produce(self, stream: int, size: int) -> None:
        if self.spawns and not self.has_ended and self.agent.wants(SESSION, stream):
            start = self.produced[stream]
            self.produced[stream] += size
            self.agent.output(SESSION, stream, PATTERN[start : start + size])

    def write(self, stream: int, size: int) -> None:
        data = bytes(self.claim.unwritten(stream)[:size])
        self.written[stream] += data
        self.claim.wrote(stream, len(data))
        self.acknowledge()

    def signal(self) -> None:
        self.signals.append(len(self.signals) % 60 + 1)
        frame = self.claim.signal(self.signals[-1])
        if self.is_open:
            self.up += frame

    def end(self) -> None:
        if self.spawns and not self.has_ended:
            self.has_ended = True
            for stream in frames.STREAMS:
                self.carry_out(self.agent.output_ended(SESSION, stream))
            self.carry_out(self.agent.ended(SESSION, self.code, "exited", 0))

    def expected(self, stream: int) -> bytes:
        data, start = b"", 0
        for gap, end in self.gaps[stream]:
            data += PATTERN[start:gap]
            start = end
        return data + PATTERN[start : self.produced[stream]]

    def run(self, wanted: list[tuple[object, ...]]) -> None:
        acts = {"produce": self.produce, "write": self.write, "down": self.move_down}
        acts.update(up=self.move_up, cut=self.cut, crash=self.crash)
        acts.update(connect=self.connect, end=self.end, signal=self.signal)
        for name, *arguments in wanted:
            acts[name](*arguments)
            self.check()

    def check(self) -> None:
        held = sum(len(self.claim.unwritten(s)) for s in frames.STREAMS)
        assert held <= frames.WINDOW
        assert self.spawns <= 1
        assert self.delivered == self.signals[: len(self.delivered)], "once and in order"
        if self.claim.exit_code is not None:
            assert self.has_ended
            assert self.claim.exit_code == self.code

    def finish(self) -> None:
        for _ in range(1000):
            self.connect()
            self.move_up(1 << 30)
            self.move_down(1 << 20)
            self.end()
            for stream in frames.STREAMS:
                self.write(stream, 1 << 20)
            self.check()
            if self.claim.exit_code is not None:
                return
        pytest.fail("the session does not end")


def prove(code: int, wanted: list[tuple[object, ...]]) -> Link:
    link = Link(code)
    link.run(wanted)
    link.finish()
    assert bytes(link.written[1]) == link.expected(1)
    own = [b"edl: " + line for line in bytes(link.written[2]).split(b"edl: ")[1:]]
    assert len(own) == len(link.gaps[1]) + len(link.gaps[2])
    assert len(link.written[2]) >= len(link.expected(2))
    assert link.spawns == 1
    assert link.exits >= 1
    link.move_up(1 << 20)
    assert (
        link.agent.receive(link.connection, frames.Frame(frames.EXIT_ACK, SESSION, 0, 0, b""), 0)
        == []
    )
    return link


@pytest.mark.long
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(EXIT_CODES, operations(SIZES))
def test_every_byte_comes_once_and_in_order_and_the_exit_is_true(
    code: int, wanted: list[tuple[object, ...]]
) -> None:
    link = prove(code, wanted)
    for stream in frames.STREAMS:
        if sum(link.produced.values()) <= RING:
            assert link.gaps[stream] == []
            assert bytes(link.written[stream]) == PATTERN[: link.produced[stream]]


@pytest.mark.long
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(EXIT_CODES, operations(st.sampled_from([10, 500_000, 1_500_000])))
def test_bytes_beyond_the_ring_are_missing_as_a_whole_and_counted(
    code: int, wanted: list[tuple[object, ...]]
) -> None:
    prove(code, [("connect",), ("up", 1 << 20), ("down", 1 << 20), ("up", 1 << 20), *wanted])


def test_a_loss_of_more_than_the_ring_is_told_and_still_ends_with_0() -> None:
    link = prove(
        0,
        [
            ("connect",), ("up", 1 << 20), ("down", 1 << 20), ("up", 1 << 20), ("cut",),
            *[("produce", 1, 1_000_000)] * 6,
        ],
    )  # fmt: skip
    assert link.gaps[1] == [(0, 6_000_000 - RING)]
    assert b"edl: h: 1805696 bytes of stdout were dropped" in link.written[2]


def test_every_signal_is_delivered_however_often_the_stream_is_cut() -> None:
    link = Link(0)
    for act in ("cut", "crash", "cut"):
        link.run([("signal",), ("connect",), ("up", 1 << 20), ("down", 1 << 20), ("signal",)])
        link.run([("up", 1 << 20), (act,), ("signal",)])
    link.run([("connect",), ("up", 1 << 20), ("down", 1 << 20), ("up", 1 << 20)])
    assert link.delivered == list(range(1, 10))
    link.run([("down", 1 << 20)])
    assert not link.claim.signals.is_waiting()


def test_a_session_without_a_stream_never_waits_for_a_reader() -> None:
    link = Link(0)
    link.run([("connect",), ("up", 1 << 20), ("down", 1 << 20), ("up", 1 << 20)])
    link.run([("produce", 1, 300_000)])
    assert not link.agent.wants(SESSION, 1)
    assert not link.agent.wants(SESSION, 2)
    link.cut()
    assert link.agent.wants(SESSION, 1)
