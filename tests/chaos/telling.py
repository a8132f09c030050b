"""The steps of a training, read from its launchers' logs as their nodes keep them.

No API server is needed for that, and what a launcher said stays known when its pod is gone.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from devcluster.nodes import find_node
from devcluster.settings import find_cluster
from et_kube.clock import SystemClock
from tests.chaos.records import Step
from tests.e2e.world import PAUSE

EACH = 0.5
"""Seconds between two looks."""
_STEP = re.compile(rb"step=(\d+) loss=\S+ size=(\d+) .*\bt=(\d+\.\d\d)$", re.MULTILINE)
Places = Callable[[], Iterable[tuple[str, Path]]]
"""The launchers so far: uid, and the folder of their logs."""


class Tail:
    """What was appended to the files of some folders since the last look."""

    def __init__(self) -> None:
        self._read: dict[Path, int] = {}

    def read(self, folder: Path) -> bytes:
        """Whole lines alone; the rest comes with the next look."""
        found = b""
        for path in sorted(folder.glob("*.log")):
            try:
                with path.open("rb") as stream:
                    stream.seek(self._read.get(path, 0))
                    text = stream.read()
            except FileNotFoundError:
                continue  # its pod goes
            whole = text[: text.rfind(b"\n") + 1]
            self._read[path] = self._read.get(path, 0) + len(whole)
            found += whole
        return found


class Telling:
    """Follows the launchers of a job while it is open, and keeps what they said, with times."""

    def __init__(self, places: Places, kept: Path) -> None:
        self._places = places
        self._kept = kept
        self._steps: list[Step] = []
        self._tail = Tail()
        self._over = threading.Event()
        self._ahead = SystemClock().now().timestamp() - time.monotonic()
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()

    def list_steps(self) -> list[Step]:
        """All so far, by the time that they tell."""
        return sorted(self._steps, key=lambda step: step.at)

    def close(self) -> None:
        """After one last look."""
        self._over.set()
        self._thread.join()

    def _follow(self) -> None:
        is_over = False
        while not is_over:
            is_over = self._over.is_set()
            for uid, folder in self._places():
                text = self._tail.read(folder)
                self._steps += parse_steps(text, uid, self._ahead)
                with (self._kept / f"launcher-{uid}.log").open("ab") as stream:
                    stream.write(text)
            PAUSE.wait(EACH)


def parse_steps(text: bytes, launcher: str, ahead: float) -> list[Step]:
    """Of lines as a node keeps them; `ahead` is what their clock has more than ours."""
    found = _STEP.findall(text)
    return [Step(int(n), int(size), float(at) - ahead, launcher) for n, size, at in found]


def find_folder(namespace: str, name: str, uid: str, node: str) -> Path:
    """Where a node keeps the log of a launcher's own container."""
    pods = find_node(find_cluster(), node).folder / "pods"
    return pods / f"{namespace}_{name}_{uid}" / "launcher"
