"""The picture of `et watch` where there is little room."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from et.pictures import FRESH, Picture, fit, list_scalings
from et.steps import Progress, Step
from et_operator.codec.decoding import decode_scaling
from et_operator.model.conditions import Condition
from et_operator.model.scalings import Scaling
from et_operator.model.statuses import ScalingKind, ScalingRecord
from fakes.clock import START
from tests.makers import make_scale_out
from tests.planning_makers import make_job
from tests.unit.et.rigs import make_screen, read
from tests.unit.et.test_stories import at, store_scaling


def make_scaling(number: int, phase: str = "ScaleSucceeded") -> Scaling:
    """Asked for at minute `number`, over ten seconds later."""
    begun = number * 60
    conditions = [
        {"type": kind, "status": "True", "reason": kind, "message": f"{kind} of {number}"}
        | {"lastTransitionTime": at(begun + 10)}
        for kind in ("Scaling", phase)
    ]
    manifest = make_scale_out(f"grow-{number}")
    times = {"startTime": at(begun), "completionTime": at(begun + 10)}
    return decode_scaling(
        store_scaling(manifest, begun, phase=phase, conditions=conditions, **times)
    )


def make_picture(scalings: int, *, trouble: str = "") -> Picture:
    job = make_job()
    if trouble:
        bad = Condition("ImagePullFailing", "True", "ImagePull", trouble)
        job = replace(job, status=replace(job.status, conditions=(bad,)))
    progress = Progress(newest=Step(number=7, loss=0.5, size=2))
    return Picture(job, progress, tuple(make_scaling(number) for number in range(scalings)))


def draw(picture: Picture, height: int) -> list[str]:
    screen = make_screen(width=70)
    screen.out.height = height
    screen.out.print(fit(picture, START + timedelta(hours=1), screen.out))
    return read(screen.out).splitlines()


def test_where_there_is_room_all_is_shown():
    lines = draw(make_picture(3), 40)

    assert [sum(f"grow-{n}:" in line for line in lines) for n in range(3)] == [1, 1, 1]


@pytest.mark.parametrize(("kind", "times"), [(ScalingKind.REPLICAS, 1), (ScalingKind.OUT, 0)])
def test_what_is_waited_for_is_shown_and_that_of_a_scaling_once(kind: ScalingKind, times: int):
    """A ScaleOut says it in its own line."""
    picture = make_picture(0)
    waits = (
        Condition("Scaling", "True", "Replicas", "2 -> 4 workers; waits: job-worker-2: Pending"),
        Condition("Awaiting", "True", "Awaiting", "job-launcher: ImagePullBackOff"),
    )
    record = ScalingRecord(kind, "", "", 2, 4, START)
    picture.job = replace(
        picture.job, status=replace(picture.job.status, conditions=waits, scaling=record)
    )
    lines = draw(picture, 40)
    assert sum("waits" in line and "job-launcher: ImagePullBackOff" in line for line in lines) == 1
    assert sum("waits" in line and "job-worker-2: Pending" in line for line in lines) == times


@pytest.mark.parametrize("height", [9, 10, 14])
def test_in_a_small_terminal_the_newest_stays(height: int):
    lines = draw(make_picture(9, trouble="no such image"), height)

    assert len(lines) < height
    assert lines[0].startswith("job")
    assert any("step" in line for line in lines)
    assert "no such image" in "".join(lines[-2:])
    assert "grow-8" in next((line for line in reversed(lines) if "grow-" in line), "grow-8")


def test_in_the_smallest_one_the_title_and_the_end_stay():
    lines = draw(make_picture(9, trouble="no such image"), 3)

    assert len(lines) == 2
    assert lines[0].startswith("job")
    assert "no such image" in lines[1]


def test_a_scaling_that_failed_is_shown_for_a_while():
    picture = replace(make_picture(0), scalings=(make_scaling(0, "ScaleFailed"), make_scaling(1)))
    ended = START + timedelta(seconds=10)

    assert len(list_scalings(picture, ended + FRESH)) == 2
    (line,) = list_scalings(picture, ended + FRESH + timedelta(seconds=1))
    assert "grow-1" in line
