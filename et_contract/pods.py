"""How the pods of a job are called and marked: what the operator makes, who shares a cluster reads.

A name cannot be changed, a label can: nothing is concluded from a number in a label.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

LABEL_GROUP = "group-name"
LABEL_JOB = "training-job-name"
LABEL_ROLE = "training-job-role"
MAX_POD_NAME = 63
INDEX_DIGITS = 6
MAX_JOB_NAME = MAX_POD_NAME - len("-worker-") - INDEX_DIGITS
"""49: `<job>-worker-<6 digits>` must be a DNS label, for Horovod uses it as a host name."""
MAX_INDEX = 10**INDEX_DIGITS - 1
"""The last worker's; after it the numbers begin anew, past those that are in use."""
_MAX_EPOCH_DIGITS = 9
MAX_EPOCH = 10**_MAX_EPOCH_DIGITS - 1
ENDED = frozenset({"Succeeded", "Failed"})
"""Phases of a pod that never runs again: it holds nothing, and may be there for its log."""
_WORKER = re.compile(rf".+-worker-(0|[1-9]\d{{0,{INDEX_DIGITS - 1}}})")
_LAUNCHER = re.compile(rf".+-launcher(?:-r([1-9]\d{{0,{_MAX_EPOCH_DIGITS - 1}}}))?")


def read_command(container: Mapping[str, Any]) -> list[Any]:
    """What it runs: `command`, then `args`. Whose words these are has been checked elsewhere."""
    return [*(container.get("command") or ()), *(container.get("args") or ())]


class Role(StrEnum):
    """What a pod of a job is for."""

    LAUNCHER = "launcher"
    WORKER = "worker"


def build_worker_name(job: str, index: int) -> str:
    """`<job>-worker-<index>`; an index is never used twice in a job's life."""
    return f"{job}-worker-{index}"


def read_worker_index(name: str) -> int | None:
    """The index in a worker's name, 0 to MAX_INDEX; None where it has none."""
    found = _WORKER.fullmatch(name)
    return int(found[1]) if found else None


def read_own_index(name: str, job: str) -> int | None:
    """The index in the name of a worker of this job; None for what is no name of one."""
    index = read_worker_index(name)
    return index if index is not None and name == build_worker_name(job, index) else None


def read_launcher_epoch(name: str) -> int | None:
    """The epoch in a launcher's name (see build_launcher_name); None where it has none."""
    found = _LAUNCHER.fullmatch(name)
    return None if found is None else int(found[1] or 0) + 1


def build_launcher_name(job: str, epoch: int) -> str:
    """`<job>-launcher` for the first epoch, `<job>-launcher-r<epoch - 1>` for later ones."""
    return f"{job}-launcher" if epoch <= 1 else f"{job}-launcher-r{epoch - 1}"


def is_called(name: str, job: str, role: str) -> bool:
    """Whether a pod of this job and role can be called so."""
    if role == Role.WORKER:
        return read_own_index(name, job) is not None
    if role == Role.LAUNCHER:
        epoch = read_launcher_epoch(name)
        return epoch is not None and name == build_launcher_name(job, epoch)
    return False


def read_role(name: str, job: str) -> Role | None:
    """What a pod of this job that is called so is for; None for what is no name of one."""
    return next((role for role in Role if is_called(name, job, role)), None)
