"""An operator that may work in some namespaces only."""

from __future__ import annotations

from pathlib import Path

import pytest
from kubernetes import client

from tests.e2e.installing import NAMESPACE, namespaced_operator
from tests.e2e.light_jobs import IN_EACH_WORKER, build_light_job
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

    neighbour.wait_for_phase("local", "Succeeded")


def may(world: RealWorld, verb: str, group: str, resource: str) -> bool:
    """Whether the operator's account may do so in the world's namespace."""
    wish = client.V1ResourceAttributes(
        namespace=world.namespace, verb=verb, group=group, resource=resource
    )
    spec = client.V1SubjectAccessReviewSpec(user=ACCOUNT, resource_attributes=wish)
    api = client.AuthorizationV1Api(world.core.api_client)
    answer = api.create_subject_access_review(client.V1SubjectAccessReview(spec=spec))
    return bool(answer.status.allowed)
