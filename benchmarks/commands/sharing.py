"""et-scheduler's store with all of a cluster in it: what the process weighs that holds it.

Run as `python -m benchmarks.commands.sharing API`; lists what et-scheduler lists, decides once, and
prints an object of JSON. Nothing is watched, and nothing written.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Mapping
from functools import partial

from benchmarks.machines import read_usage
from et_kube.connecting import Connection, open_session
from et_kube.resources import Resource
from et_kube.rest import Rest
from et_kube.watching import Synced
from et_process.running import spare_imports
from et_scheduler.assembly import Scheduler
from et_scheduler.planning.passing import decide
from et_scheduler.state.ingesting import Ingest
from et_scheduler.state.store import Store
from et_scheduler.state.surveying import Surveyor

PROGRAM = Scheduler
"""What is loaded is what the program loads."""


async def authorize() -> Mapping[str, str]:
    """Nobody asks."""
    return {}


async def run(api: str) -> dict[str, object]:
    """Bytes before, with all that is listed, and at the peak until a pass has looked at it."""
    process = os.getpid()
    before = read_usage(process).memory
    store = Store()
    ingest = Ingest(store)
    async with open_session("et-scheduler") as session, asyncio.TaskGroup() as group:
        rest = Rest(Connection(session, api, "", authorize))
        for resource in store.tables:
            group.create_task(take_list(rest, ingest, resource))
    listed = read_usage(process)
    survey = Surveyor(store).survey()
    decision = decide(survey.cluster, survey.queues, survey.jobs, int(time.time() * 1000))
    return {
        "before": before,
        "listed": listed.memory,
        "listing": listed.peak_memory,
        "deciding": read_usage(process).peak_memory,
        "pods": len(store.pods),
        "nodes": len(survey.cluster.nodes),
        "jobs": len(survey.jobs),
        "of jobs": sum(len(job.pods) for job in survey.jobs),
        "waiting": sum(job.is_waiting for job in survey.jobs),
        "troubled": len(survey.troubled),
        "changes": len(decision.changes),
    }


async def take_list(rest: Rest, ingest: Ingest, resource: Resource) -> None:
    """As the program's watches do it, once."""
    listing = await rest.list(resource, None, keep=partial(ingest.read, resource))
    ingest.take(Synced(resource, None, listing.items, listing.resource_version, 0.0))


if __name__ == "__main__":
    spare_imports()
    print(json.dumps(asyncio.run(run(sys.argv[1]))))
