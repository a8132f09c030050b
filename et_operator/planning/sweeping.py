"""Runtimes of former versions: which of the edl-runtime ConfigMaps of a namespace may go.

No part of a job's pass: the hourly sweep calls it, with a list of pods that it has just read. One
that is younger than an hour stays, for a job that names it may not be seen yet.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from et_kube.resources import CONFIG_MAPS, Ref
from et_operator.model.actions import Delete
from et_operator.model.jobs import TrainingJob
from et_operator.model.names import build_runtime_name
from et_operator.model.snapshots import Child
from et_operator.model.statuses import Runtime

MIN_AGE = timedelta(hours=1)
"""Younger ones may belong to an operator that is taking over, or to a job not yet seen."""


def find_candidates(
    runtimes: Iterable[Child], *, shipped: Runtime, jobs: Iterable[TrainingJob], now: datetime
) -> tuple[Child, ...]:
    """Runtimes that are old, not the current one, and not named by any job's status."""
    named = {shipped.digest, *(job.status.runtime.digest for job in jobs if job.status.runtime)}
    kept = {build_runtime_name(digest) for digest in named}
    return tuple(r for r in runtimes if r.name not in kept and _is_old(r, now))


def plan_sweep(
    namespace: str, candidates: Iterable[Child], mounted: frozenset[str]
) -> tuple[Delete, ...]:
    """Delete the candidates that no pod mounts; `mounted` comes from a list of live pods."""
    return tuple(
        Delete(Ref(CONFIG_MAPS, namespace, child.name), child.uid, child.resource_version)
        for child in candidates
        if child.name not in mounted
    )


def _is_old(child: Child, now: datetime) -> bool:
    return child.created is not None and now - child.created > MIN_AGE
