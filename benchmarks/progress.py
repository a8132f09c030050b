"""How far a training is, over the seconds around one loss: the picture of ring_broken.py.

A job of its own for each line, and nothing else happens to it: of a job that loses one worker after
the other a line would end with the next loss.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from benchmarks.benches import Site
from benchmarks.findings import Chart, Line
from benchmarks.strikes import Strike
from benchmarks.trainings import LATE, WORKERS, Step, run_training

BEFORE, AFTER = 10.0, 120.0
"""Seconds that are drawn, before the loss and after it."""
EACH = 0.5
"""Seconds between two points."""


async def follow_loss(
    site: Site, namespace: str, manifest: dict[str, Any], strike: Strike
) -> tuple[tuple[float, float], ...]:
    """The progress of this job around the loss of one worker; JobEnded where it was its end."""
    async with run_training(site, namespace, manifest) as job:
        await job.wait_until_steady(0.0)
        await asyncio.sleep(BEFORE)
        [worker, *_] = await job.list_workers()
        struck = site.clock.now().timestamp()
        strike(site.cluster, str(worker["metadata"]["uid"]))
        await asyncio.sleep(AFTER + LATE)
        await job.check()
        return find_progress(await job.read_steps(), struck)


def find_progress(steps: Sequence[Step], struck: float) -> tuple[tuple[float, float], ...]:
    """By seconds since the loss: steps that were new since the first moment that is drawn."""
    begin, end = struck - BEFORE, struck + AFTER
    most = begun = max((step.number for step in steps if step.at <= begin), default=0)
    points = [(-BEFORE, 0.0)]
    for step in steps:
        if not begin < step.at < end or step.number <= most:
            continue
        most, after = step.number, step.at - struck
        if after >= points[-1][0] + EACH:
            points.append((round(after, 2), float(most - begun)))
    return (*points, (AFTER, float(most - begun)))


def build_chart(lines: Sequence[Line]) -> Chart:
    """The picture; with no lines there is nothing to draw."""
    title = f"A worker of {WORKERS} is lost at 0: steps, without those that were trained again"
    return Chart(
        "ring-broken", title, "seconds since the loss", "steps", tuple(lines), is_stepwise=True
    )
