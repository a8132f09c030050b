"""Objects that somebody else writes at the same moment."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.gates import Gate, open_gate, writes_status
from tests.e2e.light_jobs import FOREVER, build_light_job
from tests.e2e.world import GROUP, RealWorld, devcluster, scale_in, scale_out

pytestmark = pytest.mark.cluster


@pytest.mark.point("contention")
def test_what_somebody_else_writes_at_the_same_moment_is_read_before_the_next_try(
    world: RealWorld, tmp_path: Path
) -> None:
    with open_gate(world, tmp_path) as gate:
        collide(world, gate, build_light_job("busy", FOREVER))
        world.wait_for_phase("busy", "Running")
        collide(world, gate, scale_out("grow", "busy", 1))
        assert world.wait_for_scaling("scaleouts", "grow")["phase"] == "ScaleSucceeded"
        collide(world, gate, scale_in("shrink", "busy", pods=["no-such-pod"]))
        assert world.wait_for_scaling("scaleins", "shrink")["phase"] == "ScaleFailed"

    assert world.worker_names() == ["busy-worker-0", "busy-worker-1"]


def test_a_job_that_is_applied_again_from_the_server_keeps_what_was_scaled(
    world: RealWorld, tmp_path: Path
) -> None:
    """`kubectl apply --server-side`, as the tutorial has it: nobody undoes a scaling unawares."""
    manifest = build_light_job("again", FOREVER, workers=2, suspend=True)
    apply_job(world, tmp_path, manifest)
    world.scale("again", 4)
    with pytest.raises(subprocess.CalledProcessError) as refused:
        apply_job(world, tmp_path, manifest)
    assert "worker.replicas" in refused.value.stderr
    del manifest["spec"]["etReplicaSpecs"]["worker"]["replicas"]
    manifest["spec"]["backoffLimit"] = 3
    apply_job(world, tmp_path, manifest)
    spec = world.get("trainingjobs", "again")["spec"]
    assert (spec["backoffLimit"], spec["etReplicaSpecs"]["worker"]["replicas"]) == (3, 4)


def apply_job(world: RealWorld, folder: Path, manifest: dict[str, Any]) -> None:
    path = folder / "job.yaml"
    path.write_text(yaml.safe_dump(manifest))
    devcluster("kubectl", "apply", "-n", world.namespace, "--server-side", "-f", str(path))


def collide(world: RealWorld, gate: Gate, manifest: dict[str, Any]) -> None:
    """Create an object and write to it while the operator is about to, until it has noticed."""
    plural, name = manifest["kind"].lower() + "s", manifest["metadata"]["name"]
    with gate.hold(writes_status(plural)) as hold:
        world.create(manifest)
        hold.wait(f"writes to {plural} {name}")
        body = {"metadata": {"annotations": {"somebody": "else"}}}
        world.custom.patch_namespaced_custom_object(
            GROUP, "v1alpha1", world.namespace, plural, name, body
        )
    world.wait(lambda: has_met_conflict(world, plural, name), f"a conflict on {plural} {name}")


def has_met_conflict(world: RealWorld, plural: str, name: str) -> bool:
    """Whether the operator's log tells of a conflict about the object."""
    words = f'409 Conflict: Operation cannot be fulfilled on {plural}.{GROUP} \\"{name}\\"'
    pods = world.core.list_namespaced_pod("et-operator").items
    logs = [
        world.core.read_namespaced_pod_log(pod.metadata.name, "et-operator", tail_lines=500)
        for pod in pods
    ]
    lines = "\n".join(logs).splitlines()
    return any(words in line and world.namespace in line for line in lines)
