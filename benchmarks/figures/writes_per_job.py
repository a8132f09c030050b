"""What a job writes to the API server, by whom, beside the least that could do.

Needs real nodes, for brokers write too. Counted by the audit log, never by the operator's word; the
least is derived in leastwrites.py.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping

from benchmarks import quotes
from benchmarks.apis import build_path, wait_for
from benchmarks.audits import count_writes, read_audit
from benchmarks.benches import Bench
from benchmarks.findings import Figure, Finding, Goal, Series, Side, Table
from benchmarks.leastwrites import SHARED, count_least, list_needs
from benchmarks.manifests import build_job, read_command
from benchmarks.namespaces import make_namespace

WORKERS = 8
SAMPLES = 3
"""Jobs, one after the other, in one namespace."""
REST_SECONDS = 8.0
"""After the hosts are listed: numbers in a status may come 5 s late, Events too."""
LIMIT = 1.3


async def measure(bench: Bench) -> Finding:
    """Real jobs with real brokers, until nothing more is written."""
    site, jobs = bench.get_site(), bench.count_samples(SAMPLES)
    async with make_namespace(site, "writes") as namespace:
        path = build_path("trainingjobs", namespace)
        for number in range(jobs):
            name = f"job-{number}"
            await site.api.create(
                path, build_job(name, workers=WORKERS, command=read_command("elastic"))
            )

            async def are_listed(name: str = name) -> bool:
                job = await site.api.get(f"{path}/{name}")
                conditions = job.get("status", {}).get("conditions", [])
                return any(c["type"] == "HostsListed" for c in conditions)

            await wait_for(are_listed, f"the hosts of {name} are listed")
            await asyncio.sleep(REST_SECONDS)
        writes = count_writes(read_audit(site.cluster.audit_log, namespace))
    return compare(writes, jobs)


def compare(writes: Mapping[tuple[str, str, str], int], jobs: int) -> Finding:
    """Counts per job; Events apart, for nothing depends on them and peers are counted without."""
    totals: Counter[str] = Counter()
    for (writer, _, target), count in writes.items():
        totals[f"{writer}, Events" if target == "events" else writer] += count
    least = count_least(WORKERS, jobs)
    ours = totals["operator"] / jobs
    rows = tuple(
        (writer, verb, target, f"{count / jobs:.2f}")
        for (writer, verb, target), count in sorted(writes.items())
        if writer in {"operator", "broker"}
    )
    needs = tuple((str(n.count), n.what, n.why) for n in list_needs(WORKERS))
    shared = (f"1/{jobs}", SHARED.what, SHARED.why)
    series = [
        Series(f"{writer}: writes a job", "", (count / jobs,), _find_side(writer))
        for writer, count in sorted(totals.items(), key=lambda pair: -pair[1])
    ]
    return Finding(
        series=(
            *series,
            Series("the least possible", "", (least,), Side.BARE, "derived below"),
            Series("et-operator", "", (quotes.WRITES,), Side.PEER, quotes.ORIGIN),
        ),
        goals=(Goal("operator's writes a job, to the least", ours / least, LIMIT, "x"),),
        tables=(
            Table(
                "The least possible, object by object", ("writes", "what", "why"), (*needs, shared)
            ),
            Table("What was written, a job", ("by", "verb", "what", "writes"), rows),
        ),
    )


def _find_side(writer: str) -> Side:
    return Side.OURS if writer.startswith(("operator", "broker")) else Side.BARE


FIGURE = Figure(
    title="Writes to the API server",
    explanation=(
        f"Jobs of {WORKERS} workers on real nodes, from creation until all hosts are listed and "
        "nothing more is written; counted in the API server's audit log by who sent them. Beside "
        "it the least that any operator must write which gives the broker rights on its own job "
        "alone. Status and Events are not in the least: a job would run without."
    ),
    measure=measure,
)
