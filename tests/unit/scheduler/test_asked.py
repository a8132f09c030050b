"""What others are asked: by one who gets it, once, and so that they may have what is left."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest

from et_contract.admissions import AdmissionState, Elasticity
from et_scheduler.model.cluster import Cluster
from et_scheduler.model.jobs import Admission, Gift, Job, Pod, Purpose
from et_scheduler.model.reasons import Reason
from et_scheduler.model.shapes import HOUR, MINUTE, SECOND
from et_scheduler.planning.passing import decide
from tests.unit.scheduler.makers import (
    LONG_AGO,
    MAIN,
    NOW,
    apply,
    cpus,
    decide_on,
    make_job,
    make_node,
    make_nodes,
    run_on,
)

FIXED: dict[str, Any] = {"elasticity": Elasticity.FIXED}


def let_pass(jobs: list[Job], minutes: int, nodes: int, step: int = 10 * SECOND) -> list[Job]:
    """No operator carries anything out."""
    for now in range(NOW, NOW + minutes * MINUTE + 1, step):
        jobs = apply(jobs, decide(Cluster(make_nodes(nodes)), MAIN, jobs, now))
    return jobs


def test_a_launcher_that_ends_already_makes_no_room_by_going() -> None:
    node = make_node("a", taken={"cpu": 2000, "pods": 1})
    low = run_on(make_job("low", 1, 1, 4, launcher=cpus(2), replicas=1), "a")
    pods = tuple(
        replace(pod, is_terminating=pod.is_launcher, leaving_since=NOW - 5000) for pod in low.pods
    )
    high = make_job("high", 1, 1, 8, priority=10)
    told = decide_on((node,), [replace(low, pods=pods), high])
    assert told.get("low", low.admission) == low.admission, "6 of 8 CPU are no room for 8"


@pytest.mark.long
def test_who_goes_goes_for_one_who_will_have_room() -> None:
    """Whatever of the jobs ends already: the evictor waits for room that comes."""
    for seed in range(400):
        random = Random(seed)  # noqa: S311 (no secret)
        jobs, left = [], {"a": 8, "b": 8, "c": 6}
        nodes = tuple(make_node(name, cpu) for name, cpu in left.items())
        for index in range(random.randint(1, 4)):
            cpu, own = random.choice([1, 2, 3]), random.choice([0, 1, 2])
            place = random.choice(sorted(left))
            workers = min(random.randint(1, 3), (left[place] - own) // cpu)
            if workers < 1:
                continue
            left[place] -= own + workers * cpu
            job = make_job(f"low-{index}", 1, 5, cpu, launcher=cpus(own))
            job = run_on(job, *[place] * workers)
            pods = [
                replace(pod, is_terminating=True, leaving_since=NOW - 5000)
                if random.random() < 0.3
                else pod
                for pod in job.pods
            ]
            jobs.append(replace(job, pods=tuple(pods)))
        for index in range(2):
            cpu, own = random.choice([3, 4, 6, 8]), random.choice([0, 1, 2])
            high = make_job(f"high-{index}", 1, 1, cpu, launcher=cpus(own), priority=5)
            jobs.append(replace(high, minimum=random.randint(1, 2), maximum=2))
        decision = decide(Cluster(nodes), MAIN, jobs, NOW)
        for change in decision.changes:
            for eviction in change.admission.evictions:
                told = decision.explanations[eviction.uid]
                assert told.reason is Reason.ROOM_COMES, (seed, told)


@pytest.mark.long
def test_one_goes_for_one_while_no_operator_carries_it_out() -> None:
    jobs = [
        run_on(make_job(f"low-{i}", replicas=1, cpu=8, **FIXED), f"node-0{i}", since=LONG_AGO + i)
        for i in range(6)
    ]
    jobs = let_pass([*jobs, make_job("high", 1, 1, 8, priority=10)], 60, 6)
    reasons = [job.admission.reason for job in jobs if job.admission]
    assert reasons.count(Reason.EVICTED) == 1


def test_workers_are_asked_once_while_no_operator_carries_it_out() -> None:
    jobs = [run_on(make_job(f"low-{i}", 4, 8), *[f"node-0{i}"] * 8) for i in range(4)]
    jobs = let_pass([*jobs, make_job("high", 4, 4, priority=10)], 60, 4, step=MINUTE)
    sizes = sorted(job.admission.workers for job in jobs[:4] if job.admission)
    assert sizes == [4, 8, 8, 8]


def test_others_are_asked_where_an_operator_is_there_and_leaves_one_alone() -> None:
    jobs = [
        run_on(make_job(f"low-{i}", replicas=1, cpu=8, **FIXED), f"node-0{i}") for i in range(2)
    ]
    jobs = let_pass([*jobs, make_job("high", 1, 1, 8, priority=10)], 1, 2)
    jobs.append(make_job("new", 9, 9, 8, created=NOW + 5 * MINUTE))  # an operator holds it
    for minute in range(2, 15):
        jobs = apply(jobs, decide(Cluster(make_nodes(2)), MAIN, jobs, NOW + minute * MINUTE))
    reasons = [job.admission.reason for job in jobs if job.admission]
    assert reasons.count(Reason.EVICTED) == 2


def test_a_start_that_no_operator_has_looked_at_costs_no_place() -> None:
    queued = [NOW - (5 - i) * HOUR for i in range(5)]
    jobs = [make_job(f"job-{i}", 1, 1, 8, created=at) for i, at in enumerate(queued)]
    jobs = let_pass([wait_since(job) for job in jobs], 8, 1)
    assert [job.admission.queued_at for job in jobs if job.admission] == queued
    assert [job.admission.attempts for job in jobs if job.admission] == [0] * 5


def wait_since(job: Job) -> Job:
    told = Admission(0, AdmissionState.WAITING, "main", queued_at=job.created, since=job.created)
    return replace(job, admission=told)


@pytest.mark.parametrize("begun", [0, 1, 2, 3, 4])
def test_what_is_given_back_to_a_job_is_one_of_its_sizes(begun: int) -> None:
    job = run_on(make_job("job", 2, 8, sizes=(2, 4, 8)), *["node-00"] * 8)
    names = [f"job-{i}" for i in (4, 5, 6, 7)]
    assert job.admission is not None
    gift = Gift(Purpose.GANG, "gone")
    told = replace(job.admission, workers=4, leaving=tuple(names), leaving_since=NOW - 2000)
    pods = tuple(replace(pod, is_draining=pod.name in names[:begun]) for pod in job.pods)
    job = replace(job, admission=replace(told, gave_for=gift), pods=pods)
    after = decide_on(make_nodes(1), [job]).get("job", job.admission)
    assert after is not None
    assert after.workers == (4 if begun else 8)


def test_a_job_whose_sizes_are_edited_has_one_of_them() -> None:
    job = run_on(make_job("job", 2, 8, sizes=(2, 4, 8)), *["node-00"] * 4)
    told = decide_on(make_nodes(1, 4), [replace(job, sizes=(3, 6))])["job"]
    assert told.workers == 3
    assert len(told.leaving) == 1


def test_who_may_not_ask_says_nothing_of_who_may() -> None:
    elastic = run_on(make_job("elastic", 1, 6), *["node-00"] * 6)
    raised: dict[str, Any] = {"reason": Reason.NOT_GROWN, "attempts": 1, "retry_at": NOW - HOUR}
    bad = run_on(make_job("bad", **FIXED), "node-00", unfit_since=NOW - HOUR, **raised)
    good = run_on(make_job("good", **FIXED), "node-00", unfit_since=NOW - SECOND)
    jobs = [elastic, replace(bad, replicas=2), replace(good, replicas=2)]
    told = decide_on(make_nodes(1), jobs)
    assert told["elastic"].workers == 5


def carry_out(job: Job, told: Admission, now: int, *, is_bound: bool) -> Job:
    """An operator does so at once, and its pods are bound, or no node is ever found for them."""
    if told.state is AdmissionState.WAITING:
        return replace(job, admission=told, pods=(), is_waiting=True)
    if not job.is_waiting:
        return replace(job, admission=told)
    node = told.placement.only[0] if is_bound else ""
    pods = [Pod(f"{job.name}-{now}-{index}", node, now) for index in range(told.workers)]
    pods.append(Pod(f"{job.name}-{now}", node, now, is_launcher=True))
    return replace(
        job, admission=told, pods=tuple(pods), is_waiting=False, admitted_number=told.number
    )


def count_gone(*, hours: int) -> int:
    """How many whole jobs go in these hours for one of which no pod ever finds a node."""
    gone, jobs = 0, [make_job("high", 1, 1, 8, priority=10)]
    for i in range(6):
        low = make_job(f"low-{i}", replicas=1, cpu=8, **FIXED)
        jobs.append(run_on(low, f"node-0{i}", since=LONG_AGO + i))
    for now in range(NOW, NOW + hours * HOUR, 20 * SECOND):
        decision = decide(Cluster(make_nodes(6)), MAIN, jobs, now)
        told = {change.uid: change.admission for change in decision.changes}
        gone += sum(one.reason is Reason.EVICTED for one in told.values())
        jobs = [
            carry_out(job, told[job.uid], now, is_bound=job.name != "high")
            if job.uid in told
            else job
            for job in jobs
        ]
    return gone


@pytest.mark.long
@pytest.mark.parametrize(("hours", "gone"), [(1, 2), (3, 3)])
def test_jobs_do_not_go_one_after_the_other_for_one_that_never_stands(
    hours: int, gone: int
) -> None:
    """And 6 in the first hour and 4 in each other would."""
    assert count_gone(hours=hours) == gone


@pytest.mark.parametrize(("attempts", "hours"), [(2, 1), (3, 2), (100, 32)])
def test_one_goes_for_it_again_an_hour_later_and_then_twice_as_long_after_that(
    attempts: int, hours: int
) -> None:
    """What bound no pods may have been the cluster, for these minutes."""
    low = run_on(make_job("low", replicas=1, cpu=8, **FIXED), "node-00")
    for wait in (1, 0):
        since = NOW - hours * HOUR + wait
        told = Admission(2, queue="main", queued_at=since, since=since, attempts=attempts)
        high = replace(make_job("high", 1, 1, 8, priority=10), admission=told, admitted_number=2)
        decision = decide(Cluster(make_nodes(1)), MAIN, [high, low], NOW)
        gone = [change.uid for change in decision.changes if change.admission.evictions]
        assert (gone == ["low"]) is (wait == 0)
        assert wait == 0 or decision.wake_at == NOW + 1


def test_one_that_has_not_stood_twice_is_told_that_nobody_goes_for_it() -> None:
    told = Admission(2, queue="main", queued_at=NOW, since=NOW, attempts=2)
    high = replace(make_job("high", 1, 1, 8, priority=10), admission=told, admitted_number=2)
    low = run_on(make_job("low", replicas=1, cpu=8, **FIXED), "node-00")
    decision = decide(Cluster(make_nodes(1)), MAIN, [high, low], NOW)
    assert decision.explanations["high"].message.endswith(
        "; has started 2 times and not stood, so that no whole jobs go for it for 1 h"
    )
    alike = replace(high, uid="other", name="other", admission=replace(told, attempts=1))
    told_all = decide_on(make_nodes(1), [high, alike, low])
    assert told_all["low"].evictions[-1].uid == "other", "it says nothing of who has not"
