"""What this program is told; docs/spot.md has each.

A frozen record that cli.py fills in; nothing of it changes while the process runs.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Flags before environment."""

    node: str
    """The Node that et-notices runs on, and tells of."""
    cloud: str = ""
    """A name in choosing.CLOUDS; empty: by the node's providerID."""
    metadata_url: str = ""
    """Where the cloud's metadata service is; empty: where it always is."""
    log_format: str = "json"
    log_level: str = "info"
