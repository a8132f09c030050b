"""What the figure makes of scalings beside which a word was said; nothing here measures."""

from __future__ import annotations

from benchmarks.figures.breaks_said import Scalings, describe, find_others, find_seconds
from benchmarks.trainings import Step


def make_pods(*numbers: int) -> list[dict[str, dict[str, str]]]:
    return [{"metadata": {"name": f"told-worker-{number}"}} for number in numbers]


def test_a_scaling_lasts_until_the_first_step_with_its_number():
    steps = [Step(1, 2, 99.0), Step(2, 3, 101.0), Step(2, 2, 103.5), Step(3, 2, 104.0)]
    assert find_seconds(steps, 100.0, 2) == 3.5


def test_whoever_else_goes_or_comes_is_named():
    assert find_others(make_pods(0, 1, 2), make_pods(0, 1)) == set()
    assert find_others(make_pods(0, 1), make_pods(0, 1, 3)) == set()
    assert find_others(make_pods(0, 1, 2), make_pods(0, 3)) == {"told-worker-3"}
    assert find_others(make_pods(0, 1), make_pods(0, 2, 3)) == {"told-worker-1"}


def test_what_ended_otherwise_is_counted_and_said():
    finding = describe(Scalings([4.0]), Scalings([5.0, 6.0], ["scaling 1: told-worker-1"]))
    assert [goal.value for goal in finding.goals] == [2, 1]
    assert [goal.is_met for goal in finding.goals] == [False, False]
    assert finding.notes == ("Otherwise: scaling 1: told-worker-1.",)
    assert [series.samples for series in finding.series] == [(5.0, 6.0), (4.0,)]
