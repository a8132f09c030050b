from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from et_contract.documents import MemberState
from et_operator.model.pods import Node, Termination
from et_operator.model.snapshots import Refusal, RuntimeFiles
from et_operator.model.specs import LossRecovery
from et_operator.model.statuses import Runtime, WorkerState
from tests.planning_makers import ModelWorld, make_job


def start(replicas: int = 3) -> ModelWorld:
    world = ModelWorld(make_job(replicas))
    world.start()
    world.wait(20)
    return world


def test_a_failed_worker_is_replaced_under_a_new_name_at_once() -> None:
    world = start()
    world.wait(60)
    world.end("job-worker-1", 1)
    world.settle()
    assert sorted(world.workers) == ["job-worker-0", "job-worker-2", "job-worker-3"]
    assert world.states()["job-worker-1"] == "gone"
    assert world.pods["job-worker-3"].retries == 0


def test_a_worker_that_was_noted_as_gone_and_lives_leaves() -> None:
    world = start()
    lost = world.pods.pop("job-worker-1")
    world.settle()
    world.run()
    world.serve()
    world.settle()
    assert world.states()["job-worker-1"] == "gone"
    world.pods[lost.name] = lost
    [reported] = [e for e in _look_again(world) if "noted as gone and lives" in e]
    assert "job-worker-1" in reported
    assert world.pods[lost.name].is_deleting
    world.reap()
    world.settle()
    assert sorted(world.workers) == ["job-worker-0", "job-worker-2", "job-worker-3"]


def test_one_that_the_config_names_still_leaves_by_the_list() -> None:
    world = start()
    lost = world.pods.pop("job-worker-1")
    world.step()
    world.pods[lost.name] = lost
    world.step()
    assert not world.pods[lost.name].is_deleting
    world.settle()
    assert world.states()["job-worker-1"] == "draining"
    world.serve()
    world.settle()
    world.reap()
    world.settle()
    assert lost.name not in world.pods


def _look_again(world: ModelWorld) -> list[str]:
    before = len(world.events)
    world.settle()
    return [event.message for event in world.events[before:]]


def test_a_worker_that_came_to_run_just_before_the_config_was_written_has_joined() -> None:
    world = ModelWorld(make_job(3))
    world.settle()
    world.wait(1)
    world.run("job-launcher", "job-worker-0", "job-worker-1")
    world.wait(5)
    assert any(world.step().status is not None and world.status.generation > 1 for _ in range(9))
    world.run("job-worker-2")
    world.settle()
    assert set(world.states()) == {"job-worker-0", "job-worker-1", "job-worker-2"}
    assert world.config is not None
    assert world.config.generation == 2, "they came with one write"
    assert world.status.workers == ()


def test_the_end_is_in_the_status_before_it_is_in_the_config() -> None:
    world = start()
    world.end("job-worker-1", 1)
    first = world.step()
    assert first.actions == ()
    assert [r.state for r in world.status.workers] == [WorkerState.GONE, WorkerState.JOINING]
    world.step()
    assert world.states()["job-worker-1"] == "gone"


def test_a_worker_deleted_by_somebody_drains_and_is_replaced() -> None:
    world = start()
    world.delete("job-worker-0")
    world.settle()
    assert world.states()["job-worker-0"] == "draining"
    world.wait(1)
    world.settle()
    assert "job-worker-3" in world.workers
    world.reap()
    world.settle()
    assert world.states()["job-worker-0"] == "gone"


def graces(world: ModelWorld) -> dict[str, int | None]:
    assert world.config is not None
    return {member.name: member.grace_seconds for member in world.config.members}


def test_the_same_write_says_how_long_a_deleted_worker_has() -> None:
    world = start()
    assert world.config is not None
    before = world.config.generation
    world.delete("job-worker-0", grace=10)
    world.settle()
    assert graces(world) == {"job-worker-0": 10, "job-worker-1": None, "job-worker-2": None}
    assert world.config.generation == before + 1
    world.delete("job-worker-0", grace=3)
    world.settle()
    assert graces(world)["job-worker-0"] == 3
    world.serve()  # it has closed
    world.delete("job-worker-0", grace=1)
    world.settle()
    assert graces(world)["job-worker-0"] == 3


def test_nobody_is_told_of_the_time_of_a_worker_that_has_closed() -> None:
    world = start()
    world.edit(replicas=2)
    world.settle()
    world.serve()
    world.settle()
    assert [pod.name for pod in world.pods.values() if pod.is_deleting]
    assert set(graces(world).values()) == {None}


def test_a_worker_dying_on_a_lost_node_is_gone() -> None:
    world = start()
    world.delete("job-worker-0")
    world.settle()
    assert world.states()["job-worker-0"] == "draining"
    world.nodes["n1"] = Node("n1", is_unreachable=True)
    world.settle()
    assert world.states()["job-worker-0"] == "gone"
    world.nodes["n1"] = Node("n1")
    world.settle()
    assert world.states()["job-worker-0"] == "gone"  # final


def test_a_worker_dying_where_a_kubelet_says_that_it_is_not_ready_has_its_grace() -> None:
    world = start()
    world.nodes["n1"] = Node("n1", is_ready=False)
    world.delete("job-worker-0", grace=300)
    world.settle()
    world.wait(359)
    world.settle()
    assert world.states()["job-worker-0"] == "draining"
    assert world.step().requeue_after == timedelta(seconds=1)
    world.wait(1)
    world.settle()
    assert world.states()["job-worker-0"] == "gone"


def test_nothing_is_over_before_the_grace_of_a_deletion_is_known() -> None:
    world = start()
    world.nodes["n1"] = Node("n1", is_ready=False)
    world.put("job-worker-0", deletion_requested=world.now)
    world.wait(3600)
    world.settle()
    assert world.states()["job-worker-0"] == "draining"


def test_a_node_that_is_not_ready_alone_ends_nobody() -> None:
    world = start()
    world.nodes["n1"] = Node("n1", is_ready=False)
    world.settle()
    assert set(world.states().values()) == {"active"}


@pytest.mark.long
def test_old_ends_are_forgotten_when_the_config_is_written_anyway() -> None:
    world = start()
    for _ in range(4):
        name = world.workers[0]
        del world.pods[name]
        world.go_on()
        world.wait(301)
        world.settle()
    assert len(world.status.workers) <= 2
    assert len(world.states()) <= 5


@pytest.mark.long
def test_failed_pods_do_not_pile_up() -> None:
    world = start(2)
    for _ in range(12):
        world.end(world.workers[0], 1)
        world.settle()
        world.wait(60)
        world.start()
    assert sum(pod.is_terminal for pod in world.pods.values()) == 5
    assert len(world.workers) == 2


def test_a_surplus_worker_leaves_as_any_other() -> None:
    world = start(2)
    stray = replace(world.pods["job-worker-1"], name="job-worker-7", uid="stray", index=7)
    world.pods["job-worker-7"] = stray
    world.go_on()
    assert len(world.workers) == 2
    assert "job-worker-7" not in world.workers


def test_a_lost_config_is_written_again_without_forgetting_who_drains() -> None:
    world = start(3)
    world.edit(replicas=2)
    world.settle()
    del world.children["job-config"]
    world.config = None
    world.settle()
    assert world.states()["job-worker-2"] == MemberState.DRAINING.value
    assert not world.pods["job-worker-2"].is_deleting


def test_numbers_are_written_when_they_have_settled() -> None:
    world = ModelWorld(make_job(4, minimum=1))
    world.settle()
    world.wait(1)
    world.run("job-worker-0", "job-launcher")
    world.settle()
    before = world.log.count("status")
    world.run("job-worker-1")
    world.settle()
    assert world.log.count("status") - before <= 1
    assert world.requeue_after is not None
    world.wait(5)
    world.settle()
    assert world.status.replica_statuses.worker.active == 2
    assert world.status.replicas == 4


def test_events_tell_of_a_loss_and_its_replacement() -> None:
    world = start()
    count = len(world.events)
    world.end("job-worker-1", 1)
    world.settle()
    assert [e.reason for e in world.events[count:]] == ["WorkerLost", "WorkersAdded"]
    assert "exit code 1" in world.events[count].message
    assert "job-worker-3" in world.events[count + 1].message


def test_a_refusal_is_of_no_interest_when_no_pod_is_missing() -> None:
    world = start()
    world.refusal = Refusal("no", 1, world.now, generation=1)
    world.settle()
    assert world.condition("PodsRefused") is None


def test_a_worker_whose_container_has_ended_is_lost_though_its_sidecar_lives_on() -> None:
    world = start()
    count = len(world.events)
    killed = Termination(137, "OOMKilled", "", world.now)
    world.put("job-worker-1", is_container_running=False, termination=killed)
    world.settle()
    assert world.pods["job-worker-1"].phase == "Running"
    assert world.states()["job-worker-1"] == "gone"
    assert world.events[count].reason == "WorkerLost"
    assert "exit code 137 OOMKilled" in world.events[count].message
    assert world.status.replica_statuses.worker.active == 2
    world.go_on()
    assert {"job-worker-0", "job-worker-2", "job-worker-3"} <= set(world.states())
    assert world.states()["job-worker-3"] == "active"


@pytest.mark.parametrize("skew", [0, -60, 60])
def test_what_lives_on_beside_a_lost_worker_holds_its_resources_for_half_a_minute(
    skew: int,
) -> None:
    world = start()
    ended = Termination(1, "Error", "", world.now + timedelta(seconds=skew))
    world.put("job-worker-1", is_container_running=False, termination=ended)
    world.settle()
    world.wait(29)
    world.settle()
    assert not world.pods["job-worker-1"].is_deleting
    assert world.requeue_after == timedelta(seconds=1)
    world.wait(1)
    world.settle()
    assert world.pods["job-worker-1"].is_deleting


def test_a_victim_whose_container_has_ended_has_left() -> None:
    world = start()
    world.edit(replicas=2)
    world.settle()
    world.serve()
    world.settle()
    ended = Termination(143, "Error", "", world.now)
    world.put("job-worker-2", is_container_running=False, termination=ended)
    world.settle()
    assert world.status.scaling is None
    assert world.states()["job-worker-2"] == "gone"


def ips(world: ModelWorld) -> dict[str, tuple[str, ...]]:
    assert world.config is not None
    return {member.name: member.ips for member in world.config.members}


def test_the_addresses_of_workers_are_told_and_stay_those_that_one_who_is_gone_had() -> None:
    world = start()
    both = ("10.0.0.7", "fd00::7")
    world.put("job-worker-1", ips=both)
    world.settle()
    known = {"job-worker-0": ("10.0.0.0",), "job-worker-1": both, "job-worker-2": ("10.0.0.2",)}
    assert ips(world) == known
    world.put("job-worker-1", ips=())
    world.end("job-worker-1", 1)
    world.settle()
    assert world.states()["job-worker-1"] == "gone"
    world.put("job-worker-1", ips=("10.0.0.9",))
    world.settle()
    assert ips(world)["job-worker-1"] == both


def test_nobody_is_told_of_addresses_where_losses_are_waited_for() -> None:
    world = ModelWorld(make_job(3, loss_recovery=LossRecovery.WAIT))
    world.start()
    assert set(ips(world).values()) == {()}


def test_nor_is_a_broker_that_would_not_know_what_they_are_for() -> None:
    world = ModelWorld(make_job(3), RuntimeFiles(Runtime("d0", "broker:0", 1), {}))
    world.start()
    assert set(ips(world).values()) == {()}
