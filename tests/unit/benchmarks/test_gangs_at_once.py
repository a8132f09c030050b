"""Gangs in a queue beside the same jobs without one: what is made of storms that were measured."""

from __future__ import annotations

from collections import Counter

from benchmarks.benches import Storm
from benchmarks.figures.gangs_at_once import JOBS, conclude
from benchmarks.machines import Usage
from benchmarks.storms import build_storm_job


def make_storm(seconds: float, **cpu: float) -> Storm:
    return Storm(JOBS, seconds, cpu, Counter(), Counter(), Usage(0.0, 0, 0), 0.0, 0, ())


def test_the_rate_in_a_queue_is_held_against_that_without() -> None:
    queued = [make_storm(20.0, operator=3.0), make_storm(25.0, operator=4.0)]
    free = [make_storm(18.0, operator=2.0), make_storm(18.0, operator=1.0)]
    finding = conclude(queued, free)
    [goal] = finding.goals
    assert (round(goal.value, 3), goal.limit, goal.is_met) == (0.8, 0.9, False)
    samples = [series.samples for series in finding.series]
    assert samples == [(20.0, 25.0), (18.0, 18.0), (80.0,), (100.0,)]
    middle, turns = finding.tables
    assert middle.rows == (("operator", "3.50", "1.50"),)
    assert turns.rows == (("20", "3", "18", "2"), ("25", "4", "18", "1"))
    assert "3.50 s of CPU in a queue and 1.50 without, medians: 0.429 x" in finding.notes[-1]


def test_a_gang_is_the_same_job_in_a_queue() -> None:
    free, queued = build_storm_job("storm-1", ""), build_storm_job("storm-1", "bench")
    assert "queue" not in free["spec"]
    assert queued["spec"] == {**free["spec"], "queue": "bench", "elasticity": "Fixed"}
