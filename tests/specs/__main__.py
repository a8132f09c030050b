"""Thousands of manifests that nobody should write, on the test cluster: `make specs`.

    python -m tests.specs [--short] [--page docs/specs.md] [--case SEED/NUMBER]

SPECS is how many, SEED decides all of them. The operator must be deployed. What fails is written to
out/specs, whole; --case posts one again, edits and deletes it. Namespaces are deleted in the end.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import time
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from benchmarks.machines import describe_commit
from et_kube.resources import SCALE_INS, SCALE_OUTS, TRAINING_JOBS, Resource
from tests.makers import NOWHERE, make_job
from tests.specs.flooding import Life, Outcome, flood
from tests.specs.generating import TARGET, build_case
from tests.specs.neighbours import Neighbour
from tests.specs.pages import Findings, build_page, build_tables, list_promises
from tests.specs.servers import MERGE, Server, build_path, connect
from tests.specs.witnesses import look, read_defects, sum_up

OUT = Path(__file__).resolve().parents[2] / "out" / "specs"
WHOLE, SHORT = 2000, 150
AT_ONCE = 4
NAMESPACES = 4
LONGEST = 3600.0
"""Seconds after which no further case is begun."""
QUIET_ROUNDS = 4
QUOTA = {"count/pods": "60", "count/configmaps": "400"}
"""A job may ask for more workers than there are addresses; nobody else shall pay for it."""
KINDS = (SCALE_INS, SCALE_OUTS, TRAINING_JOBS)
PLACES = Resource("", "v1", "namespaces", "Namespace", namespaced=False)


def main() -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(description="manifests that nobody should write")
    parser.add_argument("--page", type=Path, help="write the result there")
    parser.add_argument("--short", action="store_true", help="the share of `make test`")
    parser.add_argument("--case", help="live this one alone, SEED/NUMBER")
    arguments = parser.parse_args()
    if arguments.case:
        return asyncio.run(repeat(arguments.case))
    count = SHORT if arguments.short else int(os.environ.get("SPECS", WHOLE))
    found = asyncio.run(run(count, os.environ.get("SEED", "1")))
    print("\n".join(["", *build_tables(found)]))
    if arguments.page is not None:
        arguments.page.write_text(build_page(found))
    promises = list_promises(found)
    if arguments.short:
        print("times are judged in a whole run, on a machine at rest: make specs")
        promises = [promise for promise in promises if not promise.is_timed]
    return 0 if all(promise.kept for promise in promises) else 1


async def repeat(seed: str) -> int:
    """One case, with everything that is seen of it."""
    async with connect() as server, open_places(server, 1) as places:
        life = build_life(server, places, seed)
        outcome = await life.live()
        defects = await read_defects(server, places.since)
    for step in outcome.steps:
        print(f"{step.verdict}: {'; '.join(step.odd) or 'nothing is odd'}")
    print(outcome.trouble or "it ended well")
    print("\n".join(sum_up(defects)))
    return 1 if outcome.trouble or defects else 0


async def run(count: int, seed: str) -> Findings:
    """The whole flood."""
    load, commit = os.getloadavg()[0], describe_commit()
    async with connect() as server, open_places(server, NAMESPACES) as places:
        neighbour = Neighbour(server, places.healthy)
        await neighbour.start()
        quiet = await neighbour.scale(QUIET_ROUNDS)
        before = await look(server)
        outcomes: list[Outcome] = []
        over = asyncio.Event()
        lives = [build_life(server, places, f"{seed}/{number}") for number in range(count)]
        async with asyncio.TaskGroup() as group:
            scaling = group.create_task(neighbour.scale_until(over))
            until = time.monotonic() + LONGEST
            tell = Teller(outcomes, count)
            await flood(lives, at_once=AT_ONCE, until=until, tell=tell)
            over.set()
        await neighbour.check()
        after = await look(server)
        defects = await read_defects(server, places.since)
    print("\n".join(sum_up(defects)))
    flooded = scaling.result()
    return Findings(outcomes, before, after, quiet, flooded, len(defects), seed, commit, load)


class Teller:
    """Notes each outcome; what failed is shown at once and written out whole."""

    def __init__(self, outcomes: list[Outcome], count: int) -> None:
        self._outcomes = outcomes
        self._count = count
        self._started = time.monotonic()

    def __call__(self, outcome: Outcome) -> None:
        """As `flood` wants it."""
        self._outcomes.append(outcome)
        if outcome.trouble:
            print(f"FAILED {outcome.case.seed}: {outcome.case.manifest.title}\n  {outcome.trouble}")
            print(f"  {write_out(outcome)}", flush=True)
        if len(self._outcomes) % 100 == 0:
            seconds = time.monotonic() - self._started
            print(f"{len(self._outcomes)} of {self._count}, {seconds:.0f} s", flush=True)


def write_out(outcome: Outcome) -> str:
    """The texts of a case, and what lives it again."""
    OUT.mkdir(parents=True, exist_ok=True)
    case = outcome.case
    stem = case.seed.replace("/", "-")
    (OUT / f"{stem}.json").write_text(case.manifest.text)
    for number, edit in enumerate(case.edits):
        (OUT / f"{stem}-edit-{number}{edit.subresource}.json").write_text(edit.written.text)
    (OUT / f"{stem}.txt").write_text(f"{case.manifest.title}\n{outcome.trouble}\n")
    return f"again: python -m tests.specs --case {case.seed}   (its texts are in {OUT}/{stem}*)"


def build_life(server: Server, places: Places, seed: str) -> Life:
    """The life of the case of this seed, in one of the places."""
    number = int(seed.rsplit("/", 1)[1])
    case = build_case(seed, name=f"c{number}")
    return Life(server, places.flooded[number % len(places.flooded)], case)


# ---------------------------------------------------------------- namespaces
class Places:
    """Namespaces of one run, and when it began (RFC 3339)."""

    def __init__(self, count: int) -> None:
        run = uuid.uuid4().hex[:6]
        self.healthy = f"specs-{run}-healthy"
        self.flooded = [f"specs-{run}-{number}" for number in range(count)]
        self.since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


@asynccontextmanager
async def open_places(server: Server, count: int) -> AsyncIterator[Places]:
    """Namespaces with a quota and a job that scalings are about; they go in the end."""
    places = Places(count)
    try:
        for name in (places.healthy, *places.flooded):
            await server.create("/api/v1/namespaces", {"metadata": {"name": name}})
        for name in places.flooded:
            quota = {"metadata": {"name": "bounded"}, "spec": {"hard": QUOTA}}
            await server.create(f"/api/v1/namespaces/{name}/resourcequotas", quota)
            await wait_for_quota(server, name)
            await server.create(build_path(TRAINING_JOBS, name), build_target())
        yield places
    finally:
        for name in (places.healthy, *places.flooded):
            await clear(server, name)


def build_target() -> dict[str, Any]:
    """A job that waits for a scheduler for ever."""
    job = make_job(TARGET, workers=3, minReplicas=1, maxReplicas=8)
    for role in job["spec"]["etReplicaSpecs"].values():
        role["template"]["spec"]["schedulerName"] = NOWHERE
    return job


async def wait_for_quota(server: Server, namespace: str) -> None:
    """Until the API server counts by it."""
    path = f"/api/v1/namespaces/{namespace}/resourcequotas/bounded"
    for _ in range(150):
        if (await server.get(path)).get("status", {}).get("hard") == QUOTA:
            return
        await asyncio.sleep(0.2)
    raise TimeoutError(f"the quota of {namespace} is not in force after 30 s")


async def clear(server: Server, namespace: str) -> None:
    """Delete a namespace; whatever holds objects of ours there is taken away."""
    for resource in KINDS:
        for item in (await server.get(build_path(resource, namespace))).get("items") or ():
            if item["metadata"].get("finalizers"):
                path = build_path(resource, namespace, item["metadata"]["name"])
                await server.ask("PATCH", path, '{"metadata":{"finalizers":null}}', MERGE)
    path = f"/api/v1/namespaces/{namespace}"
    await server.ask("DELETE", f"{path}/pods?gracePeriodSeconds=0")
    await server.ask("DELETE", path)


if __name__ == "__main__":
    sys.exit(main())
