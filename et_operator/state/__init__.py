"""What the operator believes about the cluster: synchronous, in memory.

Watches and answers to our own writes come in through `ingesting`, which has the codec read them;
snapshots go out through `views`; `answers` remembers what the server refused. Times are handed in.
It never asks the API server, knows nothing of planning, and never decides what to do about a job.
"""
