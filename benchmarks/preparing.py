"""Bringing up what figures need, before anything is measured.

Runs devcluster as a user does, before the processes that measure begin. Limits that one place needs
are taken back before the next (`restore`).
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping

from benchmarks.findings import Place
from benchmarks.machines import ROOT
from devcluster import processes
from devcluster.settings import find_cluster

SIMULATED_NODES = 12
"""Of 1,000 pods each: 10,000 pods and some room."""
SHIPPED_RATE = "50"
"""Requests a second of Kubernetes' scheduler, unless somebody raised it (twice that at once)."""


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
    is_small = place in {Place.CLUSTER, Place.TRAINING}
    extra = [] if is_small else ["--simulated", str(SIMULATED_NODES)]
    if place is Place.SHIPPED:
        stop_limited()
    _run(["devcluster/prerequisites.sh"])
    _run([sys.executable, "-m", "devcluster", "up", *extra], find_limits(place))
    if place is Place.TRAINING:
        _run([sys.executable, "-m", "devcluster", "images", "--load"])
    _run([sys.executable, "-m", "devcluster", "deploy"])


def find_limits(place: Place) -> dict[str, str]:
    """The environment that makes `up` start scheduler and controller manager as a place says."""
    return {"DEVCLUSTER_QPS": SHIPPED_RATE} if place is Place.SHIPPED else {}


def stop_limited() -> None:
    """End what has limits of its own; the next `up` starts it with those that it is told."""
    cluster = find_cluster()
    for name in ("scheduler", "controller-manager"):
        processes.stop(cluster, name)


def restore(place: Place) -> None:
    """Leave the cluster as others expect it."""
    if place is Place.SHIPPED:
        stop_limited()
        _run([sys.executable, "-m", "devcluster", "up"])


def take_down() -> None:
    """End the cluster."""
    _run([sys.executable, "-m", "devcluster", "down"])


def _run(command: list[str], extra: Mapping[str, str] | None = None) -> None:
    environment = {**os.environ, "PY": sys.executable, **(extra or {})}
    code = subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode
    if code:
        raise PreparationFailed(f"{' '.join(command)} ended with {code}")
