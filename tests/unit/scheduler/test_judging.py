"""What a simulation says must hold in every pass is seen where it does not."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from et_scheduler.model.cluster import Cluster
from et_scheduler.model.decisions import Decision
from et_scheduler.model.jobs import Job
from et_scheduler.model.queues import Queue
from et_scheduler.model.shapes import MINUTE, SECOND
from et_scheduler.simulating.edl import decide_as_edl
from et_scheduler.simulating.jobs import Work
from et_scheduler.simulating.judging import BreachError, Judge
from et_scheduler.simulating.pods import SimPod
from et_scheduler.simulating.simulation import Simulation
from tests.unit.scheduler.makers import MAIN, cpus, make_job, make_nodes, make_simulation


def decide_again(
    cluster: Cluster, queues: Iterable[Queue], jobs: Iterable[Job], now: int
) -> Decision:
    """As EDL, and a pass each ten seconds: what goes on for too long is seen in one."""
    decision = decide_as_edl(cluster, queues, jobs, now)
    return replace(decision, wake_at=decision.wake_at or now + 10 * SECOND)


def make_judged(least: int, services: int = 0) -> Simulation:
    """Two nodes of 8 CPUs under a policy that starts whoever comes, with workers of 3."""
    simulation = make_simulation(make_nodes(2), [], MAIN)
    simulation.decide = decide_again
    simulation.add_services(services, cpus(3), 1)
    simulation.submit(Work(make_job("gang", least, least, worker=cpus(3)), 0))
    simulation.checks.append(Judge())
    return simulation


def test_a_gang_that_is_whole_breaks_nothing() -> None:
    simulation = make_judged(4)
    simulation.run(5 * MINUTE)
    assert len(simulation.jobs["gang"].list_workers()) == 4


def test_one_that_is_not_is_found_once_it_should_have_been_taken_back() -> None:
    simulation = make_judged(4, services=1)
    simulation.run(MINUTE)
    with pytest.raises(BreachError, match="gang trains with fewer workers than its least"):
        simulation.run(5 * MINUTE)


def test_more_than_there_is_is_given_to_nobody() -> None:
    with pytest.raises(BreachError, match="18000 cpu are given"):
        make_judged(6).run(MINUTE)


def test_a_node_has_no_more_on_it_than_it_has_room_for() -> None:
    simulation = make_judged(1)
    simulation.services += [SimPod(str(n), cpus(3), 0, place=1) for n in range(3)]
    with pytest.raises(BreachError, match="9000 cpu are taken on node-01"):
        simulation.run(MINUTE)
