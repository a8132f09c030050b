"""Places for pods: who has them all gives, in his share of all else; and limits count them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from et_scheduler.model.cluster import Cluster, Node
from et_scheduler.model.jobs import Job
from et_scheduler.model.queues import Queue
from et_scheduler.model.reasons import Reason
from et_scheduler.model.rules import Rules
from et_scheduler.model.shapes import CPU, MINUTE, PODS, SECOND, Shape, make_shape
from et_scheduler.planning.drafts import Draft
from et_scheduler.planning.ledgers import SCALE
from et_scheduler.planning.passing import decide
from et_scheduler.planning.seating import book
from et_scheduler.simulating.simulation import Simulation
from tests.unit.scheduler.makers import (
    NOTHING,
    NOW,
    cpus,
    decide_on,
    make_job,
    make_node,
    make_simulation,
    run_on,
)

GPU = "nvidia.com/gpu"
ONE, TINY = cpus(1), make_shape({CPU: 1})
TWO = (Queue("a"), Queue("b"))
BELOW = (Queue("a"), Queue("b", priority=10))
queues_of_two = pytest.mark.parametrize("queues", [TWO, BELOW], ids=["alike", "below"])


def make_places(places: int, cpu: int = 8, **more: int) -> tuple[Node, ...]:
    """Two nodes with so many places each."""
    return tuple(make_node(name, cpu, more={PODS: places, **more}) for name in "xy")


def fill(worker: Shape, on_x: int, on_y: int) -> Job:
    """An elastic job of queue a; its launcher is on x too."""
    job = make_job("many", 1, 1000, worker=worker, queue="a")
    return run_on(job, *"x" * on_x, *"y" * on_y)


def count_workers(simulation: Simulation) -> dict[str, tuple[int, int]]:
    """By job how many it has, and how many had to end."""
    jobs = simulation.jobs.items()
    return {uid: (len(one.list_workers()), one.ended_workers) for uid, one in jobs}


def make_gang(worker: Shape = ONE, workers: int = 2) -> Job:
    return make_job("gang", workers, workers, worker=worker, queue="b")


@queues_of_two
@pytest.mark.parametrize("worker", [NOTHING, TINY], ids=["nothing", "tiny"])
def test_whose_tiny_workers_have_all_places_gives_for_a_gang(
    worker: Shape, queues: tuple[Queue, ...]
) -> None:
    told = decide_on(make_places(10), [fill(worker, 9, 10), make_gang()], queues)
    assert (told["gang"].reason, told["many"].workers) == (Reason.ROOM_COMES, 16)


def test_on_nodes_of_few_places_a_gang_for_gpus_starts_beside_workers_of_one_cpu() -> None:
    """They have 57 CPUs of 192, and all places."""
    nodes = make_places(29, 96, **{GPU: 8})
    gang = make_gang(make_shape({CPU: 8000, GPU: 8}))
    told = decide_on(nodes, [fill(cpus(1), 28, 29), gang], BELOW)
    assert (told["gang"].reason, told["many"].workers) == (Reason.ROOM_COMES, 54)


@pytest.mark.parametrize("resource", [PODS, CPU])
def test_what_pods_of_others_have_is_nobodys_due(resource: str) -> None:
    """Four of ten on each node, and queue a has all others: all of it was less than its due."""
    cpu = 1000 if resource == CPU else 1
    nodes = make_places(10, 10) if resource == PODS else make_places(110, 10)
    taken = {PODS: 4, CPU: 4 * cpu}
    nodes = tuple(replace(node, taken=taken) for node in nodes)
    many = fill(make_shape({CPU: cpu}), 5, 6)
    queues = (Queue("a", limits={PODS: 99}), BELOW[1])
    gang = make_gang(make_shape({CPU: cpu}))
    decision = decide(Cluster(nodes), queues, [many, gang], NOW)
    [a, _] = decision.queues
    assert a.deserved[resource] == (9 if resource == PODS else 10_000)
    assert decision.explanations["gang"].reason is Reason.ROOM_COMES


def make_rigid() -> list[Job]:
    """Ten jobs of two pods each have all places."""
    rigid = make_job("", 1, 1, worker=TINY, queue="a")
    return [run_on(replace(rigid, name=f"r{i}", uid=f"r{i}"), "xy"[i % 2]) for i in range(10)]


@pytest.mark.parametrize(("workers", "gone"), [(2, 2), (11, 6)])
def test_whole_jobs_go_until_their_queue_has_no_more_places_than_it_is_due(
    workers: int, gone: int
) -> None:
    """Of the last one only a part is above: its queue has a place less than it is due then."""
    told = decide_on(make_places(10), [*make_rigid(), make_gang(workers=workers)], BELOW)
    assert told["gang"].reason is Reason.ROOM_COMES
    assert sum(one.reason is Reason.EVICTED for one in told.values()) == gone


def test_no_whole_job_goes_whose_queue_has_the_places_that_it_is_due() -> None:
    """Queue b may begin with one gang, beyond its half; nobody below his gives for that."""
    told = decide_on(make_places(10), [*make_rigid(), make_gang(workers=12)], TWO)
    assert {uid for uid, one in told.items() if one.reason is Reason.EVICTED} == set()


@pytest.mark.parametrize("is_reclaimable", [False, True])
def test_who_has_too_many_places_alone_gives_no_cpu(is_reclaimable: bool) -> None:
    """Queue a has 3.5 of its seven CPUs, and twice its places; who has the rest gives none.

    Or cannot: one job is all that his queue has, and without it that has less than it is due.
    """
    many = fill(make_shape({CPU: 100}), 17, 18)
    large = run_on(make_job("large", 2, 2, cpu=6, queue="c"), "x", "y")
    later = make_job("later", 100, 100, worker=TINY, queue="b", priority=-1)
    queues = (*TWO, Queue("c", is_reclaimable=is_reclaimable))
    told = decide_on(make_places(20), [many, large, later, make_gang()], queues)
    assert "many" not in told
    assert told["gang"].reason is Reason.NO_ROOM


def test_whose_queue_is_not_due_as_many_places_asks_for_none() -> None:
    """Each queue is due seven. One has 13, the gang's own has seven."""
    own = run_on(make_job("own", 6, 6, worker=TINY, queue="b"), *"x" * 6)
    many = run_on(make_job("many", 1, 1000, worker=TINY, queue="a"), *"x" * 2, *"y" * 10)
    later = make_job("later", 100, 100, worker=TINY, queue="c")
    nodes, queues = make_places(10), (*TWO, Queue("c"))
    assert "many" not in decide_on(nodes, [own, many, later, make_gang()], queues)
    first = replace(make_gang(), queue="c")
    assert decide_on(nodes, [own, many, later, first], queues)["many"].workers == 9


@pytest.mark.long
@pytest.mark.parametrize("least", [12, 1])
def test_nobody_goes_for_places_of_which_the_queue_that_asks_is_due_fewer(least: int) -> None:
    """A queue that has nothing may begin with more than ten; the other one would ask back."""
    jobs = [
        make_job(name, size, 12, worker=TINY, queue=name, created=i * MINUTE)
        for i, (name, size) in enumerate([("a", least), ("b", 12)])
    ]
    simulation = make_simulation(make_places(10), jobs, TWO)
    simulation.run(180 * MINUTE)
    assert count_workers(simulation) == {"a": (12, 0), "b": (0, 0)}


def test_a_queue_that_is_not_reclaimable_keeps_its_places() -> None:
    queues = (Queue("a", is_reclaimable=False), Queue("b", priority=10))
    told = decide_on(make_places(10), [fill(TINY, 9, 10), make_gang()], queues)
    assert "many" not in told


def test_no_order_and_no_share_of_anything_else_is_by_places() -> None:
    jobs = [fill(TINY, 8, 9), make_job("late", 1, 1, worker=TINY, queue="b")]
    draft = Draft(Cluster(make_places(20)), TWO, jobs, NOW, Rules())
    book(draft)
    assert draft.pools.name(draft.ledger.deserved["a"]) == {CPU: 1000}
    assert draft.standings["many"].dominate(16) == 16 * (SCALE // 16_000)
    assert draft.ledger.get_ratio("a") == SCALE * 17 // 1000


def test_a_limit_of_pods_is_one_of_launchers_and_workers() -> None:
    queues = (Queue("a", limits={PODS: 5}),)
    told = decide_on(make_places(10), [fill(TINY, 1, 0)], queues)
    assert told["many"].workers == 4
    [status] = decide(Cluster(make_places(10)), queues, [fill(TINY, 1, 1)], NOW).queues
    assert (status.allocated, status.deserved) == ({CPU: 4, PODS: 5}, {CPU: 1000, PODS: 5})


def test_what_is_above_a_limit_of_pods_is_given_back_and_who_needs_more_waits() -> None:
    queues = (Queue("a", limits={PODS: 5}),)
    told = decide_on(make_places(10), [fill(TINY, 5, 3)], queues)
    assert (told["many"].workers, told["many"].reason) == (4, Reason.GAVE_WAY)
    large = make_job("large", 5, 5, worker=TINY, queue="a")
    assert decide_on(make_places(10), [large], queues)["large"].reason is Reason.AT_LIMIT


@pytest.mark.long
@queues_of_two
def test_places_go_to_whom_they_are_due_once_and_not_up_and_down(
    queues: tuple[Queue, ...],
) -> None:
    """Of both queues one takes whatever places there are, and gangs of both come."""
    jobs = [
        make_job(f"many-{name}", 1, 1000, worker=TINY, queue=name, created=index * SECOND)
        for index, name in enumerate("ab")
    ]
    jobs += [
        make_job(f"{name}-{i}", 2, 2, worker=TINY, queue=name, created=(3 * i + 5) * MINUTE)
        for i in range(4)
        for name in "ab"
    ]
    simulation = make_simulation(make_places(20), jobs, queues)
    simulation.run(60 * MINUTE)
    before = count_workers(simulation)
    assert all(workers for workers, _ in before.values()), "each has started"
    simulation.run(120 * MINUTE)
    assert count_workers(simulation) == before
