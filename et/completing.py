"""What the shell offers after a Tab: quickly, and nothing where anything is wrong.

Only reads, and never complains or waits for long: whoever presses Tab has typed nothing yet. Words
that a shell would make something of are not offered.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from et.clusters import Cluster

_PLAIN = re.compile("[A-Za-z0-9][A-Za-z0-9_.:@/+-]*")
PATIENCE = 3.0
"""Seconds after which a Tab is better left unanswered."""


def complete_jobs(context: typer.Context, incomplete: str) -> list[str]:
    """Names of the namespace's jobs."""

    async def find(cluster: Cluster) -> list[str]:
        from et.clusters import get_meta
        from et.reading import read_jobs

        return await read_jobs(cluster, lambda job: get_meta(job, "name"))

    return _complete(context, incomplete, find)


def complete_workers(context: typer.Context, incomplete: str) -> list[str]:
    """Names of the job's workers."""
    job = context.params.get("job")

    async def find(cluster: Cluster) -> list[str]:
        from et.reading import read_job
        from et_operator.codec.decoding import decode_job

        return list(decode_job(await read_job(cluster, str(job))).status.target_workers)

    return _complete(context, incomplete, find) if job else []


def complete_logs(context: typer.Context, incomplete: str) -> list[str]:
    """The launcher, and the names of the job's workers."""
    return [*select(["launcher"], incomplete), *complete_workers(context, incomplete)]


def complete_queues(context: typer.Context, incomplete: str) -> list[str]:
    """Names of the cluster's queues."""

    async def find(cluster: Cluster) -> list[str]:
        from et.clusters import get_meta
        from et_kube.resources import TRAINING_QUEUES

        listing = await cluster.api.list(TRAINING_QUEUES, None)
        return [get_meta(queue, "name") for queue in listing.items]

    return _complete(context, incomplete, find)


def complete_contexts(context: typer.Context, incomplete: str) -> list[str]:
    """Names of the kubeconfig's contexts."""
    from pathlib import Path

    from et.clusters import list_contexts
    from et.errors import EtError

    path = context.params.get("kubeconfig") or os.environ.get("KUBECONFIG") or "~/.kube/config"
    try:
        names = list_contexts(Path(str(path)).expanduser())
    except EtError:
        return []
    return select(names, incomplete)


def select(names: Iterable[str], incomplete: str) -> list[str]:
    """The words that begin so, and that are plain: a shell may evaluate what it is offered.

    Names are plain where an API server is one; what a false one says, or a status, is anything.
    """
    return [name for name in names if name.startswith(incomplete) and _PLAIN.fullmatch(name)]


def _complete(
    context: typer.Context, incomplete: str, find: Callable[[Cluster], Awaitable[list[str]]]
) -> list[str]:
    from et.clusters import Place
    from et.errors import EtError
    from et.running import find_tools
    from et_kube.errors import KubeError

    said: dict[str, Any] = context.params
    place = Place(said.get("kubeconfig"), said.get("context"), said.get("namespace"))

    async def ask() -> list[str]:
        async with asyncio.timeout(PATIENCE), find_tools(context).open(place) as cluster:
            return await find(cluster)

    try:
        names = asyncio.run(ask())
    except (EtError, KubeError, TimeoutError):
        return []
    return select(names, incomplete)
