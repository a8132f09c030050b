from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.unit.launcher.shim.brokers import PYTHON, ROOT, SocketBroker, Start, kill_with_children


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[SocketBroker]:
    fake = SocketBroker(tmp_path / "broker.sock")
    yield fake
    fake.stop()


@pytest.fixture
def horovod(tmp_path: Path) -> Path:
    """A package of that name to import, from the folder it is in; a test puts its modules there."""
    package = tmp_path / "horovod"
    for folder in (package, package / "runner", package / "runner/elastic"):
        folder.mkdir()
        (folder / "__init__.py").touch()
    return package


@pytest.fixture
def start() -> Iterator[Start]:
    started: list[subprocess.Popen[bytes]] = []

    def run(code: str, *argv: str | bytes, **options: Any) -> subprocess.Popen[bytes]:
        program = f"import sys; sys.path.insert(0, {str(ROOT)!r}); {code}"
        options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
        prefix = options.pop("prefix", ())
        words = [*prefix, PYTHON, "-I", "-S", "-c", program, *argv]
        process = subprocess.Popen(words, **options)
        started.append(process)
        return process

    yield run
    for process in started:
        if process.poll() is None:
            kill_with_children(process)
        process.communicate()
