"""What is believed changes with what the server answers: to our writes, and to live reads.

An answer is newer than any event, and is believed at once. Where one is missing, or contradicts
what was believed, the object is read again before anything else is done about it.
"""

from __future__ import annotations

from functools import partial

from et_kube.api import Api
from et_kube.clock import Clock
from et_kube.errors import AlreadyExists, NotFound
from et_kube.resources import PODS, Json, Ref
from et_kube.shaping import describe_admitted
from et_operator.acting.outcomes import Execution, Failure
from et_operator.acting.refusals import find_done, find_refused
from et_operator.codec.children import find_owner
from et_operator.codec.fields import attempt
from et_operator.codec.runtimes import is_runtime
from et_operator.model.actions import Action, Create, CreateKeys, DryRun
from et_operator.model.jobs import TrainingJob
from et_operator.model.keys import JobKey
from et_operator.model.names import build_worker_selector, is_in_sight
from et_operator.model.plans import Plan
from et_operator.model.pods import Pod
from et_operator.model.snapshots import Proof
from et_operator.state.ingesting import Ingest
from et_operator.state.store import DECODERS, Piece, Store
from et_process.workqueue import WorkQueue

WRITE = "write"
"""Cause of a pass: of what has come back to us."""
MISSING = NotFound(404, "NotFound", "what was to be deleted is not there")


class Beliefs:
    """Brings what it hears into the store, and whom that concerns into the queue."""

    def __init__(
        self, store: Store, ingest: Ingest, *, api: Api, queue: WorkQueue[JobKey], clock: Clock
    ) -> None:
        self._store = store
        self._ingest = ingest
        self._api = api
        self._queue = queue
        self._clock = clock

    async def complete(self, key: JobKey) -> None:
        """Read the documents of a job that were left out while it was not known."""
        for ref in self._store.find_partial(key):
            self._requeue(await self._look_at(ref) - {key})

    async def is_mistaken(self, key: JobKey, result: Plan) -> bool:
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

    async def absorb(
        self, key: JobKey, job: TrainingJob | None, result: Plan, execution: Execution
    ) -> None:
        """Believe what the server said; read again what it contradicted or left open.

        What is news brings the job back into the queue; a write that changed nothing does not, nor
        does a status of which the server has dropped a part, for the next one would fare the same.
        """
        waiting = {key} if any(failure.is_of_status for failure in execution.failures) else set()
        for written in execution.written:
            self._requeue(self._ingest.upsert(written.resource, written.entry) - waiting)
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
