"""The decisions: pure, synchronous functions from a snapshot to a plan."""
