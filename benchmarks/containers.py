"""When containers began, as containerd on each node tells; a kubelet's own word comes later.

One `ctr events` process a node, ended with the measurement. Of a container that began before
nothing is known.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import datetime
from typing import Any

from devcluster import nodes
from devcluster.settings import Cluster

STARTED = "/tasks/start"
_RUNTIME = "containerd://"


class Beginnings:
    """The time, in UTC seconds, at which the process of each container was started, by its id."""

    def __init__(self) -> None:
        self._times: dict[str, float] = {}

    def take(self, line: str) -> None:
        """Read a line of `ctr events`: date, time, zone and its name, namespace, topic, JSON."""
        match line.split(maxsplit=6):
            case [day, time, _zone, _name, _namespace, topic, body] if topic == STARTED:
                at = datetime.fromisoformat(f"{day}T{time}+00:00").timestamp()
                self._times.setdefault(json.loads(body)["container_id"], at)

    def find(self, pod: Mapping[str, Any], container: str) -> float:
        """When it began; LookupError for one that nobody told of."""
        status = pod["status"]
        states = (
            *status.get("initContainerStatuses", ()),
            *status.get("containerStatuses", ()),
        )
        own = next(item["containerID"] for item in states if item["name"] == container)
        return self._times[own.removeprefix(_RUNTIME)]


@asynccontextmanager
async def follow_beginnings(cluster: Cluster) -> AsyncIterator[Beginnings]:
    """Told of every container of the cluster's nodes that begins from now on."""
    beginnings = Beginnings()
    async with AsyncExitStack() as stack:
        group = await stack.enter_async_context(asyncio.TaskGroup())
        for node in nodes.list_nodes(cluster):
            process = await asyncio.create_subprocess_exec(
                *nodes.build_ctr(node, "events"), stdout=asyncio.subprocess.PIPE
            )
            stack.callback(process.terminate)
            group.create_task(_read(process, beginnings))
        yield beginnings


async def _read(process: asyncio.subprocess.Process, beginnings: Beginnings) -> None:
    """Until the process has ended."""
    if process.stdout is None:
        raise RuntimeError("the process was started without a pipe")
    async for line in process.stdout:
        beginnings.take(line.decode())
    await process.wait()
