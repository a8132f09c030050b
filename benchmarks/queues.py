"""Objects without a namespace that one measurement needs: queues of its own, and what else.

They are gone afterwards; one that a broken-off run has left is replaced.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from benchmarks.benches import Site
from benchmarks.manifests import API_VERSION

_QUEUES = f"/apis/{API_VERSION}/trainingqueues"


@asynccontextmanager
async def have_queue(site: Site, name: str) -> AsyncIterator[None]:
    """A queue without limits, for all namespaces, as long as the body runs."""
    body = {"kind": "TrainingQueue", "apiVersion": API_VERSION, "spec": {}}
    async with have_object(site, _QUEUES, name, body):
        yield


@asynccontextmanager
async def have_object(
    site: Site, path: str, name: str, body: Mapping[str, Any]
) -> AsyncIterator[None]:
    """An object in the collection at this path, as long as the body runs."""
    await site.api.delete(f"{path}/{name}")
    await site.api.create(path, {**body, "metadata": {"name": name}})
    try:
        yield
    finally:
        await site.api.delete(f"{path}/{name}")
