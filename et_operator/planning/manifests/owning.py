"""What every child of a job has in its metadata."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from et_kube.resources import TRAINING_JOBS
from et_operator.model.jobs import TrainingJob


def build_owner(job: TrainingJob) -> dict[str, Any]:
    """An owner reference to the job; it never blocks the job's deletion."""
    return {
        "apiVersion": TRAINING_JOBS.api_version,
        "kind": TRAINING_JOBS.kind,
        "name": job.key.name,
        "uid": job.uid,
        "controller": True,
    }


def build_metadata(job: TrainingJob, name: str, labels: Mapping[str, str]) -> dict[str, Any]:
    """Metadata of a child that the job controls."""
    return {
        "name": name,
        "namespace": job.key.namespace,
        "labels": dict(labels),
        "ownerReferences": [build_owner(job)],
    }
