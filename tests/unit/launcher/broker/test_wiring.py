"""What waits for the wire is bounded, whoever does not read."""

from __future__ import annotations

import asyncio

import pytest

from launcher.broker.wiring import AGENT_HELD, MESSAGE, PEER_HELD, Outbox, Wires
from launcher.protocol.frames import ProtocolError

CHUNK = b"x" * 100_000


class StuckTransport(asyncio.Transport):
    """Its peer reads nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.held = 0
        self.is_aborted = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.held += len(data)

    def get_write_buffer_size(self) -> int:
        return self.held

    def is_closing(self) -> bool:
        return self.is_aborted

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
    with pytest.raises(ProtocolError, match="wait for the agent"):
        await outbox.take()


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
