"""Everything that can be configured about et-scheduler, in one frozen place.

A frozen record that cli.py fills in: no environment and no file is read here, and nothing of it
changes while the process runs.
"""

from __future__ import annotations

from dataclasses import dataclass

from et_process.settings import ProcessSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(ProcessSettings):
    """Read from flags and environment by cli; see docs/operations.md for each."""

    identity: str = "et-scheduler"
    lease_name: str = "et-scheduler"
    is_observing: bool = False
    """Decide and show, and write nothing: no admission, no status, no Event, no lease."""
    pool_label: str = ""
    """What nodes with another value of this label have are other resources; empty: all the same."""
    service_headroom: str = ""
    """Room that is kept for pods of others, as codec/headroom reads it; empty: none."""
    level_quiet: int = 0
    """Seconds after a start in which nobody shrinks for the level of all."""
    record: str = ""
    """File that passes are kept in; empty: none."""
    is_hashing: bool = False
    """Whether names are hashed in it."""
