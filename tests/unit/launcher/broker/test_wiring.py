"""What waits for the wire is bounded, whoever does not read."""

from __future__ import annotations

import asyncio

import pytest

from et_contract import frames
from et_contract.frames import Frame, ProtocolError
from launcher.broker.brokering import Broker
from launcher.broker.serving import FRAMES_A_TURN, Connection
from launcher.broker.wiring import (
    AGENT_HELD,
    AGENTS_HELD,
    ALL_HELD,
    LOOK_BYTES,
    MESSAGE,
    MOST_PEERS,
    PEER_HELD,
    UNFINISHED,
    Outbox,
    Wires,
)

CHUNK = b"x" * 100_000


class StuckTransport(asyncio.Transport):
    """Its peer reads nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.held = 0
        self.looks = 0
        self.is_aborted = False
        self.is_paused = False

    def pause_reading(self) -> None:
        self.is_paused = True

    def resume_reading(self) -> None:
        self.is_paused = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.held += len(data)

    def get_write_buffer_size(self) -> int:
        self.looks += 1
        return self.held

    def is_closing(self) -> bool:
        return self.is_aborted

    def close(self) -> None:
        self.abort()

    def abort(self) -> None:
        self.is_aborted = True


async def test_frames_leave_in_order_and_a_ping_before_them_all():
    outbox = Outbox()
    for frame in (b"a", b"b", CHUNK, b"c"):
        outbox.put(frame)
    outbox.put_first(b"!")
    assert await outbox.take() == b"!ab" + CHUNK
    assert await outbox.take() == b"c"
    assert len(CHUNK) > MESSAGE


async def test_a_stream_for_which_too_much_waits_is_ended():
    outbox = Outbox()
    for _ in range(AGENT_HELD // len(CHUNK) + 1):
        outbox.put(CHUNK)
    assert outbox.held == 0
    with pytest.raises(ProtocolError, match="waits for the agent"):
        await outbox.take()
    with pytest.raises(ProtocolError, match="waits for the agent"):
        outbox.put_first(b"!")


async def test_of_many_agents_that_do_not_read_those_for_whom_most_waits_are_ended():
    """A shim may acknowledge, or signal, to a thousand of them as often as it likes."""
    wires, patient = Wires(), Outbox()
    wires.open_stream("patient", patient)
    stuck = {f"uid-{number}": Outbox() for number in range(2 * AGENTS_HELD // AGENT_HELD)}
    for uid, outbox in stuck.items():
        wires.open_stream(uid, outbox)
    for _ in range(AGENT_HELD // len(CHUNK)):
        wires.to_agent("patient", b"x")
        for uid in stuck:
            wires.to_agent(uid, CHUNK)
        assert await patient.take() == b"x"
    living = [outbox.held for outbox in stuck.values() if outbox.held]
    assert sum(living) <= AGENTS_HELD
    assert len(living) > 10


async def test_what_was_taken_makes_room():
    outbox = Outbox()
    for _ in range(2 * AGENT_HELD // len(CHUNK)):
        outbox.put(CHUNK)
        await outbox.take()


@pytest.mark.parametrize("sessions", [1, 3])
def test_a_peer_that_does_not_read_is_cut_off(sessions: int):
    wires, transport = Wires(), StuckTransport()
    peer = wires.add_peer(transport)
    sent = 0
    while wires.to_peer(peer, CHUNK, sessions):
        sent += len(CHUNK)
    assert transport.is_aborted
    assert sessions * PEER_HELD < sent <= sessions * PEER_HELD + len(CHUNK)


def test_of_many_that_do_not_read_those_with_most_are_cut_off():
    wires, reader = Wires(), StuckTransport()
    patient = wires.add_peer(reader)
    floods = [StuckTransport() for _ in range(2 * ALL_HELD // PEER_HELD)]
    peers = [wires.add_peer(transport) for transport in floods]
    for _ in range(PEER_HELD // len(CHUNK)):
        assert wires.to_peer(patient, CHUNK)
        reader.held = 0
        for peer in peers:
            wires.to_peer(peer, CHUNK)
    living = [transport for transport in floods if not transport.is_aborted]
    assert sum(transport.held for transport in living) <= ALL_HELD
    assert len(living) > 100
    for peer in peers:
        wires.remove_peer(peer)
    assert wires.to_peer(patient, CHUNK)
    assert not reader.is_aborted


def test_what_waits_is_not_counted_for_each_line():
    wires, transport = Wires(), StuckTransport()
    peer, line = wires.add_peer(transport), b"x" * 80
    sent = 0
    while wires.to_peer(peer, line):
        sent += len(line)
    assert PEER_HELD < sent < PEER_HELD + 2 * LOOK_BYTES
    assert transport.looks <= sent // LOOK_BYTES + 1


def test_who_has_read_all_is_not_cut_off_once_his_sessions_are_fewer():
    wires, transport = Wires(), StuckTransport()
    peer = wires.add_peer(transport)
    while transport.held < 2 * PEER_HELD:
        assert wires.to_peer(peer, CHUNK, 3)
    transport.held = 0
    assert wires.to_peer(peer, b"x")


class IdleBroker(Broker):
    """No frame of these tests comes to its end."""

    def __init__(self) -> None:
        """It needs nothing."""


class Taker(IdleBroker):
    """Notes of whom it takes a frame, and cuts off whom it has taken so many of."""

    def __init__(self, most: int) -> None:
        self.taken: list[int] = []
        self.most = most
        self.wires = Wires()

    def take_peer_frame(self, peer: int, frame: Frame, now: float) -> None:
        self.taken.append(peer)
        if self.taken.count(peer) == self.most:
            self.wires.hang_up(peer)


async def connect(wires: Wires, broker: Broker | None = None) -> tuple[Connection, StuckTransport]:
    broker = broker or IdleBroker()
    connection, transport = Connection(broker, wires, lambda: None), StuckTransport()
    connection.connection_made(transport)
    return connection, transport


async def test_of_those_whose_frames_do_not_end_those_with_most_are_cut_off():
    wires = Wires()
    frame = frames.encode(frames.SPAWN, b"s" * 16, payload=b"x" * 900_000)[:-1]
    shim, wire_of_shim = await connect(wires)
    shim.data_received(frame[:50_000])
    floods = [await connect(wires) for _ in range(2 * UNFINISHED // len(frame))]
    for flood, _ in floods:
        flood.data_received(frame)
    living = [wire for _, wire in floods if not wire.is_aborted]
    assert len(living) * len(frame) <= UNFINISHED
    assert not wire_of_shim.is_aborted


async def test_what_a_connection_held_counts_no_more_when_the_frame_or_the_connection_ends():
    wires = Wires()
    size = 900_000
    for number in range(4 * UNFINISHED // size):
        peer = wires.add_peer(StuckTransport())
        wires.note_unfinished(peer, size)
        if number % 2:
            wires.note_unfinished(peer, 0)
        wires.remove_peer(peer)
    last = StuckTransport()
    wires.note_unfinished(wires.add_peer(last), 2 * size)
    assert not last.is_aborted


async def test_a_connection_that_says_much_at_once_leaves_all_others_their_turn():
    broker = Taker(most=10_000)
    flood, wire = await connect(broker.wires, broker)
    other, _ = await connect(broker.wires, broker)
    line = frames.encode(frames.HOSTS)
    flood.data_received(line * 1000 + line[:7])
    assert (len(broker.taken), wire.is_paused) == (FRAMES_A_TURN, True)
    other.data_received(line)
    assert broker.taken[-1] == 2
    while wire.is_paused:
        before = len(broker.taken)
        await asyncio.sleep(0)
        assert len(broker.taken) <= before + FRAMES_A_TURN
    assert broker.taken.count(1) == 1000
    flood.data_received(line[7:])
    assert broker.taken.count(1) == 1001


async def test_what_a_connection_says_at_once_is_one_piece_of_news():
    broker, touched = Taker(most=10_000), []
    connection = Connection(broker, broker.wires, lambda: touched.append(len(broker.taken)))
    connection.connection_made(StuckTransport())
    connection.data_received(frames.encode(frames.HOSTS) * 1000)
    for _ in range(20):
        await asyncio.sleep(0)
    assert touched == [1000]


async def test_a_defect_in_a_later_turn_ends_the_connection_as_in_the_first():
    class Faulty(Taker):
        def take_peer_frame(self, peer: int, frame: Frame, now: float) -> None:
            super().take_peer_frame(peer, frame, now)
            if len(self.taken) > FRAMES_A_TURN:
                raise RuntimeError("a defect")

    broker = Faulty(most=10_000)
    told = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
    connection, wire = await connect(broker.wires, broker)
    connection.data_received(frames.encode(frames.HOSTS) * 100)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert wire.is_aborted
    assert len(told) == 1


async def test_of_who_was_cut_off_nothing_more_is_taken():
    broker = Taker(most=FRAMES_A_TURN + 3)
    flood, _ = await connect(broker.wires, broker)
    flood.data_received(frames.encode(frames.HOSTS) * 1000)
    for _ in range(20):
        await asyncio.sleep(0)
    assert len(broker.taken) == broker.most


async def test_news_of_who_is_cut_off_between_two_turns_is_told():
    broker, touched = Taker(most=10_000), []
    connection = Connection(broker, broker.wires, lambda: touched.append(len(broker.taken)))
    connection.connection_made(StuckTransport())
    connection.data_received(frames.encode(frames.HOSTS) * 1000)
    broker.wires.hang_up(broker.taken[0])
    for _ in range(20):
        await asyncio.sleep(0)
    assert touched == [FRAMES_A_TURN]


async def test_a_connection_too_many_is_ended():
    wires = Wires()
    crowd = [StuckTransport() for _ in range(MOST_PEERS + 2)]
    peers = [wires.add_peer(transport) for transport in crowd]
    assert [t.is_aborted for t in crowd[-3:]] == [False, True, True]
    wires.remove_peer(peers[0])
    wires.add_peer(fresh := StuckTransport())
    assert not fresh.is_aborted
