"""A namespace for each test; what a failed one leaves is written down before it goes."""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from kubernetes import client

from tests.e2e.world import World

FAILURE = Path(os.environ.get("FAILURE_DIR", "out/failure"))


@pytest.fixture
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    """An empty namespace of its own."""
    title = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower()).strip("-")
    name = f"t-{title[:40]}-{uuid.uuid4().hex[:6]}"
    world = World(name)
    world.core.create_namespace(client.V1Namespace(metadata=client.V1ObjectMeta(name=name)))
    failures = request.session.testsfailed
    yield world
    if request.session.testsfailed > failures or os.environ.get("E2E_DUMP"):
        world.dump(FAILURE / name)
    world.clear()
