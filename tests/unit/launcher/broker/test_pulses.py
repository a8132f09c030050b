"""Whether silence means that horovodrun hangs."""

from __future__ import annotations

from launcher.broker.pulses import BEATS, LATE_SECONDS, STALL_SECONDS, Pulse


def beat(every: float, count: int = 2 * BEATS) -> tuple[Pulse, float]:
    """A command that has asked so often; and when it last did."""
    pulse = Pulse()
    for number in range(count):
        pulse.beat(number * every)
    return pulse, (count - 1) * every


def test_who_asked_each_second_and_is_silent_is_stalled():
    pulse, last = beat(1.2)
    assert pulse.due() == last + STALL_SECONDS
    pulse.advance(is_running=True, now=last + STALL_SECONDS - 0.1)
    assert not pulse.is_stalled
    pulse.advance(is_running=True, now=last + STALL_SECONDS)
    assert pulse.is_stalled
    assert pulse.due() is None
    pulse.beat(last + 100.0)
    assert not pulse.is_stalled


def test_who_asked_now_and_then_is_not():
    for pulse, _ in (beat(0.1, BEATS - 1), beat(STALL_SECONDS), beat(60.0)):
        assert pulse.due() is None
        pulse.advance(is_running=True, now=10_000.0)
        assert not pulse.is_stalled


def test_silence_while_nothing_runs_means_that_horovodrun_has_ended():
    pulse, last = beat(1.2)
    pulse.advance(is_running=False, now=last + STALL_SECONDS)
    assert not pulse.is_stalled
    assert pulse.due() is None


def test_who_was_away_itself_begins_to_wait_anew():
    pulse, last = beat(1.2)
    back = last + STALL_SECONDS + LATE_SECONDS + 1.0
    pulse.advance(is_running=True, now=back)
    assert not pulse.is_stalled
    assert pulse.due() == back + STALL_SECONDS
