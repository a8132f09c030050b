"""The status that a pass is about to decide on, with what is to be said and when to look again."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from et_operator.model.conditions import Condition, find_condition, with_condition
from et_operator.model.jobs import Backoff, JobSpec, WorkerRecord, WorkerState
from et_operator.model.plans import Report
from et_operator.model.pods import Pod
from et_operator.model.resources import Ref, Resource
from et_operator.model.snapshots import Snapshot
from et_operator.planning.views import View

LONGEST_WAIT = timedelta(seconds=60)
GOOD_TIME = timedelta(minutes=10)
"""So long without a failure, and the waits begin anew."""
FIRST_REFUSAL_WAIT = timedelta(seconds=10)
LONGEST_REFUSAL_WAIT = timedelta(minutes=5)


class Draft:
    """Starts as the observed status; each rule changes it and says so.

    Whoever reads `status` here sees what was decided in this pass; `view.status` is what the
    cluster has observed, and only that may be acted upon.
    """

    def __init__(self, snapshot: Snapshot, now: datetime) -> None:
        self.view = View(snapshot, now)
        self.status = snapshot.job.status
        self.reports: list[Report] = []
        self.premises: list[Ref] = []
        self._wake: datetime | None = None

    @property
    def now(self) -> datetime:
        """The time of this pass."""
        return self.view.now

    @property
    def spec(self) -> JobSpec:
        """The spec of a job that is known to be valid."""
        return self.view.spec

    @property
    def needed_workers(self) -> int:
        """With how many workers the command may be started."""
        return self.spec.find_needed(self.status.decided_replicas)

    @property
    def has_decided(self) -> bool:
        """Whether anything is to be recorded before it is acted upon."""
        return self.status != self.view.status

    @property
    def next_generation(self) -> int:
        """The generation that the next written config will have."""
        view = self.view
        last = view.written_generation
        if view.snapshot.config is None and view.report is not None:
            # somebody removed it: what is written again must be news to who has read it
            last = view.report.observed_generation
        return max(self.status.generation, last + 1)

    @property
    def requeue_after(self) -> timedelta | None:
        """How long until some rule wants to look again."""
        return None if self._wake is None else max(self._wake - self.now, timedelta())

    def change(self, **changes: Any) -> None:
        """Replace fields of the status."""
        self.status = replace(self.status, **changes)

    def wake_at(self, moment: datetime) -> None:
        """Look again then, at the latest."""
        self._wake = moment if self._wake is None else min(self._wake, moment)

    def rest_on(self, resource: Resource, name: str) -> None:
        """What was just decided cannot be taken back: this object must be as it is believed.

        Without a name: all the job's objects of that kind.
        """
        self.premises.append(Ref(resource, self.view.job.key.namespace, name))

    def tell(self, reason: str, message: str, *, is_warning: bool = False) -> None:
        """An Event on the job, once what was decided is written."""
        job = self.view.job
        self.reports.append(Report(job.key.ref, job.uid, reason, message, is_warning))

    def find_record(self, name: str) -> WorkerRecord | None:
        """What is remembered about the worker of this name."""
        return next((r for r in self.status.workers if r.name == name), None)

    def select_records(self, state: WorkerState) -> tuple[WorkerRecord, ...]:
        """The workers that are remembered to be in this state."""
        return tuple(r for r in self.status.workers if r.state is state)

    def select_roster(self) -> list[Pod]:
        """The live workers that are not leaving."""
        out = {r.uid for r in self.status.workers if r.state is not WorkerState.JOINING}
        return [pod for pod in self.view.select_live_workers() if pod.uid not in out]

    def select_unborn(self) -> list[WorkerRecord]:
        """Names that were decided and whose pods are yet to come."""
        return [r for r in self.select_records(WorkerState.JOINING) if not r.uid]

    def remember(self, record: WorkerRecord) -> None:
        """Put a worker's record in the place of its former one."""
        if self.find_record(record.name) is None:
            self.change(workers=(*self.status.workers, record))
            return
        self.change(
            workers=tuple(record if r.name == record.name else r for r in self.status.workers)
        )

    def forget(self, name: str) -> None:
        """Drop a worker's record."""
        self.change(workers=tuple(r for r in self.status.workers if r.name != name))

    def set_condition(self, kind: str, status: str, reason: str, message: str = "") -> None:
        """Put a condition, with the job's generation at its last change."""
        old = find_condition(self.status.conditions, kind)
        if old is not None and (old.status, old.reason, old.message) == (status, reason, message):
            return
        new = Condition(kind, status, reason, message, observed_generation=self.view.job.generation)
        self.change(conditions=with_condition(self.status.conditions, new, self.now))

    def clear_condition(self, kind: str, reason: str, message: str = "") -> None:
        """Say "False" where the condition was there; say nothing where it never was."""
        old = find_condition(self.status.conditions, kind)
        if old is not None and old.status != "False":
            self.set_condition(kind, "False", reason, message)


def count_failure(backoff: Backoff | None, now: datetime) -> Backoff:
    """One more failure, or the first one after ten good minutes."""
    if backoff is None or now - backoff.at >= GOOD_TIME:
        return Backoff(1, now)
    return Backoff(backoff.count + 1, now)


def is_waiting(draft: Draft, backoff: Backoff | None) -> bool:
    """Whether the 1, 2, 4 ... 60 s after the last failure are not over; asks to be woken then."""
    if backoff is None:
        return False
    wait = timedelta(seconds=2 ** min(backoff.count - 1, 10))
    return _is_before(draft, backoff.at + min(wait, LONGEST_WAIT))


def is_refused(draft: Draft, resource: Resource) -> bool:
    """Whether the server refused such a write a short while ago: 10, 20 ... 300 s between tries.

    What its author has changed since is worth a try at once.
    """
    refusal = draft.view.snapshot.refusals.get(resource)
    if refusal is None or refusal.generation != draft.view.job.generation:
        return False
    wait = FIRST_REFUSAL_WAIT * 2 ** min(max(refusal.count - 1, 0), 10)
    return _is_before(draft, refusal.at + min(wait, LONGEST_REFUSAL_WAIT))


def _is_before(draft: Draft, end: datetime) -> bool:
    if draft.now >= end:
        return False
    draft.wake_at(end)
    return True
