"""What must hold in every pass of a simulation, not only once it has come to rest.

A check that a simulation calls before it carries out what was decided. Pods are counted here one by
one, and by no room of planning. Policies that do not promise this are not judged (policies.py).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from et_contract.admissions import AdmissionState
from et_scheduler.model.decisions import Decision
from et_scheduler.model.shapes import PODS, SECOND, Shape
from et_scheduler.planning.sizes import find_least
from et_scheduler.simulating.jobs import SimJob
from et_scheduler.simulating.simulation import Simulation

FALLBACK = 75 * SECOND
"""After sixty seconds a gang that does not stand is taken back."""


class BreachError(Exception):
    """Something did not hold; the message says what, and when."""


class Judge:
    """Looks at each pass of one simulation; raises BreachError."""

    def __init__(self) -> None:
        self._partial: dict[str, int] = {}

    def __call__(self, simulation: Simulation, _: Decision) -> None:
        """Judge the cluster as the decision has found it."""
        found = (*list_overfull(simulation), *list_overgiven(simulation))
        found += tuple(self._list_partial(simulation))
        if found:
            raise BreachError(f"at {simulation.clock.now} ms: {'; '.join(found)}")

    def _list_partial(self, simulation: Simulation) -> Iterator[str]:
        """Gangs that are started in part for longer than the fallback lets them be."""
        now, jobs = simulation.clock.now, simulation.jobs
        self._partial = {
            uid: self._partial.get(uid, now) for uid, one in jobs.items() if is_partial(one)
        }
        for uid, since in self._partial.items():
            if now - since > FALLBACK:
                yield f"{uid} trains with fewer workers than its least since {since} ms"


def list_overfull(simulation: Simulation) -> Iterator[str]:
    """Nodes whose pods request more than they have."""
    taken: dict[int, Counter[Shape]] = defaultdict(Counter)
    for pod in (*simulation.services, *(p for one in simulation.jobs.values() for p in one.pods)):
        if pod.place is not None:
            taken[pod.place][pod.shape] += 1
    for place, shapes in taken.items():
        node = simulation.binder.room.nodes[place]
        for name, amount in sum_requests(shapes).items():
            if amount > node.allocatable.get(name, 0):
                yield f"{amount} {name} are taken on {node.name}"


def list_overgiven(simulation: Simulation) -> Iterator[str]:
    """Resources of which jobs may have more than there is."""
    given: Counter[Shape] = Counter()
    for one in simulation.jobs.values():
        if is_admitted(one) and one.job.admission is not None:
            given[one.job.worker] += one.job.admission.workers
            given[one.job.launcher] += 1
    for name, amount in sum_requests(given).items():
        if amount > sum(node.allocatable.get(name, 0) for node in simulation.nodes):
            yield f"{amount} {name} are given"


def sum_requests(shapes: Counter[Shape]) -> Counter[str]:
    """What so many pods of these shapes request together."""
    total: Counter[str] = Counter()
    for shape, count in shapes.items():
        total[PODS] += count
        for name, amount in shape.requests:
            total[name] += count * amount
    return total


def is_admitted(one: SimJob) -> bool:
    """Whether the job may have pods."""
    admission = one.job.admission
    is_told = admission is not None and admission.state is AdmissionState.ADMITTED
    return is_told and not one.job.is_waiting


def is_partial(one: SimJob) -> bool:
    """Whether the job's launcher has fewer workers beside it than it needs, but for who leaves."""
    if not (is_admitted(one) and any(p.is_launcher and p.place is not None for p in one.pods)):
        return False
    staying = [pod for pod in one.list_workers() if not pod.is_draining]
    return len(staying) < find_least(one.job)
