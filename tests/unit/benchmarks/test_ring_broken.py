"""What the figure makes of what a training has said; nothing here measures."""

from __future__ import annotations

from benchmarks.figures.ring_broken import DRAWN, KINDS, WAITING, Losses, describe, name_line
from benchmarks.findings import Line
from benchmarks.progress import find_progress
from benchmarks.trainings import (
    Loss,
    Step,
    count_gone,
    describe_end,
    find_loss,
    find_rings,
    find_steps,
)


def make_pods(*numbers: int) -> list[dict[str, dict[str, str]]]:
    return [{"metadata": {"name": f"job-worker-{number}"}} for number in numbers]


def test_a_loss_costs_the_time_to_the_next_step_and_the_steps_that_come_again():
    steps = [Step(9, 3, 99.0), Step(10, 3, 100.1), Step(8, 2, 104.5), Step(9, 2, 104.6)]
    assert find_loss(steps, 100.0) == [Loss(4.5, 3)]
    assert find_loss(steps[:2], 100.0) == []
    assert find_loss([*steps[:2], Step(11, 2, 101.0)], 100.0) == [Loss(1.0, 0)]


def test_a_log_tells_steps_and_rings_by_time_whoever_was_rank_0():
    log = "joined size=3 t=1.00\nstep=2 loss=0 size=3 t=2.50\nwords\nstep=1 loss=0 size=3 t=2.00\n"
    assert find_steps(log) == [Step(1, 3, 2.0), Step(2, 3, 2.5)]
    assert find_rings(log + "joined size=2 t=0.50\n") == [0.5, 1.0]


def test_a_line_of_the_picture_begins_before_the_loss_and_ends_when_all_do():
    before = [Step(n, 3, 80.0 + n) for n in range(1, 21)]
    again = [Step(19, 2, 148.0), Step(20, 2, 148.1)]
    new = [Step(21 + n, 2, 149.0 + n / 8) for n in range(6)]
    points = find_progress([*before, *again, *new, Step(99, 2, 221.0)], 100.0)
    assert points[:3] == ((-10.0, 0.0), (-9.0, 1.0), (-8.0, 2.0))
    assert points[9:] == ((-1.0, 9.0), (0.0, 10.0), (49.0, 11.0), (49.5, 15.0), (120.0, 16.0))


def test_a_training_that_does_not_go_on_is_a_line_as_long_as_the_others():
    points = find_progress([Step(1, 3, 85.0), Step(2, 3, 95.0)], 100.0)
    assert points == ((-10.0, 0.0), (-5.0, 1.0), (120.0, 1.0))


def test_the_picture_is_with_what_breaks_a_ring_and_without():
    assert [name_line(kind) for kind in DRAWN] == [
        "PID 1 killed",
        "containerd-shim killed",
        "containerd-shim killed, lossRecovery Wait, time-out 30 s",
    ]
    line = Line("PID 1 killed", ((-10.0, 0.0), (120.0, 1.0)))
    [chart] = describe(Losses(), Losses(), [line]).charts
    assert chart.lines == (line,)


def test_who_goes_beside_the_one_that_was_struck_is_counted_by_kind():
    pods, later = make_pods(0, 1, 2), make_pods(0, 3, 4)
    assert count_gone(pods, later, {"job-worker-1"}) == 1
    fast = Losses({"killed": [Loss(3.0, 1, 1), Loss(5.0, 4, 2)], "silent": [Loss(9.0, 2)]})
    [table] = describe(fast, Losses({"killed": [Loss(31.0, 0, 1)]})).tables
    assert table.rows == (
        ("killed", "2", "3"),
        ("silent", "1", "0"),
        ("lossRecovery Wait, time-out 30 s, killed", "1", "1"),
    )


def test_an_end_is_told_with_the_words_of_the_operator():
    conditions = [
        {"type": "Running", "reason": "JobRunning", "message": "it runs"},
        {"type": "Failed", "reason": "LauncherFailed", "message": "exit code 1"},
    ]
    status = {"phase": "Failed", "epoch": 1, "conditions": conditions}
    told = describe_end("job", status)
    assert told == "job: Failed, epoch 1; Failed, LauncherFailed: exit code 1"


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
