"""Room that is kept for pods of others: nobody has it but these, and it is made again."""

from __future__ import annotations

from dataclasses import replace

import pytest

from et_scheduler.cli import main, read_settings
from et_scheduler.codec.headroom import read_headroom
from et_scheduler.model.cluster import Cluster, Headroom, Node, PendingPod
from et_scheduler.model.jobs import Admission, Job
from et_scheduler.model.reasons import Reason
from et_scheduler.model.rules import Rules
from et_scheduler.model.shapes import CPU, HOUR, MEMORY, MINUTE, SECOND, make_shape
from et_scheduler.planning.passing import decide
from et_scheduler.simulating.cases import run_case_2
from et_scheduler.simulating.policies import POLICIES
from et_scheduler.simulating.simulation import Simulation
from tests.unit.scheduler.makers import (
    LONG_AGO,
    MAIN,
    NOW,
    cpus,
    decide_on,
    make_job,
    make_node,
    make_nodes,
    make_simulation,
    run_on,
)
from tests.unit.scheduler.rigs import SchedulerRig, make_held

NODE = make_node("node-00", 8)
GPU = "nvidia.com/gpu"


def pass_over(
    headroom: Headroom, *jobs: Job, nodes: tuple[Node, ...] = (NODE,), pending: int = 0
) -> dict[str, Admission]:
    pods = tuple(PendingPod(f"s{i}", cpus(1), 0, NOW) for i in range(pending))
    decision = decide(Cluster(nodes, pods, headroom), MAIN, jobs, NOW)
    return {change.uid: change.admission for change in decision.changes}


def test_nobody_grows_into_it() -> None:
    job = run_on(make_job("a", 1, 8), "node-00", "node-00")
    assert pass_over(Headroom(cpus(3), 1), job)["a"].workers == 5


def test_the_last_room_beside_it_holds_no_job_off_nodes_that_are_empty() -> None:
    nodes = tuple(make_node(f"node-{number:02}", 64) for number in range(4))
    job = make_job("a", 2, 200, sizes=tuple(range(2, 201, 2)))
    job = run_on(job, *["node-00"] * 40)
    assert pass_over(Headroom(cpus(3), 7), job, nodes=nodes)["a"].workers == 200


@pytest.mark.parametrize(("pods", "reason"), [(4, Reason.STARTED), (5, Reason.NO_ROOM)])
def test_nobody_starts_in_it(pods: int, reason: Reason) -> None:
    assert pass_over(Headroom(cpus(1), pods), make_job("a", 4, 4))["a"].reason is reason


@pytest.mark.parametrize(
    ("least", "left"), [pytest.param(1, 5, id="all of it"), pytest.param(7, 7, id="their least")]
)
def test_workers_leave_where_others_have_taken_it(least: int, left: int) -> None:
    job = run_on(make_job("a", least, 8, priority=1000), *["node-00"] * 8)
    told = pass_over(Headroom(cpus(1), 3), job)["a"]
    assert (told.workers, len(told.leaving)) == (left, 8 - left)


def test_pods_that_wait_have_theirs_first_and_it_is_made_again() -> None:
    job = run_on(make_job("a", 1, 8), *["node-00"] * 6)
    assert pass_over(Headroom(cpus(1), 2), job) == {}
    assert pass_over(Headroom(cpus(1), 2), job, pending=2)["a"].workers == 4


def test_it_is_whole_places_for_pods_not_crumbs() -> None:
    """Two nodes have a CPU each left: a pod of two has no place."""
    nodes = make_nodes(2, 4)
    jobs = [
        run_on(make_job(name, 1, 4), *[node.name] * 3)
        for name, node in zip("ab", nodes, strict=True)
    ]
    told = pass_over(Headroom(cpus(2), 1), *jobs, nodes=nodes)
    assert sum(len(one.leaving) for one in told.values()) == 1


def test_a_step_of_several_comes_where_it_cannot_be_taken_back_for_it() -> None:
    """On two nodes kube-scheduler puts two of four where one has room beside what is kept."""
    nodes = (make_node("node-00", 8), make_node("node-01", 8, taken={CPU: 4000}))
    job = make_job("a", 4, 8, sizes=(4, 8), created=0)
    simulation = make_simulation(nodes, [job], MAIN)
    simulation.headroom = Headroom(cpus(3), 1)
    simulation.run(HOUR)
    [sim] = simulation.jobs.values()
    assert len(sim.list_workers()) == 8
    assert sim.ended_workers == 0


def test_a_step_of_several_does_not_come_where_it_would_be_taken_back_for_it() -> None:
    nodes = (make_node("node-00", 3), make_node("node-01", 3), make_node("node-02", 4))
    job = run_on(make_job("a", 4, 8, sizes=(4, 8)), *["node-02"] * 4)
    assert pass_over(Headroom(cpus(2), 1), job, nodes=nodes) == {}


def test_a_step_of_several_may_have_what_is_left_of_a_node_where_some_is_kept() -> None:
    """The tightest has room for one of them; beside what is kept on the other there is for all."""
    nodes = (make_node("node-00", 4), make_node("node-01", 11))
    job = run_on(make_job("a", 4, 8, sizes=(4, 8)), *["node-01"] * 4)
    told = pass_over(Headroom(cpus(3), 2), job, nodes=nodes)["a"]
    assert (told.workers, told.placement.only) == (8, ("node-01",))


def test_nor_does_a_single_worker_after_it_on_nodes_where_they_could_take_what_is_kept() -> None:
    """Three would be on one node, and one beside what is kept on another: that could get three."""
    nodes = (make_node("node-00", 3), make_node("node-01", 9), make_node("node-02", 4))
    job = run_on(make_job("a", 4, 8, sizes=(4, 7, 8)), *["node-02"] * 4)
    told = pass_over(Headroom(cpus(8), 1), job, nodes=nodes)["a"]
    assert (told.workers, told.placement.only) == (7, ("node-00",))


def make_level(sizes: tuple[int, ...], headroom: Headroom) -> Simulation:
    """Six nodes, room on each of them, a job that is there first and one with these sizes."""
    first = make_job("a", 1, 40, created=0)
    second = make_job("b", sizes[0], sizes[-1], sizes=sizes, created=MINUTE)
    simulation = make_simulation(make_nodes(6, 6), [first, second], MAIN)
    simulation.headroom = headroom
    simulation.run(HOUR)
    return simulation


def test_nobody_gives_to_be_level_with_one_that_cannot_take_its_step() -> None:
    """No node has four places beside what is kept, and it grows by five."""
    first, second = make_level((5, 10), Headroom(cpus(2), 6)).jobs.values()
    assert (len(first.list_workers()), first.ended_workers) == (19, 5)
    assert (len(second.list_workers()), second.ended_workers) == (5, 0)


def test_they_give_as_much_of_it_as_it_can_take() -> None:
    """The first step comes on one node, and not the second beside what is kept on another."""
    first, second = make_level((2, 6, 10), Headroom(cpus(2), 6)).jobs.values()
    assert (len(first.list_workers()), len(second.list_workers())) == (14, 10)
    assert first.ended_workers == 10
    assert second.ended_workers == 0


def test_a_cluster_without_nodes_keeps_nothing() -> None:
    assert pass_over(Headroom(cpus(3), 2), make_job("a"), nodes=())["a"].reason is Reason.TOO_LARGE


def test_it_is_kept_where_there_is_nothing_else_that_a_gang_could_need() -> None:
    nodes = (make_node("gpu", 32, more={GPU: 8}), make_node("plain", 96))
    gang = make_job("a", 1, 1, worker=make_shape({CPU: 28_000, GPU: 8}))
    assert pass_over(Headroom(cpus(3), 20), gang, nodes=nodes)["a"].reason is Reason.STARTED


@pytest.mark.parametrize("pods", [1, 5, 6])
def test_it_is_not_kept_where_others_have_left_for_a_gang(pods: int) -> None:
    """Were it, the next would have to go, one in each pass."""
    full, free = ([f"{kind}-{n}" for n in range(5)] for kind in ("full", "room"))
    nodes = tuple(make_node(name, 4) for name in full)
    nodes += tuple(make_node(name, 8, taken={CPU: 5000}) for name in free)
    jobs = [run_on(make_job(name, 1, 1, 4), name) for name in full]
    jobs.append(make_job("gang", 1, 1, 4, priority=5))
    told = pass_over(Headroom(cpus(3), pods), *jobs, nodes=nodes)
    [gone] = [uid for uid, one in told.items() if one.evictions]
    jobs = [replace(job, admission=told.get(job.uid, job.admission)) for job in jobs]
    jobs = [replace(job, pods=(), is_waiting=True) if job.uid == gone else job for job in jobs]
    told = pass_over(Headroom(cpus(3), pods), *jobs, nodes=nodes)
    assert told["gang"].reason is Reason.STARTED
    assert not [uid for uid, one in told.items() if uid != gone and one.evictions]


@pytest.mark.long
def test_with_room_for_a_tide_its_pods_wait_for_no_drain() -> None:
    found = run_case_2(POLICIES[0], headroom=100).numbers
    assert found["services, max wait s"] <= 1
    assert found["5: 400, at its end, %"] >= 85


@pytest.mark.parametrize(
    ("seconds", "is_level"),
    [pytest.param(59, False, id="just started"), pytest.param(60, True, id="a while ago")],
)
def test_after_a_start_nobody_is_evened_out_for_a_while(seconds: int, *, is_level: bool) -> None:
    rich = run_on(make_job("rich", 1, 8), *["node-00"] * 7)
    since = NOW - seconds * SECOND
    poor = run_on(make_job("poor", 1, 8), "node-00", since=since)
    decision = decide(Cluster((NODE,)), MAIN, [rich, poor], NOW, Rules(level_quiet=MINUTE))
    assert bool(decision.changes) is is_level
    if not is_level:
        assert decision.wake_at == NOW + SECOND
    assert decide_on((NODE,), [rich, poor]), "by default they are at once"
    assert since > LONG_AGO


def test_it_is_written_as_pods_of_one_size() -> None:
    shape = make_shape({CPU: 3000, MEMORY: 3 * 2**30})
    assert read_headroom("20*cpu=3,memory=3Gi") == Headroom(shape, 20)
    assert read_headroom(" 1 * cpu=500m ") == Headroom(make_shape({CPU: 500}), 1)
    assert read_headroom("") is None


@pytest.mark.parametrize(
    "text",
    ["20", "0*cpu=1", "99999*cpu=1", "3*", "3*cpu", "3*cpu=x", "3*=1", "3*cpu=0", "-1*cpu=1"],
)
def test_what_is_no_headroom_is_refused_with_the_name_of_the_setting(
    text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main([f"--service-headroom={text}"])
    told = capsys.readouterr().err
    assert "SERVICE_HEADROOM" in told
    assert "20*cpu=3,memory=3Gi" in told


@pytest.mark.parametrize("text", ["", "-1", "3601", "1.5", "x", "99999999999"])
def test_what_is_no_quiet_time_is_refused_with_its_bounds(
    text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main([f"--level-quiet-seconds={text}"])
    told = capsys.readouterr().err
    assert "LEVEL_QUIET_SECONDS" in told
    assert "0 to 3600" in told


def test_both_are_settings() -> None:
    environ = {"SERVICE_HEADROOM": "1*cpu=1", "LEVEL_QUIET_SECONDS": "60"}
    found = read_settings([], environ)
    assert (found.service_headroom, found.level_quiet) == ("1*cpu=1", 60)
    found = read_settings([], {})
    assert (found.service_headroom, found.level_quiet) == ("", 0)


@pytest.mark.long
async def test_the_program_keeps_what_it_was_told_to(quiet_logs: None) -> None:
    rig = SchedulerRig(nodes=1, cpu=8, service_headroom="3*cpu=1", level_quiet=3600)
    rig.create(make_held("one", least=1, most=8))
    async with rig.running():
        await rig.advance(10)
        assert rig.count("one") == 5
        rig.create(make_held("two", least=1, most=8))
        await rig.advance(60)
        assert rig.count("one") == 4
        assert rig.count("two") == 1, "in the hour after a start nobody is evened out"
