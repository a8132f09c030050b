"""Each step of a log is read once, and a round is over only when all wanted ranks train."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.nights import are_steady
from tests.chaos.records import STEADY, Step
from tests.chaos.telling import Tail, parse_steps

LINE = b"2026-01-01T00:00:00Z stdout F [0]<stdout>:step=7 loss=0.5 size=3 epoch=0 rank=0 t=105.50\n"


def test_what_was_appended_is_read_once_and_half_a_line_with_its_other_half(tmp_path: Path):
    tail, path = Tail(), tmp_path / "0.log"
    assert tail.read(tmp_path) == b""
    path.write_bytes(b"one\ntw")
    assert tail.read(tmp_path) == b"one\n"
    path.write_bytes(b"one\ntwo\n")
    assert tail.read(tmp_path) == b"two\n"
    assert tail.read(tmp_path) == b""


def test_a_step_is_read_as_its_node_keeps_it_by_our_clock():
    assert parse_steps(b"joined\n" + LINE, "uid", 100.0) == [Step(7, 3, 5.5, "uid")]


@pytest.mark.parametrize(
    ("change", "is_over"),
    [
        ({}, True),
        ({"since": 1.5}, False),
        ({"wanted": 2}, False),
        ({"missing": 1}, False),
        ({"launcher": "old"}, False),
    ],
    ids=str,
)
def test_a_round_is_over_when_all_that_are_wanted_train_under_one_launcher_since_then(
    change: dict[str, object], is_over: bool
):
    case = {"since": 0.5, "wanted": 3, "missing": 0, "launcher": "new"} | change
    steps = [Step(n, 3, float(n), "new") for n in range(2, STEADY + 1 - case["missing"])]
    steps = [Step(1, 3, 1.0, case["launcher"]), *steps]
    assert are_steady(steps, case["wanted"], case["since"]) == is_over
