"""What cannot work says so, in words that tell what to do, and goes on when that was done."""

from __future__ import annotations

from typing import Any

import pytest
from kubernetes import client

from tests.e2e.light_jobs import (
    FOREVER,
    IN_EACH_WORKER,
    build_light_job,
    get_container,
    read_output,
    wait_for_condition,
    wait_for_event,
)
from tests.e2e.world import RealWorld, find_condition

pytestmark = pytest.mark.cluster

WITHOUT_PYTHON = "localhost/pause:dev"
ENFORCE = "pod-security.kubernetes.io/enforce"


@pytest.mark.point("image-without-python")
def test_a_launcher_whose_image_lacks_python_fails_and_says_what_is_missing(
    world: RealWorld,
) -> None:
    job = build_light_job("bare", "true")
    get_container(job, "launcher")["image"] = WITHOUT_PYTHON
    world.create(job)

    world.wait_for_phase("bare", "Failed")

    failed = find_condition(world.status("trainingjobs", "bare"), "Failed")
    assert failed["reason"] == "ImageUnfit"
    assert "python3 (3.7 or newer)" in failed["message"]
    assert "python3" in wait_for_event(world, "bare", "Failed")


@pytest.mark.point("image-without-python")
def test_a_worker_whose_image_lacks_python_says_what_is_missing(world: RealWorld) -> None:
    job = build_light_job("bare", "true")
    get_container(job, "worker")["image"] = WITHOUT_PYTHON
    world.create(job)

    message = wait_for_condition(world, "bare", "ImageUnfit")

    assert "bare-worker-" in message
    assert "the image needs python3 (3.7 or newer) in its PATH" in message
    assert "python3 (3.7 or newer)" in wait_for_event(world, "bare", "ImageUnfit")
    world.wait(lambda: "bare-worker-1" in world.worker_names(), "a replacement is tried")


@pytest.mark.point("no-such-image")
def test_an_image_that_cannot_be_pulled_is_named_until_it_is_corrected(world: RealWorld) -> None:
    job = build_light_job("nowhere", IN_EACH_WORKER.format("echo here"))
    right = get_container(job, "worker")["image"]
    get_container(job, "worker")["image"] = "localhost/no-such:dev"
    world.create(job)

    message = wait_for_condition(world, "nowhere", "ImagePullFailing")

    assert "nowhere-worker-0" in message
    assert "localhost/no-such:dev" in message
    assert "for another image correct the job's template" in message
    assert "localhost/no-such:dev" in wait_for_event(world, "nowhere", "ImagePullFailing")
    template = job["spec"]["etReplicaSpecs"]["worker"]["template"]
    template["spec"]["containers"][0]["image"] = right
    world.patch_job("nowhere", {"spec": {"etReplicaSpecs": {"worker": {"template": template}}}})
    world.wait_for_phase("nowhere", "Succeeded")  # the pod is replaced by itself
    assert wait_for_condition(world, "nowhere", "ImagePullFailing", "False") is not None


@pytest.mark.point("ends-at-once")
@pytest.mark.parametrize(
    ("command", "code", "words"),
    [
        pytest.param(["false"], "exit code 1", "", id="false"),
        pytest.param(["no-such-program"], "exit code 127", "no-such-program", id="no-such-program"),
        pytest.param(["/etc/hostname"], "exit code 126", "/etc/hostname", id="no-program"),
    ],
)
def test_a_command_that_ends_at_once_fails_with_what_it_said(
    world: RealWorld, command: list[str], code: str, words: str
) -> None:
    job = build_light_job("hasty", "")
    get_container(job, "launcher")["command"] = command
    world.create(job)

    world.wait_for_phase("hasty", "Failed")

    failed = find_condition(world.status("trainingjobs", "hasty"), "Failed")
    assert failed["reason"] == "LauncherFailed"
    assert code in failed["message"]
    assert words in failed["message"]
    assert code in wait_for_event(world, "hasty", "Failed")


@pytest.mark.point("ends-at-once")
def test_a_workers_command_that_ends_at_once_does_not_end_the_worker(world: RealWorld) -> None:
    job = build_light_job("lasting", IN_EACH_WORKER.format("echo here"))
    get_container(job, "worker")["command"] = ["true"]
    world.create(job)

    world.wait_for_phase("lasting", "Succeeded")

    assert read_output(world, "lasting-launcher") == ["here"]


@pytest.mark.point("quota")
def test_a_quota_that_refuses_pods_is_told_and_the_job_goes_on_when_it_is_raised(
    world: RealWorld,
) -> None:
    set_quota(world, 1)
    world.create(build_light_job("poor", IN_EACH_WORKER.format("echo here")))

    message = wait_for_condition(world, "poor", "PodsRefused")
    assert "exceeded quota: pods" in message
    assert "exceeded quota: pods" in wait_for_event(world, "poor", "PodsRefused")

    set_quota(world, 5)
    world.wait_for_phase("poor", "Succeeded")
    assert world.status("trainingjobs", "poor")["epoch"] == 1


@pytest.mark.point("pod-security-refuses")
def test_pods_below_the_namespaces_security_level_are_told_until_the_template_is_corrected(
    world: RealWorld,
) -> None:
    labels: dict[str, Any] = {"metadata": {"labels": {ENFORCE: "restricted"}}}
    world.core.patch_namespace(world.namespace, labels)
    job = build_light_job("loose", FOREVER)
    world.create(job)

    message = wait_for_condition(world, "loose", "PodsRefused")
    assert 'violates PodSecurity "restricted' in message
    assert "runAsNonRoot" in message

    for role in ("launcher", "worker"):
        get_container(job, role)["securityContext"] = build_restricted()
    world.patch_job("loose", {"spec": job["spec"]})
    world.wait_for_phase("loose", "Running")
    assert wait_for_condition(world, "loose", "PodsRefused", "False") is not None


def build_restricted() -> dict[str, Any]:
    """What Pod Security `restricted` asks of a container."""
    return {
        "runAsNonRoot": True,
        "runAsUser": 1000,
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def set_quota(world: RealWorld, pods: int) -> None:
    """Until the API server counts by it."""
    hard = {"pods": str(pods)}
    quota = client.V1ResourceQuota(
        metadata=client.V1ObjectMeta(name="pods"), spec=client.V1ResourceQuotaSpec(hard=hard)
    )
    if world.core.list_namespaced_resource_quota(world.namespace).items:
        world.core.replace_namespaced_resource_quota("pods", world.namespace, quota)
    else:
        world.core.create_namespaced_resource_quota(world.namespace, quota)
    world.wait(
        lambda: (
            world.core.read_namespaced_resource_quota("pods", world.namespace).status.hard == hard
        ),
        "the quota is in force",
    )
