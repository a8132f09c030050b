"""What nodes of different pools have are different resources for queues."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from et_scheduler.model.cluster import Cluster, Node
from et_scheduler.model.jobs import Job
from et_scheduler.model.queues import Queue
from et_scheduler.model.rules import Rules
from et_scheduler.model.shapes import CPU, PODS, Operator, Requirement, Shape
from et_scheduler.planning.drafts import Draft
from et_scheduler.planning.passing import decide
from et_scheduler.planning.pools import MOST_POOLS, Pools
from et_scheduler.planning.rooms import Room
from tests.unit.scheduler.makers import NOW, cpus, decide_on, make_job, make_node, run_on

LABEL = "gpu"
QUEUES = (Queue("one"), Queue("two"))


def make_pool(pool: str, *cpu: int) -> tuple[Node, ...]:
    """Nodes of so many CPUs each."""
    return tuple(
        make_node(f"{pool}-{index}", amount, labels={LABEL: pool}, pool=pool)
        for index, amount in enumerate(cpu)
    )


def bind(shape: Shape, pool: str) -> Shape:
    """The same on nodes of this pool alone."""
    return replace(shape, terms=((Requirement(LABEL, Operator.IN, (pool,)),),))


def make_member(name: str, queue: str, pool: str, least: int, most: int) -> Job:
    job = make_job(name, least, most, queue=queue)
    return replace(job, worker=bind(job.worker, pool))


@pytest.mark.parametrize("is_pooled", [True, False])
def test_who_has_his_share_elsewhere_has_it_here_too(*, is_pooled: bool) -> None:
    """Queue one has all of a, which is three quarters of everything, and half of b is its due."""
    nodes = (*make_pool("a", 6), *make_pool("b", 2))
    if not is_pooled:
        nodes = tuple(replace(node, pool="") for node in nodes)
    jobs = [
        run_on(make_member("large", "one", "a", 6, 6), *["a-0"] * 6),
        run_on(make_member("other", "two", "b", 1, 2), *["b-0"] * 2),
        make_member("late", "one", "b", 1, 1),
    ]
    told = decide_on(nodes, jobs, QUEUES)
    assert ("other" in told and told["other"].workers == 1) is is_pooled


def test_who_is_above_his_share_in_one_pool_gives_nothing_for_a_job_of_another() -> None:
    nodes = (*make_pool("a", 4), *make_pool("b", 4))
    jobs = [
        run_on(make_member("borrows", "two", "a", 1, 4), *["a-0"] * 4),
        run_on(make_member("all", "two", "b", 4, 4), *["b-0"] * 4),
        make_member("late", "one", "b", 2, 2),
    ]
    assert "borrows" not in decide_on(nodes, jobs, QUEUES)


def test_a_limit_is_of_all_pools_together() -> None:
    nodes = (*make_pool("a", 4), *make_pool("b", 4))
    queues = (Queue("one", limits={CPU: 3000}),)
    jobs = [
        run_on(make_member("first", "one", "a", 2, 2), *["a-0"] * 2),
        make_member("late", "one", "b", 2, 2),
    ]
    decision = decide(Cluster(nodes), queues, jobs, NOW)
    assert decision.explanations["late"].reason == "AtLimit"
    [status] = decision.queues
    assert (status.allocated, status.deserved) == ({CPU: 2000}, {CPU: 3000})


def test_within_its_limit_a_queue_is_due_what_it_has_first() -> None:
    """It would else be due as much in each pool, and others would give for what it may not have."""
    nodes = (*make_pool("a", 4), *make_pool("b", 4))
    queues = (Queue("one", limits={CPU: 4000}), Queue("two"))
    jobs = [
        run_on(make_member("first", "one", "b", 4, 4), *["b-0"] * 4),
        run_on(make_member("mine", "two", "a", 1, 4), *["a-0"] * 4),
        make_member("late", "one", "a", 4, 4),
    ]
    one, two = decide(Cluster(nodes), queues, jobs, NOW).queues
    assert (one.deserved, two.deserved) == ({CPU: 4000}, {CPU: 4000})


def test_a_pod_counts_by_its_node_and_without_one_where_most_of_it_could_be() -> None:
    nodes = (*make_pool("a", 2), *make_pool("b", 4))
    shape = bind(cpus(1), "a")
    pools = Pools(Room(nodes, [shape, cpus(1), cpus(9)]))
    for one, home in ((shape, 0), (cpus(1), 1), (cpus(9), 0)):
        assert pools.find_piece(one) == pools.get_piece(one, home)
        assert pools.find_piece(one, "a-0") == pools.get_piece(one, 0)
        assert pools.find_piece(one, "gone") == pools.find_piece(one)
    assert pools.get_piece(shape, 0) != pools.get_piece(shape, 1)
    both = pools.get_vector(cpus(1)) + pools.get_vector(shape) * 2
    assert both.tolist() == [2, 2000, 1, 1000]
    assert pools.total.tolist() == [110, 2000, 110, 4000]
    assert pools.sum_up(both).tolist() == [3, 3000]
    assert pools.name(both) == {CPU: 3000}
    assert pools.name(both, with_places=True) == {CPU: 3000, PODS: 3}
    assert pools.is_shared.tolist() == [False, True, False, True]


def test_a_label_of_too_many_values_makes_no_more_pools() -> None:
    nodes = tuple(node for index in range(MOST_POOLS + 9) for node in make_pool(f"p{index:03}", 1))
    pools = Pools(Room(nodes, [cpus(1)]))
    assert len(pools.names) == MOST_POOLS
    assert pools.by_node[nodes[-1].name] == MOST_POOLS - 1
    assert pools.total[-1] == 10_000
    assert pools.sum_up(np.full_like(pools.total, 2**62)).min() > 0


def test_of_many_kinds_the_pool_is_found_by_size_and_of_the_first_by_what_they_demand() -> None:
    """Each is looked for on all nodes otherwise, however few are tried in a pass."""
    nodes = (*make_pool("a", 80), *make_pool("b", 8))
    jobs = [
        make_job(f"j{i}", 1, 1, worker=bind(cpus(1 + i), "b"), queue="one", created=NOW - i)
        for i in range(3)
    ]
    runs = run_on(make_job("r", 1, 1, worker=bind(cpus(4), "b")), "b-0")

    def find_pools(kinds: int) -> list[int]:
        draft = Draft(Cluster(nodes), QUEUES, [*jobs, runs], NOW, Rules(kinds=kinds))
        width = len(draft.room.resources)
        vectors = [draft.pools.get_vector(job.worker) for job in (*jobs, runs)]
        return [int(np.flatnonzero(vector)[0]) // width for vector in vectors]

    assert find_pools(kinds=2) == [0, 0, 1, 1]
    assert find_pools(kinds=9) == [1, 1, 1, 1]
