"""`et scale` against the whole operator, in a simulated world."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from datetime import timedelta

import pytest

from et.errors import EtError
from et.scaling import ScalingWait, Wish, check_queue, complete_names, scale
from et.screens import Screen
from et_contract.admissions import AdmissionState, Elasticity
from et_kube.errors import NotFound
from et_kube.resources import SCALE_INS, SCALE_OUTS, TRAINING_JOBS, Json
from et_scheduler.model.jobs import Admission
from tests.makers import make_job as make_manifest
from tests.planning_makers import make_job
from tests.simulation.lives import start
from tests.simulation.worlds import SimulatedWorld
from tests.unit.et.rigs import join, make_screen, read

LONG = timedelta(minutes=5)


async def run(
    world: SimulatedWorld, wish: Wish, *, as_json: bool = False, screen: Screen | None = None
) -> tuple[bool, str]:
    """Scale and let the operator work until nothing moves; whether it succeeded, and the words."""
    screen = screen or make_screen()
    async with asyncio.TaskGroup() as group:
        work = scale(join(world), screen, "train", wish, as_json=as_json)
        task = group.create_task(work)
        await world.clock.settle()
        await world.settle(timedelta(minutes=2))
        await world.clock.settle()
        assert task.done()
    return task.result(), read(screen.out)


@pytest.fixture
async def world() -> SimulatedWorld:
    world = SimulatedWorld()
    await start(world, minReplicas=1, maxReplicas=4)
    return world


@pytest.mark.long
async def test_more_workers_are_named_when_they_have_joined(world: SimulatedWorld):
    succeeded, words = await run(world, Wish(by=2, wait=LONG))

    assert succeeded
    assert "train-worker-2 joined" in words
    assert words.count("training uses them from its next commit on") == 1
    assert "succeeded: the job has 4 workers" in words
    assert len(world.workers()) == 4


@pytest.mark.parametrize("wish", [Wish(by=2, wait=LONG), Wish(to=4, wait=LONG)])
async def test_who_asks_for_more_than_the_command_has_room_for_is_warned(wish: Wish):
    world, job = SimulatedWorld(), make_manifest(minReplicas=1, maxReplicas=4)
    launcher = job["spec"]["etReplicaSpecs"]["launcher"]["template"]["spec"]["containers"][0]
    launcher["command"] = [*launcher["command"][:-1], "--max-np", "3", "train.py"]
    world.create(TRAINING_JOBS, job)
    await world.until(lambda: world.phase() == "Running" and world.broker.has_started("train"))
    screen = make_screen()

    succeeded, words = await run(world, wish, screen=screen)

    assert succeeded
    assert "worker-3 joined" in words
    assert "training uses them" not in words
    assert read(screen.err) == (
        "warning: the command runs 3 processes at most (--max-np), and 4 workers of "
        "slotsPerWorker 1 are to be there: what is above that runs nothing. Raise it (--max-np 4) "
        "or have fewer workers (maxReplicas 3)"
    )


@pytest.mark.long
async def test_a_worker_by_name_leaves_and_how_it_left_is_told(world: SimulatedWorld):
    succeeded, words = await run(world, Wish(remove=["1"], wait=LONG))

    assert succeeded
    assert "train-worker-1 left: graceful after" in words
    assert world.workers() == ["train-worker-0"]


@pytest.mark.long
async def test_a_number_is_set_like_kubectl_scale_and_how_each_left_is_told(world: SimulatedWorld):
    succeeded, words = await run(world, Wish(to=1, wait=LONG))

    assert succeeded
    assert "train: 2 -> 1 worker asked for" in words
    assert "train-worker-1 left: graceful" in words
    assert words.endswith("train has 1 worker")
    assert world.cluster.list(SCALE_INS) == []


async def test_the_number_that_is_there_already_is_at_once_there(world: SimulatedWorld):
    assert await run(world, Wish(to=2, wait=LONG)) == (
        True,
        "train: 2 -> 2 workers asked for\ntrain has 2 workers",
    )


async def test_what_the_operator_refuses_fails_with_its_reason(world: SimulatedWorld):
    succeeded, words = await run(world, Wish(by=3, wait=LONG))

    assert not succeeded
    assert "failed (AboveMax): " in words


@pytest.mark.long
async def test_without_wait_it_only_asks(world: SimulatedWorld):
    succeeded, words = await run(world, Wish(by=-1))

    assert succeeded
    assert "joined" not in words
    assert "is created for train" in words


@pytest.mark.long
async def test_as_json_there_is_nothing_but_the_object(world: SimulatedWorld):
    _, words = await run(world, Wish(by=1, wait=LONG), as_json=True)

    assert words.startswith("{")
    assert '"phase": "ScaleSucceeded"' in words


async def test_a_scaling_that_is_deleted_is_said_to_be_cancelled(world: SimulatedWorld):
    screen = make_screen()
    async with asyncio.TaskGroup() as group:
        wish = Wish(by=1, wait=LONG)
        task = group.create_task(scale(join(world), screen, "train", wish, as_json=False))
        await world.clock.settle()
        (made,) = world.cluster.list(SCALE_OUTS)
        world.delete(SCALE_OUTS, made["metadata"]["name"])
        await world.settle(timedelta(minutes=2))
        await world.clock.settle()
        assert task.done()

    assert not task.result()
    assert "was deleted: it is cancelled" in read(screen.out)


async def test_waiting_has_an_end(world: SimulatedWorld):
    async def wait_too_long() -> str:
        with pytest.raises(EtError) as caught:
            await scale(join(world), make_screen(), "train", Wish(by=1, wait=LONG), as_json=False)
        return str(caught.value)

    async with asyncio.TaskGroup() as group:  # nobody lets the operator work
        task = group.create_task(wait_too_long())
        await world.clock.advance(LONG + timedelta(seconds=1))

    assert "is not done after 300 s; it goes on" in task.result()


async def test_a_job_that_has_ended_or_is_not_there_is_not_scaled(world: SimulatedWorld):
    world.end_command(0)
    await world.until(lambda: world.phase() == "Succeeded")

    with pytest.raises(EtError, match="train has ended"):
        await scale(join(world), make_screen(), "train", Wish(by=1), as_json=False)
    with pytest.raises((EtError, NotFound), match="nobody"):
        await scale(join(world), make_screen(), "nobody", Wish(by=1), as_json=False)
    assert world.get(TRAINING_JOBS, "train")


@pytest.mark.parametrize(
    ("elasticity", "wish", "advice"),
    [
        (None, Wish(to=3), "change its minReplicas"),
        (None, Wish(by=1), "change its minReplicas"),
        (Elasticity.FIXED, Wish(by=-1), "--to"),
        (Elasticity.FIXED, Wish(to=3), ""),
    ],
)
def test_the_number_of_a_job_in_a_queue_is_its_schedulers(
    elasticity: Elasticity | None, wish: Wish, advice: str
):
    job = make_job(2, queue="vision", elasticity=elasticity)
    if advice:
        with pytest.raises(EtError, match=advice):
            check_queue(job, None, wish)
    else:
        check_queue(job, None, wish)
    check_queue(make_job(2), None, wish)


def test_who_is_in_a_queue_without_naming_one_says_his_number_himself():
    job, admission = make_job(2), Admission(1, AdmissionState.WAITING, "default")
    check_queue(job, admission, Wish(to=3))
    with pytest.raises(EtError, match=r"is in queue default.* set its number with --to"):
        check_queue(job, admission, Wish(by=1))


@pytest.mark.parametrize("wish", [Wish(to=3), Wish(by=1), Wish(remove=("1",))], ids=str)
def test_who_was_admitted_with_a_number_of_his_own_changes_it_in_every_way(wish: Wish):
    told = Admission(1, AdmissionState.ADMITTED, "vision", Elasticity.FIXED)
    check_queue(make_job(2, queue="vision"), told, wish)
    auto = replace(told, elasticity=Elasticity.AUTO)
    with pytest.raises(EtError, match="change its minReplicas"):
        check_queue(make_job(2, queue="vision", elasticity=Elasticity.FIXED), auto, wish)


def test_workers_may_be_named_in_short():
    names = ["3", "worker-4", "train-worker-5", "launcher", "another-worker-1"]

    assert complete_names("train", names) == [
        *("train-worker-3", "train-worker-4", "train-worker-5"),
        *("launcher", "another-worker-1"),
    ]


@pytest.mark.parametrize(
    ("target", "words"),
    [
        (9, "train cannot have 9 workers: minReplicas is 2, maxReplicas 4"),
        (1, "train cannot have 1 worker: minReplicas is 2, maxReplicas 4"),
    ],
)
async def test_a_number_outside_of_the_bounds_is_told_with_both(target: int, words: str):
    world = SimulatedWorld()
    await start(world, minReplicas=2, maxReplicas=4)

    with pytest.raises(EtError, match=words):
        await scale(join(world), make_screen(), "train", Wish(to=target), as_json=False)


# ------------------------------------------------------------------ what it waits for
WORDS = "0/3 nodes are available: 3 Insufficient cpu."


def make_waiting(message: str, kind: str = "Scaling") -> Json:
    status = {"phase": kind, "conditions": [{"type": kind, "status": "True", "message": message}]}
    return {"metadata": {"name": "more"}, "kind": "ScaleOut", "status": status}


def test_what_a_scaling_waits_for_is_told_when_it_changes():
    screen = make_screen()
    waiting = ScalingWait(screen, {})
    for message in ("2 -> 3 workers", f"2 -> 3 workers; waits: {WORDS}", "2 -> 3 workers"):
        for _ in range(3):
            assert not waiting.see(make_waiting(message))
    assert read(screen.out).splitlines() == [
        "  2 -> 3 workers",
        f"  2 -> 3 workers; waits: {WORDS}",
    ]


@pytest.mark.parametrize(
    ("wish", "words"),
    [
        (Wish(by=1, wait=LONG), r"ScaleOut \S+ goes on: .*`kubectl delete scaleout \S+ -n"),
        (Wish(to=3, wait=LONG), r"the change to 3 workers goes on: `et describe train`"),
    ],
    ids=str,
)
async def test_who_waits_no_longer_is_told_that_it_goes_on(
    world: SimulatedWorld, wish: Wish, words: str
):
    screen = make_screen()
    async with asyncio.TaskGroup() as group:
        work = scale(join(world), screen, "train", wish, as_json=False)
        task = group.create_task(work)
        await world.clock.settle()
        task.cancel()
    assert re.search(words, read(screen.err))


@pytest.mark.parametrize(
    ("limit", "stored", "words"),
    [
        (LONG, 300, "with a timeout of 300 s from its start on"),
        (None, None, "without a timeout: it waits until its workers are there"),
    ],
)
async def test_a_scale_out_has_a_timeout_of_its_own(
    world: SimulatedWorld, limit: timedelta | None, stored: int | None, words: str
):
    _, said = await run(world, Wish(by=1, timeout=limit))
    (made,) = world.cluster.list(SCALE_OUTS)
    assert made["spec"].get("timeout") == stored
    assert words in said
