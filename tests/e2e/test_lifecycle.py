"""How a job fails, pauses and ends."""

from __future__ import annotations

import pytest

from tests.e2e.light_jobs import wait_for_event
from tests.e2e.world import RealWorld, build_job, find_condition, train

pytestmark = pytest.mark.cluster


@pytest.mark.point("user-failure")
def test_a_failing_command_leaves_its_reason_and_the_tail_of_its_log_in_status(
    world: RealWorld,
) -> None:
    command = ["sh", "-c", "echo the data set is not there; exit 3"]
    world.create(build_job("broken", command=command, workers=1))

    world.wait_for_phase("broken", "Failed")

    failed = find_condition(world.status("trainingjobs", "broken"), "Failed")
    assert failed["status"] == "True"
    assert "exit code 3" in failed["message"]
    assert "the data set is not there" in failed["message"]


@pytest.mark.point("user-failure")
def test_a_failing_job_is_tried_again_as_often_as_its_author_allows(world: RealWorld) -> None:
    command = ["sh", "-c", "exit 3"]
    world.create(
        build_job("stubborn", command=command, workers=1, restartPolicy="OnFailure", backoffLimit=1)
    )

    world.wait_for_phase("stubborn", "Failed")

    status = world.status("trainingjobs", "stubborn")
    assert status["failures"]["user"] == 2
    assert status["epoch"] == 2


@pytest.mark.point("failure-kinds")
def test_only_what_the_users_command_did_counts_against_its_retries(world: RealWorld) -> None:
    # the first launcher is deleted by somebody, the second ends by a signal, the third with 3
    command = ["sh", "-c", "case $(hostname) in *-r1) exit 143;; *-r2) exit 3;; esac; sleep 1000"]
    job = build_job("unlucky", command=command, workers=1, restartPolicy="ExitCode", backoffLimit=5)
    world.create(job)
    world.wait_for_phase("unlucky", "Running")

    world.core.delete_namespaced_pod("unlucky-launcher", world.namespace)

    world.wait_for_phase("unlucky", "Failed")
    status = world.status("trainingjobs", "unlucky")
    assert status["failures"] == {"user": 2, "infrastructure": 1}
    assert status["epoch"] == 3
    failed = find_condition(status, "Failed")
    assert "exit code 3" in failed["message"], "143 is worth another try, 3 is not"
    wait_for_event(world, "unlucky", "Restarting")
    wait_for_event(world, "unlucky", "Failed")


@pytest.mark.point("suspend")
def test_a_suspended_job_gives_everything_back_and_trains_again_when_resumed(
    world: RealWorld,
) -> None:
    world.create(build_job("pause", command=train("--steps", "40", "--step-seconds", "0.3")))
    world.wait_for_size("pause", 2)

    world.patch_job("pause", {"spec": {"suspend": True}})
    world.wait_for_phase("pause", "Suspended")
    world.wait(lambda: not world.pods(), "no pod is left")

    world.patch_job("pause", {"spec": {"suspend": False}})
    world.wait_for_phase("pause", "Succeeded", timeout=180)
    status = world.status("trainingjobs", "pause")
    assert status["failures"]["user"] == 0


@pytest.mark.point("deletion")
def test_deletion_of_a_running_job_leaves_nothing_of_it(world: RealWorld) -> None:
    world.create(build_job("brief", command=train("--steps", "500", "--step-seconds", "0.3")))
    world.wait_for_size("brief", 2)

    world.delete("trainingjobs", "brief")

    world.wait(lambda: not world.pods(), "no pod is left", 90)
    left = [
        item.metadata.name
        for listing in (
            world.core.list_namespaced_config_map(world.namespace),
            world.core.list_namespaced_service_account(world.namespace),
        )
        for item in listing.items
        if item.metadata.name.startswith("brief-")
    ]
    assert left == []
