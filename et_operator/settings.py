"""Everything that can be configured about the operator, in one frozen place."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta


@dataclass(frozen=True, slots=True)
class Settings:
    """Read from flags and environment by cli; see docs/operations.md for each."""

    broker_image: str
    broker_pull_secrets: tuple[str, ...] = ()
    namespaces: tuple[str, ...] = ()
    """Empty: the whole cluster."""
    own_namespace: str = "et-operator"
    identity: str = "et-operator"
    """Name of this replica in the leader lease."""
    lease_name: str = "et-operator"
    lease_duration: timedelta = timedelta(seconds=15)
    renew_deadline: timedelta = timedelta(seconds=10)
    retry_period: timedelta = timedelta(seconds=2)
    workers: int = 32
    """Jobs reconciled at once; those of one namespace have a quarter of them."""
    requests_at_once: int = 16
    """Creations, or deletions of pods, in flight at once, for one job."""
    http_port: int = 8080
    """/healthz, /readyz, /metrics."""
    log_format: str = "json"
    """json or console."""
    log_level: str = "info"
