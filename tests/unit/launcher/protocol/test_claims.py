from __future__ import annotations

import json
from typing import Any

import pytest

from et_contract import frames
from et_contract.frames import Frame, ProtocolError
from launcher.protocol.claims import Claim
from launcher.protocol.signals import FROM_BROKER, FROM_SHIM, MOST_WAITING

ID = b"s" * 16


@pytest.fixture
def claim() -> Claim:
    return Claim(session=ID, host="w-0", command="train", env={"A": "1"})


@pytest.fixture
def spawned(claim: Claim) -> Claim:
    claim.opening()
    control(claim, frames.SPAWNED, instance="i", pid=7)
    return claim


def control(claim: Claim, kind: int, **body: Any) -> None:
    claim.receive(Frame(kind, ID, 0, 0, json.dumps(body).encode()))


def data(claim: Claim, payload: bytes, offset: int = 0, channel: int = 1) -> None:
    claim.receive(Frame(frames.DATA, ID, channel, offset, payload))


def dropped(claim: Claim, start: int, end: int, channel: int = 1) -> None:
    claim.receive(Frame(frames.DROPPED, ID, channel, start, json.dumps({"to": end}).encode()))


def ended(claim: Claim, code: int, out: int = 0, err: int = 0) -> None:
    control(claim, frames.EXIT, code=code, produced=[out, err], reason="exited")


def write_all(claim: Claim, channel: int) -> bytes:
    written = b""
    while claim.unwritten(channel):
        view = claim.unwritten(channel)
        written += bytes(view)
        claim.wrote(channel, len(view))
    return written


def said(blob: bytes) -> list[tuple[str, Any]]:
    decoder = frames.Decoder()
    decoder.feed(blob)
    return [
        (
            frames.NAMES[f.type],
            (f.flags, f.offset) if f.type == frames.ACK else frames.decode_json(f),
        )
        for f in decoder
    ]


def test_it_opens_with_spawn_until_it_is_known_to_be_started(claim: Claim) -> None:
    body = {"host": "w-0", "command": "train", "env": {"A": "1"}, "window": frames.MOST_WINDOW}
    assert said(claim.opening()) == [("SPAWN", body)]
    assert said(claim.opening()) == [("SPAWN", body)]
    control(claim, frames.SPAWNED, instance="i", pid=7)
    data(claim, b"hello")
    claim.wrote(1, 2)
    assert said(claim.opening()) == [
        (
            "RESUME",
            {"host": "w-0", "instance": "i", "received": [2, 0], "window": frames.MOST_WINDOW},
        )
    ]


def test_only_written_bytes_are_acknowledged(spawned: Claim) -> None:
    data(spawned, b"hello")
    assert spawned.outgoing() == b""
    spawned.wrote(1, 3)
    assert spawned.outgoing() == b"", "not each byte has its own frame"
    spawned.wrote(1, 2)
    assert said(spawned.outgoing()) == [("ACK", (1, 5))]
    assert spawned.outgoing() == b""


def test_a_quarter_of_the_window_is_acknowledged_at_once(spawned: Claim) -> None:
    for offset in range(0, 100_000, 10_000):
        data(spawned, b"x" * 10_000, offset)
    for _ in range(7):
        spawned.wrote(1, 10_000)
    assert said(spawned.outgoing()) == [("ACK", (1, 70_000))]


def test_what_comes_twice_is_cut(spawned: Claim) -> None:
    data(spawned, b"hello")
    data(spawned, b"hello wor")
    data(spawned, b"wo", 6)
    data(spawned, b"world", 6)
    assert write_all(spawned, 1) == b"hello world"


def test_channels_are_kept_apart(spawned: Claim) -> None:
    data(spawned, b"out", 0, 1)
    data(spawned, b"err", 0, 2)
    assert (write_all(spawned, 2), write_all(spawned, 1)) == (b"err", b"out")


def test_a_gap_is_told_on_stderr_and_nowhere_else(spawned: Claim) -> None:
    data(spawned, b"abc")
    dropped(spawned, 1, 10)
    data(spawned, b"def", 10)
    assert write_all(spawned, 1) == b"abcdef"
    text = b"edl: w-0: 7 bytes of stdout were dropped while it was out of reach\n"
    assert write_all(spawned, 2) == text
    ended(spawned, 0, 13, 0)
    assert spawned.exit_code == 0


def test_a_loss_of_what_has_come_is_none(spawned: Claim) -> None:
    data(spawned, b"abcdef")
    dropped(spawned, 0, 4)
    write_all(spawned, 1)
    assert write_all(spawned, 2) == b""


def test_a_loss_counts_as_safe_after_what_came_before_it(spawned: Claim) -> None:
    data(spawned, b"abc")
    dropped(spawned, 3, 10)
    assert said(spawned.outgoing()) == [("ACK", (1, 0))]
    write_all(spawned, 1)
    assert said(spawned.outgoing()) == [("ACK", (1, 10))]


def test_it_leaves_with_the_code_after_the_last_byte_and_acknowledges_once(spawned: Claim) -> None:
    ended(spawned, 3, 5, 0)
    assert spawned.exit_code is None
    assert not spawned.is_complete
    data(spawned, b"hello")
    assert spawned.is_complete
    assert spawned.exit_code is None
    write_all(spawned, 1)
    assert spawned.exit_code == 3
    assert said(spawned.outgoing()) == [("ACK", (1, 5)), ("EXIT_ACK", {})]
    ended(spawned, 3, 5, 0)
    assert spawned.outgoing() == b""
    assert said(spawned.opening())[0][0] == "RESUME"
    assert said(spawned.outgoing()) == [("EXIT_ACK", {})]


@pytest.mark.parametrize("code", [0, 1, 134, 255])
def test_an_exit_alone_says_everything_when_nothing_was_written(spawned: Claim, code: int) -> None:
    ended(spawned, code)
    assert spawned.exit_code == code


@pytest.mark.parametrize("code", [0, 256, -1, None, "0", True])
def test_a_loss_is_never_a_success(spawned: Claim, code: object) -> None:
    control(spawned, frames.LOST, reason="gone", code=code)
    write_all(spawned, 2)
    assert spawned.exit_code == 137


def test_a_session_that_was_refused_leaves_with_255_and_says_why(claim: Claim) -> None:
    control(claim, frames.LOST, reason="the worker is leaving", code=255)
    assert claim.exit_code is None
    assert write_all(claim, 2) == b"edl: w-0: the worker is leaving\n"
    assert claim.exit_code == 255


@pytest.mark.parametrize(("code", "left_with"), [(134, 134), (0, 137)])
def test_a_loss_after_the_exit_keeps_what_is_known_but_no_0(
    spawned: Claim, code: int, left_with: int
) -> None:
    ended(spawned, code, 100, 0)
    control(spawned, frames.LOST, reason="gone", code=137)
    write_all(spawned, 2)
    assert spawned.exit_code == left_with


def test_a_loss_after_everything_has_come_changes_nothing(spawned: Claim) -> None:
    data(spawned, b"hello")
    ended(spawned, 0, 5, 0)
    control(spawned, frames.LOST, reason="gone", code=137)
    write_all(spawned, 1)
    assert write_all(spawned, 2) == b""
    assert spawned.exit_code == 0


def test_a_channel_that_nobody_reads_counts_as_written(spawned: Claim) -> None:
    data(spawned, b"hello")
    spawned.discard(1)
    assert said(spawned.outgoing()) == [("ACK", (1, 5))]
    data(spawned, b"more", 5)
    assert not spawned.unwritten(1)
    ended(spawned, 0, 9, 0)
    assert spawned.exit_code == 0


def signals(blob: bytes) -> list[tuple[int, int]]:
    decoder = frames.Decoder()
    decoder.feed(blob)
    found = [frame for frame in decoder if frame.type == frames.SIGNAL]
    return [(frame.offset, frames.decode_json(frame)["signal"]) for frame in found]


def delivered(claim: Claim, number: int, sender: int = FROM_SHIM) -> None:
    claim.receive(Frame(frames.SIGNALED, ID, sender, number, b""))


def test_signals_are_said_again_in_order_until_they_are_delivered(spawned: Claim) -> None:
    assert signals(spawned.signal(2)) == [(1, 2)]
    spawned.signal(10)
    spawned.signal(2)
    assert signals(spawned.opening()) == [(1, 2), (2, 10), (3, 2)]
    delivered(spawned, 2)
    assert signals(spawned.opening()) == [(3, 2)]
    delivered(spawned, 3)
    assert signals(spawned.opening()) == []
    assert signals(spawned.signal(15)) == [(4, 15)]


def test_a_signal_of_the_broker_confirms_none_of_ours(spawned: Claim) -> None:
    spawned.signal(2)
    delivered(spawned, 1 << 32, FROM_BROKER)
    assert signals(spawned.opening()) == [(1, 2)]


def test_kill_is_not_said_while_one_waits_and_any_number_of_others_is_bounded(
    spawned: Claim,
) -> None:
    for _ in range(200):
        spawned.signal(10)
        spawned.signal(9)
    assert signals(spawned.opening())[:3] == [(1, 10), (2, 9), (3, 10)]
    assert len(signals(spawned.opening())) == MOST_WAITING


def test_a_start_says_that_it_is_to_end_and_that_it_is_said_again(claim: Claim) -> None:
    claim.signal(10)
    claim.signal(15)
    [(_, body), *_] = said(claim.opening())
    assert (body["ending"], body.get("again")) == (15, None)
    claim.is_said = True
    [(_, body), *others] = said(claim.opening())
    assert body["again"] is True
    assert [name for name, _ in others] == ["SIGNAL", "SIGNAL"]


def test_what_was_queued_before_a_cut_is_not_said_after_it(spawned: Claim) -> None:
    data(spawned, b"hello")
    write_all(spawned, 1)
    spawned.opening()
    assert spawned.outgoing() == b""


BROKEN = {
    "a gap": Frame(frames.DATA, ID, 1, 9, b"x"),
    "no channel": Frame(frames.DATA, ID, 3, 0, b"x"),
    "no end": Frame(frames.DROPPED, ID, 1, 0, b"{}"),
    "end before start": Frame(frames.DROPPED, ID, 1, 5, b'{"to": 4}'),
    "a gap before a loss": Frame(frames.DROPPED, ID, 1, 9, b'{"to": 12}'),
    "more than was produced": Frame(frames.DATA, ID, 1, 5, b"x"),
    "a loss of more than was produced": Frame(frames.DROPPED, ID, 1, 5, b'{"to": 6}'),
    "another exit": Frame(frames.EXIT, ID, 0, 0, b'{"code":0,"produced":[5,0]}'),
    "no code": Frame(frames.EXIT, ID, 0, 0, b'{"produced":[5,0]}'),
    "no counts": Frame(frames.EXIT, ID, 0, 0, b'{"code":3}'),
    "another session": Frame(frames.DATA, b"t" * 16, 1, 0, b"x"),
    "another instance": Frame(frames.SPAWNED, ID, 0, 0, b'{"instance":"k"}'),
    "no instance": Frame(frames.SPAWNED, ID, 0, 0, b"{}"),
    "not for a shim": Frame(frames.HELLO, ID, 0, 0, b"{}"),
    "rejected": Frame(frames.REJECT, frames.NO_SESSION, 0, 0, b'{"reason":"no"}'),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_frame_that_breaks_a_rule_changes_nothing(spawned: Claim, name: str) -> None:
    data(spawned, b"hello")
    ended(spawned, 3, 5, 0)
    with pytest.raises(ProtocolError):
        spawned.receive(BROKEN[name])
    assert write_all(spawned, 1) == b"hello"
    assert write_all(spawned, 2) == b""
    assert spawned.exit_code == 3


def test_an_exit_that_counts_less_than_has_come_is_refused(spawned: Claim) -> None:
    data(spawned, b"hello")
    with pytest.raises(ProtocolError, match="fewer"):
        ended(spawned, 0, 4, 0)
    assert spawned.exit_code is None


@pytest.mark.parametrize("name", ["a gap", "a gap before a loss"])
def test_a_silent_gap_is_refused_while_the_process_runs(spawned: Claim, name: str) -> None:
    with pytest.raises(ProtocolError, match="leaves a gap"):
        spawned.receive(BROKEN[name])
    data(spawned, b"hello")
    assert write_all(spawned, 1) == b"hello"


def test_a_loss_beyond_all_counts_is_refused(claim: Claim) -> None:
    for end in (2**64, 2**63 + 1):
        with pytest.raises(ProtocolError, match="without its end"):
            claim.receive(Frame(frames.DROPPED, ID, 1, 0, b'{"to":%d}' % end))
    assert claim.outgoing() == b""


def test_a_reason_of_any_characters_is_told(claim: Claim) -> None:
    control(claim, frames.LOST, reason="gone \ud800", code=137)
    assert "gone \ufffd".encode() in bytes(claim.unwritten(frames.STDERR))
