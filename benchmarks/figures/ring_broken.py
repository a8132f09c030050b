"""Seconds without a step after a worker was lost, with what ends a broken ring and without.

Needs the image that trains. The ways to lose one are strikes.py's, steps and what they tell
trainings.py's; two nodes, one of which is cut off for a while.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from benchmarks.benches import Bench, Site
from benchmarks.findings import Chart, Figure, Finding, Goal, Line, Place, Series, Side
from benchmarks.namespaces import make_namespace
from benchmarks.operators import find_node
from benchmarks.spreads import measure_spread
from benchmarks.strikes import (
    Strike,
    cut,
    exhaust_memory,
    kill_rank,
    kill_shim,
    kill_worker,
    wait_until_gone,
    wait_until_ready,
)
from benchmarks.trainings import (
    PATIENCE,
    SHOWN,
    STEADY,
    WORKERS,
    JobEnded,
    Loss,
    Training,
    build_training,
    find_progress,
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
DRAWN = {"PID 1 killed", "containerd-shim killed"}
DRAWN_WAIT = "PID 1 killed"
"""What is in the picture: more lines nobody tells apart."""
WAITED = f"lossRecovery Wait, time-out {WAIT_SECONDS} s"
CUT = "node cut off, from its worker's being called gone"
WAITING = tuple(
    replace(kind, name=f"wait-{kind.name}", losses=WAITS, wait_seconds=WAIT_SECONDS)
    for kind in KINDS
)


@dataclass(slots=True)
class Losses:
    """What was found: by label what each loss cost, and which of them were the end of a job."""

    by_label: dict[str, list[Loss]] = field(default_factory=dict)
    ended: list[str] = field(default_factory=list)


async def measure(bench: Bench) -> Finding:
    """The jobs that go on at once, then those that wait."""
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
    return describe(fast, waited)


async def lose(site: Site, namespace: str, kind: Kind, count: int, found: Losses) -> None:
    """So many losses of a kind, some a job, one after the other; a job's end is one as well."""
    losses = found.by_label.setdefault(kind.label, [])
    ends, number = len(found.ended), 0
    while (done := len(losses) + len(found.ended) - ends) < count:
        asked, manifest = min(LOSSES_A_JOB, count - done), kind.build(number)
        number += 1
        async with run_training(site, namespace, manifest, WORKERS * kind.slots) as job:

            async def strike(number: int, job: Training = job) -> float:
                workers = await job.list_workers()
                uid = str(workers[number % len(workers)]["metadata"]["uid"])
                struck = site.clock.now().timestamp()
                kind.strike(site.cluster, uid)
                return struck

            await train(job, asked, strike, losses, found)


async def train(
    job: Training,
    count: int,
    strike: Callable[[int], Awaitable[float]],
    losses: list[Loss],
    found: Losses,
) -> None:
    """So many losses of one job, each when all of its ranks train."""
    try:
        await job.wait_until_steady(0.0)
        for number in range(count):
            struck = await strike(number)
            losses.append(await job.wait_for_loss(struck))
            await job.wait_until_steady(job.site.clock.now().timestamp())
            progress = find_progress(await job.read_steps(), struck)
            losses[-1] = replace(losses[-1], progress=progress)
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
                losses.append(await training.wait_for_loss(gone))
            await wait_until_ready(training, away[0]["spec"]["nodeName"])
            await training.wait_until_steady(site.clock.now().timestamp())
            progress = find_progress(await training.read_steps(), gone)
            losses[-1] = replace(losses[-1], progress=progress)
        except JobEnded as end:
            found.ended.append(str(end))


def describe(fast: Losses, waited: Losses) -> Finding:
    """What the losses cost, and which of them a job did not live through."""
    costs, waits = list_costs(fast), list_costs(waited)
    everything = [loss for losses in fast.by_label.values() for loss in losses]
    repeated = max((loss.repeated for loss in everything), default=0)
    count = len(fast.ended)
    lived = f"{count} losses ended a job or its launcher" + "".join(f"; {e}" for e in fast.ended)
    also = "".join(f" With {WAITED}: {end}." for end in waited.ended)
    drawn = {label: losses for label, losses in fast.by_label.items() if label in DRAWN}
    drawn[WAITED] = waited.by_label.get(DRAWN_WAIT, [])
    goals = [
        goal
        for label, seconds in costs.items()
        for goal in (
            Goal(f"{label}, median", measure_spread(seconds).median, MEDIAN, "s"),
            Goal(f"{label}, longest", max(seconds), MOST, "s"),
        )
    ]
    return Finding(
        charts=draw_progress(drawn),
        series=(
            *(Series(f"without a step, {label}", "s", seconds) for label, seconds in costs.items()),
            *(
                Series(f"without a step, {WAITED}, {label}", "s", seconds, Side.BARE)
                for label, seconds in waits.items()
            ),
        ),
        goals=(*goals, Goal("losses that ended a job or its launcher", count, 0, "")),
        notes=(f"{lived}. At most {repeated} steps were trained again.{also}", WAY),
    )


def list_costs(found: Losses) -> dict[str, tuple[float, ...]]:
    """By label the seconds without a step."""
    by_label = found.by_label.items()
    return {label: tuple(loss.seconds for loss in losses) for label, losses in by_label if losses}


def draw_progress(kinds: Mapping[str, Sequence[Loss]]) -> tuple[Chart, ...]:
    """Of each kind the loss in the middle, by what it cost."""
    middles = {
        label: sorted(losses, key=lambda loss: loss.seconds)[len(losses) // 2]
        for label, losses in kinds.items()
        if losses
    }
    lines = tuple(Line(label, loss.progress) for label, loss in middles.items() if loss.progress)
    title = f"A worker of {WORKERS} is lost at 0: steps that are new since then"
    chart = Chart("ring-broken", title, "seconds since the loss", "steps", lines, is_stepwise=True)
    return (chart,) if lines else ()


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
        "goes on without. The picture has of three kinds the loss in the middle, for "
        f"{SHOWN:.0f} s; who trains no step for {PATIENCE:.0f} s ends the measurement."
    ),
    measure=measure,
    place=Place.TRAINING,
)
