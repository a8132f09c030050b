"""Published workloads: what is made of the numbers of several policies."""

from __future__ import annotations

from benchmarks.figures.traces import GANG, judge_gang
from benchmarks.outcomes import MEAN, P99, RIVALS, WAIT, explain, judge, tabulate

OUTCOMES = {
    "ours": {MEAN: 60.0, P99: 300.0, WAIT: 0.5, GANG: 33.0},
    **{rival: {MEAN: 90.0, P99: 400.0, WAIT: 9.0, GANG: 700.0} for rival in RIVALS},
    "drf": {MEAN: 70.5, P99: 290.0, WAIT: 7.0, GANG: 20.0},
    "las": {MEAN: 40.0, P99: 100.0, WAIT: 0.0, GANG: 20.0},
    "afs": {MEAN: 50.0, P99: 301.0, WAIT: 0.4, GANG: 20.0},
}


def test_ours_is_held_against_the_best_of_those_that_know_no_more_and_end_no_job():
    mean, p99, informed = judge("gavel", OUTCOMES)
    assert (mean.value, mean.limit, mean.is_met) == (60.0, 70.5, True)
    assert (p99.value, p99.limit, p99.is_met) == (300.0, 290.0, False)
    assert (informed.value, informed.limit, informed.is_met) == (1.2, 1.03, False)
    assert set(RIVALS) == {"edl", "fifo-max", "fifo-min", "best-effort", "kube-batch", "drf"}


def test_who_was_not_run_is_no_measure():
    few = {name: OUTCOMES[name] for name in ("ours", "edl", "afs")}
    assert [goal.limit for goal in judge("gavel", few)] == [90.0, 400.0, 1.03]
    assert list(explain("gavel", few)) == []


def test_what_is_missed_is_explained_by_who_is_better_in_it():
    [note] = explain("gavel", OUTCOMES)
    assert "By the rules of drf" in note
    assert "7.0 min on average instead of 0.5" in note
    better = {**OUTCOMES, "ours": {**OUTCOMES["ours"], P99: 290.0}}
    assert list(explain("gavel", better)) == []


def test_a_gang_may_wait_for_the_longest_run_and_two_drains():
    goal = judge_gang(OUTCOMES)
    assert (goal.value, goal.limit, goal.is_met) == (33.0, 32.0, False)


def test_each_policy_has_a_column():
    table = tabulate("gavel", OUTCOMES)
    assert table.header == ("", *OUTCOMES)
    assert table.rows[0][:3] == (MEAN, "60.00", "90.00")
