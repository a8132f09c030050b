"""One pass: key -> snapshot -> plan -> execute -> look again.

What the server answers is believed before the next one begins (see believing.py), so that it never
plans from before our own writes. Nothing is decided here, and nothing written: planning does the
one, acting the other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta

import structlog

from et_kube.api import Api
from et_kube.clock import APART, Clock
from et_kube.errors import ApiError, NotLeader, OutcomeUnknown, Unreachable
from et_operator.acting.executing import Executor
from et_operator.acting.outcomes import Execution, is_in_the_way
from et_operator.believing import WRITE, Beliefs
from et_operator.measuring import Metrics
from et_operator.model.jobs import TrainingJob
from et_operator.model.keys import JobKey
from et_operator.model.plans import Plan
from et_operator.model.snapshots import RuntimeFiles, Snapshot
from et_operator.planning.defects import plan_defect
from et_operator.planning.planner import plan, plan_orphans
from et_operator.state.answers import TAKEN_FOR
from et_operator.state.ingesting import Ingest
from et_operator.state.store import Store
from et_operator.state.views import build_snapshot
from et_process.lanes import LIGHT
from et_process.metering import Metered
from et_process.workqueue import WorkQueue

STALE = "stale"

LONGEST_PAUSE = 10.0
"""Seconds that are left to all others after one step, at most: a machine may have been suspended in
the middle of it."""
REST_TOLD = 60.0
"""Seconds from one line of the log that a namespace rests to the next."""

log = structlog.get_logger()


class Reconciler:
    """Brings one job at a time closer to what its author asked for."""

    def __init__(  # noqa: PLR0913 (its parts, wired in assembly)
        self,
        *,
        store: Store,
        api: Api,
        executor: Executor,
        queue: WorkQueue[JobKey],
        clock: Clock,
        shipped: RuntimeFiles,
        metrics: Metrics,
        default_queue: str = "",
        find_drift: Callable[[], timedelta] = timedelta,
    ) -> None:
        self._store = store
        ingest = Ingest(store, metrics.note_unreadable)
        self._beliefs = Beliefs(store, ingest, api=api, queue=queue, clock=clock)
        self._executor = executor
        self._queue = queue
        self._clock = clock
        self._shipped = shipped
        self._metrics = metrics
        self._default_queue = default_queue
        self._find_drift = find_drift
        self._turn = asyncio.Lock()
        self._free_until = 0.0  # when the next pass may begin (clock.monotonic)
        self._rest_told = -REST_TOLD

    async def work(self) -> None:
        """Take one key after another, for ever. A failing job never stops the others.

        A pass that has nothing to ask lets nobody else have a turn, and at a start those over all
        jobs are due: so one is begun in each round of the loop, in which the lease is renewed too.
        After one that has kept the loop all others have it for as long, and the job's namespace
        rests (see lanes.py).
        """
        now = self._clock.monotonic
        while True:
            async with self._turn:
                await self._clock.sleep(timedelta(seconds=self._free_until - now()))
                key = await self._queue.get()
            started, look = now(), Metered(self._look_after(key), now, self._leave_free)
            try:
                await look
            finally:
                self._tell_rest(key, self._queue.done(key, look.seconds))
                self._metrics.pass_seconds.observe(now() - started)

    def _leave_free(self, kept: float) -> None:
        """No pass begins for as long as a step has kept the loop: others may have waited for it."""
        if kept > LIGHT:
            begin = max(self._free_until, self._clock.monotonic())
            self._free_until = begin + min(kept, LONGEST_PAUSE)

    def _tell_rest(self, key: JobKey, seconds: float) -> None:
        """Whose jobs come late, and why nobody else's do; once a minute."""
        now = self._clock.monotonic()
        if seconds > 0 and now >= self._rest_told + REST_TOLD:
            self._rest_told = now
            why = "passes over its jobs take more than their share of the time: its jobs come late"
            log.info("a namespace rests", namespace=key.namespace, why=why)

    async def _look_after(self, key: JobKey) -> None:
        try:
            result, again = await self.reconcile(key)
        except ApiError as error:
            self._put_off(key, error, error.retry_after)
            return
        except (Unreachable, OutcomeUnknown, NotLeader) as error:
            self._put_off(key, error, None)
            return
        except Exception as error:  # a defect met by one job must not stop the others
            delay = self._queue.retry(key)
            self._metrics.passes.labels("error").inc()
            log.exception("reconcile failed", job=str(key), retry_in=delay.total_seconds())
            await self._tell_defect(key, error)
            return
        self._metrics.passes.labels(result).inc()
        if again is not None:
            self._queue.add(key, again, cause="timer")

    def _put_off(self, key: JobKey, error: Exception, at_least: timedelta | None) -> None:
        """A read that the pass needed was not answered: the same again, later."""
        delay = self._queue.retry(key, at_least)
        self._metrics.passes.labels("unanswered").inc()
        log.warning("read failed", job=str(key), error=str(error), retry_in=delay.total_seconds())

    async def _tell_defect(self, key: JobKey, error: Exception) -> None:
        """Say on the job itself that it cannot be planned; the log has said so already."""
        job = self._store.find_job(key)
        if job is None:
            return
        try:
            result = plan_defect(job, error, self._clock.now())
            execution = await self._executor.execute(result, job)
            await self._beliefs.absorb(key, job, result, execution)
        except Exception:
            log.exception("a job could not be told of its defect", job=str(key))

    async def reconcile(self, key: JobKey) -> tuple[str, timedelta | None]:
        """One pass over one job; returns how it went and when to look again (None: on an event)."""
        now = self._clock.now()
        self._store.answers.expire(key, now)
        complete_since = self._find_complete_since(key, now)
        await self._beliefs.complete(key)
        snapshot = build_snapshot(
            self._store, key, self._shipped, complete_since, default_queue=self._default_queue
        )
        if snapshot is None:
            return await self._close_orphans(key, complete_since)
        if snapshot.job.status.keys_secret:
            self._store.made_keys.pop(snapshot.job.uid, None)
        self._note_told_end(snapshot, now)
        started = self._clock.monotonic()
        result = plan(snapshot, now)
        self._metrics.plan_seconds.observe(self._clock.monotonic() - started)
        if await self._beliefs.is_mistaken(key, result):
            self._queue.retry(key, cause=STALE)
            return STALE, None
        outcome, again = await self._carry_out(key, snapshot.job, result)
        if self._store.answers.find(key, snapshot.job.uid).taken_names:
            again = find_shortest(again, TAKEN_FOR)
        return outcome, again

    def _find_complete_since(self, key: JobKey, now: datetime) -> datetime | None:
        """By a clock that is far from the server's all is as new, as while a watch is cut.

        Then nobody is ended, and nothing deleted, because a time has passed.
        """
        at = self._clock.monotonic()
        since = self._store.coverage.find_since(key.namespace, now=now, at=at)
        return now if since is not None and self._find_drift() > APART else since

    def _note_told_end(self, snapshot: Snapshot, now: datetime) -> None:
        """For the next passes: no report says since when it is so."""
        job, report, known = snapshot.job, snapshot.report, self._store.told_ends
        if report is None or report.ended is None or job.status.has_finished:
            known.pop(job.uid, None)
        elif self._store.find_told_end(job) is None:
            known[job.uid] = (report.launcher_uid, now)

    async def _close_orphans(
        self, key: JobKey, complete_since: datetime | None
    ) -> tuple[str, timedelta | None]:
        """Scalings that name no job: the store forgets the job, they are told so after a while."""
        scalings = self._store.find_scalings(key)
        if not scalings:
            self._store.answers.forget(key)
        refusals = self._store.answers.find(key).refusals
        result = plan_orphans(scalings, self._clock.now(), complete_since, refusals)
        if await self._beliefs.is_mistaken(key, result):
            self._queue.retry(key, cause=STALE)
            return STALE, None
        return await self._carry_out(key, None, result)

    async def _carry_out(
        self, key: JobKey, job: TrainingJob | None, result: Plan
    ) -> tuple[str, timedelta | None]:
        if result.status is None and not result.actions and not result.events:
            self._queue.forget(key)
            return "unchanged", result.requeue_after
        execution = await self._executor.execute(result, job)
        await self._beliefs.absorb(key, job, result, execution)
        self._count(execution)
        if execution.failures:
            for failure in execution.failures:
                log.warning("write failed", job=str(key), error=str(failure.error))
            delay = self._queue.retry(key, execution.retry_after)
            log.info("looking again", job=str(key), after=delay.total_seconds())
            outcome = "refused" if execution.refusals else "conflict"
            is_blocked = any(map(is_in_the_way, execution.failures))
            return outcome, None if is_blocked else put_off(result.requeue_after)
        self._queue.forget(key)
        if execution.is_cut:
            self._queue.add(key, cause=WRITE)
        return "changed", result.requeue_after

    def _count(self, execution: Execution) -> None:
        for written in execution.written:
            self._metrics.actions.labels("write", written.resource.kind).inc()
        for deleted in execution.deleted:
            self._metrics.actions.labels("delete", deleted.ref.resource.kind).inc()


def find_shortest(*waits: timedelta | None) -> timedelta | None:
    """The shortest of these waits: zero is one, None is none."""
    return min((wait for wait in waits if wait is not None), default=None)


def put_off(wait: timedelta | None) -> timedelta | None:
    """What else is due in a job goes on beside what fails, and no faster than this."""
    return None if wait is None else max(wait, timedelta(seconds=1))
