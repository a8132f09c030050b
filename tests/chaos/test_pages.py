"""The page of a night says what did not hold, and what each kind of fault cost."""

from __future__ import annotations

from dataclasses import replace

from tests.chaos.judging import JUDGES
from tests.chaos.pages import build_chart, build_page
from tests.chaos.records import Passage, Record, Step, Strike
from tests.chaos.schedules import Fault, Kind, Round

ROUND = Round(0, (Fault(Kind.SCALE, 0, 5.0, 4),), 0.0, 0.0)
STRIKE = Strike(Kind.SCALE, 12.0, said="to 4")
RECORD = Record(
    job="job",
    maximum=4,
    commit_every=5,
    bound=60.0,
    passages=[Passage(ROUND, (STRIKE,), ended=12.0, back=20.0)],
    steps=[Step(1, 3, 10.0), Step(2, 3, 11.0), Step(3, 4, 17.5), Step(4, 4, 20.0)],
    versions=[],
)


def test_a_page_has_each_promise_each_kind_and_each_round():
    page = build_page(RECORD, 1800, 7, 0.5)
    assert "This is a whole night, seed 7" in page
    for promise in JUDGES:
        assert f"| {promise} | yes |" in page
    assert "| kubectl scale | 1 | 5.5, 5.5 s | 0 | 8.0, 8.0 s |" in page
    assert "| 2 | kubectl scale | to 4 | 5.5 s | 8 s |" in page


def test_what_did_not_hold_is_said():
    page = build_page(replace(RECORD, left=["Secret key"]), 60, 7, 0.5)
    assert "This is a short one: 60 s, not 1800" in page
    assert "| nothing is left behind | **no**: Secret key was left behind |" in page


def test_the_picture_has_what_was_wanted_beside_what_trained():
    wanted, trained = build_chart(RECORD).lines
    assert wanted.points == ((0.0, 3.0), (2.0, 4.0))
    assert trained.points == ((0.0, 3.0), (1.0, 3.0), (7.5, 4.0), (10.0, 4.0))
