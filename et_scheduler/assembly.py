"""The composition root: the only place that wires concrete parts, and what the process runs."""

from __future__ import annotations

import math
from datetime import timedelta
from pathlib import Path

import structlog

from et_kube import __version__
from et_kube.clock import Clock, SystemClock
from et_kube.connecting import connect
from et_kube.errors import NotLeader
from et_kube.leasing import Lease
from et_kube.resources import GROUP, Json, Resource
from et_kube.rest import Rest
from et_kube.watching import Reflector, Sighting
from et_runtime.logging import configure_logging
from et_runtime.recording import WRITERS, Recorder
from et_runtime.serving import build_app, serve
from et_runtime.supervising import run_for_ever, stop_on_signals, supervise
from et_scheduler.acting.observing import Observer
from et_scheduler.acting.publishing import Publisher
from et_scheduler.acting.writing import Writer
from et_scheduler.codec.snapshots import Snapshot
from et_scheduler.deciding import Decider
from et_scheduler.measuring import Metrics
from et_scheduler.model.decisions import Decision
from et_scheduler.replaying import Recording
from et_scheduler.settings import Settings
from et_scheduler.state.ingesting import Ingest
from et_scheduler.state.store import Store

STOP_GRACE = timedelta(seconds=20)
SET_BACK = 60.0
"""Seconds within which lists that were set back are of one restore of etcd."""
SILENCE = 180.0
"""Seconds without a word from the API server after which a replica is not ready."""
CONTROLLER = f"{GROUP}/et-scheduler"
"""Who reports, in Events."""

log = structlog.get_logger()


async def run(settings: Settings) -> None:
    """Be the scheduler until SIGTERM or SIGINT."""
    configure_logging(settings.log_format, settings.log_level)
    clock = SystemClock()
    metrics = Metrics()

    def observe(verb: str, resource: Resource, code: int, seconds: float) -> None:
        metrics.note_request(verb, resource.plural, code, seconds)

    with stop_on_signals() as stop:
        async with connect() as connection:
            api = Rest(connection, observe=observe)
            scheduler = Scheduler(settings, api, clock=clock, metrics=metrics)
            app = build_app(
                metrics,
                healthy=lambda: "",
                ready=scheduler.describe_trouble,
                refresh=scheduler.measure,
            )
            async with serve(app, settings.http_port):
                log.info("scheduler started", version=__version__, identity=settings.identity)
                await supervise(scheduler.tasks, stop=stop, clock=clock, grace=STOP_GRACE)
                log.info("scheduler stopped")


class Scheduler:
    """All parts of one replica, wired."""

    def __init__(self, settings: Settings, api: Rest, *, clock: Clock, metrics: Metrics) -> None:
        self._settings = settings
        self._clock = clock
        self._metrics = metrics
        self.store = Store()
        self._ingest = Ingest(self.store, self._note_unreadable, self._note_set_back)
        self._set_back_at = -math.inf
        self._lease = Lease(
            api,
            clock,
            namespace=settings.own_namespace,
            name=settings.lease_name,
            identity=settings.identity,
            duration=settings.lease_duration,
            renew_deadline=settings.renew_deadline,
            retry_period=settings.retry_period,
        )
        guarded = api.guarded(self._lease.guard)
        self._recorder = Recorder(
            guarded,
            clock,
            controller=CONTROLLER,
            instance=settings.identity,
            on_drop=lambda _: metrics.events_lost.inc(),
        )
        self._publisher = Publisher(guarded, self.store, self._ingest, clock)
        observer = Observer()
        sink = observer if settings.is_observing else self._recorder
        writer = Writer(guarded, self._ingest, sink, clock, metrics)
        scribe = observer if settings.is_observing else writer
        self._recording = Recording(Path(settings.record)) if settings.record else None
        self._decider = Decider(self.store, scribe, sink, clock, metrics, show=self._show)
        self._reflectors = {
            resource: self._build_reflector(api, resource) for resource in self.store.tables
        }
        lead = self._decider.run if settings.is_observing else self._lead_again_and_again
        self.tasks = {
            **{f"watch {r.plural}": reflector.run for r, reflector in self._reflectors.items()},
            "lead": lead,
        }

    def describe_trouble(self) -> str:
        """What keeps this replica from being useful; "" when nothing does."""
        now = self._clock.monotonic()
        for resource, reflector in self._reflectors.items():
            if not reflector.is_synced:
                return f"the list of {resource.plural} is not complete yet"
            if reflector.last_contact is not None and now - reflector.last_contact > SILENCE:
                return f"no word about {resource.plural} from the API server for {SILENCE:.0f} s"
        return ""

    def measure(self) -> None:
        """Bring the gauges up to date, just before they are read."""
        self._metrics.is_leader.set(1 if self._lease.is_leader else 0)
        self._metrics.behind.set(len(self.store.list_behind()))

    def _show(self, snapshot: Snapshot, decision: Decision) -> None:
        self._publisher.offer(decision.queues)
        if self._recording is not None and decision.changes:
            self._recording.keep(snapshot)

    def _build_reflector(self, api: Rest, resource: Resource) -> Reflector:
        return Reflector(
            api,
            self._clock,
            resource,
            None,
            self._see,
            keep=lambda obj: self._ingest.read(resource, obj),
            find_newest=lambda: self.store.tables[resource].find_newest(None),
            on_defect=self._metrics.defects.labels("watch").inc,
        )

    def _see(self, sighting: Sighting) -> None:
        if self._ingest.take(sighting):
            self._decider.ask()

    def _note_unreadable(self, resource: Resource, obj: Json, error: Exception) -> None:
        metadata = obj.get("metadata") or {}
        name = f"{metadata.get('namespace', '')}/{metadata.get('name', '')}"
        why = f"{type(error).__name__}: {error}"
        log.warning("an object cannot be read", kind=resource.kind, name=name[:512], why=why[:512])
        self._metrics.defects.labels("object").inc()

    def _note_set_back(self) -> None:
        """One kind was set back, so all were: a watch that was far behind would not notice it."""
        now = self._clock.monotonic()
        if now - self._set_back_at < SET_BACK:
            return  # these lists tell the same
        self._set_back_at = now
        log.warning("etcd was set back: everything is listed anew")
        self._list_anew()

    def _list_anew(self) -> None:
        for resource, reflector in self._reflectors.items():
            self.store.expect_list(resource)
            reflector.relist()

    async def _lead_again_and_again(self) -> None:
        while True:
            try:
                await self._lease.lead(self._lead)
            except NotLeader as error:
                log.warning("no longer the leader", reason=str(error))

    async def _lead(self) -> None:
        """One term: nothing is decided before every list was taken anew in it."""
        log.info("leading", identity=self._settings.identity)
        self._list_anew()
        writers = {f"events {n}": self._recorder.run for n in range(WRITERS)}
        await run_for_ever({"decide": self._decider.run, "queues": self._publisher.run, **writers})
