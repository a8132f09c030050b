"""Takes in what became of earlier decisions: bound, gone, never created, never bound.

The first step that changes admissions: all others read what it has made of them. A job that cannot
be written is left as it is.
"""

from __future__ import annotations

from typing import Any

from et_contract.admissions import AdmissionState
from et_scheduler.model.decisions import Step
from et_scheduler.model.jobs import Gift, Purpose
from et_scheduler.model.reasons import Reason
from et_scheduler.planning.clocks import set_clock_right
from et_scheduler.planning.drafts import Draft
from et_scheduler.planning.fitting import find_seats
from et_scheduler.planning.lacking import check_growth, lacks_growth, lower
from et_scheduler.planning.returning import NO_WAIT, forget_growth, send_back, spread, take_back
from et_scheduler.planning.sizes import find_allowed
from et_scheduler.planning.standings import BY_AGE, Standing


def note_all(draft: Draft) -> None:
    """Change admissions so that they say what has happened since they were written."""
    for standing in draft.standings.values():
        if standing.job.is_frozen:
            continue
        set_clock_right(draft, standing)
        _note_gone(draft, standing)
        _note_round(draft, standing)
        if standing.is_admitted:
            _note_most(draft, standing)
            _note_admitted(draft, standing)
            _note_withdrawn(draft, standing)
        elif standing.is_waiting:
            _note_waiting(draft, standing)
        elif standing.job.is_suspended:
            _note_suspended(draft, standing)
    for standing in draft.list_admitted():
        if not standing.job.is_frozen:
            _restore_given(draft, standing)


def _note_withdrawn(draft: Draft, standing: Standing) -> None:
    """Who asks for no larger least size any more waits for nothing: the next wait begins anew.

    Once it stands, so do the rounds in which whole jobs go for it.
    """
    told = standing.admission
    if standing.missing or not standing.is_admitted:
        return
    if any(getattr(told, name) is not None for name in NO_WAIT):
        draft.change(standing, Step.TELL, **NO_WAIT)
    if told.rounds and not standing.is_starting:
        draft.change(standing, Step.TELL, rounds=0)


def _note_round(draft: Draft, standing: Standing) -> None:
    """Whole jobs have gone for it: that is told of those who went, and not of who was asked.

    It is counted at once: as long as it does not stand it was in vain, whoever had the room.
    """
    at, told = draft.hearing.gone_for.get(standing.job.uid), standing.admission
    if at is not None and (told.round_at is None or at > told.round_at):
        draft.change(standing, Step.TELL, rounds=told.rounds + 1, round_at=at)


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
    """A place in line begins when the job is first held, in its queue, and when it is resumed."""
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
            reserved=(),
            since=draft.now,
            **NO_WAIT,
            **forget_growth(admission),
        )


def _note_suspended(draft: Draft, standing: Standing) -> None:
    """Who is suspended before he has started gives back what he was told, before others have it.

    His author may resume him before the operator looks: he would start in the room of others. Who
    is suspended in the line has left it: else whoever is to run some day would come by age.
    """
    admission = standing.admission
    if admission.state is AdmissionState.WAITING:
        if admission.queue:
            draft.change(standing, Step.TELL, queue="")
    elif admission.number > standing.job.admitted_number:
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
        check_growth(draft, standing)
    elif lacks_growth(draft, standing):
        lower(draft, standing)
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
    wait = rules.autoscaled_within if draft.is_autoscaled(standing) else rules.bound_within
    gang = sorted(pod.created for pod in (*standing.workers, *standing.unbound))[: standing.floor]
    launchers = [pod.created for pod in standing.launchers]
    if _has_lost_seats(draft, standing):
        take_back(draft, standing, Reason.NOT_BOUND, "its nodes have no room any more")
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
    retry_at = draft.now + spread(standing, draft.rules.retry_least)
    send_back(draft, standing, Reason.NEVER_CREATED, text, retry_at=retry_at)


def _has_lost_seats(draft: Draft, standing: Standing) -> bool:
    """Whether what lacks of a gang has no room, now or later, where its pods look for it.

    What else was promised there does not count: which of two gets a node is not known before.
    """
    told = draft.holds.find_told(standing)
    lacking = standing.find_lacking(standing.floor)
    return told is not None and find_seats(draft.room, lacking, told, later=True) is None


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
