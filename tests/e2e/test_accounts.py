"""A launcher with a service account of the user's own, as cloud identities need it."""

from __future__ import annotations

import pytest
from kubernetes import client

from tests.e2e.playing import play
from tests.e2e.world import RealWorld, build_job

pytestmark = pytest.mark.cluster

ACCOUNT = "cloud-identity"

POD_TOKEN = "/var/run/secrets/kubernetes.io/serviceaccount"


@pytest.mark.point("own-account")
def test_a_launcher_keeps_the_service_account_that_its_author_gave_it(world: RealWorld) -> None:
    world.core.create_namespaced_service_account(world.namespace, {"metadata": {"name": ACCOUNT}})
    job = build_job("owned", command=["sh", "-c", 'ls /var/run/secrets; exec "$@"', "-", *play()])
    give_identity(job["spec"]["etReplicaSpecs"]["launcher"]["template"]["spec"])
    world.create(job)
    world.wait_for_size("owned", 2)  # so the broker's rights are those of this account

    [launcher] = world.pods("launcher")
    assert launcher.spec.service_account_name == ACCOUNT
    assert launcher.spec.automount_service_account_token is False
    mounts = [mount.mount_path for mount in launcher.spec.containers[0].volume_mounts]
    assert "/var/run/secrets/cloud" in mounts, "the author's own volume stays"
    assert POD_TOKEN not in mounts, "the broker alone has a token for the API server"
    assert "kubernetes.io" not in world.log("owned-launcher").split()
    accounts = world.core.list_namespaced_service_account(world.namespace).items
    assert {a.metadata.name for a in accounts} <= {ACCOUNT, "default"}
    assert_rights(world)


@pytest.mark.point("own-account")
def test_rights_follow_the_account_that_is_given_to_the_next_launcher(world: RealWorld) -> None:
    world.core.create_namespaced_service_account(world.namespace, {"metadata": {"name": ACCOUNT}})
    world.create(build_job("moved", command=play()))
    world.wait_for_size("moved", 2)
    world.patch_job("moved", {"spec": {"suspend": True}})
    world.wait(lambda: not world.pods(), "no pods")
    template = {"template": {"spec": {"serviceAccountName": ACCOUNT}}}
    roles = {"etReplicaSpecs": {"launcher": template}}
    world.patch_job("moved", {"spec": {"suspend": False, **roles}})
    world.wait_for_size("moved", 2)  # its broker reaches the workers, with the new account
    [launcher] = world.pods("launcher")
    assert launcher.spec.service_account_name == ACCOUNT


def give_identity(spec: dict[str, object]) -> None:
    """The author's account, and a token of it for somebody else, as identity webhooks inject it."""
    token = {"serviceAccountToken": {"path": "token", "audience": "sts.example"}}
    spec["serviceAccountName"] = ACCOUNT
    spec["volumes"] = [{"name": "identity", "projected": {"sources": [token]}}]
    mount = {"name": "identity", "mountPath": "/var/run/secrets/cloud", "readOnly": True}
    spec["containers"][0]["volumeMounts"] = [mount]


def assert_rights(world: RealWorld) -> None:
    """The account may do what a broker must, by name, and nothing else."""
    wanted = {
        ("create", "pods", "exec", "owned-worker-0"): True,
        ("get", "pods", "exec", "owned-worker-1"): True,
        ("get", "configmaps", "", "owned-config"): True,
        ("patch", "configmaps", "", "owned-report"): True,
        ("create", "pods", "exec", "owned-launcher"): False,
        ("create", "pods", "exec", "other-worker-0"): False,
        ("patch", "configmaps", "", "owned-config"): False,
        ("get", "secrets", "", "anything"): False,
        ("list", "pods", "", ""): False,
        ("delete", "pods", "", "owned-worker-0"): False,
    }
    assert {question: is_allowed(world, *question) for question in wanted} == wanted


def is_allowed(world: RealWorld, verb: str, resource: str, subresource: str, name: str) -> bool:
    """What the API server would answer to the account."""
    review = client.AuthorizationV1Api(world.core.api_client).create_subject_access_review(
        {
            "spec": {
                "user": f"system:serviceaccount:{world.namespace}:{ACCOUNT}",
                "resourceAttributes": {
                    "namespace": world.namespace,
                    "verb": verb,
                    "resource": resource,
                    "subresource": subresource,
                    "name": name,
                },
            }
        }
    )
    return bool(review.status.allowed)
