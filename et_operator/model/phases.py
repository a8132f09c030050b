"""Phases, for people who read `kubectl get`: computed from all the rest.

Of a ScaleIn or ScaleOut the final ones are read back, for nothing follows them; no other phase
decides anything.
"""

from __future__ import annotations

from enum import StrEnum


class JobPhase(StrEnum):
    """Phase of a TrainingJob."""

    CREATED = "Created"
    WAITING = "Waiting"
    RUNNING = "Running"
    SCALING = "Scaling"
    RESTARTING = "Restarting"
    SUSPENDED = "Suspended"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


class ScalingPhase(StrEnum):
    """Phase of a ScaleIn or ScaleOut; its last condition has the same type, as in et-operator."""

    CREATED = "Created"
    SCALING = "Scaling"
    SCRIPT_EXECUTED = "ScriptExecuted"
    SUCCEEDED = "ScaleSucceeded"
    FAILED = "ScaleFailed"

    @property
    def is_final(self) -> bool:
        """Whether nothing will follow."""
        return self in {ScalingPhase.SUCCEEDED, ScalingPhase.FAILED}
