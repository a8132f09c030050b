"""A healthy job in a namespace of its own, which grows and shrinks while others are flooded."""

from __future__ import annotations

import asyncio
import statistics
import time
from typing import Any

from et_kube.resources import PODS, SCALE_INS, SCALE_OUTS, TRAINING_JOBS, Resource
from tests.e2e.playing import play
from tests.e2e.world import build_job, scale_in, scale_out
from tests.specs.servers import Server, build_path
from tests.specs.verdicts import Object

NAME = "healthy"
PATIENCE = 120.0
PAUSE = 0.1
TIMES = 2.0
"""So many times as long may a scaling take beside a flood."""


class Harmed(AssertionError):  # noqa: N818 (what it is)
    """Something happened to the healthy job that nobody asked for."""


class Neighbour:
    """The job, from its creation on.

    Args:
        server: where.
        namespace: its own.
    """

    def __init__(self, server: Server, namespace: str) -> None:
        self._server = server
        self._namespace = namespace
        self._number = 0

    async def start(self) -> None:
        """Until it runs with two workers."""
        job = build_job(NAME, command=play(), workers=2, minimum=1, maximum=6)
        await self._server.create(build_path(TRAINING_JOBS, self._namespace), job)
        await self._wait(TRAINING_JOBS, NAME, "Running")

    async def scale(self, rounds: int) -> list[float]:
        """Grow by one and shrink by one, so many times; seconds of each."""
        taken = []
        for _ in range(rounds):
            self._number += 1
            taken.append(await self._do(SCALE_OUTS, scale_out(f"out-{self._number}", NAME, 1)))
            taken.append(await self._do(SCALE_INS, scale_in(f"in-{self._number}", NAME, count=1)))
        return taken

    async def scale_until(self, over: asyncio.Event) -> list[float]:
        """The same, round after round, until it is over."""
        taken: list[float] = []
        while not over.is_set():
            taken += await self.scale(1)
        return taken

    async def check(self) -> None:
        """It runs as it did: the first launcher, never restarted, and as many workers as asked."""
        found = await self._server.get(build_path(TRAINING_JOBS, self._namespace, NAME))
        status = found.get("status") or {}
        pods = await self._server.get(build_path(PODS, self._namespace))
        restarts = [
            entry["restartCount"]
            for pod in pods["items"]
            for entry in pod["status"].get("containerStatuses") or ()
        ]
        seen = (status.get("phase"), status.get("epoch"), status.get("restartCount", 0))
        if seen != ("Running", 1, 0) or any(restarts) or status.get("replicas") != 2:
            raise Harmed(f"phase, epoch, restarts {seen}, workers {status.get('replicas')}")

    async def _do(self, resource: Resource, manifest: Any) -> float:
        started = time.monotonic()
        await self._server.create(build_path(resource, self._namespace), manifest)
        await self._wait(resource, manifest["metadata"]["name"], "ScaleSucceeded")
        return time.monotonic() - started

    async def _wait(self, resource: Resource, name: str, phase: str) -> None:
        end = time.monotonic() + PATIENCE
        found: Object = {}
        while time.monotonic() < end:
            found = await self._server.get(build_path(resource, self._namespace, name))
            seen = (found.get("status") or {}).get("phase")
            if seen == phase:
                return
            if seen in {"Failed", "Succeeded", "ScaleFailed"}:
                break
            await asyncio.sleep(PAUSE)
        raise Harmed(f"{name} is not {phase}: {found.get('status')}")


def compare(quiet: list[float], flooded: list[float]) -> float:
    """How many times as long the median scaling took."""
    return statistics.median(flooded) / statistics.median(quiet)
