"""The status that a pass is about to decide on, with what is to be said and when to look again.

All rules of a pass change the same one, and none of what was observed (`view`). How long a write
that was refused, or has failed, is not tried again is said here too.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from et_kube.events import Event
from et_kube.resources import PODS, TRAINING_JOBS, Ref, Resource
from et_operator.model.actions import Action, Subject
from et_operator.model.conditions import Condition, find_condition, with_condition
from et_operator.model.snapshots import Refusal, Snapshot
from et_operator.model.statuses import Backoff, WorkerRecord
from et_operator.model.texts import MAX_MESSAGE, cut
from et_operator.planning.standings import Standing
from et_operator.planning.views import View

LONGEST_WAIT = timedelta(seconds=60)
GOOD_TIME = timedelta(minutes=10)
"""So long without a failure, and the waits begin anew."""
FIRST_REFUSAL_WAIT = timedelta(seconds=10)
LONGEST_REFUSAL_WAIT = timedelta(minutes=5)
LONGEST_FAILURE_WAIT = timedelta(seconds=60)
SINGLE_READS = 16
"""So many workers are looked for one by one; more of them by one list, however many they are."""
FAILURES_TOLD = 5
"""So often in a row a write has failed before it is told: within about three seconds."""


class Draft(Standing):
    """Starts as the observed status; each rule changes it and says so.

    Who only reads it takes a Standing, and alone is called as a question is. Who looks, and records
    until when that holds or what it rests on, does something: he checks, waits, judges.
    """

    def __init__(self, snapshot: Snapshot, now: datetime) -> None:
        super().__init__(snapshot, now)
        self.events: list[Event] = []
        self.premises: dict[Ref, None] = {}
        self._wake: datetime | None = None
        self._before = self._status.conditions

    @property
    def requeue_after(self) -> timedelta | None:
        """How long until some rule wants to look again."""
        return None if self._wake is None else max(self._wake - self.now, timedelta())

    def change(self, **changes: Any) -> None:
        """Replace fields of the status."""
        if "workers" in changes:
            self._records = {record.name: record for record in changes["workers"]}
            self._are_records_new = False
        self._status = replace(self._status, **changes)

    def wake_at(self, moment: datetime) -> None:
        """Look again then, at the latest."""
        self._wake = moment if self._wake is None else min(self._wake, moment)

    def wait_until(self, moment: datetime) -> bool:
        """Wait for that moment, and look again then; whether it is yet to come.

        However far ahead it is, which `wait_out` takes for the word of a wrong clock: by a clock of
        ours that is behind, what follows comes late, and never early.
        """
        if self.now >= moment:
            return False
        self.wake_at(moment)
        return True

    def wait_out(self, since: datetime | None, span: timedelta) -> bool:
        """Wait so long, from then on, and look again then; whether that is not over yet."""
        end = self.find_end(since, span)
        if end is not None:
            self.wake_at(end)
        return end is not None

    def wake_for_overdue(self) -> None:
        """Look again when the end of a pod that is being deleted is not waited for any more."""
        for pod in self.view.snapshot.pods:
            end = self.view.find_overdue(pod)
            if end is not None and self.view.is_awaited(pod):
                self.wake_at(end)

    def rest_on(self, resource: Resource, name: str) -> None:
        """What was just decided cannot be taken back: this object must be as it is believed.

        Without a name: all the job's objects of that kind.
        """
        self.premises[Ref(resource, self.view.job.key.namespace, name)] = None

    def list_premises(self) -> tuple[Ref, ...]:
        """What must be as it is believed, in as few reads as that takes."""
        is_worker = {
            ref: ref.resource == PODS and ref.name != self.view.launcher_name
            for ref in self.premises
        }
        if sum(is_worker.values()) <= SINGLE_READS:
            return tuple(self.premises)
        all_workers = Ref(PODS, self.view.job.key.namespace, "")
        return (*(ref for ref in self.premises if not is_worker[ref]), all_workers)

    def tell(self, reason: str, message: str, *, is_warning: bool = False) -> None:
        """An Event on the job, once what was decided is written."""
        job = self.view.job
        self.events.append(Event(job.key.ref, job.uid, reason, message, is_warning))

    def remember(self, record: WorkerRecord) -> None:
        """Put a worker's record in the place of its former one."""
        self._records[record.name] = record
        self._are_records_new = True

    def forget(self, name: str) -> None:
        """Drop a worker's record."""
        self._are_records_new |= self._records.pop(name, None) is not None

    def set_condition(self, kind: str, status: str, reason: str, message: str = "") -> None:
        """Put a condition, with the job's generation at its last change; long messages are cut.

        One that is as it was when the pass began has not changed, whatever it was meanwhile.
        """
        message = cut(message, MAX_MESSAGE)
        old = find_condition(self._status.conditions, kind)
        if old is not None and (old.status, old.reason, old.message) == (status, reason, message):
            return
        new = Condition(kind, status, reason, message, observed_generation=self.view.job.generation)
        before, since = find_condition(self._before, kind), self.now
        if before is not None and before.status == status:
            since = before.last_transition_time or since
        self.change(conditions=with_condition(self._status.conditions, new, since))

    def clear_condition(self, kind: str, reason: str, message: str = "") -> None:
        """Say "False" where the condition was there; say nothing where it never was."""
        old = find_condition(self._status.conditions, kind)
        if old is not None and old.status != "False":
            self.set_condition(kind, "False", reason, message)


def count_failure(
    backoff: Backoff | None, now: datetime, good_time: timedelta = GOOD_TIME
) -> Backoff:
    """One more failure, or the first one after ten good minutes, or after so long a time."""
    if backoff is None or now - backoff.at >= good_time:
        return Backoff(1, now)
    return Backoff(backoff.count + 1, now)


def back_off(draft: Draft, backoff: Backoff | None) -> bool:
    """Whether the 1, 2, 4 ... 60 s after the last failure are not over; asks to be woken then."""
    if backoff is None:
        return False
    wait = timedelta(seconds=2 ** min(backoff.count - 1, 10))
    return draft.wait_out(backoff.at, min(wait, LONGEST_WAIT))


def respect_refusal(draft: Draft, subject: Subject) -> bool:
    """Whether the server refused such a write a short while ago: 10, 20 ... 300 s between tries.

    One that failed is tried again as fast as the queue does it, and later each minute at most.
    What its author has changed since is worth a try at once.
    """
    refusal = draft.view.snapshot.refusals.get(subject)
    if refusal is None or refusal.generation != draft.view.job.generation:
        return False
    return draft.wait_out(refusal.at, find_pause(refusal))


def find_pause(refusal: Refusal) -> timedelta:
    """How long after it the same is not tried again by a planner."""
    count, longest = refusal.count, LONGEST_REFUSAL_WAIT
    if not refusal.is_meant:
        count, longest = count - FAILURES_TOLD, LONGEST_FAILURE_WAIT
    if count < 1:
        return timedelta()
    doubled: timedelta = FIRST_REFUSAL_WAIT * 2 ** min(count - 1, 10)
    return min(doubled, longest)


def hold_back(draft: Draft, actions: Iterable[Action]) -> tuple[Action, ...]:
    """The actions without those that were refused a short while ago.

    As when one is refused, those after it wait, but for what stands alone. A number of replicas is
    judged by how often it is refused in a row (planning/scaling), a pod by when it was wanted
    (planning/creating): these are not held back.
    """
    kept: list[Action] = []
    is_stopped = False
    for action in actions:
        is_alone, subject = action.stands_alone, action.subject
        is_number = subject == TRAINING_JOBS and not _has_failed(draft.view, subject)
        if is_stopped and not is_alone:
            continue
        if is_number or subject == PODS or not respect_refusal(draft, subject):
            kept.append(action)
        else:
            is_stopped |= not is_alone
    return tuple(kept)


def _has_failed(view: View, subject: Subject) -> bool:
    refusal = view.snapshot.refusals.get(subject)
    return refusal is not None and not refusal.is_meant
