"""Whatever happens in whatever order, and wherever the operator dies: what must hold, holds.

The world checks at each pass that no live worker is deleted that is not leaving, that pods are
created under recorded names only, and that generation, epoch and index never fall.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from et_contract.documents import MemberState
from et_operator.model.plans import Plan
from et_operator.model.pods import Node
from et_operator.model.specs import RestartPolicy
from et_operator.model.statuses import ScalingKind
from tests.planning_makers import ModelWorld, make_job, make_scaling

MAXIMUM = 6


class Died(Exception):  # noqa: N818 (says what is so)
    """The operator was killed right before a write."""


def make_world() -> ModelWorld:
    return ModelWorld(
        make_job(
            3,
            minimum=1,
            maximum=MAXIMUM,
            restart_policy=RestartPolicy.ON_FAILURE,
            backoff_limit=1000,
            drain_timeout=timedelta(seconds=100),
        )
    )


# ------------------------------------------------------------------ crashes
def scale_in(world: ModelWorld) -> None:
    world.add(make_scaling(ScalingKind.IN, "s", count=1))


def scale_out(world: ModelWorld) -> None:
    world.add(make_scaling(ScalingKind.OUT, "s", count=2))


def replicas_in(world: ModelWorld) -> None:
    world.edit(replicas=1)


def lose_worker(world: ModelWorld) -> None:
    world.end("job-worker-1", 1)


def lose_launcher(world: ModelWorld) -> None:
    world.end("job-launcher", 1)


def suspend(world: ModelWorld) -> None:
    world.edit(suspend=True)


def finish(world: ModelWorld) -> None:
    world.finish(0)


def start(world: ModelWorld) -> None:
    """Nothing but the start itself."""


def live(world: ModelWorld) -> None:
    """Everything that may happen by itself, with an operator that is started again when it dies."""
    for _ in range(8):
        for act in (world.settle, world.run, world.settle, world.serve, world.settle, world.reap):
            try:
                act()
            except Died:
                world.on_write = lambda _: None
                world.settle()
        world.wait(3)
    world.settle()


def summarize(world: ModelWorld) -> tuple[object, ...]:
    return (
        world.phase(),
        world.replicas,
        len(world.workers),
        world.status.epoch,
        world.status.last_worker_index,
        world.status.scaling,
        sorted(world.states().values()),
        [s.status.phase for s in world.scalings.values()],
        world.status.failures,
    )


@pytest.mark.long
@pytest.mark.parametrize(
    "change",
    [start, scale_in, scale_out, replicas_in, lose_worker, lose_launcher, suspend, finish],
)
def test_a_crash_before_any_write_changes_nothing_in_the_end(
    change: Callable[[ModelWorld], None],
) -> None:
    def run(crash_at: int | None) -> ModelWorld:
        world = make_world()
        if change is not start:
            world.start()
            world.wait(30)
            change(world)
        first = world.writes

        def count(_: str) -> None:
            if crash_at is not None and world.writes - first == crash_at:
                raise Died

        world.on_write = count
        live(world)
        return world

    expected = run(None)
    for crash_at in range(1, expected.writes + 1):
        world = run(crash_at)
        assert summarize(world) == summarize(expected), f"crashed before write {crash_at}"


# ------------------------------------------------------------------ interleavings
def pick(names: list[str], number: int) -> str | None:
    return sorted(names)[number % len(names)] if names else None


def do(world: ModelWorld, kind: str, number: int) -> None:  # noqa: C901, PLR0912 (a table of events)
    live_workers = [n for n in world.workers if not world.pods[n].is_deleting]
    name = pick(live_workers, number)
    match kind:
        case "step":
            world.step()
        case "settle":
            world.settle()
        case "wait":
            world.wait(number)
        case "run":
            world.run(*([name] if name else []))
        case "run all":
            world.run()
        case "serve":
            world.serve(close=number % 2 == 0, list_new=number % 3 != 0)
        case "reap":
            world.reap()
        case "fail worker" if name:
            world.end(name, 1)
        case "delete worker" if name:
            world.delete(name)
        case "vanish worker" if name:
            del world.pods[name]
        case "fail launcher" if world.launcher and not world.launcher.is_terminal:
            world.end(world.launcher.name, 1)
        case "vanish launcher" if world.launcher:
            del world.pods[world.launcher.name]
        case "lose node":
            is_sick, is_lost = number % 3 > 0, number % 3 > 1
            world.nodes["n1"] = Node("n1", is_ready=not is_sick, is_unreachable=is_lost)
        case "replicas":
            world.edit(replicas=1 + number % MAXIMUM)
        case "scale in":
            scaling = make_scaling(
                ScalingKind.IN, f"in{len(world.log)}", count=1 + number % 2, created=world.now
            )
            world.add(scaling)
        case "scale out":
            scaling = make_scaling(
                ScalingKind.OUT, f"out{len(world.log)}", count=1 + number % 2, created=world.now
            )
            world.add(scaling)
        case "cancel" if world.scalings:
            del world.scalings[sorted(world.scalings)[number % len(world.scalings)]]
        case "suspend":
            world.edit(suspend=number % 2 == 0)
        case "crash":
            crash(world, number)
        case _:
            pass


def crash(world: ModelWorld, number: int) -> None:
    """The operator dies after `number` % 4 writes of its pass."""
    left = number % 4

    def count(_: str) -> None:
        nonlocal left
        if left == 0:
            raise Died
        left -= 1

    world.on_write = count
    try:
        world.step()
    except Died:
        pass
    finally:
        world.on_write = lambda _: None


EVENTS = (
    *("step", "step", "settle", "settle", "wait", "run", "run all", "serve", "serve", "reap"),
    *("fail worker", "delete worker", "vanish worker", "fail launcher", "vanish launcher"),
    *("lose node", "replicas", "scale in", "scale out", "cancel", "suspend", "crash", "crash"),
)


@pytest.mark.long
@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)
@given(st.lists(st.tuples(st.sampled_from(EVENTS), st.integers(0, 30)), max_size=40))
def test_any_interleaving_converges(events: list[tuple[str, int]]) -> None:
    world = make_world()
    world.tick = timedelta(milliseconds=50)
    seen: dict[str, str] = {}
    for kind, number in events:
        do(world, kind, number)
        check_names(world, seen)
    world.nodes["n1"] = Node("n1")
    if world.job.spec is not None and world.job.spec.suspend:
        world.edit(suspend=False)
    for _ in range(12):
        world.wait(61)
        world.run()
        world.settle()
        world.serve()
        world.settle()
        world.reap()
        world.settle()
        check_names(world, seen)
        if has_finished(world):
            return
    world.wait(61)
    world.settle()
    assert world.step() == Plan(requeue_after=world.requeue_after)
    assert world.phase() == "Running"
    assert len(world.workers) == world.replicas <= MAXIMUM
    assert world.status.scaling is None
    assert all(s.status.phase and s.status.phase.is_final for s in world.scalings.values())
    active = {n for n, state in world.states().items() if state == "active"}
    assert active == set(world.workers)


def has_finished(world: ModelWorld) -> bool:
    return world.phase() in {"Failed", "Succeeded"}


def check_names(world: ModelWorld, seen: dict[str, str]) -> None:
    """A name that was ever a member never means another pod."""
    for member in world.config.members if world.config else ():
        assert seen.setdefault(member.name, member.uid) == member.uid
        assert member.state in MemberState
    live_members = [n for n in world.workers if not world.pods[n].is_deleting]
    leaving = {r.name for r in world.status.workers if r.state.value != "Joining"}
    limit = max(MAXIMUM, world.replicas)
    assert len([n for n in live_members if n not in leaving]) <= limit
