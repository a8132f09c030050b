"""A cluster that is only listed is read as a real one: all of it, and nothing is unreadable."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from benchmarks.clusters import WORKERS, LargeCluster, serving
from benchmarks.commands.sharing import run

NOW = datetime(2026, 1, 1, tzinfo=UTC)
PODS = 600


@pytest.mark.long
async def test_what_is_listed_page_by_page_is_what_there_is() -> None:
    async with serving(LargeCluster(100, 40, PODS, NOW)) as api:
        told = await run(api)
    running = 240 // (WORKERS + 1)
    assert (told["nodes"], told["pods"], told["jobs"]) == (100, PODS, 40)
    assert (told["waiting"], told["troubled"]) == (40 - running, 0)
    assert told["of jobs"] == running * (WORKERS + 1)
    assert told["changes"]
