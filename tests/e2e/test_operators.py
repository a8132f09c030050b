"""Operators that are killed, stopped, replaced, or two at once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes import client

from devcluster.audits import Request
from devcluster.settings import OPERATOR_IMAGE, find_cluster
from tests.e2e import gates
from tests.e2e.audits import Audit
from tests.e2e.gates import Hold, Match, open_gate
from tests.e2e.operators import Operators, send
from tests.e2e.playing import play
from tests.e2e.world import ROOT, RealWorld, build_job, devcluster, kubeconfig, scale_in, scale_out

pytestmark = pytest.mark.cluster

SCALINGS: dict[str, tuple[str, Match]] = {
    "chosen": ("ScaleIn", gates.applies_replicas),
    "applied": ("ScaleIn", gates.publishes_draining),
    "closed": ("ScaleIn", gates.deletes_pod),
    "deleted": ("ScaleIn", gates.records_outcome),
    "named": ("ScaleOut", gates.creates_worker),
}
"""Job -> its scaling, and the write before which the operator dies."""
STARTS: dict[str, Match] = {
    "begun": gates.creates_config,
    "staffed": gates.creates_launcher,
}
"""The same for jobs that start."""


@pytest.mark.alone
@pytest.mark.point("operator-killed-anywhere")
def test_whatever_an_operator_was_killed_before_its_successor_does_as_it_was_decided(
    world: RealWorld, tmp_path: Path
) -> None:
    operators = Operators()
    operators.renew()
    create_all(world, SCALINGS)
    points = {**{job: match for job, (_, match) in SCALINGS.items()}, **STARTS}
    with open_gate(world, tmp_path) as gate, ExitStack() as holds:
        held = {j: holds.enter_context(gate.hold(gates.of(j, m))) for j, m in points.items()}
        create_all(world, STARTS, wait=False)
        for job, (kind, _) in SCALINGS.items():
            world.create(scale(kind, job))
        for job, hold in held.items():
            hold.wait(f"works at {job}")
        decided = {job: read_decision(world, job) for job in SCALINGS}
        assert_each_is_where_it_should_be(world)
        prefer_other_victims(world, decided)
        send(operators.wait_for_leader(), signal.SIGKILL)
        for hold in held.values():
            hold.end(allowed=False)

    for job, names in decided.items():
        assert_done_as_decided(world, job, names)
    for job in STARTS:
        wait_until_used(world, job, 2)


def create_all(world: RealWorld, jobs: Iterable[str], *, wait: bool = True) -> None:
    """Jobs of two workers each."""
    for job in jobs:
        world.create(build_job(job, command=play(), workers=2))
    for job in jobs if wait else ():
        wait_until_used(world, job, 2)


def assert_done_as_decided(world: RealWorld, job: str, names: list[str]) -> None:
    """The scaling succeeds with these workers and with no other."""
    kind, _ = SCALINGS[job]
    status = world.wait_for_scaling(kind.lower() + "s", job)
    assert status["phase"] == "ScaleSucceeded", status
    assert (status.get("toDeletePods") or status.get("addPods")) == names
    assert {w["result"] for w in status.get("workers", [])} <= {"graceful"}
    wait_until_used(world, job, 3 if kind == "ScaleOut" else 1)


def scale(kind: str, job: str) -> dict[str, Any]:
    """A scaling by one, called as its job."""
    return scale_in(job, job, count=1) if kind == "ScaleIn" else scale_out(job, job, 1)


def read_decision(world: RealWorld, job: str) -> list[str]:
    """Who leaves or joins, as the job's status says."""
    scaling = world.status("trainingjobs", job)["scaling"]
    return [worker["name"] for worker in scaling.get("victims") or scaling.get("added")]


def assert_each_is_where_it_should_be(world: RealWorld) -> None:
    """Nothing of what is held has been done, and all that comes before it has."""
    jobs = {job: world.get("trainingjobs", job) for job in (*SCALINGS, *STARTS)}
    replicas = {
        job: found["spec"]["etReplicaSpecs"]["worker"]["replicas"] for job, found in jobs.items()
    }
    assert replicas == {
        "chosen": 2, "applied": 1, "closed": 1, "deleted": 1, "named": 3, "begun": 2, "staffed": 2
    }  # fmt: skip
    pods = {job: names_of(world, job) for job in jobs}
    assert len(pods["closed"]) == 3, "the victim has closed and its pod is there"
    assert len(pods["deleted"] & {*world.worker_names()}) == 1, "the victim's pod is deleted"
    assert len(pods["named"]) == 3
    assert pods["begun"] == set()
    assert pods["staffed"] == {"staffed-worker-0", "staffed-worker-1"}
    assert jobs["begun"]["status"]["epoch"] == 1


def prefer_other_victims(world: RealWorld, decided: dict[str, list[str]]) -> None:
    """Whoever chose victims anew from now on would choose the others."""
    body = {"metadata": {"annotations": {"controller.kubernetes.io/pod-deletion-cost": "-100"}}}
    for pod in world.pods("worker"):
        job = pod.metadata.labels["training-job-name"]
        if pod.metadata.name not in decided.get(job, []):
            world.core.patch_namespaced_pod(pod.metadata.name, world.namespace, body)


def wait_until_used(world: RealWorld, job: str, workers: int) -> None:
    """Until the job's only launcher has processes on so many workers, and no other is there."""

    def look() -> bool:
        lines = world.log(f"{job}-launcher").splitlines()
        hosts = lines[-1].partition(" on=")[2].split(",") if lines else []
        names = names_of(world, job)
        return len(hosts) == workers and names == {*hosts, f"{job}-launcher"}

    world.wait(look, f"{job} uses {workers} workers: {sorted(names_of(world, job))}", 90)


def names_of(world: RealWorld, job: str) -> set[str]:
    """Every pod of a job."""
    return {p.metadata.name for p in world.pods() if p.metadata.labels["training-job-name"] == job}


@pytest.mark.alone
@pytest.mark.point("stopped-leader")
def test_what_a_leader_sends_that_slept_beyond_its_lease_changes_nothing(
    world: RealWorld, tmp_path: Path
) -> None:
    jobs: dict[str, tuple[str, Match]] = {
        "closed": ("ScaleIn", gates.deletes_pod),
        "undecided": ("ScaleIn", gates.decides_scaling),
        "named": ("ScaleOut", gates.creates_worker),
    }
    with two_replicas() as operators, open_gate(world, tmp_path) as gate, ExitStack() as holds:
        create_all(world, jobs)
        sleeper = operators.wait_for_leader()
        held: list[Hold] = []
        for job, (kind, match) in jobs.items():
            held.append(holds.enter_context(gate.hold(gates.of(job, match), only_first=True)))
            world.create(scale(kind, job))
            held[-1].wait(f"works at {job}")
        send(sleeper, signal.SIGSTOP)
        try:
            leader = operators.wait_for_leader(but=sleeper.metadata.name)
            wait_until_others_have_done_it(world)
            audit = Audit()
            for hold in held:
                hold.end()
            late = world.wait(
                lambda: find_writes(audit, sleeper, len(held)), "the late writes are answered"
            )
        finally:
            send(sleeper, signal.SIGCONT)
        assert {r.code for r in late} <= {404, 409}, late

        world.create(scale_out("more", "undecided", 1))
        assert world.wait_for_scaling("scaleouts", "more")["phase"] == "ScaleSucceeded"
        for job, workers in {"closed": 1, "undecided": 2, "named": 3}.items():
            wait_until_used(world, job, workers)
        assert operators.find_holder() == leader.metadata.name
        assert [r for r in find_writes(audit, sleeper) if r.is_done] == []


def wait_until_others_have_done_it(world: RealWorld) -> None:
    """Until the new leader has done, or decided otherwise, what the old one is about to do."""
    world.wait(lambda: "scaling" in world.status("trainingjobs", "undecided"), "it has decided")
    world.wait(lambda: "named-worker-2" in world.worker_names(), "it has created the worker")
    world.wait(
        lambda: len({"closed-worker-0", "closed-worker-1"} & {*world.worker_names()}) == 1,
        "it has deleted the worker",
    )


def find_writes(audit: Audit, pod: client.V1Pod, least: int = 0) -> list[Request]:
    """What this pod asked to be changed; nothing unless it is at least so much."""
    name = pod.metadata.name
    found = [r for r in audit.read() if r.pod == name and r.is_write]
    return found if len(found) >= least else []


@contextmanager
def two_replicas() -> Iterator[Operators]:
    """The installation with its component for high availability, and as it was at the end."""
    operators = Operators()
    plain = find_cluster().state / "deploy"
    overlay = find_cluster().state / "deploy-twice"
    overlay.mkdir(exist_ok=True)
    component = os.path.relpath(ROOT / "deploy/components/high-availability", overlay)
    (overlay / "kustomization.yaml").write_text(
        yaml.safe_dump({"resources": ["../deploy"], "components": [component]})
    )
    try:
        install(overlay)
        operators.world.wait(lambda: len(operators.pods()) == 2, "there are two")
        assert len({pod.spec.node_name for pod in operators.pods()}) == 2
        yield operators
    finally:
        install(plain)
        devcluster("kubectl", "-n", "et-operator", "delete", "poddisruptionbudget", "et-operator")
        operators.world.wait(lambda: len(operators.pods()) == 1, "there is one")
        operators.wait_for_leader()


def install(overlay: Path) -> None:
    """Apply it and wait until it runs."""
    devcluster("kubectl", "apply", "--server-side", "--force-conflicts", "-k", str(overlay))
    devcluster("kubectl", "-n", "et-operator", "rollout", "status", "deployment/et-operator")


@pytest.mark.point("two-leaders")
def test_two_operators_that_both_lead_bring_a_job_through_its_life_as_one_would(
    world: RealWorld, tmp_path: Path
) -> None:
    audit = Audit()
    with rival(world, tmp_path / "rival.log"):
        create_all(world, ["torn"])
        world.create(scale_out("grow", "torn", 2))
        assert world.wait_for_scaling("scaleouts", "grow")["phase"] == "ScaleSucceeded"
        world.create(scale_in("shrink", "torn", pods=["torn-worker-0", "torn-worker-2"]))
        status = world.wait_for_scaling("scaleins", "shrink")
        assert status["phase"] == "ScaleSucceeded"
        assert [w["result"] for w in status["workers"]] == ["graceful"] * 2
        world.patch_job("torn", {"spec": {"etReplicaSpecs": {"worker": {"replicas": 3}}}})
        wait_until_used(world, "torn", 3)
    assert world.status("trainingjobs", "torn")["epoch"] == 1
    done = [r for r in audit.read(world.namespace) if r.is_write and r.is_done]
    ours = [r for r in done if r.agent.startswith("et-operator/") and "-launcher" not in r.pod]
    assert {bool(r.pod) for r in ours} == {True, False}, "one of them did nothing"
    created = sorted(r.name for r in ours if (r.verb, r.target) == ("create", "pods"))
    assert created == ["torn-launcher", *(f"torn-worker-{n}" for n in range(5))]


@contextmanager
def rival(world: RealWorld, log: Path) -> Iterator[None]:
    """Another operator for this namespace, with a lease of its own: somebody installed it twice."""
    environ = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(ROOT),
        "KUBECONFIG": str(kubeconfig()),
        "BROKER_IMAGE": OPERATOR_IMAGE,
        "NAMESPACES": world.namespace,
        "POD_NAMESPACE": world.namespace,
        "POD_NAME": "rival",
        "HTTP_PORT": "0",
    }
    command = [sys.executable, "-m", "et_operator"]
    with log.open("wb") as output, subprocess.Popen(command, env=environ, stdout=output) as process:
        try:
            world.wait(lambda: '"leading"' in log.read_text(), "the other operator leads")
            yield
        finally:
            process.terminate()
    assert process.returncode == 0
