"""What planning is compared with decides by its own rules, which are those of others."""

from __future__ import annotations

from dataclasses import replace

import pytest

from et_contract.admissions import AdmissionState, Placement
from et_scheduler.model.cluster import Cluster
from et_scheduler.model.decisions import Decision
from et_scheduler.model.jobs import Admission, Job
from et_scheduler.model.queues import Queue
from et_scheduler.model.shapes import HOUR, MINUTE, SECOND
from et_scheduler.simulating.afs import KnownCurves
from et_scheduler.simulating.drf import decide_by_drf
from et_scheduler.simulating.edl import decide_as_edl
from et_scheduler.simulating.gangs import admit, keep_apart
from et_scheduler.simulating.jobs import SimJob, Work
from et_scheduler.simulating.kubebatch import decide_as_kube_batch
from et_scheduler.simulating.las import LeastAttained
from et_scheduler.simulating.policies import POLICIES, best_effort
from et_scheduler.simulating.progress import Curve
from et_scheduler.simulating.simulation import Simulation
from et_scheduler.simulating.traces import compute_slowdowns
from et_scheduler.simulating.workloads import WORKER
from tests.unit.scheduler.makers import MAIN, NOTHING, NOW, cpus, make_job, make_nodes, run_on

ONE = Cluster(make_nodes(1))
"""A node of 8 CPU."""
LINEAR = Curve(base=0.0, each=0.0, power=1.0)
NONE_FASTER = Curve(base=1.0)


def tell(decision: Decision) -> dict[str, int]:
    """What each job is to have; 0 where it is to go."""
    told = {change.uid: change.admission for change in decision.changes}
    admitted = AdmissionState.ADMITTED
    return {uid: one.workers if one.state is admitted else 0 for uid, one in told.items()}


def test_kube_batch_lets_a_gang_that_does_not_fit_block_all_behind_it() -> None:
    """Its session gives it all that is free, and takes nothing back (kube-batch #561)."""
    large = make_job("large", 10, 10, created=NOW - 1)
    small = make_job("small", 1, 1)
    assert tell(decide_as_kube_batch(ONE, MAIN, [large, small], NOW)) == {}
    assert tell(best_effort(ONE, MAIN, [large, small], NOW)) == {"small": 1}
    first = replace(small, created=NOW - 2)
    assert tell(decide_as_kube_batch(ONE, MAIN, [large, first], NOW)) == {"small": 1}


def test_kube_batch_gives_the_least_first_and_then_by_share_what_was_asked_for() -> None:
    jobs = [make_job("a", 1, 20, replicas=20, created=NOW - 1), make_job("b", 2, 3, replicas=3)]
    assert tell(decide_as_kube_batch(ONE, MAIN, jobs, NOW)) == {"a": 5, "b": 3}
    running = run_on(make_job("r", 1, 20, replicas=20), *["node-00"] * 7)
    late = make_job("late", 1, 2, replicas=2)
    assert tell(decide_as_kube_batch(ONE, MAIN, [running, late], NOW)) == {"late": 1}
    assert tell(decide_as_kube_batch(ONE, MAIN, [running], NOW)) == {"r": 8}
    short = run_on(make_job("short", 6, 6), *["node-00"] * 4)
    small = run_on(make_job("small", 1, 8, replicas=8), "node-00")
    told = tell(decide_as_kube_batch(ONE, MAIN, [small, short], NOW))
    assert told == {"small": 2, "short": 6}


def test_by_drf_those_who_start_share_and_keep_it() -> None:
    jobs = [make_job("a", 1, 8), make_job("b", 2, 8), make_job("huge", 9, 9)]
    assert tell(decide_by_drf(ONE, MAIN, jobs, NOW)) == {"a": 4, "b": 4}
    running = run_on(make_job("r", 1, 8), "node-00", "node-00")
    assert tell(decide_by_drf(ONE, MAIN, [running], NOW)) == {}
    late = make_job("late", 1, 4)
    assert tell(decide_by_drf(ONE, MAIN, [running, late], NOW)) == {"late": 4}


def test_by_las_who_has_had_more_goes_for_who_has_had_less() -> None:
    decide = LeastAttained().decide
    old = run_on(make_job("old", 1, 8, replicas=8), *["node-00"] * 8)
    new = make_job("new", 1, 8, replicas=8)
    assert tell(decide(ONE, MAIN, [old], NOW)) == {}
    early = decide(ONE, MAIN, [old, new], NOW + HOUR // 16)  # eight had a sixteenth: half an hour
    assert (tell(early), early.wake_at) == ({}, NOW + HOUR // 8 + 1)
    late = decide(ONE, MAIN, [old, new], NOW + HOUR // 8 + 1)
    assert [change.uid for change in late.changes] == ["old", "new"]
    assert tell(late) == {"old": 0, "new": 8}


def test_by_las_nobody_goes_where_that_is_not_enough() -> None:
    decide = LeastAttained().decide
    old = run_on(make_job("old", 1, 4, replicas=4), *["node-00"] * 4)
    decide(ONE, MAIN, [old], NOW)
    new = make_job("new", 9, 9)
    assert tell(decide(ONE, MAIN, [old, new], NOW + HOUR)) == {}


def test_each_run_has_a_memory_of_its_own() -> None:
    [policy] = (one for one in POLICIES if one.name == "las")
    old = run_on(make_job("old", 1, 8, replicas=8), *["node-00"] * 8)
    new = make_job("new", 1, 8, replicas=8)
    policy.begin(())(ONE, MAIN, [old], NOW)
    assert tell(policy.begin(())(ONE, MAIN, [old, new], NOW + HOUR)) == {}


def test_by_afs_whoever_is_made_faster_has_more() -> None:
    jobs = [make_job("steep", 1, 8), make_job("flat", 1, 8)]
    decide = KnownCurves({"steep": LINEAR, "flat": NONE_FASTER}).decide
    assert tell(decide(ONE, MAIN, jobs, NOW)) == {"steep": 7, "flat": 1}
    alone = decide(ONE, MAIN, [jobs[1]], NOW)
    assert tell(alone) == {"flat": 1}


def test_by_afs_all_have_as_much_at_once_who_are_alike() -> None:
    old = run_on(make_job("old", 1, 8), *["node-00"] * 8)
    new = make_job("new", 2, 8)
    decision = KnownCurves({}).decide(ONE, MAIN, [old, new], NOW)
    assert tell(decision) == {"old": 4, "new": 4}
    [shrunk] = (change.admission for change in decision.changes if change.uid == "old")
    assert shrunk.leaving == ("old-4", "old-5", "old-6", "old-7")


def test_by_afs_what_a_start_was_promised_is_not_given_away() -> None:
    """Its workers have no nodes until those have left who shrink for it."""
    old = run_on(make_job("old", 1, 8), *["node-00"] * 4)
    told = Admission(1, AdmissionState.ADMITTED, workers=4)
    started = replace(make_job("new", 4, 4), is_waiting=False, admission=told)
    assert tell(KnownCurves({}).decide(ONE, MAIN, [old, started], NOW)) == {}


def test_two_who_share_nodes_do_not_start_in_one_pass() -> None:
    """Pods are bound anywhere among them: the first may take both seats of one."""

    def start(name: str, *nodes: str) -> str:
        placement = Placement(only=nodes)
        changes.append(admit(make_job(name), 1, NOW, placement))
        return name

    changes = []
    start("a", "x", "y")
    start("b", "y", "z")
    start("c", "z")
    start("d", "z")
    start("e", "x")
    start("f")
    assert [change.uid for change in keep_apart(changes)] == ["a", "c", "d", "f"]


def run_to_end(works: list[Work], policy: str = "fifo-min", until: int = HOUR) -> Simulation:
    [chosen] = (one for one in POLICIES if one.name == policy)
    nodes, shapes = make_nodes(1), {cpus(1), NOTHING}
    simulation = Simulation(nodes, shapes, [Queue("main")], chosen.begin(works), lambda _: 0)
    for work in works:
        simulation.submit(work)
    simulation.run(until)
    return simulation


def test_what_was_held_and_how_long_it_paused_is_counted() -> None:
    job = make_job("job", 2, 2)
    [ended] = run_to_end([Work(job, 0, 120.0 * SECOND, LINEAR, 5 * SECOND)]).ended
    assert ended.paused == 5 * SECOND
    assert ended.held == pytest.approx(2 * 65 * SECOND, abs=2 * SECOND)


def test_edl_makes_no_pass_where_nothing_happens() -> None:
    simulation = run_to_end([Work(make_job("job", 1, 4), 0)], "edl", 10 * MINUTE)
    [sim] = simulation.jobs.values()
    assert len(sim.list_workers()) == 4
    assert simulation.passes < 20


def end(name: str, at: int, seconds: int, *, steps: int, **job: int) -> SimJob:
    """One that was there for so long."""
    made = Job(name, "ns", name, "main", NOTHING, WORKER, created=at, **job)
    sim = SimJob(Work(made, at, float(steps * SECOND), LINEAR, 0), made)
    sim.ended_at = at + seconds * SECOND
    return sim


def test_a_job_is_compared_with_its_part_of_the_cluster() -> None:
    """Alone it has as much as it may; of two each has half, at its least size half the time."""
    alone = end("alone", 0, 10, steps=40, minimum=1, maximum=4)
    assert compute_slowdowns([alone], 8) == [1.0]
    two = [end(name, 0, 10, steps=40, minimum=1, maximum=8) for name in ("a", "b")]
    assert compute_slowdowns(two, 8) == [1.0, 1.0]
    rigid = [end(name, 0, 10, steps=40, minimum=8, maximum=8) for name in ("a", "b")]
    assert compute_slowdowns(rigid, 8) == [1.0, 1.0]
    after = [end("a", 0, 10, steps=40, minimum=8, maximum=8)]
    after.append(end("b", 10 * SECOND, 10, steps=80, minimum=8, maximum=8))
    assert compute_slowdowns(after, 8) == [2.0, 1.0]


def test_edl_still_rescales_at_its_periods() -> None:
    job = run_on(make_job("job", 1, 4), "node-00")
    between = decide_as_edl(ONE, MAIN, [job], 12 * SECOND)
    assert (tell(between), between.wake_at) == ({}, 15 * SECOND)
    at = decide_as_edl(ONE, MAIN, [job], 15 * SECOND)
    assert (tell(at), at.wake_at) == ({"job": 4}, None)
