"""The metrics that every process of ours has; its own ones come beside them.

Operator and et-scheduler derive theirs from it, serving.py renders them. No label here has the name
of an object: there are any number of these.
"""

from __future__ import annotations

import structlog
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import generate_latest

from et_kube.resources import Json, Resource
from et_kube.tables import identify

SECONDS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
"""Buckets of durations."""
MAX_TEXT = 512
"""Characters of others' words in a log line."""

log = structlog.get_logger()


class Measures:
    """A process's metrics, in a registry of its own; their names begin with `prefix`.

    `parts` says, for people, where a defect can be contained.
    """

    def __init__(self, prefix: str, parts: str) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            f"{prefix}_api_requests",
            "Requests to the API server by verb, resource and status code (0: no answer).",
            ["verb", "resource", "code"],
            registry=self.registry,
        )
        self.request_seconds = Histogram(
            f"{prefix}_api_request_seconds",
            "Duration of requests to the API server, watches excepted.",
            ["verb", "resource"],
            buckets=SECONDS,
            registry=self.registry,
        )
        self.events_lost = Counter(
            f"{prefix}_events_lost",
            "Kubernetes Events that could not be recorded.",
            registry=self.registry,
        )
        self.defects = Counter(
            f"{prefix}_defects",
            f"Errors that nobody foresaw and that were contained, by part: {parts}.",
            ["part"],
            registry=self.registry,
        )
        self.is_leader = Gauge(
            f"{prefix}_leader",
            "1 while this replica holds the lease.",
            registry=self.registry,
        )

    def note_request(self, verb: str, resource: str, code: int, seconds: float) -> None:
        """Count one request; a watch's duration is its life and says nothing, so it is left out."""
        self.requests.labels(verb, resource, str(code)).inc()
        if verb != "watch":
            self.request_seconds.labels(verb, resource).observe(seconds)

    def note_unreadable(self, resource: Resource, obj: Json, error: Exception) -> None:
        """An object that cannot be read is left out: a log line, and a count."""
        (namespace, name), _ = identify(obj)
        what = f"{resource.kind} {namespace}/{name}"[:MAX_TEXT]
        why = f"{type(error).__name__}: {error}"[:MAX_TEXT]
        log.error("an object cannot be read and is left out", what=what, why=why)
        self.defects.labels("object").inc()

    def render(self) -> bytes:
        """The text that Prometheus scrapes."""
        return generate_latest(self.registry)
