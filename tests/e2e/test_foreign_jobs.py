"""Jobs that et-operator has begun: followed to their end, never changed."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from tests.e2e.installing import stopped_operator
from tests.e2e.light_jobs import build_light_job, find_pods, wait_for_condition
from tests.e2e.world import GROUP, IMAGE, RealWorld, devcluster, scale_in, scale_out

pytestmark = [pytest.mark.cluster, pytest.mark.alone]

UNTIL_TOLD = "until [ -e /tmp/over ]; do sleep 0.2; done; exit 0"
HOSTS = {"hostfile": "old-worker-0 slots=1\nold-worker-1 slots=1\n"}


@pytest.mark.point("foreign")
def test_a_job_that_et_operator_has_begun_is_followed_and_never_changed(world: RealWorld) -> None:
    with stopped_operator(world):
        leave_behind(world, "old", "Running", UNTIL_TOLD)
        leave_behind(world, "lost", "Running", "exit 3")
        leave_behind(world, "done", "Succeeded", "exit 0")
        world.create(scale_in("half-way", "old", count=1))
        patch_status(world, "scaleins", "half-way", {"phase": "Scaling", **conditions("Scaling")})
    world.create(scale_out("grow", "old", 1))

    message = wait_for_condition(world, "old", "Foreign")
    assert "started by another operator" in message
    assert world.wait_for_scaling("scaleouts", "grow")["conditions"][-1]["reason"] == "Foreign"
    assert world.wait_for_scaling("scaleins", "half-way")["conditions"][-1]["reason"] == "Foreign"
    world.wait_for_phase("lost", "Failed")
    assert "exit code 3" in wait_for_condition(world, "lost", "Failed")
    assert world.phase("done") == "Succeeded"
    assert_nothing_of_it_was_changed(world)

    end_launcher(world, "old")
    world.wait_for_phase("old", "Succeeded")
    world.wait(lambda: list(find_pods(world, "old")) == ["old-launcher"], "its workers are gone")
    assert world.core.read_namespaced_service("old-worker-0", world.namespace)


@pytest.mark.point("foreign")
def test_a_foreign_job_made_anew_under_its_name_is_an_ordinary_one(world: RealWorld) -> None:
    with stopped_operator(world):
        leave_behind(world, "moved", "Running", UNTIL_TOLD)
    wait_for_condition(world, "moved", "Foreign")

    world.delete("trainingjobs", "moved")
    world.wait(lambda: not find_pods(world, "moved"), "its pods went with it")
    world.create(build_light_job("moved", "true"))

    world.wait_for_phase("moved", "Succeeded")
    assert world.status("trainingjobs", "moved")["epoch"] == 1


def assert_nothing_of_it_was_changed(world: RealWorld) -> None:
    assert sorted(find_pods(world, "old")) == ["old-launcher", "old-worker-0", "old-worker-1"]
    assert world.phase("old") == "Running"
    job = world.get("trainingjobs", "old")
    assert job["spec"]["etReplicaSpecs"]["worker"]["replicas"] == 2
    config = world.core.read_namespaced_config_map("old-config", world.namespace)
    assert config.data == HOSTS


def leave_behind(world: RealWorld, name: str, phase: str, script: str) -> None:
    """A job with the objects, labels and status that et-operator gives it."""
    job = build_light_job(name, script, workers=2, launcherAttachMode="kubexec")
    created = world.create(job)
    status = {
        "phase": phase,
        **conditions("Created", phase),
        "currentWorkers": [f"{name}-worker-0", f"{name}-worker-1"],
        "targetWorkers": [f"{name}-worker-0", f"{name}-worker-1"],
        "replicaStatuses": {"Launcher": {"active": 1}, "Worker": {"active": 2}},
        "startTime": "2026-01-01T00:00:00Z",
    }
    patch_status(world, "trainingjobs", name, status)
    meta = partial(own, created)
    space = world.namespace
    world.core.create_namespaced_config_map(
        space, {"metadata": meta(f"{name}-config"), "data": HOSTS}
    )
    world.core.create_namespaced_service_account(space, {"metadata": meta(f"{name}-launcher")})
    for index in range(2):
        worker = f"{name}-worker-{index}"
        labels = {"training-job-role": "worker", "replica-index": str(index)}
        world.core.create_namespaced_pod(space, build_pod(meta(worker, labels), "exec sleep 3600"))
        ports = [{"port": 22}]
        selector = {"training-job-name": name, **labels}
        spec = {"clusterIP": "None", "selector": selector, "ports": ports}
        world.core.create_namespaced_service(space, {"metadata": meta(worker), "spec": spec})
    labels = {"training-job-role": "launcher"}
    world.core.create_namespaced_pod(space, build_pod(meta(f"{name}-launcher", labels), script))
    world.wait(
        lambda: all(p.status.phase != "Pending" for p in find_pods(world, name).values()),
        "the old pods have started",
    )


def own(job: dict[str, Any], name: str, labels: dict[str, str] | None = None) -> dict[str, Any]:
    """Metadata of a child that the job controls: pods and Services have et-operator's labels."""
    ours = {"group-name": GROUP, "training-job-name": job["metadata"]["name"]}
    reference = {
        "apiVersion": job["apiVersion"],
        "kind": job["kind"],
        "name": job["metadata"]["name"],
        "uid": job["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
    return {
        "name": name,
        "labels": {**ours, **labels} if labels else {"app": job["metadata"]["name"]},
        "ownerReferences": [reference],
    }


def build_pod(metadata: dict[str, Any], script: str) -> dict[str, Any]:
    container = {"name": "main", "image": IMAGE, "command": ["sh", "-c", script]}
    spec = {
        "containers": [container],
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 1,
    }
    return {"metadata": metadata, "spec": spec}


def conditions(*kinds: str) -> dict[str, Any]:
    """As et-operator writes them: each was true once, the last one is."""
    time = "2026-01-01T00:00:00Z"
    return {
        "conditions": [
            {
                "type": kind,
                "status": "True",
                "reason": f"TrainingJob{kind}",
                "message": f"TrainingJob is {kind}.",
                "lastUpdateTime": time,
                "lastTransitionTime": time,
            }
            for kind in kinds
        ]
    }


def patch_status(world: RealWorld, plural: str, name: str, status: dict[str, Any]) -> None:
    world.custom.patch_namespaced_custom_object_status(
        GROUP, "v1alpha1", world.namespace, plural, name, {"status": status}
    )


def end_launcher(world: RealWorld, job: str) -> None:
    """Its command ends by itself, with 0."""
    pod = [f"{job}-launcher", "-n", world.namespace]
    devcluster("kubectl", "exec", *pod, "--", "touch", "/tmp/over")  # noqa: S108 (in the pod)
