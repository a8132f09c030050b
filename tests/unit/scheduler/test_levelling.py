"""What is given for the level of all is had by those for whom it was given, or nobody gives."""

from __future__ import annotations

from dataclasses import replace
from itertools import cycle
from typing import Any

import pytest

from et_scheduler.model.cluster import Cluster, Headroom
from et_scheduler.model.jobs import Admission, Gift, Job, Purpose
from et_scheduler.model.queues import Queue
from et_scheduler.model.shapes import (
    CPU,
    HOUR,
    MINUTE,
    SECOND,
    Operator,
    Requirement,
    Shape,
    make_shape,
)
from et_scheduler.planning.passing import decide
from et_scheduler.simulating.jobs import Work
from et_scheduler.simulating.simulation import Simulation
from tests.counting import count_steps
from tests.unit.scheduler.makers import NOW, cpus, make_job, make_node, make_simulation, run_on


def only_in(pool: str, cpu: int = 1) -> Shape:
    """A pod that must be on the node of this pool."""
    return replace(cpus(cpu), terms=((Requirement("pool", Operator.IN, (pool,)),),))


def simulate(cpu: int, jobs: list[Job], *queues: Queue) -> Simulation:
    """Two pools, a node each; who leaves takes most of a minute."""
    nodes = tuple(make_node(f"node-{pool}", cpu, labels={"pool": pool}) for pool in "xy")
    simulation = make_simulation(nodes, jobs, queues)
    simulation.drain = lambda random: random.randint(35 * SECOND, 60 * SECOND)
    return simulation


def measure(simulation: Simulation) -> dict[str, tuple[int, int]]:
    """By job how many workers it has, and how many had to end."""
    simulation.run(2 * HOUR)
    jobs = simulation.jobs.items()
    return {uid: (len(sim.list_workers()), sim.ended_workers) for uid, sim in jobs}


def make_three(first: int, other: int, *others: Job) -> list[Job]:
    """One job fills its pool; the last has its queue, and a pool where the second was before."""
    return [
        make_job("a", 1, first, worker=only_in("x"), created=0),
        make_job("b", 1, 40, worker=only_in("y"), created=5 * MINUTE),
        make_job("c", 1, other, worker=only_in("y"), queue="other", created=0),
        *others,
    ]


def test_a_queue_that_has_less_of_what_it_is_due_does_not_take_it_again() -> None:
    """What the first has where nobody else can be would count against the last for good."""
    found = measure(simulate(40, make_three(36, 36), Queue("main"), Queue("other")))
    assert found == {"a": (36, 0), "b": (15, 0), "c": (25, 11)}


def test_nor_does_another_of_its_jobs() -> None:
    late = make_job("d", 1, 36, worker=only_in("y"), queue="other", created=6 * MINUTE)
    found = measure(simulate(40, make_three(36, 36, late), Queue("main"), Queue("other")))
    assert min(found["b"][0], found["c"][0], found["d"][0]) >= 9
    assert sum(ended for _, ended in found.values()) <= 40


def make_two(first: int = 1, **second: Any) -> list[Job]:
    """Of a queue at its limit of 30 CPUs one job has all that the other does not need at least."""
    return [
        make_job("a", 1, 40, first, created=0),
        make_job("b", **({"least": 1, "most": 40, "created": 5 * MINUTE} | second)),
    ]


LIMITED = Queue("main", limits={CPU: 30000})


def test_jobs_of_a_queue_at_its_limit_are_level_although_there_is_room() -> None:
    assert measure(simulate(40, make_two(), LIMITED)) == {"a": (15, 15), "b": (15, 0)}


def test_who_has_larger_workers_gives_as_many_as_the_limit_needs() -> None:
    """A worker of two CPUs for each two of one."""
    assert measure(simulate(40, make_two(2), LIMITED)) == {"a": (8, 7), "b": (14, 0)}


def test_who_has_nothing_of_what_is_limited_does_not_give_for_it() -> None:
    """The last one has all of its pool, and none of the resource of which its queue has no more."""
    nodes = tuple(
        make_node(f"node-{pool}", 40, labels={"pool": pool}, more={"gpu": 40}) for pool in "xy"
    )
    gpu = make_shape({CPU: 1000, "gpu": 1})
    jobs = [
        make_job("a", 1, 40, worker=gpu, created=0),
        make_job("b", 1, 40, worker=gpu, created=5 * MINUTE),
        make_job("c", 1, 39, worker=only_in("y"), created=0),
        make_job("d", 1, 40, worker=only_in("y"), created=5 * MINUTE, preempts=False),
    ]
    simulation = make_simulation(nodes, jobs, (Queue("main", limits={"gpu": 30}),))
    found = measure(simulation)
    assert (found["a"], found["b"]) == ((15, 15), (15, 0))
    assert found["c"] == (39, 0)


def test_one_with_sizes_has_its_next_one_within_the_limit() -> None:
    found = measure(simulate(40, make_two(sizes=(1, 4, 12, 16)), LIMITED))
    assert found == {"a": (18, 12), "b": (12, 0)}


def test_who_gives_for_the_limit_has_one_of_its_sizes() -> None:
    first, second = make_two(most=12)
    found = measure(simulate(40, [replace(first, sizes=(5, 10, 15, 20, 25)), second], LIMITED))
    assert found == {"a": (15, 10), "b": (12, 0)}


def test_no_other_queue_gives_for_the_limit() -> None:
    """The third one is far above its level, and the last takes nothing from anybody."""
    jobs = [
        make_job("a", 1, 40, worker=only_in("x"), created=0),
        make_job("b", 1, 40, worker=only_in("x"), created=5 * MINUTE),
        make_job("c", 1, 39, worker=only_in("y"), queue="other", created=0),
        make_job("d", 1, 40, worker=only_in("y"), queue="other", created=5 * MINUTE),
    ]
    jobs[-1] = replace(jobs[-1], preempts=False)
    found = measure(simulate(40, jobs, LIMITED, Queue("other")))
    assert found == {"a": (15, 15), "b": (15, 0), "c": (39, 0), "d": (1, 0)}


def test_where_room_and_limit_lack_both_are_given() -> None:
    """The first can give nothing of the pool where the second is."""
    queues = (Queue("main", limits={CPU: 40000}), Queue("other"))
    found = measure(simulate(40, make_three(30, 30), *queues))
    assert found == {"a": (24, 6), "b": (16, 0), "c": (24, 6)}


def test_or_nobody_gives() -> None:
    """Nobody may ask for the room; then nobody can give for the limit."""
    queues = (Queue("main", limits={CPU: 40000}), Queue("other", is_reclaimable=False))
    found = measure(simulate(40, make_three(30, 30), *queues))
    assert found == {"a": (30, 0), "b": (10, 0), "c": (30, 0)}
    first, *others = make_three(30, 30)
    queues = (Queue("main", limits={CPU: 40000}), Queue("other"))
    found = measure(simulate(40, [replace(first, minimum=30), *others], *queues))
    assert found == {"a": (30, 0), "b": (10, 0), "c": (30, 0)}


def test_at_a_limit_it_comes_to_rest() -> None:
    """Sizes, large workers and pools: whoever is level once stays so for hours."""
    jobs = [
        make_job("a", 1, 40, 2, created=0),
        make_job("b", 2, 40, worker=only_in("y"), sizes=(2, 4, 8, 16), created=4 * MINUTE),
        make_job("c", 1, 40, worker=only_in("x"), created=5 * MINUTE),
        make_job("d", 1, 40, 3, created=6 * MINUTE),
        make_job("e", 1, 40, worker=only_in("y"), queue="other", created=7 * MINUTE),
    ]
    simulation = simulate(40, jobs, Queue("main", limits={CPU: 36000}), Queue("other"))
    simulation.run(HOUR)
    before = {uid: (sim.names, sim.ended_workers) for uid, sim in simulation.jobs.items()}
    simulation.run(6 * HOUR)
    after = {uid: (sim.names, sim.ended_workers) for uid, sim in simulation.jobs.items()}
    assert before == after
    sizes = {uid: len(sim.list_workers()) for uid, sim in simulation.jobs.items()}
    assert sizes == {"a": 7, "b": 8, "c": 8, "d": 2, "e": 32}


def test_they_give_where_it_can_be_and_not_on_nodes_that_are_held() -> None:
    """One whose least is on such a node has nothing more there; the last waits for a job to end."""
    jobs = [
        make_job("rigid", 3, 3, worker=only_in("x"), created=0),
        make_job("donor", 2, 40, created=SECOND),
        make_job("receiver", 13, 20, created=2 * SECOND),
        make_job("waiter", 1, 1, worker=only_in("x", 18), created=2 * MINUTE),
    ]
    simulation = simulate(20, jobs, Queue("main"))
    ends = make_job("ends", 4, 4, worker=only_in("x"), created=0)
    simulation.submit(Work(ends, 0, steps=4 * 10 * MINUTE))
    found = measure(simulation)
    assert simulation.jobs["waiter"].job.admission.reserved == ("node-x",)  # type: ignore[union-attr]
    assert found["receiver"] == (18, 0)
    assert found["donor"][1] <= 13 + 5


def test_jobs_of_a_queue_that_is_at_its_limit_are_level_among_themselves() -> None:
    """What one of them gives is within the limit for the others, one after the other."""
    jobs = [
        make_job("a", 1, 40, worker=only_in("x"), created=0),
        make_job("b", 1, 40, worker=only_in("x"), created=5 * MINUTE),
        make_job("c", 1, 40, worker=only_in("x"), created=5 * MINUTE),
    ]
    found = measure(simulate(30, jobs, Queue("main", limits={CPU: 30000})))
    assert found == {"a": (10, 20), "b": (10, 0), "c": (10, 0)}


def grow(job: Job, asked: int) -> Admission | None:
    """What it is told while another one has taken so long to give seven of fifteen workers."""
    donor = run_on(make_job("a", 1, 40, worker=only_in("x")), *["node-x"] * 15)
    names = tuple(f"a-{number}" for number in range(8, 15))
    told = replace(donor.admission, workers=8, leaving=names, leaving_since=NOW - asked)  # type: ignore[type-var]
    donor = replace(donor, admission=replace(told, gave_for=Gift(Purpose.LEVEL)))
    below = run_on(make_job("b", 1, 40, worker=only_in("x"), queue="other"), "node-x")
    cluster = Cluster(tuple(make_node(f"node-{pool}", 16, labels={"pool": pool}) for pool in "xy"))
    found = decide(cluster, (Queue("main"), Queue("other")), [donor, below, job], NOW)
    return {one.uid: one.admission for one in found.changes}.get(job.uid)


def test_who_takes_minutes_to_leave_keeps_nobody_from_room_beside_him() -> None:
    job = run_on(make_job("c", 1, 8, worker=only_in("y")), "node-y")
    assert grow(job, MINUTE) is None
    told = grow(job, 2 * MINUTE)
    assert told is not None
    assert (told.workers, told.resized_at) == (8, NOW), "and then it rests"


def test_who_is_overdue_for_the_level_keeps_no_cool_down_from_counting() -> None:
    """He is waited for by nobody, and has not gone: others rest as after any growth."""
    job = make_job("c", 1, 8, worker=only_in("y"), cooldown=15 * MINUTE)
    assert grow(run_on(job, "node-y", resized_at=NOW - 20 * SECOND), 13 * MINUTE) is None
    assert grow(run_on(job, "node-y", resized_at=NOW - 16 * MINUTE), 13 * MINUTE) is not None


@pytest.mark.long
def test_who_may_grow_is_found_by_one_look_at_all() -> None:
    def count(jobs: int) -> int:
        nodes = tuple(make_node(f"n{index}", 1) for index in range(jobs))
        full = [
            run_on(make_job(f"j{i}", 1, 4), f"n{i}", resized_at=NOW - HOUR) for i in range(jobs)
        ]
        return count_steps(lambda: decide(Cluster(nodes), (Queue("main"),), full, NOW))

    assert count(400) < 2.5 * count(200)


def test_above_the_level_nobody_grows_before_it_is_there() -> None:
    """What others have left already is for those below it."""
    nodes = (make_node("node-x", 16), make_node("node-y", 8))
    names = tuple(f"a-{number}" for number in range(4, 12))
    donor = run_on(make_job("a", 1, 40), *["node-x"] * 12)
    told = replace(donor.admission, workers=4, leaving=names, leaving_since=NOW - 3 * MINUTE)  # type: ignore[type-var]
    donor = replace(donor, admission=replace(told, gave_for=Gift(Purpose.LEVEL)))
    above = run_on(make_job("b", 1, 40), *["node-y"] * 6)
    below = run_on(
        make_job("c", 1, 40, queue="other", cooldown=HOUR), "node-y", resized_at=NOW - MINUTE
    )
    found = decide(Cluster(nodes), (Queue("main"), Queue("other")), [donor, above, below], NOW)
    assert {one.uid: one.admission.workers for one in found.changes} == {}


def test_however_long_they_take_to_leave_it_comes_to_rest() -> None:
    """Those below the level have what is left for it, in whatever order it comes."""
    late = make_job("d", 1, 36, worker=only_in("y"), queue="other", created=6 * MINUTE)
    simulation = simulate(40, make_three(36, 36, late), Queue("main"), Queue("other"))
    simulation.drain = lambda random: random.randint(2 * MINUTE, 11 * MINUTE)
    found = measure(simulation)
    assert min(found["b"][0], found["c"][0], found["d"][0]) >= 9
    assert sum(ended for _, ended in found.values()) <= 40


def test_who_rests_after_a_part_of_what_is_given_has_the_rest_too() -> None:
    """Of two who give one has gone after a minute, the other after nine: each gives once."""
    jobs = [
        replace(make_job(name, 1, 40, created=minute * MINUTE), cooldown=15 * MINUTE)
        for name, minute in (("a", 0), ("b", 0), ("c", 30))
    ]
    simulation = make_simulation((make_node("node", 41),), jobs, (Queue("main"),))
    simulation.run(29 * MINUTE)
    drains = cycle([MINUTE, 9 * MINUTE])
    simulation.drain = lambda _: next(drains)
    assert measure(simulation) == {"a": (14, 6), "b": (14, 26), "c": (13, 0)}


@pytest.mark.long
def test_two_who_are_above_their_level_in_turn_do_not_give_to_each_other_for_good() -> None:
    """Where room for services is kept, and with it the level, depends on which of them has more."""
    tiny = replace(make_shape({CPU: 10}), host_ports=frozenset({"TCP/80"}))
    jobs = [
        make_job("a", 2, 2, 2, launcher=cpus(1), created=270 * SECOND),
        make_job("b", 1, 9, launcher=cpus(1), queue="other", created=240 * SECOND),
        make_job("c", 4, 8, 4, sizes=(4, 8), priority=1, created=180 * SECOND),
        make_job("d", 3, 7, 3, launcher=cpus(1), priority=1, created=480 * SECOND),
        make_job("e", 3, 9, worker=tiny, launcher=cpus(1), queue="other", created=600 * SECOND),
    ]
    nodes = (make_node("x", 16, pool="x"), make_node("y", 16), make_node("z", 16))
    simulation = make_simulation(nodes, jobs, (Queue("main", weight=3), Queue("other")))
    simulation.headroom = Headroom(cpus(3), 1)
    simulation.run(24 * HOUR)
    assert sum(one.ended_workers for one in simulation.jobs.values()) < 50


def test_who_was_given_something_for_the_level_gives_at_once_for_who_comes_later() -> None:
    """For who was there already after an hour, after two of them where that goes on."""
    since = NOW - HOUR + SECOND
    giver = run_on(make_job("a", 1, 40), *["node"] * 15, levelled_at=since, levelled_since=since)
    cluster = Cluster((make_node("node", 16),))

    def give(job: Job, now: int = NOW) -> Admission | None:
        found = decide(cluster, (Queue("main"),), [job, replace(below, admission=told)], now)
        return {one.uid: one.admission for one in found.changes}.get("a")

    below = run_on(make_job("b", 1, 40), "node")
    told = below.admission
    assert give(giver) is None
    unsaid = replace(giver, admission=replace(giver.admission, levelled_since=None))  # type: ignore[type-var]
    assert give(unsaid) is not None, "a former version has not said since when: it gives never"
    given = give(giver, NOW + SECOND)
    assert given is not None
    assert given.level_turns == 1
    again = replace(giver, admission=replace(giver.admission, level_turns=1))  # type: ignore[type-var]
    assert give(again, NOW + HOUR) is None
    below = run_on(make_job("b", 1, 40), "node", bound_at=NOW - MINUTE)
    told = below.admission
    given = give(again)
    assert given is not None
    assert given.level_turns == 0


def test_the_hour_of_who_was_given_something_begins_anew_only_once_it_is_over() -> None:
    """Else who grows a bit with each that ends would never give to one that is always there."""
    job = run_on(make_job("c", 1, 8, worker=only_in("y")), "node-y")
    for ago, kept in ((30 * MINUTE, True), (61 * MINUTE, False)):
        before = replace(job.admission, levelled_at=NOW - ago, levelled_since=NOW - ago)  # type: ignore[type-var]
        told = grow(replace(job, admission=before), 3 * MINUTE)
        assert told is not None
        assert told.levelled_at == NOW
        assert told.levelled_since == (NOW - ago if kept else NOW)
