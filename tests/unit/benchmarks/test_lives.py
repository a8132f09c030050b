from __future__ import annotations

from typing import Any

import pytest

from benchmarks.experiments import build_replica_set
from benchmarks.lives import LABEL_KIND, Kind, Lives, trace
from benchmarks.shares import Shares, compare
from et_contract.pods import LABEL_JOB, LABEL_ROLE
from et_scheduler.simulating.cases import Rest

NODE = "edl-node-000"


def tell(
    lives: Lives, at: float, name: str, kind: Kind = Kind.TRAINER, *, node: str = "", **more: Any
) -> None:
    """What a watch tells of a pod of `one`."""
    ours = {LABEL_JOB: "one", LABEL_ROLE: kind.value}
    theirs = {LABEL_KIND: kind.value}
    labels = ours if kind in {Kind.TRAINER, Kind.LAUNCHER} else theirs
    metadata = {"uid": name, "name": name, "labels": labels}
    if more.get("leaving"):
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    reasons = [{"reason": reason} for reason in more.get("reasons", ())]
    pod = {"metadata": metadata, "spec": {"nodeName": node}, "status": {"conditions": reasons}}
    lives.note(at, {"type": more.get("type", "MODIFIED"), "object": pod})


def test_a_pod_is_there_from_its_node_to_its_end() -> None:
    lives = Lives()
    tell(lives, 1.0, "a", type="ADDED")
    tell(lives, 2.0, "a", node=NODE)
    tell(lives, 5.0, "a", node=NODE, leaving=True)
    tell(lives, 6.0, "a", node=NODE, leaving=True, type="DELETED")
    assert [lives.count_trainers("one", at) for at in (1.9, 2.0, 5.9, 6.0)] == [0, 1, 1, 0]
    assert lives.find_first("one", 1, Kind.TRAINER) == 2.0
    assert lives.find_first("one", 2, Kind.TRAINER) is None


def test_a_wait_ends_with_a_node_with_the_pod_or_with_the_experiment() -> None:
    lives = Lives()
    for name in ("bound", "gone", "waiting"):
        tell(lives, 1.0, name, Kind.SERVICE)
    tell(lives, 3.0, "bound", Kind.SERVICE, node=NODE)
    tell(lives, 4.0, "gone", Kind.SERVICE, leaving=True)
    assert [one.measure_wait(10.0) for one in lives.select(Kind.SERVICE)] == [2.0, 3.0, 9.0]


def test_who_was_preempted_was_not_ended_by_us() -> None:
    lives = Lives()
    for name, reasons in (("told", ()), ("taken", ("PreemptionByScheduler",)), ("stays", ())):
        tell(lives, 1.0, name, node=NODE)
        if name != "stays":
            tell(lives, 2.0, name, node=NODE, leaving=True, reasons=reasons)
    tell(lives, 1.0, "never")
    tell(lives, 2.0, "never", leaving=True)
    shares = Shares(lives, {"one": 0.0}, 10.0)
    assert [len(shares.list_ended(is_preempted=flag)) for flag in (False, True)] == [1, 1]


def test_use_and_what_there_is_room_for_count_requests_where_pods_are() -> None:
    lives = Lives()
    shares = Shares(lives, {"one": 0.0}, 10.0)
    assert shares.measure_use(1.0) == 0
    empty = shares.measure_bound(1.0)
    assert empty == pytest.approx((80 * 15 + 53 * 20) / (80 * 16 + 53 * 20))
    tell(lives, 1.0, "a", node=NODE)
    tell(lives, 1.0, "b", Kind.COMPANION, node=NODE)
    assert shares.measure_use(1.0) == pytest.approx((5 + 4) / 2340)
    assert shares.measure_bound(1.0) == pytest.approx(empty - 1 / 2340)  # 4 + 2 x 5 of 16


def test_a_gang_stands_with_its_launcher() -> None:
    lives = Lives()
    shares = Shares(lives, {"one": 1.0}, 10.0)
    for at, name in ((2.0, "a"), (3.0, "b")):
        tell(lives, at, name, node=NODE)
    assert shares.list_firsts() == [1.0]
    assert (shares.list_gangs(), shares.count_started()) == ([9.0], 0)
    tell(lives, 4.0, "l", Kind.LAUNCHER, node=NODE)
    assert (shares.list_gangs(), shares.count_started()) == ([3.0], 1)


def test_simulation_and_cluster_differ_job_by_job() -> None:
    sizes, use = compare([Rest((10, 20), 0.8, 1.0)], [Rest((13, 17), 0.6, 1.0)])
    assert (sizes.value, use.value) == pytest.approx((20.0, 25.0))


def test_a_picture_has_the_changes_and_the_end() -> None:
    assert list(trace(lambda at: float(at >= 2), 5.0)) == [(0.0, 0.0), (2.0, 1.0), (5.0, 1.0)]


def test_pods_of_services_say_what_they_are() -> None:
    found = build_replica_set("tide", Kind.SERVICE, 3, {"cpu": "3"}, "high")
    template = found["spec"]["template"]
    assert template["metadata"]["labels"][LABEL_KIND] == "service"
    assert template["spec"]["priorityClassName"] == "high"
