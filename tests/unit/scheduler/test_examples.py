"""The examples share their queue as the second part of docs/tutorial.md tells it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from et_kube.resources import TRAINING_JOBS, TRAINING_QUEUES, Ref
from examples.demo import sharing
from tests.unit.scheduler.test_both import Pair

pytestmark = pytest.mark.usefixtures("quiet_logs")

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
PAGE = (EXAMPLES.parent / "docs" / "tutorial.md").read_text("utf-8")


def read(path: str, **metadata: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((EXAMPLES / path).read_text("utf-8"))
    found["metadata"].update(metadata)
    return found


@pytest.mark.long
async def test_one_takes_what_is_idle_gives_what_another_needs_and_a_third_waits() -> None:
    pair = Pair(nodes=2, cpu=2)
    pair.cluster.create(TRAINING_QUEUES, None, read("training_queue.yaml"))

    def tell(name: str) -> tuple[object, object]:
        told = pair.get(name)
        assert told["message"] in PAGE
        return told["reason"], told["workers"]

    async with pair.running():
        pair.create(read("queued_large.yaml"))
        await pair.advance(20)
        assert tell("large") == ("Started", 4)

        pair.create(read("queued_small.yaml"))
        await pair.advance(20)
        assert tell("small") == ("Started", 2)
        assert tell("large") == ("GaveWay", 2)
        assert (pair.count("large"), pair.count("small")) == (2, 2)

        pair.create(read("queued_small.yaml", name="next"))
        await pair.advance(20)
        assert tell("next") == ("AtLimit", 0)
        assert pair.count("next") == 0

        pair.cluster.delete(Ref(TRAINING_JOBS, "team", "small"))
        await pair.advance(60)
        assert (pair.count("large"), pair.count("next")) == (2, 2)

        pair.cluster.delete(Ref(TRAINING_JOBS, "team", "next"))
        await pair.advance(40)
        assert tell("large") == ("Grown", 4)
        assert pair.count("large") == 4


@pytest.mark.long
async def test_the_jobs_of_the_demo_share_its_queue_as_its_second_scene_waits_for() -> None:
    pair = Pair(nodes=2, cpu=2)
    queue = sharing.build_queue()
    pair.cluster.create(TRAINING_QUEUES, None, queue)
    large, small = sharing.build_jobs("registry/horovod-torch:1")

    async with pair.running():
        pair.create(large)
        await pair.advance(sharing.COOLDOWN_SECONDS)
        assert pair.count("large") == sharing.ALL
        pair.create(small)
        await pair.advance(20)
        assert (pair.count("large"), pair.count("small")) == (sharing.LEFT, sharing.NEEDED)
        pair.cluster.delete(Ref(TRAINING_JOBS, "team", "small"))
        await pair.advance(20)
        assert pair.count("large") == sharing.ALL
    assert "registry/horovod-torch:1" in str(large)
    assert "localhost" not in str([large, small])
