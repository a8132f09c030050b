"""Model objects to the bodies of requests."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from et_operator.codec.statuses import encode_status
from et_operator.model.jobs import JobStatus
from et_operator.model.scalings import ScalingStatus


def encode_status_patch(status: JobStatus, unread: Collection[str] = ()) -> dict[str, Any]:
    """The merge patch for a TrainingJob's `status` subresource; what has no value is removed.

    What could not be read (`unread`) stays as it is.
    """
    body = encode_status(status)
    return {"status": {key: value for key, value in body.items() if key not in unread}}


def encode_scaling_status_patch(status: ScalingStatus) -> dict[str, Any]:
    """The merge patch for a scaling's `status` subresource; what has no value is removed."""
    return {"status": encode_status(status)}
