"""Shares a cluster between training jobs: how many workers each may have, when, and where.

A program of its own, in the operator's layers (docs/architecture.md). It sees all pods and nodes
and writes `status.admission` of jobs and the statuses of queues; it makes and deletes no pod, and
knows neither operator nor launcher.
"""
