"""What the loss of a worker cost, judged from what was seen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from et.losses import MOST_WORKERS, LastLoss, Loss, advise, describe
from et.paces import MOST_LINES, Training
from et_contract.pods import Role
from et_operator.model.listings import Listing
from et_operator.model.pods import Pod
from et_operator.model.specs import LossRecovery
from et_operator.model.statuses import JobStatus, Leaving, WorkerRecord, WorkerState
from tests.counting import count_steps, find_peak
from tests.planning_makers import make_spec

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
LOST = "train-worker-1"
HEIR = "train-worker-2"


def print_steps(
    training: Training, numbers: Sequence[int], start: float, pace: float = 1.0, rank: int = 0
) -> float:
    """Steps that one rank tells of; when the next one would come."""
    for number in numbers:
        line = f"[{rank}]<stdout>:step={number} loss=0.1 size=2"
        training.take(BEGAN + timedelta(seconds=start), line, start)
        start += pace
    return start


def make_pod(index: int) -> Pod:
    return Pod(
        namespace="ns",
        name=f"train-worker-{index}",
        uid=f"u{index}",
        resource_version="1",
        role=Role.WORKER,
        index=index,
        epoch=1,
        created=BEGAN,
        phase="Running",
        owner=None,
        container="main",
        node="node-1",
    )


def make_status(*hosts: int, listed: Sequence[int] = (), **fields: Any) -> JobStatus:
    names = tuple(f"train-worker-{index}" for index in hosts)
    listings = (Listing(BEGAN, tuple(listed or hosts)),)
    return JobStatus(current_workers=names, target_workers=names, listings=listings, **fields)


def lose(*, again: int = 0, pause: float = 5.0) -> Loss:
    """A worker is killed after 10 steps at second 10, and another is there 20 s later."""
    loss = Loss(LOST, 2, epoch=1)
    print_steps(loss.training, range(1, 11), 1.0)
    loss.mark(10.0)
    loss.take_pods([make_pod(0), make_pod(2)], ["train-worker-0", LOST], 11.0)
    first = 11 - again
    print_steps(loss.training, range(first, first + 30), 10 + pause)
    loss.take_status(make_status(0, 2), "train", 30.0)
    return loss


def test_the_time_without_a_step_and_the_steps_again_are_told():
    loss = lose(again=3, pause=6.5)
    assert list(describe(loss, 45.0)) == [
        "no step for 6.5 s (from step to step it takes 1.0 s)",
        "3 steps trained again",
        f"{LOST} has gone",
        f"2 hosts again 20 s after it began to leave, with {HEIR} in its place",
    ]


def test_who_loses_nothing_hears_so():
    said = list(describe(lose(pause=1.0), 40.0))
    assert said[0].startswith("no pause: each step came within 3.0 s of the one before")
    assert said[1] == "no step trained again"
    assert list(advise(lose(pause=1.0), make_spec(2), 40.0)) == []


def test_two_pauses_are_told_with_their_sum():
    training = Training()
    now = print_steps(training, [1, 2, 3], 0.0, 0.1)
    training.mark()
    now = print_steps(training, [4, 5], now + 6, 0.1)
    print_steps(training, [6], now + 3)
    loss = Loss(LOST, 2, 1, training)
    [pauses, _] = list(describe(loss, training.heard))[:2]
    words = "no step for 6.1 s, then 3.1 s, 9.2 s in all (from step to step it takes 0.1 s)"
    assert pauses == words


def test_before_the_worker_goes_no_pause_is_one_of_its_loss():
    loss = Loss(LOST, 2, 1)
    print_steps(loss.training, range(1, 11), 1.0)
    assert next(describe(loss, 600.0)).startswith("no pause")
    assert list(describe(loss, 600.0))[-1] == f"{LOST} has not gone"


def test_a_pause_that_lasts_counts():
    loss = Loss(LOST, 2, 1)
    print_steps(loss.training, range(1, 11), 1.0)
    loss.mark(10.0)
    assert next(describe(loss, 100.0)).startswith("no step for 90.0 s")
    assert list(describe(loss, 100.0))[-1] == "not 2 hosts again after 90 s"


def test_ranks_that_tell_of_the_same_steps_repeat_none_of_them():
    training = Training()
    for rank in (0, 1):
        print_steps(training, range(1, 11), 1.0 + rank / 100, rank=rank)
    training.mark()
    print_steps(training, range(9, 12), 20, rank=0)
    print_steps(training, range(11, 12), 20, rank=1)
    assert training.again == 2


def test_a_line_that_comes_late_is_no_step_again():
    training = Training()
    print_steps(training, [1, 2, 3, 5], 1.0)
    training.mark()
    print_steps(training, [4, 6], 5.0)  # the last one of who left, after the first of the next
    assert training.again == 0


def test_numbers_that_begin_anew_with_each_epoch_are_no_steps_again():
    training = Training()
    lines = [f"Train Epoch: {e} [{n}/100 (1%)]  Loss: 2" for e in (1, 2) for n in (0, 50, 100)]
    for index, line in enumerate(lines):
        if index == 3:
            training.mark()
        training.take(BEGAN + timedelta(seconds=index), line, index)
    bars = [f"step {n}/3 loss 1" for n in (1, 2, 3, 1, 2, 3)]
    for index, line in enumerate(bars):
        training.take(BEGAN + timedelta(seconds=10 + index), line, index)
    assert training.again == 0


def test_a_bar_that_is_drawn_again_is_no_step_again():
    training = Training()
    print_steps(training, [1, 2, 2], 1.0)
    training.mark()
    print_steps(training, [3, 3, 3], 4.0)
    assert training.again == 0


@pytest.mark.parametrize(
    ("first", "said"),
    [
        (1100, "fewer than 100 steps trained again, if any (its log tells of each 100th only)"),
        (900, "about 200 steps trained again (its log tells of each 100th only)"),
    ],
)
def test_of_a_log_that_tells_of_some_steps_only_no_more_is_said_than_is_known(
    first: int, said: str
):
    loss = Loss(LOST, 2, 1)
    print_steps(loss.training, range(100, 1001, 100), 1.0)
    loss.mark(10.0)
    print_steps(loss.training, range(first, 1300, 100), 15.0)
    assert said in list(describe(loss, 20.0))


def test_the_last_step_alone_may_be_trained_again():
    training = Training()
    now = print_steps(training, range(1, 11), 1.0)
    training.mark()
    print_steps(training, [10, 11], now + 4)
    assert training.again == 1


def test_the_last_step_alone_may_be_trained_again_at_once():
    training = Training()
    now = print_steps(training, range(1, 11), 1.0, pace=0.3)
    training.mark()
    print_steps(training, [10, 11], now)
    assert training.again == 1


def test_what_the_lost_rank_told_after_its_loss_was_asked_for_is_trained_again_by_the_next():
    training = Training()
    now = print_steps(training, range(1, 11), 1.0, pace=0.3, rank=0)
    training.mark()
    now = print_steps(training, [11, 12], now, pace=0.3, rank=0)  # it is stopped only now
    print_steps(training, [11, 12, 13], now, pace=0.3, rank=1)
    assert training.again == 2


def test_without_steps_in_the_log_it_is_not_said_that_none_was_lost():
    loss = Loss(LOST, 2, 1)
    loss.training.take(BEGAN, "hello", 0.0)
    loss.mark(1.0)
    assert next(describe(loss, 100.0)) == (
        "its log tells of no step: what the training lost is not known"
    )


@pytest.mark.parametrize(
    ("text", "how", "spare", "said"),
    [
        ("left: graceful, 19 s before its end", Leaving.GRACEFUL, 19, "19 s before its end"),
        ("left: gone, 3 s after its end", Leaving.GONE, -3, "3 s after its end"),
        ("left: forced", Leaving.FORCED, None, f"{LOST} left: forced"),
    ],
)
def test_how_it_left_is_as_the_operator_says(text: str, how: Leaving, spare: int, said: str):
    loss = Loss(LOST, 2, 1)
    loss.take_event("WorkerMoved", "train", "worker train-worker-11 left: forced")
    assert loss.how is None
    loss.take_event("WorkerMoved", "train", f"worker {LOST} {text}")
    assert (loss.how, loss.spare) == (how, spare)
    assert any(line.endswith(said) for line in describe(loss, 0.0))


def test_it_begins_to_leave_when_the_operator_says_so_and_not_before():
    loss = Loss(LOST, 2, 1)
    loss.take_status(make_status(0, 1), "train", 5.0)
    assert loss.left is None
    leaving = WorkerRecord(LOST, "u1", WorkerState.LEAVING)
    loss.take_status(make_status(0, 1, workers=(leaving,)), "train", 40.0)
    assert loss.left == 40.0
    loss.take_status(make_status(0, 2, listed=[0, 1]), "train", 50.0)
    assert loss.back is None  # the other one runs, and is no host yet
    loss.take_status(make_status(0, 2), "train", 55.0)
    assert loss.back == 55.0


def test_steps_are_counted_again_where_the_rank_that_told_of_them_was_lost():
    training = Training()
    print_steps(training, range(1, 11), 1.0)
    training.mark()
    for number in (9, 10, 11):
        training.take(BEGAN + timedelta(seconds=30 + number), f"[1]<stdout>:step={number}", 50.0)
    assert training.again == 2
    assert training.is_ahead


def test_it_is_over_when_all_are_hosts_and_train_or_after_a_minute():
    loss = Loss(LOST, 2, 1)
    now = print_steps(loss.training, range(1, 11), 1.0)
    loss.mark(now)
    loss.take_status(make_status(0, 2), "train", 20.0)
    assert not loss.is_over(21.0)  # its pod is there
    loss.take_pods([make_pod(0), make_pod(2)], ["train-worker-0", LOST], 21.0)
    assert not loss.is_over(22.0)
    assert loss.is_over(80.0)
    loss.training.take(BEGAN, "[0]<stdout>:step=11 size=1", 25.0)
    assert not loss.is_over(26.0)  # with one rank less
    loss.training.take(BEGAN, "[0]<stdout>:step=10 size=2", 27.0)
    assert not loss.is_over(28.0)  # as far as it was before
    loss.training.take(BEGAN, "[0]<stdout>:step=12 size=2", 29.0)
    assert not loss.is_over(30.0)  # the ring may break once more as the new one joins
    loss.training.take(BEGAN, "[0]<stdout>:step=13 size=1", 32.0)
    assert not loss.is_over(33.0)  # as it does
    loss.training.take(BEGAN, "[0]<stdout>:step=14 size=2", 36.0)
    assert not loss.is_over(37.0)
    loss.training.take(BEGAN, "[0]<stdout>:step=15 size=2", 43.0)
    assert loss.is_over(44.0)


def test_who_trains_on_as_if_nothing_were_lost_may_break_yet():
    loss = Loss(LOST, 2, 1)
    now = print_steps(loss.training, range(1, 11), 1.0)
    loss.mark(now)
    loss.take_pods([make_pod(0), make_pod(2)], ["train-worker-0", LOST], now)
    loss.take_status(make_status(0, 2), "train", now + 4)
    for number in range(11, 31):  # its process is there for 20 s more, whatever its pod is
        now = print_steps(loss.training, [number], now)
        assert not loss.is_over(now)
    now = print_steps(loss.training, [27, 28, 29, 30, 31], now + 5)
    assert not loss.is_over(now)  # what was steady before that is so no more
    now = print_steps(loss.training, range(32, 38), now)
    assert loss.is_over(now)
    assert loss.training.again == 4


def test_who_has_trained_on_for_long_has_lost_nothing():
    loss = Loss(LOST, 2, 1)
    now = print_steps(loss.training, range(1, 11), 1.0)
    loss.mark(now)
    loss.take_pods([make_pod(0), make_pod(2)], ["train-worker-0", LOST], now)
    loss.take_status(make_status(0, 2), "train", now)
    times = []
    for number in range(11, 50):
        now = print_steps(loss.training, [number], now)
        if loss.is_over(now):
            times.append(number)
    assert times[0] == 43  # two steps late: of the first look at which it is heard, and its own


def test_how_it_left_is_waited_for_where_an_event_will_tell():
    loss = Loss(LOST, 2, 1, is_announced=True)
    loss.mark(10.0)
    loss.take_pods([make_pod(0), make_pod(2)], ["train-worker-0", LOST], 11.0)
    loss.take_status(make_status(0, 2), "train", 12.0)
    assert not loss.is_over(13.0)
    loss.take_event("WorkerMoved", "train", f"worker {LOST} left: graceful, 19 s before its end")
    assert loss.is_over(14.0)
    silent = Loss(LOST, 2, 1, is_announced=True)
    silent.left, silent.back, silent.is_away = 10.0, 12.0, True
    assert silent.is_over(72.0)  # nobody has told


def test_where_no_line_tells_the_size_the_new_one_has_time_to_join():
    loss = Loss(LOST, 2, 1)
    loss.training.take(BEGAN, "step=1", 1.0)
    loss.mark(10.0)
    loss.take_pods([make_pod(0), make_pod(2)], ["train-worker-0", LOST], 11.0)
    loss.take_status(make_status(0, 2), "train", 12.0)
    loss.training.take(BEGAN, "step=2", 13.0)
    assert not loss.is_over(14.0)
    assert not loss.is_over(32.0)
    loss.training.take(BEGAN, "step=3", 62.0)
    assert loss.is_over(63.0)


def test_a_command_that_was_started_again_is_told():
    loss = lose()
    loss.take_status(make_status(0, 2, epoch=2), "train", 31.0)
    assert any("was started again" in line for line in describe(loss, 40.0))


# ------------------------------------------------------------------ what would lower it
def test_steps_again_speak_for_more_commits():
    assert "the last one was 7 steps old" in next(advise(lose(again=7), make_spec(2), 45.0))
    assert list(advise(lose(again=1), make_spec(2), 45.0)) == []


@pytest.mark.parametrize(("how", "spare"), [("forced", ""), ("gone", ", 2 s after its end")])
def test_one_that_left_too_late_speaks_for_a_longer_notice(how: str, spare: str):
    loss = lose()
    loss.take_event("WorkerMoved", "train", f"worker {LOST} left: {how}{spare}")
    assert "a longer notice" in next(advise(loss, make_spec(2), 45.0))


def test_a_long_pause_speaks_for_fast_recovery_where_it_is_off():
    off = replace(make_spec(2), loss_recovery=LossRecovery.WAIT)
    assert "lossRecovery: Fast" in next(advise(lose(pause=70), off, 110.0))
    assert list(advise(lose(pause=70), make_spec(2), 110.0)) == []
    assert list(advise(lose(pause=6), off, 46.0)) == []


def test_a_pull_that_took_long_speaks_for_an_image_that_is_present():
    loss = lose()
    text = 'Successfully pulled image "corp/x:1" in 1m2.5s (1m2.5s including waiting)'
    loss.take_event("Pulled", "other-worker-2", text)
    assert list(advise(loss, make_spec(2), 45.0)) == []
    loss.take_event("Pulled", HEIR, text)
    [said] = advise(loss, make_spec(2), 45.0)
    assert said == f"an image that is present on the nodes: {HEIR} waited 62 s for it"


def test_a_wait_for_a_node_speaks_for_room():
    loss = Loss(LOST, 2, 1)
    waiting = replace(make_pod(2), node=None, unschedulable_message="0/3 nodes are available")
    for now in (10.0, 20.0):
        loss.take_pods([waiting], ["train-worker-0", LOST], now)
    loss.take_pods([make_pod(2)], ["train-worker-0", LOST], 60.0)
    [said] = advise(loss, make_spec(2), 60.0)
    assert said.startswith(f"room that is free: no node had any for {HEIR} for 10 s")


def test_bounds_that_left_no_other_to_lose_are_named():
    loss = replace(lose(), hosts=3)
    worker = replace(make_spec(3).worker, min_replicas=2)
    spec = replace(make_spec(3), worker=worker, command_least=1)
    [said] = advise(loss, spec, 45.0)
    assert said.startswith("minReplicas 2 lower: with 2 hosts left, a second loss")
    [said] = advise(loss, replace(spec, command_least=2), 45.0)
    assert said.startswith("minReplicas 2 and the least that its command goes on with (2, --min-np")


@pytest.mark.parametrize(
    ("reason", "text"),
    [
        ("Pulled", "Successfully pulled image x in 1.2.3s"),
        ("Pulled", "Successfully pulled image x in ..s"),
        ("WorkerMoved", f"worker {LOST} left: gone, {'9' * 5000} s after its end"),
    ],
)
def test_an_event_that_anybody_has_made_ends_no_rehearsal(reason: str, text: str):
    loss = lose()
    loss.take_event(reason, HEIR, text)
    assert (loss.pulled, loss.spare) == (0.0, None)


def tell(loss: LastLoss, seconds: float, text: str) -> None:
    loss.take(BEGAN + timedelta(seconds=seconds), text)


def tell_steps(loss: LastLoss, numbers: Sequence[int], start: float, pace: float = 1.0) -> None:
    for place, number in enumerate(numbers):
        tell(loss, start + place * pace, f"[0]<stdout>:step={number} loss=0.1 size=2")


def tell_loss(loss: LastLoss, seconds: float, worker: str = LOST) -> None:
    """As the processes that stand for its two ranks say it."""
    for rank in (2, 3):
        tell(loss, seconds, f"[{rank}]<stderr>:edl: {worker}: the worker's pod is gone")


def test_what_a_loss_cost_is_read_in_a_log_that_tells_of_it() -> None:
    loss = LastLoss()
    tell_steps(loss, range(1, 11), 1.0)
    tell_loss(loss, 13.0)
    assert loss.describe() == "", "nobody knows yet"
    tell_steps(loss, [9, 10], 14.5)
    assert loss.describe() == "", "it is not where it was"
    tell_steps(loss, [11, 12], 16.5)
    assert loss.describe() == (
        f"{LOST} was lost: no step for 4.5 s (from step to step it takes 1.0 s), "
        "2 steps trained again"
    )
    assert not loss.is_complete, "the ring that takes in the next worker comes yet"


def test_a_minute_later_all_was_told_and_what_follows_is_no_cost_of_it() -> None:
    loss = LastLoss()
    tell_steps(loss, range(1, 11), 1.0)
    tell_loss(loss, 10.5)
    tell_steps(loss, range(11, 80), 14.0)
    assert loss.is_complete
    told = loss.describe()
    tell_steps(loss, [80], 300.0)
    assert loss.describe() == told


def test_a_training_that_does_not_go_on_is_waited_for() -> None:
    loss = LastLoss()
    tell_steps(loss, range(1, 11), 1.0)
    tell_loss(loss, 11.0)
    tell(loss, 100.0, "some words")
    assert not loss.is_complete
    tell_steps(loss, [11, 12], 130.0)
    assert "no step for 120.0 s" in loss.describe()


def test_the_newest_loss_counts_and_knows_of_the_steps_before_it() -> None:
    loss = LastLoss()
    tell_steps(loss, range(1, 11), 1.0)
    tell_loss(loss, 10.5)
    tell_steps(loss, range(11, 21), 20.0)
    tell_loss(loss, 30.0, HEIR)
    tell_steps(loss, [20, 21], 32.5)
    assert loss.describe() == (
        f"{HEIR} was lost: no step for 3.5 s (from step to step it takes 1.0 s), "
        "1 step trained again"
    )


def test_a_log_without_a_loss_or_without_steps_tells_of_no_cost() -> None:
    loss, silent = LastLoss(), LastLoss()
    tell_steps(loss, range(1, 11), 1.0)
    tell_loss(silent, 1.0)
    tell(silent, 700.0, "words")
    assert (loss.describe(), silent.describe()) == ("", "")
    assert silent.is_complete, "nobody waits for ever"


@pytest.mark.parametrize("before", [[], [4]])
def test_where_fewer_than_two_steps_were_told_before_a_loss_no_step_is_late(before: list[int]):
    loss, rehearsed = LastLoss(), Loss(LOST, 2, 1)
    tell_steps(loss, before, 0.0)
    tell_loss(loss, 1.0)
    tell_steps(loss, [5, 6, 7], 10.0, pace=40.0)
    assert loss.describe() == ""
    print_steps(rehearsed.training, before, 0.0)
    rehearsed.mark(1.0)
    print_steps(rehearsed.training, [5, 6, 7], 10.0, pace=40.0)
    words = "its log tells of too few steps before it: what the training lost is not known"
    assert next(describe(rehearsed, 130.0)) == words
    off = replace(make_spec(2), loss_recovery=LossRecovery.WAIT)
    assert list(advise(rehearsed, off, 130.0)) == []


def test_workers_that_are_lost_together_are_one_loss() -> None:
    loss = LastLoss()
    tell_steps(loss, range(1, 11), 1.0)
    for place, worker in enumerate((LOST, HEIR, LOST, HEIR)):
        tell_loss(loss, 10.5 + place / 4, worker)
    tell_steps(loss, [10, 11], 14.0)
    tell_loss(loss, 60.0)  # as was told long ago
    assert loss.at == BEGAN + timedelta(seconds=10.5)
    assert loss.describe() == (
        f"{LOST}, {HEIR} were lost: no step for 4.0 s (from step to step it takes 1.0 s), "
        "1 step trained again"
    )


@pytest.mark.long
@pytest.mark.parametrize("is_shared", [False, True])
def test_a_rank_that_tells_of_steps_after_a_loss_costs_its_own_alone(is_shared: bool) -> None:
    def tell_all(count: int) -> None:
        loss = LastLoss()
        for step in range(count):
            for rank in range(1 + is_shared):
                tell(loss, step, f"[{rank}]<stdout>:step={step}")
        tell_loss(loss, 400.5)
        for rank in range(2, count):
            tell(loss, 401, f"[{rank}]<stdout>:step=1")
        assert loss.training.again == 1

    assert count_steps(lambda: tell_all(200)) < 2.5 * count_steps(lambda: tell_all(100))
    assert find_peak(lambda: tell_all(200)) < 2.5 * find_peak(lambda: tell_all(100))


@pytest.mark.long
def test_of_a_loss_that_is_followed_by_many_steps_no_more_is_kept_than_a_few() -> None:
    """A script may have said that a worker is gone, and print what it likes."""
    loss = LastLoss()
    tell_steps(loss, range(1, 11), 1.0)
    tell_loss(loss, 10.5)
    tell_steps(loss, range(11, 11 + MOST_LINES), 14.0, pace=0.0)
    assert loss.is_complete
    assert not loss.training.moments
    assert "no step for 4.0 s" in loss.describe()


@pytest.mark.long
def test_no_more_is_taken_than_what_so_many_lines_tell() -> None:
    training = Training()
    for number in range(MOST_LINES + 10):
        training.take(BEGAN, f"[{number}]<stdout>:step={number}", number)
    assert len(training.moments) == len(training.courses) == MOST_LINES


def test_a_log_of_which_no_more_is_taken_is_not_silent() -> None:
    loss = lose(pause=1.0)
    assert next(describe(loss, 600.0)).startswith("no step for ")
    loss.training.lines = MOST_LINES
    assert next(describe(loss, 600.0)).startswith("no pause")


@pytest.mark.long
def test_no_more_lost_workers_are_told_apart_than_a_job_may_have() -> None:
    loss = LastLoss()
    for number in range(MOST_WORKERS + 10):
        tell(loss, 1.0, f"edl: w-{number}: the worker's pod is gone")
    assert len(loss.workers) == MOST_WORKERS


@pytest.mark.long
def test_of_long_lines_before_a_loss_as_much_is_kept_as_is_looked_at() -> None:
    def tell_all(length: int) -> None:
        loss = LastLoss()
        for number in range(100):
            tell(loss, number, f"step={number} " + "x" * length)
        tell_loss(loss, 100.5)
        assert len(loss.training.moments) == 100

    assert find_peak(lambda: tell_all(20_000)) < 1.3 * find_peak(lambda: tell_all(10_000))
