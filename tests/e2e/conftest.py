"""A namespace for each test; what it leaves is written down before it goes."""

from __future__ import annotations

import os
import re
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from kubernetes import client

from tests.e2e.histories import History, judge
from tests.e2e.pools import Pool
from tests.e2e.world import LOGS, RealWorld

ENFORCE = "pod-security.kubernetes.io/enforce"

FAILURE = Path(os.environ.get("FAILURE_DIR", "out/failure"))


@pytest.fixture
def world(request: pytest.FixtureRequest) -> Iterator[RealWorld]:
    """An empty namespace of its own."""
    with open_world(request) as world:
        yield world


@pytest.fixture
def restricted(world: RealWorld) -> RealWorld:
    """One that takes no pod below Pod Security `restricted`."""
    world.core.patch_namespace(world.namespace, {"metadata": {"labels": {ENFORCE: "restricted"}}})
    return world


@pytest.fixture
def neighbour(request: pytest.FixtureRequest) -> Iterator[RealWorld]:
    """Another one."""
    with open_world(request) as world:
        yield world


@pytest.fixture
def history(world: RealWorld) -> History:
    """What is written in that namespace from now on."""
    return History(world)


@pytest.fixture
def pool(world: RealWorld, history: History) -> Iterator[Pool]:
    """Seats, queues and priorities of its own; what must hold has held all the time."""
    pool = Pool(world)
    yield pool
    pool.close()
    judge(history, pool.bounds)


@contextmanager
def open_world(request: pytest.FixtureRequest) -> Iterator[RealWorld]:
    """A namespace named after the test, dumped and deleted at its end.

    Who breaks nodes finds them whole: the test before may have ended as one of them came back.
    """
    title = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower()).strip("-")
    name = f"t-{title[:40]}-{uuid.uuid4().hex[:6]}"
    world = RealWorld(name)
    if request.node.get_closest_marker("alone"):
        world.wait(lambda: are_nodes_whole(world), "every node takes pods", 60)
    world.core.create_namespace(client.V1Namespace(metadata=client.V1ObjectMeta(name=name)))
    failures = request.session.testsfailed
    yield world
    world.dump(LOGS / name)
    if request.session.testsfailed > failures:
        shutil.copytree(LOGS / name, FAILURE / name, dirs_exist_ok=True)
    world.clear()


def are_nodes_whole(world: RealWorld) -> bool:
    """Whether the cluster keeps pods off no node for the node's own sake."""
    taints = [taint for node in world.core.list_node().items for taint in node.spec.taints or []]
    return not any(taint.key.startswith("node.kubernetes.io/") for taint in taints)
