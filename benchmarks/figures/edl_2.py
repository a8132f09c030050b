"""EDL's second experiment: six jobs beside a service that needs less, and then more again.

As edl_1.py, whose nodes and jobs it has: only what happens when, and what is read from it, is here.
"""

from __future__ import annotations

from statistics import median

from benchmarks import quotes
from benchmarks.benches import Bench, Site
from benchmarks.experiments import have_nodes, measure_bare, run_experiment
from benchmarks.findings import Figure, Finding, Goal, Place, Series, Side
from benchmarks.lives import Kind
from benchmarks.shares import REST_NOTE, SOON, Shares, compare, draw_use, measure_delay, tabulate
from et_scheduler.simulating.cases import TIDES, run_case_2
from et_scheduler.simulating.policies import POLICIES

JOBS, GAP = 6, 5.0
BEGIN, PHASE, LAST = 90.0, 90.0, 120.0
"""Seconds until the tide turns for the first time, between two turns, and after the last."""
PEAK = 400
OFF = 15
"""Trainers of each job where EDL was off."""
WAIT, USE = 3.0, 0.98
TURNS = tuple(BEGIN + number * PHASE for number in range(len(TIDES)))
UNTIL = TURNS[-1] + LAST
ENDS = (*TURNS[1:], UNTIL)
LOW = TIDES.index(min(TIDES))
OFF_UNTIL = ENDS[LOW]
"""What follows is what was before, the other way round."""


async def measure(bench: Bench) -> Finding:
    """With et-scheduler, then without, then in the simulator."""
    site = bench.get_site()
    async with have_nodes(site):
        bare = await measure_bare(site, PEAK - TIDES[0], samples=2)
        ours = await run_case(site)
        off = await run_case(site, size=OFF)
    return conclude(ours, off, bare)


async def run_case(site: Site, *, size: int = 0) -> Shares:
    """All of it once; with `size` each job has so many trainers, or waits for them."""
    async with run_experiment(site, "edl-2", size=size) as experiment:
        await experiment.open_tide(PEAK)
        experiment.begin()
        for number in range(JOBS):
            await experiment.wait_until(number * GAP)
            await experiment.submit()
        until = OFF_UNTIL if size else UNTIL
        for at, count in zip(TURNS, TIDES, strict=True):
            if at < until:
                await experiment.wait_until(at)
                await experiment.set_tide(count)
        await experiment.wait_until(until)
    return Shares(experiment.lives, experiment.jobs, until)


def conclude(ours: Shares, off: Shares, bare: tuple[float, ...]) -> Finding:
    """What the two runs say, and the simulator."""
    # Just before the tide turns: what it begins is not of this phase.
    rests = [ours.look(at - 1) for at in ENDS]
    soon = [ours.look(at + SOON) for at in TURNS]
    waits = [
        life.measure_wait(ours.until)
        for life in ours.lives.select(Kind.SERVICE)
        if life.created >= TURNS[0]
    ]
    filled = [rest.use / rest.bound for rest in soon]
    gangs = ours.list_gangs()
    delay = measure_delay(gangs)
    simulated = run_case_2(POLICIES[0], drains=False, delay=delay)
    titles = [f"{count} pods of services" for count in TIDES]
    ended, preempted = (len(ours.list_ended(is_preempted=flag)) for flag in (False, True))
    note = (
        f"{ended} trainers left because et-scheduler told them to, {preempted} because "
        "kube-scheduler preempted them: pods of the service are of a higher priority, and it does "
        "not wait for a drain."
    )
    longest = simulated.numbers["services, max wait s"]
    cause = (
        f"In the simulator, where a worker comes and goes {delay / 1000:.1f} s after it was asked "
        "for, as here, and nothing else takes time, the longest that a pod of the service has no "
        f"node is {longest:.1f} s. The rest is the API server and kube-scheduler, on cores that "
        f"carry all of the cluster: they need {median(bare):.1f} s for {PEAK - TIDES[0]} bare "
        "pods when nothing else goes on."
    )
    return Finding(
        series=(
            Series("a pod of the service without a node", "s", tuple(waits)),
            Series("100 pods by a script, nothing else going on", "s", bare, Side.BARE),
            Series("created to launcher and 2 trainers on nodes", "s", tuple(gangs)),
            Series(
                "CPU to the most, 20 s after each turn", "%", tuple(100 * one for one in filled)
            ),
            Series("CPU requested at low tide", "%", (100 * rests[LOW].use,)),
            Series(
                "the most that there is room for then", "%", (100 * rests[LOW].bound,), Side.BARE
            ),
            Series(
                "CPU requested at low tide, jobs of 15",
                "%",
                (100 * off.look(OFF_UNTIL - 1).use,),
                Side.BARE,
            ),
            Series("EDL, CPU at low tide", "%", (quotes.EDL_2_LOW_TIDE,), Side.PEER, quotes.EDL),
            Series("EDL, where it was off", "%", (quotes.EDL_2_OFF,), Side.PEER, quotes.EDL),
            Series(
                "EDL, pending time of jobs", "s", (quotes.EDL_2_PENDING,), Side.PEER, quotes.EDL
            ),
        ),
        goals=(
            Goal("the longest that a pod of the service had no node", max(waits), WAIT, "s"),
            Goal(
                "CPU to the most at low tide, 20 s after it", filled[LOW], USE, "x", is_floor=True
            ),
            Goal("CPU to the most 20 s after the worst turn", min(filled), USE, "x", is_floor=True),
            *compare(rests, simulated.rests),
        ),
        tables=(tabulate(titles, rests, simulated.rests),),
        charts=(
            ours.draw_trainers("edl-2-trainers", "EDL's second case: 6 jobs of 2 to 60 trainers"),
            off.draw_trainers("edl-2-off", "The same without a queue: 6 jobs of 15"),
            draw_use("edl-2-cpu", "EDL's second case: CPU requested on nodes", ours, off),
        ),
        notes=(note, cause, REST_NOTE),
    )


FIGURE = Figure(
    title="EDL's second experiment",
    explanation=(
        "The nodes and jobs of edl-1, six of them, one each 5 s, beside a ReplicaSet of 400 pods "
        "of 3 CPU and 3 GiB of a higher priority. After 90 s it has 300 pods, then 200, 100, 200, "
        "300 and 400, 90 s each, the last 120 s. Beside it the same jobs without a queue, of 15 "
        "trainers each, until the tide turns again, and et-scheduler's own simulator."
    ),
    measure=measure,
    place=Place.SIMULATED,
)
