"""Seconds without a step after a worker was lost, with what ends a broken ring and without.

Needs the image that trains. The ways to lose one are strikes.py's, steps and what they tell
trainings.py's, the picture is progress.py's; two nodes, one of which is cut off for a while.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from benchmarks.benches import Bench, Site
from benchmarks.findings import Figure, Finding, Goal, Line, Place, Series, Side, Table
from benchmarks.namespaces import make_namespace
from benchmarks.operators import find_node
from benchmarks.progress import AFTER, BEFORE, build_chart, follow_loss
from benchmarks.spreads import measure_spread
from benchmarks.strikes import (
    Strike,
    cut,
    exhaust_memory,
    kill_rank,
    kill_shim,
    kill_worker,
    lose_one,
    wait_until_gone,
    wait_until_ready,
)
from benchmarks.trainings import (
    PATIENCE,
    STEADY,
    WORKERS,
    JobEnded,
    Loss,
    build_training,
    run_training,
)

LOSSES = 10
OTHERS = 10
CUTS = 3
WAITS = 2
LOSSES_A_JOB = 5
"""A replacement waits longer with each loss of a job: more of them only make the run longer."""
WAIT_SECONDS = 30
"""Gloo's time-out in the jobs that wait; in the others it is that of horovodrun of ours, 120 s."""
MEDIAN, MOST = 4.0, 12.0
MEMORY = "768Mi"
"""Of each worker, where memory is what is to be missing; a rank takes a third."""
WAY = (
    "A rank that is killed alone is told of by its worker's agent, at once. Where the agent goes "
    "with it, nothing is concluded before the kubelet has seen the container's end and the "
    "operator has called the worker gone: the difference of the two medians is that way. It is "
    "programs of the kubelet, containerd, the operator and Horovod on the cores that also train, "
    "so it is as long as the machine is slow."
)
HOSTNAME = "kubernetes.io/hostname"
LEAVE_SOON = [
    {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 2}
    for key in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
]
SPREAD = {
    "maxSkew": 1,
    "topologyKey": HOSTNAME,
    "whenUnsatisfiable": "ScheduleAnyway",
    "labelSelector": {"matchLabels": {"training-job-role": "worker"}},
}


@dataclass(frozen=True, slots=True)
class Kind:
    """One way to lose a worker or a part of one, and how often it is lost so."""

    name: str
    label: str
    losses: int
    strike: Strike
    slots: int = 1
    wait_seconds: int | None = None
    memory: str = ""

    def build(self, number: int) -> dict[str, Any]:
        """The job that loses some, the number-th of its kind."""
        name = f"{self.name}-{number}"
        job = build_training(name, slots=self.slots, wait_seconds=self.wait_seconds)
        if self.memory:
            template = job["spec"]["etReplicaSpecs"]["worker"]["template"]
            limits = {"limits": {"memory": self.memory}}
            template["spec"]["containers"][0]["resources"] = limits
        return job


KINDS = (
    Kind("worker", "PID 1 killed", LOSSES, kill_worker),
    Kind("shim", "containerd-shim killed", OTHERS, kill_shim),
    Kind("memory", "out of memory", OTHERS, exhaust_memory, memory=MEMORY),
    Kind("rank", "one rank of two killed, 3 x 2 ranks", OTHERS, kill_rank, slots=2),
    Kind("pair", "PID 1 killed, 3 x 2 ranks", OTHERS, kill_worker, slots=2),
)
WAITED = f"lossRecovery Wait, time-out {WAIT_SECONDS} s"
CUT = "node cut off, from its worker's being called gone"
WAITING = tuple(
    replace(kind, name=f"wait-{kind.name}", losses=WAITS, wait_seconds=WAIT_SECONDS)
    for kind in KINDS
)
DRAWN = (KINDS[0], KINDS[1], WAITING[1])
"""What is in the picture, one more loss of each: more lines nobody tells apart."""


@dataclass(slots=True)
class Losses:
    """What was found: by label what each loss cost, and which of them were the end of a job."""

    by_label: dict[str, list[Loss]] = field(default_factory=dict)
    ended: list[str] = field(default_factory=list)


async def measure(bench: Bench) -> Finding:
    """The jobs that go on at once, then those that wait, then those that are drawn."""
    site, fast, waited = bench.get_site(), Losses(), Losses()
    async with make_namespace(site, "ring") as namespace:
        for kinds, found in ((KINDS, fast), (WAITING, waited)):
            for kind in kinds:
                await lose(site, namespace, kind, bench.count_samples(kind.losses), found)
        for number in range(bench.count_samples(CUTS)):
            await lose_node(site, namespace, build_training(f"cut-{number}"), fast)
        for number in range(bench.count_samples(WAITS)):
            job = build_training(f"wait-cut-{number}", wait_seconds=WAIT_SECONDS)
            await lose_node(site, namespace, job, waited)
        lines = [
            Line(name_line(kind), points)
            for kind in DRAWN
            if (points := await draw(site, namespace, kind, fast if kind in KINDS else waited))
        ]
    return describe(fast, waited, lines)


async def lose(site: Site, namespace: str, kind: Kind, count: int, found: Losses) -> None:
    """So many losses of a kind, some a job, one after the other; a job's end is one as well."""
    losses = found.by_label.setdefault(kind.label, [])
    ends, number = len(found.ended), 0
    while (done := len(losses) + len(found.ended) - ends) < count:
        asked, manifest = min(LOSSES_A_JOB, count - done), kind.build(number)
        number += 1
        async with run_training(site, namespace, manifest, WORKERS * kind.slots) as job:
            try:
                await job.wait_until_steady(0.0)
                for turn in range(asked):
                    losses.append(await lose_one(job, kind.strike, turn))
            except JobEnded as end:
                found.ended.append(str(end))


async def lose_node(site: Site, namespace: str, job: dict[str, Any], found: Losses) -> None:
    """One job loses the node that its launcher is not on; counted from when a worker is gone."""
    losses = found.by_label.setdefault(CUT, [])
    template = job["spec"]["etReplicaSpecs"]["worker"]["template"]["spec"]
    template |= {"topologySpreadConstraints": [SPREAD], "tolerations": LEAVE_SOON}
    home = await find_node(site)  # never cut off: what decides is there
    launcher = job["spec"]["etReplicaSpecs"]["launcher"]["template"]["spec"]
    launcher["nodeSelector"] = {HOSTNAME: home}
    async with run_training(site, namespace, job) as training:
        try:
            await training.wait_until_steady(0.0)
            workers = await training.list_workers()
            away = [pod for pod in workers if pod["spec"]["nodeName"] != home]
            with cut(site.cluster, away[0]["spec"]["nodeName"]):
                gone = await wait_until_gone(training, away[0])
                loss = await training.wait_for_loss(gone)
            await wait_until_ready(training, away[0]["spec"]["nodeName"])
            meant = {pod["metadata"]["name"] for pod in away}
            losses.append(replace(loss, beside=await training.count_beside(workers, meant)))
        except JobEnded as end:
            found.ended.append(str(end))


async def draw(
    site: Site, namespace: str, kind: Kind, found: Losses
) -> tuple[tuple[float, float], ...]:
    """The points of one more loss of a kind; none where it was the end of its job."""
    try:
        return await follow_loss(site, namespace, kind.build(0), kind.strike)
    except JobEnded as end:
        found.ended.append(str(end))
        return ()


def name_line(kind: Kind) -> str:
    """What a line of the picture is called."""
    return kind.label if kind in KINDS else f"{kind.label}, {WAITED}"


def describe(fast: Losses, waited: Losses, lines: Sequence[Line] = ()) -> Finding:
    """What the losses cost, and which of them a job did not live through."""
    costs, waits = list_costs(fast), list_costs(waited)
    everything = [loss for losses in fast.by_label.values() for loss in losses]
    repeated = max((loss.repeated for loss in everything), default=0)
    count = len(fast.ended)
    lived = f"{count} losses ended a job or its launcher" + "".join(f"; {e}" for e in fast.ended)
    also = "".join(f" With {WAITED}: {end}." for end in waited.ended)
    goals = [
        goal
        for label, seconds in costs.items()
        for goal in (
            Goal(f"{label}, median", measure_spread(seconds).median, MEDIAN, "s"),
            Goal(f"{label}, longest", max(seconds), MOST, "s"),
        )
    ]
    return Finding(
        charts=(build_chart(lines),) if lines else (),
        series=(
            *(Series(f"without a step, {label}", "s", seconds) for label, seconds in costs.items()),
            *(
                Series(f"without a step, {WAITED}, {label}", "s", seconds, Side.BARE)
                for label, seconds in waits.items()
            ),
        ),
        goals=(*goals, Goal("losses that ended a job or its launcher", count, 0, "")),
        tables=(count_beside(fast, waited),),
        notes=(f"{lived}. At most {repeated} steps were trained again.{also}", WAY),
    )


def count_beside(fast: Losses, waited: Losses) -> Table:
    """Of each kind, how many hosts went that nothing was done to: Horovod gave them up as well."""
    waits = {f"{WAITED}, {label}": losses for label, losses in waited.by_label.items()}
    rows = tuple(
        (label, str(len(losses)), str(sum(loss.beside for loss in losses)))
        for label, losses in (fast.by_label | waits).items()
    )
    return Table("Hosts lost beside the first", ("what", "losses", "hosts beside"), rows)


def list_costs(found: Losses) -> dict[str, tuple[float, ...]]:
    """By label the seconds without a step."""
    by_label = found.by_label.items()
    return {label: tuple(loss.seconds for loss in losses) for label, losses in by_label if losses}


FIGURE = Figure(
    title="A worker that is lost in the middle of a step",
    explanation=(
        f"Horovod and PyTorch on {WORKERS} workers of 2 real nodes whose steps are an allreduce of "
        "8 MB each and nothing else. Something is taken from one worker, from outside, at most "
        f"{LOSSES_A_JOB} times in each job and when all have trained again for {STEADY} steps: "
        "PID 1, and all of its container with it; its containerd-shim, of which the others' "
        "kernels hear nothing; its memory, which its rank takes until the kernel ends it (from "
        "when it begins to); one of its two ranks. And its node: its cable is pulled, and it "
        "counts from when the launcher is told that the worker is gone (what comes before is the "
        "cluster's own time, until it calls a node lost). Seconds to the next step, by the "
        "training's own clock, whether the one that takes the lost one's place is in it or not. "
        "Beside it the same with `lossRecovery: Wait`, where nothing of ours is in the ranks, and "
        f"a time-out of {WAIT_SECONDS} s instead of 120: a ring on which nobody happened to wait "
        "goes on without. A host is lost beside the first where Horovod gives it up though nothing "
        "was done to it. The picture has one more loss of three kinds, each in a job of its own, "
        f"from {BEFORE:.0f} s before to {AFTER:.0f} s after; who trains no step for "
        f"{PATIENCE:.0f} s ends the measurement."
    ),
    measure=measure,
    place=Place.TRAINING,
)
