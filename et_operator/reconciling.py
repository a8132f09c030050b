"""One pass: key -> snapshot -> plan -> execute -> look again.

Whatever the server answers is believed at once (its answer is newer than any event), so that the
next pass never plans from before our own writes; where an answer is missing or contradicts the
view, the object is read again before anything else is done about it.
"""

from __future__ import annotations

from datetime import timedelta

import structlog

from et_operator.codec.children import find_owner_uid
from et_operator.errors import AlreadyExists, NotFound
from et_operator.kube.api import Api
from et_operator.kube.executing import Execution, Executor, Failure
from et_operator.model.actions import Action, Create, CreateKeys, Delete, Patch, get_resource
from et_operator.model.jobs import JobKey, TrainingJob
from et_operator.model.names import LABEL_RUNTIME, build_worker_selector
from et_operator.model.plans import Plan
from et_operator.model.resources import PODS, SECRETS, TRAINING_JOBS, Json, Ref
from et_operator.model.snapshots import Refusal, RuntimeFiles
from et_operator.planning.planner import plan, plan_orphan
from et_operator.runtime.clock import Clock
from et_operator.runtime.measuring import Metrics
from et_operator.runtime.workqueue import WorkQueue
from et_operator.state.ingesting import Ingest
from et_operator.state.store import Answers, Holder, Store
from et_operator.state.views import build_snapshot

TAKEN_FOR = timedelta(seconds=60)
"""How long a name that somebody else holds is left alone before it is tried again."""
LOOK_AT_HOLDERS = timedelta(seconds=1)
"""Most often they are the children of a former job of the same name, on their way out."""

MISSING = NotFound(404, "NotFound", "what was to be deleted is not there")

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
    ) -> None:
        self._store = store
        self._ingest = Ingest(store)
        self._api = api
        self._executor = executor
        self._queue = queue
        self._clock = clock
        self._shipped = shipped
        self._metrics = metrics

    async def work(self) -> None:
        """Take one key after another, for ever. A failing job never stops the others."""
        while True:
            key = await self._queue.get()
            started = self._clock.monotonic()
            try:
                await self._look_after(key)
            finally:
                self._queue.done(key)
                self._metrics.pass_seconds.observe(self._clock.monotonic() - started)

    async def _look_after(self, key: JobKey) -> None:
        try:
            result, again = await self.reconcile(key)
        except Exception:  # a defect met by one job must not stop the others
            delay = self._queue.retry(key)
            self._metrics.passes.labels("error").inc()
            log.exception("reconcile failed", job=str(key), retry_in=delay.total_seconds())
            return
        self._metrics.passes.labels(result).inc()
        if again is not None:
            self._queue.add(key, again)

    async def reconcile(self, key: JobKey) -> tuple[str, timedelta | None]:
        """One pass over one job; returns how it went and when to look again (None: on an event)."""
        self._expire_answers(key)
        snapshot = build_snapshot(self._store, key, self._shipped)
        now = self._clock.now()
        if snapshot is None:
            return await self._close_orphans(key)
        started = self._clock.monotonic()
        result = plan(snapshot, now)
        self._metrics.plan_seconds.observe(self._clock.monotonic() - started)
        if await self._is_mistaken(key, result):
            return "stale", timedelta()
        outcome, again = await self._carry_out(key, snapshot.job, result)
        answers = self._store.answers.get(key)
        if answers is not None and answers.taken:
            again = find_shortest(again, LOOK_AT_HOLDERS)
        return outcome, again

    async def _is_mistaken(self, key: JobKey, result: Plan) -> bool:
        """Whether a live read shows what the plan rests on to be otherwise than it was believed."""
        changed: set[JobKey] = set()
        for ref in result.premises:
            changed |= await (self._look_at(ref) if ref.name else self._look_for_workers(key))
        return bool(changed)

    async def _look_at(self, ref: Ref) -> set[JobKey]:
        try:
            return self._ingest.upsert(ref.resource, await self._api.get(ref))
        except NotFound:
            return self._ingest.forget_name(ref)

    async def _look_for_workers(self, key: JobKey) -> set[JobKey]:
        selector = build_worker_selector(key.name)
        found = await self._api.list(PODS, key.namespace, label_selector=selector)
        return {k for pod in found.items for k in self._ingest.upsert(PODS, pod)}

    async def _close_orphans(self, key: JobKey) -> tuple[str, timedelta | None]:
        """Scalings that name no job: the store forgets the job, they are told so after a while."""
        self._store.answers.pop(key, None)
        outcome: str = "unchanged"
        soonest: timedelta | None = None
        for scaling in self._store.find_scalings(key):
            result = plan_orphan(scaling, self._clock.now(), self._store.complete_since)
            outcome, again = await self._carry_out(key, None, result)
            soonest = find_shortest(soonest, again)
        return outcome, soonest

    async def _carry_out(
        self, key: JobKey, job: TrainingJob | None, result: Plan
    ) -> tuple[str, timedelta | None]:
        if result.status is None and not result.actions and not result.reports:
            self._queue.forget(key)
            return "unchanged", result.requeue_after
        execution = await self._executor.execute(result, job)
        await self._absorb(key, job, result, execution)
        self._count(execution)
        if execution.failures:
            for failure in execution.failures:
                log.warning("write failed", job=str(key), error=str(failure.error))
            delay = self._queue.retry(key, execution.retry_after)
            log.info("looking again", job=str(key), after=delay.total_seconds())
            return "refused" if execution.refusals else "conflict", None
        self._queue.forget(key)
        return "changed", result.requeue_after

    async def _absorb(
        self, key: JobKey, job: TrainingJob | None, result: Plan, execution: Execution
    ) -> None:
        """Believe what the server said; read again what it contradicted or left open.

        What is news brings the job back into the queue; a write that changed nothing does not.
        """
        for written in execution.written:
            self._requeue(self._ingest.upsert(written.resource, written.object))
        for deleted in execution.deleted:
            self._ingest.note_deletion(deleted.ref, deleted.uid, self._clock.now())
            self._queue.add(key)
        for missing in execution.missing:
            await self._read_again(key, job, Failure(missing, MISSING))
            self._queue.retry(key)
        self._note_refusals(key, job, result, execution)
        for failure in (*execution.conflicts, *execution.unknowns):
            await self._read_again(key, job, failure)

    async def _read_again(self, key: JobKey, job: TrainingJob | None, failure: Failure) -> None:
        """A live read of the object that the failed write was about; keys are nobody's to read."""
        if isinstance(failure.action, CreateKeys):
            return
        ref = self._get_ref(key, failure.action)
        try:
            found = await self._api.get(ref)
        except NotFound:
            self._forget(failure.action, job)
            return
        if not isinstance(failure.error, AlreadyExists) or is_usable(found, job):
            self._requeue(self._ingest.upsert(ref.resource, found))
            return
        is_watched = self._is_known(ref)
        self._answers(key).taken[ref] = Holder(self._clock.now(), is_watched)

    def _forget(self, action: Action | None, job: TrainingJob | None) -> None:
        match action:
            case Patch(ref=ref, uid=uid) | Delete(ref=ref, uid=uid):
                self._requeue(self._ingest.forget(ref, uid))
            case None if job is not None:
                self._requeue(self._ingest.forget(job.key.ref, job.uid))
            case _:
                """A creation that did not happen: the next pass asks for it again."""

    def _get_ref(self, key: JobKey, action: Action | None) -> Ref:
        match action:
            case None:
                return key.ref
            case Create(resource=resource, manifest=manifest):
                return Ref(resource, key.namespace, manifest["metadata"]["name"])
            case CreateKeys(manifest=manifest):
                return Ref(SECRETS, key.namespace, manifest["metadata"]["name"])
            case Patch(ref=ref) | Delete(ref=ref):
                return ref

    def _note_refusals(
        self, key: JobKey, job: TrainingJob | None, result: Plan, execution: Execution
    ) -> None:
        """Per kind, for each kind is its own reason to wait; one a pass, however many objects.

        A status that is refused is for the log alone: there is nowhere else to tell it.
        """
        done = {written.resource for written in execution.written}
        done.update(get_resource(keys) for keys in execution.keys)
        if result.status is not None:
            done.discard(TRAINING_JOBS)  # that was the status, not the job
        refused = {get_resource(f.action): f for f in execution.refusals if f.action is not None}
        if not refused and key not in self._store.answers:
            return
        refusals = self._answers(key).refusals
        for resource in done:
            refusals.pop(resource, None)
        for resource, failure in refused.items():
            before = refusals.get(resource)
            generation = job.generation if job is not None else 0
            refusals[resource] = Refusal(
                getattr(failure.error, "message", str(failure.error)),
                before.count + 1 if before and before.generation == generation else 1,
                self._clock.now(),
                generation,
                self._get_ref(key, failure.action).name,
            )

    def _expire_answers(self, key: JobKey) -> None:
        answers = self._store.answers.get(key)
        if answers is not None:
            limit = self._clock.now() - TAKEN_FOR
            answers.taken = {
                ref: holder
                for ref, holder in answers.taken.items()
                if holder.seen > limit and (not holder.is_watched or self._is_known(ref))
            }

    def _is_known(self, ref: Ref) -> bool:
        return self._store.tables[ref.resource].find((ref.namespace, ref.name)) is not None

    def _answers(self, key: JobKey) -> Answers:
        return self._store.answers.setdefault(key, Answers())

    def _requeue(self, keys: set[JobKey]) -> None:
        for key in keys:
            self._queue.add(key)

    def _count(self, execution: Execution) -> None:
        for written in execution.written:
            self._metrics.actions.labels("write", written.resource.kind).inc()
        for deleted in execution.deleted:
            self._metrics.actions.labels("delete", deleted.ref.resource.kind).inc()


def find_shortest(*waits: timedelta | None) -> timedelta | None:
    """The shortest of these waits: zero is one, None is none."""
    return min((wait for wait in waits if wait is not None), default=None)


def is_usable(found: Json, job: TrainingJob | None) -> bool:
    """Whether an object that was there before us will do: it is the job's own, or a runtime."""
    metadata: Json = found["metadata"]
    if LABEL_RUNTIME in (metadata.get("labels") or {}):
        return True
    return job is not None and find_owner_uid(metadata) == job.uid
