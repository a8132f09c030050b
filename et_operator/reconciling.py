"""One pass: key -> snapshot -> plan -> execute -> look again.

Whatever the server answers is believed at once (its answer is newer than any event), so that the
next pass never plans from before our own writes; where an answer is missing or contradicts the
view, the object is read again before anything else is done about it.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import partial

import structlog

from et_kube.api import Api
from et_kube.clock import Clock
from et_kube.errors import AlreadyExists, ApiError, NotFound, NotLeader, OutcomeUnknown, Unreachable
from et_kube.resources import PODS, Json, Ref
from et_kube.shaping import describe_admitted
from et_operator.acting.executing import Execution, Executor, Failure, is_in_the_way
from et_operator.acting.refusals import find_done, find_refused
from et_operator.codec.children import find_owner
from et_operator.codec.fields import attempt
from et_operator.codec.runtimes import is_runtime
from et_operator.measuring import Metrics
from et_operator.model.actions import Action, Create, CreateKeys, DryRun
from et_operator.model.jobs import TrainingJob
from et_operator.model.keys import JobKey
from et_operator.model.names import build_worker_selector, is_in_sight
from et_operator.model.plans import Plan
from et_operator.model.pods import Pod
from et_operator.model.snapshots import Proof, RuntimeFiles
from et_operator.planning.defects import plan_defect
from et_operator.planning.planner import plan, plan_orphans
from et_operator.state.answers import TAKEN_FOR
from et_operator.state.ingesting import Ingest
from et_operator.state.store import DECODERS, Piece, Store
from et_operator.state.views import build_snapshot
from et_process.workqueue import WorkQueue

STALE = "stale"
WRITE = "write"

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
        default_queue: str = "",
    ) -> None:
        self._store = store
        self._ingest = Ingest(store, metrics.note_unreadable)
        self._api = api
        self._executor = executor
        self._queue = queue
        self._clock = clock
        self._shipped = shipped
        self._metrics = metrics
        self._default_queue = default_queue

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
            await self._absorb(key, job, result, execution)
        except Exception:
            log.exception("a job could not be told of its defect", job=str(key))

    async def reconcile(self, key: JobKey) -> tuple[str, timedelta | None]:
        """One pass over one job; returns how it went and when to look again (None: on an event)."""
        now = self._clock.now()
        self._store.answers.expire(key, now)
        complete_since = self._find_complete_since(key, now)
        for ref in self._store.find_partial(key):
            self._requeue(await self._look_at(ref) - {key})
        snapshot = build_snapshot(
            self._store, key, self._shipped, complete_since, default_queue=self._default_queue
        )
        if snapshot is None:
            return await self._close_orphans(key, complete_since)
        if snapshot.job.status.keys_secret:
            self._store.made_keys.pop(snapshot.job.uid, None)
        started = self._clock.monotonic()
        result = plan(snapshot, now)
        self._metrics.plan_seconds.observe(self._clock.monotonic() - started)
        if await self._is_mistaken(key, result):
            self._queue.retry(key, cause=STALE)
            return STALE, None
        outcome, again = await self._carry_out(key, snapshot.job, result)
        if self._store.answers.find(key, snapshot.job.uid).taken:
            again = find_shortest(again, TAKEN_FOR)
        return outcome, again

    async def _is_mistaken(self, key: JobKey, result: Plan) -> bool:
        """Whether a live read shows what the plan rests on to be otherwise than it was believed.

        A watch may have been faster than the read: then it was the one that showed it. What else
        the read shows is no premise, and brings those whom it concerns into the queue.
        """
        believed = {ref: self._believe(key, ref) for ref in result.premises}
        changed: set[JobKey] = set()
        for ref in result.premises:
            changed |= await (self._look_at(ref) if ref.name else self._look_for_workers(key))
        is_mistaken = any(self._believe(key, ref) != was for ref, was in believed.items())
        # their events are no news any more; a plan that is mistaken is made anew anyway
        self._requeue(changed - {key} if is_mistaken else changed)
        return is_mistaken

    def _believe(self, key: JobKey, ref: Ref) -> object:
        """What a premise is about: an object, or without a name which pods of the job there are.

        Not what these are like: among many some change all the time, and no plan would ever hold.
        Nor what somebody else's are like, who may change them as often as he likes.
        """
        job = self._store.find_job(key)
        if job is None:
            return None
        if not ref.name:
            return {pod.uid for pod in self._store.find_pods(job)}
        found = self._store.find(ref)
        return found if is_part(found, job) else None

    async def _look_at(self, ref: Ref) -> set[JobKey]:
        """Read it. Missing is who was believed to be there when the read was begun, nobody else."""
        believed = self._store.tables[ref.resource].find_uid((ref.namespace, ref.name))
        try:
            return self._ingest.upsert(ref.resource, await self._api.get(ref))
        except NotFound:
            if believed is None:
                return set()
            return self._ingest.forget(ref, believed, self._clock.monotonic())

    async def _look_for_workers(self, key: JobKey) -> set[JobKey]:
        selector = build_worker_selector(key.name)
        changed: set[JobKey] = set()

        def note(pod: Json) -> None:
            changed.update(self._ingest.upsert(PODS, pod))

        await self._api.list(PODS, key.namespace, label_selector=selector, keep=note)
        return changed

    def _find_complete_since(self, key: JobKey, now: datetime) -> datetime | None:
        at = self._clock.monotonic()
        return self._store.coverage.find_since(key.namespace, now=now, at=at)

    async def _close_orphans(
        self, key: JobKey, complete_since: datetime | None
    ) -> tuple[str, timedelta | None]:
        """Scalings that name no job: the store forgets the job, they are told so after a while."""
        scalings = self._store.find_scalings(key)
        if not scalings:
            self._store.answers.forget(key)
        refusals = self._store.answers.find(key).refusals
        result = plan_orphans(scalings, self._clock.now(), complete_since, refusals)
        return await self._carry_out(key, None, result)

    async def _carry_out(
        self, key: JobKey, job: TrainingJob | None, result: Plan
    ) -> tuple[str, timedelta | None]:
        if result.status is None and not result.actions and not result.events:
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
            outcome = "refused" if execution.refusals else "conflict"
            is_blocked = any(map(is_in_the_way, execution.failures))
            return outcome, None if is_blocked else put_off(result.requeue_after)
        self._queue.forget(key)
        if execution.is_cut:
            self._queue.add(key, cause=WRITE)
        return "changed", result.requeue_after

    async def _absorb(
        self, key: JobKey, job: TrainingJob | None, result: Plan, execution: Execution
    ) -> None:
        """Believe what the server said; read again what it contradicted or left open.

        What is news brings the job back into the queue; a write that changed nothing does not, nor
        does a status of which the server has dropped a part, for the next one would fare the same.
        """
        waiting = {key} if any(failure.is_of_status for failure in execution.failures) else set()
        for written in execution.written:
            self._requeue(self._ingest.upsert(written.resource, written.object) - waiting)
        for deleted in execution.deleted:
            now = (self._clock.now(), self._clock.monotonic())
            self._ingest.note_deletion(deleted.ref, deleted.uid, *now)
            self._queue.add(key, cause=WRITE)
        for missing in execution.missing:
            await self._read_again(key, job, Failure(missing, MISSING))
            self._queue.retry(key)
        if job is not None and execution.keys:
            self._store.made_keys[job.uid] = execution.keys[-1].name
            self._queue.add(key, cause=WRITE)
        if job is not None and execution.tried:
            self._note_tried(key, job, execution)
        done = find_done(execution, has_status=result.status is not None)
        generation = job.generation if job is not None else 0
        refused = find_refused(execution, generation, self._clock.now())
        self._store.answers.note_writes(key, get_uid(job), done, refused)
        for failure in (*execution.conflicts, *execution.unknowns):
            await self._read_again(key, job, failure)

    async def _read_again(self, key: JobKey, job: TrainingJob | None, failure: Failure) -> None:
        """A live read of the object that the failed write was about.

        Keys are nobody's to read, and what was only tried is not there.
        """
        if isinstance(failure.action, CreateKeys | DryRun):
            return
        ref = failure.action.ref
        try:
            found = await self._api.get(ref)
        except NotFound:
            self._forget(failure.action)
            return
        if not isinstance(failure.error, AlreadyExists) or is_usable(found, failure.action, job):
            self._requeue(self._ingest.upsert(ref.resource, found))
            return
        is_watched = is_in_sight(found["metadata"].get("labels"))
        if is_watched:  # its event may come much later, and it is not the job's
            self._requeue(self._ingest.upsert(ref.resource, found))
        uid, now = get_uid(job), self._clock.now()
        self._store.answers.note_taken(key, uid, ref, now, is_in_sight=is_watched)

    def _forget(self, action: Action) -> None:
        """But for a creation that did not happen: the next pass asks for it again."""
        if not isinstance(action, Create | CreateKeys | DryRun):
            at = self._clock.monotonic()
            self._requeue(self._ingest.forget(action.ref, action.uid, at))

    def _note_tried(self, key: JobKey, job: TrainingJob, execution: Execution) -> None:
        """What cannot be read of what the server has made of a pod proves nothing."""
        for tried in execution.tried:
            shape, _ = attempt(partial(describe_admitted, tried.object), "status.shapes")
            if shape is not None:
                proof = Proof(job.generation, self._clock.now(), shape)
                self._store.answers.note_proof(key, job.uid, tried.action.role, proof)
                self._queue.add(key, cause=WRITE)

    def _requeue(self, keys: set[JobKey]) -> None:
        for key in keys:
            self._queue.add(key, cause=WRITE)

    def _count(self, execution: Execution) -> None:
        for written in execution.written:
            self._metrics.actions.labels("write", written.resource.kind).inc()
        for deleted in execution.deleted:
            self._metrics.actions.labels("delete", deleted.ref.resource.kind).inc()


def is_part(found: object, job: TrainingJob) -> bool:
    """Whether a job's plan can be about what was found under a name of its own."""
    match found:
        case Pod(owner=owner):
            return owner == job.owner
        case Piece():
            return found.is_of(job)
        case _:
            return True


def get_uid(job: TrainingJob | None) -> str:
    """Under which what is answered is remembered; "" for scalings that have no job."""
    return job.uid if job is not None else ""


def find_shortest(*waits: timedelta | None) -> timedelta | None:
    """The shortest of these waits: zero is one, None is none."""
    return min((wait for wait in waits if wait is not None), default=None)


def put_off(wait: timedelta | None) -> timedelta | None:
    """What else is due in a job goes on beside what fails, and no faster than this."""
    return None if wait is None else max(wait, timedelta(seconds=1))


def is_usable(found: Json, wanted: Action, job: TrainingJob | None) -> bool:
    """Whether an object that was there before us will do: it is the job's own, or a runtime.

    What nobody is to own is a runtime, and whoever forges an owner there makes it none.
    """
    if isinstance(wanted, Create) and not wanted.manifest["metadata"].get("ownerReferences"):
        return is_runtime(found)
    if job is None or find_owner(found["metadata"]) != job.owner:
        return False
    known = DECODERS[wanted.resource](found) if isinstance(wanted, Create) else None
    return not isinstance(known, Piece) or known.is_of(job)
