"""What holds in every pass, whatever the cluster, the queues and the jobs are."""

from __future__ import annotations

import os
from dataclasses import fields, replace
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from et_contract.admissions import AdmissionState
from et_scheduler.model.cluster import Cluster, Headroom, Node
from et_scheduler.model.decisions import Decision, Step
from et_scheduler.model.jobs import Job
from et_scheduler.model.queues import Queue
from et_scheduler.model.rules import Rules
from et_scheduler.model.shapes import CPU, HOUR, PODS, SECOND, Shape, make_shape
from et_scheduler.planning.passing import decide
from et_scheduler.simulating.judging import Judge
from et_scheduler.simulating.simulation import Simulation
from tests.unit.scheduler.makers import NOW, apply, cpus, make_job, make_node, make_simulation
from tests.unit.scheduler.reservations import draw_held, is_held_alone, list_lost

EXAMPLES = int(os.environ.get("CLUSTERS", "10"))
"""Generated clusters for each property, the same in each run: few in `make check`, more in `make
test`, 10,000 in all with SIMULATE=all."""
MOST_PASSES = 400
MOST_LATE = 6
"""Passes that change something in the third hour: nodes that are held are open once in an hour, and
twice as long each time; for the level of all somebody may give once more."""
TINY = make_shape({CPU: 10})
"""Of them there are more than places for pods where nodes have few."""


@st.composite
def draw_queues(draw: st.DrawFn) -> tuple[Queue, ...]:
    limits = st.sampled_from([{}, {}, {"cpu": 12_000}])
    return tuple(
        Queue(
            name,
            weight=draw(st.integers(1, 3)),
            priority=draw(st.sampled_from([0, 0, 1])),
            limits=draw(limits),
        )
        for name in ("main", "other")[: draw(st.integers(1, 2))]
    )


@st.composite
def draw_jobs(draw: st.DrawFn, queues: tuple[Queue, ...]) -> list[Job]:
    jobs = []
    workers = st.sampled_from([TINY, *map(cpus, (1, 1, 2, 3, 4))])
    for index in range(draw(st.integers(1, 7))):
        least = draw(st.integers(1, 4))
        ports = draw(st.sampled_from([(), (), (), ("TCP/80",)]))
        jobs.append(
            make_job(
                f"job-{index}",
                least,
                least + draw(st.integers(0, 8)),
                worker=replace(draw(workers), host_ports=frozenset(ports)),
                launcher=cpus(draw(st.integers(0, 1))),
                queue=draw(st.sampled_from(queues)).name,
                priority=draw(st.sampled_from([0, 0, 1])),
                sizes=draw(st.sampled_from([(), (), (1, 2, 4, 8)])),
                created=draw(st.integers(0, 20)) * 30 * SECOND,
            )
        )
    return [keep_sizes(job) for job in jobs]


def keep_sizes(job: Job) -> Job:
    """Sizes are within least and most."""
    sizes = tuple(size for size in job.sizes if job.minimum <= size <= job.maximum)
    return replace(job, sizes=sizes)


@st.composite
def draw_simulations(draw: st.DrawFn) -> tuple[Simulation, list[Job], tuple[Queue, ...]]:
    places = draw(st.sampled_from([110, 110, 110, 5]))
    nodes = tuple(
        make_node(
            f"node-{index}",
            draw(st.sampled_from([4, 8, 8, 16])),
            pool=draw(st.sampled_from(["", "", "", "other"])),
            more={PODS: places},
        )
        for index in range(draw(st.integers(1, 6)))
    )
    queues = draw(draw_queues())
    jobs = draw(draw_jobs(queues))
    simulation = make_simulation(nodes, jobs, queues)
    simulation.headroom = draw(st.sampled_from([None, None, Headroom(cpus(3), 1)]))
    for time in draw(st.lists(st.integers(0, 600), max_size=3)):
        count = draw(st.integers(1, 4))
        simulation.clock.at(
            time * SECOND, lambda count=count: simulation.add_services(count, cpus(3), 1)
        )  # type: ignore[misc]
    return simulation, jobs, queues


class Watch:
    """Looks at every pass of a simulation."""

    def __init__(self, queues: tuple[Queue, ...]) -> None:
        self.queues = {queue.name: queue for queue in queues}
        self.changes: list[int] = []

    def __call__(self, simulation: Simulation, decision: Decision) -> None:
        if decision.changes:
            self.changes.append(simulation.clock.now)
        self.check_changes(simulation, decision)
        self.check_shares(simulation, decision)
        self.check_reservations(simulation, decision)

    def check_changes(self, simulation: Simulation, decision: Decision) -> None:
        steps = [change.step for change in decision.changes]
        assert steps == sorted(steps)
        for change in decision.changes:
            job = simulation.jobs[change.uid].job
            admission = change.admission
            if admission.state is AdmissionState.ADMITTED:
                assert job.minimum <= admission.workers <= job.maximum
                assert not job.sizes or admission.workers in job.sizes
            if admission.evictions and admission.evictions[-1].at == simulation.clock.now:
                evictor = admission.evictions[-1].uid
                told = decision.explanations.get(evictor)
                assert told is not None, "its evictor waits for the room"
                assert told.reason == "RoomComes", told

    def check_reservations(self, simulation: Simulation, decision: Decision) -> None:
        """Each node has one holder, and who may start keeps off the nodes of others in time."""
        told = {uid: sim.job.admission for uid, sim in simulation.jobs.items()}
        told |= {change.uid: change.admission for change in decision.changes}
        held = [name for one in told.values() if one is not None for name in one.reserved]
        assert len(held) == len(set(held))
        if any(
            sim.job.admission and sim.job.admission.reserved for sim in simulation.jobs.values()
        ):
            cluster, jobs = simulation.show_cluster(), simulation.show_jobs()
            queues = self.queues.values()
            assert not list_lost(cluster, queues, jobs, simulation.clock.now, decision)
        for change in decision.changes:
            job = simulation.jobs[change.uid].job
            is_least = change.admission.workers == job.minimum
            if change.step is Step.TAKE and job.is_waiting and is_least:
                kept = {
                    name
                    for uid, sim in simulation.jobs.items()
                    if self.rank(sim.job) >= self.rank(job)
                    and uid != change.uid
                    and is_held_alone(sim.job, simulation.clock.now)
                    for name in getattr(sim.job.admission, "reserved", ())
                    if name in getattr(told[uid], "reserved", ())
                }
                assert not set(change.admission.placement.only) & kept

    def rank(self, job: Job) -> tuple[int, int]:
        return (self.queues[job.queue].priority, job.priority)

    def check_shares(self, simulation: Simulation, decision: Decision) -> None:
        nodes = simulation.show_cluster().nodes
        total = sum(node.allocatable["cpu"] - node.taken.get("cpu", 0) for node in nodes)
        requests = dict.fromkeys(self.queues, 0)
        for sim in simulation.jobs.values():
            job = sim.job
            worker, own = dict(job.worker.requests)["cpu"], dict(job.launcher.requests)
            most = max(job.maximum, job.minimum) if not job.sizes else job.sizes[-1]
            requests[job.queue] += own.get("cpu", 0) + most * worker
        for name, queue in self.queues.items():
            requests[name] = min(requests[name], queue.limits.get("cpu", requests[name]))
        deserved = sum(status.deserved.get("cpu", 0) for status in decision.queues)
        most = min(total, sum(requests.values()))
        if len({node.pool for node in simulation.nodes}) == 1:
            assert deserved == most, (requests, decision.queues)
        assert deserved <= most, "who may be in several pools is due something in one of them"
        for status in decision.queues:
            limit = self.queues[status.name].limits.get("cpu")
            assert limit is None or status.allocated.get("cpu", 0) <= limit


@settings(max_examples=EXAMPLES)
@given(draw_simulations())
def test_a_cluster_that_stands_still_comes_to_rest(drawn: Any) -> None:
    simulation, _, queues = drawn
    watch = Watch(queues)
    simulation.checks += [watch, Judge()]
    simulation.run(3 * HOUR)
    assert simulation.passes < MOST_PASSES
    late = [at for at in watch.changes if at >= 2 * HOUR]
    assert len(late) <= MOST_LATE, "no two resize each other in turns"
    jobs = simulation.show_jobs()
    for _ in range(2):
        assert not decide(simulation.show_cluster(), queues, jobs, simulation.clock.now).changes


@settings(max_examples=EXAMPLES)
@given(draw_simulations(), st.integers(0, 900), st.integers(0, 100))
def test_order_of_what_is_given_does_not_matter(drawn: Any, seconds: int, seed: int) -> None:
    simulation, _, queues = drawn
    simulation.run(seconds * SECOND)
    cluster, jobs, now = simulation.show_cluster(), simulation.show_jobs(), simulation.clock.now
    first = decide(cluster, queues, jobs, now)
    random = Random(seed)  # noqa: S311 (no secret)
    nodes, others, mixed = list(cluster.nodes), list(jobs), list(queues)
    pending = list(cluster.pending)
    for things in (nodes, others, mixed, pending):
        random.shuffle(things)
    pods = {job.uid: random.sample(job.pods, len(job.pods)) for job in others}
    others = [replace(job, pods=tuple(pods[job.uid])) for job in others]
    given = Cluster(tuple(nodes), tuple(pending), cluster.headroom)
    assert decide(given, mixed, others, now) == first


def scale(shape: Shape, factor: int) -> Shape:
    return replace(shape, requests=tuple((name, n * factor) for name, n in shape.requests))


def scale_node(node: Node, factor: int) -> Node:
    def times(amounts: Any) -> Any:
        return {name: n if name == "pods" else n * factor for name, n in amounts.items()}

    return replace(node, allocatable=times(node.allocatable), taken=times(node.taken))


@settings(max_examples=EXAMPLES)
@given(draw_simulations(), st.integers(0, 900), st.sampled_from([2, 7, 1024]))
def test_amounts_times_k_change_nothing_but_scale(drawn: Any, seconds: int, factor: int) -> None:
    simulation, _, queues = drawn
    simulation.run(seconds * SECOND)
    cluster, jobs, now = simulation.show_cluster(), simulation.show_jobs(), simulation.clock.now
    first = decide(cluster, queues, jobs, now)
    kept = cluster.headroom
    scaled = Cluster(
        tuple(scale_node(node, factor) for node in cluster.nodes),
        tuple(replace(pod, shape=scale(pod.shape, factor)) for pod in cluster.pending),
        kept and replace(kept, shape=scale(kept.shape, factor)),
    )
    larger = [
        replace(queue, limits={name: n * factor for name, n in queue.limits.items()})
        for queue in queues
    ]
    others = [
        replace(job, launcher=scale(job.launcher, factor), worker=scale(job.worker, factor))
        for job in jobs
    ]
    second = decide(scaled, larger, others, now)
    assert [(c.uid, c.step, c.admission.workers, c.admission.placement) for c in first.changes] == [
        (c.uid, c.step, c.admission.workers, c.admission.placement) for c in second.changes
    ]


TIMES = {"created", "cooldown", "since", "at"}
"""Of the model's fields; all others are called `..._at` or `..._since`."""


def stretch(thing: Any, factor: int) -> Any:
    """The same with all its times and durations so many times as long."""
    names = [field.name for field in fields(thing)]
    times = [name for name in names if name in TIMES or name.endswith(("_at", "_since"))]
    known = {name: getattr(thing, name) for name in times}
    return replace(thing, **{name: t * factor for name, t in known.items() if t is not None})


def stretch_job(job: Job, factor: int) -> Job:
    told = job.admission
    if told is not None:
        evictions = tuple(stretch(one, factor) for one in told.evictions)
        told = replace(stretch(told, factor), evictions=evictions)
    pods = tuple(stretch(pod, factor) for pod in job.pods)
    return replace(stretch(job, factor), admission=told, pods=pods)


@settings(max_examples=EXAMPLES)
@given(draw_simulations(), st.integers(0, 900), st.sampled_from([2, 60]))
def test_durations_times_k_change_nothing(drawn: Any, seconds: int, factor: int) -> None:
    simulation, _, queues = drawn
    simulation.run(seconds * SECOND)
    cluster, jobs, now = simulation.show_cluster(), simulation.show_jobs(), simulation.clock.now
    counts = {field.name: getattr(Rules(), field.name) for field in fields(Rules)}
    longer = Rules(**{name: n if "worth" in name else n * factor for name, n in counts.items()})
    slower = replace(cluster, pending=tuple(stretch(pod, factor) for pod in cluster.pending))
    first = decide(cluster, queues, jobs, now)
    others = [stretch_job(job, factor) for job in jobs]
    second = decide(slower, queues, others, now * factor, longer)
    assert [(c.uid, c.step, c.admission.workers, c.admission.placement) for c in first.changes] == [
        (c.uid, c.step, c.admission.workers, c.admission.placement) for c in second.changes
    ]


@settings(max_examples=EXAMPLES)
@given(draw_held())
def test_what_is_reserved_stays_reserved(drawn: Any) -> None:
    """Nodes that would do, once jobs have gone, are held until the gang has all of its room.

    Nothing else ends that but what list_lost names, in this pass or the next.
    """
    cluster, queues, jobs = drawn
    for now in (NOW, NOW + SECOND):
        decision = decide(cluster, queues, jobs, now)
        assert list_lost(cluster, queues, jobs, now, decision) == []
        jobs = apply(jobs, decision)
