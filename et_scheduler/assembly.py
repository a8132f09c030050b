"""The composition root: the only place that wires concrete parts, and what the process runs.

With --observe the same parts run without a lease and without writes. Nothing is decided here: a
sighting goes into the store, and asks for a pass.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path
from secrets import token_bytes

import structlog

from et_kube.clock import Clock, ComparedClock
from et_kube.resources import GROUP, Resource
from et_kube.rest import Rest
from et_kube.watching import Reflector, Sighting
from et_process.leading import build_lease, lead_again_and_again
from et_process.recording import WRITERS, Recorder
from et_process.running import run_program
from et_process.supervising import run_for_ever
from et_process.watches import Watches
from et_scheduler.acting.observing import Observer
from et_scheduler.acting.publishing import Publisher
from et_scheduler.acting.writing import Writer
from et_scheduler.codec.headroom import read_headroom
from et_scheduler.codec.snapshots import Snapshot
from et_scheduler.deciding import Decider, Plan, plan_apart
from et_scheduler.measuring import Metrics
from et_scheduler.model.decisions import Decision
from et_scheduler.model.rules import Rules
from et_scheduler.model.shapes import SECOND
from et_scheduler.replaying import Recording, Start, start_apart
from et_scheduler.settings import Settings
from et_scheduler.state.ingesting import Ingest
from et_scheduler.state.store import Store
from et_scheduler.state.surveying import Surveyor
from et_scheduler.state.weighing import Weights

CONTROLLER = f"{GROUP}/et-scheduler"
"""Who reports, in Events."""

log = structlog.get_logger()


async def run(settings: Settings) -> None:
    """Be the scheduler until SIGTERM or SIGINT."""
    metrics = Metrics()

    def build(api: Rest, clock: ComparedClock) -> Scheduler:
        return Scheduler(
            settings, api, clock=clock, metrics=metrics, find_drift=lambda: clock.apart
        )

    await run_program(settings, metrics, build)


class Scheduler:
    """All parts of one replica, wired. In virtual time `plan` and `start` wait for no thread.

    `start` has records of passes written. `find_drift` tells how far the clock is from the API
    server's.
    """

    def __init__(  # noqa: PLR0913 (what differs in virtual time)
        self,
        settings: Settings,
        api: Rest,
        *,
        clock: Clock,
        metrics: Metrics,
        plan: Plan = plan_apart,
        start: Start = start_apart,
        find_drift: Callable[[], timedelta] = timedelta,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._metrics = metrics
        self._plan_apart = plan
        self.store = Store(settings.notices, Weights(metrics.note_full))
        self._watches = Watches(clock, lambda kind, _: self.store.expect_list(kind))
        self._ingest = Ingest(self.store, metrics.note_unreadable, self._watches.note_set_back)
        self._lease = build_lease(api, clock, settings)
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
        salt = token_bytes() if settings.is_hashing else b""
        path = Path(settings.record)
        self._recording = Recording(path, salt=salt, start=start) if settings.record else None
        headroom = read_headroom(settings.service_headroom)
        self._decider = Decider(
            self.store,
            scribe,
            sink,
            clock,
            metrics,
            plan=self._plan,
            surveyor=Surveyor(self.store, settings.pool_label, headroom),
            rules=Rules(level_quiet=settings.level_quiet * SECOND),
            find_drift=find_drift,
        )
        for resource in self.store.tables:
            self._watches.add(resource, None, self._build_reflector(api, resource))
        lead = (
            self._decider.run
            if settings.is_observing
            else partial(lead_again_and_again, self._lease, self._lead)
        )
        self.tasks = {**self._watches.tasks, "lead": lead}

    def describe_trouble(self) -> str:
        """What keeps this replica from being useful; "" when nothing does."""
        unseen = next((why for _, why in self._watches.find_troubles()), "")
        return unseen or self._decider.describe_drift()

    def measure(self) -> None:
        """Bring the gauges up to date, just before they are read."""
        self._metrics.is_leader.set(1 if self._lease.is_leader else 0)
        self._metrics.behind.set(len(self.store.list_behind()))

    async def _plan(self, snapshot: Snapshot) -> Decision:
        decision = await self._plan_apart(snapshot)
        self._publisher.offer(decision.queues)
        if self._recording is not None and decision.changes:
            self._recording.offer(snapshot)
        return decision

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

    async def _lead(self) -> None:
        """One term: nothing is decided before every list was taken anew in it."""
        log.info("leading", identity=self._settings.identity)
        self._watches.list_anew()
        writers = {f"events {n}": self._recorder.run for n in range(WRITERS)}
        await run_for_ever({"decide": self._decider.run, "queues": self._publisher.run, **writers})
