"""What the server has answered to writes for jobs; lost with the process, which costs a try.

Whoever writes tells it, and a planner is shown it as it shows the cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from et_contract.pods import Role
from et_kube.resources import Ref
from et_kube.tables import Place
from et_operator.model.actions import Subject
from et_operator.model.keys import JobKey
from et_operator.model.snapshots import REFUSED_LATELY, Proof, Refusal

TAKEN_FOR = timedelta(seconds=60)
"""How long a name that somebody else holds is left alone before it is tried again."""
WORDS_KEPT = 10
"""So many failures in a row are told in the words of the first."""


@dataclass(frozen=True, slots=True)
class Holder:
    """Somebody else's object under a name of ours: when it was seen, and whether we watch it."""

    seen: datetime
    is_watched: bool


@dataclass(slots=True)
class Known:
    """What was answered to writes for one job; another one of its name begins with nothing."""

    job_uid: str
    refusals: dict[Subject, Refusal] = field(default_factory=dict)
    taken_names: dict[Ref, Holder] = field(default_factory=dict)
    """Names held by somebody else's objects."""
    proofs: dict[Role, Proof] = field(default_factory=dict)
    """What a dry run has shown of the job's pods, by role: as what the server would create them."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing is known."""
        return not (self.refusals or self.taken_names or self.proofs)


class Answers:
    """Of each job by its key. `is_there`: whether our watches show such an object."""

    def __init__(self, is_there: Callable[[Ref], bool]) -> None:
        self._is_there = is_there
        self._known: dict[JobKey, Known] = {}
        self._waiting: dict[Place, set[JobKey]] = {}
        self._waited_for: dict[JobKey, set[Place]] = {}

    def find(self, key: JobKey, job_uid: str = "") -> Known:
        """What is known about this very job ("": where there is none); not to be changed."""
        found = self._known.get(key)
        return found if found is not None and found.job_uid == job_uid else Known(job_uid)

    def find_waiting(self, namespace: str, name: str) -> Collection[JobKey]:
        """The jobs that found this name to be somebody else's."""
        return self._waiting.get((namespace, name), ())

    def forget(self, key: JobKey) -> None:
        """A job is gone, with all that was its own: nothing of it is kept."""
        self._keep(key, Known(""))

    def expire(self, key: JobKey, now: datetime) -> None:
        """What was answered too long ago, or under another time of day, is tried again."""
        known = self._known.get(key)
        if known is None:
            return
        refusals, proofs, taken_names = known.refusals, known.proofs, known.taken_names
        known.refusals = {s: r for s, r in refusals.items() if _is_new(r.at, now, REFUSED_LATELY)}
        known.proofs = {r: p for r, p in proofs.items() if _is_new(p.at, now, REFUSED_LATELY)}
        known.taken_names = {
            ref: holder
            for ref, holder in taken_names.items()
            if _is_new(holder.seen, now, TAKEN_FOR)
            and (not holder.is_watched or self._is_there(ref))
        }
        self._keep(key, known)

    def note_writes(
        self, key: JobKey, job_uid: str, done: Iterable[Subject], refused: Mapping[Subject, Refusal]
    ) -> None:
        """What was done is refused no longer; what was refused counts once more.

        Or for the first time, where the author has changed the job since.
        """
        known = self.find(key, job_uid)
        for subject in done:
            known.refusals.pop(subject, None)
        for subject, refusal in refused.items():
            known.refusals[subject] = _add(known.refusals.get(subject), refusal)
        self._keep(key, known)

    def note_taken(
        self, key: JobKey, job_uid: str, ref: Ref, seen: datetime, *, is_in_sight: bool
    ) -> None:
        """Somebody else's object has this name; `is_in_sight`: our watches tell when it goes."""
        known = self.find(key, job_uid)
        known.taken_names[ref] = Holder(seen, is_in_sight and self._is_there(ref))
        self._keep(key, known)

    def note_proof(self, key: JobKey, job_uid: str, role: Role, proof: Proof) -> None:
        """A dry run has shown as what the server would create the job's pods of this role."""
        known = self.find(key, job_uid)
        known.proofs[role] = proof
        self._keep(key, known)

    def _keep(self, key: JobKey, known: Known) -> None:
        for place in self._waited_for.pop(key, ()):
            self._waiting[place].discard(key)
            if not self._waiting[place]:
                del self._waiting[place]
        if known.is_empty:
            self._known.pop(key, None)
            return
        self._known[key] = known
        places = {(key.namespace, ref.name) for ref in known.taken_names}
        for place in places:
            self._waiting.setdefault(place, set()).add(key)
        if places:
            self._waited_for[key] = places


def _is_new(at: datetime, now: datetime, span: timedelta) -> bool:
    """A moment that is yet to come is of a clock that was set since."""
    return timedelta() <= now - at < span


def _add(before: Refusal | None, refusal: Refusal) -> Refusal:
    """One more of the same object, or the first since the author changed the job.

    That others of its kind were refused says nothing of this one: a quota may have its room. A
    webhook that fails may say so in other words each time: they are renewed now and then only,
    for each change of words is a write.
    """
    if before is None:
        return refusal
    if (before.generation, before.name) != (refusal.generation, refusal.name):
        return refusal
    is_renewed = refusal.is_meant or before.count % WORDS_KEPT == 0
    message = refusal.message if is_renewed else before.message
    return replace(refusal, message=message, count=before.count + 1)
