"""`et watch` and `et logs -f` on a job that a simulated operator runs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise

import pytest

from et.describing import describe, list_facts
from et.logs import Beginning, LauncherLog
from et.pictures import Picture
from et.submitting import Manner, submit_and_watch
from et.tailing import follow_logs, show_logs
from et.watching import Watcher, watch
from et.whys import explain, list_reasons
from et_kube.errors import OutcomeUnknown, Refused, Unreachable
from et_kube.resources import SCALE_OUTS, TRAINING_JOBS, Ref
from et_operator.codec.decoding import decode_job
from et_operator.codec.statuses import encode_status
from et_operator.model.conditions import Condition
from et_operator.model.statuses import JobStatus, ScalingKind, ScalingRecord
from fakes.clients import Call, Moment
from tests.makers import make_job, make_scale_out
from tests.simulation.lives import start
from tests.simulation.worlds import NAMESPACE, SimulatedWorld
from tests.unit.et.rigs import FakeLogs, join, make_screen, read

SECOND = timedelta(seconds=1)
LAUNCHER = "train-launcher"


@pytest.fixture
async def world() -> SimulatedWorld:
    world = SimulatedWorld()
    await start(world, minReplicas=1, maxReplicas=4)
    return world


async def end(world: SimulatedWorld, logs: FakeLogs, code: int = 0) -> None:
    """The command ends, and the operator clears up."""
    world.end_command(code)
    for pod in logs.lines:
        logs.end(pod)
    await world.until(lambda: world.phase() in {"Succeeded", "Failed"})
    await world.clock.advance(5 * SECOND)


@pytest.mark.long
async def test_a_pipe_gets_a_line_whenever_something_changes(world: SimulatedWorld):
    logs, screen = FakeLogs(), make_screen()
    async with asyncio.TaskGroup() as group:
        task = group.create_task(watch(join(world, logs), screen, "train"))
        await world.clock.advance(SECOND)
        logs.write(LAUNCHER, "[0]<stdout>:step=1/9 loss=0.5 size=2")
        await world.clock.advance(3 * SECOND)
        world.create(SCALE_OUTS, make_scale_out("grow", count=2))
        await world.until(lambda: len(world.workers()) == 4)
        logs.write(LAUNCHER, "[0]<stdout>:step=2/9 loss=0.4 size=4")
        await world.clock.advance(3 * SECOND)
        await end(world, logs)

    words = read(screen.out)
    assert task.result()
    assert "workers 2/2  step 1/9  loss 0.5  world size 2" in words
    assert "ScaleOut grow: 2 -> 4 workers in" in words
    assert "workers 4/4  step 2/9  loss 0.4  world size 4" in words
    assert words.endswith("train has succeeded: the user's command ended with 0")
    assert "\x1b" not in words
    assert all(one != other for one, other in pairwise(words.splitlines()))


@pytest.mark.long
async def test_who_has_just_made_a_job_watches_it_when_the_server_answers_again(
    world: SimulatedWorld,
):
    def fail(call: Call, moment: Moment) -> None:
        is_read = call.user == "et" and call.verb == "get" and moment is Moment.BEFORE
        if is_read and world.clock.monotonic() < back:
            failures.append(call)
            raise Unreachable("connection refused")

    failures: list[Call] = []
    logs, screen, back = FakeLogs(), make_screen(), world.clock.monotonic() + 60
    stored = world.cluster.get(world.ref(TRAINING_JOBS, "train"))
    world.log.faults.append(fail)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(watch(join(world, logs), screen, "train", stored=stored))
        await world.clock.advance(70 * SECOND)
        await end(world, logs)

    assert task.result()
    assert len(failures) > 10


async def test_what_was_submitted_is_watched_though_it_cannot_be_read_at_first(
    world: SimulatedWorld,
):
    def fail(call: Call, moment: Moment) -> None:
        is_read = (call.user, call.verb, moment) == ("et", "get", Moment.BEFORE)
        if is_read and world.clock.monotonic() < back:
            raise Unreachable("connection refused")

    screen, back = make_screen(), world.clock.monotonic() + 10
    world.log.faults.append(fail)
    objects = [(TRAINING_JOBS, make_job("other"))]
    async with asyncio.TaskGroup() as group:
        manner = Manner(is_watching=True)
        task = group.create_task(submit_and_watch(join(world), screen, objects, manner))
        await world.clock.advance(20 * SECOND)
        world.cluster.delete(world.ref(TRAINING_JOBS, "other"))
        await world.clock.advance(20 * SECOND)

    assert not task.result()
    assert read(screen.out).endswith("other was deleted")


async def test_who_only_watches_is_told_at_once_that_there_is_no_server(world: SimulatedWorld):
    def fail(call: Call, moment: Moment) -> None:
        if call.user == "et" and moment is Moment.BEFORE:
            raise Unreachable("connection refused")

    world.log.faults.append(fail)
    with pytest.raises(Unreachable):
        await watch(join(world), make_screen(), "train")


@pytest.mark.long
async def test_a_server_that_stays_away_is_not_asked_for_ever(world: SimulatedWorld):
    def fail(call: Call, moment: Moment) -> None:
        if call.user == "et" and moment is Moment.BEFORE:
            raise Unreachable("connection refused")

    async def measure() -> float:
        began = world.clock.monotonic()
        with pytest.raises(Unreachable):
            await watch(join(world), make_screen(), "train", stored=stored)
        return world.clock.monotonic() - began

    stored = world.cluster.get(world.ref(TRAINING_JOBS, "train"))
    world.log.faults.append(fail)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(measure())
        await world.clock.advance(timedelta(minutes=6))

    assert task.result() == pytest.approx(300, abs=3)


@pytest.mark.long
async def test_a_terminal_gets_a_picture_that_is_drawn_again(world: SimulatedWorld):
    logs, screen = FakeLogs(), make_screen(is_terminal=True)
    async with asyncio.TaskGroup() as group:
        group.create_task(watch(join(world, logs), screen, "train"))
        await world.clock.advance(SECOND)
        logs.write(LAUNCHER, "step=3/4 size=2", "step=4/4 size=3")
        await world.clock.advance(3 * SECOND)
        await end(world, logs)

    words = read(screen.out)
    assert "\x1b[" in words
    assert "####################" in words
    assert "2 -> 3" in words
    assert max(map(len, words.split("\x1b[2K"))) < 80 * 20


async def test_a_job_that_fails_ends_the_watch_with_its_reason(world: SimulatedWorld):
    logs, screen = FakeLogs(), make_screen()
    async with asyncio.TaskGroup() as group:
        task = group.create_task(watch(join(world, logs), screen, "train"))
        await world.clock.settle()
        logs.write(LAUNCHER, "[0]<stderr>:ValueError: no data")
        await end(world, logs, code=3)

    assert not task.result()
    assert "train has failed: " in read(screen.out)
    assert "its error: ValueError: no data   (et logs train launcher)" in read(screen.out)


async def test_a_job_that_is_deleted_ends_the_watch(world: SimulatedWorld):
    screen = make_screen()
    async with asyncio.TaskGroup() as group:
        task = group.create_task(watch(join(world), screen, "train"))
        await world.clock.settle()
        world.delete(TRAINING_JOBS, "train")
        await world.settle()
        await world.clock.settle()

    assert not task.result()
    assert "train was deleted" in read(screen.out)


@pytest.mark.long
async def test_a_log_that_may_not_be_read_is_noted_and_the_job_watched_on(world: SimulatedWorld):
    class Closed(FakeLogs):
        async def read_log(
            self, ref: Ref, params: Mapping[str, str]
        ) -> AsyncGenerator[bytes, None]:
            raise Refused(403, "Forbidden", "pods/log is forbidden")
            yield b""

    screen = make_screen(is_terminal=True)
    logs = Closed()
    async with asyncio.TaskGroup() as group:
        task = group.create_task(watch(join(world, logs), screen, "train"))
        await world.clock.advance(3 * SECOND)
        await end(world, logs)

    assert task.result()
    assert "the log cannot be read: you may not do this" in read(screen.out)


@pytest.mark.long
async def test_followed_logs_have_names_and_those_of_new_workers(world: SimulatedWorld):
    logs, screen = FakeLogs(), make_screen()
    logs.write(LAUNCHER, "hello")
    logs.write("train-worker-0", "zero")
    async with asyncio.TaskGroup() as group:
        group.create_task(follow_logs(join(world, logs), screen, "train", Beginning()))
        await world.clock.advance(SECOND)
        logs.write("train-worker-2", "two")
        world.create(SCALE_OUTS, make_scale_out("grow"))
        await world.until(lambda: len(world.workers()) == 3)
        await world.clock.advance(3 * SECOND)
        logs.write("train-worker-0", "more")
        await world.clock.advance(3 * SECOND)
        await end(world, logs)

    assert read(screen.out).splitlines() == [
        "launcher | hello",
        "worker-0 | zero",
        "worker-2 | two",
        "worker-0 | more",
    ]


async def test_a_stream_that_a_kubelet_keeps_open_ends_with_its_pod(world: SimulatedWorld):
    logs, screen = FakeLogs(), make_screen()
    logs.write("train-worker-1", "one")
    logs.write(LAUNCHER, "hello")
    async with asyncio.TaskGroup() as group:
        task = group.create_task(follow_logs(join(world, logs), screen, "train", Beginning()))
        await world.clock.advance(SECOND)
        world.end_command(0)
        logs.end(LAUNCHER)  # and nothing ends the worker's
        await world.until(lambda: world.phase() == "Succeeded")
        await world.clock.advance(10 * SECOND)
        has_ended = task.done()
        logs.end("train-worker-1")

    assert has_ended


async def test_following_goes_on_where_a_stream_or_the_server_broke(world: SimulatedWorld):
    class Breaking(FakeLogs):
        async def read_log(
            self, ref: Ref, params: Mapping[str, str]
        ) -> AsyncGenerator[bytes, None]:
            async for line in FakeLogs.read_log(self, ref, params):
                yield line
                if "follow" in params and self.breaks:
                    self.breaks -= 1
                    raise OutcomeUnknown("the connection is gone")

    failures = []

    def fail_twice(call: Call, moment: Moment) -> None:
        if call.user == "et" and moment is Moment.BEFORE and len(failures) < 2:
            failures.append(call)
            raise OutcomeUnknown("no answer")

    logs, screen = Breaking(breaks=2), make_screen()
    logs.write(LAUNCHER, "one")
    async with asyncio.TaskGroup() as group:
        task = group.create_task(follow_logs(join(world, logs), screen, "train", Beginning()))
        await world.clock.advance(SECOND)
        world.log.faults.append(fail_twice)
        logs.write(LAUNCHER, "two", "three", "four")
        await world.clock.advance(10 * SECOND)
        await end(world, logs)

    assert task.done()
    assert len(failures) == 2
    assert [line.split(" | ")[1] for line in read(screen.out).splitlines()] == [
        *("one", "two", "three", "four")
    ]


async def test_logs_of_some_workers_and_the_end_of_a_progress_bar(world: SimulatedWorld):
    logs, screen = FakeLogs(), make_screen(is_terminal=True)
    logs.write(LAUNCHER, "hello")
    logs.write("train-worker-1", "0%\r50%\r100%")

    await show_logs(join(world, logs), screen, "train", Beginning(), ["1"])

    words = read(screen.out)
    assert "worker-1 | " in words
    assert "100%" in words
    assert "50%" not in words
    assert "hello" not in words


async def test_why_a_job_has_failed_is_read_in_its_log(world: SimulatedWorld):
    logs, screen = FakeLogs(), make_screen()
    logs.write(LAUNCHER, "[0]<stderr>:ValueError: no data", "RuntimeError: Horovod detected that")
    await end(world, logs, code=3)

    await explain(join(world, logs), screen, "train", as_json=False)

    assert read(screen.out).splitlines()[-1].split(maxsplit=1) == ["error", "ValueError: no data"]


async def test_an_error_that_the_end_has_named_is_not_told_again(world: SimulatedWorld):
    logs, screen, seen = FakeLogs(), make_screen(), make_screen()
    logs.write(LAUNCHER, "ValueError: no data")
    await end(world, logs, code=3)
    stored = world.get(TRAINING_JOBS, "train")
    (failed,) = [c for c in stored["status"]["conditions"] if c["type"] == "Failed"]
    failed["message"] = "the launcher ended with exit code 3: ...in main\nValueError: no data"
    ref = Ref(TRAINING_JOBS, NAMESPACE, "train")
    world.cluster.patch(ref, {"status": stored["status"]}, subresource="status")

    await explain(join(world, logs), screen, "train", as_json=False)
    await watch(join(world, logs), seen, "train")

    assert read(screen.out).count("ValueError: no data") == 1
    assert read(seen.out).count("ValueError: no data") == 1


async def test_a_pipe_gets_a_line_of_each_trouble_and_wait_and_when_it_is_over(
    world: SimulatedWorld,
):
    def tell(*told: Condition) -> None:
        status = encode_status(replace(watcher.picture.job.status, conditions=told))
        watcher.see(world.get(TRAINING_JOBS, "train") | {"status": status})

    screen = make_screen()
    cluster, job = join(world), decode_job(world.get(TRAINING_JOBS, "train"))
    watcher = Watcher(cluster, screen, Picture(job), LauncherLog(cluster))
    bad = Condition("ImagePullFailing", "True", "ImagePull", "no such image")
    waits = Condition("Awaiting", "True", "Awaiting", "the next launcher is created at 12:00")
    more = Condition("Scaling", "True", "ScaleOut", "2 -> 3 workers; waits: for a node")
    for told in ((bad,), (bad,), (bad, waits), (bad, waits, more), ()):
        tell(*told)

    lines = [line.split("  ", 1)[1] for line in read(screen.out).splitlines()]
    assert [line for line in lines if "workers 2/2" not in line] == [
        "trouble: ImagePullFailing: no such image",
        "waits: the next launcher is created at 12:00",
        "the scaling waits: for a node",
        "ImagePullFailing is over",
        "the wait of the scaling is over",
        "the wait is over",
    ]


async def test_a_job_that_runs_for_minutes_without_a_step_is_told_of(world: SimulatedWorld):
    async def ask(*lines: str) -> str:
        logs, screen = FakeLogs(), make_screen()
        logs.write(LAUNCHER, *lines)
        await explain(join(world, logs), screen, "train", as_json=False)
        return " ".join(read(screen.out).split())

    assert "no step was seen" not in await ask("hello")
    await world.clock.advance(timedelta(minutes=4))
    words = await ask("hello")
    assert "training" in words
    assert "2 workers run for 4 min: a script that waits before hvd.init()" in words
    assert "no step was seen" not in await ask("hello", "[0]<stdout>:step 3 loss 0.1")


async def test_what_a_job_and_its_scaling_wait_for_is_shown(world: SimulatedWorld):
    waits = "train-worker-2: Unschedulable: no node"
    now = world.clock.now()
    told = (
        Condition("Scaling", "True", "ScaleOut", f"2 -> 3 workers; waits: {waits}", now),
        Condition("Awaiting", "True", "Awaiting", "the next launcher is created at", now),
    )
    record = ScalingRecord(ScalingKind.OUT, "more", "u", 2, 3, now)
    status = encode_status(JobStatus(conditions=told, scaling=record, decided_replicas=2))
    job = decode_job(world.get(TRAINING_JOBS, "train") | {"status": status})
    reasons = list(list_reasons(job, None, [], [], now))
    assert ("scaling", f"2 -> 3 workers; waits: {waits}") in reasons
    assert ("waits", "the next launcher is created at") in reasons
    facts = dict(list_facts(job, now))
    assert facts["waits"] == "the next launcher is created at"
    assert str(facts["scaling"]) == f"ScaleOut 2 -> 3  ({waits})"


def print_loss(world: SimulatedWorld, logs: FakeLogs) -> None:
    """The launcher's log of a training that loses a worker now, and goes on 4 s later."""
    began = world.clock.now() - timedelta(seconds=10)
    lost = "[1]<stderr>:edl: train-worker-1: the worker's pod is gone"
    texts = [*(f"step={n} size=2" for n in range(1, 11)), lost, "step=10 size=1"]
    texts += [f"step={n} size=1" for n in range(11, 81)]
    for place, text in enumerate(texts):
        seconds = place if place <= 9 else 10 if text == lost else place + 2
        logs.write(LAUNCHER, text, at=began + timedelta(seconds=seconds))


COST = "train-worker-1 was lost: no step for 4.0 s (from step to step it takes 1.0 s), 1 step"


@pytest.mark.long
async def test_who_watches_sees_what_a_loss_has_cost(world: SimulatedWorld):
    logs, pipe, terminal = FakeLogs(), make_screen(), make_screen(width=160, is_terminal=True)
    async with asyncio.TaskGroup() as group:
        group.create_task(watch(join(world, logs), pipe, "train"))
        group.create_task(watch(join(world, logs), terminal, "train"))
        await world.clock.advance(SECOND)
        print_loss(world, logs)
        await world.clock.advance(3 * SECOND)
        await end(world, logs)

    assert read(pipe.out).count(COST) == 1
    assert COST in read(terminal.out)


@pytest.mark.long
async def test_a_description_has_the_newest_loss_and_what_it_cost(world: SimulatedWorld):
    logs, screen, programs = FakeLogs(), make_screen(width=160), make_screen(width=400)
    await describe(join(world, logs), screen, "train", as_json=False)
    assert not [name for name, _ in logs.requests], "without a loss no log is read"
    assert "last loss" not in read(screen.out)

    world.kubelet.fail("train-worker-1")
    left = ["train-worker-0", "train-worker-2"]
    await world.until(lambda: world.broker.find_hosts("train") == left)
    print_loss(world, logs)
    await world.clock.advance(10 * SECOND)
    await describe(join(world, logs), screen, "train", as_json=False)
    await describe(join(world, logs), programs, "train", as_json=True)

    lines = read(screen.out).splitlines()
    told = [line.partition("last loss")[2].strip() for line in lines if "last loss" in line]
    assert told[0].startswith("2 hosts again, ")
    assert told[1].startswith(COST)
    assert json.loads(read(programs.out))["lastLoss"].startswith(COST)
