"""Everything that can be configured about the operator, in one frozen place.

A frozen record that cli.py fills in: no environment, file or default of the cluster is read here,
and nothing of it changes while the process runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from et_contract.admissions import DEFAULT_QUEUE
from et_process.settings import ProcessSettings


class Queueing(StrEnum):
    """Whether jobs that name no queue start at once, or wait in one as well."""

    OPTIONAL = "Optional"
    REQUIRED = "Required"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(ProcessSettings):
    """Read from flags and environment by cli; see docs/operations.md for each."""

    identity: str = "et-operator"
    lease_name: str = "et-operator"
    broker_image: str
    broker_pull_secrets: tuple[str, ...] = ()
    namespaces: tuple[str, ...] = ()
    """Empty: the whole cluster."""
    queueing: Queueing = Queueing.OPTIONAL
    workers: int = 32
    """Jobs reconciled at once; those of one namespace have a quarter of them."""
    requests_at_once: int = 16
    """Creations, or deletions of pods, in flight at once, for one job."""

    @property
    def default_queue(self) -> str:
        """The queue of jobs that name none; "": these start at once."""
        return DEFAULT_QUEUE if self.queueing is Queueing.REQUIRED else ""
