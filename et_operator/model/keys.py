"""Which job something is about: its name, and the job that an object says to be controlled by.

A name may be another job's tomorrow, so what belongs to a job is told by the uid in Owner; a JobKey
is for queues and lookups. An OwnerReference is of any kind.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from et_kube.resources import TRAINING_JOBS, Ref


@dataclass(frozen=True, slots=True, order=True)
class JobKey:
    """Namespace and name: what a reconcile pass is about."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def ref(self) -> Ref:
        """Where the job is in the API."""
        return Ref(TRAINING_JOBS, self.namespace, self.name)


class Owner(NamedTuple):
    """The job that an object in its namespace says to be controlled by."""

    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class OwnerReference:
    """All that an object says of one owner, to be written again; None where it does not say."""

    api_version: str
    kind: str
    name: str
    uid: str
    is_controller: bool | None = None
    blocks_deletion: bool | None = None
