"""et-notices between two servers on the loopback interface: what it weighs, and what a round costs.

Run as `python -m benchmarks.commands.notices API CLOUD NODE ROUNDS`; prints an object of JSON.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from et_kube.clock import SystemClock
from et_kube.connecting import Connection
from et_kube.connecting import open_session as open_api_session
from et_kube.rest import Rest
from et_notices.asking import Asker, open_session
from et_notices.choosing import CLOUDS
from et_notices.polling import Poller
from et_notices.telling import MANAGER, Node
from et_process.supervising import stop_on_signals

TRUST = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""As in a pod, where the API server is reached by TLS; there it knows one authority."""
FIELDS = {"VmRSS": "resident", "RssAnon": "own"}


async def authorize() -> Mapping[str, str]:
    """Nobody asks."""
    return {}


async def run(api: str, metadata: str, name: str, rounds: int) -> dict[str, object]:
    """CPU seconds of each round, and KiB of memory after the last."""
    with stop_on_signals():
        async with open_api_session("et-notices") as server, open_session() as session:
            connection = Connection(server, api, "", authorize)
            writing = {"fieldManager": MANAGER}
            trial = Rest(connection, writing={**writing, "dryRun": "All"})
            node = Node(Rest(connection, writing=writing), trial, name)
            ask, cloud = Asker(session, metadata), CLOUDS["aws"]()
            poller = Poller(node, SystemClock(), lambda _: ask, cloud="aws")
            await poller.prove()
            cpu = []
            for _ in range(rounds):
                began = time.process_time()
                await poller.go_round(cloud, ask)
                cpu.append(time.process_time() - began)
    return {"cpu": cpu, **read_memory()}


def read_memory() -> dict[str, int]:
    """KiB, as proc(5) has them."""
    lines = Path("/proc/self/status").read_text().splitlines()
    sizes = dict(line.split(":", 1) for line in lines)
    return {title: int(sizes[field].split()[0]) for field, title in FIELDS.items()}


if __name__ == "__main__":
    found = asyncio.run(run(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])))
    print(json.dumps(found))
