from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from et_kube.resources import CONFIG_MAPS, PODS
from et_operator.model.pods import Node, Termination
from et_operator.model.snapshots import Refusal
from et_operator.model.specs import CleanPodPolicy, RestartPolicy
from et_operator.model.statuses import ScalingKind
from tests.planning_makers import ModelWorld, make_job, make_scaling


def start(**spec: object) -> ModelWorld:
    world = ModelWorld(make_job(2, **spec))
    world.start()
    return world


def test_exit_code_zero_is_success_and_the_running_pods_go() -> None:
    world = start()
    world.finish(0)
    world.settle()
    world.reap()
    world.settle()
    assert world.phase() == "Succeeded"
    assert list(world.pods) == ["job-launcher"]
    assert world.status.completion_time == world.now
    assert world.status.replica_statuses.launcher.succeeded == 1


@pytest.mark.parametrize(
    ("policy", "left"),
    [
        pytest.param(CleanPodPolicy.NONE, 3, id="none"),
        pytest.param(CleanPodPolicy.RUNNING, 1, id="running"),
        pytest.param(CleanPodPolicy.ALL, 0, id="all"),
    ],
)
def test_clean_pod_policy(policy: CleanPodPolicy, left: int) -> None:
    world = start(clean_pod_policy=policy)
    world.finish(0)
    world.settle()
    world.reap()
    world.settle()
    assert len(world.pods) == left


def test_a_launcher_that_somebody_had_started_anew_does_not_stay() -> None:
    world = start()
    assert world.report is not None
    world.report = replace(world.report, ended=0)
    world.put("job-launcher", termination=Termination(0, "Completed", finished=world.now))
    world.settle()
    assert world.phase() == "Succeeded"
    assert world.pods["job-launcher"].is_deleting


def test_nor_does_it_beside_its_successor() -> None:
    world = start(restart_policy=RestartPolicy.ON_FAILURE)
    assert world.report is not None
    world.report = replace(world.report, ended=1)
    world.put("job-launcher", termination=Termination(1, "Error", finished=world.now))
    world.settle()
    assert world.status.epoch == 2
    assert world.pods["job-launcher"].is_deleting


def outlive(world: ModelWorld, code: int, skew: int = 0) -> None:
    """The command ends, by its node's clock, and a container beside it lives on."""
    assert world.report is not None
    world.report = replace(world.report, ended=code)
    ended = Termination(code, "Completed", finished=world.now + timedelta(seconds=skew))
    world.put("job-launcher", is_container_running=False, termination=ended)
    world.settle()


@pytest.mark.long
@pytest.mark.parametrize("skew", [0, -3600, 3600])
@pytest.mark.parametrize("code", [0, 1])
def test_what_works_on_beside_a_launcher_that_has_ended_has_ten_minutes_by_our_clock(
    code: int, skew: int
) -> None:
    world = start(restart_policy=RestartPolicy.ON_FAILURE)
    outlive(world, code, skew)
    assert world.phase() == ("Restarting" if code else "Succeeded")
    world.wait(599)
    world.settle()
    assert not world.pods["job-launcher"].is_deleting
    assert world.requeue_after == timedelta(seconds=1)
    world.wait(1)
    world.settle()
    assert world.pods["job-launcher"].is_deleting


def test_by_a_clock_that_may_be_wrong_its_time_is_not_over() -> None:
    """A new leader's: what uploads the result would be ended a moment after the launcher."""
    world = start(restart_policy=RestartPolicy.ON_FAILURE)
    outlive(world, 0)
    world.wait(1200)
    world.complete_since = world.now  # see state/coverage.py
    world.settle()
    assert not world.pods["job-launcher"].is_deleting
    world.wait(60)
    world.settle()
    assert world.pods["job-launcher"].is_deleting


@pytest.mark.parametrize("code", [0, 1])
def test_so_it_has_where_a_quota_refuses_workers(code: int) -> None:
    """An elastic job may be refused some growth for as long as it runs."""
    world = start(restart_policy=RestartPolicy.ON_FAILURE)
    world.edit(replicas=3)
    refusal = Refusal("exceeded quota: small", 9, world.now, 2, "job-worker-2")
    world.refusals[PODS] = refusal
    outlive(world, code)
    world.wait(599)
    world.refusals[PODS] = replace(refusal, at=world.now)
    world.settle()
    assert not world.pods["job-launcher"].is_deleting
    world.wait(1)
    world.settle()
    assert world.pods["job-launcher"].is_deleting


def test_so_it_has_once_a_job_has_ended_for_want_of_a_launcher() -> None:
    world = start(restart_policy=RestartPolicy.ON_FAILURE, active_deadline=timedelta(seconds=60))
    outlive(world, 1)
    world.refusals[PODS] = Refusal("exceeded quota", 3, world.now, 1, "job-launcher-r1")
    world.wait(60)
    world.settle()
    assert world.phase() == "Failed"
    world.wait(599)
    world.settle()
    assert not world.pods["job-launcher"].is_deleting
    world.wait(1)
    world.settle()
    assert world.pods["job-launcher"].is_deleting


def test_it_stays_where_all_pods_are_to_and_nobody_keeps_rights() -> None:
    world = start(clean_pod_policy=CleanPodPolicy.NONE)
    outlive(world, 0)
    assert world.role_names
    assert world.requeue_after == timedelta(seconds=30)
    world.wait(30)
    world.settle()
    assert not world.pods["job-launcher"].is_deleting
    assert not world.role_names


def test_workers_go_whatever_the_policy_when_the_launcher_never_told_its_end() -> None:
    world = start(clean_pod_policy=CleanPodPolicy.NONE)
    world.end("job-launcher", 137)
    world.settle()
    assert world.phase() == "Failed"
    assert len(world.workers) == 2  # its broker may be about to tell
    assert world.requeue_after == timedelta(seconds=30)
    world.wait(30)
    world.settle()
    world.reap()
    world.settle()
    assert list(world.pods) == ["job-launcher"]


def test_workers_stay_when_the_launchers_end_is_told_a_moment_after_it_was_seen() -> None:
    world = start(clean_pod_policy=CleanPodPolicy.NONE)
    world.end("job-launcher", 0)
    world.settle()
    assert world.phase() == "Succeeded"
    assert world.report is not None
    world.report = replace(world.report, ended=0)
    world.wait(3600)
    world.settle()
    assert len(world.workers) == 2


def test_a_failure_without_restarts_fails_the_job_with_code_and_log() -> None:
    world = start()
    world.finish(3)
    world.settle()
    assert world.phase() == "Failed"
    [failed] = [c for c in world.status.conditions if c.type == "Failed"]
    assert failed.reason == "LauncherFailed"
    assert "exit code 3" in failed.message
    assert "the tail" in failed.message
    assert world.status.failures.user == 1


def test_of_a_long_log_the_last_words_are_told() -> None:
    world = start()
    log = "Traceback\n" + 200 * "  in some function\n" + "RuntimeError: worker-1 exited with 143\n"
    world.end("job-launcher", 1)
    world.put("job-launcher", termination=Termination(1, "Error", log))
    world.settle()
    [failed] = [c for c in world.status.conditions if c.type == "Failed"]
    assert failed.message.endswith("RuntimeError: worker-1 exited with 143")
    told = next(event for event in world.events if event.reason == "Failed")
    assert len(told.message) < 1024
    assert told.message.endswith("RuntimeError: worker-1 exited with 143")


@pytest.mark.long
@pytest.mark.parametrize(
    ("policy", "code", "restarts"),
    [
        pytest.param(RestartPolicy.NEVER, 1, False, id="never"),
        pytest.param(RestartPolicy.ON_FAILURE, 1, True, id="on failure"),
        pytest.param(RestartPolicy.ALWAYS, 1, True, id="always"),
        pytest.param(RestartPolicy.EXIT_CODE, 1, False, id="own code"),
        pytest.param(RestartPolicy.EXIT_CODE, 137, True, id="signal"),
    ],
)
def test_restart_policy(policy: RestartPolicy, code: int, *, restarts: bool) -> None:
    world = start(restart_policy=policy)
    world.finish(code)
    world.settle()
    assert world.phase() == ("Restarting" if restarts else "Failed")
    assert world.status.epoch == (2 if restarts else 1)


def test_a_restart_replaces_the_launcher_alone_and_keeps_the_last_one_for_its_log() -> None:
    world = start(restart_policy=RestartPolicy.ON_FAILURE)
    workers = set(world.workers)
    for number in (1, 2):
        world.finish(1)
        world.settle()
        world.wait(2 ** (number - 1))
        world.go_on(1)
        assert world.launcher is not None
        assert world.launcher.name == f"job-launcher-r{number}"
        assert world.phase() == "Running"
    assert set(world.workers) == workers
    assert "job-launcher-r1" in world.pods
    assert "job-launcher" not in world.pods
    assert world.status.restart_count == 2
    assert world.config is not None
    assert world.config.epoch == 3


@pytest.mark.long
def test_restarts_wait_longer_and_longer() -> None:
    world = start(restart_policy=RestartPolicy.ON_FAILURE)
    for wait in (1, 2, 4, 8):
        world.finish(1)
        world.settle()
        assert world.requeue_after == timedelta(seconds=wait)
        world.wait(wait)
        world.start()
    world.wait(600)
    world.finish(1)
    world.settle()
    assert world.requeue_after == timedelta(seconds=1)


def test_backoff_limit_counts_the_users_failures_alone() -> None:
    world = start(restart_policy=RestartPolicy.ON_FAILURE, backoff_limit=1)
    assert world.launcher is not None
    world.end("job-launcher", 143, disruption_reason="EvictionByEvictionAPI")
    world.settle()
    assert (world.status.failures.user, world.status.failures.infrastructure) == (0, 1)
    for _ in range(2):
        world.wait(60)
        world.start()
        world.finish(1)
        world.settle()
    assert world.reason("Failed") == "BackoffLimitExceeded"
    assert (world.status.failures.user, world.status.failures.infrastructure) == (2, 1)


@pytest.mark.long
def test_infrastructure_failures_have_a_limit_of_their_own() -> None:
    world = start()
    for _ in range(21):
        assert world.phase() != "Failed"
        assert world.launcher is not None
        world.end(world.launcher.name, 143, pod_reason="Evicted")
        world.settle()
        world.wait(60)
        world.start()
    assert world.reason("Failed") == "InfrastructureFailures"


@pytest.mark.long
def test_failures_of_the_command_are_none_of_the_platforms() -> None:
    world = start(restart_policy=RestartPolicy.ON_FAILURE, backoff_limit=100)
    for code, changes in ((1, {}),) * 21 + ((143, {"pod_reason": "Evicted"}),):
        assert world.launcher is not None
        world.end(world.launcher.name, code, **changes)
        world.settle()
        world.wait(60)
        world.start()
    assert world.phase() == "Running"
    assert (world.status.failures.user, world.status.failures.infrastructure) == (21, 1)


@pytest.mark.long
def test_a_failure_of_the_command_breaks_the_row_of_those_that_the_platform_ended() -> None:
    world = start(restart_policy=RestartPolicy.ON_FAILURE)
    for n in range(30):
        assert world.launcher is not None
        changes = {} if n == 15 else {"pod_reason": "Evicted"}
        world.end(world.launcher.name, 1, **changes)
        world.settle()
        world.wait(60)
        world.start()
    assert world.phase() == "Running"


@pytest.mark.long
def test_launchers_that_the_platform_takes_fail_no_job_and_wait_little() -> None:
    world = start()
    for _ in range(30):
        assert world.launcher is not None
        world.end(world.launcher.name, 143, disruption_reason="PreemptionByScheduler")
        world.settle()
        assert world.requeue_after is not None
        assert world.requeue_after <= timedelta(seconds=8)
        world.wait(60)
        world.start()
    assert world.phase() == "Running"
    assert world.status.failures.infrastructure == 30


@pytest.mark.long
def test_what_was_taken_adds_nothing_to_what_counts() -> None:
    world = start()
    for n in range(30):
        assert world.launcher is not None
        if n % 2:
            world.end(world.launcher.name, 143, pod_reason="Evicted")
        else:
            world.end(world.launcher.name, 143, disruption_reason="PreemptionByScheduler")
        world.settle()
        world.wait(60)
        world.start()
    assert world.phase() != "Failed"  # 30 ended, of which 15 were evicted


def test_nobody_waits_for_ever_for_a_broker_that_has_gone() -> None:
    world = start()
    assert world.launcher is not None
    world.put(
        "job-launcher",
        is_container_running=False,
        disruption_reason="EvictionByEvictionAPI",
        termination=Termination(143, "Error", "", world.now),
    )
    world.settle()
    assert world.status.epoch == 1
    world.wait(60)
    world.settle()
    assert world.status.epoch == 2


def test_a_deleted_launcher_is_not_the_users_failure() -> None:
    world = start()
    world.delete("job-launcher")
    world.settle()
    assert world.status.epoch == 1  # it is still there
    world.end("job-launcher", 143)
    world.settle()
    assert world.status.epoch == 2
    assert world.status.failures.infrastructure == 1


def test_a_vanished_launcher_is_restarted_under_the_next_epoch() -> None:
    world = start()
    del world.pods["job-launcher"]
    world.settle()
    world.wait(1)
    world.settle()
    assert world.launcher is not None
    assert world.launcher.name == "job-launcher-r1"


def test_a_launcher_dying_on_a_lost_node_blocks_nothing() -> None:
    world = start()
    world.delete("job-launcher")
    world.settle()
    world.nodes = {"n1": Node("n1", is_unreachable=True)}
    world.settle()
    world.wait(1)
    world.settle()
    assert {"job-launcher", "job-launcher-r1"} <= set(world.pods)


def test_a_launcher_whose_kubelet_says_that_it_is_not_ready_has_its_grace() -> None:
    world = start()
    world.nodes = {"n1": Node("n1", is_ready=False)}
    world.delete("job-launcher", grace=300)
    for seconds in (1, 299, 59):
        world.settle()
        world.wait(seconds)
        world.settle()
        assert "job-launcher-r1" not in world.pods
    world.wait(1)  # a kubelet that cannot end it: its runtime is broken
    world.settle()
    assert world.status.epoch == 2


def test_workers_stay_while_a_suspended_jobs_launcher_saves_on_a_node_that_is_not_ready() -> None:
    world = start()
    world.edit(suspend=True)
    world.nodes = {"n1": Node("n1", is_ready=False)}
    world.settle()
    assert [pod.name for pod in world.pods.values() if pod.is_deleting] == ["job-launcher"]
    world.reap()
    world.settle()
    assert all(pod.is_deleting for pod in world.pods.values())


def test_a_command_that_had_ended_with_zero_is_success_though_its_pod_was_deleted() -> None:
    world = start()
    world.delete("job-launcher")
    world.finish(0)
    world.settle()
    assert world.phase() == "Succeeded"


@pytest.mark.parametrize("is_gone", [False, True], ids=["its pod is there", "its pod is gone"])
@pytest.mark.parametrize(
    "disruption",
    [
        {"disruption_reason": "EvictionByEvictionAPI"},
        {"disruption_reason": "PreemptionByScheduler"},
        {"pod_reason": "Evicted"},
        {},
    ],
    ids=lambda disruption: "".join(disruption.values()) or "deleted by somebody",
)
def test_a_command_that_saves_its_state_when_it_is_told_to_end_goes_on(
    disruption: dict[str, str], *, is_gone: bool
) -> None:
    world = start()
    world.delete("job-launcher")
    world.put("job-launcher", **disruption)
    world.finish(0, is_told_to_end=True)
    if is_gone:
        world.reap()
    world.settle()
    assert world.status.epoch == 2
    world.go_on()
    assert world.phase() == "Running"


@pytest.mark.long
@pytest.mark.parametrize("code", [0, 143])
def test_a_command_that_a_node_told_to_end_as_it_went_down_goes_on(code: int) -> None:
    world = start()
    for _ in range(21):
        assert world.launcher is not None
        assert world.phase() != "Failed"
        world.finish(code, is_told_to_end=True)  # and nothing on the pod tells of it
        world.settle()
        world.wait(60)
        world.start()
    assert world.reason("Failed") == "InfrastructureFailures"


def test_exit_zero_under_a_deletion_without_proof_is_no_success() -> None:
    world = start()
    world.delete("job-launcher")
    world.end("job-launcher", 0)
    world.settle()
    assert world.status.epoch == 2


UNSEEN = [
    pytest.param(Termination(255, "Unknown"), id="containerd after a reboot"),
    pytest.param(Termination(137, "ContainerStatusUnknown", "could not be located"), id="kubelet"),
]
DRIVER = "OCI runtime create failed: nvidia-container-cli: initialization error: driver error"
UNSTARTED = Termination(128, "StartError", DRIVER)


@pytest.mark.parametrize("end", [*UNSEEN, pytest.param(UNSTARTED, id="no driver")])
def test_what_a_node_does_to_the_launcher_is_not_the_commands_failure(end: Termination) -> None:
    world = start()
    world.put("job-launcher", phase="Failed", is_container_running=False, termination=end)
    world.settle()
    assert world.reason("Restarting") == "LauncherDisrupted"
    [told] = [c.message for c in world.status.conditions if c.type == "Restarting"]
    assert f"{end.reason})" in told
    assert end.message in told
    assert (world.status.failures.user, world.status.failures.infrastructure) == (0, 1)
    world.go_on()
    assert world.phase() == "Running"
    assert world.condition("ImageUnfit") is None


@pytest.mark.long
def test_a_node_that_never_starts_a_launcher_is_told_in_the_end() -> None:
    world = start()
    for _ in range(21):
        assert world.phase() != "Failed"
        assert world.launcher is not None
        world.put(
            world.launcher.name, phase="Failed", is_container_running=False, termination=UNSTARTED
        )
        world.settle()
        world.wait(60)
        world.settle()
    [failed] = [c for c in world.status.conditions if c.type == "Failed"]
    assert failed.reason == "InfrastructureFailures"
    assert DRIVER in failed.message


@pytest.mark.parametrize("end", UNSEEN)
def test_a_worker_whose_node_was_started_anew_explains_a_failure(end: Termination) -> None:
    world = start(minimum=1)
    world.put("job-worker-1", phase="Failed", is_container_running=False, termination=end)
    world.settle()
    world.finish(1)
    world.settle()
    assert world.reason("Restarting") == "WorkerLost"
    assert world.status.failures.user == 0


def fail_init(world: ModelWorld, pod: str) -> None:
    end = Termination(2, "Error", "no such bucket", world.now, init_container="fetch")
    world.put(pod, phase="Failed", node="n1", termination=end)


def test_an_init_container_that_fails_is_the_jobs_failure_and_named() -> None:
    world = ModelWorld(make_job(2))
    world.settle()
    fail_init(world, "job-launcher")
    world.settle()
    [failed] = [c for c in world.status.conditions if c.type == "Failed"]
    assert failed.reason == "InitContainerFailed"
    told = "the launcher's init container fetch ended with exit code 2: no such bucket"
    assert failed.message == told


def test_an_init_container_is_tried_again_where_the_command_would_be() -> None:
    world = ModelWorld(make_job(2, restart_policy=RestartPolicy.ON_FAILURE, backoff_limit=1))
    world.settle()
    for _ in range(2):
        assert world.phase() != "Failed"
        assert world.launcher is not None
        fail_init(world, world.launcher.name)
        world.settle()
        world.wait(60)
        world.settle()
    assert world.reason("Failed") == "BackoffLimitExceeded"
    assert (world.status.failures.user, world.status.failures.infrastructure) == (2, 0)


def test_an_init_container_of_a_worker_is_named_too() -> None:
    world = ModelWorld(make_job(2))
    world.settle()
    fail_init(world, "job-worker-0")
    world.settle()
    [lost] = [event.message for event in world.events if event.reason == "WorkerLost"]
    assert "init container fetch: exit code 2 Error no such bucket" in lost


def test_an_init_container_that_the_platform_ended_is_the_platforms() -> None:
    world = ModelWorld(make_job(2))
    world.settle()
    fail_init(world, "job-launcher")
    world.put("job-launcher", pod_reason="Evicted")
    world.settle()
    assert world.reason("Restarting") == "LauncherDisrupted"


def test_an_image_without_python_is_named() -> None:
    world = ModelWorld()
    world.settle()
    words = 'exec: "python3": executable file not found in $PATH'
    world.end("job-worker-0", 128)
    world.put("job-worker-0", termination=Termination(128, "StartError", words))
    world.settle()
    assert world.condition("ImageUnfit") == "True"
    [found] = [c for c in world.status.conditions if c.type == "ImageUnfit"]
    assert words in found.message


def test_a_job_that_failed_for_its_launchers_image_says_what_it_needs() -> None:
    world = ModelWorld()
    world.settle()
    world.end("job-launcher", 128)
    words = 'exec: "python3": executable file not found in $PATH'
    world.put("job-launcher", termination=Termination(128, "StartError", words))
    world.settle()
    [failed] = [c for c in world.status.conditions if c.type == "Failed"]
    assert failed.reason == "ImageUnfit"
    assert words in failed.message
    assert "the image needs python3 (3.7 or newer)" in failed.message
    assert world.events[-1].message == failed.message


@pytest.mark.long
def test_active_deadline_ends_the_job_and_its_launcher() -> None:
    world = start(active_deadline=timedelta(seconds=100))
    assert world.requeue_after == timedelta(seconds=99)
    world.wait(99)
    world.settle()
    world.reap()
    world.settle()
    assert world.reason("Failed") == "DeadlineExceeded"
    world.reap()
    assert world.pods == {}


@pytest.mark.parametrize("policy", [CleanPodPolicy.RUNNING, CleanPodPolicy.ALL])
def test_a_deadline_ends_the_launcher_first_and_then_the_workers(policy: CleanPodPolicy) -> None:
    world = start(
        active_deadline=timedelta(seconds=100),
        ttl_after_finished=timedelta(),
        clean_pod_policy=policy,
    )
    world.wait(200)
    world.settle()
    assert world.phase() == "Failed"
    assert [name for name, pod in world.pods.items() if pod.is_deleting] == ["job-launcher"]
    assert not world.job_is_gone, "its workers would go with it"

    world.reap()
    world.settle()
    assert world.job_is_gone
    assert all(world.pods[name].is_deleting for name in world.workers)


def test_a_deadline_waits_for_no_launcher_on_a_node_that_is_lost() -> None:
    world = start(active_deadline=timedelta(seconds=100))
    world.nodes = {"n2": Node("n2")}
    world.put("job-launcher", node="n1")
    world.put("job-worker-0", node="n2")
    world.wait(200)
    world.settle()
    assert world.pods["job-worker-0"].is_deleting


def test_ttl_deletes_the_job() -> None:
    world = start(ttl_after_finished=timedelta(seconds=30))
    world.finish(0)
    world.settle()
    assert world.requeue_after == timedelta(seconds=30)
    world.wait(30)
    world.settle()
    assert world.job_is_gone


def test_an_invalid_job_fails_without_pods() -> None:
    world = ModelWorld(replace(make_job(), spec=None, invalid="spec.x: change it"))
    world.settle()
    assert world.reason("Failed") == "InvalidSpec"
    assert world.log == ["status"]


def test_a_running_job_whose_spec_became_invalid_goes_on_and_is_followed() -> None:
    world = start()
    spec = world.job.spec
    world.job = replace(world.job, spec=None, invalid="spec.x: change it")
    world.settle()
    assert world.condition("InvalidSpec") == "True"
    assert world.phase() == "Running"
    world.job = replace(world.job, spec=spec, invalid="")
    world.settle()
    assert world.condition("InvalidSpec") == "False"
    world.job = replace(world.job, spec=None, invalid="spec.x: change it")
    world.finish(0)
    world.settle()
    assert world.phase() == "Succeeded"


def test_a_job_of_another_operator_is_followed_to_its_end() -> None:
    world = start()
    world.job = replace(world.job, is_foreign=True, status=type(world.status)())
    writes = world.writes
    world.settle()
    assert world.condition("Foreign") == "True"
    assert world.phase() == "Running"
    world.job = replace(world.job, is_foreign=False)
    del world.pods["job-worker-0"]
    world.settle()
    assert world.workers == ["job-worker-1"]
    world.end("job-launcher", 0)
    world.settle()
    assert world.phase() == "Succeeded"
    assert world.writes <= writes + 5


@pytest.mark.long
def test_a_bad_node_does_not_fail_a_job_that_trains() -> None:
    world = start(minimum=1)
    world.end("job-worker-1", 1)
    for _ in range(14):
        world.settle()
        world.wait(60)
        world.settle()
        world.end(world.workers[-1], 1)
    world.settle()
    assert world.phase() == "Running"
    assert world.condition("WorkersFailing") == "True"
    world.end("job-launcher", 1)  # which is not made up for by old losses
    world.settle()
    assert world.reason("Failed") == "LauncherFailed"


@pytest.mark.long
def test_workers_that_failed_before_a_restart_do_not_fail_the_next_launcher() -> None:
    world = start(minimum=1, restart_policy=RestartPolicy.ON_FAILURE)
    world.end("job-worker-1", 1)
    for _ in range(14):
        world.settle()
        world.wait(60)
        world.settle()
        world.end(world.workers[-1], 1)
    world.settle()
    world.end("job-launcher", 1)
    world.settle()
    world.wait(60)
    world.settle()
    world.end(world.workers[-1], 1)
    world.settle()
    assert world.condition("Failed") is None


def test_scalings_of_a_job_of_another_operator_fail_with_that_reason() -> None:
    world = start()
    world.job = replace(world.job, is_foreign=True, status=type(world.status)())
    world.add(make_scaling(ScalingKind.OUT, "more", count=1))
    world.settle()
    assert world.scaling_reason("more") == "Foreign"
    assert world.replicas == 2


def test_a_failure_just_after_the_platform_took_a_worker_is_not_the_users() -> None:
    world = start()
    world.delete("job-worker-1")
    world.settle()
    world.reap()
    world.settle()
    world.wait(150)
    world.finish(1)
    world.settle()
    assert (world.status.failures.user, world.status.failures.infrastructure) == (0, 1)
    assert world.reason("Restarting") == "WorkerLost"
    world.go_on()
    assert world.status.epoch == 2


def test_so_is_one_at_the_end_of_a_grace_however_long_it_was() -> None:
    world = start()
    world.delete("job-worker-1", grace=3600)
    world.settle()
    world.wait(3600)
    world.settle()
    world.end("job-worker-1", 137)
    world.finish(1)
    world.settle()
    assert (world.status.failures.user, world.status.failures.infrastructure) == (0, 1)


def test_so_is_one_in_the_very_moment() -> None:
    world = start()
    world.delete("job-worker-1")
    world.finish(1)
    world.settle()
    assert (world.status.failures.user, world.status.failures.infrastructure) == (0, 1)


def test_a_loss_long_ago_excuses_nothing() -> None:
    world = start()
    world.delete("job-worker-1")
    world.go_on()
    world.wait(301)
    world.finish(1)
    world.settle()
    assert world.reason("Failed") == "LauncherFailed"


def test_a_worker_that_crashed_excuses_nothing() -> None:
    world = start()
    world.end("job-worker-1", 1)
    world.go_on()
    world.finish(1)
    world.settle()
    assert world.reason("Failed") == "LauncherFailed"


def test_a_worker_that_was_scaled_in_excuses_nothing() -> None:
    world = start()
    world.add(make_scaling(ScalingKind.IN, "less", count=1))
    world.go_on()
    assert len(world.workers) == 1
    world.finish(1)
    world.settle()
    assert world.reason("Failed") == "LauncherFailed"


DEADLINE = {
    "pod_reason": "DeadlineExceeded",
    "pod_message": "Pod was active on the node longer than the specified deadline",
}
BY_TEMPLATE = [
    pytest.param(DEADLINE, "DeadlineExceeded: Pod was active", id="deadline of the pod"),
    pytest.param({"is_probed": True}, "a probe that failed", id="probe"),
]


@pytest.mark.parametrize(("of_template", "told"), BY_TEMPLATE)
@pytest.mark.parametrize("code", [0, 143])
def test_what_the_template_itself_ends_is_the_jobs_failure(
    code: int, of_template: dict[str, object], told: str
) -> None:
    world = start()
    world.finish(code, is_told_to_end=True)
    world.put("job-launcher", phase="Failed", **of_template)
    world.settle()
    [failed] = [c for c in world.status.conditions if c.type == "Failed"]
    assert failed.reason == "LauncherFailed"
    assert told in failed.message
    assert f"exit code {code}: the tail" in failed.message


@pytest.mark.parametrize(("of_template", "_"), BY_TEMPLATE)
@pytest.mark.parametrize("policy", [RestartPolicy.ON_FAILURE, RestartPolicy.EXIT_CODE])
def test_what_the_template_ends_is_tried_again_as_often_as_the_job_allows(
    policy: RestartPolicy, of_template: dict[str, object], _: str
) -> None:
    world = start(restart_policy=policy, backoff_limit=1)
    for _ in range(2):
        assert world.launcher is not None
        assert world.phase() != "Failed"
        world.finish(0, is_told_to_end=True)
        world.put(world.launcher.name, phase="Failed", **of_template)
        world.settle()
        world.wait(60)
        world.start()
    assert world.reason("Failed") == "BackoffLimitExceeded"
    assert (world.status.failures.user, world.status.failures.infrastructure) == (2, 0)


def test_a_deadline_that_is_over_before_the_container_starts_is_the_jobs_failure() -> None:
    world = ModelWorld(make_job(2))
    world.settle()
    world.put("job-launcher", phase="Failed", **DEADLINE)
    world.settle()
    assert world.reason("Failed") == "LauncherFailed"


def test_zero_in_a_pod_that_its_kubelet_ended_is_no_success_though_no_report_says_so() -> None:
    world = start()
    world.end("job-launcher", 0)
    world.put("job-launcher", phase="Failed", **DEADLINE)
    world.settle()
    assert world.reason("Failed") == "LauncherFailed"


def test_zero_in_a_pod_that_failed_for_a_reason_that_nobody_knows_is_no_success() -> None:
    world = start()
    world.end("job-launcher", 0)
    world.put("job-launcher", phase="Failed", pod_reason="OfAnotherVersion")
    world.settle()
    assert world.reason("Restarting") == "LauncherDisrupted"


def test_a_command_that_had_ended_before_the_deadline_of_its_pod_has_succeeded() -> None:
    world = start()
    world.finish(0)
    world.put("job-launcher", phase="Failed", **DEADLINE)
    world.settle()
    assert world.phase() == "Succeeded"


@pytest.mark.parametrize("told", [{}, DEADLINE], ids=["by nobody", "deadline"])
def test_a_deletion_is_who_ends_a_launcher_whatever_its_template_asks(
    told: dict[str, str],
) -> None:
    world = start()
    world.delete("job-launcher")
    world.finish(0, is_told_to_end=True)
    world.put("job-launcher", phase="Failed", is_probed=True, **told)
    world.settle()
    assert world.status.epoch == 2


def test_nobody_can_tell_a_probe_from_a_node_that_goes_down() -> None:
    world = start()
    world.nodes = {"n1": Node("n1", is_ready=False)}
    world.put("job-launcher", is_probed=True)
    world.finish(143, is_told_to_end=True)
    world.settle()
    assert world.reason("Restarting") == "LauncherDisrupted"


@pytest.mark.parametrize("is_told", [False, True])
def test_zero_waits_for_the_word_whether_the_command_was_told_to_end(*, is_told: bool) -> None:
    world = start()
    end = Termination(0, "Completed", finished=world.now)
    world.put("job-launcher", is_container_running=False, termination=end)
    world.settle()
    assert world.condition("Succeeded") is None
    assert world.report is not None
    world.report = replace(world.report, ended=0, is_told_to_end=is_told)
    world.settle()
    assert (world.phase() == "Succeeded") is not is_told


def test_zero_that_nobody_tells_more_of_is_success_after_a_minute() -> None:
    world = start()
    end = Termination(0, "Completed", finished=world.now)
    world.put("job-launcher", is_container_running=False, termination=end)
    world.settle()
    world.wait(60)
    result = world.step()
    assert world.phase() == "Succeeded"
    assert "job-report" in {ref.name for ref in result.premises}


def _end_untold(world: ModelWorld, code: int = 0) -> None:
    """The launcher's container has ended, and its broker is yet to say how the command did."""
    end = Termination(code, finished=world.now)
    world.put("job-launcher", is_container_running=False, termination=end)
    world.settle()


def _tell(world: ModelWorld, code: int) -> None:
    assert world.report is not None
    world.report = replace(world.report, ended=code)
    world.settle()


def test_a_deadline_that_is_held_up_by_a_view_that_is_cut_again_and_again_is_told() -> None:
    world = start(active_deadline=timedelta(seconds=100))
    world.complete_since = world.now
    for _ in range(5):
        world.wait(40)
        world.settle()
        assert world.condition("DeadlineHeldUp") is None
        world.complete_since = world.now  # a list, and soon the watch is cut again
    for _ in range(5):
        world.wait(40)
        world.settle()
        world.complete_since = world.now
    assert world.condition("DeadlineHeldUp") == "True"
    assert [e.reason for e in world.events].count("DeadlineHeldUp") == 1
    assert world.phase() == "Running"

    world.wait(60)
    world.settle()
    assert world.reason("Failed") == "DeadlineExceeded"
    assert world.condition("DeadlineHeldUp") == "False"


def test_a_command_that_ended_before_the_deadline_is_judged_by_its_end() -> None:
    world = start(active_deadline=timedelta(seconds=100))
    world.wait(95)
    _end_untold(world)
    world.wait(10)
    world.settle()
    assert world.phase() != "Failed"
    _tell(world, 0)
    assert world.phase() == "Succeeded"


def test_its_end_with_0_that_is_told_before_it_is_seen_counts_too() -> None:
    world = start(active_deadline=timedelta(seconds=100))
    world.wait(200)
    _tell(world, 0)
    assert world.phase() == "Running"
    world.finish(0)
    world.settle()
    assert world.phase() == "Succeeded"


@pytest.mark.parametrize(("code", "reason"), [(1, "LauncherFailed"), (None, "DeadlineExceeded")])
def test_a_deadline_still_ends_what_has_not_ended_well(code: int | None, reason: str) -> None:
    world = start(active_deadline=timedelta(seconds=100), restart_policy=RestartPolicy.NEVER)
    world.wait(95)
    if code is not None:
        _end_untold(world, code)
        world.wait(10)
        _tell(world, code)
    world.wait(70)
    world.settle()
    failed = next(c for c in world.status.conditions if c.type == "Failed")
    assert failed.reason == reason


def test_a_deadline_rests_on_what_the_last_launcher_has_told() -> None:
    world = start(active_deadline=timedelta(seconds=100))
    world.wait(200)
    premises = {(ref.resource, ref.name) for ref in world.step().premises}
    assert world.phase() == "Failed"
    assert (CONFIG_MAPS, "job-report") in premises


def test_a_resume_waits_until_the_end_of_the_last_launcher_is_known() -> None:
    world = start()
    world.edit(suspend=True)
    world.settle()
    _end_untold(world)
    world.wait(10)
    world.edit(suspend=False)
    world.settle()
    assert (world.phase(), world.status.epoch) == ("Suspended", 1)
    _tell(world, 0)
    assert (world.phase(), world.status.epoch) == ("Succeeded", 1)


def test_but_no_longer_than_its_broker_may_tell() -> None:
    world = start()
    world.edit(suspend=True)
    world.settle()
    _end_untold(world)
    world.edit(suspend=False)
    world.wait(60)
    world.settle()
    assert world.status.epoch == 2


def test_a_resume_does_not_wait_where_another_end_is_told() -> None:
    world = start()
    world.edit(suspend=True)
    world.settle()
    _end_untold(world, 1)
    world.edit(suspend=False)
    _tell(world, 1)
    assert world.status.epoch == 2


def test_a_resume_rests_on_what_the_last_launcher_has_told() -> None:
    world = start()
    world.edit(suspend=True)
    world.settle()
    world.reap()
    world.settle()
    world.edit(suspend=False)
    premises = {(ref.resource, ref.name) for ref in world.step().premises}
    assert world.status.epoch == 2
    assert premises >= {(CONFIG_MAPS, "job-report"), (PODS, "job-launcher")}
