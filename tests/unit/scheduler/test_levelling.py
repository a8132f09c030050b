"""What is given for the level of all is had by those for whom it was given, or nobody gives."""

from __future__ import annotations

from dataclasses import replace

from et_scheduler.model.jobs import Job
from et_scheduler.model.queues import Queue
from et_scheduler.model.shapes import CPU, HOUR, MINUTE, SECOND, Operator, Requirement, Shape
from et_scheduler.simulating.jobs import Work
from et_scheduler.simulating.simulation import Simulation
from tests.unit.scheduler.makers import cpus, make_job, make_node, make_simulation


def only_in(pool: str, cpu: int = 1) -> Shape:
    """A pod that must be on the node of this pool."""
    return replace(cpus(cpu), terms=((Requirement("pool", Operator.IN, frozenset({pool})),),))


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


def test_nobody_gives_for_one_whose_queue_is_at_its_limit() -> None:
    queues = (Queue("main", limits={CPU: 40000}), Queue("other"))
    found = measure(simulate(40, make_three(30, 30), *queues))
    assert found == {"a": (30, 0), "b": (10, 0), "c": (30, 0)}


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
