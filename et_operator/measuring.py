"""The operator's own metrics; docs/metrics.md lists each with its labels.

Set by assembly.py and reconciling.py; nothing reads a metric to decide. No label has the name of a
job or a namespace: what is told of one job is in its status.
"""

from __future__ import annotations

from prometheus_client import Counter, Gauge, Histogram

from et_process.measuring import SECONDS, Measures


class Metrics(Measures):
    """Every metric of the process, in a registry of its own."""

    def __init__(self) -> None:
        super().__init__("et_operator", "object, watch, metrics")
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
        self.troubles = Gauge(
            "et_operator_job_troubles",
            "Jobs that have not ended and have a trouble, by the condition that says so.",
            ["condition"],
            registry=self.registry,
        )
        self.unseen = Gauge(
            "et_operator_namespaces_unseen",
            "Namespaces of NAMESPACES (without it: 1 for all) whose view is incomplete or too old.",
            registry=self.registry,
        )
