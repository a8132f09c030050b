"""The two experiments of EDL's report, with its numbers.

Run by `__main__`, and repeated on a cluster by benchmarks, which take their numbers from here.
Jobs, services and tides come by the case and its seed, whatever the policy.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from et_scheduler.model.cluster import Headroom, Node
from et_scheduler.model.jobs import Job
from et_scheduler.model.queues import Queue
from et_scheduler.model.shapes import CPU, MEMORY, PODS, SECOND, make_shape
from et_scheduler.simulating.jobs import SimJob, Work
from et_scheduler.simulating.judging import Judge
from et_scheduler.simulating.measures import compute_bound, compute_jain, compute_use, mean
from et_scheduler.simulating.policies import Policy
from et_scheduler.simulating.simulation import Simulation

GIB = 2**30
TRAINER = make_shape({CPU: 5000, MEMORY: 8 * GIB})
COMPANION = make_shape({CPU: 4000, MEMORY: 5 * GIB})
SERVICE = make_shape({CPU: 3000, MEMORY: 3 * GIB})
LAUNCHER = make_shape({CPU: 20, MEMORY: GIB // 16})
"""What its broker requests."""
COMPANIONS = 10
TIDES = (300, 200, 100, 200, 300, 400)
TURN = 4 * SECOND
"""In so long a tide turns: pods of a service come and go one by one."""


@dataclass(frozen=True, slots=True)
class Rest:
    """A cluster that has come to rest: trainers of each job, rising, and shares of its CPU."""

    sizes: tuple[int, ...]
    use: float
    bound: float


@dataclass(slots=True)
class Outcome:
    """One run of a case: what it took, by the name of the measure, and how each phase ended."""

    numbers: dict[str, float] = field(default_factory=dict)
    rests: list[Rest] = field(default_factory=list)


def build_nodes() -> list[Node]:
    """80 x 16 + 53 x 20 CPU, 4 GiB to each."""
    sizes = [16] * 80 + [20] * 53
    return [
        Node(f"node-{index:03}", {CPU: cpu * 1000, MEMORY: cpu * 4 * GIB, PODS: 110})
        for index, cpu in enumerate(sizes)
    ]


def build_job(index: int) -> Job:
    """2 to 60 trainers."""
    name = f"job-{index:02}"
    return Job(name, "edl", name, "main", LAUNCHER, TRAINER, 2, 60, cooldown=30 * SECOND)


def build_simulation(policy: Policy, *, drains: bool, seed: int = 1, delay: int = 0) -> Simulation:
    """The cluster with one queue. Without drains a worker goes at once, as on KWOK."""

    def drain(random: Random) -> int:
        return random.randint(5 * SECOND, 60 * SECOND) if drains and policy.drains else 0

    shapes = (TRAINER, COMPANION, SERVICE, LAUNCHER)
    decide = policy.begin(())
    simulation = Simulation(build_nodes(), shapes, [Queue("main")], decide, drain, seed=seed)
    simulation.delay = delay
    if policy.is_judged:
        simulation.checks.append(Judge())
    return simulation


def run_case_1(policy: Policy, *, drains: bool = True, seed: int = 1, delay: int = 0) -> Outcome:
    """20 jobs with 10 companions each, one each 10 s, then 300 s."""
    simulation = build_simulation(policy, drains=drains, seed=seed, delay=delay)
    for index in range(20):
        at = index * 10 * SECOND
        simulation.submit(Work(build_job(index), at))
        simulation.clock.at(at, lambda: simulation.add_services(COMPANIONS, COMPANION))
    end = 190 * SECOND + 300 * SECOND
    simulation.run(end)
    jobs = list(simulation.jobs.values())
    rest = look(simulation)
    first = [((one.first_worker_at or end) - one.job.created) / SECOND for one in jobs]
    gang = [((one.gang_at or end) - one.job.created) / SECOND for one in jobs]
    return Outcome(
        rests=[rest],
        numbers={
            "started": sum(one.gang_at is not None for one in jobs),
            "first trainer, mean s": mean(first),
            "whole gang, mean s": mean(gang),
            "whole gang, max s": max(gang),
            "Jain": compute_jain(rest.sizes),
            "trainers ended": sum(one.ended_workers for one in jobs),
            "CPU, %": 100 * rest.use,
            "of the placed bound, %": 100 * rest.use / rest.bound,
            "services, max wait s": _find_longest(simulation, end) / SECOND,
            "passes": simulation.passes,
        },
    )


def run_case_2(
    policy: Policy, *, drains: bool = True, seed: int = 1, delay: int = 0, headroom: int = 0
) -> Outcome:
    """400 service pods of higher priority, 6 jobs; then the tide goes out and comes in.

    `headroom`: room for so many pods of the service is kept.
    """
    simulation = build_simulation(policy, drains=drains, seed=seed, delay=delay)
    simulation.headroom = Headroom(SERVICE, headroom)
    simulation.add_services(400, SERVICE, priority=1)
    for index in range(6):
        at = index * 5 * SECOND
        simulation.submit(Work(build_job(index), at))
        simulation.clock.at(at, lambda: simulation.add_services(COMPANIONS, COMPANION))
    simulation.run(90 * SECOND)
    outcome = Outcome()
    numbers = outcome.numbers
    before = 400
    for number, wanted in enumerate(TIDES):
        begun = simulation.clock.now
        _turn(simulation, wanted - before)
        before = wanted
        simulation.run(begun + 20 * SECOND)
        soon = look(simulation)
        simulation.run(begun + (120 if number == len(TIDES) - 1 else 90) * SECOND)
        rest = look(simulation)
        outcome.rests.append(rest)
        numbers[f"{number}: {wanted}, after 20 s, %"] = 100 * soon.use / soon.bound
        numbers[f"{number}: {wanted}, at its end, %"] = 100 * rest.use / rest.bound
        if wanted == min(TIDES):
            numbers["CPU at low tide, %"] = 100 * rest.use
    numbers["services, max wait s"] = _find_longest(simulation, simulation.clock.now) / SECOND
    jobs: list[SimJob] = list(simulation.jobs.values())
    numbers["gang, max s"] = max((one.gang_at or 0) - one.job.created for one in jobs) / SECOND
    numbers["trainers ended"] = sum(one.ended_workers for one in jobs)
    return outcome


def look(simulation: Simulation) -> Rest:
    """The cluster as it is now."""
    sizes = sorted(len(one.list_workers()) for one in simulation.jobs.values())
    return Rest(tuple(sizes), compute_use(simulation), compute_bound(simulation, TRAINER))


def _turn(simulation: Simulation, more: int) -> None:
    """So many pods more, or fewer, of the tide."""
    begun, count = simulation.clock.now, abs(more)
    step = _add_one if more > 0 else _remove_one
    for number in range(count):
        simulation.clock.at(begun + TURN * number // count, lambda: step(simulation))


def _add_one(simulation: Simulation) -> None:
    simulation.add_services(1, SERVICE, priority=1)


def _remove_one(simulation: Simulation) -> None:
    """One of the tide, none of the companions."""
    pod = simulation.random.choice([pod for pod in simulation.services if pod.shape == SERVICE])
    simulation.services.remove(pod)
    simulation.binder.remove(pod)
    simulation.ask()


def _find_longest(simulation: Simulation, end: int) -> int:
    pending = [end - pod.created for pod in simulation.services if pod.place is None]
    return max([*simulation.service_waits, *pending], default=0)
