"""The sidecar of the launcher: exec streams, the host list, the report."""
