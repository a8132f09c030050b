"""How long a shim waits: for a broker, for the delivery of TERM, and for nobody."""

from __future__ import annotations

from signal import SIGKILL, SIGTERM, SIGUSR1

import pytest

from et_contract import frames
from et_contract.frames import EXIT_GONE, EXIT_REFUSED, Frame
from launcher.protocol.claims import Claim
from launcher.protocol.courses import KILL_AFTER_SECONDS, LONGEST_OPENING, SPAWN_SECONDS, Course
from launcher.protocol.signals import ENDING

ID = b"s" * 16


def make_course(command: str = "x", *, is_opened: bool = True) -> tuple[Course, Claim]:
    claim = Claim(session=ID, host="w", command=command)
    course = Course(claim, 100.0)
    if is_opened:
        course.opened()
    return course, claim


def read_signals(data: bytes) -> list[int]:
    decoder = frames.Decoder()
    decoder.feed(data)
    return [frames.decode_json(frame)["signal"] for frame in decoder]


def deliver(claim: Claim, number: int) -> None:
    claim.receive(Frame(frames.SIGNALED, ID, 0, number, b""))


def test_without_a_broker_it_is_refused_in_the_end():
    course, _ = make_course(is_opened=False)
    assert course.due() == 100.0 + SPAWN_SECONDS
    course.advance(99.9 + SPAWN_SECONDS)
    assert (course.code, course.reason) == (None, "")
    assert course.advance(100.0 + SPAWN_SECONDS) == b""
    assert (course.code, course.reason) == (EXIT_REFUSED, "no broker in this pod for 120 s")
    assert not course.is_started


def test_once_it_was_sent_it_is_waited_for_as_long_as_it_takes():
    course, claim = make_course()
    assert claim.is_said
    assert course.due() is None
    course.advance(1e9)
    assert course.code is None


@pytest.mark.parametrize("number", ENDING)
def test_what_should_end_it_before_its_start_is_its_end(number: int):
    course, claim = make_course(is_opened=False)
    assert course.signal(number) == b""
    assert course.code == 128 + number
    assert not claim.signals.is_waiting()


def test_what_should_not_end_it_waits_for_its_start():
    course, claim = make_course(is_opened=False)
    assert read_signals(course.signal(SIGUSR1)) == [SIGUSR1]
    assert course.code is None
    assert claim.signals.is_waiting(SIGUSR1)


def test_kill_follows_term_half_a_minute_after_that_was_delivered_and_again():
    course, claim = make_course()
    assert read_signals(course.signal(SIGTERM)) == [SIGTERM]
    assert course.advance(500.0) == b""
    assert course.due() is None
    deliver(claim, 1)
    assert course.advance(600.0) == b""
    assert course.due() == 600.0 + KILL_AFTER_SECONDS
    assert course.advance(599.9 + KILL_AFTER_SECONDS) == b""
    assert read_signals(course.advance(600.0 + KILL_AFTER_SECONDS)) == [SIGKILL]
    deliver(claim, 2)
    assert read_signals(course.advance(600.0 + 2 * KILL_AFTER_SECONDS)) == [SIGKILL]
    assert course.code is None


def test_other_signals_are_not_followed_by_kill():
    course, claim = make_course()
    course.signal(SIGUSR1)
    deliver(claim, 1)
    course.advance(500.0)
    assert course.due() is None


def test_whose_caller_has_gone_leaves_when_its_time_is_over():
    course, _ = make_course()
    course.leave(140.0)
    assert (course.is_left, course.due()) == (True, 140.0)
    course.advance(139.9)
    assert course.code is None
    course.advance(140.0)
    assert (course.code, course.reason) == (EXIT_GONE, "")


@pytest.mark.parametrize("with_kill", [True, False])
def test_or_with_its_kill_where_its_caller_is_not_there(with_kill: bool):
    course, claim = make_course()
    course.leave(900.0, or_with_kill=with_kill)
    course.signal(SIGTERM)
    deliver(claim, 1)
    course.advance(100.0)
    assert read_signals(course.advance(100.0 + KILL_AFTER_SECONDS)) == [SIGKILL]
    assert course.code == (EXIT_GONE if with_kill else None)


def test_a_command_that_no_broker_takes_is_refused_at_once():
    course, _ = make_course("x" * LONGEST_OPENING, is_opened=False)
    assert (course.code, course.reason) == (EXIT_REFUSED, "the command is longer than 1 MiB")
