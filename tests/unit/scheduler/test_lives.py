"""Random lives: jobs and services come and go, writes fail, processes die."""

from __future__ import annotations

from random import Random

import pytest

from et_kube.errors import Conflict, OutcomeUnknown, ServerFailed, Throttled
from et_kube.resources import PODS, TRAINING_JOBS, TRAINING_QUEUES, Ref
from et_kube.watching import Cut, Resumed
from fakes.clients import Call, Moment
from tests.unit.scheduler.rigs import SchedulerRig, make_held

pytestmark = pytest.mark.usefixtures("quiet_logs")

ERRORS = (
    Conflict(409, "Conflict", "x"),
    OutcomeUnknown("x"),
    ServerFailed(500, "InternalError", "x"),
    Throttled(429, "TooManyRequests", "x"),
)
WATCHED = {TRAINING_JOBS, TRAINING_QUEUES}


class Life:
    """A cluster of three nodes of four CPUs to which things happen."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)  # noqa: S311 (chance is no secret)
        self.rig = SchedulerRig(nodes=3, cpu=4, is_slow=True)
        self.rig.create_queue("other", weight=2)
        self.rig.log.faults.append(self.strike)
        self.is_rough = True
        self.made = 0

    def strike(self, call: Call, moment: Moment) -> None:
        is_ours = call.is_write and call.ref.resource in WATCHED
        if self.is_rough and is_ours and self.random.random() < 0.15:
            raise self.random.choice(ERRORS)

    def happen(self) -> None:
        """One thing, whatever it is."""
        self.random.choice(
            [self.create, self.create, self.delete, self.suspend, self.serve, self.leave, self.cut]
        )()

    def create(self) -> None:
        self.made += 1
        least = self.random.randint(1, 4)
        job = make_held(
            f"job-{self.made}",
            least,
            self.random.randint(least, 8),
            self.random.choice([1, 1, 2]),
            queue=self.random.choice(["main", "other"]),
            elasticity=self.random.choice(["Auto", "Auto", "Fixed"]),
        )
        self.rig.create(job)

    def delete(self) -> None:
        jobs = self.rig.cluster.list(TRAINING_JOBS)
        if jobs:
            name = self.random.choice(jobs)["metadata"]["name"]
            self.rig.cluster.delete(Ref(TRAINING_JOBS, "team", name))
            while self.rig.cluster.collect_garbage():
                pass

    def suspend(self) -> None:
        jobs = self.rig.cluster.list(TRAINING_JOBS)
        if jobs:
            job = self.random.choice(jobs)
            spec = {"suspend": not job["spec"].get("suspend", False)}
            ref = Ref(TRAINING_JOBS, "team", job["metadata"]["name"])
            self.rig.cluster.patch(ref, {"spec": spec})

    def serve(self) -> None:
        self.made += 1
        self.rig.add_services(self.random.randint(1, 2), name=f"service-{self.made}")

    def leave(self) -> None:
        for pod in self.rig.cluster.list(PODS, "web")[:2]:
            self.rig.cluster.remove(Ref(PODS, "web", pod["metadata"]["name"]))

    def cut(self) -> None:
        """Something is not heard of for a moment."""
        [replica] = self.rig.replicas
        replica._see(Cut(PODS, None))
        replica._see(Resumed(PODS, None, self.rig.clock.monotonic()))

    async def live(self) -> None:
        for _ in range(3):
            self.rig.replicas = [self.rig.make_replica(self.random.randint(0, 9))]
            async with self.rig.running():
                for _ in range(12):
                    self.happen()
                    await self.rig.advance(self.random.choice([0.25, 1, 2]))
                    if self.random.random() < 0.6:
                        self.rig.carrier.let_go()
        self.is_rough = False
        self.rig.replicas = [self.rig.make_replica(10)]

    async def rest(self) -> None:
        async with self.rig.running():
            for _ in range(24):
                await self.rig.advance(5)
                self.rig.carrier.let_go()
            written = len(self.rig.list_writes())
            await self.rig.advance(15)
            assert len(self.rig.list_writes()) == written, "it does not come to rest"

    def check(self) -> None:
        for job in self.rig.cluster.list(TRAINING_JOBS):
            name, status = job["metadata"]["name"], job["status"]
            told = status.get("admission") or {"state": "Waiting"}
            if job["spec"].get("suspend"):
                assert self.rig.count(name) == 0
            elif told["state"] == "Admitted":
                assert status["admittedNumber"] == told["number"]
                assert self.rig.count(name) == told["workers"], (name, told)
            else:
                assert self.rig.count(name) == 0
                assert told["reason"], name
        assert all(pod["spec"].get("nodeName") for pod in self.rig.cluster.list(PODS, "team"))


@pytest.mark.long
@pytest.mark.parametrize("seed", range(4))
async def test_whatever_happens_promises_are_kept_in_the_end(seed: int) -> None:
    life = Life(seed)
    await life.live()
    await life.rest()
    life.check()
