"""The bound for what could be given: it refuses nobody who could be served, and most others."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from et_scheduler.model.cluster import Cluster, Node
from et_scheduler.model.jobs import Job
from et_scheduler.model.rules import Rules
from et_scheduler.planning.donors import Donors
from et_scheduler.planning.drafts import Draft
from et_scheduler.planning.fitting import Gang
from et_scheduler.planning.seating import book, seat_bound
from tests.unit.scheduler.makers import MAIN, NOW, cpus, make_job, make_nodes, run_on

NODES = make_nodes(2)
GROUP = ("main", 0)


def build_donors(*jobs: Job, nodes: tuple[Node, ...] = NODES) -> Donors:
    draft = Draft(Cluster(nodes), MAIN, jobs, NOW, Rules())
    seat_bound(draft)
    book(draft)
    return Donors(draft)


@pytest.fixture
def donors() -> Donors:
    """Two full nodes, of which two workers of one CPU may go, and one of two."""
    one = run_on(make_job("a", 6, 8), *["node-00"] * 8)
    two = run_on(make_job("b", 3, 4, 2), *["node-01"] * 4)
    return build_donors(one, two)


@pytest.mark.parametrize(("workers", "expected"), [(1, True), (2, True), (3, False), (8, False)])
def test_of_a_job_no_more_goes_than_it_has_above_its_least(
    donors: Donors, workers: int, expected: bool
) -> None:
    assert donors.may_fit(Gang(None, cpus(2), workers), None, [GROUP]) is expected


def test_where_it_may_not_be_does_not_count(donors: Donors) -> None:
    gang = Gang(None, cpus(2), 1)
    assert not donors.may_fit(gang, np.zeros(2, dtype=np.bool_), [GROUP])
    assert not donors.may_fit(gang, None, [])


def test_who_goes_as_a_whole_gives_all_that_he_has(donors: Donors) -> None:
    assert donors.may_fit(Gang(None, cpus(2), 8), None, [], [GROUP])
    assert not donors.may_fit(Gang(None, cpus(2), 9), None, [], [GROUP])


def test_amounts_beyond_all_measure_refuse_nobody() -> None:
    huge = make_nodes(2, 2**60)
    draft = Draft(Cluster(huge), MAIN, [make_job("a", 1, 1, 2**50)], NOW, Rules())
    book(draft)
    assert Donors(draft).may_fit(Gang(None, cpus(2**40), 2), None, [])


def test_workers_and_launcher_have_room_at_once_or_not_at_all() -> None:
    """Each alone would have some: the workers need all nodes, and the launcher one of them."""
    rigid = [run_on(make_job(f"r-{i}", 8, 8), *[f"node-0{i}"] * 8) for i in range(2)]
    donors = build_donors(*rigid)
    assert donors.may_fit(Gang(cpus(4), cpus(8), 1), None, [], [GROUP])
    assert not donors.may_fit(Gang(cpus(4), cpus(8), 2), None, [], [GROUP])
    assert donors.may_fit(Gang(cpus(4), cpus(4), 3), None, [], [GROUP])


def test_what_jobs_give_is_not_enough_for_workers_where_it_lacks_for_the_launcher(
    donors: Donors,
) -> None:
    assert donors.may_fit(Gang(None, cpus(2), 2), None, [GROUP])
    assert donors.may_fit(Gang(cpus(1), cpus(2), 1), None, [GROUP])
    assert not donors.may_fit(Gang(cpus(1), cpus(2), 2), None, [GROUP])


def test_a_port_is_once_on_each_node_and_never_where_others_have_it() -> None:
    worker = replace(cpus(1), host_ports=frozenset({"TCP/80"}))
    rigid = [run_on(make_job(f"r-{i}", 8, 8), *[f"node-0{i}"] * 8) for i in range(2)]
    donors = build_donors(*rigid, make_job("gang", 1, 1, worker=worker))
    assert donors.may_fit(Gang(None, worker, 2), None, [], [GROUP])
    assert not donors.may_fit(Gang(None, worker, 3), None, [], [GROUP])
    assert not donors.may_fit(Gang(worker, worker, 2), None, [], [GROUP])
    nodes = (replace(NODES[0], ports=(worker.host_ports,)), NODES[1])
    donors = build_donors(*rigid, make_job("gang", 1, 1, worker=worker), nodes=nodes)
    assert not donors.may_fit(Gang(None, worker, 2), None, [], [GROUP])
