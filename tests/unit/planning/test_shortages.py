"""A command that waits for workers, some of whom it has given up: what it had, and what it can use.

A node dies and Gloo aborts ranks beside it; horovodrun gives their hosts up and waits. Of the three
news, which come from a broker and from the platform, any may be the first.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from et_operator.model.specs import RestartPolicy
from tests.planning_makers import ModelWorld, make_job
from tests.unit.planning.test_exhausting import fail_again, use_up

NEVER = 3000


def start(workers: int = 4, least: int = 4) -> ModelWorld:
    job = make_job(workers, minimum=1, command_least=least)
    assert job.spec is not None
    spec = replace(job.spec, restart_policy=RestartPolicy.NEVER, backoff_limit=0)
    world = ModelWorld(replace(job, spec=spec))
    world.start()
    world.wait(3600)
    world.settle()
    return world


def lose(world: ModelWorld, name: str) -> None:
    world.delete(name)
    world.settle()
    world.reap(name)
    world.settle()


def keep_known(world: ModelWorld) -> None:
    """What a broker does with what the config has forgotten."""
    assert world.config is not None
    assert world.report is not None
    kept = {member.uid for member in world.config.members}
    report, used_up = world.report, world.report.used_up
    world.report = replace(
        report,
        listed=report.listed & kept,
        closed=report.closed & kept,
        used_up={uid: code for uid, code in used_up.items() if uid in kept},
    )


def live(world: ModelWorld, until: int, happens: dict[int, str], joins: int) -> None:
    """Two bystanders, one lost worker, and one new one that finds room; the others find none."""
    begun = world.now
    for second in range(0, until, 4):
        name = happens.get(second)
        if name == "job-worker-1":
            lose(world, name)
        elif name is not None:
            use_up(world, name)
        world.serve(list_new=second >= joins)
        world.settle()
        if second == joins:
            world.run("job-worker-4")
            world.settle()
            world.serve()
            world.settle()
        world.reap()
        world.settle()
        keep_known(world)
        world.settle()
        world.wait(4)
        world.settle()
    assert (world.now - begun).total_seconds() == until


@pytest.mark.long
@pytest.mark.parametrize(
    ("lost", "used_up"),
    [(344, (132, 152)), (344, (NEVER, NEVER)), (60, (132, 152)), (140, (132, 152))],
)
def test_who_tells_first_what_became_of_the_workers_is_no_matter(
    lost: int, used_up: tuple[int, int]
) -> None:
    world = start()
    first, second = used_up
    happens = {second + 4: "job-worker-3", first: "job-worker-2", lost: "job-worker-1"}
    live(world, 752, happens, joins=240)
    assert world.status.shortage is not None
    world.finish(1)
    world.settle()
    assert world.reason("Restarting") == "WorkerLost"


@pytest.mark.long
def test_one_that_never_had_enough_is_short_by_itself_whoever_was_used_up() -> None:
    world = start(3)
    live(world, 752, {132: "job-worker-2", 344: "job-worker-1"}, joins=NEVER)
    assert world.status.shortage is None
    world.finish(1)
    world.settle()
    assert world.reason("Failed") == "LauncherFailed"


@pytest.mark.long
def test_nor_is_it_a_loss_that_some_are_used_up_and_find_no_successor() -> None:
    world = start()
    live(world, 752, {132: "job-worker-2", 152: "job-worker-3"}, joins=NEVER)
    assert world.status.shortage is None
    world.finish(1)
    world.settle()
    assert world.reason("Failed") == "LauncherFailed"


@pytest.mark.long
@pytest.mark.parametrize("is_told_last", [False, True])
def test_one_that_is_used_up_and_stays_is_none_that_the_command_has(*, is_told_last: bool) -> None:
    """Ranks failed in too many; later a node is drained. A broker forgets them with the command."""
    world = start(3, least=2)
    for _ in range(10):
        fail_again(world, lives=120)
    assert world.condition("RanksFailing") == "True"
    assert world.report is not None
    world.wait(3600)
    world.settle()
    [good, *_] = [n for n in world.workers if world.pods[n].uid not in world.report.used_up]
    lose(world, good)
    for _ in range(120):
        world.wait(5)
        world.serve(list_new=False)
        world.settle()
    assert world.status.shortage is not None
    if is_told_last:
        world.report = replace(world.report, used_up={})
    world.finish(1)
    world.settle()
    assert world.reason("Restarting") == "WorkerLost"
