"""How a session ends. Time is a number."""

from __future__ import annotations

import pytest

from launcher.protocol.endings import (
    KILL_SECONDS,
    LAST_SECONDS,
    LINGER_SECONDS,
    LOOK_SECONDS,
    Ending,
    Step,
)

TERM, KILL = 15, 9


@pytest.fixture
def ending() -> Ending:
    return Ending()


def test_a_process_that_returns_has_only_its_output_waited_for(ending: Ending) -> None:
    ending.first_ended(0, 10.0)
    assert ending.step(10.0) is None
    assert not ending.is_forced
    assert ending.deadline() == 10.0 + LINGER_SECONDS


def test_who_holds_the_output_then_gets_term_and_later_kill(ending: Ending) -> None:
    ending.first_ended(1, 10.0)
    assert ending.step(11.0) == Step(TERM, spares_group=False)
    ending.swept(2)
    assert not ending.is_hopeless
    assert ending.deadline() == 11.0 + LOOK_SECONDS
    assert ending.step(11.5) == Step(0, spares_group=False)
    ending.swept(2)
    assert ending.step(11.0 + KILL_SECONDS) == Step(KILL, spares_group=False)


def test_an_output_that_is_held_by_nobody_of_the_session_is_closed(ending: Ending) -> None:
    ending.first_ended(1, 10.0)
    ending.step(11.0)
    ending.swept(0)
    assert ending.is_hopeless


@pytest.mark.parametrize("code", [128, 137, 143, 255])
def test_a_signal_as_the_end_has_the_rest_looked_for_at_once(ending: Ending, code: int) -> None:
    ending.first_ended(code, 10.0)
    assert ending.step(10.0) == Step(0, spares_group=False)
    ending.swept(1)
    assert ending.is_forced
    assert not ending.is_empty
    assert ending.step(11.0) == Step(TERM, spares_group=False)


def test_the_group_gets_the_signal_that_was_sent_and_no_second_one(ending: Ending) -> None:
    ending.signalled(TERM, 5.0)
    ending.first_ended(0, 10.0)
    assert ending.step(10.0) == Step(0, spares_group=False)
    ending.swept(1)
    assert ending.step(11.0) == Step(TERM, spares_group=True)


@pytest.mark.parametrize("number", [1, 2, 3])
def test_after_other_ending_signals_only_the_rest_is_killed(ending: Ending, number: int) -> None:
    ending.signalled(number, 5.0)
    assert ending.deadline() is None, "who handles it may live as long as it likes"
    ending.first_ended(0, 10.0)
    assert ending.step(11.0) == Step(TERM, spares_group=True)
    assert ending.step(11.0 + KILL_SECONDS) == Step(KILL, spares_group=False)


def test_a_signal_that_ends_nothing_changes_nothing(ending: Ending) -> None:
    ending.signalled(10, 5.0)
    ending.first_ended(0, 10.0)
    assert not ending.is_forced


def test_term_is_followed_by_kill_whoever_is_away(ending: Ending) -> None:
    ending.signalled(TERM, 5.0)
    ending.signalled(TERM, 20.0)
    assert ending.deadline() == 5.0 + KILL_SECONDS
    assert ending.step(34.9) is None
    assert ending.step(35.0) == Step(KILL, spares_group=False)
    assert ending.deadline() is None
    ending.signalled(TERM, 40.0)
    assert ending.deadline() is None, "it was killed"


def test_without_a_time_another_one_sees_to_the_kill(ending: Ending) -> None:
    ending.signalled(TERM, None)
    assert ending.deadline() is None
    assert ending.is_told


def test_what_survives_kill_is_not_waited_for(ending: Ending) -> None:
    ending.signalled(KILL, 5.0)
    ending.first_ended(137, 6.0)
    assert ending.step(6.0) == Step(0, spares_group=False)
    ending.swept(1)
    while not ending.is_hopeless:
        now = ending.deadline()
        assert now is not None
        assert now <= 5.0 + LAST_SECONDS
        ending.step(now)
        ending.swept(1)


def test_a_reaped_child_has_the_rest_looked_for(ending: Ending) -> None:
    ending.signalled(TERM, 5.0)
    ending.child_ended()
    assert ending.step(6.0) is None
    ending.first_ended(143, 6.0)
    ending.step(6.0)
    ending.swept(1)
    ending.child_ended()
    assert ending.step(6.1) == Step(0, spares_group=False)


def test_nothing_is_due_when_it_is_over(ending: Ending) -> None:
    ending.signalled(TERM, 5.0)
    ending.first_ended(143, 6.0)
    ending.over()
    assert ending.deadline() is None
    assert ending.step(99.0) is None
