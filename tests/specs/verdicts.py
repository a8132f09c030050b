"""How the story of an object has ended, judged by what its author can see."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from et_operator.model.phases import JobPhase, ScalingPhase

Object = Mapping[str, Any]


class Verdict(StrEnum):
    """Every one of them is a good end; that nothing can be said is none."""

    REFUSED = "refused"
    TOLD = "told"
    WAITS = "waits"
    RUNS = "runs"
    ENDED = "ended"


_FIELD = re.compile(r"\b(spec|metadata|status)[.\[:]")
_TROUBLES = frozenset(
    {"PodsRefused", "WritesRefused", "ImagePullFailing", "ContainerConfigInvalid", "Unschedulable",
     "RuntimeMissing", "NameTaken", "WorkersFailing", "NotElastic", "ImageUnfit", "LauncherTrouble"}
)  # fmt: skip
"""Conditions that say what a job waits for."""
_SENTENCE = 10


def is_sentence(text: str) -> bool:
    """Whether somebody could do something about it."""
    return len(text) >= _SENTENCE and " " in text


def judge_job(job: Object, pods: int) -> Verdict | None:
    """What became of a TrainingJob that has so many pods; None while nobody can know."""
    status = job.get("status") or {}
    said = {
        c["type"]: str(c.get("message") or "")
        for c in status.get("conditions") or ()
        if c.get("status") in {"True", "Unknown"}
    }
    if any(kind in {"InvalidSpec", "StatusDamaged"} and is_field(said[kind]) for kind in said):
        return Verdict.TOLD
    phase = status.get("phase")
    if phase == JobPhase.FAILED:
        return Verdict.ENDED if is_sentence(said.get("Failed", "")) else None
    if phase == JobPhase.SUCCEEDED:
        return Verdict.ENDED
    if status.get("observedGeneration") != job["metadata"].get("generation"):
        return None
    if any(kind in _TROUBLES and is_sentence(said[kind]) for kind in said):
        return Verdict.WAITS
    if phase in {JobPhase.RUNNING, JobPhase.SCALING, JobPhase.RESTARTING}:
        return Verdict.RUNS
    if phase in {JobPhase.SUSPENDED, JobPhase.WAITING} or (
        phase == JobPhase.CREATED and pods >= count_pods(job)
    ):
        return Verdict.WAITS
    return None


def count_pods(job: Object) -> int:
    """How many pods a job that has just begun should have; the launcher may come later."""
    return int(job["spec"]["etReplicaSpecs"]["worker"].get("replicas", 1))


def is_field(message: str) -> bool:
    """Whether a message names a field."""
    return bool(_FIELD.search(message))


def judge_scaling(scaling: Object) -> Verdict | None:
    """What became of a ScaleIn or ScaleOut; None while nobody can know."""
    status = scaling.get("status") or {}
    phase = status.get("phase")
    last = (status.get("conditions") or [{}])[-1]
    if phase in {ScalingPhase.SUCCEEDED, ScalingPhase.FAILED}:
        return Verdict.ENDED if is_sentence(str(last.get("message") or "")) else None
    return Verdict.WAITS if phase else None
