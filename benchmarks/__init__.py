"""Measurements of the operator beside the bare platform; `make bench` writes RESULTS.md."""
