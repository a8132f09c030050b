"""An operator that is installed otherwise: for some namespaces, or with queues for everybody."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from kubernetes import client

from tests.e2e.installing import NAMESPACE, namespaced_operator, operator_with
from tests.e2e.light_jobs import FOREVER, IN_EACH_WORKER, build_light_job, find_pods
from tests.e2e.pools import create_queue, delete_queue, find_admission
from tests.e2e.test_noticed_pods import say
from tests.e2e.world import GROUP, RealWorld, scale_out

pytestmark = [pytest.mark.cluster, pytest.mark.alone]

ACCOUNT = f"system:serviceaccount:{NAMESPACE}:et-operator"


@pytest.mark.point("namespaces")
def test_an_operator_for_one_namespace_needs_no_right_in_any_other(
    world: RealWorld, neighbour: RealWorld, tmp_path: Path
) -> None:
    script = IN_EACH_WORKER.format("echo here") + "; sleep 5"
    with namespaced_operator(world, tmp_path):
        for place in (neighbour, world):
            place.create(build_light_job("local", script))
        world.create(scale_out("grow", "local", 1))

        assert world.wait_for_scaling("scaleouts", "grow")["phase"] == "ScaleSucceeded"
        world.wait_for_phase("local", "Succeeded")
        assert neighbour.status("trainingjobs", "local") == {}
        assert may(world, "create", "", "pods")
        assert not may(neighbour, "create", "", "pods")
        assert not may(neighbour, "list", GROUP, "trainingjobs")

        world.create(build_needing_one("noticed"))
        world.wait_for_phase("noticed", "Running")
        say(world, timedelta(), 1, job="noticed")
        wanted = {"noticed-launcher", "noticed-worker-0", "noticed-worker-2"}
        world.wait(lambda: set(find_pods(world, "noticed")) == wanted, "a pod's notice is heard")

    neighbour.wait_for_phase("local", "Succeeded")


@pytest.mark.point("queueing")
def test_where_queues_are_required_who_names_none_waits_in_the_default_one_and_no_longer(
    world: RealWorld,
) -> None:
    world.create(build_light_job("before", FOREVER))
    world.wait_for_phase("before", "Running")
    with operator_with("QUEUEING=Required"):
        world.create(build_light_job("plain", "sleep 1"))
        words = "there is no queue default: create a TrainingQueue of that name"
        world.wait(lambda: words in find_admission(world, "plain").get("message", ""), words)
        assert world.phase("plain") == "Waiting"

        create_queue(world, "default")
        try:
            world.wait_for_phase("plain", "Succeeded")
        finally:
            delete_queue(world, "default")
        world.create(build_light_job("late", "sleep 1"))
        world.wait_for_phase("late", "Waiting")

    world.wait_for_phase("late", "Succeeded")
    status = world.status("trainingjobs", "before")
    assert (status["phase"], status["epoch"]) == ("Running", 1)


def build_needing_one(name: str) -> dict[str, Any]:
    """Two workers, of which one may be missing."""
    job = build_light_job(name, FOREVER, workers=2)
    job["spec"]["etReplicaSpecs"]["worker"]["minReplicas"] = 1
    return job


def may(world: RealWorld, verb: str, group: str, resource: str) -> bool:
    """Whether the operator's account may do so in the world's namespace."""
    wish = client.V1ResourceAttributes(
        namespace=world.namespace, verb=verb, group=group, resource=resource
    )
    spec = client.V1SubjectAccessReviewSpec(user=ACCOUNT, resource_attributes=wish)
    api = client.AuthorizationV1Api(world.core.api_client)
    answer = api.create_subject_access_review(client.V1SubjectAccessReview(spec=spec))
    return bool(answer.status.allowed)
