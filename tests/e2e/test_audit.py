"""What the whole run has left: every right was needed, none was missing, no secret went astray."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
import yaml
from kubernetes import client

from devcluster.audits import Right
from tests.e2e.light_jobs import FOREVER, build_light_job, wait_for_event
from tests.e2e.rights import (
    BROKERS,
    NOTICES,
    OPERATOR,
    SCHEDULER,
    Audit,
    examine,
    read_requests,
    spread,
)
from tests.e2e.world import LOGS, PLANTED, PLANTS, ROOT, RealWorld, kubeconfig

pytestmark = [pytest.mark.cluster, pytest.mark.last]

HELD_WITHOUT_A_USE = {
    OPERATOR: {
        Right("", "pods/exec", "get"): "nobody can grant a broker what he does not hold himself",
        Right("", "pods/exec", "create"): "the same",
        Right("rbac.authorization.k8s.io", "rolebindings", "get"): (
            "one is read again where the answer to its creation was lost; nobody can hold its name"
        ),
        Right("rbac.authorization.k8s.io", "roles", "get"): (
            "the same, and where a write to it met a conflict: not in every run"
        ),
    },
    SCHEDULER: {
        Right("events.k8s.io", "events", "patch"): (
            "an Event that is said again after a minute is counted: no test waits for that"
        ),
    },
    NOTICES: {},
}
ASKED_BY_THE_SERVER = {
    Right("", "pods/exec", "create"): (
        "from Kubernetes 1.35 on the API server checks it, besides get, for an exec by WebSocket"
    ),
}

IN_THE_OPEN = "written-in-the-open-5d1b"


@pytest.fixture(scope="module")
def audits() -> dict[str, Audit]:
    folder = kubeconfig().parent / "logs"
    return examine(read_requests(folder, os.environ.get("RUN_STARTED", "")))


@pytest.mark.point("rights")
@pytest.mark.parametrize("account", HELD_WITHOUT_A_USE)
def test_each_program_used_every_right_that_it_holds(
    world: RealWorld, audits: dict[str, Audit], account: str
) -> None:
    unused = list_held(world, account) - audits[account].used - set(HELD_WITHOUT_A_USE[account])

    assert sorted(unused) == [], "take these out of its rights.yaml, or test their use"


@pytest.mark.point("rights")
def test_the_brokers_used_every_right_that_they_get(
    world: RealWorld, audits: dict[str, Audit]
) -> None:
    world.create(build_light_job("granted", FOREVER))
    world.wait_for_phase("granted", "Running")
    api = client.RbacAuthorizationV1Api(world.core.api_client)
    label = "training-job-name=granted"
    [role] = api.list_namespaced_role(world.namespace, label_selector=label).items
    held = read_rules(world, role)

    unused = held - audits[BROKERS].used - set(ASKED_BY_THE_SERVER)

    assert sorted(unused) == [], "take these out of planning/manifests/access.py"


@pytest.mark.point("rights")
def test_nobody_of_ours_asked_for_what_is_refused(audits: dict[str, Audit]) -> None:
    for audit in audits.values():
        assert [(r.at, r.account, r.right, r.name) for r in audit.refused] == []


@pytest.mark.point("planted-secrets")
def test_the_search_finds_what_is_written_in_the_open(world: RealWorld) -> None:
    world.create(build_light_job("open", f"echo {IN_THE_OPEN}; exit 1"))
    world.wait_for_phase("open", "Failed")
    assert IN_THE_OPEN in wait_for_event(world, "open", "Failed")
    world.core.list_namespaced_pod(world.namespace, label_selector=IN_THE_OPEN)
    world.dump(LOGS / world.namespace)

    found = {path.name for path in find_holders(IN_THE_OPEN)}

    assert found >= {"open-launcher.launcher.log", "events.txt"}
    assert any(name.startswith("audit") for name in found)


@pytest.mark.point("planted-secrets")
def test_no_planted_secret_is_in_a_log_an_event_or_a_url() -> None:
    secrets = [PLANTED, *(LOGS / PLANTS).read_text().split()]
    assert len(secrets) > 1

    assert find_holders(*secrets) == []


def find_holders(*secrets: str) -> list[Path]:
    """Where one of them is written, but for the objects in which users put secrets."""
    folders = [LOGS, kubeconfig().parent / "logs"]
    paths = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    pattern = re.compile("|".join(map(re.escape, secrets)).encode())
    return [
        path
        for path in paths
        if not is_users(path) and path.name != PLANTS and holds(path, pattern)
    ]


def is_users(path: Path) -> bool:
    """Whether it is an object as its user wrote it, not what operator and broker say in one."""
    return path.suffix == ".json" and not path.stem.endswith(("-config", "-report"))


def holds(path: Path, pattern: re.Pattern[bytes]) -> bool:
    with path.open("rb") as stream:
        return any(map(pattern.search, stream))


def list_held(world: RealWorld, account: str) -> set[Right]:
    """The rights of a program; et-notices is in the cluster for its own tests alone."""
    if account == NOTICES:
        manifests = yaml.safe_load_all((ROOT / "deploy/components/notices/rights.yaml").read_text())
        [role] = [one for one in manifests if one["kind"] == "ClusterRole"]
        return spread(role["rules"])
    name = account.rpartition(":")[2]
    api = client.RbacAuthorizationV1Api(world.core.api_client)
    leading = api.read_namespaced_role(f"{name}-leader", "et-operator")
    return read_rules(world, api.read_cluster_role(name)) | read_rules(world, leading)


def read_rules(world: RealWorld, role: object) -> set[Right]:
    body = world.core.api_client.sanitize_for_serialization(role)
    return spread(body["rules"])
