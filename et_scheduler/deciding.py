"""The loop: what happened, a pass over all that is believed, its writes, and again.

Passes come with a pause: events of 50 ms are answered by one, ten come in a second at most, and on
a large cluster as much time is left between two as one takes. A pass that wrote something is
followed by another. On a cluster that stands still there is none but for what time alone changes:
of more who wait than a pass looks at it is somebody's turn each second (planning/turns.py).

A pass is computed in a thread, on what does not change any more: however long it takes, the lease
is renewed, and watches and probes are answered meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from datetime import timedelta
from typing import Protocol

import structlog

from et_kube.backoff import RECONCILING
from et_kube.clock import APART, Clock
from et_kube.errors import NotLeader
from et_kube.events import Event
from et_kube.racing import run_within
from et_kube.resources import TRAINING_JOBS, Ref
from et_scheduler.acting.writing import Entries, EventSink
from et_scheduler.codec.snapshots import Snapshot
from et_scheduler.measuring import Metrics
from et_scheduler.model.decisions import Change, Decision
from et_scheduler.model.rules import Rules
from et_scheduler.planning.passing import decide
from et_scheduler.state.store import Store
from et_scheduler.state.surveying import Survey, Surveyor

log = structlog.get_logger()

COALESCE = timedelta(milliseconds=50)
PERIOD = timedelta(milliseconds=100)
IDLE = timedelta(hours=1)
"""How long to wait where nothing will change by time alone; whatever happens ends it."""
NOW = timedelta()
UNLED = timedelta(seconds=1)
LOOK = timedelta(seconds=5)
"""How soon a clock is looked at again that is APART from the API server's: by one that is ahead who
was just asked to go is overdue, and one job after the other is asked for the same room."""
UNREADABLE = "Unreadable"
Plan = Callable[[Snapshot], Awaitable[Decision]]
"""Decides; the event loop goes on meanwhile."""


async def plan_apart(snapshot: Snapshot) -> Decision:
    """A pass, in a thread."""
    given = (snapshot.cluster, snapshot.queues, snapshot.jobs, snapshot.now, snapshot.rules)
    return await asyncio.to_thread(decide, *given)


class Scribe(Protocol):
    """Carries decisions out, or shows them; see acting/writing."""

    def list_resting(self) -> Mapping[str, int]:
        """Uids of jobs that are to be left alone now; since when, in milliseconds since 1970."""
        ...

    def list_kept_off(self) -> Mapping[str, int]:
        """Namespaces whose waiting jobs are to be left alone now; since when, as above."""
        ...

    def find_wait(self) -> timedelta | None:
        """How long until the next of them may be looked at again."""
        ...

    async def write(self, changes: tuple[Change, ...], entries: Entries) -> timedelta | None:
        """Write as far as it goes; in how long that makes a pass due, None: it does not."""
        ...


class Decider:
    """Decides again and again.

    Args:
        store: what is believed.
        scribe: what becomes of decisions.
        recorder: told of jobs that cannot be read.
        clock: for pauses; its time of day is what decisions are made by.
        metrics: counts passes.
        plan: makes a pass.
        surveyor: looks at the store for a pass.
        rules: what passes are made by.
        find_drift: how far the clock is from the API server's.
    """

    def __init__(  # noqa: PLR0913 (its parts, wired in assembly)
        self,
        store: Store,
        scribe: Scribe,
        recorder: EventSink,
        clock: Clock,
        metrics: Metrics,
        *,
        plan: Plan = plan_apart,
        surveyor: Surveyor | None = None,
        rules: Rules | None = None,
        find_drift: Callable[[], timedelta] = timedelta,
    ) -> None:
        self._store = store
        self._scribe = scribe
        self._recorder = recorder
        self._clock = clock
        self._metrics = metrics
        self._plan = plan
        self._surveyor = surveyor or Surveyor(store)
        self._rules = rules or Rules()
        self._find_drift = find_drift
        self._drift = ""
        self._wanted = asyncio.Event()
        self._told: dict[str, str] = {}  # troubles by uid
        self._failures = 0

    def ask(self) -> None:
        """A pass soon; returns at once."""
        self._wanted.set()

    async def run(self) -> None:
        """Never ends."""
        wait = NOW
        while True:
            with suppress(TimeoutError):
                await run_within(self._clock, wait, self._wanted.wait())
            await self._clock.sleep(COALESCE)
            self._wanted.clear()
            began = self._clock.monotonic()
            wait = await self.decide_once()
            passed = timedelta(seconds=self._clock.monotonic() - began)
            await self._clock.sleep(max(PERIOD - COALESCE - passed, passed))

    async def decide_once(self) -> timedelta:
        """One pass, unless something is not known; how long to wait for the next.

        Whatever a pass raises that nobody foresaw is logged, counted, and tried again later: who
        trains goes on meanwhile.
        """
        if not self._store.is_current:
            return IDLE
        if self._is_apart():
            return LOOK
        try:
            wait = await self._decide()
        except NotLeader as error:
            log.info("nothing may be written", why=str(error))
            return UNLED  # whoever runs this is told too, and ends it
        except Exception:
            self._failures += 1
            log.exception("a pass has failed", failures=self._failures)
            self._metrics.defects.labels("pass").inc()
            self._metrics.passes.labels("error").inc()
            await self._clock.sleep(RECONCILING.delay(self._failures, 0.0))
            return NOW
        self._failures = 0
        return wait

    def describe_drift(self) -> str:
        """Why its clock lets nothing be decided; "" where it does."""
        drift = self._find_drift()
        if drift <= APART:
            return ""
        return f"its clock and the API server's are {drift.total_seconds():.0f} s apart"

    def _is_apart(self) -> bool:
        """Told when it begins, and when it is over."""
        was, self._drift = self._drift, self.describe_drift()
        if self._drift and not was:
            log.error("nothing is decided", why=self._drift)
        elif was and not self._drift:
            log.info("clocks agree again")
        return bool(self._drift)

    async def _decide(self) -> timedelta:
        survey = self._surveyor.survey(self._scribe.list_resting(), self._scribe.list_kept_off())
        self._tell_troubles(survey)
        began = self._clock.monotonic()
        now = round(self._clock.now().timestamp() * 1000)
        given = (survey.cluster, survey.queues, survey.jobs, now, self._rules)
        decision = await self._plan(Snapshot(*given))
        self._metrics.pass_seconds.observe(self._clock.monotonic() - began)
        self._metrics.show_queues(decision.queues)
        self._metrics.passes.labels("changed" if decision.changes else "unchanged").inc()
        follows = await self._scribe.write(decision.changes, survey.entries)
        if follows:
            await self._clock.sleep(follows)  # whatever happens: the server has asked for it
            return NOW
        waits = [follows, self._scribe.find_wait(), self._find_wait(decision, now), IDLE]
        return min(wait for wait in waits if wait is not None)

    def _find_wait(self, decision: Decision, now: int) -> timedelta | None:
        if decision.wake_at is None:
            return None
        return timedelta(milliseconds=max(decision.wake_at - now, 1))

    def _tell_troubles(self, survey: Survey) -> None:
        """Once for each trouble of each job that is left alone because it cannot be read."""
        troubles = {entry.uid: entry.value.trouble for entry in survey.troubled}
        for entry in survey.troubled:
            if self._told.get(entry.uid) == entry.value.trouble:
                continue
            ref = Ref(TRAINING_JOBS, *entry.place)
            log.warning("a job cannot be read", job=str(ref), why=entry.value.trouble)
            self._metrics.defects.labels("object").inc()
            text = f"et-scheduler leaves this job as it is: {entry.value.trouble}"
            self._recorder.record(Event(ref, entry.uid, UNREADABLE, text, is_warning=True))
        self._told = troubles
