"""Asyncio without Kubernetes: time, queue, backoff, supervision."""
