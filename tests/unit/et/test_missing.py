"""`et logs` where what is asked for is not there, or not any more."""

from __future__ import annotations

import asyncio
import json
import tracemalloc
from collections.abc import AsyncGenerator, Mapping
from datetime import datetime, timedelta

import pytest

from et.errors import EtError
from et.logs import Beginning
from et.reading import read_cause
from et.tailing import follow_logs, show_logs
from et_contract.tails import TOLD, LastLines, encode_last_lines
from et_kube.errors import KubeError, NotFound, Refused, ServerFailed
from et_kube.resources import PODS, SCALE_INS, TRAINING_JOBS, Ref
from et_operator.codec.decoding import decode_job
from fakes.clock import START
from tests.makers import make_job, make_scale_in
from tests.simulation.lives import scale, start
from tests.simulation.worlds import NAMESPACE, SimulatedWorld
from tests.unit.et.rigs import BROKER, FakeLogs, join, make_screen, read

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
        "train-worker-1 has left, and its log with it: its last lines are not among those that the "
        "launcher's broker has in its log; what its processes printed is in the launcher's too "
        "(et logs train launcher) (there is launcher, worker-0)"
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
    assert await find_refusal(world, "0") == (
        "train-worker-0 has left, and its log with it: the launcher's pod, which keeps the last "
        "lines of workers, has gone too (there is no pod)"
    )


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
    assert read(screen.err).startswith("train has no such pod now: `et describe train` says what")


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
        "this is launcher number 2 of train: what the first one printed went with its pod; "
        "`et describe train` has how they ended"
    )


async def test_of_one_from_before_a_restart_no_log_is_named_that_cannot_have_it():
    world = SimulatedWorld()
    await start(world)
    world.delete(PODS, "train-launcher")
    await world.until(lambda: world.launchers() == ["train-launcher-r1"])
    await scale(world, SCALE_INS, make_scale_in("one", podNames=["train-worker-1"]))

    refusal = await find_refusal(world, "1")

    assert "the log of the launcher of its time may have gone with that one's pod" in refusal
    assert "et logs train launcher" not in refusal


async def test_the_log_of_the_launcher_before_is_shown_beside_the_one_that_runs():
    world, logs = SimulatedWorld(), FakeLogs()
    await start(world, restartPolicy="OnFailure", backoffLimit=6)
    for number, name in enumerate(("train-launcher-r1", "train-launcher-r2"), 1):
        world.end_command(1)
        await world.until(lambda name=name: name in world.launchers())
        await world.until(lambda: world.broker.has_started("train"))
        logs.write(name, f"try {number + 1}")
    await world.settle(timedelta(minutes=2))
    screen = make_screen()

    assert await show_logs(join(world, logs), screen, "train", Beginning(), ["launcher"])

    assert read(screen.out) == "launcher-r1 | try 2\nlauncher-r2 | try 3"
    assert read(screen.err).startswith("this is launcher number 3 of train: what the first one ")


async def test_pods_that_have_not_started_are_no_error():
    world = SimulatedWorld()
    world.create(TRAINING_JOBS, make_job())
    screen = make_screen()

    await show_logs(join(world), screen, "train", Beginning())

    assert read(screen.err).startswith("train has no pods now: `et describe train` says what it")


@pytest.mark.parametrize(
    ("pod", "said"),
    [
        (
            "train-worker-1",
            "train-worker-1 has no pod now: `et describe train` says why (there is ",
        ),
        ("train-launcher", "the launcher of train has no pod now: `et describe train` says why"),
    ],
)
async def test_one_that_is_wanted_and_has_no_pod_is_told_so_and_is_no_success(
    world: SimulatedWorld, pod: str, said: str
):
    world.cluster.remove(world.ref(PODS, pod))
    assert (await find_refusal(world, pod.removeprefix("train-"))).startswith(said)


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


@pytest.mark.long
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


# ------------------------------------------------------------------ what is left of one
def keep(
    logs: FakeLogs,
    worker: str,
    *lines: str,
    is_cut: bool = False,
    launcher: str = "train-launcher",
    at: datetime = START,
) -> None:
    """Have a broker leave these lines in its log."""
    last = LastLines(worker, lines, is_cut)
    text = json.dumps({**encode_last_lines(last), "event": TOLD, "level": "info"})
    logs.write(launcher + BROKER, '{"event": "broker starts"}', text, at=at)


LEFT = (
    "{} has left, and its log with it: the last lines of its processes are from the launcher's "
    "broker"
)


async def end_job(world: SimulatedWorld) -> None:
    world.end_command(0)
    await world.until(lambda: world.phase() == "Succeeded")
    await world.settle()


async def show(
    world: SimulatedWorld, logs: FakeLogs, *only: str, beginning: Beginning | None = None
) -> tuple[bool, str, str]:
    screen = make_screen(width=200)
    is_whole = await show_logs(join(world, logs), screen, "train", beginning or Beginning(), only)
    return is_whole, read(screen.out), read(screen.err)


async def test_after_the_end_the_last_lines_of_a_worker_are_shown(world: SimulatedWorld):
    await end_job(world)
    logs = FakeLogs()
    keep(logs, "train-worker-0", "one", "two\r")
    keep(logs, "train-worker-1", "hers", '{"event": "' + TOLD + '", "worker": "train-worker-0"}')

    assert await show(world, logs, "0") == (
        True,
        "worker-0 | one\nworker-0 | two",
        LEFT.format("train-worker-0"),
    )
    assert (await show(world, logs, "0", beginning=Beginning(tail=1)))[1] == "worker-0 | two"


@pytest.mark.long
async def test_while_the_job_runs_too_and_beside_those_that_are_there(world: SimulatedWorld):
    await scale(world, SCALE_INS, make_scale_in("one", podNames=["train-worker-1"]))
    logs = FakeLogs()
    logs.write("train-worker-0", "here")
    keep(logs, "train-worker-1", "bye", is_cut=True)

    is_whole, out, err = await show(world, logs, "1", "0")

    assert is_whole
    assert out == "worker-1 | bye\nworker-0 | here"
    assert err.endswith("are from the launcher's broker; there may have been more before")


async def test_a_follower_of_one_that_has_gone_does_not_wait(world: SimulatedWorld):
    await scale(world, SCALE_INS, make_scale_in("one", podNames=["train-worker-1"]))
    logs, screen = FakeLogs(), make_screen()
    keep(logs, "train-worker-1", "bye")

    assert await follow_logs(join(world, logs), screen, "train", Beginning(), ["1"])
    assert read(screen.out) == "worker-1 | bye"


async def test_one_that_printed_nothing_is_told_from_one_of_which_nothing_is_known(
    world: SimulatedWorld,
):
    await end_job(world)
    logs = FakeLogs()
    keep(logs, "train-worker-0")

    assert await show(world, logs, "0") == (
        True,
        "",
        "train-worker-0 has left, and its log with it: its processes had printed nothing",
    )


async def test_of_one_that_another_broker_has_followed_too_it_is_not_said_that_it_was_silent(
    world: SimulatedWorld,
):
    await end_job(world)
    logs = FakeLogs()
    keep(logs, "train-worker-0", is_cut=True)

    assert (await show(world, logs, "0"))[2] == (
        "train-worker-0 has left, and its log with it: its processes had printed nothing since the "
        "last of its launcher's brokers began"
    )


async def test_what_was_written_down_before_the_time_that_is_asked_for_is_not_shown(
    world: SimulatedWorld,
):
    await end_job(world)
    logs, now = FakeLogs(), world.clock.now()
    keep(logs, "train-worker-0", "old", at=now - timedelta(minutes=10))
    keep(logs, "train-worker-1", "new", at=now - timedelta(minutes=1))

    beginning = Beginning(since=timedelta(minutes=5))
    assert (await show(world, logs, "0", "1", beginning=beginning))[1] == "worker-1 | new"


@pytest.mark.long
async def test_the_brokers_of_all_launchers_are_asked_that_are_there():
    world = SimulatedWorld()
    await start(world, restartPolicy="OnFailure")
    world.end_command(1)
    await world.until(lambda: "train-launcher-r1" in world.launchers())
    await world.settle()
    await scale(world, SCALE_INS, make_scale_in("one", podNames=["train-worker-1"]))
    logs = FakeLogs()
    keep(logs, "train-worker-1", "first")
    keep(logs, "train-worker-1", "second", launcher="train-launcher-r1")

    assert (await show(world, logs, "1"))[1] == "worker-1 | first\nworker-1 | second"
    logs.lines.pop("train-launcher" + BROKER)
    assert (await show(world, logs, "1"))[1] == "worker-1 | second"


async def test_where_the_brokers_log_cannot_be_read_that_is_said_and_no_success(
    world: SimulatedWorld,
):
    await end_job(world)
    logs = LostLogs()
    logs.lost = frozenset({"train-launcher"})
    with pytest.raises(EtError) as caught:
        await show(world, logs, "0")
    assert "the log of the launcher's broker, which may have its last lines, cannot be read" in (
        str(caught.value)
    )
    assert UNHEARD in str(caught.value)


async def leave_a_pod(world: SimulatedWorld) -> None:
    """A worker leaves, its pod stays and has outlived its grace."""
    world.change(PODS, "train-worker-1", {"metadata": {"finalizers": ["corp.example/x"]}})
    world.change(TRAINING_JOBS, "train", {"spec": {"replicas": 1}}, "scale")
    await world.until(lambda: world.workers() == ["train-worker-0"])
    await world.settle(timedelta(minutes=5))
    assert world.get(PODS, "train-worker-1")["metadata"]["deletionTimestamp"]


@pytest.mark.long
async def test_of_one_whose_pod_stays_what_was_kept_is_shown_beside_its_log(world: SimulatedWorld):
    await leave_a_pod(world)
    await world.clock.advance(timedelta(minutes=5))
    logs = FakeLogs()
    logs.write("train-worker-1", "its own")
    keep(logs, "train-worker-1", "bye")

    assert await show(world, logs, "1") == (
        True,
        "worker-1 | bye\nworker-1 | its own",
        "train-worker-1 has left: the last lines of its processes are from the launcher's broker",
    )


@pytest.mark.long
@pytest.mark.parametrize("only", [("1",), ()])
async def test_of_one_that_is_lost_what_was_kept_is_shown_and_that_its_log_is_missing(
    world: SimulatedWorld, only: tuple[str, ...]
):
    await leave_a_pod(world)
    logs, screen = LostLogs(), make_screen(width=200)
    logs.lost = frozenset({"train-worker-1"})
    logs.write("train-worker-0", "here")
    keep(logs, "train-worker-1", "bye")

    work = show_logs(join(world, logs), screen, "train", Beginning(), only)
    if only:
        with pytest.raises(ServerFailed):
            await work
    else:
        assert not await work
        assert MISSING in read(screen.err)

    assert read(screen.out).splitlines().count("worker-1 | bye") == 1


async def test_a_terminal_is_shown_no_controls_that_a_worker_printed(world: SimulatedWorld):
    await end_job(world)
    logs, screen = FakeLogs(), make_screen(is_terminal=True)
    keep(logs, "train-worker-0", "a\x1b]0;title\x07b\x9bc\u202e")

    await show_logs(join(world, logs), screen, "train", Beginning(), ["0"])

    assert not {"\x07", "\x9b", "\u202e"} & set(read(screen.out))


class UnendingLine(FakeLogs):
    """Pieces of one line: to the kubelet, which counts ends of lines, all of them are its last."""

    async def read_log(self, ref: Ref, params: Mapping[str, str]) -> AsyncGenerator[bytes, None]:
        whole = {key: value for key, value in params.items() if key != "tailLines"}
        async for line in FakeLogs.read_log(self, ref, whole):
            yield line


@pytest.mark.long
async def test_of_the_end_of_a_log_as_much_is_kept_as_an_error_is_looked_for_in(
    world: SimulatedWorld,
):
    world.end_command(1)
    await world.until(lambda: world.phase() == "Failed")
    await world.settle()
    logs = UnendingLine()
    logs.write("train-launcher", *["x" * 20_000] * 2000, "ValueError: no data" + "x" * 20_000)
    job = decode_job(world.cluster.get(Ref(TRAINING_JOBS, NAMESPACE, "train")))
    tracemalloc.start()
    cause = await read_cause(join(world, logs), job)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert cause.startswith("ValueError: no data")
    assert peak < 8_000_000


@pytest.mark.long
async def test_an_error_behind_a_bar_that_was_drawn_on_itself_is_found(world: SimulatedWorld):
    world.end_command(1)
    await world.until(lambda: world.phase() == "Failed")
    await world.settle()
    logs = FakeLogs()
    bar = "".join(f"{step}%|##\r" for step in range(1000))
    logs.write("train-launcher", f"{bar}ValueError: no data")
    job = decode_job(world.cluster.get(Ref(TRAINING_JOBS, NAMESPACE, "train")))
    assert await read_cause(join(world, logs), job) == "ValueError: no data"
