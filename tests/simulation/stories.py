"""Lives that nobody wrote: a job, what its user and its nodes do to it, and in which order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from hypothesis import strategies as st

from et_kube.notices import LEAVING_AT
from et_kube.resources import PODS, SCALE_INS, SCALE_OUTS, TRAINING_JOBS
from et_kube.times import format_time
from tests.makers import make_job, make_scale_in, make_scale_out
from tests.simulation.faults import KINDS, Strike
from tests.simulation.hindrances import FINALIZER, HINDRANCES
from tests.simulation.invariants import OPERATOR, check_standing, demand
from tests.simulation.schedules import TOKENS, Schedule
from tests.simulation.worlds import SimulatedWorld

MOST = 5
"""Workers that any of these jobs may have."""
LAST_STRUCK = 60
MOST_TRIES = 200
"""Writes in an hour for all that is refused: each failing kind once a minute, and the like."""
SIDECAR = "log-shipper"
BUMP = 10**9
"""What is added to the revision of a snapshot (etcdutl snapshot restore --bump-revision)."""
MOST_WRITES = 20
"""Writes that are done in that hour: for words that change, ends that come late."""


@dataclass(frozen=True)
class Step:
    """Something that happens to the job; `number` is what it is about, each takes it as it can."""

    what: str
    number: int = 0


@dataclass(frozen=True)
class Story:
    """All that decides what will happen; printed as it is when something fails."""

    workers: int = 2
    spec: dict[str, Any] = field(default_factory=dict)
    steps: tuple[Step, ...] = ()
    faults: tuple[tuple[int, str], ...] = ()
    tokens: tuple[str, ...] = ()
    leaders: int = 1
    are_sidecars_kept: bool = False
    """What runs beside a launcher or worker outlives it from the start."""


async def tell(story: Story) -> SimulatedWorld:
    """Let it happen, then take away what hinders the job, and wait until nothing happens any more.

    Raises:
        AssertionError: an invariant was broken, or the world does not come to rest.
    """
    # Each leader tells what it was refused itself, for as long as both of them lead.
    is_refused = any(kind in {"403", "422"} for _, kind in story.faults)
    leaders = 1 if is_refused else story.leaders
    async with SimulatedWorld(Schedule(tokens=story.tokens), leaders=leaders) as world:
        world.log.faults += [Strike(number, kind) for number, kind in story.faults]
        await keep_sidecars(world, int(story.are_sidecars_kept), "")
        world.create(TRAINING_JOBS, build_job(story))
        world.backup = world.cluster.back_up()
        for number, step in enumerate(story.steps):
            await ALL_STEPS[step.what](world, step.number, f"s{number}")
        if any(step.what not in STEPS for step in story.steps):
            await stand_still(world)
        await go_on(world)
        return world


def build_job(story: Story) -> dict[str, Any]:
    """The job, with a container beside each of its own that may outlive that one."""
    job = make_job(workers=story.workers, minReplicas=1, maxReplicas=MOST, **story.spec)
    for role in job["spec"]["etReplicaSpecs"].values():
        role["template"]["spec"]["containers"].append({"name": SIDECAR, "image": "shipper"})
    return job


async def stand_still(world: SimulatedWorld) -> None:
    """Nobody does anything for two hours, and whatever is in the way stays there.

    By then every job has what its spec says, or says why not; and it goes on costing little.
    """
    await world.settle(timedelta(hours=1))
    events = {event.reason for operator in world.operators for event in operator.events}
    check_standing(world.cluster, world.broker, events)
    tried, done = count_tries(world), len(world.log.list_writes(OPERATOR))
    await world.settle(timedelta(hours=1))
    demand(count_tries(world) - tried <= MOST_TRIES, "writes are tried on and on")
    demand(len(world.log.list_writes(OPERATOR)) - done <= MOST_WRITES, "it writes on and on")


def count_tries(world: SimulatedWorld) -> int:
    """Writes that were asked for, whatever came of them."""
    return sum(call.is_write and call.user == OPERATOR for call in world.log.calls)


async def go_on(world: SimulatedWorld) -> None:
    """Nothing hinders the job any more, and all who want to have an hour for what they want."""
    world.broker.busy.clear()
    world.make_way()
    world.wrong_clock.off = timedelta()
    world.change(TRAINING_JOBS, "train", {"spec": {"suspend": None}})
    await world.settle(timedelta(hours=1))


# ---------------------------------------------------------------- what may happen
async def wait(world: SimulatedWorld, number: int, _: str) -> None:
    await world.settle(timedelta(seconds=number * 5))


async def do_a_few_things(world: SimulatedWorld, number: int, _: str) -> None:
    """What comes next finds the world in the middle of something."""
    for _ in range(number * 4):
        token = world.schedule.draw()
        await world.act(token or "work")
        if token is None:
            await world.go_round()


async def scale_in(world: SimulatedWorld, number: int, name: str) -> None:
    world.create(SCALE_INS, make_scale_in(name, count=1 + number % 3))


async def scale_in_by_name(world: SimulatedWorld, number: int, name: str) -> None:
    chosen = f"train-worker-{number % MOST}"
    world.create(SCALE_INS, make_scale_in(name, podNames=[chosen]))


async def scale_out(world: SimulatedWorld, number: int, name: str) -> None:
    world.create(SCALE_OUTS, make_scale_out(name, count=1 + number % 3, timeout=60))


async def set_replicas(world: SimulatedWorld, number: int, _: str) -> None:
    world.change(TRAINING_JOBS, "train", {"spec": {"replicas": 1 + number % MOST}}, "scale")


async def suspend(world: SimulatedWorld, number: int, _: str) -> None:
    world.change(TRAINING_JOBS, "train", {"spec": {"suspend": bool(number % 3)}})


async def cancel(world: SimulatedWorld, number: int, _: str) -> None:
    for resource in (SCALE_INS, SCALE_OUTS):
        if world.get(resource, f"s{number}"):
            world.delete(resource, f"s{number}")


async def delete_a_pod(world: SimulatedWorld, number: int, _: str) -> None:
    pods = [*world.launchers(), *world.workers()]
    if pods:
        world.delete(PODS, pods[number % len(pods)])


async def evict_a_pod(world: SimulatedWorld, number: int, _: str) -> None:
    pods = [*world.launchers(), *world.workers()]
    if pods:
        world.kubelet.fail(pods[number % len(pods)], disruption="EvictionByEvictionAPI")


async def crash_a_worker(world: SimulatedWorld, number: int, _: str) -> None:
    workers = [w for w in world.workers() if world.get(PODS, w)["status"]["phase"] == "Running"]
    if workers:
        world.kubelet.terminate(workers[number % len(workers)], 1)


async def keep_sidecars(world: SimulatedWorld, number: int, _: str) -> None:
    """What runs beside a launcher or worker does not end with it from now on; or does again."""
    if number % 2:
        world.kubelet.outliving.add(SIDECAR)
    else:
        world.kubelet.outliving.discard(SIDECAR)


async def use_up_a_worker(world: SimulatedWorld, number: int, _: str) -> None:
    hosts = world.broker.find_hosts("train")
    if hosts:
        world.broker.use_up("train", hosts[number % len(hosts)])


async def say_that_one_leaves(world: SimulatedWorld, number: int, _: str) -> None:
    """Of a worker that it ends so soon; or that it stays after all."""
    workers = world.workers()
    if workers:
        moment = world.clock.now() + timedelta(seconds=number * 30)
        word = format_time(moment.replace(microsecond=0)) if number % 3 else None
        body = {"metadata": {"annotations": {LEAVING_AT: word}}}
        world.change(PODS, workers[number % len(workers)], body)


async def say_that_its_launcher_leaves(world: SimulatedWorld, number: int, _: str) -> None:
    """As of a worker."""
    moment = world.clock.now() + timedelta(seconds=number * 30)
    word = format_time(moment.replace(microsecond=0)) if number % 3 else None
    for name in world.launchers():
        world.change(PODS, name, {"metadata": {"annotations": {LEAVING_AT: word}}})


async def cling(world: SimulatedWorld, number: int, _: str) -> None:
    """A worker's process does not end while it drains."""
    world.broker.busy.add(f"train-worker-{number}")


async def end_the_command(world: SimulatedWorld, number: int, _: str) -> None:
    if world.broker.has_started("train"):
        world.end_command(number % 2)


async def hinder(world: SimulatedWorld, number: int, _: str) -> None:
    """A policy, or a webhook that fails, for one kind and verb."""
    world.hinder(HINDRANCES[number * 7 % len(HINDRANCES)])


async def limit_pods(world: SimulatedWorld, number: int, _: str) -> None:
    """So many pods may be there from now on; who is there already stays."""
    world.limit(number)


async def put_the_clock_wrong(world: SimulatedWorld, number: int, _: str) -> None:
    """The operator's machine has another time of day from now on."""
    world.wrong_clock.off = timedelta(minutes=20) * (number - 5)


async def add_a_finalizer(world: SimulatedWorld, number: int, _: str) -> None:
    """Somebody else wants to have the last word about an object."""
    body = {"metadata": {"finalizers": [FINALIZER]}}
    for resource in (PODS, SCALE_INS, SCALE_OUTS):
        for found in world.cluster.list(resource)[number % 3 :: 3]:
            if "deletionTimestamp" not in found["metadata"]:
                world.change(resource, found["metadata"]["name"], body)


async def back_up(world: SimulatedWorld, number: int, _: str) -> None:
    """From here on a restore goes back to this moment."""
    world.backup = world.cluster.back_up()


async def restore(world: SimulatedWorld, number: int, _: str) -> None:
    """Etcd is set back; revisions too, or they are bumped; operators live on, or start anew."""
    world.restore(bump=BUMP * (number % 2))
    if number % 4 > 1:
        await world.restart_operators()


STEPS: dict[str, Callable[[SimulatedWorld, int, str], Any]] = {
    step.__name__: step
    for step in (
        wait,
        do_a_few_things,
        scale_in,
        scale_in_by_name,
        scale_out,
        set_replicas,
        suspend,
        cancel,
        delete_a_pod,
        evict_a_pod,
        crash_a_worker,
        keep_sidecars,
        use_up_a_worker,
        say_that_one_leaves,
        say_that_its_launcher_leaves,
        cling,
        end_the_command,
    )
}

HARD_STEPS = STEPS | {
    step.__name__: step for step in (hinder, limit_pods, put_the_clock_wrong, add_a_finalizer)
}
"""And what makes it hard for the operator to do its work."""

RESTORING = {step.__name__: step for step in (back_up, restore)}
ALL_STEPS = HARD_STEPS | RESTORING

HARD_STORIES = st.builds(
    Story,
    workers=st.integers(1, MOST),
    spec=st.fixed_dictionaries(
        {}, optional={"restartPolicy": st.just("OnFailure"), "drainTimeoutSeconds": st.just(30)}
    ),
    steps=st.lists(
        st.builds(Step, st.sampled_from(list(HARD_STEPS)), st.integers(0, 9)),
        min_size=2,
        max_size=10,
    ).map(tuple),
    tokens=st.lists(st.sampled_from(TOKENS), max_size=60).map(tuple),
    are_sidecars_kept=st.booleans(),
)

STORIES = st.builds(
    Story,
    workers=st.integers(1, MOST),
    spec=st.fixed_dictionaries(
        {},
        optional={
            "restartPolicy": st.sampled_from(["OnFailure", "ExitCode"]),
            "cleanPodPolicy": st.sampled_from(["None", "All"]),
            "launcherCreationPolicy": st.just("WaitForWorkersReady"),
            "drainTimeoutSeconds": st.just(30),
        },
    ),
    steps=st.lists(
        st.builds(Step, st.sampled_from(list(STEPS)), st.integers(0, 9)), max_size=8
    ).map(tuple),
    faults=st.lists(
        st.tuples(st.integers(1, LAST_STRUCK), st.sampled_from(list(KINDS))), max_size=4
    ).map(tuple),
    tokens=st.lists(st.sampled_from(TOKENS), max_size=200).map(tuple),
    leaders=st.sampled_from([1, 1, 2]),
    are_sidecars_kept=st.booleans(),
)

RESTORED_STORIES = st.builds(
    Story,
    workers=st.integers(1, MOST),
    spec=st.fixed_dictionaries({}, optional={"restartPolicy": st.just("OnFailure")}),
    steps=st.lists(
        st.builds(Step, st.sampled_from([*STEPS, *RESTORING, *RESTORING]), st.integers(0, 9)),
        min_size=1,
        max_size=8,
    ).map(lambda steps: (Step("do_a_few_things", 9), *steps, Step("restore", len(steps)))),
    tokens=st.lists(st.sampled_from(TOKENS), max_size=60).map(tuple),
    are_sidecars_kept=st.booleans(),
)
"""A life, set back at the end of its steps at least."""
