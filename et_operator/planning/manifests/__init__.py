"""The objects that a job needs, as JSON."""
