"""What et-notices costs each node: it is on all of them.

No cluster: the program in a process of its own, between fakes of both servers. Only rounds are
measured in which nothing is found.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from benchmarks.benches import Bench
from benchmarks.findings import Figure, Finding, Goal, Place, Series
from benchmarks.machines import ROOT
from benchmarks.spreads import measure_spread
from et_kube.notices import LEAVING_ADVISED, LEAVING_AT, LEAVING_REASON
from et_notices.polling import PERIOD
from et_notices.telling import REFUSAL
from fakes import metadata, nodes

SAMPLES = 200
NODE = "node-1"
OWN = (LEAVING_AT, LEAVING_REASON, LEAVING_ADVISED)
PROGRAM = (
    "import runpy, sys; sys.modules['rich'] = None; "
    "runpy.run_module('benchmarks.commands.notices', run_name='__main__', alter_sys=True)"
)
"""Without what structlog loads where it is installed: the image has none."""
LIMIT_MB = 30.0
LIMIT_SHARE = 0.2


async def measure(bench: Bench) -> Finding:
    """One process: so many rounds, of which none finds anything; they are its life."""
    found = await run(bench.count_samples(SAMPLES))
    shares = tuple(100 * seconds / PERIOD.total_seconds() for seconds in found["cpu"])
    own, resident = (found[key] * 1024 / 1e6 for key in ("own", "resident"))
    series = (
        Series("CPU", "% of a core", shares),
        Series("memory of its own", "MB", (own,)),
        Series("memory with the files that it maps", "MB", (resident,)),
    )
    goals = (
        Goal("CPU, median", measure_spread(shares).median, LIMIT_SHARE, "% of a core"),
        Goal("memory of its own", own, LIMIT_MB, "MB"),
    )
    return Finding(series=series, goals=goals)


async def run(rounds: int) -> dict[str, Any]:
    """What the program has told of itself."""
    server = nodes.NodeServer(NODE, REFUSAL, OWN, {})
    async with nodes.serving(server) as api, metadata.serving(metadata.AwsService()) as cloud:
        program = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", PROGRAM),
            *(api, cloud, NODE, str(rounds)),
            cwd=ROOT,
            stdout=asyncio.subprocess.PIPE,
        )
        told, _ = await program.communicate()
    answer: dict[str, Any] = json.loads(told.splitlines()[-1])
    return answer


FIGURE = Figure(
    title="et-notices on a node",
    explanation=(
        "The program between an API server and AWS's metadata service, both fakes on the loopback "
        f"interface: the CPU time of a round that finds nothing, which comes each "
        f"{PERIOD.total_seconds():.0f} s, and what the process weighs after all of them. Its own "
        "memory is what nobody shares; the files that it maps (Python, OpenSSL, aiohttp) others "
        "share that run from the same image, and the kernel may drop."
    ),
    measure=measure,
    place=Place.NOTHING,
)
