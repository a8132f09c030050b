"""Published workloads: what is made of the numbers of several policies."""

from __future__ import annotations

from benchmarks.figures.traces import GANG, MEAN, judge_elastic, judge_gang, tabulate

OUTCOMES = {
    "ours": {MEAN: 60.0, GANG: 33.0},
    "edl": {MEAN: 90.0, GANG: 700.0},
    "fifo-most": {MEAN: 70.5, GANG: 20.0},
}


def test_ours_is_held_against_the_best_of_the_others():
    goal = judge_elastic("gavel", OUTCOMES)
    assert (goal.value, goal.limit, goal.is_met) == (60.0, 70.5, True)
    assert "70.5 min" in goal.text


def test_a_gang_may_wait_for_the_longest_run_and_two_drains():
    goal = judge_gang(OUTCOMES)
    assert (goal.value, goal.limit, goal.is_met) == (33.0, 32.0, False)


def test_each_policy_has_a_column():
    table = tabulate("gavel", OUTCOMES)
    assert table.header == ("", "ours", "edl", "fifo-most")
    assert table.rows[0] == (MEAN, "60.00", "90.00", "70.50")
