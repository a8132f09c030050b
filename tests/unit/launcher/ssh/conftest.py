from __future__ import annotations

import os
import shutil
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


SHELLS = [name for name in ("dash", "bash", "busybox") if shutil.which(name)]
"""Debian has the first two; where busybox is installed as well, it is tried."""


@pytest.fixture(params=SHELLS)
def sh(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A shell that is `sh` for all that is started from now on."""
    program = shutil.which(request.param)
    assert program is not None
    (tmp_path / "bin").mkdir(exist_ok=True)
    (tmp_path / "bin" / "sh").symlink_to(program)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    return program


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
