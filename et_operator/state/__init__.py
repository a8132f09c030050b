"""What the operator believes about the cluster: synchronous, in memory.

Watches and answers to our own writes come in through `ingesting`, snapshots go out through `views`.
It never asks the API server, and never decides what to do about a job.
"""
