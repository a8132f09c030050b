"""Who may do what to whom: the claims of docs/security.md, held against the real API server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fcntl import LOCK_EX, flock
from pathlib import Path
from tempfile import gettempdir
from typing import Any

import pytest
import yaml
from kubernetes import client, config
from kubernetes.client.exceptions import ApiException
from kubernetes.stream import stream

from tests.e2e.rights import REFUSED_ON_PURPOSE
from tests.e2e.world import GROUP, ROOT, RealWorld, build_job, devcluster, kubeconfig

pytestmark = [
    pytest.mark.cluster,
    # the official client leaves the socket of a refused handshake to the garbage collector
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

COMPONENTS = ROOT / "deploy" / "components"
WAITING = ["sh", "-c", "while :; do sleep 1; done"]


def start(world: RealWorld, *names: str) -> None:
    for name in names:
        world.create(build_job(name, command=WAITING, workers=1))
    for name in names:
        world.wait_for_phase(name, "Running")


def steal_token(
    world: RealWorld, account: str, pod: client.V1Pod | None = None
) -> client.ApiClient:
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


def find_pod(world: RealWorld, job: str, role: str) -> client.V1Pod:
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
    thief: client.ApiClient, world: RealWorld, neighbour: client.V1Pod, own: client.V1Pod
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
            find_role(world, "mine").metadata.name, place, {"rules": []}
        ),
        "make a token": lambda: core.create_namespaced_service_account_token(
            "mine-launcher", place, client.AuthenticationV1TokenRequest(
                spec=client.V1TokenRequestSpec(audiences=[])
            )
        ),
        "read the nodes": core.list_node,
    }  # fmt: skip


@pytest.mark.point("stolen-token")
def test_a_stolen_broker_token_reaches_nothing_but_its_own_job(world: RealWorld) -> None:
    start(world, "mine", "theirs")
    launcher = find_pod(world, "mine", "launcher")
    thief = steal_token(world, "mine-launcher", launcher)

    thefts = list_thefts(thief, world, find_pod(world, "theirs", "worker"), launcher)
    succeeded = [what for what, attempt in thefts.items() if not is_refused(attempt)]

    assert succeeded == []
    own = client.CoreV1Api(thief).read_namespaced_config_map("mine-config", world.namespace)
    assert own.metadata.name == "mine-config"


@pytest.mark.point("no-escalation")
def test_the_operators_token_grants_nobody_more_than_it_holds(world: RealWorld) -> None:
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
    world: RealWorld,
) -> None:
    start(world, "mine")
    worker = find_pod(world, "mine", "worker")
    thief = steal_token(world, "mine-launcher", find_pod(world, "mine", "launcher"))
    assert "uid=" in run_in(thief, worker, "id")

    with applied_policy("exec-policy"):
        refusal = world.wait(
            lambda: find_refusal(lambda: run_in(thief, worker, "id")), "the policy is in force"
        )
        world.patch_job("mine", {"spec": {"etReplicaSpecs": {"worker": {"replicas": 2}}}})
        world.wait(
            lambda: world.status("trainingjobs", "mine").get("replicas") == 2,
            "a second worker is reached through the policy",
        )

        by_account = steal_token(world, "mine-launcher")  # that names no pod
        assert find_refusal(lambda: run_in(by_account, worker, "id"))
        assert "uid=" in run_in(world.core.api_client, worker, "id"), "who may exec everywhere"

    assert "nothing there but the bridge" in refusal


@pytest.mark.point("exec-policy")
def test_the_policy_binds_nobody_who_has_his_right_from_somebody_else(world: RealWorld) -> None:
    """Pods called like workers are others' too: those of a StatefulSet, or of another operator."""
    start(world, "mine")
    worker = find_pod(world, "mine", "worker")
    rights = client.RbacAuthorizationV1Api(world.core.api_client)
    meta = client.V1ObjectMeta(name="on-call")
    rule = client.V1PolicyRule(
        api_groups=[""],
        resources=["pods/exec"],
        verbs=["get", "create"],
        resource_names=[worker.metadata.name],
    )
    person = client.RbacV1Subject(kind="ServiceAccount", name="on-call", namespace=world.namespace)
    world.core.create_namespaced_service_account(
        world.namespace, client.V1ServiceAccount(metadata=meta)
    )
    rights.create_namespaced_role(world.namespace, client.V1Role(metadata=meta, rules=[rule]))
    rights.create_namespaced_role_binding(world.namespace, bind("on-call", "on-call", person))
    broker = steal_token(world, "mine-launcher", find_pod(world, "mine", "launcher"))
    innocent = steal_token(world, "on-call")

    with applied_policy("exec-policy"):
        world.wait(lambda: find_refusal(lambda: run_in(broker, worker, "id")), "it is in force")
        assert "uid=" in run_in(innocent, worker, "id")


@pytest.mark.point("exec-policy")
def test_a_job_gets_no_pods_with_the_account_of_another_jobs_broker(world: RealWorld) -> None:
    start(world, "victim")
    job = build_job("thief", command=WAITING, workers=1)
    template = job["spec"]["etReplicaSpecs"]["launcher"]["template"]["spec"]
    template["serviceAccountName"] = "victim-launcher"
    world.create(job)

    world.wait(
        lambda: [
            c for c in world.status("trainingjobs", "thief").get("conditions", ())
            if c["type"] == "AccountRefused" and c["status"] == "True"
        ],
        "the account is refused",
    )  # fmt: skip

    assert [p for p in world.pods() if p.metadata.labels["training-job-name"] == "thief"] == []


@pytest.mark.point("names-taken")
def test_nothing_is_granted_for_names_that_are_somebody_elses(world: RealWorld) -> None:
    config = client.V1ConfigMap(metadata=client.V1ObjectMeta(name="app-report"), data={"a": "b"})
    world.core.create_namespaced_config_map(world.namespace, config)
    account = client.V1ServiceAccount(metadata=client.V1ObjectMeta(name="attacker"))
    world.core.create_namespaced_service_account(world.namespace, account)
    job = build_job("app", command=WAITING, workers=1)
    template = job["spec"]["etReplicaSpecs"]["launcher"]["template"]["spec"]
    template["serviceAccountName"] = "attacker"
    world.create(job)
    world.wait(
        lambda: [
            c for c in world.status("trainingjobs", "app").get("conditions", ())
            if c["type"] == "NameTaken"
        ],
        "the name is told",
    )  # fmt: skip

    rights = client.RbacAuthorizationV1Api(world.core.api_client)
    assert rights.list_namespaced_role(world.namespace).items == []
    assert rights.list_namespaced_role_binding(world.namespace).items == []


@pytest.mark.point("names-taken")
def test_who_binds_roles_gets_nothing_of_what_a_broker_has(world: RealWorld) -> None:
    start(world, "mine")
    world.patch_job("mine", {"spec": {"suspend": True}})
    world.wait_for_phase("mine", "Suspended")
    rights = client.RbacAuthorizationV1Api(world.core.api_client)
    world.wait(
        lambda: (
            not [
                name
                for rule in find_role(world, "mine").rules
                for name in rule.resource_names
                if not name.startswith("-")
            ]
        ),
        "the Role grants nothing",
    )
    meta = client.V1ObjectMeta(name="binder")
    rule = client.V1PolicyRule(
        api_groups=["rbac.authorization.k8s.io"],
        resources=["roles", "rolebindings"],
        verbs=["create"],
    )
    binder = client.RbacV1Subject(kind="ServiceAccount", name="binder", namespace=world.namespace)
    world.core.create_namespaced_service_account(
        world.namespace, client.V1ServiceAccount(metadata=meta)
    )
    rights.create_namespaced_role(world.namespace, client.V1Role(metadata=meta, rules=[rule]))
    rights.create_namespaced_role_binding(world.namespace, bind("binder", "binder", binder))
    thief = client.RbacAuthorizationV1Api(steal_token(world, "binder"))
    held = client.V1Role(metadata=client.V1ObjectMeta(name="held"), rules=[])

    world.wait(
        lambda: not find_refusal(lambda: thief.create_namespaced_role(world.namespace, held)),
        "who binds roles may do so",
    )
    evil = bind("evil", find_role(world, "mine").metadata.name, binder)
    assert is_refused(lambda: thief.create_namespaced_role_binding(world.namespace, evil))


@pytest.mark.point("names-taken")
def test_who_binds_a_role_before_the_job_is_there_gets_nothing_of_it(world: RealWorld) -> None:
    """A Role without rights, which anybody may bind, goes away; what binds it stays."""
    rights = client.RbacAuthorizationV1Api(world.core.api_client)
    thief = client.RbacV1Subject(kind="ServiceAccount", name="default", namespace=world.namespace)
    nobody = client.V1OwnerReference(
        api_version="v1",
        kind="ConfigMap",
        name="nobody",
        uid="00000000-0000-0000-0000-000000000000",
    )
    meta = client.V1ObjectMeta(name="early-launcher", owner_references=[nobody])
    rights.create_namespaced_role(world.namespace, client.V1Role(metadata=meta, rules=[]))
    rights.create_namespaced_role_binding(world.namespace, bind("first", "early-launcher", thief))
    world.wait(
        lambda: (
            "early-launcher"
            not in [r.metadata.name for r in rights.list_namespaced_role(world.namespace).items]
        ),
        "the Role is collected",
    )
    start(world, "early")
    for name, verb in (("early-report", "patch"), ("early-config", "get")):
        asked = client.V1ResourceAttributes(
            namespace=world.namespace, resource="configmaps", name=name, verb=verb
        )
        answers = {who: is_allowed(world, who, asked) for who in ("default", "early-launcher")}
        assert answers == {"default": False, "early-launcher": True}


def is_allowed(world: RealWorld, account: str, asked: client.V1ResourceAttributes) -> bool:
    user = f"system:serviceaccount:{world.namespace}:{account}"
    spec = client.V1SubjectAccessReviewSpec(user=user, resource_attributes=asked)
    reviews = client.AuthorizationV1Api(world.core.api_client)
    review = reviews.create_subject_access_review(client.V1SubjectAccessReview(spec=spec))
    return bool(review.status.allowed)


def find_role(world: RealWorld, job: str) -> client.V1Role:
    rights = client.RbacAuthorizationV1Api(world.core.api_client)
    label = f"training-job-name={job}"
    [role] = rights.list_namespaced_role(world.namespace, label_selector=label).items
    return role


def bind(name: str, role: str, subject: client.RbacV1Subject) -> client.V1RoleBinding:
    reference = client.V1RoleRef(api_group="rbac.authorization.k8s.io", kind="Role", name=role)
    meta = client.V1ObjectMeta(name=name)
    return client.V1RoleBinding(metadata=meta, role_ref=reference, subjects=[subject])


@pytest.mark.point("network-policy")
def test_the_pods_of_a_job_are_reached_by_each_other_alone(world: RealWorld) -> None:
    start(world, "mine", "theirs")
    networks = client.NetworkingV1Api(world.core.api_client)
    [policy] = [
        p for p in networks.list_namespaced_network_policy(world.namespace).items
        if p.metadata.name == "mine-pods"
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


@pytest.mark.alone
@pytest.mark.point("operator-policy")
def test_with_the_policy_the_operators_token_does_nothing_that_the_operator_never_does(
    world: RealWorld,
) -> None:
    start(world, "mine")
    worker = find_pod(world, "mine", "worker")
    [operator, *_] = world.core.list_namespaced_pod("et-operator").items
    thief = steal_token(world, "et-operator", operator)
    attempts = list_deeds(thief, world, worker)
    elsewhere = {"a pod in kube-system", "a pod beside the operator"}  # Pod Security, accounts
    assert {w for w, attempt in attempts.items() if find_refusal(attempt)} <= elsewhere

    with applied_policy("operator-policy"):
        world.wait(
            lambda: "executes nothing itself" in find_refusal(attempts["execute"]),
            "the policy is in force",
        )
        allowed = [what for what, attempt in attempts.items() if not find_refusal(attempt)]
        world.patch_job("mine", {"spec": {"etReplicaSpecs": {"worker": {"replicas": 2}}}})
        world.wait(
            lambda: world.status("trainingjobs", "mine").get("replicas") == 2,
            "the operator itself goes on",
        )
        world.create(build_job("later", command=["true"], workers=1, cleanPodPolicy="All"))
        world.wait_for_phase("later", "Succeeded")
        world.wait(
            lambda: (
                not [p for p in world.pods() if p.metadata.labels["training-job-name"] == "later"]
            ),
            "and cleans up",
        )

    assert allowed == []


@pytest.mark.point("scheduler-policy")
def test_the_schedulers_token_writes_nothing_of_a_job_but_its_admission(world: RealWorld) -> None:
    start(world, "mine")
    [scheduler, *_] = [
        pod
        for pod in world.core.list_namespaced_pod("et-operator").items
        if pod.metadata.name.startswith("et-scheduler")
    ]
    thief = steal_token(world, "et-scheduler", scheduler)
    custom, core = client.CustomObjectsApi(thief), client.CoreV1Api(thief)
    place = (GROUP, "v1alpha1", world.namespace, "trainingjobs", "mine")

    def write(status: dict[str, Any]) -> str:
        return find_refusal(
            lambda: custom.patch_namespaced_custom_object_status(*place, {"status": status})
        )

    told = "et-scheduler changes nothing of a job's status but status.admission"
    assert told in write({"phase": "Failed"})
    assert told in write({"launcherUid": None})
    assert told in write({"epoch": 9, "admission": {"number": 1, "state": "Waiting"}})
    assert not write({"admission": {"number": 1, "state": "Waiting"}}), "but what it is there for"
    assert is_refused(
        lambda: custom.patch_namespaced_custom_object(*place, {"spec": {"queue": "mine"}})
    )
    assert is_refused(lambda: custom.delete_namespaced_custom_object(*place))
    worker = find_pod(world, "mine", "worker").metadata.name
    assert is_refused(lambda: core.delete_namespaced_pod(worker, world.namespace))
    assert is_refused(lambda: core.list_namespaced_secret(world.namespace))
    assert is_refused(lambda: core.read_namespaced_pod_log(worker, world.namespace))
    assert world.status("trainingjobs", "mine")["phase"] == "Running", "which has no queue"


def list_deeds(
    thief: client.ApiClient, world: RealWorld, worker: client.V1Pod
) -> dict[str, Callable[[], Any]]:
    """What the operator's rights allow, and it never does."""
    core, rights, place = (
        client.CoreV1Api(thief),
        client.RbacAuthorizationV1Api(thief),
        world.namespace,
    )
    meta = client.V1ObjectMeta(name="evil")
    image = worker.spec.containers[0].image
    spec = client.V1PodSpec(containers=[client.V1Container(name="evil", image=image)])
    pod = client.V1Pod(metadata=meta, spec=spec)
    owned = client.V1ObjectMeta(name="evil", owner_references=worker.metadata.owner_references)
    execs = client.V1PolicyRule(api_groups=[""], resources=["pods/exec"], verbs=["create"])
    by_name = client.V1PolicyRule(
        api_groups=[""], resources=["pods/exec"], verbs=["create"], resource_names=["db-0"]
    )
    named_so = client.V1PolicyRule(
        api_groups=["kai.alibabacloud.com"],
        resources=["trainingjobs"],
        verbs=["delete"],
        resource_names=["db-config"],
    )
    binding = client.V1RoleBinding(
        metadata=owned,
        role_ref=client.V1RoleRef(
            api_group="rbac.authorization.k8s.io",
            kind="Role",
            name=find_role(world, "mine").metadata.name,
        ),
        subjects=[client.RbacV1Subject(kind="User", name="evil")],
    )
    reads = client.V1PolicyRule(api_groups=[""], resources=["pods"], verbs=["get"])
    theirs = client.V1Role(metadata=client.V1ObjectMeta(name="bystander"), rules=[reads])
    client.RbacAuthorizationV1Api(world.core.api_client).create_namespaced_role(place, theirs)
    account = client.RbacV1Subject(kind="ServiceAccount", name="default", namespace=place)
    widened = bind("evil", "bystander", account)
    widened.metadata.owner_references = owned.owner_references
    bystander = client.V1ConfigMap(metadata=client.V1ObjectMeta(name="bystander"))
    world.core.create_namespaced_config_map(place, bystander)
    stranger = client.V1Pod(
        metadata=client.V1ObjectMeta(name="evil", owner_references=owned.owner_references),
        spec=spec,
    )
    dry = {"dry_run": "All"}
    return {
        "execute": lambda: run_in(thief, worker, "id"),
        "a pod without a job": lambda: core.create_namespaced_pod(place, pod, **dry),
        "a pod in kube-system": lambda: core.create_namespaced_pod("kube-system", stranger, **dry),
        "a pod beside the operator": lambda: core.create_namespaced_pod(
            "et-operator", stranger, **dry
        ),
        "a role for all pods": lambda: rights.create_namespaced_role(
            place, client.V1Role(metadata=owned, rules=[execs]), **dry
        ),
        "a role for another pod": lambda: rights.create_namespaced_role(
            place, client.V1Role(metadata=owned, rules=[by_name]), **dry
        ),
        "a role for a job that is called like a config": lambda: rights.create_namespaced_role(
            place, client.V1Role(metadata=owned, rules=[named_so]), **dry
        ),
        "a role for somebody else": lambda: rights.create_namespaced_role_binding(
            place, binding, **dry
        ),
        "another's role, for an account": lambda: rights.create_namespaced_role_binding(
            place, widened, **dry
        ),
        "another's ConfigMap, deleted": lambda: core.delete_namespaced_config_map(
            "bystander", place, **dry
        ),
        "another's ConfigMap, changed": lambda: core.patch_namespaced_config_map(
            "bystander", place, {"data": {"a": "b"}}, **dry
        ),
        "a Secret without a job": lambda: core.create_namespaced_secret(
            place, client.V1Secret(metadata=meta), **dry
        ),
    }


@pytest.mark.point("exec-policy")
@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"volumeMounts": [{"name": "edl-token", "mountPath": "/t"}]}, "operator's own"),
        ({"targetContainerName": "edl-broker"}, "hold its token"),
    ],
)
def test_with_the_policy_who_debugs_a_launcher_sees_nothing_of_the_broker(
    world: RealWorld, change: dict[str, Any], words: str
) -> None:
    start(world, "mine")
    launcher = find_pod(world, "mine", "launcher")
    container = {"name": "debug", "image": launcher.spec.containers[0].image, "command": WAITING}

    def debug(**more: Any) -> Any:
        return world.core.patch_namespaced_pod_ephemeralcontainers(
            launcher.metadata.name,
            world.namespace,
            {"spec": {"ephemeralContainers": [{**container, **more}]}},
            dry_run="All",
        )

    with applied_policy("exec-policy"):
        world.wait(lambda: words in find_refusal(lambda: debug(**change)), "it is in force")
        assert not find_refusal(debug)


@contextmanager
def applied_policy(component: str) -> Iterator[None]:
    """A policy of this component, in force as soon as the API server has read it.

    One test at a time has it: it holds for the whole cluster, and whoever is first takes it away.
    """
    path = COMPONENTS / component / "policy.yaml"
    names = [document["metadata"]["name"] for document in yaml.safe_load_all(path.read_text())]
    with (Path(gettempdir()) / f"et-operator-{component}.lock").open("w") as lock:
        flock(lock, LOCK_EX)
        devcluster("kubectl", "apply", "-f", str(path))
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
