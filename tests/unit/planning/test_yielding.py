"""Where there is little room: the launcher first, then the minimum, then the others."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from et_kube.resources import PODS, Json
from et_operator.model.actions import Create
from et_operator.model.pods import Termination
from et_operator.model.snapshots import Refusal
from et_operator.model.specs import LauncherCreation, RestartPolicy
from tests.planning_makers import ModelWorld, make_job

WORDS = "pods is forbidden: exceeded quota: small"


def lose_launcher(world: ModelWorld) -> None:
    world.end("job-launcher", 137, pod_reason="Evicted")
    world.settle()


def refuse(
    world: ModelWorld, count: int, name: str = "job-launcher-r1", words: str = WORDS
) -> None:
    world.refusals[PODS] = Refusal(words, count, world.now, world.job.generation, name)
    world.settle()
    world.reap()
    world.settle()


def start(**spec: object) -> ModelWorld:
    world = ModelWorld(make_job(8, **({"minimum": 2} | spec)))
    world.start()
    world.wait(100)
    world.settle()
    lose_launcher(world)
    return world


def test_a_launcher_is_created_before_its_workers() -> None:
    world = ModelWorld(make_job(3))
    world.settle()
    created = [line for line in world.log if line.startswith("create Pod")]
    assert created[0] == "create Pod job-launcher"


def test_no_worker_above_the_minimum_is_created_before_a_launcher_that_waits() -> None:
    world = start(restart_policy=RestartPolicy.ON_FAILURE)
    for name in list(world.workers)[:7]:
        world.end(name, 137, pod_reason="Evicted")
    world.settle()
    assert len(world.workers) == 2
    world.wait(1)
    world.settle()
    assert world.launcher is not None
    assert world.launcher.name == "job-launcher-r1"
    assert len(world.workers) == 8


def test_a_launcher_that_waits_for_workers_has_room_when_they_run() -> None:
    creation = LauncherCreation.WAIT_FOR_WORKERS_READY
    world = ModelWorld(make_job(8, minimum=2, launcher_creation=creation))
    world.settle()
    assert len(world.workers) == 2
    world.run()
    world.settle()
    assert world.launcher is not None
    assert len(world.workers) == 8


def test_a_launcher_that_was_refused_is_asked_for_alone() -> None:
    world = ModelWorld(make_job(8, minimum=2))
    world.step()
    world.refusals[PODS] = Refusal(WORDS, 1, world.now, 1, "job-worker-3")
    world.wait(10)
    plan = world.step()
    created = [line for line in map(str, plan.actions) if "'Pod'" in line]
    assert len([line for line in world.log if line.startswith("create Pod")]) == 1, created
    assert "job-launcher" in world.pods
    world.refusals.clear()
    world.settle()
    assert len(world.workers) == 8


GROWTH = ["job-worker-8", "job-worker-9"]


def start_in_a_quota() -> ModelWorld:
    """Eight workers have room, ten are wanted: the quota has refused the others for a while."""
    world = ModelWorld(make_job(8, minimum=2))
    world.start()
    world.edit(replicas=10)
    world.step()
    world.refusals[PODS] = Refusal(WORDS, 13, world.now, 2, GROWTH[0])
    world.settle()
    world.wait(100)
    world.settle()
    assert not world.pods.keys() & set(GROWTH)
    return world


def test_growth_that_is_refused_keeps_no_launcher_waiting_whose_room_is_free() -> None:
    world = start_in_a_quota()
    lose_launcher(world)
    world.wait(1)
    plan = world.step()
    created = [action.ref.name for action in plan.actions if isinstance(action, Create)]
    assert created == ["job-launcher-r1"], "alone: growth could use up its room"


def test_nor_a_replacement_whose_room_is_free() -> None:
    world = start_in_a_quota()
    world.end("job-worker-3", 137, pod_reason="Evicted")
    world.step()
    world.step()
    assert "job-worker-10" in world.pods
    assert not world.pods.keys() & set(GROWTH)


def test_what_was_refused_itself_waits() -> None:
    world = start_in_a_quota()
    world.end("job-worker-3", 137, pod_reason="Evicted")
    world.step()
    world.refusals[PODS] = Refusal(WORDS, 1, world.now, 2, "job-worker-10")
    world.settle()
    assert world.requeue_after == timedelta(seconds=10)
    lose_launcher(world)
    world.wait(1)
    world.refusals[PODS] = Refusal(WORDS, 1, world.now, 2, "job-launcher-r1")
    world.settle()
    assert "job-launcher-r1" not in world.pods
    assert len(world.workers) == 7
    world.wait(10)
    world.step()
    assert "job-launcher-r1" in world.pods


def test_idle_workers_above_the_minimum_give_way_newest_first_and_more_each_time() -> None:
    world = start()
    refuse(world, 1)
    assert len(world.workers) == 8, "what has just ended may be counted still"
    left = []
    for count in range(2, 6):
        refuse(world, count)
        left.append(list(world.workers))
    assert left[0] == [f"job-worker-{index}" for index in range(7)]
    assert [len(names) for names in left] == [7, 5, 2, 2]
    told = [event for event in world.events if event.reason == "QuotaYielded"]
    assert len(told) == 3
    assert told[0].message == (
        "a quota has no room for job-launcher-r1, without which workers run nothing: "
        f"job-worker-7 leave: {WORDS}"
    )
    assert world.condition("PodsRefused") == "True"
    world.refusals.clear()
    world.wait(1)
    world.go_on()
    assert world.launcher is not None
    assert len(world.workers) == 8


def test_growth_that_has_never_come_leaves_no_room_and_is_not_counted() -> None:
    world = start_in_a_quota()
    lose_launcher(world)
    left = []
    for count in range(1, 5):
        refuse(world, count)
        left.append(len(world.workers))
    assert left == [8, 7, 5, 2]


@pytest.mark.parametrize("gone", [0, 1])
def test_nor_is_what_is_asked_for_while_the_launcher_waits(gone: int) -> None:
    world = start()
    for count in range(1, 2 + gone):
        refuse(world, count)
    if gone:
        world.wait(1)
    world.edit(replicas=12)
    left = []
    for count in range(2, 5):
        refuse(world, count)
        left.append(len(world.workers))
    assert left == [7, 5, 2]


def test_a_worker_of_a_growth_that_had_come_leaves_room_as_any_other() -> None:
    world = ModelWorld(make_job(8, minimum=2))
    world.start()
    world.edit(replicas=12)
    world.settle()
    world.run("job-worker-8", "job-worker-9")
    world.settle()
    world.wait(100)
    world.settle()
    lose_launcher(world)
    left = []
    for count in range(1, 5):
        refuse(world, count)
        left.append(sum(pod.is_container_running for pod in world.pods.values()))
    assert left == [10, 10, 9, 5], "the two that wait for a node go first"


def test_nor_is_it_where_nodes_are_full() -> None:
    world = start_in_a_quota()
    lose_launcher(world)
    world.wait(1)
    world.step()
    world.put("job-launcher-r1", unschedulable_message="0/3 nodes: 3 Insufficient cpu.")
    left = []
    for _ in range(3):
        world.wait(60)
        world.settle()
        world.reap()
        world.settle()
        left.append(len(world.workers))
    assert left == [7, 5, 2]


@pytest.mark.parametrize(
    ("name", "words"),
    [("job-worker-9", WORDS), ("job-launcher-r1", "violates PodSecurity")],
    ids=["another pod", "no quota"],
)
def test_nobody_gives_way_where_that_would_not_help(name: str, words: str) -> None:
    world = start()
    refuse(world, 5, name, words)
    assert len(world.workers) == 8


def test_workers_of_a_launcher_that_cannot_start_with_fewer_stay() -> None:
    world = start(minimum=None)
    refuse(world, 5)
    assert len(world.workers) == 8


def test_nobody_gives_way_while_a_former_launcher_may_run() -> None:
    world = ModelWorld(make_job(8, minimum=2))
    world.start()
    world.delete("job-launcher")
    world.settle()
    refuse(world, 5, "job-launcher")
    assert len(world.workers) == 8


COUNTED = f"{WORDS}, requested: count/pods=1, used: count/pods=9, limited: count/pods=9"


def test_pods_that_have_ended_go_where_a_quota_counts_them_and_before_any_worker() -> None:
    world = start()
    assert "job-launcher" in world.pods, "kept for its log"
    refuse(world, 1, words=COUNTED)
    assert "job-launcher" not in world.pods
    assert len(world.workers) == 8
    refuse(world, 2, words=COUNTED)
    assert len(world.workers) == 7, "now live ones: there is still no room"


def test_pods_that_have_ended_stay_where_a_quota_does_not_count_them() -> None:
    world = start()
    refuse(world, 1, words=f"{WORDS}, requested: pods=1, used: pods=8, limited: pods=8")
    assert "job-launcher" in world.pods


def end_beside_others(world: ModelWorld) -> None:
    """The launcher's command fails, and a container beside it lives on."""
    assert world.report is not None
    world.report = replace(world.report, ended=1)
    ended = Termination(1, "Error", "", world.now)
    world.put("job-launcher", is_container_running=False, termination=ended)
    world.settle()


def end_where_nodes_are_full() -> ModelWorld:
    """No node has room for the next launcher while others live on beside the last one."""
    world = ModelWorld(make_job(8, minimum=2, restart_policy=RestartPolicy.ON_FAILURE))
    world.start()
    end_beside_others(world)
    world.wait(1)
    world.settle()
    words = "0/3 nodes are available: 3 Insufficient cpu."
    world.put("job-launcher-r1", unschedulable_message=words)
    return world


def test_a_launcher_that_has_ended_leaves_its_room_to_the_next_one_before_any_worker_does() -> None:
    world = ModelWorld(make_job(8, minimum=2, restart_policy=RestartPolicy.ON_FAILURE))
    world.start()
    end_beside_others(world)
    assert not world.pods["job-launcher"].is_deleting, "its broker may tell something yet"
    world.refusals[PODS] = Refusal(WORDS, 1, world.now, world.job.generation, "job-launcher-r1")
    world.settle()
    world.wait(29)
    world.settle()
    assert not world.pods["job-launcher"].is_deleting, "what works beside it has half a minute"
    world.wait(1)
    world.settle()
    assert world.pods["job-launcher"].is_deleting

    world.wait(25)
    world.settle()
    assert len(world.workers) == 8
    assert "job-launcher-r1" not in world.pods, "as long as the former one holds its room"

    world.reap()
    world.settle()
    assert "job-launcher-r1" in world.pods
    assert len(world.workers) == 8


def test_workers_give_way_where_that_room_is_not_enough() -> None:
    world = ModelWorld(make_job(8, minimum=2, restart_policy=RestartPolicy.ON_FAILURE))
    world.start()
    end_beside_others(world)
    refuse(world, 1)
    world.wait(30)
    world.settle()
    world.reap("job-launcher")
    refuse(world, 2)
    assert len(world.workers) == 7


def test_so_it_does_where_no_node_has_enough_left_for_the_next_one() -> None:
    world = end_where_nodes_are_full()
    world.settle()
    world.wait(30)
    world.settle()
    assert world.pods["job-launcher"].is_deleting

    world.wait(100)
    world.settle()
    assert len(world.workers) == 8, "it is on its way"
    world.reap()
    world.settle()
    world.reap()
    assert len(world.workers) == 7


def test_nobody_waits_for_that_room_as_long_as_an_hours_grace_is() -> None:
    world = end_where_nodes_are_full()
    world.wait(30)
    world.settle()
    world.put("job-launcher", deletion_grace_seconds=3600)
    world.wait(119)
    world.settle()
    assert len(world.workers) == 8
    assert world.requeue_after == timedelta(seconds=1)
    world.wait(1)
    world.settle()
    world.reap("job-worker-7")
    assert len(world.workers) == 7
    assert "job-launcher" in world.pods


def test_failed_workers_make_room_for_their_replacements_where_a_quota_counts_them() -> None:
    world = ModelWorld(make_job(3, minimum=1))
    world.start()
    world.end("job-worker-1", 1)
    world.settle()
    assert "job-worker-1" in world.pods, "kept for its log"
    refuse(world, 1, name="job-worker-3", words=COUNTED)
    assert "job-worker-1" not in world.pods


def require(term: dict[str, Any]) -> dict[str, Any]:
    terms = {"nodeSelectorTerms": [term]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


def amend(template: Json, fields: dict[str, Any]) -> Json:
    return {**template, "spec": {**template["spec"], **fields}}


def start_unplaced(words: str) -> ModelWorld:
    world = start()
    world.refusals.clear()
    world.wait(5)
    world.step()
    world.put("job-launcher-r1", unschedulable_message=words)
    world.settle()
    return world


def test_idle_workers_give_way_to_a_launcher_for_which_no_node_has_enough_left() -> None:
    words = "0/3 nodes are available: 3 Insufficient cpu."
    world = start_unplaced(words)
    assert len(world.workers) == 8, "a new node may come"
    left = []
    for _ in range(4):
        world.wait(60)
        world.settle()
        world.reap()
        world.settle()
        left.append(len(world.workers))
    assert left == [7, 5, 2, 2]
    told = [event.message for event in world.events if event.reason == "RoomYielded"]
    assert told[0] == (
        "the nodes have no room for job-launcher-r1, without which workers run nothing: "
        f"job-worker-7 leave: {words}"
    )
    world.put("job-launcher-r1", unschedulable_message="")
    world.go_on()
    assert len(world.workers) == 8


def test_nobody_gives_way_to_a_launcher_that_would_fit_no_node_anyway() -> None:
    world = start_unplaced("0/3 nodes are available: 3 node(s) didn't match Pod's node affinity.")
    world.wait(600)
    world.settle()
    assert len(world.workers) == 8


GPU_ONLY = [{"key": "nvidia.com/gpu", "operator": "Exists"}]
POOL = {"matchExpressions": [{"key": "pool", "operator": "In", "values": ["cpu"]}]}


@pytest.mark.parametrize(
    ("launcher", "worker", "remain"),
    [
        ({"nodeSelector": {"pool": "cpu"}}, {}, 8),
        ({"nodeSelector": {"pool": "cpu"}}, {"nodeSelector": {"pool": "gpu"}}, 8),
        ({"nodeSelector": {"pool": "gpu"}}, {"nodeSelector": {"pool": "gpu", "zone": "a"}}, 7),
        ({"affinity": require(POOL)}, {}, 8),
        ({"affinity": require(POOL)}, {"affinity": require(POOL)}, 7),
        ({}, {"tolerations": GPU_ONLY}, 8),
        ({"tolerations": GPU_ONLY}, {"tolerations": GPU_ONLY}, 7),
        ({}, {"nodeSelector": {"pool": "gpu"}}, 7),
    ],
)
def test_nobody_gives_way_on_nodes_where_the_launcher_may_not_run(
    launcher: dict[str, Any], worker: dict[str, Any], remain: int
) -> None:
    words = "0/40 nodes are available: 2 Insufficient cpu, 38 node(s) had untolerated taint(s)."
    world = start_unplaced(words)
    spec = world.job.spec
    assert spec is not None
    world.edit(
        launcher_template=amend(spec.launcher_template, launcher),
        worker=replace(spec.worker, template=amend(spec.worker.template, worker)),
    )
    world.wait(60)
    world.settle()
    world.reap()
    world.settle()
    assert len(world.workers) == remain


def test_what_a_launcher_has_waited_for_before_makes_nobody_leave_in_a_hurry() -> None:
    """Nor does an operator that was away: those who leave had places that others may take."""
    world = start_unplaced("0/3 nodes are available: 3 node(s) had untolerated taint {starting}.")
    world.wait(3600)
    world.settle()
    words = "0/3 nodes are available: 3 Insufficient cpu."
    world.put("job-launcher-r1", unschedulable_message=words)
    left = []
    for _ in range(4):
        world.settle()
        world.reap()
        world.settle()
        left.append(len(world.workers))
        world.wait(60)
    assert left == [7, 5, 2, 2]


def test_workers_that_have_no_node_themselves_hold_no_room_of_one() -> None:
    world = start_unplaced("0/3 nodes are available: 3 Insufficient cpu.")
    for name in list(world.workers)[1:]:
        world.put(name, node="")
    world.wait(600)
    world.settle()
    assert len(world.workers) == 8


def test_a_clock_that_was_ahead_makes_nobody_leave() -> None:
    world = start_unplaced("0/3 nodes are available: 3 Insufficient cpu.")
    world.put("job-launcher-r1", created=world.now + timedelta(hours=1))
    world.wait(300)
    world.settle()
    assert len(world.workers) == 8
