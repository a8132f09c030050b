"""Whether silence means that horovodrun hangs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from launcher.broker.pulses import BEATS, LATE_SECONDS, STALL_SECONDS, Pulse
from launcher.broker.sessions import AWAY, TERMED, Session

RANK = Session(b"r" * 16, "w-0", ranks=1, peer=1)
GUEST = Session(b"g" * 16, "w-0", peer=2)
RUNNING = [RANK, GUEST]


def beat(every: float, count: int = 2 * BEATS) -> tuple[Pulse, float]:
    """A command that has asked so often; and when it last did."""
    pulse = Pulse()
    for number in range(count):
        pulse.beat(RUNNING, number * every)
    return pulse, (count - 1) * every


def test_who_asked_each_second_and_is_silent_is_stalled():
    pulse, last = beat(1.2)
    assert pulse.due() == last + STALL_SECONDS
    pulse.advance(RUNNING, last + STALL_SECONDS - 0.1)
    assert not pulse.is_stalled
    pulse.advance(RUNNING, last + STALL_SECONDS)
    assert pulse.is_stalled
    assert pulse.due() is None
    pulse.beat(RUNNING, last + 100.0)
    assert not pulse.is_stalled


def test_who_asked_now_and_then_is_not():
    for pulse, _ in (beat(0.1, BEATS - 1), beat(STALL_SECONDS), beat(60.0)):
        assert pulse.due() is None
        pulse.advance(RUNNING, 10_000.0)
        assert not pulse.is_stalled


def test_silence_while_nothing_runs_means_that_horovodrun_has_ended():
    pulse, last = beat(1.2)
    pulse.advance([], last + STALL_SECONDS)
    assert not pulse.is_stalled
    assert pulse.due() is None


@pytest.mark.parametrize(
    "other", [GUEST, Session(b"s" * 16, "w-0", ranks=1, peer=1), replace(RANK, peer=None)]
)
def test_only_ranks_that_ran_at_the_last_question_and_have_a_shim_keep_the_pulse(other: Session):
    pulse, last = beat(1.2)
    pulse.advance([other], last + STALL_SECONDS)
    assert not pulse.is_stalled
    assert pulse.due() is None


@pytest.mark.parametrize("left", [[], [GUEST], [replace(RANK, peer=None, care=TERMED), GUEST]])
def test_a_stall_ends_with_the_last_of_the_ranks_that_ran_at_the_last_question(left: list[Session]):
    pulse, last = beat(1.2)
    pulse.advance(RUNNING, last + STALL_SECONDS)
    pulse.advance([replace(RANK, peer=None, care=AWAY)], last + 60.0)
    assert pulse.is_stalled
    pulse.advance(left, last + 100.0)
    assert not pulse.is_stalled
    assert pulse.due() is None


def test_a_broker_that_begins_in_a_stall_waits_for_all_ranks_that_come_back():
    pulse, other = Pulse(is_stalled=True), replace(RANK, id=b"o" * 16)
    for running in ([], [RANK], [RANK, other], [other]):
        pulse.advance(running, 0.0)
        assert pulse.is_stalled
    pulse.advance([GUEST], 0.0)
    assert not pulse.is_stalled


def test_who_was_away_itself_begins_to_wait_anew():
    pulse, last = beat(1.2)
    back = last + STALL_SECONDS + LATE_SECONDS + 1.0
    pulse.advance(RUNNING, back)
    assert not pulse.is_stalled
    assert pulse.due() == back + STALL_SECONDS
