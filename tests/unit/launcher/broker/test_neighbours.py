"""Whatever one shim or one agent says, the sessions of all others go on as if it had not."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import hypothesis.strategies as st
import pytest
from hypothesis import example, given

from et_contract import frames
from et_contract.documents import Member, MemberState
from et_contract.frames import Frame, ProtocolError
from launcher.broker.flows import MOST_LOSSES
from launcher.broker.hosts import HostList
from launcher.broker.relaying import RESUME_SECONDS, Relay
from launcher.broker.sessions import Session
from launcher.broker.starts import KEPT_STARTS, Starts
from launcher.broker.streams import BYTES_A_TURN, FRAMES_A_TURN
from launcher.broker.windows import POOL, Windows
from launcher.protocol.agents import Agent, Effects
from launcher.protocol.claims import Claim
from launcher.protocol.effects import Send, Signal, Spawn
from tests.unit.launcher.broker.test_edges import Agent as FarAgent
from tests.unit.launcher.broker.test_edges import StreamsRig, run
from tests.unit.launcher.broker.test_relaying import (
    EXIT,
    EXIT_ACK,
    RESUME,
    SHIM,
    SPAWN,
    SPAWNED,
    A,
    FakeWire,
    make_ack,
    make_data,
    make_dropped,
    make_frame,
    make_relay,
    make_running,
    make_session,
    make_signal,
    make_signaled,
)
from tests.unit.launcher.broker.test_windows import Counted

MEMBER = Member("w-0", "uid-0", 2, MemberState.ACTIVE, "main")
BYSTANDER = b"b" * 16
DEEP = b"[" * 500 + b"]" * 500
SHALLOW = 500
"""Calls that the Python of an agent has less room for than ours."""


class Reached(FakeWire):
    """A relay whose one worker has an agent of its own. A frame that this refuses fails."""

    def __init__(self) -> None:
        super().__init__()
        self.started: list[bytes] = []
        self.signals: list[tuple[bytes, int]] = []
        self._agent = Agent(instance="i", job="j", pod="p", epoch=1, grace=30)
        self._decoder = frames.Decoder()
        self._connection = 0
        self.relay = Relay(
            self,
            hosts=HostList("job-uid", 1, members={MEMBER.uid: MEMBER}),
            started_at=0.0,
            on_spawn=lambda *_: None,
        )
        self.relay.bind(2)
        self.connect()

    def connect(self) -> None:
        """A stream opens, in the place of the one before."""
        self.relay.detach("uid-0")
        self._decoder = frames.Decoder()
        self._connection += 1
        self._agent.connected(self._connection, 0.0)
        body = {"job": "j", "pod": "p", "launcher": "l", "epoch": 1, "brokerStart": 1}
        hello = make_frame(frames.HELLO, frames.NO_SESSION, **body, connection=self._connection)
        self._carry_out(self._agent.receive(self._connection, hello, 0.0))
        self.relay.attach("uid-0", [])

    def to_agent(self, uid: str, data: bytes) -> None:
        del uid
        self._decoder.feed(data)
        for frame in self._decoder:
            self._carry_out(self._receive(frame, SHALLOW))

    def _receive(self, frame: Frame, calls: int) -> Effects:
        if calls:
            return self._receive(frame, calls - 1)
        try:
            return self._agent.receive(self._connection, frame, 0.0)
        except ProtocolError as error:
            raise AssertionError("the stream is cut") from error

    def _carry_out(self, wanted: Effects) -> None:
        for effect in wanted:
            if isinstance(effect, Spawn):
                self.started.append(effect.session)
                self._carry_out(self._agent.started(effect.session, len(self.started)))
            elif isinstance(effect, Signal):
                self.signals.append((effect.session, effect.number))
            elif isinstance(effect, Send):
                decoder = frames.Decoder()
                decoder.feed(effect.data)
                for frame in decoder:
                    if frame.session != frames.NO_SESSION:
                        self.relay.take_agent_frame("uid-0", frame)


def make_raw(kind: int, text: bytes, offset: int = 0) -> Frame:
    return Frame(kind, A, frames.STDOUT if kind == frames.ACK else 0, offset, text)


@pytest.mark.parametrize(
    "frame",
    [
        make_raw(frames.SPAWN, b'{"host":"w-0","command":"c","env":%s}' % DEEP),
        make_raw(frames.SPAWN, b'{"host":"w-0","command":"c","more":%s}' % DEEP),
        make_raw(frames.SPAWN, b'{"host":"w-0","command":"c","env":{"a":7}}'),
        make_raw(frames.SIGNAL, b'{"signal":10,"more":%s}' % DEEP, 1),
        make_raw(frames.ACK, b"", 2**64 - 1),
        make_raw(frames.ACK, b"", 2**63),
        EXIT_ACK,
    ],
    ids=["env", "more", "numbers", "signal", "last", "beyond", "early"],
)
def test_what_a_shim_says_wrongly_cuts_no_stream(frame: Frame) -> None:
    reached = Reached()
    reached.relay.take_shim_frame(SHIM, SPAWN._replace(session=BYSTANDER), 0.0)
    if frame.type != frames.SPAWN:
        reached.relay.take_shim_frame(SHIM, SPAWN, 0.0)
    with suppress(ProtocolError):
        reached.relay.take_shim_frame(SHIM, frame, 0.0)
    reached.connect()
    reached.relay.take_shim_frame(SHIM, make_signal(10, session=BYSTANDER), 0.0)
    assert (BYSTANDER, 10) in reached.signals


def test_who_acknowledges_an_end_that_has_not_come_leaves_no_process() -> None:
    reached = Reached()
    reached.relay.take_shim_frame(SHIM, SPAWN, 0.0)
    reached.relay.take_shim_frame(SHIM, EXIT_ACK, 1.0)
    reached.relay.advance(1.0)
    assert reached.signals == [(A, 15)]


def test_an_end_that_a_broker_before_us_told_is_acknowledged() -> None:
    relay, wire, _ = make_relay()
    relay.take_shim_frame(SHIM, RESUME, 0.0)
    relay.take_shim_frame(SHIM, EXIT_ACK, 0.0)
    assert [name for name, _, _ in wire.take_agent()] == ["RESUME", "EXIT_ACK"]
    relay.advance(0.0)
    relay.take_agent_frame("uid-0", EXIT)
    assert relay.due() is None
    assert relay.find_session("uid-0", A) is None


@pytest.mark.parametrize(
    "frame",
    [SPAWNED, EXIT, make_signaled(), make_signaled(7, sender=1), make_dropped(0, 5)],
    ids=["spawned", "exit", "signaled", "ours", "dropped"],
)
def test_what_an_agent_says_again_and_again_does_not_fill_its_shims_connection(
    frame: Frame,
) -> None:
    relay, wire = make_running()
    relay.take_shim_frame(SHIM, make_signal(10), 0.0)
    for number in range(1000):
        if frame.type == frames.DROPPED:
            frame = make_dropped(number, number + 5)
        relay.take_agent_frame("uid-0", frame)
    assert len(wire.take_peer(SHIM)) <= MOST_LOSSES


def test_a_shim_that_asks_again_is_answered_again() -> None:
    relay, wire = make_running()
    for _ in range(3):
        relay.take_agent_frame("uid-0", EXIT)
        assert [name for name, _, _ in wire.take_peer(SHIM)] == ["EXIT"]
        relay.take_shim_frame(SHIM, RESUME, 0.0)
    for number in range(3):
        relay.take_shim_frame(SHIM, SPAWN, 0.0)
        relay.take_agent_frame("uid-0", SPAWNED)
        relay.take_shim_frame(SHIM, make_signal(10, number + 1), 0.0)
        relay.take_agent_frame("uid-0", make_signaled(number + 1))
        assert [name for name, _, _ in wire.take_peer(SHIM)] == ["SPAWNED", "SIGNALED"]


def test_each_cut_may_bring_losses_though_the_shim_has_taken_none_of_them() -> None:
    relay, wire = make_running()
    for cut in range(3 * MOST_LOSSES):
        relay.detach("uid-0")
        relay.attach("uid-0", [])
        relay.take_agent_frame("uid-0", make_dropped(0, cut + 1))
    assert [name for name, _, _ in wire.take_peer(SHIM)].count("DROPPED") == 3 * MOST_LOSSES


def make_job(count: int) -> tuple[Windows, list[Session]]:
    keys = [number.to_bytes(16, "big") for number in range(count)]
    sessions = Counted(
        (key, Session(key, "h", uid="uid", most_window=frames.MOST_WINDOW)) for key in keys
    )
    windows = Windows(sessions)
    windows.expect(count)
    for key in keys:
        windows.open(sessions[key])
    Counted.passes = 0
    return windows, [sessions[key] for key in keys]


@pytest.mark.long
def test_a_look_at_every_session_is_not_the_price_of_each_piece_that_is_ahead() -> None:
    windows, [first, *_] = make_job(8000)
    flow = first.flows[frames.STDOUT]
    flow.passed = first.window
    for _ in range(100_000):
        flow.passed += 1
        windows.check(first, 1)
    assert Counted.passes == 0


def test_what_is_ahead_in_all_sessions_is_counted_before_anybody_is_refused() -> None:
    windows, [first, *others] = make_job(3)
    flow = first.flows[frames.STDOUT]
    for _ in range(2 * POOL // frames.WINDOW):
        flow.passed += frames.WINDOW
        windows.check(first, frames.WINDOW)
        flow.acknowledge(flow.passed)
    flow.passed += first.window + 1
    windows.check(first, first.window + 1)
    assert Counted.passes == 1
    for other in others:
        other.flows[frames.STDOUT].passed = POOL // 2
    flow.passed += 1
    with pytest.raises(ProtocolError, match="ahead"):
        windows.check(first, POOL)
    assert Counted.passes == 2


@pytest.mark.long
def test_who_says_again_what_waits_to_be_started_is_not_one_too_many() -> None:
    starts = Starts()
    kept = [make_session(number, 1) for number in range(KEPT_STARTS)]
    assert all(map(starts.keep, kept))
    assert starts.keep(kept[0])
    assert not starts.keep(make_session(KEPT_STARTS, 1))


def test_a_reader_that_acknowledges_too_much_is_told() -> None:
    relay, _ = make_running()
    relay.take_agent_frame("uid-0", make_data(5))
    with pytest.raises(ProtocolError):
        relay.take_shim_frame(SHIM, make_ack(frames.MAX_OFFSET + 1), 0.0)
    relay.lose_peer(SHIM, 1.0)
    assert relay.due() == 1.0 + RESUME_SECONDS


INSTANCES = st.sampled_from(["i", "i" * 64, "i" * 65, "i" * 200, "", 7, ["i"], None])
PLACES = st.sampled_from(
    [0, 1, 5, frames.WINDOW, frames.MAX_OFFSET - 3, frames.MAX_OFFSET, 2**64 - 5]
)
ANSWERS = st.one_of(
    st.builds(lambda instance: make_frame(frames.SPAWNED, pid=1, instance=instance), INSTANCES),
    st.builds(make_data, st.sampled_from([1, 5, 9]), PLACES),
    st.builds(make_dropped, PLACES, PLACES),
    st.builds(make_signaled, PLACES),
    st.builds(
        lambda produced: make_frame(frames.EXIT, code=0, produced=[produced, 0], reason=""), PLACES
    ),
)


class Shim(FakeWire):
    """One that keeps every rule, whatever it is told of its session."""

    def __init__(self) -> None:
        super().__init__()
        self.claim = Claim(session=A, host="w-0", command="c")

    def to_peer(self, peer: int, data: bytes, sessions: int = 1) -> bool:
        del peer, sessions
        decoder = frames.Decoder()
        decoder.feed(data)
        for frame in decoder:
            with suppress(ProtocolError):
                self.claim.receive(frame)
        return True

    def say(self, relay: Relay, data: bytes) -> None:
        """Raises ProtocolError where the broker would end a connection that others share."""
        decoder = frames.Decoder()
        decoder.feed(data)
        for frame in decoder:
            relay.take_shim_frame(SHIM, frame, 0.0)

    def write(self) -> None:
        for channel in frames.CHANNELS:
            while data := self.claim.unwritten(channel):
                self.claim.wrote(channel, len(data))


def make_attached(wire: FakeWire) -> Relay:
    relay = Relay(
        wire,
        hosts=HostList("job-uid", 1, members={MEMBER.uid: MEMBER}),
        started_at=0.0,
        on_spawn=lambda *_: None,
    )
    relay.bind(1)
    relay.attach("uid-0", [])
    return relay


@pytest.mark.long
@given(st.lists(st.tuples(ANSWERS, st.booleans()), max_size=8))
@example([(make_dropped(0, frames.MAX_OFFSET), False), (make_data(5, frames.MAX_OFFSET), False)])
def test_whatever_an_agent_says_its_shim_is_not_made_to_break_a_rule(
    answers: list[tuple[Frame, bool]],
) -> None:
    shim = Shim()
    relay = make_attached(shim)
    shim.say(relay, shim.claim.opening())
    shim.claim.is_said = True
    shim.say(relay, shim.claim.signal(15))
    for answer, is_cut in answers:
        with suppress(ProtocolError):
            relay.take_agent_frame("uid-0", answer)
        shim.write()
        shim.say(relay, shim.claim.outgoing())
        if is_cut:
            shim.say(relay, shim.claim.opening())
    shim.say(make_attached(shim), shim.claim.opening() + shim.claim.outgoing())


class Turns(StreamsRig):
    """Counts what is taken of agents while the loop goes round once."""

    in_turn = 0

    def touch(self) -> None:
        self.in_turn += 1
        super().touch()


@pytest.mark.parametrize(("count", "size"), [(10_000, 0), (500, frames.MAX_ANSWER)])
def test_an_agent_that_says_much_at_once_leaves_all_others_their_turn(
    count: int, size: int
) -> None:
    async def check() -> None:
        rig = Turns(FarAgent)
        life = asyncio.get_running_loop().create_task(rig.live(5.0))
        await asyncio.sleep(1.0)
        rig.agents[0].say(frames.encode(frames.BUSY, payload=b"x" * size) * count)
        taken = []
        for _ in range(1000):
            rig.in_turn = 0
            await asyncio.sleep(0)
            taken.append(rig.in_turn)
        assert sum(taken) == count
        assert max(taken) <= FRAMES_A_TURN
        assert max(taken) * size <= BYTES_A_TURN
        await life

    run(check())
