"""The longest names, many jobs at once, namespaces beside each other, names that others hold."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from kubernetes import client

from tests.e2e.light_jobs import (
    FOREVER,
    IN_EACH_WORKER,
    build_light_job,
    find_pods,
    get_container,
    read_output,
    wait_for_condition,
    wait_for_event,
    wait_for_output,
)
from tests.e2e.world import GROUP, IMAGE, RealWorld, devcluster, scale_out

pytestmark = pytest.mark.cluster

LONGEST = 49
NEEDED = {
    "ServiceAccount": ("v1", "-launcher"),
    "ConfigMap": ("v1", "-config"),
    "NetworkPolicy": ("networking.k8s.io/v1", "-pods"),
}
"""What a job needs before its pods, with the end of its name; Roles are named by the server."""
REST = {"NetworkPolicy": {"spec": {"podSelector": {}}}}
BLOCK = 32
"""So many names in a row are somebody else's."""


@pytest.mark.point("long-names")
def test_names_at_the_length_limit_work_everywhere(world: RealWorld) -> None:
    job, scaling = "n" * LONGEST, "s" * 253
    script = f"hostname | grep -q -- -r1 || exit 3; {IN_EACH_WORKER.format('hostname')}; sleep 9"
    world.create(build_light_job(job, script, restartPolicy="OnFailure"))

    world.create(scale_out(scaling, job, 1))

    assert world.wait_for_scaling("scaleouts", scaling)["phase"] == "ScaleSucceeded"
    world.wait_for_phase(job, "Succeeded")
    assert f"{job}-worker-0" in world.log(f"{job}-launcher-r1")
    assert world.status("trainingjobs", job)["failures"]["user"] == 1
    assert scaling in wait_for_event(world, job, "ScaleSucceeded")


@pytest.mark.point("many-jobs")
def test_twenty_jobs_at_once_each_run_in_workers_of_their_own(world: RealWorld) -> None:
    jobs = [f"small-{number}" for number in range(20)]
    for job in jobs:
        world.create(build_light_job(job, IN_EACH_WORKER.format("hostname")))

    for job in jobs:
        world.wait_for_phase(job, "Succeeded", timeout=180)
        status = world.status("trainingjobs", job)
        assert status["epoch"] == 1
        assert read_output(world, f"{job}-launcher") == [f"{job}-worker-0"]
    world.wait(lambda: not world.worker_names(), "all workers are given back")


@pytest.mark.point("second-namespace")
def test_jobs_of_the_same_name_in_two_namespaces_know_nothing_of_each_other(
    world: RealWorld, neighbour: RealWorld
) -> None:
    script = IN_EACH_WORKER.format("echo $PLACE") + "; " + FOREVER
    for place in (world, neighbour):
        job = build_light_job("twin", script)
        get_container(job, "worker")["env"] = [{"name": "PLACE", "value": place.namespace}]
        place.create(job)
    for place in (world, neighbour):
        assert wait_for_output(place, "twin-launcher") == [place.namespace]

    world.create(scale_out("grow", "twin", 1))
    assert world.wait_for_scaling("scaleouts", "grow")["phase"] == "ScaleSucceeded"
    world.delete("trainingjobs", "twin")
    world.wait(lambda: not world.pods(), "no pod of the one is left")

    assert sorted(find_pods(neighbour, "twin")) == ["twin-launcher", "twin-worker-0"]
    assert neighbour.phase("twin") == "Running"


@pytest.mark.point("names-taken")
def test_numbers_that_others_hold_are_left_out_and_the_brokers_rights_follow(
    world: RealWorld,
) -> None:
    for number in range(BLOCK):
        world.core.create_namespaced_pod(world.namespace, make_strange_pod(f"far-worker-{number}"))
    world.create(build_light_job("far", IN_EACH_WORKER.format("hostname")))

    world.wait_for_phase("far", "Succeeded", timeout=120)

    assert read_output(world, "far-launcher") == [f"far-worker-{BLOCK}"]


@pytest.mark.point("names-taken")
def test_a_job_waits_until_the_children_of_others_have_given_back_its_names(
    world: RealWorld, tmp_path: Path
) -> None:
    jobs = {kind.lower(): f"{kind.lower()}{suffix}" for kind, (_, suffix) in NEEDED.items()}
    manifests = [
        {
            "apiVersion": version,
            "kind": kind,
            "metadata": {"name": jobs[kind.lower()], "labels": {"group-name": GROUP}},
            **REST.get(kind, {}),
        }
        for kind, (version, _) in NEEDED.items()
    ]
    (tmp_path / "others.yaml").write_text(yaml.safe_dump_all(manifests))
    others = ["-n", world.namespace, "-f", str(tmp_path / "others.yaml")]
    devcluster("kubectl", "create", *others)
    for job in jobs:
        world.create(build_light_job(job, "true"))

    for job, name in jobs.items():
        assert name in wait_for_condition(world, job, "NameTaken", "Unknown")
    assert not world.pods()

    devcluster("kubectl", "delete", *others)
    for job in jobs:
        world.wait_for_phase(job, "Succeeded")


def make_strange_pod(name: str) -> client.V1Pod:
    """A pod of somebody else's that never runs."""
    container = client.V1Container(name="main", image=IMAGE)
    return client.V1Pod(
        metadata=client.V1ObjectMeta(name=name),
        spec=client.V1PodSpec(containers=[container], node_selector={"no-such": "node"}),
    )
