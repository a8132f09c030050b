from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from et_operator.model.specs import AttachMode, RestartPolicy, StallPolicy
from tests.planning_makers import ModelWorld, make_job, make_template

HANGS = "it hangs"


def start(**spec: object) -> ModelWorld:
    world = ModelWorld(make_job(2, **spec))
    world.start()
    world.settle()
    return world


def tell(world: ModelWorld, **problems: str) -> None:
    """The broker writes into its report what it has seen."""
    assert world.report is not None
    world.report = replace(world.report, problems=problems)
    world.settle()


def test_ranks_that_form_no_ring_are_shown_until_they_do() -> None:
    world = start()
    tell(world, NoRing="2 ranks run, none of them has called hvd.init()")
    assert world.condition("NoRing") == "True"
    assert world.condition("LauncherTrouble") is None
    tell(world)
    assert world.condition("NoRing") == "False"


@pytest.mark.point("case-26")
def test_a_command_that_hangs_is_shown_and_left_alone_until_it_goes_on() -> None:
    world = start()
    tell(world, DriverStalled=HANGS)
    assert world.condition("DriverStalled") == "True"
    assert world.condition("LauncherTrouble") is None
    assert [(e.reason, e.is_warning) for e in world.events][-1] == ("DriverStalled", True)
    world.wait(3600)
    world.settle()
    assert world.phase() == "Running"
    assert world.status.epoch == 1
    tell(world)
    assert world.condition("DriverStalled") == "False"


def test_another_trouble_of_the_broker_is_shown_beside_it() -> None:
    world = start()
    tell(world, DriverStalled=HANGS, ExecForbidden="no")
    assert world.reason("LauncherTrouble") == "ExecForbidden"
    assert world.condition("DriverStalled") == "True"


@pytest.mark.parametrize(
    ("spec", "is_told"),
    [
        ({"launcher": "horovodrun"}, True),
        ({"launcher": "mpirun", "is_elastic": False}, True),
        ({"launcher": "other"}, False),
        ({"launcher": "horovodrun", "attach_mode": AttachMode.SSH}, False),
    ],
)
def test_workers_that_run_nothing_are_shown_of_commands_that_are_known(
    spec: dict[str, object], *, is_told: bool
) -> None:
    world = start(**spec)
    tell(world, WorkersIdle="1 of 2 workers run no process")
    assert world.condition("WorkersIdle") == ("True" if is_told else None)
    assert world.condition("LauncherTrouble") is None
    tell(world)
    assert world.condition("WorkersIdle") == ("False" if is_told else None)


@pytest.mark.parametrize(
    ("spec", "cause"),
    [
        ({"is_alone": True}, "tells horovodrun of no hosts: its processes run in the launcher's"),
        (
            {"command_most": 1, "slots_per_worker": 4},
            "1 process at most (--max-np), and 2 workers of slotsPerWorker 4 are to be there: what",
        ),
        ({"command_most": 2}, "lets others in when the script next commits (state.commit())"),
        ({"launcher": "torchrun", "command_most": 1}, "Raise it (--nnodes=1:2)"),
        ({"launcher": "torchrun", "is_alone": True}, "tells torchrun of one node, or of a"),
        ({"launcher": "torchrun"}, "begins with the least of its --nnodes"),
        ({"launcher": "mpirun", "is_elastic": False}, "mpirun starts its processes once, as many"),
    ],
)
def test_why_workers_run_nothing_is_told_as_far_as_the_command_tells_it(
    spec: dict[str, object], cause: str
) -> None:
    world = start(**({"launcher": "horovodrun"} | spec))
    idle = "1 of 2 workers have run no process"
    tell(world, WorkersIdle=idle)
    assert (world.events[-1].reason, world.events[-1].is_warning) == ("WorkersIdle", True)
    assert world.message("WorkersIdle").startswith(f"{idle}: ")
    assert cause in world.message("WorkersIdle")


@pytest.mark.parametrize(("number", "is_told"), [(3, False), (4, True)])
def test_a_scaling_beyond_what_the_command_has_room_for_is_told_as_it_begins(
    number: int, *, is_told: bool
) -> None:
    world = start(launcher="horovodrun", command_most=3)
    world.edit(replicas=number)
    world.settle()
    told = [e.message for e in world.events if e.reason == "CommandWarning"]
    assert [
        f"and {number} workers of slotsPerWorker 1 are to be there" in text for text in told
    ] == [True] * is_told
    world.edit(replicas=2)
    world.settle()
    assert len([e for e in world.events if e.reason == "CommandWarning"]) == is_told


def test_of_a_command_that_was_edited_since_no_cause_is_made_up() -> None:
    world = start(launcher="horovodrun")
    template = make_template(image="other", command=["horovodrun"])
    world.edit(launcher_template=template, command_most=1)
    tell(world, WorkersIdle="1 of 2 workers run no process")
    assert world.message("WorkersIdle") == "1 of 2 workers run no process"


@pytest.mark.point("case-26")
def test_a_job_whose_author_wants_that_fails_after_a_minute() -> None:
    world = start(stall_policy=StallPolicy.FAIL)
    tell(world, DriverStalled=HANGS)
    assert world.requeue_after == timedelta(seconds=60)
    world.wait(59)
    world.settle()
    assert world.phase() == "Running"
    world.wait(1)
    world.settle()
    assert [name for name, pod in world.pods.items() if pod.is_deleting] == ["job-launcher"]
    world.reap()
    world.settle()
    world.reap()
    assert world.phase() == "Failed"
    assert world.reason("Failed") == "DriverStalled"
    assert HANGS in world.events[-1].message
    assert not [pod for pod in world.pods.values() if not pod.is_terminal]


def test_one_that_goes_on_in_time_is_not_ended() -> None:
    world = start(stall_policy=StallPolicy.FAIL)
    for _ in range(3):
        tell(world, DriverStalled=HANGS)
        world.wait(59)
        world.settle()
        tell(world)
        world.wait(100)
        world.settle()
    assert world.phase() == "Running"


@pytest.mark.point("case-26")
@pytest.mark.parametrize("policy", list(RestartPolicy))
def test_its_launcher_is_replaced_and_the_workers_stay(policy: RestartPolicy) -> None:
    world = start(stall_policy=StallPolicy.RESTART, restart_policy=policy)
    workers = set(world.workers)
    tell(world, DriverStalled=HANGS)
    world.wait(60)
    world.settle()
    assert world.reason("Restarting") == "DriverStalled"
    assert world.pods["job-launcher"].is_deleting
    world.wait(1)
    world.go_on(2)
    assert world.launcher is not None
    assert world.launcher.name == "job-launcher-r1"
    assert "job-launcher" not in world.pods
    assert set(world.workers) == workers
    assert world.phase() == "Running"
    assert world.condition("DriverStalled") == "False"
    assert world.status.failures.user == 1


def test_the_next_one_comes_when_it_has_ended() -> None:
    world = start(stall_policy=StallPolicy.RESTART)
    tell(world, DriverStalled=HANGS)
    world.wait(60)
    world.settle()
    world.wait(20)
    world.settle()
    assert [name for name in world.pods if "launcher" in name] == ["job-launcher"]
    world.reap()
    world.settle()
    assert [name for name in world.pods if "launcher" in name] == ["job-launcher-r1"]


def test_it_is_replaced_no_more_often_than_the_author_allows() -> None:
    world = start(stall_policy=StallPolicy.RESTART, backoff_limit=1)
    for _ in range(2):
        tell(world, DriverStalled=HANGS)
        world.wait(60)
        world.go_on(2)
    assert world.reason("Failed") == "BackoffLimitExceeded"
    assert HANGS in world.events[-1].message


@pytest.mark.parametrize("policy", [StallPolicy.RESTART, StallPolicy.FAIL])
def test_what_cannot_be_taken_back_rests_on_the_report_as_it_is_now(policy: StallPolicy) -> None:
    world = start(stall_policy=policy)
    tell(world, DriverStalled=HANGS)
    world.wait(60)
    assert [premise.name for premise in world.step().premises] == ["job-report"]


def test_a_launcher_that_is_being_deleted_is_judged_by_that() -> None:
    world = start(stall_policy=StallPolicy.FAIL)
    tell(world, DriverStalled=HANGS)
    world.delete("job-launcher")
    world.wait(60)
    world.settle()
    assert world.phase() == "Running"
    assert world.condition("DriverStalled") == "False"
    world.end("job-launcher", 143)
    world.wait(30)
    world.settle()
    assert (world.status.failures.user, world.status.failures.infrastructure) == (0, 1)


def test_a_command_that_has_ended_and_one_that_is_suspended_do_not_hang() -> None:
    world = start(stall_policy=StallPolicy.FAIL)
    tell(world, DriverStalled=HANGS)
    world.edit(suspend=True)
    world.wait(60)
    world.settle()
    assert world.phase() == "Suspended"
    world = start(stall_policy=StallPolicy.FAIL)
    tell(world, DriverStalled=HANGS)
    world.wait(60)
    world.finish(0)
    world.settle()
    assert world.phase() == "Succeeded"


def test_a_loss_that_met_ranks_without_ours_is_told_in_one_event() -> None:
    world = start()
    tell(world, RingNotBroken="job-worker-1 was lost, and the ranks of the others")
    assert world.condition("RingNotBroken") == "True"
    assert world.condition("LauncherTrouble") is None
    world.wait(600)
    world.settle()
    assert [event.reason for event in world.events].count("RingNotBroken") == 1
    tell(world)
    assert world.condition("RingNotBroken") == "False"
