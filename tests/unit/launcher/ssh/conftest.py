from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from et_contract import frames
from tests.unit.launcher.agent.workers import Peer
from tests.unit.launcher.shim.conftest import broker, start
from tests.unit.launcher.ssh.connections import Pod, Reached

__all__ = ["broker", "start"]


@pytest.fixture
def pod(tmp_path: Path) -> Pod:
    return Pod(tmp_path)


@pytest.fixture
def reached(tmp_path: Path) -> Iterator[Reached]:
    reached = Reached(tmp_path)
    yield reached
    reached.close()


@pytest.fixture
def peer(reached: Reached) -> Peer:
    peer = reached.reach().connect().hello()
    peer.expect(frames.WELCOME)
    return peer
