"""The operator's own metrics; docs/metrics.md lists each with its labels."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import generate_latest

SECONDS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


class Metrics:
    """Every metric of the process, in a registry of its own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.passes = Counter(
            "et_operator_reconciles",
            "Reconcile passes by result: changed, unchanged, conflict, refused, stale, unanswered, "
            "error.",
            ["result"],
            registry=self.registry,
        )
        self.causes = Counter(
            "et_operator_reconcile_causes",
            "Reconcile passes by what made them due: list, job, scaling, pod, node, child, write, "
            "timer, stale, retry.",
            ["cause"],
            registry=self.registry,
        )
        self.pass_seconds = Histogram(
            "et_operator_reconcile_seconds",
            "Duration of a reconcile pass, its writes included.",
            buckets=SECONDS,
            registry=self.registry,
        )
        self.plan_seconds = Histogram(
            "et_operator_plan_seconds",
            "Duration of the decision alone.",
            buckets=SECONDS,
            registry=self.registry,
        )
        self.actions = Counter(
            "et_operator_actions",
            "Writes that plans asked for, by action and kind.",
            ["action", "kind"],
            registry=self.registry,
        )
        self.requests = Counter(
            "et_operator_api_requests",
            "Requests to the API server by verb, resource and status code (0: no answer).",
            ["verb", "resource", "code"],
            registry=self.registry,
        )
        self.request_seconds = Histogram(
            "et_operator_api_request_seconds",
            "Duration of requests to the API server, watches excepted.",
            ["verb", "resource"],
            buckets=SECONDS,
            registry=self.registry,
        )
        self.events_lost = Counter(
            "et_operator_events_lost",
            "Kubernetes Events that could not be recorded.",
            registry=self.registry,
        )
        self.defects = Counter(
            "et_operator_defects",
            "Errors that nobody foresaw and that were contained, by part: object, watch, metrics.",
            ["part"],
            registry=self.registry,
        )
        self.queue_depth = Gauge(
            "et_operator_workqueue_depth",
            "Jobs that wait for a reconcile pass.",
            registry=self.registry,
        )
        self.queue_seconds = Histogram(
            "et_operator_workqueue_wait_seconds",
            "How long a job waited for its pass after it became due.",
            buckets=SECONDS,
            registry=self.registry,
        )
        self.jobs = Gauge(
            "et_operator_jobs",
            "Training jobs by phase.",
            ["phase"],
            registry=self.registry,
        )
        self.unseen = Gauge(
            "et_operator_namespaces_unseen",
            "Namespaces of NAMESPACES (without it: 1 for all) whose view is incomplete or too old.",
            registry=self.registry,
        )
        self.is_leader = Gauge(
            "et_operator_leader",
            "1 while this replica holds the lease.",
            registry=self.registry,
        )

    def note_request(self, verb: str, resource: str, code: int, seconds: float) -> None:
        """Count one request; a watch's duration is its life and says nothing, so it is left out."""
        self.requests.labels(verb, resource, str(code)).inc()
        if verb != "watch":
            self.request_seconds.labels(verb, resource).observe(seconds)

    def render(self) -> bytes:
        """The text that Prometheus scrapes."""
        return generate_latest(self.registry)
