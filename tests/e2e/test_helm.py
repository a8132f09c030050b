"""The chart on a live cluster: a second release, in a namespace of its own, beside the first."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from kubernetes import client

from tests.e2e.world import RealWorld, devcluster

pytestmark = pytest.mark.cluster

CHART = "deploy/helm/et-operator"
RELEASE = "second"
NAME = "second-et-operator"
"""Of what belongs to the release; its account's too."""


@pytest.fixture
def values(world: RealWorld) -> Iterator[list[str]]:
    """Flags for a release that works in its own namespace alone; it is taken away again."""
    yield [
        *("--namespace", world.namespace, "--wait", "--timeout", "100s"),
        *("--set", f"namespaces={{{world.namespace}}}"),
        *("--set", "crds.install=false", "--set", "userRoles.create=false"),
    ]
    devcluster("helm", "uninstall", RELEASE, "-n", world.namespace, "--ignore-not-found")


@pytest.mark.point("helm-live")
def test_a_release_is_installed_upgraded_and_uninstalled_beside_another(
    world: RealWorld, values: list[str]
):
    rights = client.RbacAuthorizationV1Api(world.core.api_client)
    devcluster("helm", "install", RELEASE, CHART, *values)
    first = world.wait(lambda: get_holder(world), "the release's operator leads")
    names = {role.metadata.name for role in rights.list_cluster_role().items}
    assert names >= {NAME, "et-operator"}
    assert may_list_pods(world, world.namespace)
    assert not may_list_pods(world, "et-operator")

    devcluster("helm", "upgrade", RELEASE, CHART, *values, "--set", "settings.LOG_LEVEL=debug")
    world.wait(lambda: get_holder(world) not in {"", first}, "the upgraded operator leads")

    # in two steps: whoever loses its rights before its pod may not even give its lease back
    devcluster("helm", "upgrade", RELEASE, CHART, *values, "--set", "replicas=0")
    world.wait(lambda: not list_pods(world), "the operator has stopped")
    assert not get_holder(world), "the lease was not given back"
    devcluster("helm", "uninstall", RELEASE, "-n", world.namespace, "--wait", "--timeout", "100s")
    names = {role.metadata.name for role in rights.list_cluster_role().items}
    assert NAME not in names
    assert "et-operator" in names, "of the first installation"
    definitions = client.ApiextensionsV1Api(world.core.api_client)
    definitions.read_custom_resource_definition("trainingjobs.kai.alibabacloud.com")


def get_holder(world: RealWorld) -> str:
    """Who leads in the release's namespace; empty if nobody does."""
    leases = client.CoordinationV1Api(world.core.api_client)
    found = leases.list_namespaced_lease(world.namespace).items
    return next((lease.spec.holder_identity or "" for lease in found), "")


def list_pods(world: RealWorld) -> list[client.V1Pod]:
    """All pods of the release's namespace."""
    found: list[client.V1Pod] = world.core.list_namespaced_pod(world.namespace).items
    return found


def may_list_pods(world: RealWorld, namespace: str) -> bool:
    """Whether the release's account may, in this namespace."""
    asked = client.V1ResourceAttributes(namespace=namespace, verb="list", resource="pods")
    review = client.V1SubjectAccessReview(
        spec=client.V1SubjectAccessReviewSpec(
            resource_attributes=asked,
            user=f"system:serviceaccount:{world.namespace}:{NAME}",
        )
    )
    reviews = client.AuthorizationV1Api(world.core.api_client)
    return bool(reviews.create_subject_access_review(review).status.allowed)
