"""Claim, relay and agent in a row, cut anywhere in any order: no byte and no exit is lost.

In flight means: what the other end has not yet read. A cut loses it, but the agent's side may read
on from a stream that the broker has given up already, until the next one takes over.
"""

from __future__ import annotations

from collections import deque

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from et_contract import frames
from et_contract.documents import Member, MemberState
from et_contract.frames import Frame
from launcher.broker.bodies import read_welcome
from launcher.broker.hosts import HostList
from launcher.broker.relaying import Relay
from launcher.protocol.agents import Agent, Effects
from launcher.protocol.claims import Claim
from launcher.protocol.effects import Hang, Send, Spawn, Survey

SESSION = b"s" * 16
CODE = 7
MEMBER = Member("w-0", "uid", 1, MemberState.ACTIVE, "main")
STEPS = (
    "produce", "flood", "agent speaks", "agent reads", "shim reads", "shim speaks", "shim writes",
    "cut", "attach", "shim cut", "connect", "restart", "end",
)  # fmt: skip


class Chain:
    """One session of one worker; `steps` are methods, named with spaces."""

    def __init__(self) -> None:
        self.agent = Agent(instance="i", job="j", pod="p", epoch=1, grace=60)
        self.claim = Claim(session=SESSION, host="w-0", command="c")
        self.written: dict[int, bytes] = dict.fromkeys(frames.STREAMS, b"")
        self.produced: dict[int, bytes] = dict.fromkeys(frames.STREAMS, b"")
        self.connection = self.peer = self.starts = 0
        self.is_attached = self.is_connected = self.is_started = self.is_over = False
        self.to_agent: deque[Frame] = deque()
        self.from_agent: deque[Frame] = deque()
        self.to_shim: deque[Frame] = deque()
        self.from_shim: deque[Frame] = deque()
        self.spawned = 0
        self.relay = self.make_relay()

    def make_relay(self) -> Relay:
        self.starts += 1
        relay = Relay(
            Ends(self),
            hosts=HostList("job-uid", 1, members={MEMBER.uid: MEMBER}),
            started_at=0.0,
            on_spawn=lambda *_: None,
        )
        relay.bind(1)
        return relay

    def carry_out(self, wanted: Effects) -> None:
        for effect in wanted:
            if isinstance(effect, Send):
                if effect.connection == self.connection:
                    self.from_agent.extend(decode(effect.data))
            elif isinstance(effect, Spawn):
                self.spawned += 1
                self.is_started = True
                self.carry_out(self.agent.started(effect.session, 1))
            elif isinstance(effect, Survey):
                self.carry_out(self.agent.surveyed(0, 0.0))
            else:
                assert isinstance(effect, Hang)

    # ------------------------------------------------------------ the worker
    def produce(self, size: int = 10) -> None:
        for stream in frames.STREAMS:
            wants = self.is_started and not self.is_over and self.agent.wants(SESSION, stream)
            if wants:
                data = bytes([len(self.produced[stream]) % 251]) * size
                self.produced[stream] += data
                self.agent.output(SESSION, stream, data)

    def flood(self) -> None:
        self.produce(frames.MAX_DATA * 3)

    def end(self) -> None:
        if self.is_started and not self.is_over:
            self.is_over = True
            self.carry_out(self.agent.ended(SESSION, CODE, "exited", 0.0))
            for stream in frames.STREAMS:
                self.carry_out(self.agent.output_ended(SESSION, stream))

    def agent_reads(self) -> None:
        if self.to_agent:
            self.carry_out(self.agent.receive(self.connection, self.to_agent.popleft(), 0.0))

    # ------------------------------------------------------------ the stream
    def agent_speaks(self) -> None:
        data = self.agent.next_data(self.connection)
        if data is not None:
            self.from_agent.extend(decode(data))
        if not self.from_agent or not self.connection:
            return
        frame = self.from_agent.popleft()
        if frame.type == frames.WELCOME:
            self.is_attached = True
            self.relay.attach("uid", read_welcome(frame).sessions)
        elif self.is_attached:
            self.relay.take_agent_frame("uid", frame)

    def cut(self) -> None:
        self.relay.detach("uid")
        self.is_attached = False
        self.from_agent.clear()

    def attach(self) -> None:
        if self.is_attached or any(frame.type == frames.WELCOME for frame in self.from_agent):
            return
        self.cut()
        self.to_agent.clear()
        self.connection += 1
        self.agent.connected(self.connection, 0.0)
        body = {"job": "j", "pod": "p", "epoch": 1, "launcher": "l", "brokerStart": self.starts}
        hello = frames.encode_json(frames.HELLO, {**body, "connection": self.connection})
        self.carry_out(self.agent.receive(self.connection, *decode(hello), 0.0))

    # ------------------------------------------------------------ the shim
    def connect(self) -> None:
        if not self.is_connected:
            self.is_connected = True
            self.peer += 1
            self.from_shim.extend(decode(self.claim.opening()))

    def shim_cut(self) -> None:
        if self.is_connected:
            # What was sent is still read.
            while self.from_shim:
                self.shim_speaks()
            self.is_connected = False
            self.to_shim.clear()
            self.relay.lose_peer(self.peer, 0.0)

    def shim_speaks(self) -> None:
        if self.from_shim:
            self.relay.take_shim_frame(self.peer, self.from_shim.popleft(), 0.0)

    def shim_reads(self) -> None:
        if self.to_shim:
            self.claim.receive(self.to_shim.popleft())
            self.say()

    def shim_writes(self) -> None:
        for stream in frames.STREAMS:
            data = bytes(self.claim.unwritten(stream)[:20_000])
            self.written[stream] += data
            self.claim.wrote(stream, len(data))
        self.say()

    def say(self) -> None:
        data = self.claim.outgoing()
        if self.is_connected:
            self.from_shim.extend(decode(data))

    def restart(self) -> None:
        self.cut()
        self.is_connected = False
        self.to_shim.clear()
        self.from_shim.clear()
        self.relay = self.make_relay()

    def heal(self) -> int:
        for _ in range(10_000):
            self.attach()
            self.connect()
            for step in (self.agent_speaks, self.agent_reads, self.shim_reads, self.shim_writes):
                step()
            while self.from_shim:
                self.shim_speaks()
            if self.is_started:
                self.end()
            if self.claim.exit_code is not None and not self.from_shim and not self.to_agent:
                return self.claim.exit_code
        raise AssertionError("nobody moves")


class Ends:
    """The wire of the relay."""

    def __init__(self, chain: Chain) -> None:
        self._chain = chain

    def to_agent(self, uid: str, data: bytes) -> None:
        self._chain.to_agent.extend(decode(data))

    def to_peer(self, peer: int, data: bytes, sessions: int = 1) -> bool:
        if peer == self._chain.peer and self._chain.is_connected:
            self._chain.to_shim.extend(decode(data))
        return True

    def hang_up(self, peer: int) -> None:
        assert peer != self._chain.peer


def decode(data: bytes) -> list[Frame]:
    decoder = frames.Decoder()
    decoder.feed(data)
    return list(decoder)


UNWRITTEN = [
    "produce",
    "agent speaks",
    "produce",
    "agent speaks",
    "shim reads",
    "shim reads",
    "shim cut",
]
"""A shim comes back before it has written what it has, and its ACK meets what is sent again."""


@pytest.mark.long
@settings(deadline=None, max_examples=300)
@given(st.lists(st.sampled_from(STEPS), max_size=60))
@example(UNWRITTEN)
def test_wherever_it_is_cut_the_shim_has_every_byte_and_the_code(steps: list[str]):
    chain = Chain()
    for step in ("attach", "agent speaks", "connect", "shim speaks", "agent reads", *steps):
        getattr(chain, step.replace(" ", "_"))()
    assert chain.heal() == CODE
    assert chain.spawned == 1
    assert chain.written == chain.produced
    assert chain.relay.due() is None
    assert chain.relay.find_running() == []
    chain.cut()
    chain.attach()
    [welcome] = [frame for frame in chain.from_agent if frame.type == frames.WELCOME]
    assert read_welcome(welcome).sessions == ()
