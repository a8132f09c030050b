"""The decisions: pure, synchronous functions from a snapshot to a plan.

No clock, no logger, no I/O; `now` is handed in. They read the model and write a Draft, and never
know what an API server is.
"""
