"""Bringing up what figures need, before anything is measured."""

from __future__ import annotations

import os
import subprocess
import sys

from benchmarks.findings import Place
from benchmarks.machines import ROOT

SIMULATED_NODES = 12
"""Of 1,000 pods each: 10,000 pods and some room."""


class PreparationFailed(Exception):  # noqa: N818 (a fact)
    """A step did not work; it has said why itself."""


def is_cluster_up() -> bool:
    """Whether the cluster of this checkout runs already."""
    command = [sys.executable, "-m", "devcluster", "status"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, check=False)
    return not done.returncode


def prepare(place: Place) -> None:
    """Have the cluster up with this checkout's operator on it, and simulated nodes where asked for.

    Raises PreparationFailed.
    """
    if place is Place.NOTHING:
        return
    extra = ["--simulated", str(SIMULATED_NODES)] if place is Place.SIMULATED else []
    _run(["devcluster/prerequisites.sh"])
    _run([sys.executable, "-m", "devcluster", "up", *extra])
    _run([sys.executable, "-m", "devcluster", "deploy"])


def take_down() -> None:
    """End the cluster."""
    _run([sys.executable, "-m", "devcluster", "down"])


def _run(command: list[str]) -> None:
    environment = {**os.environ, "PY": sys.executable}
    code = subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode
    if code:
        raise PreparationFailed(f"{' '.join(command)} ended with {code}")
