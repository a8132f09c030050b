"""`kubectl drain` under a running job, as an administrator does it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from kubernetes import client

from et_kube.clock import SystemClock
from et_kube.notices import LEAVING_AT
from et_kube.times import format_time
from tests.e2e.light_jobs import find_pods
from tests.e2e.world import RealWorld, build_job, devcluster, train

pytestmark = [pytest.mark.cluster, pytest.mark.alone]

SPREAD = {
    "maxSkew": 1,
    "topologyKey": "kubernetes.io/hostname",
    "whenUnsatisfiable": "ScheduleAnyway",
    "labelSelector": {"matchLabels": {"training-job-role": "worker"}},
}

APART = {
    "requiredDuringSchedulingIgnoredDuringExecution": [
        {
            "topologyKey": "kubernetes.io/hostname",
            "labelSelector": {"matchLabels": {"training-job-role": "worker"}},
        }
    ]
}


@pytest.mark.point("drained-node")
def test_a_job_trains_on_while_its_workers_node_is_drained_and_starts_anew_after_its_launchers(
    world: RealWorld,
) -> None:
    create_budget(world)
    job = build_job("moving", command=train("--steps", "2000", "--step-seconds", "0.2"))
    template = job["spec"]["etReplicaSpecs"]["worker"]["template"]
    template["spec"]["topologySpreadConstraints"] = [SPREAD]
    world.create(job)
    world.wait_for_size("moving", 2)
    policy = client.PolicyV1Api(world.core.api_client)
    world.wait(
        lambda: (
            policy.read_namespaced_pod_disruption_budget(
                "workers", world.namespace
            ).status.disruptions_allowed
            == 1
        ),
        "one of two workers may be evicted",
    )
    nodes = list_nodes(world)
    home = nodes["moving-launcher"]
    [(moved, away)] = [(name, node) for name, node in nodes.items() if node != home]

    with drained(away):
        assert_it_trains_on(world, {home})
    assert moved not in list_nodes(world)
    numbers = [step.number for step in world.steps("moving")]
    assert numbers == list(range(1, len(numbers) + 1))
    assert world.status("trainingjobs", "moving")["epoch"] == 1

    with drained(home):
        assert_it_trains_on(world, {away})
    status = world.status("trainingjobs", "moving")
    failures = status["failures"]
    assert not failures.get("user")
    # The second, where a worker was evicted just as the new launcher's horovodrun started it.
    assert 1 <= failures["infrastructure"] <= 2
    assert status["epoch"] == 1 + failures["infrastructure"]


@pytest.mark.point("noticed-worker")
@pytest.mark.parametrize("seconds", [120, 30])
def test_a_worker_is_replaced_before_its_node_ends_with_one_reset_and_no_step_lost(
    world: RealWorld, seconds: int
) -> None:
    home, away, moved = start_apart(world)
    with leaving(away, timedelta(seconds=seconds)):
        assert_it_trains_on(world, {home}, "noticed")
        assert_nothing_is_lost(world, away, moved)
    assert world.sizes("noticed") == [2], "the number of workers has never fallen"
    assert count_resets(world, "noticed") == 1
    told = [(reason, words) for _, reason, words in world.events()]
    place = f"takes the place of a worker whose node ends: {moved}"
    assert any(reason == "WorkersAdded" and place in words for reason, words in told)
    assert "s before its end" in dict(told)["WorkerMoved"]


def test_where_there_is_no_time_a_worker_leaves_first_and_no_step_is_lost(world: RealWorld) -> None:
    home, away, moved = start_apart(world)
    with leaving(away, timedelta(seconds=10)):
        assert_it_trains_on(world, {home}, "noticed")
        assert_nothing_is_lost(world, away, moved)


def test_a_successor_without_room_leaves_again_where_the_worker_stays(world: RealWorld) -> None:
    names = [node.metadata.name for node in world.core.list_node().items]
    command = train("--steps", "2000", "--step-seconds", "0.2", np=len(names), minimum=1)
    job = build_job("noticed", command=command, workers=len(names))
    template = job["spec"]["etReplicaSpecs"]["worker"]["template"]
    template["spec"]["affinity"] = {"podAntiAffinity": APART}
    world.create(job)
    world.wait_for_size("noticed", len(names))
    nodes = list_nodes(world, "noticed")
    moved, away = next((n, at) for n, at in nodes.items() if at != nodes["noticed-launcher"])
    with leaving(away, timedelta(seconds=120)):
        world.wait(lambda: len(world.worker_names()) > len(names), "its successor is made")
        conditions = world.status("trainingjobs", "noticed")["conditions"]
        [words] = [c["message"] for c in conditions if c["type"] == "NodesLeaving"]
        assert f"{moved} on {away}: " in words
        assert " is ready, or at " in words
    world.wait(lambda: len(world.worker_names()) == len(names), "it leaves again")
    before = len(world.steps("noticed"))
    world.wait(lambda: len(world.steps("noticed")) > before + 10, "it trains on")
    assert moved in world.worker_names()
    assert world.sizes("noticed") == [len(names)]
    assert count_resets(world, "noticed") == 0


@pytest.mark.point("moved-launcher")
def test_another_launcher_goes_on_elsewhere_before_the_node_of_the_first_ends(
    world: RealWorld,
) -> None:
    home, away, _ = start_apart(world)
    before = list_nodes(world, "noticed")
    staying = [name for name, node in before.items() if node != home]
    with leaving(home, timedelta(seconds=60)):
        world.wait(lambda: find_message(world, "NodesLeaving"), "it is said what becomes of it")
        words = find_message(world, "NodesLeaving")
        assert f"noticed-launcher on {home}: " in words
        assert "another launcher goes on elsewhere" in words
        wait_for_next_launcher(world, home, within=180)
        assert set(staying) <= set(list_nodes(world, "noticed")), "who was elsewhere has stayed"
    status = world.status("trainingjobs", "noticed")
    failures = status["failures"]
    assert not failures.get("user")
    # The second, where a worker left just as the new launcher's horovodrun started it.
    assert 1 <= failures["infrastructure"] <= 2
    assert status["epoch"] == 1 + failures["infrastructure"]
    told = {reason: words for _, reason, words in world.events()}
    assert f"launcher noticed-launcher on {home}: " in told["LauncherMoved"]
    assert set(list_nodes(world, "noticed").values()) == {away}


@pytest.mark.point("notice-script")
def test_the_jobs_script_runs_in_the_launcher_before_its_node_ends(world: RealWorld) -> None:
    job = build_apart(noticeScript={"script": "/examples/scripts/announce.sh", "timeout": 30})
    [launcher] = job["spec"]["etReplicaSpecs"]["launcher"]["template"]["spec"]["containers"]
    launcher["env"] += [
        {"name": "GREETING", "value": "good bye"},
        {"name": "FAIL_WITH", "value": "3"},
    ]
    world.create(job)
    world.wait_for_size("noticed", 2)
    home = list_nodes(world, "noticed")["noticed-launcher"]
    with leaving(home, timedelta(minutes=5)):
        wait_for_next_launcher(world, home, within=150)  # long before the moment
    told = [(reason, words) for _, reason, words in world.events()]
    assert [reason for reason, _ in told].count("NoticeScript") == 1
    assert "exit code 3: good bye: noticed-launcher" in dict(told)["ScriptFailed"]
    assert not world.status("trainingjobs", "noticed")["failures"].get("user")


def wait_for_next_launcher(world: RealWorld, home: str, within: float) -> None:
    """Until it is on another node than this one, and two workers train again."""
    world.wait(
        lambda: list_nodes(world, "noticed").get("noticed-launcher-r1") not in {None, home},
        "the next launcher has another node",
        timeout=within,
    )
    world.wait(
        lambda: (steps := world.steps("noticed")) and steps[-1].size == 2,
        "two workers train again",
        timeout=240,
    )


def find_message(world: RealWorld, kind: str) -> str:
    """What a condition of the job says while it is True, else ""."""
    conditions = world.status("trainingjobs", "noticed").get("conditions") or []
    found = [c["message"] for c in conditions if c["type"] == kind and c["status"] == "True"]
    return next(iter(found), "")


def start_apart(world: RealWorld, name: str = "noticed") -> tuple[str, str, str]:
    """Two workers train: (the launcher's node, the other one, the worker on that)."""
    world.create(build_apart(name))
    world.wait_for_size(name, 2)
    nodes = list_nodes(world, name)
    home = nodes[f"{name}-launcher"]
    [(moved, away)] = [(pod, node) for pod, node in nodes.items() if node != home]
    return home, away, moved


def build_apart(name: str = "noticed", **spec: Any) -> dict[str, Any]:
    """A job of two workers, each on a node of its own where that is possible."""
    command = train("--steps", "2000", "--step-seconds", "0.2", minimum=1)
    job = build_job(name, command=command, **spec)
    template = job["spec"]["etReplicaSpecs"]["worker"]["template"]
    template["spec"]["topologySpreadConstraints"] = [SPREAD]
    return job


def assert_nothing_is_lost(world: RealWorld, away: str, moved: str) -> None:
    """No step, no launcher, and nobody was taken unawares."""
    numbers = [step.number for step in world.steps("noticed")]
    assert numbers == list(range(1, len(numbers) + 1))
    status = world.status("trainingjobs", "noticed")
    assert (status["epoch"], status.get("failures", {}).get("infrastructure")) == (1, 0)
    assert [notice["node"] for notice in status["notices"]] == [away]
    told = {reason: words for _, reason, words in world.events()}
    assert "WorkerLost" not in told
    assert f"worker {moved} left: graceful, " in told["WorkerMoved"]


def count_resets(world: RealWorld, job: str) -> int:
    """How often the ranks have built a ring anew: rank 0 tells each time that it has joined."""
    return world.log(f"{job}-launcher").count("joined rank=0 ") - 1


def assert_it_trains_on(world: RealWorld, nodes: set[str], job: str = "moving") -> None:
    """With as many workers as before, all of them on these nodes."""
    world.wait(
        lambda: len(pods := list_nodes(world, job)) == 3 and set(pods.values()) == nodes,
        f"all pods are on {nodes}",
    )
    before = len(world.steps(job))
    world.wait(
        lambda: (steps := world.steps(job))[before:] and steps[-1].size == 2,
        "two workers train again",
        timeout=240,
    )


def list_nodes(world: RealWorld, job: str = "moving") -> dict[str, str]:
    """Where the job's pods are; those that are going are left out."""
    return {name: pod.spec.node_name for name, pod in find_pods(world, job).items()}


@contextmanager
def leaving(node: str, span: timedelta) -> Iterator[None]:
    """Said to end so soon, inside; said to stay afterwards."""
    moment = format_time((SystemClock().now() + span).replace(microsecond=0))
    try:
        devcluster("kubectl", "annotate", "node", node, f"{LEAVING_AT}={moment}")
        yield
    finally:
        devcluster("kubectl", "annotate", "node", node, f"{LEAVING_AT}-")


def create_budget(world: RealWorld) -> None:
    """One worker at a time may be evicted; the API server counts by the job's scale."""
    spec = {
        "maxUnavailable": 1,
        "selector": {"matchLabels": {"training-job-role": "worker"}},
    }
    policy = client.PolicyV1Api(world.core.api_client)
    policy.create_namespaced_pod_disruption_budget(
        world.namespace, {"metadata": {"name": "workers"}, "spec": spec}
    )


@contextmanager
def drained(node: str) -> Iterator[None]:
    """Drained inside, in use again afterwards."""
    flags = ["--ignore-daemonsets", "--delete-emptydir-data", "--timeout=100s"]
    try:
        devcluster("kubectl", "drain", node, *flags)
        yield
    finally:
        devcluster("kubectl", "uncordon", node)
