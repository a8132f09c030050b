"""What end-to-end tests say must hold at every moment is seen where it does not."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from tests.e2e.histories import JOB, POD, Bounds, Version, find_breaches

SEAT = "seats.example.com/t"
NUMBERS = iter(range(1, 1000))


SEATS = Bounds(SEAT, {"node-1": Decimal(2)}, {"small": Decimal(1)})
"""Two seats on a node, one of them for a queue."""


def build_job(workers: int, queue: str = "queue", at: float = 0, **status: Any) -> Version:
    worker = {"minReplicas": 2, "template": {"spec": build_spec("")}}
    admission = {"state": "Admitted", "number": 2, "workers": workers, "queue": queue}
    body = {
        "metadata": {"name": "job", "resourceVersion": str(next(NUMBERS))},
        "spec": {"etReplicaSpecs": {"worker": worker}},
        "status": {"admission": admission, **status},
    }
    return Version(JOB, body, at)


def build_pod(name: str, *, node: str = "node-1", is_gone: bool = False) -> Version:
    role = "launcher" if "launcher" in name else "worker"
    labels = {"training-job-name": "job", "training-job-role": role}
    spec = build_spec(node)
    if role == "launcher":
        spec["containers"] = [{}]
    metadata = {"name": name, "resourceVersion": str(next(NUMBERS)), "labels": labels}
    return Version(
        POD, {"metadata": metadata, "spec": spec, "status": {"phase": "Running"}}, 0, is_gone
    )


def build_spec(node: str) -> dict[str, Any]:
    return {"nodeName": node, "containers": [{"resources": {"requests": {SEAT: "1"}}}]}


def test_a_gang_that_comes_and_goes_whole_breaks_nothing():
    names = ("worker-0", "worker-1", "launcher")
    end = build_job(2, phase="Succeeded")
    versions = [build_job(2), *map(build_pod, names), end, build_pod("worker-0", is_gone=True)]
    assert find_breaches(versions, SEATS) == []


@pytest.mark.parametrize(
    ("versions", "breach"),
    [
        ([*map(build_pod, "abc")], "3 of 2 are taken on node-1"),
        ([build_job(3)], "3 of 2 are given"),
        ([build_job(2, "small")], "small has 2 of 1"),
    ],
)
def test_what_does_not_hold_is_found_once(versions: list[Version], breach: str):
    assert find_breaches([*versions, versions[-1]], SEATS) == [breach]


def test_amounts_are_compared_as_the_cluster_writes_them():
    job = build_job(5, "small")
    [container] = job.body["spec"]["etReplicaSpecs"]["worker"]["template"]["spec"]["containers"]
    container["resources"] = {"requests": {"cpu": "100m"}}
    bounds = Bounds("cpu", {"node-1": Decimal("7.9")}, {"small": Decimal("0.46")})
    assert find_breaches([job], bounds) == ["small has 0.500 of 0.46"]


@pytest.mark.parametrize(
    ("is_running", "spent", "is_its_own"),
    [("False", 1, True), ("False", 2, False), ("True", 2, True)],
)
def test_what_a_held_job_has_spent_is_not_its_own(is_running: str, spent: int, is_its_own: bool):
    condition = {"type": "Admitted", "status": is_running}
    job = build_job(3, conditions=[condition], admittedNumber=spent)
    assert find_breaches([job], SEATS) == (["3 of 2 are given"] if is_its_own else [])


@pytest.mark.parametrize("other", ["", "node-1"])
def test_a_gang_that_is_started_partly_is_found_when_it_is_not_taken_back(other: str):
    versions = [build_job(2), *map(build_pod, ("w-0", "launcher")), build_pod("w-1", node=other)]
    found = ["job runs with fewer than 2 workers"] if not other else []
    assert find_breaches([*versions, build_job(2, at=70)], SEATS) == []
    assert find_breaches([*versions, build_job(2, at=80)], SEATS) == found
