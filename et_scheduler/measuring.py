"""et-scheduler's metrics; docs/metrics.md lists each with its labels.

Set by assembly.py, deciding.py and acting/writing.py; nothing reads a metric to decide. No label
has the name of a job or a namespace, for there are any number of these.
"""

from __future__ import annotations

from collections.abc import Iterable

import structlog
from prometheus_client import Counter, Gauge, Histogram

from et_contract.admissions import AdmissionState
from et_process.measuring import SECONDS, Measures
from et_scheduler.model.jobs import Admission
from et_scheduler.model.queues import QueueStatus

log = structlog.get_logger()

WAITS = (1, 5, 15, 60, 300, 900, 3600, 4 * 3600, 24 * 3600, 7 * 24 * 3600)


class Metrics(Measures):
    """Every metric of the process, in a registry of its own."""

    def __init__(self) -> None:
        super().__init__("et_scheduler", "object, watch, pass, metrics")
        self.passes = Counter(
            "et_scheduler_passes",
            "Passes over the cluster by result: changed, unchanged, error.",
            ["result"],
            registry=self.registry,
        )
        self.pass_seconds = Histogram(
            "et_scheduler_pass_seconds",
            "Duration of the decision alone.",
            buckets=SECONDS,
            registry=self.registry,
        )
        self.unwritten = Counter(
            "et_scheduler_unwritten",
            "Admissions that could not be written, by error.",
            ["error"],
            registry=self.registry,
        )
        self.starts = Counter(
            "et_scheduler_starts", "Jobs that were admitted.", registry=self.registry
        )
        self.wait_seconds = Histogram(
            "et_scheduler_wait_seconds",
            "From a job's place in line until it was admitted.",
            buckets=WAITS,
            registry=self.registry,
        )
        self.evictions = Counter(
            "et_scheduler_evictions",
            "Admitted jobs that went back into the line, by reason.",
            ["reason"],
            registry=self.registry,
        )
        self.resizes = Counter(
            "et_scheduler_resizes",
            "Changes of the size of admitted jobs by direction: larger, smaller.",
            ["direction"],
            registry=self.registry,
        )
        self.jobs = Gauge(
            "et_scheduler_jobs",
            "Jobs by queue and state: waiting, running.",
            ["queue", "state"],
            registry=self.registry,
        )
        self.shares = Gauge(
            "et_scheduler_share",
            "What queues have and are due by queue, resource and part: allocated, deserved.",
            ["queue", "resource", "part"],
            registry=self.registry,
        )
        self.behind = Gauge(
            "et_scheduler_behind",
            "Kinds of which something may be missing: nothing is decided unless it is 0.",
            registry=self.registry,
        )

    def note_full(self, namespace: str) -> None:
        """Of what pods of a namespace ask some is left out, as an object that cannot be read."""
        why = "too much that is large: affinities, tolerations, resources, ports"
        log.error("pods are left out: nobody makes room for them", namespace=namespace, why=why)
        self.defects.labels("object").inc()

    def note_change(self, was: Admission, told: Admission) -> None:
        """Count one admission that was written."""
        is_new = told.number > was.number
        if told.state is AdmissionState.ADMITTED and is_new:
            self.starts.inc()
            self.wait_seconds.observe(max(told.since - told.queued_at, 0) / 1000)
        elif told.state is AdmissionState.ADMITTED and told.workers != was.workers:
            self.resizes.labels("larger" if told.workers > was.workers else "smaller").inc()
        elif told.state is AdmissionState.WAITING and was.state is AdmissionState.ADMITTED:
            self.evictions.labels(told.reason.value or "Suspended").inc()

    def show_queues(self, statuses: Iterable[QueueStatus]) -> None:
        """What a pass has found of them; queues that are gone are gone here too."""
        self.jobs.clear()
        self.shares.clear()
        for one in statuses:
            self.jobs.labels(one.name, "waiting").set(one.waiting)
            self.jobs.labels(one.name, "running").set(one.running)
            for part, amounts in (("allocated", one.allocated), ("deserved", one.deserved)):
                for resource, amount in amounts.items():
                    self.shares.labels(one.name, resource, part).set(amount)
