"""What the figure makes of what a training has said; nothing here measures."""

from __future__ import annotations

from benchmarks.figures.ring_broken import (
    Loss,
    Step,
    build_training,
    describe,
    find_loss,
    find_progress,
)


def test_a_loss_costs_the_time_to_the_next_step_and_the_steps_that_come_again():
    steps = [Step(9, 3, 99.0), Step(10, 3, 100.1), Step(8, 2, 104.5), Step(9, 2, 104.6)]
    assert find_loss(steps, 100.0) == [Loss(4.5, 3)]
    assert find_loss(steps[:2], 100.0) == []
    assert find_loss([*steps[:2], Step(11, 2, 101.0)], 100.0) == [Loss(1.0, 0)]


def test_the_picture_has_steps_that_are_new_since_the_loss_of_the_one_in_the_middle():
    before, again = [Step(9, 3, 99.0), Step(10, 3, 100.1)], [Step(9, 2, 104.0), Step(10, 2, 104.1)]
    new = [Step(11 + n, 2, 105.0 + n / 8) for n in range(6)]
    progress = find_progress([*before, *again, *new, Step(99, 2, 161.0)], 100.0)
    assert progress == ((0.0, 0.0), (5.0, 1.0), (5.25, 3.0), (5.5, 5.0))
    lost = [Loss(9.0, 0, ((0.0, 0.0), (9.0, 1.0))), Loss(5.0, 2, progress), Loss(1.0, 0)]
    [chart] = describe(lost, [Loss(9.0, 2)], [], []).charts
    assert [line.points for line in chart.lines] == [progress]


def test_losses_that_ended_a_job_are_counted_and_named():
    lost, ended = [Loss(3.0, 1), Loss(5.0, 4)], ["fast-0: Failed, epoch 1"]
    finding = describe(lost, [Loss(9.0, 2)], [Loss(31.0, 0)], ended)
    assert [goal.value for goal in finding.goals] == [4.0, 5.0, 9.0, 1]
    [note] = finding.notes
    assert "1 losses ended a job or its launcher; fast-0: Failed" in note
    assert "At most 4 steps" in note


def test_only_the_job_that_waits_has_a_time_out_of_its_own():
    for is_waiting, policy in ((True, "Wait"), (False, "Fast")):
        job = build_training("a", is_waiting=is_waiting)
        assert job["spec"]["lossRecovery"] == policy
        assert ("--gloo-timeout-seconds" in str(job)) is is_waiting
