"""Workloads as others have published them, in et-scheduler's simulator, under several policies.

No cluster and no time of this machine: the simulator alone, under its policies
(et_scheduler/simulating/policies.py). What is made of them is said in outcomes.py.
"""

from __future__ import annotations

import asyncio

from benchmarks.benches import Bench
from benchmarks.findings import Figure, Finding, Goal, Place
from benchmarks.outcomes import Outcomes, explain, judge, run_all, tabulate
from et_scheduler.simulating.policies import OURS
from et_scheduler.simulating.workloads import WORKLOADS

ELASTIC = ("gavel", "philly", "pollux")
RIGID = "rigid"
GPUS = 64
POINTLESS = frozenset({"edl", "fifo-min", "drf", "las", "afs"})
"""Where no job can have another size, and none is there for long."""
GANG = "largest gang, max wait min"
LONGEST_RUN, TWO_DRAINS = 30.0, 2.0
"""Minutes: of the jobs among which the large gang waits; of drains of up to 60 s."""
RULES_NOTE = (
    "By kube-batch's rules a job starts with its least size (minMember), is given more up to the "
    "size that was asked for, and keeps that; a gang that does not fit blocks all behind it. By "
    "DRF a job is given its size when it starts, and keeps it. EDL kills workers, and least "
    "attained service (LAS) whole jobs, and here no step is lost by that."
)
FAIRNESS_NOTE = (
    "Finish-time fairness: how long a job took, to the time with its part of the cluster to "
    "itself, one of as many parts as there were jobs while it was there. GPU-hours that were held "
    "are useful as far as one GPU alone would have needed them."
)


async def measure(bench: Bench) -> Finding:
    """Each workload under each policy, the same jobs for all of them."""
    del bench  # of this machine nothing is measured
    found = {
        name: await asyncio.to_thread(run_all, name, GPUS, POINTLESS if name == RIGID else ())
        for name in WORKLOADS
    }
    elastic = [(name, found[name]) for name in ELASTIC]
    return Finding(
        goals=(*(goal for one in elastic for goal in judge(*one)), judge_gang(found[RIGID])),
        tables=tuple(tabulate(name, outcomes) for name, outcomes in found.items()),
        notes=(*(note for one in elastic for note in explain(*one)), RULES_NOTE, FAIRNESS_NOTE),
    )


def judge_gang(outcomes: Outcomes) -> Goal:
    """A gang waits for those that run where it is to start, and for workers that leave."""
    text = f"{RIGID}: longest wait of a gang of half the nodes, the longest run and two drains"
    return Goal(text, outcomes[OURS.name][GANG], LONGEST_RUN + TWO_DRAINS, "min")


FIGURE = Figure(
    title="Published workloads",
    explanation=(
        f"Jobs like those of Gavel, Philly and Pollux on {GPUS} GPUs, and rigid jobs of one GPU "
        "with a gang of half the nodes among them, in et-scheduler's simulator: sizes, times and "
        "arrivals are drawn from what was published, with a fixed seed. Workers that leave take 5 "
        "to 60 s. Beside our planning EDL's loop, first in first out with the most and with the "
        "least workers, whoever fits, kube-batch's rules, and dominant resource fairness at the "
        "start of a job (DRF). Two more are no measure for it: least attained service (LAS) ends "
        "whole jobs for others, and AFS knows how fast each job would be with more workers. "
        "Simulated time, so that the machine does not matter."
    ),
    measure=measure,
    place=Place.NOTHING,
)
