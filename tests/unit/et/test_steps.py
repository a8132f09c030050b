from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from et.steps import (
    MAX_SIZES,
    Progress,
    Step,
    count_repeats,
    find_cause,
    list_sizes,
    parse_rank,
    parse_step,
    tell_cause,
)

CASES = {
    "[0]<stdout>:step=26 loss=0.097518 size=2 epoch=0 rank=0 host=worker-1 t=1795254992.2": Step(
        number=26, epoch=0, loss=0.097518, size=2
    ),
    "[0]<stdout>:step 31, 2 workers, loss 3.0503": Step(number=31, loss=3.0503, size=2),
    "Train Epoch: 1 [640/60000 (1%)]\tLoss: 2.293032": Step(
        number=640, total=60000, epoch=1, loss=2.293032
    ),
    "Epoch 3/10": Step(epoch=3, epochs=10),
    "{'loss': 0.43, 'grad_norm': 1.2, 'epoch': 1.0}": Step(epoch=1, loss=0.43),
    "[1,0]<stdout>:12/250 [>....] - loss: 0.31": Step(number=12, total=250, loss=0.31),
    "step 12/100 - loss: 1.2e-3 - val_loss: 0.9": Step(number=12, total=100, loss=0.0012),
    "global_step=5 world_size=4": Step(number=5, size=4),
    "iter 20: loss 4.5, time 30ms": Step(number=20, loss=4.5),
    "step=5 batch_size=64": Step(number=5),
    "step 5, batch size: 64, batchSize=64, max-size=3": Step(number=5),
    "step=5 num_workers=4": Step(number=5),
    "step=5 batch_size=64 world size: 4": Step(number=5, size=4),
    "step=5 [workers: 4]": Step(number=5, size=4),
}
OTHERS = [
    "",
    "done steps=160 sizes=2,4,3 repeated=0 loss=0.1",
    "joined rank=0 size=2 host=demo-worker-0",
    "starting the first step of the training",
    "the loss function is MSELoss, epoch after epoch",
    "step: 5.5",
    "[0]<stderr>:2026-11-21 12:00:00 WARNING host demo-worker-1 was removed",
]


@pytest.mark.parametrize(("line", "step"), CASES.items())
def test_a_line_of_progress_is_understood(line: str, step: Step):
    assert parse_step(line) == step


@pytest.mark.parametrize("line", OTHERS)
def test_any_other_line_is_not(line: str):
    assert parse_step(line) is None


@pytest.mark.long
@given(st.text())
def test_no_line_is_too_strange(line: str):
    parse_step(line)


@pytest.mark.long
@pytest.mark.timeout(20)
def test_lines_that_look_like_a_loss_for_long_keep_nobody_waiting():
    for line in ("loss" + "1" * 1990 + "x", "loss" + " " * 1990 + "x"):
        assert [parse_step(line) for _ in range(1000)] == [None] * 1000


@pytest.mark.long
@given(
    number=st.integers(0, 10**9),
    loss=st.floats(allow_nan=False, allow_infinity=False, width=32),
    size=st.integers(1, 9999),
)
def test_what_was_printed_is_what_is_read(number: int, loss: float, size: int):
    line = f"[3]<stdout>:step={number} loss={loss} size={size}"

    assert parse_step(line) == Step(number=number, loss=loss, size=size)


def test_sizes_and_repeated_steps_are_counted_over_a_log():
    lines = ("step=1 size=2", "step=2 size=2", "noise", "step=2 size=4", "step=3 size=2")

    steps = [step for line in lines if (step := parse_step(line)) is not None]

    assert list_sizes(steps) == [2, 4, 2]
    assert count_repeats(steps) == 1


def test_progress_keeps_the_newest_of_each_fact():
    progress = Progress()

    assert progress.take("step=5/10 size=2")
    assert progress.take("Epoch 1 loss: 0.5")
    assert not progress.take("noise")

    assert progress.newest == Step(number=5, total=10, epoch=1, loss=0.5, size=2)
    assert progress.sizes == [2]


def test_a_rank_is_no_number_without_end():
    ranks = ("0", "1,7", "9" * 10, "1," + "9" * 1900)
    assert [parse_rank(f"[{rank}]<stdout>:step=1") for rank in ranks] == ["0", "1,7", "", ""]


def test_of_sizes_without_end_the_last_are_remembered():
    progress = Progress()
    for size in range(1000):
        progress.take(f"step={size} size={size}")
    assert progress.sizes == list(range(1000 - MAX_SIZES, 1000))


@pytest.mark.timeout(20)
def test_an_event_that_anybody_has_made_keeps_nobody_waiting():
    text = "x ended with exit code 1 (" * 40_000
    assert tell_cause(text) == text


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (
            "[1]<stderr>:ModuleNotFoundError: No module named 'model'\nTypeError: of the launcher",
            "ModuleNotFoundError: No module named 'model'",
        ),
        (
            "[0]<stderr>:python3: can't open file '/train.py': [Errno 2] No such file or directory",
            "python3: can't open file '/train.py': [Errno 2] No such file or directory",
        ),
        ("torch.cuda.OutOfMemoryError: CUDA out of memory\n", "torch.cuda.OutOfMemoryError: CUDA"),
        ("sh: 1: pyhton3: not found", "sh: 1: pyhton3: not found"),
        ("KeyboardInterrupt", "KeyboardInterrupt"),
        ("step=1 loss=0.1\nall is well", ""),
        ("RuntimeError: Horovod detected that one or more processes exited with", ""),
    ],
)
def test_the_error_that_ended_a_command_is_found_in_its_output(text: str, cause: str):
    assert find_cause(text).startswith(cause)
    assert bool(find_cause(text)) == bool(cause)
