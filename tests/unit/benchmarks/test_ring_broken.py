"""What the figure makes of what a training has said; nothing here measures."""

from __future__ import annotations

from benchmarks.figures.ring_broken import KINDS, WAITING, Losses, describe
from benchmarks.trainings import Loss, Step, find_loss, find_progress, find_rings, find_steps


def test_a_loss_costs_the_time_to_the_next_step_and_the_steps_that_come_again():
    steps = [Step(9, 3, 99.0), Step(10, 3, 100.1), Step(8, 2, 104.5), Step(9, 2, 104.6)]
    assert find_loss(steps, 100.0) == [Loss(4.5, 3)]
    assert find_loss(steps[:2], 100.0) == []
    assert find_loss([*steps[:2], Step(11, 2, 101.0)], 100.0) == [Loss(1.0, 0)]


def test_a_log_tells_steps_and_rings_by_time_whoever_was_rank_0():
    log = "joined size=3 t=1.00\nstep=2 loss=0 size=3 t=2.50\nwords\nstep=1 loss=0 size=3 t=2.00\n"
    assert find_steps(log) == [Step(1, 3, 2.0), Step(2, 3, 2.5)]
    assert find_rings(log + "joined size=2 t=0.50\n") == [0.5, 1.0]


def test_the_picture_has_steps_that_are_new_since_the_loss_of_the_one_in_the_middle():
    before, again = [Step(9, 3, 99.0), Step(10, 3, 100.1)], [Step(9, 2, 104.0), Step(10, 2, 104.1)]
    new = [Step(11 + n, 2, 105.0 + n / 8) for n in range(6)]
    progress = find_progress([*before, *again, *new, Step(99, 2, 161.0)], 100.0)
    assert progress == ((0.0, 0.0), (5.0, 1.0), (5.25, 3.0), (5.5, 5.0))
    lost = [Loss(9.0, 0, ((0.0, 0.0), (9.0, 1.0))), Loss(5.0, 2, progress), Loss(1.0, 0)]
    [chart] = describe(Losses({"PID 1 killed": lost, "out of memory": lost}), Losses()).charts
    assert [line.points for line in chart.lines] == [progress]


def test_of_each_kind_the_median_and_the_longest_count_and_losses_that_ended_a_job_are_named():
    lost, ended = [Loss(3.0, 1), Loss(5.0, 4)], ["worker-0: Failed, epoch 1"]
    fast = Losses({"killed": lost, "silent": [Loss(9.0, 2)]}, ended)
    finding = describe(fast, Losses({"killed": [Loss(31.0, 0)]}, ["wait-worker-0: Failed"]))
    assert [goal.value for goal in finding.goals] == [4.0, 5.0, 9.0, 9.0, 1]
    note, *_ = finding.notes
    assert "1 losses ended a job or its launcher; worker-0: Failed" in note
    assert "At most 4 steps" in note
    assert note.endswith("With lossRecovery Wait, time-out 30 s: wait-worker-0: Failed.")
    assert [series.samples for series in finding.series] == [(3.0, 5.0), (9.0,), (31.0,)]


def test_only_the_jobs_that_wait_have_a_time_out_of_its_own():
    for kind in (*KINDS, *WAITING):
        job = kind.build(0)
        assert job["spec"]["lossRecovery"] == ("Wait" if kind in WAITING else "Fast")
        assert ("--gloo-timeout-seconds" in str(job)) is (kind in WAITING)


def test_each_worker_has_as_many_ranks_as_its_kind_says_and_a_limit_where_memory_is_taken():
    for kind in KINDS:
        spec = kind.build(0)["spec"]
        assert spec["slotsPerWorker"] == kind.slots
        assert ("limits" in str(spec)) is bool(kind.memory)
