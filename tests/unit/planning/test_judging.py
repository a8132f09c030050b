"""Who caused a launcher's end: the command's own is what its broker told before anybody asked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from et_contract.documents import Report
from et_kube.resources import CONFIG_MAPS, PODS
from et_operator.model.pods import Node, Termination
from et_operator.model.specs import RestartPolicy
from tests.planning_makers import ModelWorld, make_job, make_template


def start(**spec: object) -> ModelWorld:
    world = ModelWorld(make_job(2, **spec))
    world.start()
    return world


def lose_pod(world: ModelWorld, name: str) -> None:
    del world.pods[name]


def delete_pod(world: ModelWorld, name: str) -> None:
    world.delete(name)


def evict_pod(world: ModelWorld, name: str) -> None:
    world.put(name, phase="Failed", pod_reason="Evicted")


def restart_node(world: ModelWorld, name: str) -> None:
    world.put(name, phase="Failed", termination=Termination(255, "Unknown"))


def lose_node(world: ModelWorld, name: str) -> None:
    world.put(name, phase="Running", is_container_running=True, termination=None)
    world.delete(name)
    world.nodes = {"n1": Node("n1", is_ready=False, is_unreachable=True)}


AFTERWARDS = [lose_pod, delete_pod, evict_pod, restart_node, lose_node]


@pytest.mark.parametrize("happen", AFTERWARDS)
def test_what_the_command_did_by_itself_is_its_own_whatever_became_of_its_pod(
    happen: Callable[[ModelWorld, str], None],
) -> None:
    world = start()
    world.finish(3)
    happen(world, "job-launcher")
    world.settle()
    assert world.reason("Failed") == "LauncherFailed"
    [failed] = [c for c in world.status.conditions if c.type == "Failed"]
    assert "exit code 3" in failed.message
    assert (world.status.failures.user, world.status.failures.infrastructure) == (1, 0)


def test_it_is_tried_again_as_often_as_the_job_allows() -> None:
    world = start(restart_policy=RestartPolicy.ON_FAILURE, backoff_limit=1)
    for _ in range(2):
        assert world.phase() != "Failed"
        assert world.launcher is not None
        name = world.launcher.name
        world.finish(3)
        del world.pods[name]
        world.settle()
        world.wait(60)
        world.start()
    assert world.reason("Failed") == "BackoffLimitExceeded"
    assert (world.status.failures.user, world.status.failures.infrastructure) == (2, 0)


@pytest.mark.parametrize("happen", AFTERWARDS)
@pytest.mark.parametrize(("code", "is_told"), [(3, True), (143, True), (143, False)])
def test_what_it_did_on_sigterm_is_the_doing_of_who_sent_it(
    code: int, happen: Callable[[ModelWorld, str], None], *, is_told: bool
) -> None:
    """A node that goes down may send it to the command before PID 1 has seen its own."""
    world = start()
    world.finish(code, is_told_to_end=is_told)
    happen(world, "job-launcher")
    world.settle()
    assert world.reason("Restarting") in {"LauncherDeleted", "LauncherDisrupted"}
    assert world.status.failures.user == 0


@pytest.mark.parametrize("happen", AFTERWARDS[:4])
def test_a_lost_worker_explains_it_there_too(happen: Callable[[ModelWorld, str], None]) -> None:
    world = start()
    del world.pods["job-worker-1"]
    world.finish(1)
    happen(world, "job-launcher")
    world.settle()
    assert world.reason("Restarting") == "WorkerLost"
    assert world.status.failures.user == 0


def test_whom_nobody_sees_any_more_is_judged_from_live_reads() -> None:
    world = start()
    world.finish(3)
    del world.pods["job-launcher"]
    premises = {(ref.resource, ref.name) for ref in world.step().premises}
    assert premises >= {(CONFIG_MAPS, "job-report"), (PODS, "job-launcher")}


@pytest.mark.parametrize(("is_all_gone", "reason"), [(False, "LauncherFailed"), (True, "Deleted")])
def test_a_job_that_is_being_deleted_tells_its_own_failure(
    reason: str, *, is_all_gone: bool
) -> None:
    """Where all of it has gone, its command may have failed for workers that went first."""
    world = start()
    world.finish(3)
    world.pods = {} if is_all_gone else {n: p for n, p in world.pods.items() if "worker" in n}
    world.job = replace(world.job, deletion_requested=world.now)
    world.settle()
    assert world.reason("Failed") == reason


def restart_unnoted(world: ModelWorld) -> None:
    """The second launcher is created, trains, and nobody looks any more."""
    world.finish(1)
    while "job-launcher-r1" not in world.pods:
        world.step()
        world.wait(1)
    world.run()
    world.serve()
    assert (world.status.epoch, world.status.launcher_uid) == (2, "")


@pytest.mark.parametrize("is_gone", [False, True])
@pytest.mark.parametrize("code", [0, 3])
def test_a_launcher_whose_uid_nobody_noted_has_told_its_end(code: int, *, is_gone: bool) -> None:
    world = start(restart_policy=RestartPolicy.ON_FAILURE, backoff_limit=1)
    restart_unnoted(world)
    world.finish(code)
    if is_gone:
        del world.pods["job-launcher-r1"]
    world.settle()
    assert world.phase() == ("Failed" if code else "Succeeded")
    assert world.reason("Failed") == ("BackoffLimitExceeded" if code else None)


def test_one_that_vanished_and_told_no_end_has_a_successor_of_the_next_epoch() -> None:
    """Agents that have obeyed it refuse another one of its epoch."""
    world = start(restart_policy=RestartPolicy.ON_FAILURE)
    restart_unnoted(world)
    del world.pods["job-launcher-r1"]
    world.go_on()
    assert (world.phase(), world.status.epoch) == ("Running", 3)


def test_that_it_vanished_is_read_before_it_is_noted() -> None:
    world = start(restart_policy=RestartPolicy.ON_FAILURE)
    restart_unnoted(world)
    del world.pods["job-launcher-r1"]
    premises = {(ref.resource, ref.name) for ref in world.step().premises}
    assert (PODS, "job-launcher-r1") in premises


@pytest.mark.parametrize("epoch", [1, 2])
def test_a_report_that_was_there_before_the_pods_tells_of_no_launcher(epoch: int) -> None:
    world = ModelWorld(make_job(2, restart_policy=RestartPolicy.ON_FAILURE))
    if epoch == 2:
        world.start()
        world.finish(1)
    while world.status.epoch < epoch:
        world.step()
    world.report = Report(epoch, "planted", 1, listed=frozenset({"a-uid"}), ended=0)
    world.go_on()
    assert (world.phase(), world.status.epoch) == ("Running", epoch)


HOOK = {"preStop": {"exec": {"command": ["sh", "-c", "touch /tmp/stop; sleep 60"]}}}


def start_hooked(**spec: object) -> ModelWorld:
    """As `start`, and a kubelet that ends the launcher runs its hook before it sends SIGTERM."""
    template = make_template(command=["horovodrun"], args=["python", "train.py"], lifecycle=HOOK)
    world = ModelWorld(make_job(2, **spec))
    assert world.job.spec is not None
    world.job = replace(world.job, spec=replace(world.job.spec, launcher_template=template))
    world.start()
    return world


def end_hooked(world: ModelWorld, code: int, *, is_pod_gone: bool = False) -> None:
    """PID 1 has been sent nothing when the command ends."""
    world.finish(code, is_told_to_end=False)
    end = Termination(code, finished=world.now)
    world.put("job-launcher", termination=end)
    if is_pod_gone:
        del world.pods["job-launcher"]


def end_for_hook(world: ModelWorld, code: int, *, is_pod_gone: bool) -> None:
    """20 s after somebody asked for its pod's end."""
    world.wait(20)
    end_hooked(world, code, is_pod_gone=is_pod_gone)
    world.settle()


@pytest.mark.parametrize("is_pod_gone", [False, True])
@pytest.mark.parametrize("code", [0, 1])
def test_what_a_hook_has_end_is_the_doing_of_who_ended_the_pod(
    code: int, *, is_pod_gone: bool
) -> None:
    world = start_hooked()
    world.delete("job-launcher", grace=300)
    world.settle()
    end_for_hook(world, code, is_pod_gone=is_pod_gone)
    assert (world.phase(), world.status.epoch) == ("Restarting", 2)
    assert world.status.failures.user == 0


@pytest.mark.parametrize("is_pod_gone", [False, True])
@pytest.mark.parametrize("code", [0, 1])
def test_what_saves_its_state_for_a_hook_as_its_job_is_suspended_goes_on(
    code: int, *, is_pod_gone: bool
) -> None:
    world = start_hooked()
    world.edit(suspend=True)
    world.settle()
    assert world.pods["job-launcher"].is_deleting
    end_for_hook(world, code, is_pod_gone=is_pod_gone)
    world.go_on()
    assert (world.phase(), world.condition("Succeeded")) == ("Suspended", None)
    world.edit(suspend=False)
    world.go_on()
    assert (world.phase(), world.status.epoch) == ("Running", 2)


@pytest.mark.parametrize("code", [0, 1])
def test_a_kubelet_that_evicts_runs_the_hook_too(code: int) -> None:
    world = start_hooked()
    world.put("job-launcher", disruption_reason="TerminationByKubelet", disrupted=world.now)
    world.wait(20)
    end_hooked(world, code)
    world.put("job-launcher", pod_reason="Evicted", phase="Failed")
    world.settle()
    assert world.phase() == "Restarting"


@pytest.mark.parametrize("is_deleted", [False, True])
@pytest.mark.parametrize(("code", "phase"), [(0, "Succeeded"), (1, "Failed")])
def test_what_ended_before_anybody_asked_for_it_is_its_own_for_all_its_hook(
    code: int, phase: str, *, is_deleted: bool
) -> None:
    world = start_hooked()
    end_hooked(world, code)
    if is_deleted:
        world.wait(20)
        world.delete("job-launcher", grace=300)
    world.settle()
    assert world.phase() == phase


@pytest.mark.parametrize("happen", AFTERWARDS)
def test_a_failure_that_a_former_broker_told_is_asked_of_the_pod(
    happen: Callable[[ModelWorld, str], None],
) -> None:
    """Whether anybody had told the command to end it did not say."""
    world = start()
    world.finish(1, is_told_to_end=None)
    happen(world, "job-launcher")
    world.settle()
    assert world.reason("Restarting") in {"LauncherDeleted", "LauncherDisrupted"}
    assert world.status.failures.user == 0
