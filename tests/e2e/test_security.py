"""Who may do what to whom: the claims of docs/security.md, held against the real API server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import yaml
from kubernetes import client, config
from kubernetes.client.exceptions import ApiException
from kubernetes.stream import stream

from tests.e2e.rights import REFUSED_ON_PURPOSE
from tests.e2e.world import ROOT, World, build_job, devcluster, kubeconfig

pytestmark = [
    pytest.mark.cluster,
    # the official client leaves the socket of a refused handshake to the garbage collector
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

POLICY = ROOT / "deploy" / "components" / "exec-policy" / "policy.yaml"
WAITING = ["sh", "-c", "while :; do sleep 1; done"]


def start(world: World, *names: str) -> None:
    for name in names:
        world.create(build_job(name, command=WAITING, workers=1))
    for name in names:
        world.wait_for_phase(name, "Running")


def steal_token(world: World, account: str, pod: client.V1Pod | None = None) -> client.ApiClient:
    """A client with a token as the kubelet projects it into this pod."""
    bound = pod and client.V1BoundObjectReference(
        api_version="v1", kind="Pod", name=pod.metadata.name, uid=pod.metadata.uid
    )
    request = client.AuthenticationV1TokenRequest(
        spec=client.V1TokenRequestSpec(audiences=[], expiration_seconds=600, bound_object_ref=bound)
    )
    namespace = pod.metadata.namespace if pod else world.namespace
    answer = world.core.create_namespaced_service_account_token(account, namespace, request)
    settings = client.Configuration()
    config.load_kube_config(str(kubeconfig()), client_configuration=settings)
    settings.cert_file = settings.key_file = None
    settings.api_key = {"authorization": f"Bearer {answer.status.token}"}
    thief = client.ApiClient(settings)
    thief.user_agent = REFUSED_ON_PURPOSE
    return thief


def find_pod(world: World, job: str, role: str) -> client.V1Pod:
    [pod] = [p for p in world.pods(role) if p.metadata.labels["training-job-name"] == job]
    return pod


def run_in(thief: client.ApiClient, pod: client.V1Pod, *command: str) -> str:
    """The output of a command that is executed in a pod with somebody's token."""
    output: str = stream(
        client.CoreV1Api(thief).connect_get_namespaced_pod_exec,
        pod.metadata.name,
        pod.metadata.namespace,
        command=list(command),
        container=pod.spec.containers[0].name,
        stdout=True,
        stderr=True,
    )
    return output


def list_thefts(
    thief: client.ApiClient, world: World, neighbour: client.V1Pod, own: client.V1Pod
) -> dict[str, Callable[[], Any]]:
    core, custom, place = client.CoreV1Api(thief), client.CustomObjectsApi(thief), world.namespace
    jobs = ("kai.alibabacloud.com", "v1alpha1", place, "trainingjobs", "mine")
    rights = client.RbacAuthorizationV1Api(thief)
    return {
        "run a command in a neighbour's worker": lambda: run_in(thief, neighbour, "id"),
        "run a command in its own launcher": lambda: run_in(thief, own, "id"),
        "read the secrets": lambda: core.list_namespaced_secret(place),
        "list the pods": lambda: core.list_namespaced_pod(place),
        "list pods of all namespaces": core.list_pod_for_all_namespaces,
        "create a pod": lambda: core.create_namespaced_pod(
            place, client.V1Pod(metadata=client.V1ObjectMeta(name="evil"))
        ),
        "delete its own worker": lambda: core.delete_namespaced_pod("mine-worker-0", place),
        "write its own host list": lambda: core.patch_namespaced_config_map(
            "mine-config", place, {"data": {}}
        ),
        "write a neighbour's report": lambda: core.patch_namespaced_config_map(
            "theirs-report", place, {"data": {}}
        ),
        "read a neighbour's host list": lambda: core.read_namespaced_config_map(
            "theirs-config", place
        ),
        "list the ConfigMaps": lambda: core.list_namespaced_config_map(place),
        "change its own job": lambda: custom.patch_namespaced_custom_object(*jobs, {"spec": {}}),
        "widen its own Role": lambda: rights.patch_namespaced_role(
            "mine-launcher", place, {"rules": []}
        ),
        "make a token": lambda: core.create_namespaced_service_account_token(
            "mine-launcher", place, client.AuthenticationV1TokenRequest(
                spec=client.V1TokenRequestSpec(audiences=[])
            )
        ),
        "read the nodes": core.list_node,
    }  # fmt: skip


@pytest.mark.point("stolen-token")
def test_a_stolen_broker_token_reaches_nothing_but_its_own_job(world: World) -> None:
    start(world, "mine", "theirs")
    launcher = find_pod(world, "mine", "launcher")
    thief = steal_token(world, "mine-launcher", launcher)

    thefts = list_thefts(thief, world, find_pod(world, "theirs", "worker"), launcher)
    succeeded = [what for what, attempt in thefts.items() if not is_refused(attempt)]

    assert succeeded == []
    own = client.CoreV1Api(thief).read_namespaced_config_map("mine-config", world.namespace)
    assert own.metadata.name == "mine-config"


@pytest.mark.point("no-escalation")
def test_the_operators_token_grants_nobody_more_than_it_holds(world: World) -> None:
    settings = client.V1ObjectMeta(name="evil")
    rule = client.V1PolicyRule(api_groups=[""], resources=["secrets"], verbs=["get"])
    [operator, *_] = world.core.list_namespaced_pod("et-operator").items
    thief = steal_token(world, "et-operator", operator)
    rights = client.RbacAuthorizationV1Api(thief)
    evil = client.V1Role(metadata=settings, rules=[rule])
    admin = client.V1RoleBinding(
        metadata=settings,
        role_ref=client.V1RoleRef(
            api_group="rbac.authorization.k8s.io", kind="ClusterRole", name="cluster-admin"
        ),
        subjects=[client.RbacV1Subject(kind="User", name="evil")],
    )

    assert is_refused(lambda: rights.create_namespaced_role(world.namespace, evil))
    assert is_refused(lambda: rights.create_namespaced_role_binding(world.namespace, admin))
    assert is_refused(lambda: client.CoreV1Api(thief).list_namespaced_secret(world.namespace))


@pytest.mark.point("exec-policy")
def test_with_the_policy_a_broker_starts_nothing_but_the_bridge_to_its_agents(
    world: World,
) -> None:
    start(world, "mine")
    worker = find_pod(world, "mine", "worker")
    thief = steal_token(world, "mine-launcher", find_pod(world, "mine", "launcher"))
    assert "uid=" in run_in(thief, worker, "id")

    with applied_policy():
        refusal = world.wait(
            lambda: find_refusal(lambda: run_in(thief, worker, "id")), "the policy is in force"
        )
        world.patch_job("mine", {"spec": {"etReplicaSpecs": {"worker": {"replicas": 2}}}})
        world.wait(
            lambda: world.status("trainingjobs", "mine").get("replicas") == 2,
            "a second worker is reached through the policy",
        )

    assert "nothing in its workers but the bridge" in refusal


@pytest.mark.point("network-policy")
def test_the_pods_of_a_job_are_reached_by_each_other_alone(world: World) -> None:
    start(world, "mine", "theirs")
    networks = client.NetworkingV1Api(world.core.api_client)
    [policy] = [
        p for p in networks.list_namespaced_network_policy(world.namespace).items
        if p.metadata.name == "mine"
    ]  # fmt: skip

    selector = policy.spec.pod_selector.match_labels
    [rule] = policy.spec.ingress
    [peer] = rule._from
    selected = {
        pod.metadata.name for pod in world.pods() if selector.items() <= pod.metadata.labels.items()
    }

    assert selected == {"mine-launcher", "mine-worker-0"}
    assert policy.spec.policy_types == ["Ingress"]
    assert peer.pod_selector.match_labels == selector
    assert (peer.namespace_selector, peer.ip_block, rule.ports) == (None, None, None)


@contextmanager
def applied_policy() -> Iterator[None]:
    """The exec policy, in force as soon as the API server has read it."""
    names = [document["metadata"]["name"] for document in yaml.safe_load_all(POLICY.read_text())]
    devcluster("kubectl", "apply", "-f", str(POLICY))
    try:
        yield
    finally:
        kinds = "validatingadmissionpolicy,validatingadmissionpolicybinding"
        devcluster("kubectl", "delete", kinds, *dict.fromkeys(names))


def find_refusal(attempt: Callable[[], Any]) -> str:
    """The server's words, "" while it does as it is asked."""
    try:
        attempt()
    except ApiException as error:
        return str(error)
    return ""


def is_refused(attempt: Callable[[], Any]) -> bool:
    """Whether the server forbids it, for want of the right and not for another reason."""
    try:
        attempt()
    except ApiException as error:
        # a handshake that is refused comes without a code of its own
        if error.status == 403 or "403 Forbidden" in str(error.reason):
            return True
        raise
    return False
