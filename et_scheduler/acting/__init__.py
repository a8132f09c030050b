"""Decisions become one patch a job, statuses of queues, Events."""
