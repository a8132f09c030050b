"""When containers and what is executed in them began, as containerd on each node tells.

A kubelet's own word comes later. One `ctr events` process a node, ended with the measurement. Of a
container that began before nothing is known.
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
EXECUTED = "/tasks/exec-started"
_TOPICS = frozenset({STARTED, EXECUTED})
_RUNTIME = "containerd://"


class Beginnings:
    """The times, in UTC seconds, at which processes of containers were started, by their ids."""

    def __init__(self) -> None:
        self._times: dict[str, float] = {}
        self._executions: dict[str, list[float]] = {}

    def take(self, line: str) -> None:
        """Read a line of `ctr events`: date, time, zone and its name, namespace, topic, JSON."""
        match line.split(maxsplit=6):
            case [day, time, _zone, _name, _namespace, topic, body] if topic in _TOPICS:
                at = datetime.fromisoformat(f"{day}T{time}+00:00").timestamp()
                container = json.loads(body)["container_id"]
                if topic == STARTED:
                    self._times.setdefault(container, at)
                else:
                    self._executions.setdefault(container, []).append(at)

    def find(self, pod: Mapping[str, Any], container: str) -> float:
        """When it began; LookupError for one that nobody told of."""
        return self._times[_find_id(pod, container)]

    def find_execution(self, pod: Mapping[str, Any], container: str, since: float) -> float:
        """When the first process that was executed in it since then began; LookupError for none."""
        times = self._executions[_find_id(pod, container)]
        found = [at for at in times if at >= since]
        if not found:
            raise LookupError(f"nothing was executed in {container} since {since}")
        return min(found)


def _find_id(pod: Mapping[str, Any], container: str) -> str:
    status = pod["status"]
    states = (*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ()))
    own: str = next(item["containerID"] for item in states if item["name"] == container)
    return own.removeprefix(_RUNTIME)


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
