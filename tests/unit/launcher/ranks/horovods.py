"""A Horovod on disk whose rings are real sockets, and ranks that meet it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.unit.launcher.shim.brokers import PYTHON, ROOT

RANKS = ROOT / "launcher" / "ranks"

BASICS = """
import os, socket

class HorovodBasics(object):
    def __init__(self):
        self.address = None
        self.rings = []
        self.during = lambda: None
        self.is_up = False

    def init(self, comm=None, process_sets=None):
        if self.is_up:
            return "as before"
        # As C++ has them: numbers, and no object of Python.
        self.rings.append([socket.create_connection(self.address).detach() for _ in range(2)])
        self.during()
        self.is_up = True
        return comm

    def shutdown(self):
        self.is_up = False  # and the connections stay

    def is_initialized(self):
        return self.is_up
"""

RANK = """
import os, socket, sys

listener = socket.create_server(("127.0.0.1", 0)) if hasattr(socket, "create_server") else None
if listener is None:  # Python 3.7
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(9)
peers = []

def accept(number=2):
    for _ in range(number):
        peers.append(listener.accept()[0])
        peers[-1].setblocking(False)

def look():  # of each peer, whether its connection has ended
    ends = []
    for peer in peers:
        try:
            ends.append(peer.recv(1) == b"")
        except BlockingIOError:
            ends.append(False)
    return ends

from horovod.common.basics import HorovodBasics
horovod = HorovodBasics()
horovod.address = listener.getsockname()
"""


def install(folder: Path, basics: str = BASICS, version: str = "__version__ = '0.28.1'") -> Path:
    """Horovod in `folder`, which is returned."""
    common = folder / "horovod" / "common"
    common.mkdir(parents=True)
    (folder / "horovod" / "__init__.py").write_text(version + "\n")
    (common / "__init__.py").write_text("")
    (common / "basics.py").write_text(basics)
    return folder


def run_python(*words: str, path: str | None, **environ: str) -> subprocess.CompletedProcess[str]:
    """Python as a rank's command; `path` is its PYTHONPATH, None for none."""
    env = {"PATH": os.environ["PATH"], "HOME": "/", "PYTHONDONTWRITEBYTECODE": "1", **environ}
    if path is not None:
        env["PYTHONPATH"] = path
    return subprocess.run(
        [PYTHON, *words], env=env, capture_output=True, text=True, timeout=30, check=False
    )


def train(folder: Path, script: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """A rank with the Horovod in `folder`, and RANK before its script."""
    return run_python("-c", RANK + script, path=f"{RANKS}:{folder}", **environ)
