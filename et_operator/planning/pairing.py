"""Pairs: a worker that is about to go, and its successor, which is made before and held.

The successor has its stream, and is on no list and no roster: a pair counts as one worker. It is
held for as long as its worker (`WorkerRecord.replaces`) is on the roster, unless it is ready and
nobody runs in some other place: then it takes that one. Once its worker has left, whyever, it takes
the place if that is free, else it leaves. So both change in one generation of the
config, the list changes once, and the number of workers never falls.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from datetime import timedelta

from et_contract.documents import KNOWS_HELD
from et_operator.model.pods import Pod
from et_operator.model.statuses import WorkerId, WorkerRecord, WorkerState
from et_operator.planning.admitting import is_queued
from et_operator.planning.drafts import Draft
from et_operator.planning.leaving import leave
from et_operator.planning.naming import reserve_names
from et_operator.planning.replacing import Vacancy
from et_operator.planning.standings import Standing

UNNEEDED = "Unneeded"
"""Reason of a successor that leaves, for its worker stays, or the place is nobody's any more."""
TOGETHER = timedelta(seconds=30)
"""So long the first successor that is ready waits for others, so that all change places at once."""


def can_pair(standing: Standing) -> bool:
    """Whether a successor may be there beside its worker, and is of use.

    A command that trains loses a step, or waits, for each list that is changed; its broker must
    know what it is to hold. What a queue has given has no room for one more.
    """
    view = standing.view
    is_known = view.report is not None and view.report.version >= KNOWS_HELD
    return is_known and view.is_training and view.is_elastic and not is_queued(view.job)


def find_successors(standing: Standing) -> dict[str, WorkerRecord]:
    """The successors that are held, by the names of their workers."""
    return {record.replaces: record for record in standing.select_held()}


def select_replaced(draft: Draft, workers: Iterable[Pod]) -> list[Pod]:
    """Workers whose successors are ready: all at once, or those that are by half a minute."""
    successors = find_successors(draft)
    paired = [pod for pod in workers if pod.name in successors]
    ready = [pod for pod in paired if _is_ready(draft, successors[pod.name])]
    if len(ready) == len(paired):
        return ready
    pods = [draft.view.names.get(successors[pod.name].name) for pod in ready]
    first = min((pod.started or pod.created for pod in pods if pod is not None), default=None)
    return [] if draft.wait_out(first, TOGETHER) else ready


def name_successors(draft: Draft, places: Iterable[Vacancy], lost: Iterable[Vacancy]) -> list[str]:
    """Decide names for successors in these places; one that takes that of a lost one waits, too."""
    waits = {vacancy.replaces: vacancy for vacancy in lost}
    own = list(places)
    names = reserve_names(draft, len(own))
    for name, place in zip(names, own, strict=True):
        record, vacancy = draft.find_record(name), waits.get(place.name, place)
        if record is not None:
            draft.remember(
                replace(
                    record,
                    since=vacancy.since,
                    retries=vacancy.retries,
                    replaces=place.name,
                )
            )
    return list(names)


def end_pairs(draft: Draft, going: Collection[str]) -> None:
    """Let the successors leave of those that stay after all; of one on a lost node who knows."""
    roster = {pod.name: pod for pod in draft.select_roster()}
    for record in draft.select_held():
        pod = roster.get(record.replaces)
        is_heard = pod is not None and not draft.view.is_lost(pod)
        if is_heard and record.replaces not in going:
            _dismiss(draft, record, f"{record.replaces} stays after all")


def place_successors(
    draft: Draft, vacancies: Iterable[Vacancy]
) -> tuple[list[Vacancy], list[WorkerId]]:
    """Give successors whose workers have left those places, as far as the job still has them.

    Answers the vacancies that are left for others, and who has come.
    """
    staying = {pod.name for pod in draft.select_roster()}
    left = [r for r in draft.select_held() if r.replaces not in staying]
    count = len(staying) + len(draft.select_unborn())
    free = (draft.decided.decided_replicas or 0) - count
    left.sort(key=lambda record: (not _is_ready(draft, record), not record.uid))
    coming = left[: max(free, 0)]
    for record in coming:
        # who takes a place that was lost since is held up by no refusal of before
        since = record.since if record.uid or record.retries else draft.now
        draft.remember(replace(record, replaces="", since=since))
    for record in left[len(coming) :]:
        _dismiss(draft, record, "that place is nobody's any more")
    taken = {record.replaces for record in coming}
    rest = [v for v in vacancies if not v.replaces and v.name not in taken]
    coming += _change_with_late(draft)
    return rest, [WorkerId(record.name, record.uid) for record in coming]


def avoid_taken_names(draft: Draft) -> None:
    """Forget successors whose names others hold: they are named anew."""
    for record in draft.select_held():
        if not record.uid and record.name in draft.view.snapshot.taken_names:
            draft.forget(record.name)


def _change_with_late(draft: Draft) -> list[WorkerRecord]:
    """Let those that are ready take places for which nobody runs yet; returns them.

    Their workers may stay for long, as the last ones with the training's state. Who was to come
    there is the successor then.
    """
    if not draft.view.can_command_run:
        return []
    ready = [record for record in draft.select_held() if _is_ready(draft, record)]
    joining = (r for r in draft.select_records(WorkerState.JOINING) if not r.replaces)
    late = [record for record in joining if not _is_running(draft, record)]
    for held, other in zip(ready, late, strict=False):
        draft.remember(replace(held, replaces=""))
        draft.remember(replace(other, replaces=held.replaces))
    return ready[: len(late)]


def _is_running(standing: Standing, record: WorkerRecord) -> bool:
    pod = standing.view.names.get(record.name)
    return pod is not None and pod.is_container_running


def _is_ready(standing: Standing, record: WorkerRecord) -> bool:
    """Whether this successor is on the list once its worker is not, and was put where it can stay.

    Where no command can run there is no list to be on. Of one on a lost node nobody knows: its
    broker has heard it once, and tells that it is ready for as long as it is held.
    """
    view = standing.view
    if not view.can_command_run:
        return True
    pod = view.names.get(record.name)
    if pod is None or pod.is_deleting or not pod.is_container_running:
        return False
    is_heard = pod.uid in view.ready and not view.is_lost(pod)
    return is_heard and pod.node not in view.ending_nodes


def _dismiss(draft: Draft, record: WorkerRecord, why: str) -> None:
    """Let this one leave, or never come: nobody needs it."""
    pod = draft.view.names.get(record.name)
    if pod is None and not record.uid:
        draft.forget(record.name)
    elif pod is not None and not draft.view.is_gone(pod):
        leave(draft, pod.name, pod.uid, UNNEEDED)
    else:
        return  # its end is noted by itself
    draft.tell("WorkerLeaving", f"{record.name} was to take the place of {record.replaces}: {why}")
