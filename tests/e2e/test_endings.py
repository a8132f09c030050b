"""What an ended job leaves behind, and for how long."""

from __future__ import annotations

import pytest
from kubernetes.client.exceptions import ApiException

from tests.e2e.light_jobs import FOREVER, build_light_job, find_pods
from tests.e2e.world import RealWorld, find_condition, scale_in, scale_out

pytestmark = pytest.mark.cluster


@pytest.mark.point("clean-pod-policy")
def test_each_clean_pod_policy_leaves_the_pods_that_it_names(world: RealWorld) -> None:
    left = {
        "None": {"none-launcher": "Succeeded", "none-worker-0": "Running"},
        "Running": {"running-launcher": "Succeeded"},
        "All": {},
    }
    for policy in left:
        world.create(build_light_job(policy.lower(), "true", cleanPodPolicy=policy))
    for policy in left:
        world.wait_for_phase(policy.lower(), "Succeeded")

    for policy, pods in reversed(left.items()):
        wait_for_pods(world, policy.lower(), pods)


@pytest.mark.point("deadline")
def test_a_job_that_outlives_its_deadline_fails_and_gives_its_pods_back(world: RealWorld) -> None:
    world.create(build_light_job("slow", FOREVER))
    world.wait_for_phase("slow", "Running")
    world.patch_job("slow", {"spec": {"activeDeadlineSeconds": 2}})

    world.wait_for_phase("slow", "Failed")

    status = world.status("trainingjobs", "slow")
    failed = find_condition(status, "Failed")
    assert failed["reason"] == "DeadlineExceeded"
    assert "activeDeadlineSeconds (2)" in failed["message"]
    assert status.get("failures", {}).get("user", 0) == 0
    world.wait(lambda: not world.pods(), "no pod is left")


@pytest.mark.point("ttl")
def test_jobs_and_scalings_go_when_their_time_after_the_end_is_over(world: RealWorld) -> None:
    job = build_light_job("brief", FOREVER, ttlSecondsAfterFinished=1, cleanPodPolicy="None")
    world.create(job)
    world.create(scale_out("grow", "brief", 1, ttlSecondsAfterFinished=1))
    world.wait(lambda: is_gone(world, "scaleouts", "grow"), "the ScaleOut is gone")
    assert len(world.worker_names()) == 2
    world.create(scale_in("shrink", "brief", pods=["no-such-pod"], ttlSecondsAfterFinished=1))
    world.wait(lambda: is_gone(world, "scaleins", "shrink"), "the ScaleIn is gone")
    assert len(world.worker_names()) == 2

    world.patch_job("brief", {"spec": {"activeDeadlineSeconds": 1}})

    world.wait(lambda: is_gone(world, "trainingjobs", "brief"), "the job is gone")
    world.wait(lambda: not world.pods(), "its pods went with it")


def wait_for_pods(world: RealWorld, job: str, phases: dict[str, str]) -> None:
    """Until the job has these pods in these phases, and no other."""
    world.wait(
        lambda: {n: p.status.phase for n, p in find_pods(world, job).items()} == phases,
        f"what is left of {job} is {phases}",
    )


def is_gone(world: RealWorld, plural: str, name: str) -> bool:
    try:
        world.get(plural, name)
    except ApiException as error:
        if error.status == 404:
            return True
        raise
    return False
