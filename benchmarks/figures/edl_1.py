"""EDL's first experiment: twenty jobs, one after the other, on a cluster of 133 nodes.

Needs simulated nodes. Played with et-scheduler, then without a queue, and compared with the
simulator; brokers are a stand-in (brokers.py), and nothing trains.
"""

from __future__ import annotations

from benchmarks import quotes
from benchmarks.benches import Bench, Site
from benchmarks.experiments import have_nodes, measure_bare, run_experiment
from benchmarks.findings import Figure, Finding, Goal, Place, Series, Side
from benchmarks.lives import Kind
from benchmarks.shares import REST_NOTE, Shares, compare, draw_use, measure_delay, tabulate
from et_scheduler.simulating.cases import run_case_1
from et_scheduler.simulating.measures import compute_jain, mean
from et_scheduler.simulating.policies import POLICIES

JOBS, GAP, REST = 20, 10.0, 300.0
"""How many, how many seconds apart, and how long the cluster has after the last."""
OFF, OFF_REST = 60, 20.0
"""Trainers of each job where EDL was off; after the last of them nothing changes for long."""
FREEDOM_NOTE = "If companions could be moved too, 98.7 % of all CPU could be requested."
WAIT, FAIRNESS, ENDED, USE = 3.0, 0.95, 420.0, 0.98


async def measure(bench: Bench) -> Finding:
    """With et-scheduler, then without, then in the simulator."""
    site = bench.get_site()
    async with have_nodes(site):
        bare = await measure_bare(site)
        ours = await run_case(site)
        off = await run_case(site, size=OFF)
    return conclude(ours, off, bare)


async def run_case(site: Site, *, size: int = 0) -> Shares:
    """All of it once; with `size` each job has so many trainers, or waits for them."""
    async with run_experiment(site, "edl-1", size=size) as experiment:
        experiment.begin()
        for number in range(JOBS):
            await experiment.wait_until(number * GAP)
            await experiment.submit()
        until = (JOBS - 1) * GAP + (OFF_REST if size else REST)
        await experiment.wait_until(until)
    return Shares(experiment.lives, experiment.jobs, until)


def conclude(ours: Shares, off: Shares, bare: tuple[float, ...]) -> Finding:
    """What the two runs say, and the simulator."""
    rest, rest_off = ours.look(ours.until), off.look(off.until)
    firsts, gangs = ours.list_firsts(), ours.list_gangs()
    ended = ours.list_ended(is_preempted=False)
    simulated = run_case_1(POLICIES[0], drains=False, delay=measure_delay(gangs)).rests
    whole = sum(size == OFF for size in rest_off.sizes)
    note = (
        f"Without a queue {off.count_started()} of {JOBS} jobs had a launcher and two trainers, "
        f"and {whole} had all {OFF}. That is what was measured where EDL was off: jobs of {OFF} "
        "that start with whatever finds a node."
    )
    return Finding(
        series=(
            Series("created to first trainer on a node", "s", tuple(firsts)),
            Series("created to launcher and 2 trainers on nodes", "s", tuple(gangs)),
            Series("the same pods by a script, nothing else going on", "s", bare, Side.BARE),
            Series(
                "created to first trainer, jobs of 60", "s", tuple(off.list_firsts()), Side.BARE
            ),
            Series("trainers of a job after 300 s", "", rest.sizes),
            Series("trainers of a job at the end, jobs of 60", "", rest_off.sizes, Side.BARE),
            Series("CPU requested after 300 s", "%", (100 * rest.use,)),
            Series("the most that there is room for then", "%", (100 * rest.bound,), Side.BARE),
            Series("CPU requested at the end, jobs of 60", "%", (100 * rest_off.use,), Side.BARE),
            Series("a companion without a node", "s", tuple(ours.list_waits(Kind.COMPANION))),
            Series(
                "EDL, mean of the pending times",
                "s",
                (quotes.EDL_1_PENDING,),
                Side.PEER,
                quotes.EDL,
            ),
            Series("EDL, where it was off", "s", (quotes.EDL_1_OFF,), Side.PEER, quotes.EDL),
        ),
        goals=(
            Goal("created to first trainer, mean", mean(firsts), WAIT, "s"),
            Goal("created to whole gang, mean", mean(gangs), WAIT, "s"),
            Goal("jobs that have started", ours.count_started(), JOBS, "", is_floor=True),
            Goal(
                "Jain's fairness after 300 s", compute_jain(rest.sizes), FAIRNESS, "", is_floor=True
            ),
            Goal("trainers that et-scheduler ended", len(ended), ENDED, ""),
            Goal("CPU requested, to the most", rest.use / rest.bound, USE, "x", is_floor=True),
            *compare([rest], simulated),
        ),
        tables=(tabulate(["300 s after the last job"], [rest], simulated),),
        charts=(
            ours.draw_trainers("edl-1-trainers", "EDL's first case: 20 jobs of 2 to 60 trainers"),
            off.draw_trainers("edl-1-off", "The same without a queue: 20 jobs of 60"),
            draw_use("edl-1-cpu", "EDL's first case: CPU requested on nodes", ours, off),
        ),
        notes=(note, FREEDOM_NOTE, REST_NOTE),
    )


FIGURE = Figure(
    title="EDL's first experiment",
    explanation=(
        "80 simulated nodes of 16 CPU and 53 of 20 (KWOK); the real API server, kube-scheduler, "
        "operator and et-scheduler, and a stand-in for the brokers, which lists a worker at once "
        "and closes at once who drains. 20 jobs of 2 to 60 trainers of 5 CPU and 8 GiB, one each "
        "10 s, each with a ReplicaSet of 10 companions of 4 CPU and 5 GiB; then 300 s. Beside it "
        "the same without a queue, 60 trainers a job and then 20 s, and et-scheduler's simulator."
    ),
    measure=measure,
    place=Place.SIMULATED,
)
