"""Ports of nodes: whose workers have one that somebody waits for, and who goes for it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from et_scheduler.model.cluster import Cluster, Node
from et_scheduler.model.jobs import Admission, Job
from et_scheduler.model.reasons import Reason
from et_scheduler.model.shapes import CPU, MINUTE
from et_scheduler.planning.passing import decide
from et_scheduler.planning.rooms import Room
from tests.counting import count_steps
from tests.unit.scheduler.makers import (
    MAIN,
    NOTHING,
    NOW,
    cpus,
    decide_on,
    make_job,
    make_node,
    make_nodes,
    run_on,
)

WITH_PORT = replace(cpus(1), host_ports=frozenset({"TCP/80"}))
TAKEN = frozenset({"TCP/80"})


def run_with_port(name: str = "one", **fields: Any) -> Job:
    """An elastic job, two of whose workers have the port, each on a node of its own."""
    return run_on(make_job(name, 1, 2, worker=WITH_PORT, **fields), "node-00", "node-01")


def test_whom_workers_keep_off_by_their_port_is_not_too_large() -> None:
    gang = make_job("gang", 2, 2, worker=WITH_PORT)
    decision = decide(Cluster(make_nodes(2)), MAIN, [run_with_port(), gang], NOW)
    assert decision.explanations["gang"].reason is Reason.NO_ROOM
    ports = replace(make_node("node-00"), ports=(TAKEN,))
    decision = decide(Cluster((ports, *make_nodes(2)[1:])), MAIN, [gang], NOW)
    assert decision.explanations["gang"].reason is Reason.NO_ROOM, "an empty cluster holds it"


def test_workers_give_their_ports() -> None:
    gang = make_job("gang", 1, 1, worker=WITH_PORT)
    told = decide_on(make_nodes(2), [run_with_port(), gang])
    assert told["one"].workers == 1
    assert told["gang"].reason is Reason.ROOM_COMES


def test_whole_jobs_go_with_their_ports() -> None:
    gang = make_job("gang", 2, 2, worker=WITH_PORT, priority=1)
    told = decide_on(make_nodes(2), [run_with_port(), gang])
    assert told["one"].reason is Reason.EVICTED
    assert told["gang"].reserved == ("node-00", "node-01")


def test_a_port_of_a_worker_that_leaves_is_free_later() -> None:
    job = run_with_port()
    pods = tuple(
        replace(pod, is_terminating=pod.node == "node-01", leaving_since=NOW) for pod in job.pods
    )
    gang = make_job("gang", 1, 1, worker=WITH_PORT)
    told = decide_on(make_nodes(2), [replace(job, pods=pods, maximum=1), gang])
    assert told["gang"].reason is Reason.ROOM_COMES
    assert told["gang"].workers == 0


def test_who_waits_for_room_that_comes_may_have_a_port() -> None:
    """In the pass after that in which others were asked: nothing is counted anew then."""
    elastic = run_on(make_job("elastic", 1, 8), *["node-00"] * 8)
    jobs = [elastic, make_job("gang", 1, 1, worker=WITH_PORT)]
    told = decide_on(make_nodes(1), jobs)
    assert told["gang"].reserved == ("node-00",)
    pods = tuple(
        replace(pod, is_draining=pod.name in told["elastic"].leaving) for pod in elastic.pods
    )
    jobs = [replace(job, admission=told[job.uid]) for job in jobs]
    jobs[0] = replace(jobs[0], pods=pods)
    assert decide_on(make_nodes(1), jobs, now=NOW + MINUTE) == {}


def test_steps_of_several_with_a_port_each_come_together_where_nothing_is_kept() -> None:
    """One step is not worth a growth: of those that are to come, each is alone on its node."""
    sizes = tuple(range(24, 41, 2))
    fixed = make_job("gang", 24, 40, worker=WITH_PORT, sizes=sizes)
    nodes = make_nodes(40)
    running = run_on(fixed, *[node.name for node in nodes[:24]])
    assert decide_on(nodes, [running])["gang"].workers == 40
    assert decide_on(nodes, [fixed])["gang"].workers == 40


def test_nobody_goes_where_others_have_the_port() -> None:
    nodes = tuple(replace(node, ports=(TAKEN,)) for node in make_nodes(2))
    gang = make_job("gang", 1, 1, worker=WITH_PORT, priority=1)
    waits = replace(gang, admission=Admission(0, queue="main", queued_at=NOW, unfit_since=0))
    told = decide_on(
        nodes, [run_on(make_job("elastic", 1, 8), *["node-00"] * 4, *["node-01"] * 4), waits]
    )
    assert "elastic" not in told
    assert told["gang"].reserved == ()


# ---------------------------------------------------------------- who can never start


def wait_beside(nodes: tuple[Node, ...], gang: Job) -> tuple[dict[str, Admission], dict[str, str]]:
    """A gang that has waited for an hour, and a small one that comes: what they are told."""
    since = NOW - 60 * MINUTE
    told = Admission(queue="main", queued_at=since, unfit_since=since, reason=Reason.NO_ROOM)
    decision = decide(Cluster(nodes), MAIN, [replace(gang, admission=told), make_job("new")], NOW)
    texts = {uid: one.message for uid, one in decision.explanations.items()}
    return {change.uid: change.admission for change in decision.changes}, texts


def test_who_would_have_no_node_for_its_launcher_without_jobs_holds_nothing() -> None:
    """The port of its launcher is a DaemonSet's on all nodes."""
    nodes = tuple(replace(node, ports=(TAKEN,)) for node in make_nodes(2))
    gang = make_job("gang", 16, 16, launcher=replace(NOTHING, host_ports=TAKEN))
    told, texts = wait_beside(nodes, gang)
    assert told["new"].reason is Reason.STARTED
    assert "gang" not in told, "it holds nothing"
    assert texts["gang"].endswith(
        "; pods of others leave no node for its launcher, and have TCP/80"
    )


def test_who_would_have_too_few_nodes_without_jobs_holds_nothing() -> None:
    """A launcher as large as a node, and others have a little of each."""
    nodes = tuple(replace(node, taken={CPU: 100}) for node in make_nodes(4))
    gang = make_job("gang", 24, 24, launcher=cpus(8))
    told, texts = wait_beside(nodes, gang)
    assert told["new"].reason is Reason.STARTED
    assert "gang" not in told
    assert texts["gang"].endswith("; pods of others leave no node for its launcher")


def test_where_its_launcher_has_the_port_of_its_workers_it_needs_a_node_more() -> None:
    gang = make_job("gang", 2, 2, worker=WITH_PORT, launcher=WITH_PORT)
    told, _ = wait_beside(make_nodes(2), gang)
    assert told["gang"].reason is Reason.TOO_LARGE
    assert told["gang"].reserved == ()
    assert wait_beside(make_nodes(3), gang)[0]["gang"].reason is Reason.STARTED


# ---------------------------------------------------------------- many nodes, many ports


def test_each_node_that_is_taken_costs_the_same_however_many_others_have_the_ports() -> None:
    worker = replace(cpus(1), host_ports=frozenset(f"TCP/{port}" for port in range(8)))

    def count(nodes: int) -> int:
        job = make_job("job", 1, nodes, worker=worker)
        return count_steps(lambda: decide(Cluster(make_nodes(nodes)), MAIN, [job], NOW))

    count(2)  # what is done once
    few, many = count(50), count(100)
    assert many < 2.5 * few


def test_what_fits_is_counted_again_where_only_a_port_comes_and_its_room_is_held() -> None:
    other = cpus(1)
    small = replace(NOTHING, host_ports=TAKEN)
    room = Room(make_nodes(1, 1), [WITH_PORT, other, small])
    room.take((0,), (1,), WITH_PORT)
    room.expect((0,), (1,), WITH_PORT)
    room.hold((0,), (1,), other)
    assert room.count_fits(small, later=True).tolist() == [1]
    with room.without_coming():
        assert room.count_fits(small, later=True).tolist() == [0]
    assert room.count_fits(small, later=True).tolist() == [1]


@pytest.mark.long
def test_a_port_more_costs_its_kind_once_and_not_each_pod_or_node() -> None:
    """Hundreds of ports are written as easily as one."""

    def count(ports: int) -> int:
        worker = replace(cpus(1), host_ports=frozenset(f"TCP/{port}" for port in range(ports)))
        nodes = make_nodes(40)
        runs = run_on(make_job("runs", 1, 40, worker=worker), *[node.name for node in nodes])
        waits = [make_job(f"w-{i}", 20, 20, worker=worker) for i in range(3)]
        return count_steps(lambda: decide(Cluster(nodes), MAIN, [runs, *waits], NOW))

    count(2)  # what is done once
    few, many = count(2), count(202)
    assert many - few < 200 * 100


def test_ports_of_others_cost_nothing_that_nobody_asks_for() -> None:
    gang = make_job("gang", 2, 2, worker=WITH_PORT)

    def count(ports: int) -> int:
        others = frozenset(f"TCP/{80 + port}" for port in range(ports))
        nodes = tuple(replace(node, ports=(others,)) for node in make_nodes(4))
        return count_steps(lambda: decide(Cluster(nodes), MAIN, [gang], NOW))

    count(1)  # what is done once
    assert count(1000) - count(1) < 500, "4,000 ports are looked at, not asked about"


def test_kinds_that_share_a_port_keep_each_other_off() -> None:
    """However many kinds there are: more than a few are looked up another way."""
    kinds = [
        replace(cpus(1), host_ports=frozenset({"TCP/80", f"TCP/{81 + kind}"})) for kind in range(9)
    ]
    alone = replace(cpus(1), host_ports=frozenset({"TCP/80"}))
    room = Room(make_nodes(12), [alone, *kinds])
    for place, kind in enumerate(kinds):
        room.take((place,), (1,), kind)
        assert room.count_fits(alone).tolist() == [0] * (place + 1) + [1] * (11 - place)
    assert Room.copy(room).count_fits(kinds[0], later=True).tolist() == [0] * 9 + [1] * 3
    room.expect((4,), (1,), kinds[4])
    assert room.count_fits(alone, later=True).tolist() == [0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 1, 1]
    assert room.list_taken_ports(5, kinds[4]) == {"TCP/80"}
