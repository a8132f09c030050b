"""Of what a cloud says round by round, what counts: worse at once, better once it is agreed."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from et_kube.notices import Notice, NoticeKind
from et_notices.judging import AGREED, Judge, Word
from et_notices.questions import Unclear
from tests.unit.notices.rigs import at

NOW = at(0)


def firm(moment: datetime | None, reason: str = "taken", lead: timedelta | None = None) -> Notice:
    return Notice(reason, "test", NoticeKind.FIRM, moment, lead=lead)


def soft(moment: datetime) -> Notice:
    return Notice("advised", "test", NoticeKind.SOFT, moment)


def test_that_an_instance_ends_counts_at_once():
    judge = Judge()
    assert judge.hear([firm(at(120))], NOW) == Word(at(120), "taken")
    assert judge.hear([firm(at(60))], NOW) == Word(at(60), "taken"), "and that it ends sooner"


def test_that_it_stays_counts_once_it_was_said_three_times_in_a_row():
    judge = Judge()
    judge.hear([firm(at(120))], NOW)
    for _ in range(AGREED - 1):
        assert judge.hear([], NOW) == Word(at(120), "taken")
    judge.hear([firm(at(120))], NOW)
    for _ in range(AGREED - 1):
        assert judge.hear([], NOW) == Word(at(120), "taken"), "not in a row"
    assert judge.hear([], NOW) == Word()


def test_so_does_that_it_ends_later():
    judge = Judge()
    judge.hear([firm(at(60))], NOW)
    heard = [judge.hear([firm(at(120))], NOW) for _ in range(AGREED)]
    assert heard == [Word(at(60), "taken")] * (AGREED - 1) + [Word(at(120), "taken")]


def test_who_says_something_else_each_time_is_heard_where_it_ends_sooner_alone():
    judge = Judge()
    judge.hear([firm(at(60))], NOW)
    for seconds in range(61, 99):
        assert judge.hear([firm(at(seconds))], NOW) == Word(at(60), "taken")


def test_at_the_start_nothing_counts_before_it_is_agreed():
    judge = Judge()
    heard = [judge.hear([], NOW) for _ in range(AGREED)]
    assert heard == [None] * (AGREED - 1) + [Word()]


def test_what_ends_at_no_moment_ends_its_lead_after_it_was_heard_first():
    judge = Judge()
    google = firm(None, lead=timedelta(seconds=30))
    heard = [judge.hear([google], at(seconds)) for seconds in (0, 5, 10, 600)]
    assert heard == [Word(at(30), "taken")] * 4
    assert judge.hear([firm(None, "begun")], at(20)) == Word(at(20), "begun")
    for _ in range(AGREED):
        judge.hear([], at(700))
    assert judge.hear([google], at(800)) == Word(at(830), "taken"), (
        "and anew when it was taken back"
    )


def test_of_several_words_the_firm_one_counts_that_ends_first_and_the_advice_beside_it():
    judge = Judge()
    word = judge.hear([firm(at(90), "later"), soft(at(-5)), firm(at(60), "sooner")], NOW)
    assert word == Word(at(60), "sooner", at(-5))


@pytest.mark.parametrize("coming", [firm(at(1830)), firm(None, lead=timedelta(seconds=30))])
def test_what_is_over_for_long_hides_nothing_that_comes(coming: Notice):
    over, now = firm(at(0), "was to end"), at(1800)
    assert Judge().hear([over, coming], now) == Word(at(1830), "taken")
    judge = Judge()
    assert judge.hear([over], NOW) == judge.hear([over], now) == Word(at(0), "was to end")
    assert judge.hear([over, coming], now) == Word(at(1830), "taken"), "in the first round"
    assert judge.hear([over], now) == Word(at(1830), "taken"), "and is not taken back in one"


def test_of_words_that_are_over_for_long_none_counts_at_once_but_a_sooner_one():
    judge = Judge()
    judge.hear([firm(at(60))], NOW)
    assert judge.hear([firm(at(90))], at(1800)) == Word(at(60), "taken")
    assert judge.hear([firm(at(30))], at(1800)) == Word(at(30), "taken")


def test_an_advice_counts_at_once_and_what_is_firm_after_it():
    judge = Judge()
    assert judge.hear([soft(at(-5))], NOW) == Word(advised=at(-5))
    assert judge.hear([firm(at(60))], NOW) == Word(at(60), "taken")


def test_a_moment_that_nobody_can_mean_changes_nothing():
    judge = Judge()
    judge.hear([firm(at(120))], NOW)
    with pytest.raises(Unclear, match="too far away"):
        judge.hear([firm(NOW + timedelta(days=31))], NOW)
    assert judge.word == Word(at(120), "taken")


@pytest.mark.long
@given(st.lists(st.lists(st.integers(0, 200).map(lambda s: firm(at(s))), max_size=2), max_size=60))
def test_whoever_stays_silent_for_three_rounds_is_believed_and_nobody_before(
    rounds: list[list[Notice]],
):
    judge = Judge()
    silent = 0
    for number, heard in enumerate(rounds):
        was = judge.word
        word = judge.hear(heard, at(number * 5))
        silent = 0 if heard else silent + 1
        if was is not None and not was.is_empty and word is not None and word.is_empty:
            assert silent >= AGREED
        if silent >= AGREED:
            assert word == Word()
