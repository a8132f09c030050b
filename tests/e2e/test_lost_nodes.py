"""A node that is cut off for good, a worker or the launcher on it, and is back too late."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

import pytest
from kubernetes import client

from et_contract import names
from tests.e2e.faults import (
    HOSTNAME,
    LEAVE_SOON,
    ONE_ON_EACH,
    broken,
    find_nodes,
    find_pod,
    find_processes,
    get_spec,
    read_log_on_node,
)
from tests.e2e.light_jobs import build_light_job, wait_for_output
from tests.e2e.test_launchers import run_in
from tests.e2e.test_losses import build_ring, read_times, wait_until_it_trains
from tests.e2e.world import RealWorld, build_job, train

pytestmark = [pytest.mark.cluster, pytest.mark.alone]

HEARD = timedelta(seconds=11)
"""From the deletion of a pod on a lost node to the news of its end: 10 s, and one because the API
tells whole seconds."""
FEW_SECONDS = 30
"""On a busy machine. Without us it is what is left of Gloo's time-out, 120 s from the cut."""
DRIVE = """
me=$(hostname)
host=$(/etc/edl/discover_hosts.sh | cut -d: -f1)
ssh $host "trap '' TERM; while echo $me >> /tmp/story; do sleep 0.2; done" &
while ssh $host "echo $me >> /tmp/story"; do echo written; sleep 1; done
"""
"""A launcher that never lets go: a process that ignores TERM, and always new ones. Each writes on
the worker whose it is."""


@pytest.mark.point("lost-node")
def test_13_a_training_goes_on_without_a_worker_whose_node_is_cut_for_good(
    world: RealWorld,
) -> None:
    home, away = find_nodes()
    command = train("--steps", "100000", "--step-seconds", "0.3")
    command[1:1] = ["--gloo-timeout-seconds", "30"]
    job = build_job("torn", command=command)
    get_spec(job, "launcher")["nodeSelector"] = {HOSTNAME: home}
    workers = get_spec(job, "worker")
    workers |= {
        "topologySpreadConstraints": [ONE_ON_EACH],
        "tolerations": LEAVE_SOON,
        "terminationGracePeriodSeconds": 15,
    }
    world.create(job)
    world.wait_for_size("torn", 2)
    [lost] = [pod for pod in world.pods("worker") if pod.spec.node_name == away]

    with broken(away, "cut", "heal"):
        heard = world.wait(lambda: find_news(world, lost), "horovodrun hears of the end", 90)
        world.wait_for_size("torn", 1)
        dying = find_pod(world, lost.metadata.name)
        assert dying is not None
        grace = timedelta(seconds=dying.metadata.deletion_grace_period_seconds)
        assert heard - (dying.metadata.deletion_timestamp - grace) < HEARD
        assert find_processes(lost.metadata.uid), "what is cut off lives"
        joins = count_joins(world, lost)

    world.wait(lambda: find_pod(world, lost.metadata.name) is None, "its pod goes when it may")
    world.wait_for_size("torn", 2, timeout=120)
    assert find_processes(lost.metadata.uid) == []
    assert world.sizes("torn") == [2, 1, 2]
    assert count_joins(world, lost) == joins
    assert lost.metadata.uid not in world.report("torn")["exits"]
    assert world.status("trainingjobs", "torn")["epoch"] == 1


@pytest.mark.point("cut-ring")
def test_13_a_node_that_is_cut_costs_seconds_from_when_its_workers_are_called_gone(
    world: RealWorld,
) -> None:
    home, away = find_nodes()
    job = build_ring("cut")
    get_spec(job, "launcher")["nodeSelector"] = {HOSTNAME: home}
    workers = get_spec(job, "worker")
    workers |= {"topologySpreadConstraints": [ONE_ON_EACH], "tolerations": LEAVE_SOON}
    world.create(job)
    wait_until_it_trains(world, "cut")
    lost = [pod for pod in world.pods("worker") if pod.spec.node_name == away]
    assert lost

    with broken(away, "cut", "heal"):
        heard = world.wait(lambda: find_news(world, lost[0]), "horovodrun hears of the end", 90)
        told = heard.timestamp()
        steps = world.wait(
            lambda: [at for at in read_times(world, "cut") if at > told - 3], "they train on", 180
        )
        assert steps[0] - told < FEW_SECONDS
        assert "a worker is gone, so this rank ends" in world.log("cut-launcher")

    assert world.status("trainingjobs", "cut")["epoch"] == 1


def count_joins(world: RealWorld, worker: client.V1Pod) -> int:
    """How often a rank on this worker has joined the training."""
    pattern = rf"joined rank=\d size=\d host={worker.metadata.name}\b"
    return len(re.findall(pattern, world.log("torn-launcher")))


def find_news(world: RealWorld, worker: client.V1Pod) -> datetime | None:
    """When horovodrun was told that this worker's pod is gone."""
    job = worker.metadata.name.partition("-")[0]
    log: str = world.core.read_namespaced_pod_log(
        f"{job}-launcher", world.namespace, container="launcher", timestamps=True
    )
    words = f"edl: {worker.metadata.name}: the worker's pod is gone"
    found = [line.partition(" ")[0] for line in log.splitlines() if words in line]
    return datetime.fromisoformat(found[0]) if found else None


@pytest.mark.point("fenced-node")
def test_24_a_launcher_that_lives_on_a_cut_node_drives_no_worker_beside_its_successor(
    world: RealWorld,
) -> None:
    home, away = find_nodes()
    job = build_light_job("fenced", DRIVE)
    get_spec(job, "worker")["nodeSelector"] = {HOSTNAME: home}
    launcher = get_spec(job, "launcher")
    launcher |= {"affinity": prefer(away), "tolerations": LEAVE_SOON}
    world.create(job)
    wait_for_output(world, "fenced-launcher")
    old = find_pod(world, "fenced-launcher")
    assert old is not None
    assert old.spec.node_name == away

    both = ["fenced-launcher", "fenced-launcher-r1"]
    with broken(away, "stop-kubelet", "start-kubelet"):
        with broken(away, "cut", "heal"):
            wait_for_story(world, both)
        world.wait(lambda: is_refused(old), "the old launcher, back, is told that it is over")
        assert find_processes(old.metadata.uid, "-m launcher.broker")
        assert find_processes(old.metadata.uid, "boot.py launch")
        wait_for_story(world, both)

    world.wait(lambda: find_pod(world, "fenced-launcher") is None, "its kubelet ends it")
    wait_for_story(world, both)
    status = world.status("trainingjobs", "fenced")
    assert (status["phase"], status["epoch"]) == ("Running", 2)
    assert status["failures"]["infrastructure"] == 1
    assert status["failures"].get("user", 0) == 0


def prefer(node: str) -> dict[str, object]:
    """An affinity to this node, as long as it can be had."""
    term = {"matchExpressions": [{"key": HOSTNAME, "operator": "In", "values": [node]}]}
    wishes = [{"weight": 100, "preference": term}]
    return {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": wishes}}


def wait_for_story(world: RealWorld, launchers: list[str]) -> None:
    """Until these launchers, one after the other, have had the worker, and have had it alone."""

    def look() -> bool:
        # A launcher that writes once more after the next one is there a second time.
        story = run_in(world, "fenced-worker-0", "test ! -e /tmp/story || uniq /tmp/story").split()
        assert story == launchers[: len(story)]
        return story == launchers

    world.wait(look, f"the worker is driven by {launchers}")


def is_refused(launcher: client.V1Pod) -> bool:
    """Whether its broker has read, or heard from an agent, that another launcher has the job."""
    log = read_log_on_node(launcher, names.BROKER_CONTAINER)
    return "another launcher owns the job" in log or "epoch 1 is over" in log
