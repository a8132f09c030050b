"""`et logs` where what is asked for is not there, or not any more."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from datetime import timedelta

import pytest

from et.errors import EtError
from et.logs import Beginning
from et.tailing import follow_logs, show_logs
from et_kube.errors import KubeError, NotFound, Refused, ServerFailed
from et_kube.resources import PODS, SCALE_INS, TRAINING_JOBS, Ref
from tests.makers import make_job, make_scale_in
from tests.simulation.lives import scale, start
from tests.simulation.worlds import SimulatedWorld
from tests.unit.et.rigs import FakeLogs, join, make_screen, read

SECOND = timedelta(seconds=1)
UNHEARD = "dial tcp 10.0.0.7:10250: connect: no route to host"


class LostLogs(FakeLogs):
    """Of pods some of which are on a node that does not answer."""

    lost: frozenset[str] = frozenset()
    error: KubeError = ServerFailed(500, "InternalError", UNHEARD)

    async def read_log(self, ref: Ref, params: Mapping[str, str]) -> AsyncGenerator[bytes, None]:
        if ref.name in self.lost:
            raise self.error
        async for line in FakeLogs.read_log(self, ref, params):
            yield line


@pytest.fixture
async def world() -> SimulatedWorld:
    world = SimulatedWorld()
    await start(world, minReplicas=1, maxReplicas=4)
    return world


async def find_refusal(world: SimulatedWorld, *only: str) -> str:
    with pytest.raises(EtError) as caught:
        await show_logs(join(world), make_screen(), "train", Beginning(), only)
    return str(caught.value)


async def test_a_worker_that_never_was_is_refused_with_who_is_there(world: SimulatedWorld):
    assert await find_refusal(world, "worker-99") == (
        "train has no train-worker-99 (there is launcher, worker-0, worker-1)"
    )
    assert (await find_refusal(world, "wroker-0")).startswith(
        "'wroker-0' is no worker of train: write worker-0, 0, or launcher"
    )


async def test_one_that_has_left_is_told_from_one_that_never_was(world: SimulatedWorld):
    phase = await scale(world, SCALE_INS, make_scale_in("one", podNames=["train-worker-1"]))
    assert phase == "ScaleSucceeded"

    assert await find_refusal(world, "1") == (
        "train-worker-1 has left, and its log with it: what its processes printed is in the "
        "launcher's too (et logs train launcher) (there is launcher, worker-0)"
    )


async def test_after_the_end_the_launchers_log_is_named(world: SimulatedWorld):
    world.end_command(0)
    await world.until(lambda: world.phase() == "Succeeded")
    await world.settle()

    assert "train-worker-0 has left, and its log with it" in await find_refusal(world, "0")
    logs = FakeLogs()
    logs.write("train-launcher", "hello")
    screen = make_screen()
    await show_logs(join(world, logs), screen, "train", Beginning(), ())
    assert read(screen.out) == "launcher | hello"


async def test_where_nothing_is_left_that_is_said():
    world = SimulatedWorld()
    await start(world, cleanPodPolicy="All")
    world.end_command(0)
    await world.until(lambda: world.phase() == "Succeeded")
    await world.settle()

    assert await find_refusal(world) == (
        "the pods of train have gone, and what they printed with them (there is no pod)"
    )
    assert (await find_refusal(world, "launcher")).startswith("the launcher of train has gone")


async def test_who_follows_may_name_a_worker_that_is_yet_to_come(world: SimulatedWorld):
    logs, screen = FakeLogs(), make_screen()
    logs.write("train-worker-2", "two")
    async with asyncio.TaskGroup() as group:
        work = follow_logs(join(world, logs), screen, "train", Beginning(), ["2"])
        task = group.create_task(work)
        await world.clock.advance(SECOND)
        world.change(TRAINING_JOBS, "train", {"spec": {"replicas": 3}}, "scale")
        await world.until(lambda: len(world.workers()) == 3)
        await world.clock.advance(3 * SECOND)
        logs.end("train-worker-2")
        world.end_command(0)
        await world.until(lambda: world.phase() == "Succeeded")
        await world.clock.advance(5 * SECOND)
        assert task.done()

    assert read(screen.out) == "worker-2 | two"
    assert read(screen.err).startswith("no container of train has started yet")


async def test_a_restarted_launcher_says_that_it_is_not_the_first():
    world = SimulatedWorld()
    await start(world)
    world.delete(PODS, "train-launcher")
    await world.until(lambda: world.launchers() == ["train-launcher-r1"])
    await world.settle()
    logs, screen = FakeLogs(), make_screen()
    logs.write("train-launcher-r1", "again")

    await show_logs(join(world, logs), screen, "train", Beginning(), ["launcher"])

    assert read(screen.out) == "launcher-r1 | again"
    assert read(screen.err) == (
        "this is launcher number 2 of train: what those before it printed went with their pods; "
        "`et describe train` has how they ended"
    )


async def test_pods_that_have_not_started_are_no_error():
    world = SimulatedWorld()
    world.create(TRAINING_JOBS, make_job())
    screen = make_screen()

    await show_logs(join(world), screen, "train", Beginning())

    assert "`et describe train` says what it waits for" in read(screen.err)


# ------------------------------------------------------------------ one that cannot be read
MISSING = "warning: the log of worker-1 is missing, or its end: the API server cannot answer now"


def write_logs(world: SimulatedWorld) -> LostLogs:
    logs = LostLogs()
    for pod in world.cluster.list(PODS):
        logs.write(pod["metadata"]["name"], "hello")
    return logs


async def test_a_log_that_cannot_be_read_is_named_and_the_others_are_shown(world: SimulatedWorld):
    logs, screen = write_logs(world), make_screen()
    logs.lost = frozenset({"train-worker-1"})

    assert not await show_logs(join(world, logs), screen, "train", Beginning())

    shown = sorted(line.split()[0] for line in read(screen.out).splitlines())
    assert shown == ["launcher", "worker-0"]
    assert read(screen.err).startswith(MISSING)


async def test_where_no_log_can_be_read_that_is_the_error(world: SimulatedWorld):
    logs = write_logs(world)
    logs.lost = frozenset(logs.lines)

    with pytest.raises(ServerFailed):
        await show_logs(join(world, logs), make_screen(), "train", Beginning())


@pytest.mark.parametrize("is_back", [True, False])
async def test_a_follower_ends_though_a_log_stays_unread(world: SimulatedWorld, *, is_back: bool):
    logs, screen, answers = write_logs(world), make_screen(), []
    logs.lost = frozenset({"train-worker-1"})

    async def follow() -> None:
        answers.append(await follow_logs(join(world, logs), screen, "train", Beginning()))

    async with asyncio.TaskGroup() as group:
        task = group.create_task(follow())
        await world.clock.settle()
        if is_back:
            logs.lost = frozenset()
        for name in list(logs.lines):
            logs.end(name)
        world.end_command(0)
        await world.until(lambda: world.phase() == "Succeeded")
        for _ in range(40):
            await world.clock.advance(2 * SECOND)
        assert task.done()

    assert answers == [is_back]
    assert ("worker-1 | hello" in read(screen.out)) == is_back
    assert read(screen.err).startswith(MISSING)


UNKNOWN = NotFound(404, "NotFound", 'pod "train-worker-1" does not exist')
"""What a kubelet says that has just started, of each of its pods."""
REFUSED = Refused(400, "BadRequest", "unable to retrieve container logs for containerd://abc")


@pytest.mark.parametrize("error", [UNKNOWN, REFUSED])
async def test_the_log_of_a_pod_that_is_there_is_asked_for_again_whatever_its_node_says(
    world: SimulatedWorld, error: KubeError
):
    logs, screen = write_logs(world), make_screen()
    logs.lost, logs.error = frozenset({"train-worker-1"}), error

    async with asyncio.TaskGroup() as group:
        work = follow_logs(join(world, logs), screen, "train", Beginning())
        task = group.create_task(work)
        await world.clock.advance(5 * SECOND)
        assert "worker-1 |" not in read(screen.out)
        logs.lost = frozenset()
        for name in list(logs.lines):
            logs.end(name)
        await world.clock.advance(5 * SECOND)
        assert "worker-1 | hello" in read(screen.out)
        world.end_command(0)
        await world.until(lambda: world.phase() == "Succeeded")
        await world.clock.advance(5 * SECOND)
        assert task.done()

    assert task.result()


@pytest.mark.parametrize("error", [UNKNOWN, REFUSED])
async def test_one_that_stays_unread_is_named_while_the_job_runs_and_is_no_success(
    world: SimulatedWorld, error: KubeError
):
    logs, screen = write_logs(world), make_screen()

    async with asyncio.TaskGroup() as group:
        work = follow_logs(join(world, logs), screen, "train", Beginning())
        task = group.create_task(work)
        await world.clock.advance(SECOND)
        logs.lost, logs.error = frozenset({"train-worker-1"}), error
        logs.end("train-worker-1")
        await world.clock.advance(65 * SECOND)
        assert read(screen.err).startswith("warning: the log of worker-1 is missing, or its end: ")
        logs.write("train-launcher", "bye")
        for name in list(logs.lines):
            logs.end(name)
        world.end_command(0)
        await world.until(lambda: world.phase() == "Succeeded")
        await world.clock.advance(65 * SECOND)
        assert task.done()

    assert not task.result()
    assert "launcher | bye" in read(screen.out)
    assert read(screen.err).count("warning") == 1


async def test_nor_is_a_pod_gone_when_its_log_is_asked_for_once(world: SimulatedWorld):
    logs, screen = write_logs(world), make_screen()
    logs.lost, logs.error = frozenset({"train-worker-1"}), UNKNOWN

    assert not await show_logs(join(world, logs), screen, "train", Beginning())

    assert read(screen.err) == (
        "warning: the log of worker-1 is missing, or its end: the pod is there, its log is not "
        '(now): pod "train-worker-1" does not exist'
    )
