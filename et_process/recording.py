"""Events for people (events.k8s.io/v1): said once, counted when repeated.

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
from et_kube.events import Event
from et_kube.resources import EVENTS, Json, Ref
from et_kube.times import format_micro_time
from et_process.lanes import Lanes
from et_process.workqueue import WorkQueue

log = structlog.get_logger()

ACTION = "Reconcile"
MAX_NOTE = 1024
MAX_INSTANCE = 128
MAX_NAME = 200
MAX_QUEUED = 4000
"""Events that wait, of all namespaces. One may have as many as there is room left: alone it has
half of the queue, and a newcomer always finds room."""
WRITERS = 8
SLOW_WRITERS = 4
"""Tasks that write Events, and how many of them slow namespaces have together; each has one."""
MAX_REMEMBERED = 4096

REPEAT_PERIOD = 60.0
"""Seconds in which a repeated event is only counted; the next repeat after it writes the count."""

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
    """One event and its repeats."""

    event: Event
    first: datetime
    last: datetime
    count: int = 0
    name: str = ""  # of the Event, once there is one
    written_at: float = 0.0


class Recorder:
    """Writes Events, in WRITERS tasks that run it.

    Args:
        api: where to write.
        clock: for times and limits.
        controller: what reports them, as "group/program".
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
        self._series: Recent[Event, Series] = Recent()
        self._allowances: Recent[tuple[str, str], tuple[float, float]] = Recent()
        lanes = Lanes(find_namespace, 1, slow_share=SLOW_WRITERS, now=clock.monotonic)
        self._queue: WorkQueue[Event] = WorkQueue(clock, lanes=lanes)
        self._queued: dict[Event, Series] = {}
        self._waiting: Counter[str] = Counter()  # of _queued, by namespace
        self._sequence = 0

    def record(self, event: Event) -> None:
        """Take an Event to be written soon, or counted, or dropped; returns at once."""
        event = replace(event, message=cut(event.message, MAX_NOTE))  # as much as is kept of it
        now = self._clock.now()
        series = self._series.get(event) or Series(event, first=now, last=now)
        self._series[event] = series
        series.count += 1
        series.last = now
        if event in self._queued or self._is_fresh(series):
            return
        if not self._spend((event.uid, event.reason)):
            self._drop("rate")
        elif self._waiting[find_namespace(event)] >= MAX_QUEUED - len(self._queued):
            self._drop("queue")
        else:
            self._queued[event] = series
            self._waiting[find_namespace(event)] += 1
            self._queue.add(event)

    async def run(self) -> None:
        """Write what was recorded, one after another; never ends."""
        while True:
            event = await self._queue.get()
            try:
                await self._write(self._take(event))
            except KubeError as error:
                log.warning("event not recorded", about=str(event.ref), why=str(error))
                self._drop(type(error).__name__)
            except Exception as error:  # no event is worth the process
                log.exception("event not recorded", about=str(event.ref))
                self._drop(type(error).__name__)
            finally:
                self._queue.done(event)

    def _take(self, event: Event) -> Series:
        namespace = find_namespace(event)
        self._waiting[namespace] -= 1
        if not self._waiting[namespace]:
            del self._waiting[namespace]
        return self._queued.pop(event)

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
        namespace = find_namespace(series.event)
        if series.name:
            try:
                await self._api.patch(Ref(EVENTS, namespace, series.name), count_repeats(series))
            except NotFound:  # Events live for an hour
                series.name = ""
                series.count = 1
                series.first = series.last
        if not series.name:
            manifest = self._build(series, namespace)
            await self._api.create(EVENTS, namespace, manifest)
            series.name = manifest["metadata"]["name"]
        series.written_at = self._clock.monotonic()

    def _build(self, series: Series, namespace: str) -> Json:
        event = series.event
        self._sequence += 1
        stamp = int(self._clock.now().timestamp() * 1_000_000)
        beginning = event.ref.name[:MAX_NAME].rstrip("-.")  # of no name a part ends so
        manifest: dict[str, Any] = {
            "apiVersion": EVENTS.api_version,
            "kind": EVENTS.kind,
            "metadata": {
                "name": f"{beginning}.{stamp:x}{self._sequence:x}",
                "namespace": namespace,
            },
            "eventTime": format_micro_time(series.first),
            "reportingController": self._controller,
            "reportingInstance": self._instance,
            "action": ACTION,
            "reason": event.reason,
            "type": "Warning" if event.is_warning else "Normal",
            "note": event.message,
            "regarding": {
                "apiVersion": event.ref.resource.api_version,
                "kind": event.ref.resource.kind,
                "namespace": event.ref.namespace,
                "name": event.ref.name,
                "uid": event.uid,
            },
        }
        return {**manifest, **count_repeats(series)} if series.count > 1 else manifest


def find_namespace(event: Event) -> str:
    """Where it is written: that of its object, or "default"."""
    return event.ref.namespace or "default"


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
