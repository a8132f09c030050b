"""EDL's experiments with drains: what is made of the numbers of several runs."""

from __future__ import annotations

from benchmarks.figures.edl_drained import (
    ENDED,
    FIRST,
    GANG,
    JAIN,
    LONGEST,
    SERVICES,
    SOON,
    STARTED,
    USE,
    conclude,
)

GOOD = {FIRST: 10.0, GANG: 12.0, LONGEST: 60.0, STARTED: 20, JAIN: 0.99, ENDED: 280, USE: 99.0}
TIDE = {SERVICES: 50.0, **dict.fromkeys(SOON, 99.0)}
EDL = ({**GOOD, JAIN: 0.4}, TIDE)


def test_each_goal_is_held_against_the_worst_run():
    late = {**GOOD, LONGEST: 71.0, ENDED: 301, JAIN: 0.94}
    ebb = {**TIDE, SOON[3]: 97.0}
    finding = conclude([GOOD, late], [TIDE, ebb], EDL)
    missed = {goal.text: goal.value for goal in finding.goals if not goal.is_met}
    assert missed == {
        "case 1: created to whole gang, longest": 71.0,
        "case 1: Jain's fairness": 0.94,
        "case 1: trainers that et-scheduler ended": 301,
        "case 2: CPU to the most, 20 s after the worst turn": 97.0,
    }
    assert all(goal.is_met for goal in conclude([GOOD], [TIDE], EDL).goals)


def test_runs_stand_beside_edls_rules():
    first, second = conclude([GOOD, GOOD], [TIDE, TIDE], EDL).tables
    assert (JAIN, "0.99", "0.99", "0.40") in first.rows
    assert second.rows[0] == (SERVICES, "50.00", "50.00", "50.00")
