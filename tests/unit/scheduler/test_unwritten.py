"""A job whose admission cannot be written: what it has others give, and what it keeps from them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from et_contract.admissions import AdmissionState
from et_scheduler.model.cluster import Cluster
from et_scheduler.model.decisions import Step
from et_scheduler.model.jobs import Job
from et_scheduler.model.queues import Queue
from et_scheduler.model.rules import Rules
from et_scheduler.model.shapes import CPU
from et_scheduler.planning.passing import decide
from tests.unit.scheduler.makers import (
    MAIN,
    NOW,
    decide_on,
    make_job,
    make_nodes,
    run_on,
)
from tests.unit.scheduler.test_held import hold

MOST = Rules().coming_most
TWO = (Queue("main"), Queue("evil", limits={CPU: 8000}))


@pytest.mark.parametrize(
    "giver",
    [
        pytest.param(run_on(make_job("giver", 1, 8), *["node-00"] * 8), id="workers"),
        pytest.param(run_on(make_job("giver", 8, 8), *["node-00"] * 8), id="whole jobs"),
    ],
)
def test_that_others_were_asked_for_it_is_written_before_they_are(giver: Job) -> None:
    """It is written in its own admission, by which it is known that they were not in vain."""
    gang = hold(make_job("gang", 4, 4, priority=9), "node-00")
    decision = decide(Cluster(make_nodes(1)), MAIN, [giver, gang], NOW)
    [first, second] = decision.changes
    assert (first.uid, first.step, second.uid, second.step) == ("gang", 1, "giver", Step.GIVE)
    assert first.admission.coming_since == NOW


def promise(*bound: str, frozen_since: int | None, queue: str = "evil") -> Job:
    """Eight workers may come, and these have, a minute ago; since then it cannot be written."""
    job = run_on(make_job("evil", 8, 8, queue=queue), *["node-00"] * 8, since=NOW, bound_at=None)
    pods = tuple(pod for pod in job.pods if pod.name in bound)
    return replace(job, pods=pods, frozen_since=frozen_since)


@pytest.mark.parametrize(
    ("ago", "starts"), [(None, False), (MOST - 1, False), (MOST, True)], ids=str
)
def test_what_it_was_promised_is_nobodys_after_a_while(ago: int | None, *, starts: bool) -> None:
    evil = promise(frozen_since=None if ago is None else NOW - ago)
    told = decide_on(make_nodes(1), [evil, make_job("honest", 8, 8)], TWO)
    assert (told["honest"].state is AdmissionState.ADMITTED) == starts


@pytest.mark.parametrize(("workers", "starts"), [(6, True), (7, False)])
def test_what_it_has_of_that_is_its_own(workers: int, *, starts: bool) -> None:
    evil = promise("evil-0", "evil-1", "evil-launcher", frozen_since=NOW - MOST)
    told = decide_on(make_nodes(1), [evil, make_job("honest", workers, workers)], TWO)
    assert (told["honest"].state is AdmissionState.ADMITTED) == starts


def test_nor_does_it_count_against_the_limit_of_its_queue() -> None:
    evil = promise(frozen_since=NOW - MOST)
    told = decide_on(make_nodes(2), [evil, make_job("honest", 8, 8, queue="evil")], TWO)
    assert told["honest"].state is AdmissionState.ADMITTED
