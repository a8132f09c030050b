"""A night with everything at once, on the test cluster: `make chaos SECONDS=1800 SEED=n`.

    python -m tests.chaos [--seconds N] [--seed N] [--own] [--page docs/chaos.md]

The operator must be deployed, on three nodes for a whole night. One job trains with Horovod while
faults come as the seed has it; --own leaves out those that others on the cluster would feel. Logs
and objects are kept in LOGS_DIR.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import uuid
from pathlib import Path

from kubernetes import client

from benchmarks.drawing import draw
from tests.chaos.judging import list_breaches
from tests.chaos.nights import Night
from tests.chaos.pages import build_chart, build_page, build_tables
from tests.chaos.records import Record
from tests.chaos.schedules import OWN, Kind
from tests.e2e.world import RealWorld


def main() -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(description="a night with everything at once")
    parser.add_argument("--seconds", type=float, default=1800, help="no round begins after them")
    parser.add_argument("--seed", type=int, default=1, help="decides all that breaks, and when")
    parser.add_argument("--own", action="store_true", help="harm nobody else on the cluster")
    parser.add_argument("--page", type=Path, help="write the result there, its picture beside it")
    options = parser.parse_args()
    load = os.getloadavg()[0]
    record = run(options.seconds, options.seed, OWN if options.own else tuple(Kind))
    print("\n".join(["", *build_tables(record)]))
    if options.page is not None:
        options.page.write_text(build_page(record, options.seconds, options.seed, load))
        draw(build_chart(record), options.page.with_suffix(".png"))
    return 1 if list_breaches(record) else 0


def run(seconds: float, seed: int, kinds: tuple[Kind, ...]) -> Record:
    """The night, in a namespace of its own, which goes in the end."""
    name = f"chaos-{uuid.uuid4().hex[:6]}"
    world = RealWorld(name)
    world.core.create_namespace(client.V1Namespace(metadata=client.V1ObjectMeta(name=name)))
    try:
        with tempfile.TemporaryDirectory() as folder:
            night = Night(world, Path(folder), seconds=seconds, tell=tell)
            return night.live(seed, kinds)
    finally:
        world.clear()


def tell(line: str) -> None:
    """As it happens."""
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
