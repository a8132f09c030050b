"""How many requests a job costs: a count, held to the least that could do."""

from __future__ import annotations

from datetime import timedelta

from et_kube.resources import TRAINING_JOBS
from tests.makers import make_job
from tests.simulation.invariants import OPERATOR
from tests.simulation.worlds import SimulatedWorld

WORKERS = 8
CHILDREN = ("ServiceAccount", "Role", "RoleBinding", "NetworkPolicy", "report", "config")
START = WORKERS + 1 + len(CHILDREN)
"""Pods and the objects that they need."""
SHARED = 1
"""The runtime, for the first job of a namespace."""
MEMBERS = 1
"""The config names uids, which are known only when the pods are there."""
DECIDED = 3
"""Statuses that must be written before what follows: names and epoch; uids; members."""
NEWS = 1
"""Hosts listed. That the job runs comes with the members."""
MOST = 1.3


async def count_writes(world: SimulatedWorld) -> int:
    await world.rest()
    return len(world.log.list_writes(OPERATOR))


async def test_a_job_costs_few_writes_from_its_creation_to_its_clean_up() -> None:
    async with SimulatedWorld() as world:
        world.create(TRAINING_JOBS, make_job(workers=WORKERS))
        await world.until(lambda: world.broker.has_started("train"))
        started = await count_writes(world)
        assert started == START + SHARED + MEMBERS + DECIDED + NEWS
        assert started <= MOST * (START + SHARED + MEMBERS)

        world.end_command(0)
        await world.until(lambda: world.phase() == "Succeeded")
        await world.settle(timedelta(minutes=2))
        deletions, ending, numbers = WORKERS, 2, 1  # the status, and the rights that go
        assert await count_writes(world) == started + ending + deletions + numbers

        await world.settle(timedelta(days=1))
        assert await count_writes(world) == started + ending + deletions + numbers
