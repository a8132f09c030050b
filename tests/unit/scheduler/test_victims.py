"""Which whole jobs go: those from whose nodes the gang has something, and as few as it needs."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from random import Random
from typing import Any

import pytest

from et_contract.admissions import AdmissionState
from et_scheduler.model.cluster import Cluster, Node
from et_scheduler.model.jobs import Job
from et_scheduler.model.queues import Queue
from et_scheduler.model.reasons import Reason
from et_scheduler.model.rules import Rules
from et_scheduler.model.shapes import CPU, Operator, Requirement, make_shape
from et_scheduler.planning.donors import Donors
from et_scheduler.planning.drafts import Draft
from et_scheduler.planning.fitting import Gang
from et_scheduler.planning.giving import Search
from et_scheduler.planning.seating import book, get_gang, seat_bound
from et_scheduler.planning.unseated import Others
from et_scheduler.planning.victims import Trial
from tests.unit.scheduler.makers import (
    LONG_AGO,
    MAIN,
    NOW,
    cpus,
    decide_on,
    make_job,
    make_node,
    make_nodes,
    run_on,
)

TWO_QUEUES = (Queue("main"), Queue("other"))
GPU = "nvidia.com/gpu"


def list_gone(nodes: tuple[Node, ...], jobs: list[Job], queues: tuple[Queue, ...]) -> list[str]:
    told = decide_on(nodes, jobs, queues)
    return sorted(uid for uid, one in told.items() if one.reason is Reason.EVICTED)


def fill(index: int, queue: str, **changes: Any) -> Job:
    """A whole job that has a node of its own; the higher its number, the younger it is."""
    job = make_job(f"v{index}", 8, 8, queue=queue, **changes)
    return run_on(job, *[f"node-0{index}"] * 8, since=LONG_AGO + index)


# ---------------------------------------------------------------- of use
@pytest.mark.parametrize("own", [5, 6, 7])
def test_who_is_where_the_gang_cannot_be_uses_up_nothing_of_what_a_queue_may_lose(
    own: int,
) -> None:
    """The other queue may lose one or more of its eight nodes; the younger jobs are elsewhere."""
    nodes = tuple(replace(one, labels={"zone": one.name}) for one in make_nodes(8))
    here = ((Requirement("zone", Operator.IN, ("node-00",)),),)
    jobs = [fill(i, "other" if i < own else "main") for i in range(8)]
    worker = make_shape({CPU: 1000}, terms=here)
    waits = make_job("w", 8, 8, worker=worker, launcher=make_shape({}, terms=here))
    assert list_gone(nodes, [*jobs, waits], TWO_QUEUES) == ["v0"]


def test_who_is_where_nothing_is_of_what_the_gang_needs_goes_for_nobody() -> None:
    nodes = tuple(make_node(f"node-0{i}", more={GPU: 8} if i < 2 else {}) for i in range(8))
    with_gpu = make_shape({CPU: 1000, GPU: 1})
    jobs = [fill(i, "other", worker=with_gpu) for i in range(2)]
    jobs += [fill(i, "other" if i < 6 else "main") for i in range(2, 8)]
    waits = make_job("w", 8, 8, worker=with_gpu)
    assert list_gone(nodes, [*jobs, waits], TWO_QUEUES) == ["v1"]


def test_halves_of_two_nodes_do_not_use_up_what_one_whole_node_needs() -> None:
    """The other queue may lose two jobs of four; the youngest two are on different nodes."""
    queues = (Queue("main", weight=2), Queue("other"))
    places = ["node-00", "node-01", "node-00", "node-01"]
    halves = [
        run_on(make_job(f"h{i}", 4, 4, queue="other"), *[node] * 4, since=LONG_AGO + i)
        for i, node in enumerate(places)
    ]
    jobs = [*halves, fill(2, "main"), make_job("w", 1, 1, 8)]
    assert list_gone(make_nodes(3), jobs, queues) == ["h1", "h3"]


def test_a_launcher_without_a_seat_is_made_room_for_where_no_worker_may_be() -> None:
    nodes = (make_node("node-00", more={GPU: 8}), make_node("node-01"))
    with_gpu = make_shape({CPU: 1000, GPU: 1})
    jobs = [fill(0, "main", worker=with_gpu, priority=-1), fill(1, "main", priority=-1)]
    waits = make_job("w", 8, 8, worker=with_gpu, launcher=cpus(2))
    assert list_gone(nodes, [*jobs, waits], MAIN) == ["v0", "v1"]
    alone = replace(waits, launcher=cpus(0))
    assert list_gone(nodes, [*jobs, alone], MAIN) == ["v0"]


# ---------------------------------------------------------------- as few as are needed
def draw(seed: int) -> tuple[tuple[Node, ...], list[Job], Job]:
    """Whole jobs, some of several nodes, and a gang of higher priority."""
    random = Random(seed)  # noqa: S311 (no secret)
    left = {f"node-{i:02}": random.choice([4, 8]) for i in range(random.randint(1, 5))}
    nodes = tuple(make_node(name, cpu) for name, cpu in left.items())
    jobs = []
    for index in range(random.randint(1, 6)):
        cpu, count, places = random.choice([1, 2, 3]), random.randint(1, 4), list[str]()
        for name in random.sample(sorted(left), len(left)):
            fits = min(left[name] // cpu, count - len(places))
            left[name] -= fits * cpu
            places += [name] * fits
        if places:
            size = len(places)
            job = make_job(f"v{index}", size, size, cpu, priority=random.choice([-2, -1]))
            jobs.append(run_on(job, *places, since=LONG_AGO + index))
    cpu, own = random.choice([1, 2, 4]), random.choice([0, 0, 1])
    waits = make_job("w", random.randint(1, 4), 4, cpu, launcher=cpus(own))
    return nodes, jobs, replace(waits, maximum=waits.minimum)


def fits_without(drawn: tuple[tuple[Node, ...], list[Job], Job], gone: set[str]) -> bool:
    nodes, jobs, waits = drawn
    stay = [job for job in jobs if job.uid not in gone]
    told = decide_on(nodes, [*stay, replace(waits, preempts=False)])
    return told["w"].state is AdmissionState.ADMITTED


@pytest.mark.long
def test_whoever_goes_is_needed_and_somebody_goes_where_that_helps() -> None:
    for seed in range(300):
        drawn = draw(seed)
        nodes, jobs, waits = drawn
        gone = list_gone(nodes, [*jobs, waits], MAIN)
        names = {job.uid for job in jobs}
        if fits_without(drawn, set()) or not fits_without(drawn, names):
            assert gone == [], seed
            continue
        assert fits_without(drawn, set(gone)), seed
        for fewer in combinations(gone, len(gone) - 1):
            assert not fits_without(drawn, set(fewer)), seed


# ---------------------------------------------------------------- what it costs
class Counted(Search):
    """Counts how often it is asked."""

    made = 0

    def would_find(self, gang: Gang) -> bool:
        type(self).made += 1
        return super().would_find(gang)


def count_searches(workers: int) -> tuple[int, int]:
    """For a gang of so many nodes: how many of two hundred jobs go, and after how many searches."""
    nodes = tuple(make_node(f"node-{i:03}") for i in range(200))
    jobs = [
        run_on(make_job(f"v{i:03}", 1, 1, 8, priority=-1), f"node-{i:03}", since=LONG_AGO + i)
        for i in range(200)
    ]
    draft = Draft(Cluster(nodes), MAIN, [*jobs, make_job("w", workers, workers, 8)], NOW, Rules())
    seat_bound(draft)
    book(draft)
    waiter, donors = draft.standings["w"], Donors(draft)
    search = Counted(draft, lambda *_: None)
    trial = Trial(search, waiter, get_gang(waiter), donors, [])
    Counted.made = 0
    assert trial.find(draft.list_admitted(), [("main", -1)], Others([], [])) is not None
    return len(trial.end()), Counted.made


@pytest.mark.parametrize(("workers", "most"), [(1, 2), (3, 8), (100, 220)])
def test_who_goes_of_hundreds_is_found_in_few_searches(workers: int, most: int) -> None:
    """For a single one in two: with all, and with the first. Each of many is tried for itself."""
    gone, made = count_searches(workers)
    assert gone == workers
    assert made <= most
