"""`et rehearse` against the whole operator, in a simulated world."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from et.choosing import check, choose
from et.errors import EtError
from et.paces import MOST_LINES
from et.reading import EVENTS
from et.rehearsing import KILL_RANK, Wish, prepare, rehearse
from et.screens import Screen
from et_contract.paths import RANK_STATES_DIR
from et_kube.errors import KubeError, Refused
from et_kube.notices import LEAVING_AT, LEAVING_REASON
from et_kube.resources import NODES, PODS, SCALE_INS, SCALE_OUTS, TRAINING_JOBS, Ref
from et_kube.times import format_time
from et_operator.codec.decoding import decode_job
from et_operator.model.conditions import Condition
from et_operator.model.statuses import JobStatus
from fakes.clients import Call, Moment
from tests.makers import make_scale_in, make_scale_out
from tests.planning_makers import make_job, make_spec
from tests.simulation.lives import start
from tests.simulation.worlds import NAMESPACE, SimulatedWorld
from tests.unit.et.rigs import FakeContainers, FakeLogs, join, make_screen, read
from tests.unit.et.test_commands import Desk
from tests.unit.et.test_deleting import Answering

SECOND = timedelta(seconds=1)
KILL = Wish(is_kill=True, is_sure=True)
RANK = replace(KILL, is_rank=True)
NOTICE = Wish(is_sure=True)
LAUNCHER = "train-launcher"
LOST, HEIR = "train-worker-1", "train-worker-2"


@pytest.fixture
async def world() -> SimulatedWorld:
    world = SimulatedWorld()
    await start(world, minReplicas=1)
    await world.settle(timedelta(minutes=2))
    return world


class Trainer:
    """Prints a step each second, but for a while after a worker was lost; some of them again."""

    def __init__(self, world: SimulatedWorld, pause: int = 0, again: int = 0) -> None:
        self.world, self.logs, self.containers = world, FakeLogs(), FakeContainers()
        self.pause, self.again, self.step, self.had_both = pause, again, 0, True

    def go(self) -> None:
        has_both = len(self.world.workers()) >= 2 and LOST in self.world.workers()
        if self.had_both and not has_both:
            self.had_both, self.step = False, self.step - self.again
        elif not self.had_both and self.pause > 0:
            self.pause -= 1
            return
        self.step += 1
        size = len(self.world.broker.find_hosts("train"))
        line = f"[0]<stdout>:step={self.step} loss=0.1 size={size}"
        self.logs.write(LAUNCHER, line, at=self.world.clock.now())

    async def live(self, seconds: int) -> None:
        for _ in range(seconds):
            self.go()
            await self.world.rest()
            await self.world.clock.advance(SECOND)


async def try_to(
    trainer: Trainer,
    screen: Screen,
    wish: Wish,
    *,
    seconds: int = 300,
    before: Callable[[asyncio.Task[None]], Awaitable[None]] | None = None,
) -> tuple[bool | None, list[Exception]]:
    """Rehearse it while the world goes on; what it answered, and what it raised."""
    answers: list[bool] = []
    raised: list[Exception] = []

    async def go() -> None:
        cluster = join(trainer.world, trainer.logs, trainer.containers)
        try:
            answers.append(await rehearse(cluster, screen, "train", wish))
        except (EtError, KubeError) as error:
            raised.append(error)

    await trainer.live(10)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(go())
        if before is not None:
            await before(task)
        for _ in range(seconds):
            if task.done():
                break
            await trainer.live(1)
        assert task.done()
    return next(iter(answers), None), raised


def read_mark(world: SimulatedWorld, name: str = LOST) -> object:
    return (world.get(PODS, name).get("metadata", {}).get("annotations") or {}).get(LEAVING_AT)


def tell(world: SimulatedWorld, reason: str, text: str) -> None:
    """An Event about the job."""
    job = world.get(TRAINING_JOBS, "train")["metadata"]
    about = {"kind": "TrainingJob", "name": "train", "uid": job["uid"]}
    body = {
        "metadata": {"name": f"train.{reason.lower()}"},
        "involvedObject": about,
        "reason": reason,
        "message": text,
        "type": "Normal",
        "eventTime": format_time(world.clock.now()),
    }
    world.cluster.create(EVENTS, NAMESPACE, body)


@pytest.mark.long
async def test_a_killed_worker_costs_the_pause_and_the_steps_again(world: SimulatedWorld):
    screen = make_screen()
    answer, raised = await try_to(Trainer(world, pause=6, again=3), screen, KILL)

    assert (answer, raised) == (True, [])
    said = read(screen.out).splitlines()
    assert said[:2] == [f"{LOST} is killed", "what the loss of train-worker-1 cost train:"]
    assert said[2].startswith("  no step for ")
    assert said[3] == "  3 steps trained again"
    assert said[4] == f"  {LOST} has gone"
    assert said[5].startswith("  2 hosts again ")
    assert said[5].endswith("with train-worker-2 in its place")
    assert said[6] == "what would lower that, or the risk:"
    assert "a commit more often: the last one was 3 steps old" in said[7]
    assert world.workers() == ["train-worker-0", "train-worker-2"]


@pytest.mark.long
async def test_it_is_killed_without_grace_and_no_other_of_its_name(world: SimulatedWorld):
    uid = world.get(PODS, LOST)["metadata"]["uid"]
    await try_to(Trainer(world), make_screen(), KILL)

    [call] = [c for c in world.log.calls if (c.user, c.verb) == ("et", "delete")]
    assert call.ref.name == LOST
    assert (call.body["uid"], call.body["grace"]) == (uid, 0)


@pytest.mark.long
async def test_one_rank_is_killed_by_exec_and_its_worker_replaced_as_after_any_failure(
    world: SimulatedWorld,
):
    screen, trainer = make_screen(), Trainer(world, pause=2, again=1)

    def kill(ref: Ref) -> str:
        world.broker.use_up("train", ref.name)
        return "42\n"

    trainer.containers.answer = kill
    answer, raised = await try_to(trainer, screen, RANK)

    assert (answer, raised) == (True, [])
    [(pod, container, (shell, _, script))] = trainer.containers.asked
    assert (pod, container, shell) == (LOST, "trainer", "sh")
    assert RANK_STATES_DIR in script
    said = read(screen.out)
    assert said.startswith(f"process 42 in {LOST}, one of its ranks, is killed\n")
    assert "1 step trained again" in said
    assert "with train-worker-2 in its place" in said
    assert not [c for c in world.log.calls if (c.user, c.verb) == ("et", "delete")]


async def test_where_no_process_says_that_it_is_a_rank_none_is_killed(world: SimulatedWorld):
    _, [error] = await try_to(Trainer(world), make_screen(), RANK)
    words = f"nothing was done: no process in {LOST} says that it is in a ring"
    assert str(error).startswith(words)


def test_what_kills_a_rank_takes_one_that_has_said_that_it_is_in_a_ring(tmp_path: Path):
    ranks = [subprocess.Popen(["sleep", "60"], start_new_session=True) for _ in range(5)]
    for rank, state in zip(ranks, ("imported", "joined", "entered"), strict=False):
        (tmp_path / str(rank.pid)).write_text(state)
    (tmp_path / "999999999").write_text("joined")  # one that has ended
    (tmp_path / f"-{ranks[3].pid}").write_text("joined")  # for kill, all of a group
    (tmp_path / str(ranks[4].pid)).symlink_to(tmp_path / "999999999")
    os.mkfifo(tmp_path / "1")
    script = KILL_RANK.replace(RANK_STATES_DIR, str(tmp_path))
    try:
        told = subprocess.run(
            ["sh", "-c", script], capture_output=True, check=True, text=True, timeout=10
        )
        assert told.stdout == f"{ranks[1].pid}\n"
        assert ranks[1].wait(10) == -signal.SIGKILL
        assert [rank.poll() for rank in ranks if rank is not ranks[1]] == [None] * 4
    finally:
        for rank in ranks:
            rank.kill()
            rank.wait()


@pytest.mark.long
async def test_a_notice_moves_the_worker_and_the_command_says_how_it_left(world: SimulatedWorld):
    screen, trainer = make_screen(), Trainer(world, pause=2)
    world.kubelet.waiting[HEIR] = "nobody's"

    async def prove(_: asyncio.Task[None]) -> None:
        await trainer.live(20)
        assert read_mark(world)
        assert LOST in world.workers()
        world.kubelet.waiting.clear()
        while LOST in world.workers():
            await trainer.live(1)
        tell(world, "WorkerMoved", f"worker {LOST} left: graceful, 19 s before its end")

    answer, raised = await try_to(trainer, screen, NOTICE, before=prove)

    assert (answer, raised) == (True, [])
    said = read(screen.out)
    assert f"{LOST} is told that it ends at " in said
    assert "WorkerMoved  worker train-worker-1 left: graceful" in said
    assert f"\n  {LOST} left: graceful, 19 s before its end\n" in said
    assert "no step trained again" in said
    assert f"or the risk:\n  room that is free: no node had any for {HEIR} for 18 s" in said
    assert LOST not in world.workers()


@pytest.mark.long
async def test_who_is_interrupted_takes_the_notice_back_and_the_worker_stays(
    world: SimulatedWorld,
):
    screen, trainer = make_screen(), Trainer(world)
    world.kubelet.waiting[HEIR] = "nobody's"

    async def interrupt(task: asyncio.Task[None]) -> None:
        await trainer.live(5)
        assert read_mark(world)
        task.cancel()
        await trainer.live(1)

    await try_to(trainer, screen, NOTICE, before=interrupt)
    await trainer.live(100)

    assert not read_mark(world)
    assert LOST in world.workers()
    assert read(screen.err) == f"what {LOST} was told is taken back, and it stays"


@pytest.mark.long
@pytest.mark.parametrize("when", ["before", "meanwhile"])
async def test_what_others_have_told_of_its_end_is_not_taken_back(world: SimulatedWorld, when: str):
    screen, trainer = make_screen(), Trainer(world)
    world.kubelet.waiting[HEIR] = "nobody's"
    marks = {LEAVING_AT: "2030-01-01T00:00:00Z", LEAVING_REASON: "AWS takes it back"}

    def tell_meanwhile(call: Call, moment: Moment) -> None:
        if (call.user, call.verb, moment) == ("et", "patch", Moment.BEFORE):
            world.change(PODS, LOST, {"metadata": {"annotations": marks}})

    async def interrupt(task: asyncio.Task[None]) -> None:
        await trainer.live(5)
        if when == "before":
            world.change(PODS, LOST, {"metadata": {"annotations": marks}})
        else:
            world.log.faults.append(tell_meanwhile)
        task.cancel()
        await trainer.live(1)

    await try_to(trainer, screen, NOTICE, before=interrupt)

    assert read_mark(world) == marks[LEAVING_AT]
    assert read(screen.err) == f"{LOST} is told something else by now, and that stays"


async def test_one_of_whose_end_others_have_told_meanwhile_is_told_nothing(world: SimulatedWorld):
    marks = {LEAVING_AT: "2030-01-01T00:00:00Z"}

    def tell_meanwhile(call: Call, moment: Moment) -> None:
        if (call.user, call.verb, moment) == ("et", "patch", Moment.BEFORE):
            world.change(PODS, LOST, {"metadata": {"annotations": marks}})

    world.log.faults.append(tell_meanwhile)
    screen = make_screen()
    _, [error] = await try_to(Trainer(world), screen, NOTICE)

    assert str(error) == f"{LOST} has gone or changed meanwhile: nothing was done"
    assert read_mark(world) == marks[LEAVING_AT]
    assert read(screen.err) == ""


@pytest.mark.long
async def test_what_cannot_be_taken_back_is_said_with_what_to_type(world: SimulatedWorld):
    screen, trainer = make_screen(), Trainer(world)
    world.kubelet.waiting[HEIR] = "nobody's"

    def refuse(call: Call, moment: Moment) -> None:
        if (call.user, call.verb, moment) == ("et", "patch", Moment.BEFORE):
            raise Refused(403, "Forbidden", "may not")

    async def interrupt(task: asyncio.Task[None]) -> None:
        await trainer.live(5)
        world.log.faults.append(refuse)
        task.cancel()
        await trainer.live(1)

    await try_to(trainer, screen, NOTICE, before=interrupt)

    assert f"annotate pod {LOST} -n {NAMESPACE} {LEAVING_AT}-" in read(screen.err)


async def test_who_may_not_tell_it_is_told_so_and_nothing_of_what_is_left(world: SimulatedWorld):
    def refuse(call: Call, moment: Moment) -> None:
        if (call.user, call.verb, moment) == ("et", "patch", Moment.BEFORE):
            raise Refused(403, "Forbidden", "may not")

    world.log.faults.append(refuse)
    screen = make_screen()
    _, [error] = await try_to(Trainer(world), screen, NOTICE)

    assert isinstance(error, Refused)
    assert read(screen.err) == ""


@pytest.mark.long
async def test_a_worker_that_does_not_come_back_in_time_is_said(world: SimulatedWorld):
    world.kubelet.waiting["train-worker-2"] = "0/2 nodes are available"
    screen = make_screen()
    answer, _ = await try_to(Trainer(world), screen, replace(KILL, limit=30 * SECOND))

    assert answer is False
    assert "not all of it was seen in 30 s" in read(screen.err)
    assert "not 2 hosts again after " in read(screen.out)
    assert "no node had any for train-worker-2" in read(screen.out)


@pytest.mark.long
async def test_a_job_that_ends_meanwhile_is_said_to_have_ended(world: SimulatedWorld):
    screen, trainer = make_screen(), Trainer(world)

    async def end(_: asyncio.Task[None]) -> None:
        await trainer.live(5)
        world.end_command(0)

    answer, _ = await try_to(trainer, screen, NOTICE, before=end)

    assert answer is False
    assert "train has ended meanwhile (Succeeded)" in read(screen.err)


@pytest.mark.long
async def test_of_a_log_that_tells_of_steps_without_end_no_more_is_waited_for(
    world: SimulatedWorld,
):
    screen, trainer = make_screen(), Trainer(world)
    world.kubelet.waiting[HEIR] = "nobody's"

    async def flood(_: asyncio.Task[None]) -> None:
        await trainer.live(5)
        lines = (f"step={number}" for number in range(MOST_LINES))
        trainer.logs.write(LAUNCHER, *lines, at=world.clock.now())
        await trainer.live(5)

    answer, raised = await try_to(trainer, screen, NOTICE, seconds=1, before=flood)

    assert (answer, raised) == (False, [])
    assert "log has 50000 lines that tell of steps, and no more are counted" in read(screen.err)
    assert not read_mark(world)


@pytest.mark.long
@pytest.mark.parametrize("says", [False, True])
async def test_it_asks_first_and_says_what_it_does(world: SimulatedWorld, says: bool):
    screen = Answering(says=says)
    answer, raised = await try_to(Trainer(world), screen, replace(KILL, is_sure=False))

    assert f"{LOST} is killed: its pod is deleted" in read(screen.err)
    assert "trains on with 1 host until" in read(screen.err).replace("\n", " ")
    if says:
        assert answer is True
        return
    assert [str(error) for error in raised] == ["nothing was done: train has all its workers"]
    assert LOST in world.workers()


async def test_of_a_log_without_steps_it_is_said_before(world: SimulatedWorld):
    screen = Answering(says=False)
    with pytest.raises(EtError):
        await rehearse(join(world), screen, "train", Wish())
    assert "its log tells of no step yet" in read(screen.err)


# ------------------------------------------------------------------ refusals
async def refuse(world: SimulatedWorld, wish: Wish = KILL) -> str:
    with pytest.raises(EtError) as caught:
        await rehearse(join(world), make_screen(), "train", wish)
    assert not [c for c in world.log.calls if c.user == "et" and c.is_write]
    return str(caught.value)


@pytest.mark.parametrize(
    ("workers", "least", "words"),
    [
        (2, 2, "has 2 workers and cannot go on with fewer, because of minReplicas 2: lower that"),
        (1, 1, "has one worker alone"),
    ],
)
async def test_below_the_least_number_nothing_is_taken(workers: int, least: int, words: str):
    world = SimulatedWorld()
    await start(world, workers=workers, minReplicas=least)
    await world.settle(timedelta(minutes=2))
    assert words in await refuse(world)


async def test_beside_a_scaling_or_another_notice_nothing_is_taken(world: SimulatedWorld):
    world.create(SCALE_INS, make_scale_in("in", count=1))
    assert await refuse(world) == "ScaleIn in is not done yet: rehearse after it"
    world.delete(SCALE_INS, "in")
    node = world.get(PODS, LOST)["spec"]["nodeName"]
    await world.settle(timedelta(minutes=2))
    at = format_time((world.clock.now() + timedelta(hours=1)).replace(microsecond=0))
    if world.cluster.find(ref := replace(world.ref(NODES, node), namespace="")):
        world.cluster.patch(ref, {"metadata": {"annotations": {LEAVING_AT: at}}})
    else:
        marks = {"metadata": {"annotations": {LEAVING_AT: at}}}
        world.change(PODS, LOST, marks)
    await world.settle(SECOND)
    assert "rehearse when that is over" in await refuse(world)


@pytest.mark.long
async def test_where_a_worker_is_lost_already_nothing_is_taken(world: SimulatedWorld):
    world.kubelet.waiting["train-worker-2"] = "0/2 nodes are available"
    world.kubelet.fail(LOST, disruption="EvictionByEvictionAPI")
    await world.settle(30 * SECOND)
    assert "1 of 2 workers are hosts: rehearse when all are" in await refuse(world)


@pytest.mark.long
async def test_a_suspended_job_loses_nothing(world: SimulatedWorld):
    world.change(TRAINING_JOBS, "train", {"spec": {"suspend": True}})
    await world.settle(timedelta(minutes=2))
    assert "train is Suspended, not Running" in await refuse(world)


async def live_on(world: SimulatedWorld, seconds: int) -> None:
    for _ in range(seconds // 5):
        await world.clock.advance(5 * SECOND)
        await world.rest()


@pytest.fixture
async def grown() -> SimulatedWorld:
    """A job with one worker that has trained for long, and with a second one just now."""
    world = SimulatedWorld()
    await start(world, workers=1, minReplicas=1)
    await live_on(world, 300)
    world.create(SCALE_OUTS, make_scale_out("out", count=1))
    await live_on(world, 30)
    return world


@pytest.mark.long
async def test_who_alone_has_the_state_is_not_taken(grown: SimulatedWorld):
    """A new host has it a minute after it is listed: without the old one the command would end."""
    said = await refuse(grown, replace(KILL, worker="0"))
    assert said.startswith("train-worker-0 alone surely has the training's state: ")
    assert "name another with --worker, or try again after " in said
    await live_on(grown, 60)
    found = await prepare(join(grown), make_screen(), "train", replace(KILL, worker="0"))
    assert found.worker.name == "train-worker-0"


@pytest.mark.long
async def test_the_new_one_may_go_at_once(grown: SimulatedWorld):
    found = await prepare(join(grown), make_screen(), "train", replace(KILL, worker="1"))
    assert found.worker.name == LOST


@pytest.mark.long
@pytest.mark.parametrize("kind", ["WorkersIdle", "NoRing", "DriverStalled"])
async def test_where_it_does_not_train_as_usual_nothing_is_taken(world: SimulatedWorld, kind: str):
    job = decode_job(world.get(TRAINING_JOBS, "train"))
    told = Condition(kind, "True", "Reason", "it hangs", job.created)
    status = replace(job.status, conditions=(*job.status.conditions, told))
    with pytest.raises(EtError, match="it hangs; rehearse when that is over"):
        check(replace(job, status=status), [])


async def test_of_a_namespace_that_is_full_of_events_only_its_own_are_read(world: SimulatedWorld):
    def refuse_all(call: Call, moment: Moment) -> None:
        is_of_all = call.ref.resource == EVENTS and call.body is None
        if call.user == "et" and is_of_all and moment is Moment.BEFORE:
            raise Refused(403, "Forbidden", "all of them")

    world.log.faults.append(refuse_all)
    answer, raised = await try_to(Trainer(world), make_screen(), KILL)
    assert (answer, raised) == (True, [])


async def test_only_a_host_can_be_taken(world: SimulatedWorld):
    said = await refuse(world, replace(KILL, worker="7"))
    assert said == "train-worker-7 is no host of train; hosts: train-worker-0, train-worker-1"


async def test_the_worker_that_is_named_is_taken(world: SimulatedWorld):
    trainer = Trainer(world)
    await try_to(trainer, make_screen(), replace(KILL, worker="0"))
    assert world.workers() == [LOST, "train-worker-2"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"spec": make_spec(2, is_elastic=False)}, "needs each of its workers"),
        ({"status": JobStatus()}, "not seen by the operator"),
        ({"spec": None}, "not Running"),
    ],
)
def test_what_cannot_lose_one_is_told_so(changes: dict[str, Any], words: str):
    status = JobStatus(phase="Running", decided_replicas=2)  # type: ignore[arg-type]
    job = replace(make_job(2), **{"status": status, **changes})
    with pytest.raises(EtError, match=words):
        check(job, [])
    with pytest.raises(EtError, match="none is no host"):
        choose(job, [], [], "")


@pytest.mark.parametrize(
    "words",
    [("--kind", kind, "--in", "5s") for kind in ("kill", "rank")]
    + [("--in", "2h"), ("--kind", "node")],
)
def test_flags_that_make_no_sense_are_refused(words: tuple[str, ...]):
    assert Desk().type("rehearse", "train", *words) == 2


def test_a_job_that_is_not_there_is_said_to_be_missing():
    desk = Desk()
    assert desk.type("rehearse", "train", "-y") == 1
    assert "there is no TrainingJob 'train'" in desk.err
