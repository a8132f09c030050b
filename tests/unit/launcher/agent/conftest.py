from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.launcher.agent.workers import Peer, Worker


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[Worker]:
    worker = Worker(tmp_path)
    yield worker
    worker.close()


@pytest.fixture
def peer(worker: Worker) -> Peer:
    return worker.start().hello()
