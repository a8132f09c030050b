"""A simulated job: what it is, how far it has come, and what it took.

simulation.py moves it; how fast it trains is said by a Curve (progress.py). Planning sees of it a
job and its pods (`show`), as it would see those of a cluster.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from et_scheduler.model.jobs import Job, Pod
from et_scheduler.model.shapes import SECOND
from et_scheduler.simulating.pods import Binder, SimPod
from et_scheduler.simulating.progress import Curve


@dataclass(frozen=True, slots=True)
class Work:
    """A job before it is created. `steps` None: it trains for ever."""

    job: Job
    at: int
    steps: float | None = None
    curve: Curve = field(default_factory=Curve)
    resize_cost: int = 5 * SECOND


@dataclass(slots=True, eq=False)
class SimJob:
    """`done` steps (of one worker's speed, in milliseconds) as of `seen`, at `workers`.

    `held`: how long its workers had their nodes, all together, of those that are gone. `paused`:
    how long it had workers that did not train, after a start or a resize.
    """

    work: Work
    job: Job
    pods: list[SimPod] = field(default_factory=list)
    done: float = 0.0
    seen: int = 0
    paused_until: int = 0
    workers: int = 0
    names: int = 0
    plan: int = 0
    first_worker_at: int | None = None
    gang_at: int | None = None
    ended_at: int | None = None
    resizes: int = 0
    ended_workers: int = 0
    evictions: int = 0
    held: int = 0
    paused: int = 0

    def list_workers(self) -> list[SimPod]:
        """Bound workers that still train, those that are draining among them."""
        return [pod for pod in self.pods if not pod.is_launcher and pod.place is not None]

    def release(self, pod: SimPod, now: int) -> None:
        """The pod is gone."""
        self.pods.remove(pod)
        if pod.bound_at is not None and not pod.is_launcher:
            self.held += now - pod.bound_at

    def advance(self, now: int) -> None:
        """Train until now as it was."""
        begun = max(self.seen, min(self.paused_until, now))
        if self.workers:
            self.paused += begun - self.seen
        self.done += (now - begun) * self.work.curve.get_rate(self.workers)
        self.seen = now

    def set_workers(self, now: int, workers: int) -> None:
        """So many train from now on; each change costs a pause."""
        if workers == self.workers:
            return
        self.advance(now)
        if self.workers and workers:
            self.resizes += 1
        self.workers = workers
        self.paused_until = max(self.paused_until, now) + self.work.resize_cost
        self.plan += 1

    def find_end(self) -> int | None:
        """When it will have done its work if nothing changes; None: not at this rate."""
        rate = self.work.curve.get_rate(self.workers)
        if self.work.steps is None or not rate:
            return None
        left = max(self.work.steps - self.done, 0.0)
        return max(self.seen, self.paused_until) + int(left / rate) + 1

    def show(self, binder: Binder) -> tuple[Pod, ...]:
        """The job's pods as the planner sees them."""
        return tuple(
            Pod(
                pod.name,
                binder.get_name(pod),
                pod.created,
                is_launcher=pod.is_launcher,
                is_draining=pod.is_draining,
            )
            for pod in self.pods
        )
