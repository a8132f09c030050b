from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from et_kube.resources import PODS, TRAINING_JOBS
from et_operator.model.actions import Create
from et_operator.model.jobs import Misfit
from et_operator.model.plans import Plan
from et_operator.model.snapshots import Refusal
from et_operator.model.specs import AttachMode, LauncherCreation, RestartPolicy
from et_operator.model.statuses import ScalingKind
from et_operator.planning.planner import plan
from tests.planning_makers import ModelWorld, make_job, make_scaling, make_shipped


def test_the_first_pass_only_records_what_the_second_creates() -> None:
    world = ModelWorld(make_job(3))
    first = world.step()
    assert first.actions == ()
    assert first.status is not None
    assert (first.status.epoch, first.status.generation, first.status.last_worker_index) == (
        1,
        1,
        2,
    )
    second = world.step()
    assert second.status is None
    assert [a.ref.name for a in second.actions if isinstance(a, Create)] == [
        *("job-launcher", "job-pods", "job-report", "edl-runtime-d1", "job-config"),
        *("job-launcher", "job-worker-0", "job-worker-1", "job-worker-2"),
        "job-launcher-",
    ]
    world.step()  # which notes who they are
    last = world.step()  # the server has made up the Role's name
    [binding] = [a.manifest for a in last.actions if isinstance(a, Create)]
    role = world.children["Role"].name
    assert (binding["roleRef"]["name"], binding["metadata"]["generateName"]) == (
        role,
        "job-launcher-",
    )


def test_a_job_of_eight_costs_few_writes_until_its_hosts_are_listed() -> None:
    world = ModelWorld(make_job(8))
    world.start()
    assert world.phase() == "Running"
    assert world.condition("HostsListed") == "True"
    assert world.writes == 21  # 9 pods, 7 other objects, 1 config, 4 status


def test_an_unchanged_cluster_needs_nothing() -> None:
    world = ModelWorld()
    world.start()
    world.wait(100)
    world.settle()
    assert plan(world.snapshot(), world.now) == Plan()


def test_nothing_is_concluded_from_an_incomplete_view() -> None:
    world = ModelWorld()
    world.complete_since = None
    assert world.step() == Plan()


def test_nothing_is_created_for_a_job_that_is_being_deleted() -> None:
    world = ModelWorld()
    world.start()
    world.pods.clear()
    world.job = replace(world.job, deletion_requested=world.now)
    world.settle()
    assert world.pods == {}


def test_workers_that_start_together_become_members_in_one_write() -> None:
    world = ModelWorld(make_job(4))
    world.settle()
    world.wait(0.3)
    world.run("job-worker-0", "job-worker-1", "job-worker-2")
    world.settle()
    assert world.states() == {}
    world.run("job-worker-3")
    world.settle()
    assert len(world.states()) == 4
    assert world.config is not None
    assert world.config.generation == 2


def test_the_first_workers_wait_five_seconds_for_a_late_one() -> None:
    world = ModelWorld(make_job(3, minimum=1))
    world.settle()
    world.run("job-worker-0", "job-worker-1", "job-launcher")
    world.wait(4)
    world.settle()
    assert world.states() == {}
    assert world.requeue_after is not None
    assert world.requeue_after <= timedelta(seconds=1)
    world.wait(1)
    world.settle()
    assert sorted(world.states()) == ["job-worker-0", "job-worker-1"]
    world.wait(60)
    world.run()
    world.settle()
    assert len(world.states()) == 3


def test_workers_that_start_within_five_seconds_cost_one_config() -> None:
    world = ModelWorld(make_job(8))
    world.settle()
    for index in range(8):
        world.wait(0.6)
        world.run(f"job-worker-{index}")
        world.settle()
    assert len(world.states()) == 8
    assert world.config is not None
    assert world.config.generation == 2


def test_once_there_are_members_a_late_worker_holds_the_others_up_for_a_second() -> None:
    world = ModelWorld(make_job(2))
    world.start()
    world.edit(replicas=5)
    world.settle()
    world.run("job-worker-2", "job-worker-3")
    world.settle()
    assert len(world.states()) == 2
    assert world.requeue_after is not None
    assert world.requeue_after <= timedelta(seconds=1)
    world.wait(1)
    world.settle()
    assert len(world.states()) == 4


def test_running_needs_the_launcher_and_the_least_number_of_workers() -> None:
    world = ModelWorld(make_job(3, minimum=2))
    world.settle()
    world.run("job-worker-0", "job-launcher")
    world.settle()
    assert world.phase() == "Created"
    world.run("job-worker-1")
    world.settle()
    assert world.phase() == "Running"


def test_the_launcher_can_wait_for_the_workers() -> None:
    world = ModelWorld(make_job(launcher_creation=LauncherCreation.WAIT_FOR_WORKERS_READY))
    world.settle()
    assert world.launcher is None
    world.run("job-worker-0")
    world.settle()
    assert world.launcher is None
    world.run("job-worker-1")
    world.settle()
    assert world.launcher is not None


def test_a_launcher_that_waits_is_not_kept_waiting_by_a_worker_that_does_not_come_to_run() -> None:
    world = ModelWorld(
        make_job(8, minimum=2, launcher_creation=LauncherCreation.WAIT_FOR_WORKERS_READY)
    )
    world.settle()
    assert world.workers == ["job-worker-0", "job-worker-1"]
    stuck = world.workers[0]
    world.run("job-worker-1")
    world.settle()
    assert world.requeue_after is not None
    assert world.requeue_after <= timedelta(seconds=60)
    world.wait(60)
    world.settle()
    assert world.workers == ["job-worker-0", "job-worker-1", "job-worker-2"]
    world.run("job-worker-2")
    world.settle()
    assert world.launcher is not None
    assert not world.pods[stuck].is_container_running
    assert len(world.workers) == 8


def age(world: ModelWorld) -> None:
    """The launcher is there for long: nothing more is told of its start."""
    if world.launcher is not None:
        world.put(world.launcher.name, created=world.now - timedelta(hours=1))


def test_refused_pods_are_asked_for_again_after_ten_seconds_and_doubling() -> None:
    world = ModelWorld()
    world.step()
    world.on_write = lambda _: age(world)
    for count, wait in ((1, 10), (2, 20), (6, 300), (40, 300)):
        world.refusal = Refusal("exceeded quota", count, world.now, generation=1)
        world.settle()
        assert world.condition("PodsRefused") == "True"
        assert world.workers == []
        assert world.requeue_after == timedelta(seconds=wait)
    world.wait(300)
    world.refusal = None
    world.settle()
    assert len(world.workers) == 2
    assert world.condition("PodsRefused") == "False"


def test_refused_pods_are_asked_for_at_once_when_the_author_has_changed_the_job() -> None:
    world = ModelWorld()
    world.step()
    world.refusal = Refusal("violates PodSecurity", 40, world.now, generation=1)
    world.settle()
    assert world.workers == []
    world.job = replace(world.job, generation=2)
    world.settle()
    assert len(world.workers) == 2


def test_a_taken_worker_name_is_skipped() -> None:
    world = ModelWorld()
    world.step()
    world.taken_names = frozenset({"job-worker-1"})
    world.settle()
    assert world.workers == ["job-worker-0", "job-worker-2"]
    assert world.condition("NameTaken") is None


def test_a_taken_launcher_name_is_named_after_a_minute() -> None:
    world = ModelWorld()
    world.taken_names = frozenset({"job-config"})
    world.settle()
    assert world.pods == {}
    assert world.condition("NameTaken") == "Unknown"
    world.wait(59)
    world.settle()
    assert world.condition("NameTaken") == "Unknown"
    world.wait(1)
    world.settle()
    assert world.condition("NameTaken") == "True"
    world.taken_names = frozenset()
    world.settle()
    assert len(world.pods) == 3
    assert world.condition("NameTaken") == "False"


@pytest.mark.long
def test_a_shipped_runtime_of_another_version_leaves_a_running_job_alone() -> None:
    world = ModelWorld()
    world.start()
    world.shipped = make_shipped("d2")
    world.end("job-worker-0", 1)
    world.go_on()
    assert world.status.runtime is not None
    assert world.status.runtime.digest == "d1"
    assert world.runtimes == {"edl-runtime-d1"}
    world.runtimes = frozenset()
    world.end("job-worker-1", 1)
    world.go_on()
    assert world.condition("RuntimeMissing") == "True"


def test_a_runtime_that_was_never_put_there_keeps_nobody_from_starting_with_the_next() -> None:
    """A quota of ConfigMaps had refused it, say, and the operator was upgraded meanwhile."""
    world = ModelWorld()
    world.step()
    assert world.status.runtime == make_shipped("d1").runtime
    world.shipped = make_shipped("d2")
    world.start()
    assert world.phase() == "Running"
    assert world.status.runtime == world.shipped.runtime
    assert world.runtimes == {"edl-runtime-d2"}
    assert not [event for event in world.events if event.reason == "RuntimeMissing"]


@pytest.mark.parametrize("is_worker_left", [True, False])
def test_one_that_was_deleted_is_missing_as_long_as_a_pod_with_it_lives(
    *, is_worker_left: bool
) -> None:
    world = ModelWorld(
        make_job(1, restart_policy=RestartPolicy.ON_FAILURE, attach_mode=AttachMode.SSH)
    )
    world.start()
    pinned = world.status.runtime
    world.shipped, world.runtimes = make_shipped("d2"), frozenset()
    if not is_worker_left:
        world.end("job-worker-0", 1)
        world.keys = {}
    world.finish(1)
    world.go_on()
    assert world.condition("RuntimeMissing") == ("True" if is_worker_left else "False")
    assert (world.status.runtime == pinned) is is_worker_left
    assert (world.phase() == "Running") is not is_worker_left
    assert world.log.count("create Secret job-ssh-") == 1 + (not is_worker_left)


def test_who_has_ended_had_the_runtime_that_he_had() -> None:
    world = ModelWorld()
    world.start()
    pinned = world.status.runtime
    world.shipped, world.runtimes = make_shipped("d2"), frozenset()
    for name in world.workers:
        world.end(name)
    world.finish()
    world.settle()
    assert world.phase() == "Succeeded"
    assert world.status.runtime == pinned


def test_trouble_with_an_image_is_said() -> None:
    world = ModelWorld()
    world.settle()
    world.put("job-worker-0", waiting_reason="ImagePullBackOff", waiting_message="no such image")
    world.settle()
    assert world.condition("ImagePullFailing") == "True"
    assert world.status.trouble == "ImagePullFailing"
    told = world.events[-1].message
    assert told.startswith("job-worker-0: ImagePullBackOff: no such image (since 2026-01-01 12:00:")
    assert "; the pod starts once" in told
    world.run()
    world.put("job-worker-0", waiting_reason="")
    world.settle()
    assert world.condition("ImagePullFailing") == "False"
    assert world.status.trouble == ""


def test_an_unschedulable_pod_is_said_when_it_stays_so() -> None:
    world = ModelWorld()
    world.settle()
    world.put("job-worker-0", unschedulable_message="0/3 nodes are available")
    world.settle()
    assert world.condition("Unschedulable") is None
    world.wait(10)
    world.settle()
    assert world.condition("Unschedulable") == "True"


def test_the_events_tell_the_story_of_the_start() -> None:
    world = ModelWorld()
    world.start()
    assert [e.reason for e in world.events] == ["Created", "Running", "HostsListed"]
    assert all(e.uid == "job-uid" for e in world.events)


def test_one_worker_is_told_of_as_one() -> None:
    world = ModelWorld(make_job(1))
    world.start()
    assert [e.message for e in world.events] == [
        "starting 1 worker and the launcher",
        "the launcher runs, with 1 of 1 worker",
        "1 worker is listed as host",
    ]


@pytest.mark.long
def test_that_all_who_are_wanted_are_listed_is_told_once_where_it_began_with_fewer() -> None:
    def list_told() -> list[str]:
        return [e.message for e in world.events if e.reason == "HostsListed"]

    world = ModelWorld(make_job(2, minimum=1))
    for _ in range(10):
        world.settle()
        world.run("job-worker-0", "job-launcher")
        world.settle()
        world.serve()
        world.wait(1)
    assert list_told() == ["1 of 2 workers is listed as host"]
    world.go_on()
    assert list_told()[1:] == ["2 workers are listed as hosts"]
    world.end("job-worker-1", 1)
    world.wait(60)
    world.go_on(12)
    assert len(world.workers) == 2
    assert list_told()[2:] == []


def test_a_name_known_to_be_taken_is_never_recorded() -> None:
    world = ModelWorld()
    world.taken_names = frozenset({"job-worker-1"})
    world.step()
    assert [r.name for r in world.status.workers] == ["job-worker-0", "job-worker-2"]


def test_a_pass_that_writes_the_spec_leaves_the_status_for_the_next_one() -> None:
    world = ModelWorld()
    world.start()
    world.wait(20)
    world.add(make_scaling(ScalingKind.OUT, "more", count=1))
    world.step()
    world.put("job-worker-0", waiting_reason="ImagePullBackOff")
    second = world.step()
    assert world.replicas == 3
    assert second.status is None  # it would have made the patch of the job a conflict
    world.settle()
    assert world.condition("ImagePullFailing") == "True"


def test_what_a_manifest_says_in_vain_is_said() -> None:
    said = (Misfit("SpecWarning", "it is ignored"), Misfit("CommandWarning", "tells of no hosts"))
    world = ModelWorld(replace(make_job(), warnings=said))
    world.settle()
    assert [(e.reason, e.message) for e in world.events if e.is_warning] == list(said)


def test_pods_are_created_from_a_job_that_was_just_read() -> None:
    world = ModelWorld(make_job(2))
    for _ in range(20):
        result = world.step()
        if any(isinstance(action, Create) and action.resource == PODS for action in result.actions):
            break
    assert (TRAINING_JOBS, "job") in {(ref.resource, ref.name) for ref in result.premises}
