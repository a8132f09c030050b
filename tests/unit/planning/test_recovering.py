"""What others have removed, refused or changed under the operator's hands, and late news."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from et_contract.documents import MemberState
from et_kube.resources import SCALE_OUTS
from et_operator.codec.encoding import encode_change
from et_operator.model.actions import AcceptScaling, SetReplicas
from et_operator.model.keys import OwnerReference
from et_operator.model.pods import Termination
from et_operator.model.snapshots import Refusal
from et_operator.model.specs import CleanPodPolicy, RestartPolicy
from et_operator.model.statuses import JobStatus, ScalingKind, WorkerState
from et_operator.planning.planner import plan
from tests.planning_makers import ModelWorld, make_job, make_scaling

IN, OUT = ScalingKind.IN, ScalingKind.OUT


def start(replicas: int = 3, **spec: object) -> ModelWorld:
    world = ModelWorld(make_job(replicas, **spec))
    world.start()
    world.wait(20)
    return world


def lose_config(world: ModelWorld) -> None:
    world.config = None
    del world.children["job-config"]


# ------------------------------------------------------------------ the config
def test_a_config_that_somebody_removed_comes_back_as_news() -> None:
    world = start()
    assert world.config is not None
    before = world.config
    lose_config(world)
    world.settle()
    assert world.config is not None
    assert world.config.generation == before.generation + 1
    assert set(world.config.members) == set(before.members)


def test_a_victim_chosen_while_the_config_is_lost_is_drained_all_the_same() -> None:
    world = start()
    lose_config(world)
    world.add(make_scaling(IN, "less", count=1))
    world.settle()
    assert not world.pods["job-worker-2"].is_deleting
    assert world.states()["job-worker-2"] == "draining"
    world.serve()
    world.settle()
    assert world.pods["job-worker-2"].is_deleting


def test_a_worker_that_ended_is_gone_in_the_config_that_comes_back() -> None:
    world = start()
    world.end("job-worker-1", 1)
    world.settle()
    lose_config(world)
    world.settle()
    assert world.states()["job-worker-1"] == "gone"


def test_a_job_whose_status_somebody_removed_goes_on_in_the_next_epoch() -> None:
    world = start()
    world.job = replace(world.job, status=JobStatus())
    world.settle()
    assert world.status.epoch == 2
    assert world.status.generation > 2
    assert world.pods["job-launcher"].is_deleting


@pytest.mark.parametrize("has_pod", [True, False], ids=["its pod is there", "its pod is gone"])
def test_a_job_that_had_ended_is_not_run_again_though_its_status_was_removed(
    has_pod: bool,
) -> None:
    world = start()
    world.finish(0)
    if not has_pod:
        del world.pods["job-launcher"]
    world.job = replace(world.job, status=JobStatus())
    world.go_on(2)
    assert world.phase() == "Succeeded"
    assert world.status.epoch == 1


def test_a_scaling_whose_record_was_removed_is_not_done_twice() -> None:
    world = start(minimum=1)
    world.add(make_scaling(IN, "less", count=1))
    world.settle()
    assert world.replicas == 2
    world.job = replace(world.job, status=replace(world.status, scaling=None))
    world.go_on(3)
    assert world.scaling_reason("less") == "RecordLost"
    assert (world.replicas, len(world.workers)) == (2, 2)


def test_a_job_with_a_decision_that_cannot_be_read_is_followed_and_nothing_else() -> None:
    world = start()
    world.job = replace(world.job, unread={"scaling": "status.scaling: is not an object"})
    world.end("job-worker-0", 1)
    world.settle()
    [told] = [c for c in world.status.conditions if c.type == "StatusDamaged"]
    assert told.status == "True"
    assert told.message.startswith("status.scaling: is not an object: the job is only followed")
    assert world.log[-1] == "status"
    world.job = replace(world.job, unread={})
    world.settle()
    assert world.condition("StatusDamaged") == "False"
    world.job = replace(world.job, unread={"scaling": "status.scaling: is not an object"})
    world.finish(0)
    world.settle()
    assert world.phase() == "Succeeded"


# ------------------------------------------------------------------ draining clocks
def test_the_drain_time_out_does_not_begin_before_the_config_is_written() -> None:
    world = start(drain_timeout=timedelta(seconds=100))
    world.add(make_scaling(IN, "less", count=1))
    world.step()  # decided; then the API server is away for longer than the time-out
    world.wait(1000)
    world.settle()
    world.serve(close=False)
    world.settle()
    assert [r.reason for r in world.status.workers] == ["ScaleIn"]
    world.wait(100)
    world.settle()
    assert world.pods["job-worker-2"].is_deleting


def test_a_victim_that_an_unknown_write_named_gets_its_time_and_an_end() -> None:
    world = start(drain_timeout=timedelta(seconds=100))
    world.add(make_scaling(IN, "less", count=1))
    world.step()
    [record] = world.status.workers
    status = replace(world.status, workers=(replace(record, generation=None, waiting_since=None),))
    world.job = replace(world.job, status=status)
    world.settle()
    [record] = world.status.workers
    assert record.generation is not None
    world.wait(1000)
    world.settle()
    world.wait(1000)
    world.settle()
    assert world.pods["job-worker-2"].is_deleting


# ------------------------------------------------------------------ the end
def test_what_has_begun_to_leave_leaves_although_the_job_ends_and_pods_are_kept() -> None:
    world = start(clean_pod_policy=CleanPodPolicy.NONE)
    world.add(make_scaling(IN, "less", count=1))
    world.settle()
    world.finish(0)
    world.settle()
    world.reap()
    world.settle()
    assert sorted(world.workers) == ["job-worker-0", "job-worker-1"]
    assert world.scaling_reason("less") == "JobFinished"
    assert world.replicas == 2


def test_clean_up_does_not_wait_for_a_number_that_is_refused() -> None:
    world = start()
    world.add(make_scaling(IN, "less", count=1))
    world.settle()
    world.finish(0)
    world.step()
    actions = world.step().actions
    assert not isinstance(actions[0], SetReplicas)


def test_a_disrupted_launcher_is_judged_when_its_broker_has_told_or_its_pod_has_ended() -> None:
    world = start(restart_policy=RestartPolicy.NEVER)
    world.delete("job-launcher")
    world.put("job-launcher", is_container_running=False, termination=Termination(0))
    world.settle()
    assert world.status.epoch == 1
    assert world.report is not None
    world.report = replace(world.report, ended=0)
    world.settle()
    assert world.phase() == "Succeeded"


def test_a_disrupted_launcher_that_never_tells_is_replaced() -> None:
    world = start()
    world.delete("job-launcher")
    world.put("job-launcher", is_container_running=False, termination=Termination(0))
    world.settle()
    world.reap("job-launcher")
    world.settle()
    assert world.status.epoch == 2


# ------------------------------------------------------------------ scalings
def test_a_script_does_not_run_again_in_the_next_launcher() -> None:
    world = start(2, restart_policy=RestartPolicy.ON_FAILURE)
    world.add(make_scaling(IN, "less", count=1, script="/s.sh"))
    world.settle()
    world.serve(close=False)
    world.settle()
    assert world.config is not None
    assert world.config.scripts
    world.end("job-launcher", 1)
    world.settle()
    assert world.scaling_phase("less") == "ScaleFailed"
    assert world.scaling_reason("less") == "LauncherEnded"
    assert not world.config.scripts


def test_a_script_that_was_not_begun_waits_for_the_next_launcher() -> None:
    world = start(2, restart_policy=RestartPolicy.ON_FAILURE, maximum=4)
    world.add(make_scaling(OUT, "more", count=1, script="/s.sh"))
    world.settle()
    world.end("job-launcher", 1)
    world.go_on(3)
    assert world.config is not None
    assert world.scaling_phase("more") == "Scaling"
    assert world.config.scripts


@pytest.mark.parametrize(
    ("kind", "bounds", "reason"),
    [(IN, {"min_replicas": 3}, "BelowMin"), (OUT, {"max_replicas": 3}, "AboveMax")],
)
def test_bounds_that_change_before_the_number_is_written_stop_the_scaling(
    kind: ScalingKind, bounds: dict[str, int], reason: str
) -> None:
    world = start(minimum=1, maximum=9)
    world.add(make_scaling(kind, "s", count=1))
    world.step()
    assert world.job.spec is not None
    world.edit(worker=replace(world.job.spec.worker, **bounds))  # type: ignore[arg-type]
    world.go_on(2)
    assert world.scaling_reason("s") == reason
    assert world.replicas == 3
    assert len(world.workers) == 3


def test_a_number_that_may_not_be_written_back_is_met_as_it_stands() -> None:
    world = start(minimum=1)
    world.add(make_scaling(IN, "less", count=1))
    world.settle()  # 3 -> 2, the victim drains
    del world.scalings["less-uid"]
    world.step()
    assert world.status.scaling is not None
    world.job = replace(
        world.job,
        status=replace(world.status, scaling=replace(world.status.scaling, final=0)),
    )
    world.go_on(3)
    assert world.replicas == 2
    assert len(world.workers) == 2


def test_owners_that_a_scaling_has_already_are_kept() -> None:
    world = start()
    owner = OwnerReference("x/v1", "Pipeline", "p", "p")
    world.add(make_scaling(OUT, "more", count=1, owners=(owner,), is_owned=False))
    plans = [world.step() for _ in range(3)]
    [adoption] = [
        action
        for plan in plans
        for action in plan.actions
        if isinstance(action, AcceptScaling) and action.ref.resource == SCALE_OUTS
    ]
    owners = encode_change(adoption)["metadata"]["ownerReferences"]
    assert [o["uid"] for o in owners] == ["p", "job-uid"]


def test_a_scaling_that_a_former_job_of_the_name_owns_is_not_this_jobs() -> None:
    world = start()
    owner = OwnerReference("x/v1", "TrainingJob", "job", "former", is_controller=True)
    world.add(make_scaling(OUT, "more", count=1, owners=(owner,)))
    world.settle()
    assert world.scaling_reason("more") == "JobReplaced"
    assert world.replicas == 3


# ------------------------------------------------------------------ suspension
def test_a_job_that_was_created_suspended_can_be_scaled_before_it_starts() -> None:
    world = ModelWorld(make_job(2, suspend=True, maximum=5))
    world.settle()
    world.add(make_scaling(OUT, "more", count=2))
    world.settle()
    assert world.scaling_phase("more") == "ScaleSucceeded"
    assert (world.replicas, world.pods) == (4, {})
    world.edit(suspend=False)
    world.start()
    assert len(world.workers) == 4


def test_a_launcher_that_ended_before_the_suspension_does_not_hold_back_a_new_runtime() -> None:
    world = start(restart_policy=RestartPolicy.ON_FAILURE)
    world.end("job-launcher", 1)
    world.edit(suspend=True)
    world.go_on(2)
    assert list(world.pods) == ["job-launcher"]
    world.shipped = replace(world.shipped, runtime=replace(world.shipped.runtime, digest="d2"))
    world.edit(suspend=False)
    world.settle()
    assert world.status.runtime is not None
    assert world.status.runtime.digest == "d2"


# ------------------------------------------------------------------ refusals
def test_a_refusal_that_is_long_past_is_not_told_any_more() -> None:
    world = start()
    snapshot = world.snapshot
    refusals = {SCALE_OUTS: Refusal("words", 1, world.now, 1, "more")}
    world.snapshot = lambda: replace(snapshot(), refusals=refusals)  # type: ignore[method-assign]
    world.settle()
    assert world.condition("WritesRefused") == "True"
    assert world.requeue_after == timedelta(minutes=10)
    world.wait(600)
    world.settle()
    assert world.condition("WritesRefused") == "False"


# ------------------------------------------------------------------ numbers
def test_numbers_alone_are_not_written_while_pods_go() -> None:
    world = start(5)
    world.finish(0)
    world.settle()
    before = world.writes
    for number in range(4):
        world.reap(f"job-worker-{number}")
        world.settle()
    assert world.writes == before
    world.reap("job-worker-4")
    world.settle()
    assert world.writes == before + 1
    assert world.status.replicas == 0


def test_a_worker_that_is_gone_is_gone_although_its_node_comes_back() -> None:
    world = start()
    world.delete("job-worker-0")
    world.nodes["n1"] = replace(world.nodes["n1"], is_unreachable=True)
    world.settle()
    assert world.states()["job-worker-0"] == "gone"
    world.nodes["n1"] = replace(world.nodes["n1"], is_unreachable=False)
    world.settle()
    [record] = [r for r in world.status.workers if r.name == "job-worker-0"]
    assert record.state is WorkerState.GONE
    assert world.config is not None
    [member] = [m for m in world.config.members if m.name == "job-worker-0"]
    assert member.state is MemberState.GONE


def test_a_config_that_was_set_back_is_written_anew_above_what_the_broker_has_read() -> None:
    world = start()
    assert world.config is not None
    assert world.report is not None
    old = world.config.generation
    world.report = replace(world.report, observed_generation=old + 4)
    world.settle()
    assert world.config.generation == old + 5
    writes = world.writes
    world.wait(60)
    world.settle()
    assert world.writes == writes


def test_a_worker_that_has_closed_though_nobody_remembers_why_is_replaced() -> None:
    world = start()
    assert world.report is not None
    world.report = replace(world.report, closed=frozenset({world.pods["job-worker-1"].uid}))
    world.settle()
    world.wait(20)
    assert world.pods["job-worker-1"].is_deleting
    assert "job-worker-3" in world.pods


def erase(world: ModelWorld, **fields: object) -> None:
    """Somebody takes these out of the job's status."""
    status = replace(world.status, **fields)  # type: ignore[arg-type]
    world.job = replace(world.job, status=status)


@pytest.mark.parametrize("is_suspended", [False, True])
def test_workers_stay_although_somebody_removed_their_number(is_suspended: bool) -> None:
    world = start(3)
    if is_suspended:
        world.edit(suspend=True)
        world.go_on()
    erase(world, decided_replicas=None)
    world.settle()
    assert world.status.decided_replicas == 3
    world.edit(suspend=False)
    world.go_on()
    assert len(world.workers) == 3


def test_a_growth_whose_number_somebody_removed_goes_on() -> None:
    world = start(3, maximum=8)
    world.add(make_scaling(OUT, "more", count=2, created=world.now))
    world.settle()
    erase(world, decided_replicas=None)
    world.go_on()
    assert len(world.workers) == 5
    assert world.scaling_phase("more") == "ScaleSucceeded"


def test_a_launcher_comes_although_somebody_removed_the_runtime() -> None:
    world = start(3, restart_policy=RestartPolicy.ON_FAILURE)
    world.finish(1)
    world.settle()
    erase(world, runtime=None)
    world.go_on()
    assert world.launcher is not None
    assert world.launcher.is_container_running
    assert world.status.runtime == world.shipped.runtime


def test_nothing_is_lost_on_a_node_that_may_only_not_be_known_yet() -> None:
    world = start()
    world.put("job-worker-0", node="new")
    world.delete("job-worker-0")
    found = world.snapshot()
    unknown = plan(replace(found, are_nodes_known=False), world.now).status
    absent = plan(found, world.now).status
    assert unknown is not None
    assert absent is not None
    assert [r.state for r in unknown.workers] == [WorkerState.LEAVING, WorkerState.JOINING]
    assert [r.state for r in absent.workers] == [WorkerState.GONE, WorkerState.JOINING]


# ------------------------------------------------------------------ pods that nobody ends
def keep(world: ModelWorld, name: str) -> None:
    """Somebody's finalizer keeps the pod, which has no node, beyond its deletion."""
    world.put(name, deletion_requested=world.now)


def test_a_launcher_that_is_deleted_before_it_has_a_node_is_replaced_though_it_stays() -> None:
    world = ModelWorld(make_job(2))
    world.settle()
    keep(world, "job-launcher")
    world.settle()
    world.wait(5)
    world.settle()
    assert "job-launcher-r1" in world.pods


def test_a_suspension_does_not_wait_for_a_launcher_without_a_node() -> None:
    world = ModelWorld(make_job(2))
    world.settle()
    world.run("job-worker-0", "job-worker-1")
    world.settle()
    keep(world, "job-launcher")
    world.edit(suspend=True)
    world.settle()
    assert all(pod.is_deleting for pod in world.pods.values())


def test_a_worker_that_is_deleted_before_it_has_a_node_is_lost_and_replaced() -> None:
    world = start(2)
    world.edit(replicas=3)
    world.settle()
    keep(world, "job-worker-2")
    world.go_on()
    assert "job-worker-3" in world.pods
    assert [e.message for e in world.events if e.reason == "WorkerLost"] == [
        "worker job-worker-2 ended: its pod was deleted before it had a node"
    ]


def test_a_worker_that_is_never_listed_leaves_in_its_time_and_is_replaced() -> None:
    world = start()
    assert world.report is not None
    world.report = replace(world.report, unlisted=frozenset({world.pods["job-worker-1"].uid}))
    world.settle()
    assert world.states()["job-worker-1"] == "draining"
    assert not world.pods["job-worker-1"].is_deleting
    assert "job-worker-3" in world.pods
    assert "WorkerLeaving" in {event.reason for event in world.events}
    world.serve()
    world.settle()
    assert world.pods["job-worker-1"].is_deleting


def test_whom_the_last_launchers_broker_never_lists_the_next_one_may() -> None:
    world = start()
    uid = world.pods["job-worker-1"].uid
    world.end("job-launcher", 137, pod_reason="Evicted")
    assert world.report is not None
    world.report = replace(world.report, unlisted=frozenset({uid}))
    world.go_on()
    assert world.status.epoch == 2
    assert world.pods["job-worker-1"].uid == uid
    assert not world.pods["job-worker-1"].is_deleting


def test_a_worker_that_is_never_listed_and_never_closes_is_forced_out() -> None:
    world = start(drain_timeout=timedelta(seconds=30))
    assert world.report is not None
    world.report = replace(world.report, unlisted=frozenset({world.pods["job-worker-1"].uid}))
    world.wait(60)
    world.settle()
    world.serve(close=False)
    world.settle()
    world.wait(29)
    world.settle()
    assert not world.pods["job-worker-1"].is_deleting
    world.wait(2)
    world.settle()
    assert world.pods["job-worker-1"].is_deleting


def test_workers_that_leave_keep_their_places_until_they_are_deleted() -> None:
    world = start(minimum=1, maximum=4)
    assert world.report is not None
    uids = {world.pods[name].uid for name in world.workers}
    world.report = replace(world.report, unlisted=frozenset(uids))
    world.wait(60)
    world.settle()
    assert world.workers == [f"job-worker-{index}" for index in range(4)]
    world.serve()
    world.settle()
    world.reap()
    world.settle()
    assert world.workers == [f"job-worker-{index}" for index in range(3, 6)]


def test_a_place_whose_workers_all_say_that_they_are_spent_waits_between_them() -> None:
    world = start()
    for _ in range(40):
        assert world.report is not None
        uids = {world.pods[name].uid for name in world.workers}
        world.report = replace(world.report, closed=frozenset(uids))
        world.settle()
        world.reap()
        world.wait(1)
    assert 2 + 3 * 3 <= world.status.last_worker_index <= 2 + 3 * 9
    assert world.phase() != "Failed"


# ------------------------------------------------------------------ the end, removed
def test_a_job_that_has_ended_goes_in_its_time_although_somebody_removed_when_it_did() -> None:
    world = start(ttl_after_finished=timedelta(seconds=60))
    world.finish(0)
    world.settle()
    erase(world, completion_time=None)
    world.settle()
    world.wait(61)
    world.settle()
    assert world.job_is_gone


def test_a_job_that_had_failed_is_not_run_again_though_its_conditions_were_removed() -> None:
    world = start(
        clean_pod_policy=CleanPodPolicy.ALL,
        restart_policy=RestartPolicy.ON_FAILURE,
        backoff_limit=0,
    )
    world.finish(1)
    world.go_on(2)
    assert world.phase() == "Failed"
    erase(world, conditions=())
    world.go_on()
    assert world.phase() == "Failed"
    assert world.reason("Failed") == "RecordLost"
    assert world.workers == []
