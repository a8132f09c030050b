"""Others write numbers far ahead into what a job counts by: it counts on from its own."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest

from et_contract.documents import AHEAD
from et_kube.resources import CONFIG_MAPS, PODS, TRAINING_JOBS
from et_operator.model.names import LABEL_EPOCH
from tests.simulation.invariants import check_rest
from tests.simulation.lives import start
from tests.simulation.worlds import SimulatedWorld

LAST = 2**53 - 1
FAR = (LAST, 2**31, AHEAD + 100)


def plant(world: SimulatedWorld, name: str, key: str, **fields: int) -> None:
    """Write other numbers into a document, as anybody may who edits ConfigMaps."""
    found = world.get(CONFIG_MAPS, name)
    body = json.loads(found["data"][key]) | fields
    world.change(CONFIG_MAPS, name, {"data": {key: json.dumps(body)}})


def lose_status(world: SimulatedWorld) -> None:
    empty = dict.fromkeys(world.status(TRAINING_JOBS, "train"))
    world.change(TRAINING_JOBS, "train", {"status": empty}, "status")


async def check_well(world: SimulatedWorld) -> None:
    """The job follows what its author wants, and says nothing of any trouble."""
    await world.settle(timedelta(minutes=10))
    for replicas in (3, 2):
        world.change(TRAINING_JOBS, "train", {"spec": {"replicas": replicas}}, "scale")
        await world.settle(timedelta(minutes=10))
    check_rest(world.cluster, world.broker)
    status = world.status(TRAINING_JOBS, "train")
    told = {c["type"] for c in status["conditions"] if c["status"] == "True"}
    assert told.isdisjoint({"StatusDamaged", "LauncherTrouble", "JobDefect"}), told
    assert status["generation"] < 10 * AHEAD


def make_world() -> SimulatedWorld:
    return SimulatedWorld(
        judge=lambda _: None
    )  # the numbers of others fall where they are corrected


@pytest.mark.parametrize("number", FAR)
async def test_a_config_that_is_planted_while_a_job_is_suspended_is_written_over(number: int):
    async with make_world() as world:
        await start(world, maxReplicas=4, minReplicas=1)
        world.change(TRAINING_JOBS, "train", {"spec": {"suspend": True}})
        await world.settle(timedelta(minutes=5))
        plant(world, "train-config", "config.json", generation=number)
        await world.settle(timedelta(minutes=5))
        world.change(TRAINING_JOBS, "train", {"spec": {"suspend": False}})
        await check_well(world)


@pytest.mark.parametrize("number", FAR)
async def test_a_config_that_is_planted_while_a_job_runs_is_written_over(number: int):
    async with make_world() as world:
        await start(world, maxReplicas=4, minReplicas=1)
        plant(world, "train-config", "config.json", generation=number)
        await check_well(world)


@pytest.mark.parametrize("number", FAR)
async def test_a_report_that_is_planted_is_not_counted_on_from(number: int):
    async with make_world() as world:
        await start(world, maxReplicas=4, minReplicas=1)
        plant(world, "train-report", "report-1", observedGeneration=number)
        await check_well(world)


@pytest.mark.parametrize("number", FAR)
async def test_a_job_whose_status_is_lost_believes_no_epoch_that_is_far_ahead(number: int):
    async with make_world() as world:
        await start(world, maxReplicas=4, minReplicas=1)
        plant(world, "train-config", "config.json", generation=number, epoch=number)
        labels = {"metadata": {"labels": {LABEL_EPOCH: str(number)}}}
        world.change(PODS, "train-worker-0", labels)
        lose_status(world)
        await check_well(world)
