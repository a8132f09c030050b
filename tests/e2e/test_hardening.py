"""Containers that may write nowhere and are nobody: Pod Security `restricted`, read-only roots."""

from __future__ import annotations

from typing import Any

import pytest

from tests.e2e.light_jobs import IN_EACH_WORKER, build_light_job, get_container, read_output
from tests.e2e.world import RealWorld, build_job, train

pytestmark = pytest.mark.cluster

OPERATOR_IMAGE = "localhost/et-operator:dev"
HARDENED = {
    "runAsNonRoot": True,
    "runAsUser": 1000,
    "runAsGroup": 1000,
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}


@pytest.mark.point("hardened")
def test_horovod_trains_without_root_and_on_read_only_roots(restricted: RealWorld) -> None:
    job = build_job("nobody", command=train("--steps", "20", "--step-seconds", "0.1"))
    harden(job)
    restricted.create(job)

    restricted.wait_for_phase("nobody", "Succeeded", timeout=180)

    assert restricted.sizes("nobody") == [2]


@pytest.mark.point("hardened")
def test_the_operators_own_image_serves_as_a_users_image_too(restricted: RealWorld) -> None:
    job = build_light_job("lean", IN_EACH_WORKER.format("id -u; touch /here"))
    harden(job)
    for role in ("launcher", "worker"):
        get_container(job, role)["image"] = OPERATOR_IMAGE
    restricted.create(job)

    restricted.wait_for_phase("lean", "Failed")

    output = read_output(restricted, "lean-launcher")
    assert "1000" in output
    assert any("Read-only file system" in line for line in output)


def harden(job: dict[str, Any]) -> None:
    for role in ("launcher", "worker"):
        get_container(job, role)["securityContext"] = HARDENED
