"""Everything that can be configured about et-scheduler, in one frozen place."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta


@dataclass(frozen=True, slots=True)
class Settings:
    """Read from flags and environment by cli; see docs/operations.md for each."""

    own_namespace: str = "et-operator"
    identity: str = "et-scheduler"
    """Name of this replica in the leader lease."""
    lease_name: str = "et-scheduler"
    lease_duration: timedelta = timedelta(seconds=15)
    renew_deadline: timedelta = timedelta(seconds=10)
    retry_period: timedelta = timedelta(seconds=2)
    is_observing: bool = False
    """Decide and show, and write nothing: no admission, no status, no Event, no lease."""
    record: str = ""
    """File that passes are kept in; empty: none."""
    http_port: int = 8080
    """/healthz, /readyz, /metrics."""
    log_format: str = "json"
    """json or console."""
    log_level: str = "info"
