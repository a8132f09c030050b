"""What every child of a job has in its metadata."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from et_operator.codec.encoding import encode_owner
from et_operator.model.jobs import TrainingJob


def build_metadata(job: TrainingJob, name: str, labels: Mapping[str, str]) -> dict[str, Any]:
    """Metadata of a child that the job controls."""
    return {
        "name": name,
        "namespace": job.key.namespace,
        "labels": dict(labels),
        "ownerReferences": [encode_owner(job.owner)],
    }
