"""The simulated experiments keep to the goals that were set for them."""

from __future__ import annotations

import pytest

from et_scheduler.model.shapes import HOUR, SECOND
from et_scheduler.simulating.cases import run_case_1, run_case_2
from et_scheduler.simulating.jobs import Work
from et_scheduler.simulating.measures import compute_jain
from et_scheduler.simulating.policies import POLICIES
from et_scheduler.simulating.progress import Curve
from et_scheduler.simulating.report import print_table
from tests.unit.scheduler.makers import MAIN, cpus, make_job, make_nodes, make_simulation

OURS, EDL, *_ = POLICIES


@pytest.mark.long
@pytest.mark.parametrize(
    ("drains", "wait", "ended"),
    [pytest.param(True, 30, 300, id="with drains"), pytest.param(False, 3, 420, id="at once")],
)
def test_twenty_jobs_share_what_there_is(drains: bool, wait: int, ended: int) -> None:
    found = run_case_1(OURS, drains=drains).numbers
    assert found["started"] == 20
    assert found["whole gang, mean s"] <= wait
    assert found["Jain"] >= 0.95
    assert found["trainers ended"] <= ended
    assert found["of the placed bound, %"] >= 98


@pytest.mark.long
def test_an_operator_that_is_slow_delays_a_gang_by_little_more() -> None:
    """Meanwhile others are bound to its nodes."""
    found = run_case_1(OURS, drains=False, delay=4000).numbers
    assert found["whole gang, mean s"] <= 8
    assert found["whole gang, max s"] <= 20


def test_what_a_job_was_told_before_its_end_makes_no_pods_after_it() -> None:
    """They would be there for good, and seen by nobody."""
    job = make_job("job", launcher=cpus(1), created=0)
    simulation = make_simulation(make_nodes(1), [], MAIN)
    simulation.delay = 20 * SECOND
    simulation.submit(Work(job, 0, steps=20_000.0))
    simulation.run(HOUR)
    [ended] = simulation.ended
    assert ended.pods == []


@pytest.mark.long
def test_edl_leaves_jobs_waiting_and_shares_badly() -> None:
    """Published: 17 of 20, and 0.39."""
    found = run_case_1(EDL).numbers
    assert 15 <= found["started"] <= 18
    assert 0.3 <= found["Jain"] <= 0.45


@pytest.mark.long
def test_jobs_fill_the_low_tide_and_leave_the_high_one() -> None:
    found = run_case_2(OURS).numbers
    assert found["2: 100, after 20 s, %"] >= 98
    assert found["services, max wait s"] <= 65


@pytest.mark.long
@pytest.mark.parametrize("delay", [0, 2000])
def test_a_tide_that_turns_slowly_leaves_nothing_idle(delay: int) -> None:
    """Nobody rests from a growth into the first room while the rest of it becomes free."""
    found = run_case_2(OURS, drains=False, delay=delay).numbers
    assert min(value for name, value in found.items() if "20 s" in name) >= 98
    assert min(value for name, value in found.items() if "its end" in name) >= 98
    assert found["services, max wait s"] <= 5


def test_more_workers_are_faster_and_less_efficient() -> None:
    curve = Curve()
    rates = [curve.get_rate(workers) for workers in (0, 1, 2, 8, 32)]
    assert rates == sorted(rates)
    assert rates[:2] == [0.0, 1.0]
    assert rates[-1] < 32


def test_fairness() -> None:
    assert compute_jain([5, 5, 5]) == pytest.approx(1)
    assert compute_jain([9, 0, 0]) == pytest.approx(1 / 3)
    assert not compute_jain([])


def test_a_table_has_goals_beside_figures(capsys: pytest.CaptureFixture[str]) -> None:
    print_table({"ours": {"wait": 1.0}, "edl": {"wait": 2.5}}, {"wait": "<= 2"})
    assert capsys.readouterr().out.splitlines()[1].split() == ["wait", "1.00", "2.50", "<=", "2"]
