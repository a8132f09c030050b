"""Reports for people, as events.k8s.io/v1 Events: said once, counted when repeated.

An Event that is lost hurts nobody; one that delays a decision does. So the queue is bounded, what
does not fit is dropped and counted, and nothing is tried twice. Namespaces take turns, and what one
of them floods or holds up costs the Events of no other.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Generic, TypeVar

import structlog

from et_kube.api import Api
from et_kube.clock import Clock
from et_kube.errors import KubeError, NotFound
from et_kube.reports import Report
from et_kube.resources import EVENTS, Json, Ref
from et_kube.times import format_micro_time
from et_runtime.lanes import Lanes
from et_runtime.workqueue import WorkQueue

log = structlog.get_logger()

ACTION = "Reconcile"
MAX_NOTE = 1024
MAX_INSTANCE = 128
MAX_NAME = 200
MAX_QUEUED = 4000
"""Reports that wait, of all namespaces. One may have as many as there is room left: alone it has
half of the queue, and a newcomer always finds room."""
WRITERS = 8
SLOW_WRITERS = 4
"""Tasks that write Events, and how many of them slow namespaces have together; each has one."""
MAX_REMEMBERED = 4096

REPEAT_PERIOD = 60.0
"""Seconds in which a repeated report is only counted; the next repeat after it writes the count."""

BURST = 15.0
REFILL_SECONDS = 30.0
"""What one object may say for one reason: so many at once, then one each so many seconds. There are
a few dozen reasons; a job that loses hundreds of workers can still say that it has failed."""

K = TypeVar("K")
V = TypeVar("V")


class Recent(OrderedDict[K, V], Generic[K, V]):
    """A dict that forgets what was set longest ago."""

    def __setitem__(self, key: K, value: V) -> None:
        super().__setitem__(key, value)
        self.move_to_end(key)
        while len(self) > MAX_REMEMBERED:
            self.popitem(last=False)


@dataclass(slots=True)
class Series:
    """One report and its repeats."""

    report: Report
    first: datetime
    last: datetime
    count: int = 0
    name: str = ""  # of the Event, once there is one
    written_at: float = 0.0


class Recorder:
    """Turns reports into Events, in WRITERS tasks that run it.

    Args:
        api: where to write.
        clock: for times and limits.
        controller: what reports, as "group/program".
        instance: which of its replicas, as in the leader lease.
        on_drop: told why each time that something was not recorded.
    """

    def __init__(
        self,
        api: Api,
        clock: Clock,
        *,
        controller: str,
        instance: str,
        on_drop: Callable[[str], None] | None = None,
    ) -> None:
        self._api = api
        self._clock = clock
        self._controller = controller
        self._instance = instance[:MAX_INSTANCE]
        self._on_drop = on_drop
        self._series: Recent[Report, Series] = Recent()
        self._allowances: Recent[tuple[str, str], tuple[float, float]] = Recent()
        lanes = Lanes(find_namespace, 1, slow_share=SLOW_WRITERS, now=clock.monotonic)
        self._queue: WorkQueue[Report] = WorkQueue(clock, lanes=lanes)
        self._queued: dict[Report, Series] = {}
        self._waiting: Counter[str] = Counter()  # of _queued, by namespace
        self._sequence = 0

    def record(self, report: Report) -> None:
        """Take a report to be written soon, or counted, or dropped; returns at once."""
        report = replace(report, message=cut(report.message, MAX_NOTE))  # as much as is kept of it
        now = self._clock.now()
        series = self._series.get(report) or Series(report, first=now, last=now)
        self._series[report] = series
        series.count += 1
        series.last = now
        if report in self._queued or self._is_fresh(series):
            return
        if not self._spend((report.uid, report.reason)):
            self._drop("rate")
        elif self._waiting[find_namespace(report)] >= MAX_QUEUED - len(self._queued):
            self._drop("queue")
        else:
            self._queued[report] = series
            self._waiting[find_namespace(report)] += 1
            self._queue.add(report)

    async def run(self) -> None:
        """Write what was recorded, one after another; never ends."""
        while True:
            report = await self._queue.get()
            try:
                await self._write(self._take(report))
            except KubeError as error:
                log.warning("event not recorded", about=str(report.ref), why=str(error))
                self._drop(type(error).__name__)
            except Exception as error:  # no report is worth the process
                log.exception("event not recorded", about=str(report.ref))
                self._drop(type(error).__name__)
            finally:
                self._queue.done(report)

    def _take(self, report: Report) -> Series:
        namespace = find_namespace(report)
        self._waiting[namespace] -= 1
        if not self._waiting[namespace]:
            del self._waiting[namespace]
        return self._queued.pop(report)

    def _is_fresh(self, series: Series) -> bool:
        """Whether people can read it already, but for the count."""
        return bool(series.name) and self._clock.monotonic() - series.written_at < REPEAT_PERIOD

    def _spend(self, topic: tuple[str, str]) -> bool:
        """Take one from what an object may say for a reason; False if nothing is left."""
        now = self._clock.monotonic()
        left, since = self._allowances.get(topic, (BURST, now))
        left = min(BURST, left + (now - since) / REFILL_SECONDS)
        self._allowances[topic] = (max(left - 1, 0.0) if left >= 1 else left, now)
        return left >= 1

    def _drop(self, reason: str) -> None:
        if self._on_drop is not None:
            self._on_drop(reason)

    async def _write(self, series: Series) -> None:
        """Make the Event, or write how often it has happened."""
        namespace = find_namespace(series.report)
        if series.name:
            try:
                await self._api.patch(Ref(EVENTS, namespace, series.name), count_repeats(series))
            except NotFound:  # Events live for an hour
                series.name = ""
                series.count = 1
                series.first = series.last
        if not series.name:
            event = self._build(series, namespace)
            await self._api.create(EVENTS, namespace, event)
            series.name = event["metadata"]["name"]
        series.written_at = self._clock.monotonic()

    def _build(self, series: Series, namespace: str) -> Json:
        report = series.report
        self._sequence += 1
        stamp = int(self._clock.now().timestamp() * 1_000_000)
        event: dict[str, Any] = {
            "apiVersion": EVENTS.api_version,
            "kind": EVENTS.kind,
            "metadata": {
                "name": f"{report.ref.name[:MAX_NAME]}.{stamp:x}{self._sequence:x}",
                "namespace": namespace,
            },
            "eventTime": format_micro_time(series.first),
            "reportingController": self._controller,
            "reportingInstance": self._instance,
            "action": ACTION,
            "reason": report.reason,
            "type": "Warning" if report.is_warning else "Normal",
            "note": report.message,
            "regarding": {
                "apiVersion": report.ref.resource.api_version,
                "kind": report.ref.resource.kind,
                "namespace": report.ref.namespace,
                "name": report.ref.name,
                "uid": report.uid,
            },
        }
        return {**event, **count_repeats(series)} if series.count > 1 else event


def find_namespace(report: Report) -> str:
    """Where its Event is: that of its object, or "default"."""
    return report.ref.namespace or "default"


def count_repeats(series: Series) -> Json:
    """How often, and when last."""
    last = format_micro_time(series.last)
    return {"series": {"count": series.count, "lastObservedTime": last}}


def cut(text: str, limit: int) -> str:
    """Text of at most so many bytes, whole characters, with dots where something is missing."""
    encoded = text.encode()
    if len(encoded) <= limit:
        return text
    return encoded[: limit - 3].decode(errors="ignore") + "..."
