"""What the demo keeps of a job, and the table of sizes that it prints."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from et.steps import Step
from examples.demo.scaling import describe_workers
from examples.demo.sharing import check, format_changes
from examples.demo.trainings import DemoError, Training, list_changes


def make_training(name: str, *looks: tuple[float, int], phase: str = "Running") -> Training:
    """A step of this world size at each look; 0: none yet."""
    training = Training(name, {"phase": phase})
    for seconds, size in looks:
        if size:
            training.steps.append(Step(number=len(training.steps) + 1, size=size))
        training.note(seconds, size)
    return training


def make_both() -> Sequence[Training]:
    large = make_training("large", (1.0, 0), (2.0, 4), (3.0, 4), (4.0, 2), (5.0, 2), (6.0, 4))
    small = make_training("small", (3.0, 0), (4.0, 0), (5.0, 2))
    small.status["phase"] = "Succeeded"
    small.note(6.0, 0)
    return large, small


def test_a_job_that_has_ended_trains_with_nobody_though_its_last_step_is_known() -> None:
    training = make_training("one", (1.0, 2))
    assert training.size == 2
    training.status["phase"] = "Succeeded"
    assert (training.size, training.sizes) == (0, [2])
    assert training.note(2.0, 0).step == 1


def test_sizes_of_several_trainings_are_told_when_one_of_them_changes() -> None:
    assert list_changes(make_both()) == [
        (2.0, (4, 0)),
        (4.0, (2, 0)),
        (5.0, (2, 2)),
        (6.0, (4, 0)),
    ]


def test_trainings_that_print_nothing_change_nothing() -> None:
    assert list_changes([make_training("one", (1.0, 0)), Training("none")]) == []


def test_the_table_has_a_line_for_each_change() -> None:
    assert format_changes(make_both()) == [
        "  world sizes over time   large   small",
        "                  2.0 s       4       -",
        "                  4.0 s       2       -",
        "                  5.0 s       2       2",
        "                  6.0 s       4       -",
    ]


def test_who_trains_a_step_twice_has_not_shared_without_loss() -> None:
    large, small = make_both()
    check(large, small)
    large.steps.append(large.steps[-1])
    with pytest.raises(DemoError, match="large lost steps"):
        check(large, small)


def test_a_small_job_that_was_ever_less_than_whole_is_told() -> None:
    large, _ = make_both()
    with pytest.raises(DemoError, match=r"small saw the sizes \[1, 2\]"):
        check(large, make_training("small", (1.0, 1), (2.0, 2)))


def test_ways_out_are_told_in_words() -> None:
    left = {"name": "demo-worker-2", "result": "graceful", "seconds": 1.26}
    assert describe_workers({"workers": [left]}) == "demo-worker-2 graceful after 1.3 s"
    assert describe_workers({}) == ""
