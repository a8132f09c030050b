"""Takes in what became of earlier decisions: bound, gone, never created, never bound."""

from __future__ import annotations

from typing import Any
from zlib import crc32

from et_contract.admissions import AdmissionState
from et_scheduler.model.decisions import Step
from et_scheduler.model.jobs import Admission, Gift, Purpose
from et_scheduler.model.reasons import Reason
from et_scheduler.planning.drafts import Draft
from et_scheduler.planning.fitting import Gang, find_seats
from et_scheduler.planning.sizes import find_allowed, find_floor
from et_scheduler.planning.standings import BY_AGE, Standing

SPREAD = 5
"""Retries of jobs that were taken back together are spread over a fifth of the wait."""


def note_all(draft: Draft) -> None:
    """Change admissions so that they say what has happened since they were written."""
    for standing in draft.standings.values():
        if standing.job.is_frozen:
            continue
        _note_gone(draft, standing)
        if standing.is_admitted:
            _note_most(draft, standing)
            _note_admitted(draft, standing)
        elif standing.is_waiting:
            _note_waiting(draft, standing)
        elif standing.job.is_waiting:
            _note_suspended(draft, standing)
    for standing in draft.list_admitted():
        if not standing.job.is_frozen:
            _restore_given(draft, standing)


def _note_gone(draft: Draft, standing: Standing) -> None:
    """What was given is gone: the job may be asked again. So it may once nobody waits for it."""
    admission = standing.admission
    draft.has_passed(standing.going_since, draft.rules.coming_most)
    has_given = admission.gave_for is not None or bool(admission.leaving)
    if standing.leaving:
        if admission.leaving_since is None:  # a former version has asked
            draft.change(standing, Step.TELL, leaving_since=draft.now)
    elif has_given and standing.overdue.isdisjoint(admission.leaving):
        draft.change(standing, Step.TELL, gave_for=None, leaving=(), leaving_since=None)


def _note_most(draft: Draft, standing: Standing) -> None:
    """An edit has lowered the most that it may have, or taken its size away: it gives back.

    Whose replicas are his author's chooses his victims himself.
    """
    most = min(standing.most, max(find_allowed(standing.job, standing.size), standing.floor))
    if standing.size <= most or standing.leaving:
        return
    text = f"may have {most} workers now"
    if standing.is_elastic:
        surplus = standing.workers[most:]
        for pod in surplus:
            draft.expect_worker(standing, pod)
        draft.shrink(standing, surplus, None, text)
    else:
        draft.change(standing, Step.GIVE, workers=most, message=text)


def _note_waiting(draft: Draft, standing: Standing) -> None:
    """A place in line begins when the job is first held, in its queue, and at each suspension."""
    admission = standing.admission
    is_spent = admission.state is AdmissionState.ADMITTED
    if is_spent or admission.queue != draft.get_queue(standing):
        draft.change(
            standing,
            Step.TELL,
            state=AdmissionState.WAITING,
            queue=draft.get_queue(standing),
            workers=0,
            queued_at=draft.now,
            unfit_since=None,
            reserved=(),
            since=draft.now,
            **_forget_growth(admission),
        )


def _note_suspended(draft: Draft, standing: Standing) -> None:
    """Who is suspended before he has started gives back what he was told, before others have it.

    His author may resume him before the operator looks: he would start in the room of others.
    """
    admission = standing.admission
    if (
        admission.state is AdmissionState.ADMITTED
        and admission.number > standing.job.admitted_number
    ):
        send_back(draft, standing, Reason.NONE, "suspended before it had started", queue="")


def _note_admitted(draft: Draft, standing: Standing) -> None:
    admission = standing.admission
    short_since = None if standing.is_whole else admission.short_since or draft.now
    if admission.bound_at is None:
        if standing.is_bound:
            fields = {"bound_at": draft.now, "attempts": 0, "short_since": short_since}
            fields["grown_from"] = admission.grown_from if short_since else 0
            draft.change(standing, Step.TELL, **fields)
        else:
            _check_start(draft, standing)
    elif short_since is None:
        _note_whole(draft, standing)
    elif admission.short_since is None:
        draft.change(standing, Step.TELL, short_since=short_since)
    elif standing.is_bound:
        _check_growth(draft, standing)
    elif _lacks_growth(draft, standing):
        _lower(draft, standing)
    elif draft.has_passed(short_since, draft.rules.short_most):
        take_back(draft, standing, Reason.BELOW_MINIMUM, "below its least size for too long")


def _note_whole(draft: Draft, standing: Standing) -> None:
    """All is there that it may have. If more was to come, that has: the next does not wait."""
    admission, fields = standing.admission, dict[str, Any]()
    if admission.reason is Reason.RAISED:
        fields = {"reason": Reason.GROWN, "attempts": 0, "retry_at": None}
    elif admission.grown_from:
        fields = {"attempts": 0, "retry_at": None}
    if admission.short_since is not None or fields:
        draft.change(standing, Step.TELL, short_since=None, grown_from=0, **fields)


def _check_start(draft: Draft, standing: Standing) -> None:
    """A gang that does not stand in time is taken back whole, and blocks nobody.

    Its time begins anew with each pod that it needs: a large one is not created at once. Where
    others have taken the nodes that it was told, that is no failed attempt: there is nothing to
    wait for, and there may be room elsewhere.
    """
    rules, admission = draft.rules, standing.admission
    queue = draft.queues.get(draft.get_queue(standing))
    is_autoscaled = queue is not None and queue.is_autoscaled
    wait = rules.autoscaled_within if is_autoscaled else rules.bound_within
    gang = sorted(pod.created for pod in (*standing.workers, *standing.unbound))[: standing.floor]
    launchers = [pod.created for pod in standing.launchers]
    if _has_lost_seats(draft, standing):
        take_back(draft, standing, Reason.NOT_BOUND, "others are on the nodes that it was to have")
        return
    if not draft.has_passed(max((*gang, *launchers, admission.since)), wait):
        return
    if len(gang) < standing.floor or not (gang or launchers):
        reason, found = Reason.NEVER_CREATED, f"the operator had created {len(gang)}"
    else:
        reason, found = Reason.NOT_BOUND, f"{len(standing.workers)} had found a node"
    text = f"of {standing.floor} workers {found} after {wait // 1000} s"
    if (
        standing.job.admitted_number < admission.number
        and draft.hearing.heard_at <= admission.since
    ):
        _try_again(draft, standing, text)
    else:
        take_back(draft, standing, reason, text, is_attempt=True)


def _try_again(draft: Draft, standing: Standing, text: str) -> None:
    """No operator has looked at anything: that is no attempt, and costs no place."""
    retry_at = draft.now + _spread(standing, draft.rules.retry_least)
    send_back(draft, standing, Reason.NEVER_CREATED, text, retry_at=retry_at)


def _has_lost_seats(draft: Draft, standing: Standing) -> bool:
    """Whether what lacks of a gang has no room, now or later, where its pods look for it.

    What else was promised there does not count: which of two gets a node is not known before.
    """
    told = draft.find_told(standing)
    lacking = standing.find_lacking(standing.floor)
    return told is not None and find_seats(draft.room, lacking, told, later=True) is None


def _check_growth(draft: Draft, standing: Standing) -> None:
    """Workers above the least that find no node, or that nobody creates, are given back.

    Time alone says that they do not come: others may be lost and made anew meanwhile. What was lost
    it may have again in the same pass, where nobody else wants the room.
    """
    rules = draft.rules
    newest = max((pod.created for pod in standing.unbound), default=None)
    is_taken = bool(draft.served) or _has_no_room(draft, standing)
    if is_taken and draft.has_passed(newest, rules.given_back):
        wait = rules.given_back
    elif draft.has_passed(standing.admission.short_since, rules.grown_within):
        wait = rules.grown_within
    else:
        return
    if _costs_others(draft, standing):
        return
    lacking = standing.size - len(standing.workers)
    text = f"{lacking} workers had no node in {wait // 1000} s"
    fields: dict[str, Any] = {"reason": Reason.NOT_GROWN, "short_since": None, "grown_from": 0}
    uncreated = lacking - len(standing.unbound) - standing.replaced
    if uncreated > 0:
        text += f", {uncreated} of them were not created"
    fields |= _judge_growth(draft, standing, is_created=uncreated <= 0)
    standing.has_lost = not standing.admission.grown_from
    draft.shrink(standing, (), None, text)
    draft.change(standing, Step.GIVE, **fields)


def _costs_others(draft: Draft, standing: Standing) -> bool:
    """Whether workers that are there would go for those that were lost, and nobody waits for room.

    Between two of its sizes the lower counts: of eight, four would go for one.
    """
    there = len(standing.workers)
    if standing.admission.grown_from or find_floor(standing.job, there) >= there:
        return False
    return not draft.is_room_wanted


def _has_no_room(draft: Draft, standing: Standing) -> bool:
    """Whether its pods without a node have none where they look, now or later.

    What it has lost it could get again by growth alone: of that it keeps what is too little for
    one. Where an autoscaler is to see pods, they are to be seen.
    """
    rules, unbound, told = draft.rules, len(standing.unbound), draft.find_told(standing)
    queue = draft.queues.get(draft.get_queue(standing))
    if not unbound or (queue is not None and queue.is_autoscaled):
        return False
    if not standing.admission.grown_from:
        if unbound * 100 < rules.worth * standing.size:
            return False
        told = None
    lacking = Gang(None, standing.coming, unbound)
    return find_seats(draft.room, lacking, told, later=True) is None


def _judge_growth(draft: Draft, standing: Standing, *, is_created: bool) -> dict[str, Any]:
    """A growth of which nobody created anything has failed: the wait for the next is longer.

    A loss is none. Without a launcher that has a node the operator itself may hold workers back.
    """
    grown_from = standing.admission.grown_from
    if not grown_from or standing.launcher is None:
        return {}
    if len(standing.workers) > grown_from:
        return {"attempts": 0, "retry_at": None}
    return {} if is_created else _count_attempt(draft, standing)


def _lacks_growth(draft: Draft, standing: Standing) -> bool:
    """Whether it lacks its least size since it may have more, and for too long by now."""
    admission = standing.admission
    had_less = admission.grown_from or (admission.reason is Reason.RAISED and standing.workers)
    is_lacking = len(standing.workers) < standing.floor
    wait = draft.rules.grown_within
    return bool(had_less) and is_lacking and draft.has_passed(admission.short_since, wait)


def _lower(draft: Draft, standing: Standing) -> None:
    """A larger least size that does not come costs the job nothing: it may have what it had.

    What has come of it stays, down to an allowed size. It waits in line for the rest again, longer
    each time; what lacks of its own it lacks from now on.
    """
    there = len(standing.workers)
    text = f"{standing.floor - there} workers of a larger least size had no node in "
    text += f"{draft.rules.grown_within // 1000} s"
    own = standing.admission.grown_from  # a former version has not written it
    workers = min(max(own, find_allowed(standing.job, there)), standing.size)
    draft.change(standing, Step.GIVE, workers=workers, short_since=None, grown_from=0)
    draft.shrink(standing, (), None, text)
    fields = _count_attempt(draft, standing)
    draft.change(standing, Step.GIVE, reason=Reason.NOT_GROWN, **fields)


def take_back(
    draft: Draft, standing: Standing, reason: Reason, text: str, *, is_attempt: bool = False
) -> None:
    """Back into the line at the old place; all pods go. Each failed attempt doubles the wait.

    Who fails again is behind all who have come: many who never stand would else take turns at the
    front, for no wait is longer than all their attempts together.
    """
    changes = _count_attempt(draft, standing) if is_attempt else {}
    if is_attempt and standing.admission.attempts:
        changes["queued_at"] = draft.now
    send_back(draft, standing, reason, text, **changes)


def _count_attempt(draft: Draft, standing: Standing) -> dict[str, int]:
    """Each that fails doubles the wait for the next."""
    rules, attempts = draft.rules, standing.admission.attempts
    wait = min(rules.retry_least << min(attempts, 16), rules.retry_most)
    return {"attempts": attempts + 1, "retry_at": draft.now + _spread(standing, wait)}


def _spread(standing: Standing, wait: int) -> int:
    parts = crc32(standing.job.uid.encode()) % 100
    return wait + wait * parts // 100 // SPREAD


def send_back(
    draft: Draft, standing: Standing, reason: Reason, text: str, **changes: object
) -> None:
    """An admitted job is in the line again, and all its pods go: their room is free later."""
    changes = {**_forget_growth(standing.admission), **changes}
    draft.change(
        standing,
        Step.GIVE,
        state=AdmissionState.WAITING,
        since=draft.now,
        workers=0,
        leaving=(),
        leaving_since=None,
        gave_for=None,
        bound_at=None,
        short_since=None,
        grown_from=0,
        reason=reason,
        message=text,
        **changes,
    )
    _vacate(draft, standing)


def _forget_growth(admission: Admission) -> dict[str, Any]:
    """Attempts of one that has stood were for more workers: its next start is another matter."""
    return {} if admission.bound_at is None else {"attempts": 0, "retry_at": None}


def _vacate(draft: Draft, standing: Standing) -> None:
    draft.expect_whole(standing)
    standing.workers, standing.unbound = [], []
    standing.has_launcher = False
    standing.is_admitted = False


def _restore_given(draft: Draft, standing: Standing) -> None:
    """The gang for which it gave waits for room no more: who has not begun to drain stays.

    As many of them as an allowed size has: the others go on leaving.
    """
    gift = standing.admission.gave_for
    if gift is None or gift.purpose is not Purpose.GANG or _still_waits(draft, gift):
        return
    names = set(standing.admission.leaving).difference(pod.name for pod in standing.workers)
    stay = [
        pod
        for pod in standing.job.pods
        if pod.name in names and pod.node and not pod.is_draining and not pod.is_terminating
    ]
    stay.sort(key=BY_AGE)
    workers = find_allowed(standing.job, standing.size + len(stay))
    stay = stay[: max(workers - standing.size, 0)]
    if not stay:
        return
    kept = {pod.name for pod in stay}
    leaving = tuple(name for name in standing.admission.leaving if name not in kept)
    text = "the job for which it gave workers does not wait for room any more"
    fields = {"workers": workers, "leaving": leaving, "message": text, "reason": Reason.GROWN}
    draft.change(standing, Step.TAKE, gave_for=gift if leaving else None, **fields)
    awaited = [pod for pod in stay if pod.name not in standing.overdue]
    for pod in awaited:
        draft.expect_worker(standing, pod, -1)
    standing.workers = sorted((*standing.workers, *stay), key=BY_AGE)
    standing.leaving -= len(awaited)
    standing.overdue -= kept


def _still_waits(draft: Draft, gift: Gift) -> bool:
    """Whether the receiver waits for room, or has just started into it."""
    receiver = draft.standings.get(gift.uid)
    return receiver is not None and (receiver.lacks_room or receiver.is_admitted)
