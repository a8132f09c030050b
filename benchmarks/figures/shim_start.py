"""How long the programs that horovodrun starts for every slot and every second take to start.

No cluster: programs are started in turns with a Python that does nothing, from bytecode.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from benchmarks.benches import Bench
from benchmarks.findings import Figure, Finding, Goal, Place, Series, Side
from benchmarks.machines import ROOT
from benchmarks.spreads import measure_spread
from et_kube.clock import Clock

SAMPLES = 100
GOAL_MS = 30.0
SHIM = ROOT / "launcher" / "shim" / "rsh.py"
DISCOVER = f"import sys; sys.path.insert(0, {str(ROOT)!r}); import hostdiscovery.discover"


async def measure(bench: Bench) -> Finding:
    """In turn, so that what else the machine does meets all of them."""
    python = [sys.executable, "-I", "-S"]
    commands = {
        "python alone": [*python, "-c", "pass"],
        "shim": [*python, str(SHIM)],
        "discovery, imports alone": [*python, "-c", DISCOVER],
    }
    times: dict[str, list[float]] = {label: [] for label in commands}
    for command in commands.values():
        run(command, bench.clock)  # what is compiled once is compiled
    for _ in range(bench.count_samples(SAMPLES)):
        for label, command in commands.items():
            times[label].append(run(command, bench.clock) * 1000)
    goals = tuple(
        Goal(f"start of {label}, median", measure_spread(samples).median, GOAL_MS, "ms")
        for label, samples in times.items()
        if label != "python alone"
    )
    sides = {"python alone": Side.BARE}
    series = tuple(
        Series(label, "ms", tuple(samples), sides.get(label, Side.OURS))
        for label, samples in times.items()
    )
    return Finding(series=series, goals=goals)


def run(command: list[str], clock: Clock) -> float:
    """Seconds from the start to the end of a program."""
    started = clock.monotonic()
    subprocess.run(command, cwd=Path("/"), capture_output=True, check=False)
    return clock.monotonic() - started


FIGURE = Figure(
    title="Start of shim and discovery",
    explanation=(
        "The shim without arguments: all that it imports, then a complaint about its usage and "
        "the end. Discovery: its imports. From bytecode, as PID 1 of the launcher compiles them. "
        "`python alone` is an interpreter that does nothing."
    ),
    measure=measure,
    place=Place.NOTHING,
)
