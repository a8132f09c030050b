"""A broker whose token was stolen can say what it likes in its report: what that does."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from et_contract.documents import Report, ScriptResult, SessionExit, encode_report
from et_contract.names import build_report_key
from et_operator.codec.children import decode_job_report
from et_operator.model.statuses import ScalingKind, WorkerState
from et_operator.model.texts import MAX_REASONS
from et_operator.planning.exhausting import MOST
from et_operator.planning.planner import plan
from tests.planning_makers import ModelWorld, make_job, make_scaling

NAMES = [f"job-worker-{index}" for index in range(4)]
NUMBERS = st.integers(0, 2**40)
REPORTS = st.fixed_dictionaries(
    {
        "epoch": st.integers(0, 3),
        "observed_generation": NUMBERS,
        "served_generation": NUMBERS,
        "listed": st.sets(st.integers(0, 4)),
        "closed": st.sets(st.integers(0, 4)),
        "unlisted": st.sets(st.integers(0, 4)),
        "used_up": st.dictionaries(st.integers(0, 4), st.integers(-(2**31) + 1, 2**31 - 1)),
        "exits": st.dictionaries(st.integers(0, 4), st.integers(0, 255)),
        "scripts": st.dictionaries(st.text(max_size=9), st.none() | st.integers(0, 255)),
        "problems": st.dictionaries(
            st.just("DriverStalled") | st.text(max_size=9), st.text(max_size=20), max_size=2
        ),
    }
)


def forge(world: ModelWorld, wish: dict[str, object], launcher_uid: str) -> Report:
    """A report about the workers that there are, and one that there is not."""
    pods = [world.pods[name].uid for name in NAMES if name in world.pods]
    uids = dict(enumerate([*pods, "a-strangers-uid"]))

    def find(numbers: object) -> frozenset[str]:
        assert isinstance(numbers, set)
        return frozenset(uids[n] for n in numbers if n in uids)

    exits, scripts, used_up = wish["exits"], wish["scripts"], wish.get("used_up", {})
    assert isinstance(exits, dict)
    assert isinstance(scripts, dict)
    assert isinstance(used_up, dict)
    return Report(
        **{
            **wish,
            "launcher_uid": launcher_uid,
            "broker_start": 1,
            "listed": find(wish["listed"]),
            "closed": find(wish["closed"]),
            "unlisted": find(wish["unlisted"]),
            "used_up": {uids[n]: code for n, code in used_up.items() if n in uids},
            "exits": {uids[n]: (SessionExit("s", c),) for n, c in exits.items() if n in uids},
            "scripts": {key: ScriptResult(code, "") for key, code in scripts.items()},
        }
    )  # type: ignore[arg-type]


def follow(world: ModelWorld, report: Report) -> None:
    """What of this report is read, and some seconds with it."""
    documents = {build_report_key(report.epoch): encode_report(report)}
    numbers = (world.status.epoch, world.status.generation)
    world.report = decode_job_report(documents, *numbers)
    for _ in range(3):
        world.settle()
        world.wait(3)
        world.run()


@pytest.mark.long
@settings(max_examples=25)
@given(st.lists(REPORTS, max_size=4), st.integers(0, 3))
def test_a_report_of_no_launcher_of_the_job_ends_no_worker_that_was_not_to_go(
    wishes: list[dict[str, object]], leaving: int
) -> None:
    world = ModelWorld(make_job(4, minimum=1))
    world.start()
    victims = tuple(NAMES[:leaving])
    if victims:
        world.add(make_scaling(ScalingKind.IN, "less", pod_names=victims))
        world.settle()
    for wish in wishes:
        follow(world, forge(world, wish, "a-strangers-uid"))
    ended = {name for name in NAMES if name not in world.pods or world.pods[name].is_deleting}
    assert ended <= set(victims)


@pytest.mark.long
@settings(max_examples=25)
@given(st.lists(REPORTS, min_size=1, max_size=4))
def test_whom_a_forged_report_has_replaced_others_follow_and_no_number_changes(
    wishes: list[dict[str, object]],
) -> None:
    """Who has the broker's token can end what runs in these workers anyway."""
    world = ModelWorld(make_job(4, minimum=1))
    world.start()
    for wish in wishes:
        follow(world, forge(world, {**wish, "epoch": 1}, world.status.launcher_uid))
    assert world.status.decided_replicas == 4
    assert world.status.completion_time is None
    world.report = None
    for _ in range(5):
        world.wait(30)
        world.settle()
        world.run()
    leaving = {r.name for r in world.status.workers if r.state is WorkerState.LEAVING}
    there = {p.name for p in world.pods.values() if p.index is not None and not p.is_deleting}
    assert len(there - leaving) == 4


def test_who_has_the_brokers_token_can_have_its_workers_replaced() -> None:
    """The test above would say nothing if no forged report were believed."""
    world = ModelWorld(make_job(4, minimum=1))
    world.start()
    every = set(range(4))
    wish = dict.fromkeys(("listed", "closed", "unlisted"), every) | {"exits": {}, "scripts": {}}
    follow(world, forge(world, {**wish, "epoch": 1}, world.status.launcher_uid))
    assert {n for n in NAMES if n not in world.pods or world.pods[n].is_deleting} == set(NAMES)


@pytest.mark.long
def test_and_have_them_replaced_for_failures_of_its_own_some_times_an_hour() -> None:
    world = ModelWorld(make_job(4, minimum=1))
    world.start()
    seen = set(world.workers)
    for _ in range(120):
        assert world.report is not None
        uids = {pod.uid: 1 for pod in world.pods.values() if pod.name in world.workers}
        world.report = replace(world.report, used_up=uids)
        world.settle()
        world.wait(20)
        world.run()
        world.settle()
        world.serve()
        world.settle()
        world.reap()
        seen.update(world.workers)
    assert len(seen) == 4 + 4 * MOST
    assert len(world.workers) == 4
    assert world.phase() == "Running"


@pytest.mark.parametrize(
    ("name", "epoch"),
    [("job-launcher-r900", 901), ("zz-launcher-r900", 901), ("zz-launcher-r1", 2)],
)
@pytest.mark.parametrize("is_deleted", [False, True])
def test_a_pod_in_the_place_of_a_launcher_yet_to_come_keeps_no_job_without_one(
    name: str, epoch: int, *, is_deleted: bool
) -> None:
    """Whoever may create pods can give one the job's labels, its owner and any name."""
    world = ModelWorld(make_job(2))
    world.start()
    planted = world.pods["job-launcher"]
    world.pods[name] = replace(planted, name=name, uid="planted", epoch=epoch)
    if is_deleted:
        world.delete("job-launcher")
    else:
        world.end("job-launcher", pod_reason="Evicted", code=137)
    world.settle()
    world.reap("job-launcher")
    for _ in range(3):
        world.wait(60)
        world.settle()
        world.run()
    launcher = world.pods["job-launcher-r1"]
    assert (world.status.epoch, world.status.launcher_uid) == (2, launcher.uid)
    assert launcher.is_container_running
    assert not world.pods[name].is_deleting


@pytest.mark.long
@pytest.mark.timeout(60)
def test_a_pass_comes_to_its_end_however_many_pods_somebody_has_given_to_the_job() -> None:
    """For the reason of each one's end less room is left than the dots of one that is cut take."""
    world = ModelWorld(make_job(2))
    world.start()
    own = world.pods["job-worker-0"]
    for number in range(MAX_REASONS // len("...") + 1):
        forged = replace(own, name=f"other-worker-{number}", uid=f"forged-{number}", index=number)
        world.pods[forged.name] = forged
    world.pods[own.name] = replace(own, phase="Failed")

    plan(world.snapshot(), world.now)
