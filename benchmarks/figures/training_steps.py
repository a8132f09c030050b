"""What a training step costs, beside the same job whose processes were started by ssh.

Needs the image that trains. Whether a difference counts is judged by how far two runs over ssh are
apart.
"""

from __future__ import annotations

import re
from itertools import pairwise

from benchmarks.apis import build_path, wait_for
from benchmarks.benches import Bench, Site
from benchmarks.findings import Figure, Finding, Goal, Place, Series
from benchmarks.manifests import build_training
from benchmarks.namespaces import clear_pods, make_namespace
from benchmarks.spreads import measure_spread
from devcluster.certificates import INSIDE

PAIRS = 10
STEPS = 2000
WARM = 200
"""Steps before the first that counts."""
MODES = ("kubexec", "ssh")
PATIENCE = 180.0
_STEP = re.compile(r"step=(\d+) .* t=([0-9.]+)$", re.MULTILINE)


async def measure(bench: Bench) -> Finding:
    """The two jobs one after the other, and again; who is first takes turns."""
    site = bench.get_site()
    found: dict[str, list[float]] = {mode: [] for mode in MODES}
    async with make_namespace(site, "steps") as namespace:
        for number in range(bench.count_samples(PAIRS)):
            for mode in MODES if number % 2 else reversed(MODES):
                seconds = await train(site, namespace, f"{mode}-{number}", mode)
                found[mode].append(1000 * seconds)
    return compare(tuple(found["kubexec"]), tuple(found["ssh"]))


def compare(ours: tuple[float, ...], theirs: tuple[float, ...]) -> Finding:
    """No difference beyond the spread is what is aimed at: that of one run over ssh to the next."""
    ratio = measure_spread(ours).median / measure_spread(theirs).median
    steps = tuple(after / before for before, after in pairwise(theirs))
    spread = max((max(step, 1 / step) for step in steps), default=1.0)
    return Finding(
        series=(
            Series("step, started through exec", "ms", ours),
            Series("step, started by ssh", "ms", theirs),
        ),
        goals=(Goal("a step, to the same over ssh, medians", ratio, spread, "x"),),
        notes=(f"Two runs over ssh, one after the other, differ by up to {spread:.2f} x.",),
    )


async def train(site: Site, namespace: str, name: str, mode: str) -> float:
    """Run one job to its end: mean seconds a step, by the training's own clock."""
    path = build_path("trainingjobs", namespace, name)
    await site.api.create(build_path("trainingjobs", namespace), build_training(name, STEPS, mode))

    async def has_ended() -> bool:
        phase = (await site.api.get(path)).get("status", {}).get("phase")
        if phase == "Failed":
            raise RuntimeError(f"{name} failed; see its launcher's log")
        return bool(phase == "Succeeded")

    await wait_for(has_ended, f"{name} has trained", seconds=PATIENCE)
    log = build_path("pods", namespace, f"{name}-launcher") + "/log"
    text = await site.api.read_text(INSIDE + log, container="launcher")
    times = {int(step): float(at) for step, at in _STEP.findall(text)}
    await site.api.delete(path)
    await clear_pods(site, namespace, f"training-job-name={name}")
    return (times[STEPS] - times[WARM]) / (STEPS - WARM)


FIGURE = Figure(
    title="A training step",
    explanation=(
        f"Horovod and PyTorch on 2 workers of 2 real nodes, {STEPS:,} steps of a small network "
        "without a pause, so that a step is little more than what the workers say to each other: "
        f"mean time of a step after the first {WARM}, by the training's own clock. Beside it, in "
        "turns on the same nodes, the same job with `launcherAttachMode: ssh`: each process is "
        "started by ssh and its output comes by ssh. Nothing of the operator's is between two "
        "workers in either."
    ),
    measure=measure,
    place=Place.TRAINING,
)
