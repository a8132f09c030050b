"""A broker as its container runs it, but for where it finds things.

    python -m fakes.broker_program <folder> <url> <job> <epoch>

podless.py starts it. It wires launcher/broker as that one's __main__ does, and must decide nothing
by itself: what is measured or tested here is the launcher's own.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from et_contract import paths
from et_contract.documents import Member
from et_kube.connecting import Connection, open_session, raise_file_limit
from et_kube.execing import ExecStream, open_exec
from et_kube.rest import Rest
from launcher.broker.assembly import Assembly, Paths
from launcher.broker.memories import Identity


async def authorize() -> Mapping[str, str]:
    """The headers that say who calls: none, for the API server here asks nobody."""
    return {}


async def run(folder: Path, url: str, identity: Identity) -> None:
    """A broker with its files in `folder`, which calls the API server at `url` until SIGTERM."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    places = Paths(folder / "broker.sock", folder / "hosts", folder / "state")
    async with open_session() as session:
        connection = Connection(session, url, "ns", authorize)

        def open_bridge(member: Member) -> AbstractAsyncContextManager[ExecStream]:
            return open_exec(
                connection,
                "ns",
                member.name,
                container=member.container,
                command=paths.BRIDGE_COMMAND,
            )

        await Assembly(identity, places, api=Rest(connection), opener=open_bridge).run(stop)


if __name__ == "__main__":
    raise_file_limit()
    place, url, job, epoch = sys.argv[1:]
    asyncio.run(run(Path(place), url, Identity(job, "ns", "job-uid", int(epoch), "launcher-uid")))
