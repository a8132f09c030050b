"""`et restart` against the whole operator, in a simulated world."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from et.clusters import Cluster
from et.errors import EtError
from et.renewing import check, renew
from et.restarting import Stop, restart
from et.screens import Screen
from et_kube.errors import KubeError, OutcomeUnknown, Refused, Unreachable
from et_kube.resources import PODS, TRAINING_JOBS
from et_operator.codec.decoding import decode_job
from et_operator.model.statuses import JobStatus
from fakes.clients import Call, FakeApi, Moment
from tests.planning_makers import make_job, make_spec
from tests.simulation.lives import start
from tests.simulation.worlds import SimulatedWorld
from tests.unit.et.rigs import ClosedPipe, FakeContainers, FakeLogs, join, make_screen, read
from tests.unit.et.test_deleting import Answering
from tests.unit.scheduler.rigs import make_held
from tests.unit.scheduler.test_both import Trained

LIMIT = timedelta(minutes=5)
SECOND = timedelta(seconds=1)


@pytest.fixture
async def world() -> SimulatedWorld:
    world = SimulatedWorld()
    await start(world)
    return world


def find_uids(world: SimulatedWorld) -> set[str]:
    return {pod["metadata"]["uid"] for pod in world.cluster.list(PODS)}


async def let_pass(world: SimulatedWorld, times: int = 5) -> None:
    for _ in range(times):
        await world.settle(timedelta(minutes=1))
        await world.clock.advance(SECOND)


@pytest.mark.long
async def test_a_job_goes_on_with_new_pods(world: SimulatedWorld):
    before, screen = find_uids(world), make_screen()
    async with asyncio.TaskGroup() as group:
        task = group.create_task(restart(join(world), screen, "train", LIMIT))
        await let_pass(world)
        assert task.done()
    await world.until(lambda: world.phase() == "Running")

    assert not before & find_uids(world)
    assert len(world.workers()) == 2
    assert world.launchers() == ["train-launcher-r1"]
    assert read(screen.out).splitlines() == [
        "train is suspended: its pods end, each has its grace to save",
        "train goes on with new pods, from its own checkpoint if it wrote one",
    ]


@pytest.mark.long
@pytest.mark.parametrize("what", ["its node is lost", "a finalizer holds it"])
async def test_a_pod_that_stays_though_nothing_runs_in_it_is_not_waited_for(
    world: SimulatedWorld, what: str
):
    if what == "its node is lost":
        world.kubelet.lose_node(world.get(PODS, "train-worker-1")["spec"]["nodeName"])
    else:
        world.change(PODS, "train-worker-1", {"metadata": {"finalizers": ["corp.example/x"]}})
    screen = make_screen()

    assert await try_to_restart(world, screen, times=10) == []
    await world.until(lambda: world.phase() == "Running")

    assert world.get(PODS, "train-worker-1")["metadata"]["deletionTimestamp"]
    assert "train-worker-1" not in world.workers()
    assert read(screen.out).endswith("from its own checkpoint if it wrote one")


@pytest.mark.long
async def test_one_that_does_not_stop_stays_suspended_and_the_next_try_goes_on(
    world: SimulatedWorld,
):
    world.kubelet.lost |= {"node-1", "node-2"}  # which are in order, as far as anybody says
    screen = make_screen()
    (error,) = await try_to_restart(world, screen, times=10, limit=20 * SECOND)
    assert str(error) == (
        "train has not stopped after 20 s (train-launcher, train-worker-0, train-worker-1) and "
        "stays suspended: `et restart train` goes on"
    )
    world.kubelet.lost.clear()

    assert await try_to_restart(world, screen, times=10) == []
    await world.until(lambda: world.phase() == "Running")

    assert world.get(TRAINING_JOBS, "train")["spec"]["suspend"] is False


async def test_pods_that_nobody_has_asked_to_go_are_waited_for_whatever_the_operator_says(
    world: SimulatedWorld,
):
    stopped = {"type": "Suspended", "status": "True", "reason": "JobSuspended"}
    world.change(TRAINING_JOBS, "train", {"spec": {"suspend": True}})
    status = {"status": {"conditions": [stopped]}}
    world.change(TRAINING_JOBS, "train", status, "status")

    assert not await Stop(join(world), decode_job(world.get(TRAINING_JOBS, "train"))).look()


async def test_what_others_hold_suspended_is_not_said_to_go_on(world: SimulatedWorld):
    world.change(TRAINING_JOBS, "train", {"spec": {"suspend": True}})
    held = {"annotations": {"job-supervisor.kube-ai.io/job-suspended": "true"}}
    world.change(TRAINING_JOBS, "train", {"metadata": held})

    with pytest.raises(EtError, match=r"annotate trainingjob train .*-suspended-` lets it go"):
        await restart(join(world), make_screen(), "train", LIMIT)

    assert world.get(TRAINING_JOBS, "train")["spec"]["suspend"] is True


async def test_one_that_the_operator_does_not_resume_is_not_said_to_go_on(world: SimulatedWorld):
    held = {"annotations": {"job-supervisor.kube-ai.io/job-suspended": "true"}}

    def hold(call: Call, when: Moment) -> None:
        is_resume = (call.user, call.verb) == ("et", "patch") and not call.body["spec"]["suspend"]
        if is_resume and when is Moment.BEFORE:
            world.change(TRAINING_JOBS, "train", {"metadata": held})

    world.log.faults.append(hold)
    screen = make_screen()
    assert await try_to_restart(world, screen, times=20) == []

    said = "train is resumed, and does not go on yet (suspended by spec.suspend"
    assert read(screen.out).splitlines()[-1].startswith(said)


# ------------------------------------------------------------------ others, meanwhile
ALIKE = "train goes on with new pods, from its own checkpoint if it wrote one"


def set_suspend(world: SimulatedWorld, *, is_wanted: bool) -> None:
    world.change(TRAINING_JOBS, "train", {"spec": {"suspend": is_wanted}})


@pytest.mark.long
async def test_of_two_who_restart_it_at_once_both_see_it_go_on(world: SimulatedWorld):
    before = find_uids(world)
    one, two = make_screen(), make_screen()
    async with asyncio.TaskGroup() as group:
        first = group.create_task(restart(join(world), one, "train", LIMIT))
        await world.clock.settle()
        await world.clock.advance(SECOND / 2)
        second = group.create_task(restart(join(world), two, "train", LIMIT))
        for _ in range(20):
            await world.settle(timedelta(minutes=1))
            await world.clock.advance(0.3 * SECOND)
        assert first.done()
        assert second.done()
    await world.until(lambda: world.phase() == "Running")

    assert not before & find_uids(world)
    said = sorted(read(screen.out).splitlines()[1:] for screen in (one, two))
    assert said == [["somebody has let train go on meanwhile", ALIKE], [ALIKE]]


async def test_who_lets_it_go_on_before_it_has_stopped_keeps_nobody_waiting(world: SimulatedWorld):
    raised: list[EtError] = []
    screen = make_screen()

    async def go() -> None:
        try:
            await restart(join(world), screen, "train", LIMIT)
        except EtError as error:
            raised.append(error)

    async with asyncio.TaskGroup() as group:
        task = group.create_task(go())
        await world.clock.settle()
        set_suspend(world, is_wanted=False)
        await let_pass(world, 3)
        assert task.done()
        set_suspend(world, is_wanted=True)
        await let_pass(world, 10)

    assert str(raised[0]) == (
        "somebody has let train go on before it had stopped, and of its pods these are as before: "
        "train-launcher, train-worker-0, train-worker-1; `et restart train` begins again"
    )
    assert "stays suspended" not in read(screen.err)
    assert world.get(TRAINING_JOBS, "train")["spec"]["suspend"] is True


async def test_what_somebody_has_suspended_since_stays_so(world: SimulatedWorld):
    raised: list[EtError] = []

    async def go() -> None:
        try:
            await restart(join(world), make_screen(), "train", LIMIT)
        except EtError as error:
            raised.append(error)

    async with asyncio.TaskGroup() as group:
        task = group.create_task(go())
        await world.clock.settle()
        set_suspend(world, is_wanted=False)
        set_suspend(world, is_wanted=True)
        await let_pass(world, 10)
        assert task.done()

    assert str(raised[0]).startswith(
        "somebody has let train go on meanwhile and suspended it again"
    )
    assert world.get(TRAINING_JOBS, "train")["spec"]["suspend"] is True


async def test_nor_is_it_resumed_where_that_comes_between_our_look_and_our_write(
    world: SimulatedWorld,
):
    toggled: list[bool] = []

    def toggle(call: Call, when: Moment) -> None:
        is_resume = (call.user, call.verb) == ("et", "patch") and not call.body["spec"]["suspend"]
        if is_resume and when is Moment.BEFORE and not toggled:
            toggled.append(True)
            set_suspend(world, is_wanted=False)
            set_suspend(world, is_wanted=True)

    world.log.faults.append(toggle)
    (error,) = await try_to_restart(world, make_screen(), times=10)

    assert "suspended it again: it stays suspended" in str(error)
    assert toggled
    assert world.get(TRAINING_JOBS, "train")["spec"]["suspend"] is True


@pytest.mark.long
async def test_one_that_is_edited_while_it_stops_goes_on_as_it_was_edited(world: SimulatedWorld):
    async with asyncio.TaskGroup() as group:
        task = group.create_task(restart(join(world), make_screen(), "train", LIMIT))
        await world.clock.settle()
        world.change(TRAINING_JOBS, "train", {"spec": {"backoffLimit": 9}})
        await let_pass(world, 10)
        assert task.done()

    assert world.get(TRAINING_JOBS, "train")["spec"]["suspend"] is False


async def test_one_that_is_being_deleted_is_not_suspended(world: SimulatedWorld):
    finalizers = {"metadata": {"finalizers": ["foregroundDeletion"]}}
    world.change(TRAINING_JOBS, "train", finalizers)
    world.delete(TRAINING_JOBS, "train")

    with pytest.raises(EtError, match="train is being deleted"):
        await restart(join(world), make_screen(), "train", LIMIT)

    assert not world.get(TRAINING_JOBS, "train")["spec"].get("suspend")


# ------------------------------------------------------------------ in a queue
async def run_in_a_queue(screen: Screen, *, is_sure: bool) -> tuple[Trained, list[EtError]]:
    """A job that fills the cluster and is restarted, while another one waits."""
    pair = Trained(nodes=2, cpu=4)
    raised: list[EtError] = []
    pair.create(make_held("one", least=5, most=5))
    async with pair.running():
        await pair.train(20)
        pair.create(make_held("theirs", least=5, most=5))
        await pair.train(15)
        api = FakeApi(pair.cluster, pair.log, "et")
        cluster = Cluster(api, FakeLogs(), pair.clock, "team", FakeContainers())

        async def go() -> None:
            try:
                await restart(cluster, screen, "one", LIMIT, is_sure=is_sure)
            except EtError as error:
                raised.append(error)

        async with asyncio.TaskGroup() as group:
            task = group.create_task(go())
            while not task.done():
                await pair.train(1)
    return pair, raised


@pytest.mark.long
@pytest.mark.usefixtures("quiet_logs")
async def test_who_has_a_place_in_a_queue_is_asked_before_it_is_given_back():
    screen = Answering(says=False)
    pair, (error,) = await run_in_a_queue(screen, is_sure=False)

    assert str(error) == "nothing was done: one goes on as it is"
    assert read(screen.err).startswith("one has its place in queue main as long as it runs")
    assert pair.find_status("one").get("phase") == "Running"


@pytest.mark.long
@pytest.mark.usefixtures("quiet_logs")
async def test_of_one_that_waits_behind_others_then_it_is_said_that_it_waits():
    screen = make_screen()
    pair, raised = await run_in_a_queue(screen, is_sure=True)

    assert raised == []
    assert read(screen.out).splitlines()[-1] == (
        "one waits for room in queue main: `et why one` says behind whom"
    )
    assert pair.find_status("theirs").get("phase") == "Running"


async def test_one_that_has_ended_is_not_begun_again(world: SimulatedWorld):
    world.end_command(0)
    await world.until(lambda: world.phase() == "Succeeded")

    with pytest.raises(EtError, match=r"train has ended \(Succeeded\)"):
        await restart(join(world), make_screen(), "train", LIMIT)

    assert not world.get(TRAINING_JOBS, "train")["spec"].get("suspend")


async def test_who_is_interrupted_is_told_what_to_type(world: SimulatedWorld):
    screen = make_screen()
    async with asyncio.TaskGroup() as group:
        task = group.create_task(restart(join(world), screen, "train", LIMIT))
        await world.clock.settle()
        task.cancel()

    assert read(screen.err) == "train stays suspended: `et restart train` goes on"


async def test_who_may_not_see_pods_hears_so_before_anything_ends(world: SimulatedWorld):
    def refuse(call: Call, moment: Moment) -> None:
        if (call.user, call.verb, call.ref.resource) == ("et", "list", PODS):
            raise Refused(403, "Forbidden", "may not list pods")

    world.log.faults.append(refuse)
    with pytest.raises(Refused):
        await restart(join(world), make_screen(), "train", LIMIT)

    assert not world.get(TRAINING_JOBS, "train")["spec"].get("suspend")


@pytest.mark.long
@pytest.mark.parametrize(
    ("is_wanted", "moment", "error", "said"),
    [
        (False, Moment.BEFORE, Refused(403, "Forbidden", "may not"), "stays suspended"),
        (False, Moment.BEFORE, Unreachable("no route"), "stays suspended"),
        (True, Moment.AFTER, OutcomeUnknown("reset"), "may be suspended"),
    ],
)
async def test_whatever_goes_wrong_after_the_suspension_it_is_said_what_to_type(
    world: SimulatedWorld, is_wanted: bool, moment: Moment, error: KubeError, said: str
):
    def fault(call: Call, when: Moment) -> None:
        is_meant = (call.user, call.verb, when) == ("et", "patch", moment)
        if is_meant and call.body["spec"]["suspend"] is is_wanted:
            raise error

    world.log.faults.append(fault)
    screen = make_screen()
    raised = await try_to_restart(world, screen, times=80)

    assert raised == [error]
    assert read(screen.err) == f"train {said}: `et restart train` goes on"
    assert world.get(TRAINING_JOBS, "train")["spec"]["suspend"] is True


async def test_a_lost_answer_of_the_resume_is_asked_for_again_and_is_our_own(world: SimulatedWorld):
    troubles = [(Moment.BEFORE, Unreachable("no route")), (Moment.AFTER, OutcomeUnknown("reset"))]

    def fault(call: Call, when: Moment) -> None:
        is_resume = (call.user, call.verb) == ("et", "patch") and not call.body["spec"]["suspend"]
        if is_resume and troubles and when is troubles[-1][0]:
            raise troubles.pop()[1]

    world.log.faults.append(fault)
    screen = make_screen()
    assert await try_to_restart(world, screen, times=10) == []

    assert not troubles
    assert "somebody" not in read(screen.out)
    assert world.get(TRAINING_JOBS, "train")["spec"]["suspend"] is False


async def try_to_restart(
    world: SimulatedWorld, screen: Screen, times: int, limit: timedelta = LIMIT
) -> list[Exception]:
    raised: list[Exception] = []

    async def go() -> None:
        try:
            await restart(join(world), screen, "train", limit)
        except (EtError, KubeError) as error:
            raised.append(error)

    async with asyncio.TaskGroup() as group:
        task = group.create_task(go())
        await let_pass(world, times)
        assert task.done()
    return raised


# ------------------------------------------------------------------ the workers alone
async def try_to_renew(world: SimulatedWorld, screen: Screen, times: int = 40) -> str:
    """Runs it, and the world beside it; what it failed with."""
    errors: list[str] = []

    async def run() -> None:
        try:
            await renew(join(world), screen, "train", LIMIT)
        except EtError as error:
            errors.append(str(error))

    async with asyncio.TaskGroup() as group:
        task = group.create_task(run())
        for _ in range(times):
            if task.done():
                break
            await let_pass(world, 1)
        if not task.done():
            await world.clock.advance(LIMIT)
    return "; ".join(errors)


@pytest.mark.long
async def test_workers_alone_are_replaced_while_it_trains():
    world, screen = SimulatedWorld(), make_screen()
    await start(world, minReplicas=1)
    launcher = world.launchers()

    assert not await try_to_renew(world, screen)

    assert world.launchers() == launcher
    assert world.workers() == ["train-worker-2", "train-worker-3"]
    assert read(screen.out).splitlines()[0] == (
        "train: 2 workers to be replaced one after the other while it trains"
    )
    assert read(screen.out).splitlines()[-1] == "train has 2 new workers"


async def test_workers_that_cannot_be_missed_are_not_replaced_and_it_is_said_what_can_be_done():
    world = SimulatedWorld()
    await start(world, minReplicas=2)

    told = await try_to_renew(world, make_screen())

    assert told == (
        "train has 2 workers and cannot go on with fewer: `et scale train --by +1` first, or "
        "`et restart train`"
    )
    assert not world.get(TRAINING_JOBS, "train")["metadata"].get("annotations")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"spec": make_spec(2, is_elastic=False)}, "starts all its processes at once"),
        ({"status": JobStatus()}, "has no workers now"),
        ({"spec": make_spec(2, command_least=2)}, "cannot go on with fewer"),
    ],
)
def test_what_has_none_to_replace_is_told_so(changes: dict[str, Any], words: str):
    job = replace(make_job(2), **{"status": JobStatus(decided_replicas=2), **changes})
    with pytest.raises(EtError, match=words):
        check(job)


async def test_who_waits_no_longer_for_new_workers_is_told_that_it_goes_on():
    world, screen = SimulatedWorld(), make_screen()
    await start(world, minReplicas=1)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(renew(join(world), screen, "train", LIMIT))
        await world.clock.settle()
        task.cancel()

    assert read(screen.err) == "it goes on: condition RestartingWorkers, `et describe train`"


async def test_who_cannot_be_shown_that_it_is_suspended_hears_what_to_type(world: SimulatedWorld):
    screen = make_screen()
    screen.out.file = ClosedPipe()
    with pytest.raises(BrokenPipeError):
        await restart(join(world), screen, "train", LIMIT)
    assert read(screen.err) == "train stays suspended: `et restart train` goes on"
