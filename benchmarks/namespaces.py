"""Namespaces of the benchmarks: ready before the first measurement, empty after the last.

Each measurement has its own, and all of its pods are gone before the next one: what is left of one
must not be in another's numbers.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from benchmarks.apis import ApiRefused, build_path, wait_for
from benchmarks.benches import Site

_CLEARING_SECONDS = 600.0
_AT_A_TIME = "100"
_ROOT = "/api/v1/namespaces"


@asynccontextmanager
async def make_namespace(site: Site, title: str) -> AsyncIterator[str]:
    """A fresh namespace, its accounts and certificates in place; at the end gone with all in it."""
    name = f"bench-{title}-{int(site.clock.now().timestamp() * 1000):x}"
    await site.api.create(_ROOT, {"metadata": {"name": name}})

    async def is_ready() -> bool:
        return await _exists(site, build_path("serviceaccounts", name, "default")) and (
            await _exists(site, build_path("configmaps", name, "kube-root-ca.crt"))
        )

    await wait_for(is_ready, f"namespace {name} is ready")
    try:
        yield name
    finally:
        await clear_namespace(site, name)


async def clear_namespace(site: Site, name: str) -> None:
    """Remove the namespace and return when nothing of it is left."""
    await site.api.delete(build_path("trainingjobs", name))
    await clear_pods(site, name)
    await site.api.delete(f"{_ROOT}/{name}")

    async def is_gone() -> bool:
        return not await _exists(site, f"{_ROOT}/{name}")

    await wait_for(is_gone, f"{name} is gone", seconds=_CLEARING_SECONDS)


async def clear_pods(site: Site, namespace: str, selector: str = "") -> None:
    """Delete pods without grace, and return when none is left."""
    path = build_path("pods", namespace)

    async def delete_some() -> bool:
        # So many at a time that each answer comes soon: 9,000 take minutes.
        await site.api.delete(path, grace_seconds=0, labelSelector=selector, limit=_AT_A_TIME)
        found = await site.api.get(path, labelSelector=selector, limit="1")
        return not found["items"]

    await wait_for(delete_some, f"no pods in {namespace}", seconds=_CLEARING_SECONDS)


async def _exists(site: Site, path: str) -> bool:
    try:
        await site.api.get(path)
    except ApiRefused:
        return False
    return True
