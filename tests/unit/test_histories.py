"""What end-to-end tests say must hold at every moment is seen where it does not."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests.e2e.histories import JOB, POD, Version, find_breaches

SEAT = "seats.example.com/t"
NUMBERS = iter(range(1, 1000))


POOL: Any = SimpleNamespace(resource=SEAT, seats={"node-1": 2}, limits={"small": 1})
"""Two seats on a node, one of them for a queue."""


def build_job(workers: int, queue: str = "queue", at: float = 0, **status: Any) -> Version:
    worker = {"minReplicas": 2, "template": {"spec": build_spec("")}}
    admission = {"state": "Admitted", "workers": workers, "queue": queue}
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
    assert find_breaches(versions, POOL) == []


@pytest.mark.parametrize(
    ("versions", "breach"),
    [
        ([*map(build_pod, "abc")], "3 seats of 2 are taken on node-1"),
        ([build_job(3)], "{'queue': 3} is more than there is"),
        ([build_job(2, "small")], "small has 2 seats of 1"),
    ],
)
def test_what_does_not_hold_is_found_once(versions: list[Version], breach: str):
    assert find_breaches([*versions, versions[-1]], POOL) == [breach]


@pytest.mark.parametrize("other", ["", "node-1"])
def test_a_gang_that_is_started_partly_is_found_when_it_is_not_taken_back(other: str):
    versions = [build_job(2), *map(build_pod, ("w-0", "launcher")), build_pod("w-1", node=other)]
    found = ["job runs with fewer than 2 workers"] if not other else []
    assert find_breaches([*versions, build_job(2, at=70)], POOL) == []
    assert find_breaches([*versions, build_job(2, at=80)], POOL) == found
