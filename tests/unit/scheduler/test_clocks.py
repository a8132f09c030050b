"""What a leader has recorded whose clock was ahead, or is behind: waits are as long as they are."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from et_scheduler.model.cluster import Cluster
from et_scheduler.model.jobs import Admission, Eviction, Job, Pod
from et_scheduler.model.reasons import Reason
from et_scheduler.model.shapes import CPU, DAY, MINUTE, SECOND
from et_scheduler.planning.passing import decide
from tests.unit.scheduler.makers import MAIN, NOW, apply, make_job, make_node, run_on

AHEAD = NOW + DAY
NODES = (make_node("node-00", taken={CPU: 1000}),)
"""A pod of others is there."""


def wait(**told: Any) -> Job:
    """It waits in line, and was told that a day ahead."""
    fields = {"queue": "main", "queued_at": AHEAD, "since": AHEAD}
    return replace(make_job("waits", 4, 4), admission=Admission(0, **(fields | told)))


def run(job: Job) -> Job:
    """It runs, and was told that a day ahead; its pods are of the server's time."""
    job = run_on(job, *["node-00"] * 7)
    assert job.admission is not None
    told = replace(job.admission, queued_at=AHEAD, since=AHEAD, bound_at=AHEAD)
    return replace(job, admission=told)


def pass_on(jobs: list[Job], minutes: int) -> dict[str, Admission]:
    """What all are told in the end, a pass each minute."""
    for minute in range(minutes):
        jobs = apply(jobs, decide(Cluster(NODES), MAIN, jobs, NOW + minute * MINUTE))
    return {job.uid: job.admission for job in jobs if job.admission is not None}


@pytest.mark.parametrize(
    ("told", "minutes"),
    [
        ({"retry_at": AHEAD, "reason": Reason.NOT_BOUND}, 20),
        ({"evictions": (Eviction("asks", "main", AHEAD),), "reason": Reason.EVICTED}, 14),
    ],
    ids=["tried again", "evicted"],
)
def test_who_waits_does_not_wait_for_the_clock(told: dict[str, Any], minutes: int) -> None:
    asks = replace(make_job("asks", 8, 8), admission=Admission(queue="main", reason=Reason.NO_ROOM))
    assert pass_on([wait(**told), asks], minutes)["waits"].number == 1


def test_nodes_are_held_a_minute_from_now() -> None:
    busy = run_on(make_job("busy", 7, 7, priority=1), *["node-00"] * 7)
    found = pass_on([busy, wait(unfit_since=AHEAD, reason=Reason.NO_ROOM)], 3)
    assert found["waits"].reserved == ("node-00",)


def test_who_runs_is_protected_for_ten_minutes_from_now() -> None:
    low = run(make_job("low", 7, 7, priority=-1))
    assert pass_on([low, make_job("waits", 4, 4)], 12)["low"].reason is Reason.EVICTED


def test_it_is_written_once_and_places_in_line_stay() -> None:
    jobs = [wait(retry_at=AHEAD), run(make_job("runs", 7, 7))]
    first = decide(Cluster(NODES), MAIN, jobs, NOW)
    told = {change.uid: change.admission for change in first.changes}
    assert (told["waits"].queued_at, told["waits"].since) == (AHEAD, NOW)
    assert (told["runs"].since, told["runs"].bound_at) == (NOW, NOW)
    jobs = apply(jobs, first)
    jobs = apply(jobs, decide(Cluster(NODES), MAIN, jobs, NOW + 1))
    assert not decide(Cluster(NODES), MAIN, jobs, NOW + 2).changes


def test_a_clock_that_is_behind_sets_nothing_right() -> None:
    """A worker was lost half a minute ago, the next is there: the job is taken back for neither."""
    short = run_on(
        make_job("short", 4, 4), *["node-00"] * 3, workers=4, short_since=NOW - 30 * SECOND
    )
    replacement = Pod("short-9", "", NOW - 20 * SECOND)
    jobs = [replace(short, pods=(*short.pods, replacement))]
    for now in (NOW, NOW - 20 * MINUTE, NOW + 5 * SECOND):
        jobs = apply(jobs, decide(Cluster(NODES), MAIN, jobs, now))
    assert jobs == [replace(short, pods=(*short.pods, replacement))]
