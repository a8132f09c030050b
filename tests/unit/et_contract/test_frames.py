from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import given

from et_contract import frames
from et_contract.frames import Decoder, Frame, ProtocolError

FRAMES = st.builds(
    Frame,
    type=st.sampled_from(sorted(frames.NAMES)),
    session=st.binary(min_size=16, max_size=16),
    flags=st.integers(0, 0xFFFF),
    offset=st.integers(0, 2**64 - 1),
    payload=st.binary(max_size=100),
)


@pytest.mark.long
@given(st.lists(FRAMES, max_size=8), st.data())
def test_frames_come_out_as_they_went_in_wherever_they_are_cut(
    sent: list[Frame], data: st.DataObject
) -> None:
    stream = b"".join(
        frames.encode(f.type, f.session, f.payload, flags=f.flags, offset=f.offset) for f in sent
    )
    decoder, received = Decoder(), []
    while stream:
        size = data.draw(st.integers(1, len(stream)))
        decoder.feed(stream[:size])
        received += list(decoder)
        stream = stream[size:]
    assert received == sent


@pytest.mark.long
@given(st.binary(max_size=200))
def test_garbage_is_refused_or_waits_for_more_and_does_nothing_else(data: bytes) -> None:
    decoder = Decoder()
    decoder.feed(data)
    try:
        for _ in decoder:
            pass
    except ProtocolError:
        pass


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        ((2, frames.PING, 0, b"", 0, 0), "version 2"),
        ((1, 0, 0, b"", 0, 0), "type 0"),
        ((1, 200, 0, b"", 0, 0), "type 200"),
        ((1, frames.DATA, 1, b"", 0, frames.MAX_DATA + 1), "too long"),
        ((1, frames.REJECT, 0, b"", 0, frames.MAX_DATA + 1), "too long"),
        ((1, frames.PONG, 0, b"", 0, frames.MAX_ANSWER + 1), "too long"),
        ((1, frames.EXIT, 0, b"", 0, frames.MAX_ANSWER + 1), "too long"),
        ((1, frames.SPAWN, 0, b"", 0, frames.MAX_PAYLOAD + 1), "too long"),
    ],
)
def test_a_header_that_breaks_a_rule_is_refused_before_its_payload_comes(
    header: tuple[object, ...], reason: str
) -> None:
    decoder = Decoder()
    decoder.feed(frames.HEADER.pack(*header))
    with pytest.raises(ProtocolError, match=reason):
        list(decoder)


@pytest.mark.parametrize("payload", [b"{", b"[]", b"1", b"\xff", b"[" * 100_000])
def test_a_payload_that_is_no_json_object_is_refused(payload: bytes) -> None:
    with pytest.raises(ProtocolError):
        frames.decode_json(Frame(frames.SPAWN, frames.NO_SESSION, 0, 0, payload))


def test_every_frame_type_has_its_name() -> None:
    assert frames.NAMES[1] == "HELLO"
    assert frames.NAMES[28] == "DETACH"
    assert frames.NAMES[31] == "BREAK"
    assert frames.NAMES[32] == "NOTICE"
    assert sorted(frames.NAMES) == list(range(1, 33))
