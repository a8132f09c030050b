"""When a worker that was lost is replaced, and when a job none of whose workers lives is given up.

Each worker has a place, and when it is lost another one takes that place. A place waits for itself
alone: what ended elsewhere, or was ended there by the platform, holds up nobody.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum

from et_operator.model.pods import MAX_RETRIES, Pod
from et_operator.model.statuses import WorkerRecord, WorkerState
from et_operator.planning.drafts import LONGEST_WAIT, Draft
from et_operator.planning.ends import is_disrupted, is_refused_by_node
from et_operator.planning.standings import Standing
from et_operator.planning.stopping import fail
from et_operator.planning.views import View

SHORT = LONGEST_WAIT
"""A worker that lived for longer is replaced at once: its place had no other one for so long."""
HOPELESS = 10
"""Workers in a row of one place that ended before they could be used."""


class Cause(Enum):
    """Who ended a worker; the value is how often in a row a place counts that.

    What the platform takes makes a place wait 8 s at the most, for it comes in rhythms (a drain, a
    preemption, spot capacity that goes) and says nothing about the job. A node that refuses pods
    refuses the next one at once, so a place waits for it as for a worker that ends by itself. One
    in which a rank failed lived: its place waits as long, and that is no end before it was used.
    Nor is that of one that was told to end: where each that comes is, they come once a minute.
    """

    TAKEN = 4
    REFUSED = HOPELESS
    RANK = 7
    TOLD = 8
    ITSELF = MAX_RETRIES


@dataclass(frozen=True, slots=True)
class Vacancy:
    """A place whose worker was lost: what its next worker's record says, and of whom it comes."""

    name: str
    reason: str
    cause: Cause
    since: datetime
    retries: int
    is_of_used_up: bool = False
    """The last worker in it of which the command had anything was used up."""
    replaces: str = ""
    """Where the lost worker was a successor that was held: the worker whose place it was for."""


def judge_loss(
    standing: Standing, name: str, pod: Pod | None, reason: str, cause: Cause | None = None
) -> Vacancy:
    """What the loss of this worker means for its place. `pod` None: nobody saw how it ended.

    `cause` None: as the pod shows it.
    """
    record = standing.find_record(name)
    is_joining = record is not None and record.state is WorkerState.JOINING
    before = record.retries if record is not None and is_joining else pod.retries if pod else 0
    cause = cause or _find_cause(pod)
    life = _measure_life(standing.view, record if is_joining else None, pod)
    was_used = pod is None or pod.uid in standing.view.listed
    if life >= SHORT and (was_used or cause is not Cause.ITSELF):
        retries = 0
    else:
        retries = max(before, min(before + 1, cause.value))
    since = standing.now - min(life, find_spacing(retries))
    is_heir = is_joining and record is not None and bool(record.ours)
    is_of_used_up = is_heir or cause is Cause.RANK
    replaces = record.replaces if record is not None and is_joining else ""
    return Vacancy(name, reason, cause, since, retries, is_of_used_up, replaces)


def find_spacing(retries: int) -> timedelta:
    """The least time between the creations of two workers of a place: 0, 1, 2, 4 ... 60 s."""
    seconds = 2 ** min(retries - 1, 10) if retries > 0 else 0
    return min(timedelta(seconds=seconds), LONGEST_WAIT)


def check_due(draft: Draft, record: WorkerRecord) -> bool:
    """Whether the worker whose name was decided may be created now; asks to be woken then."""
    return not draft.wait_out(record.since, find_spacing(record.retries))


def was_due(record: WorkerRecord, moment: datetime) -> bool:
    """Whether the worker might have been created by then already."""
    return record.since is None or record.since + find_spacing(record.retries) <= moment


def check_hopeless(draft: Draft, vacancies: Iterable[Vacancy]) -> bool:
    """Give the job up when no worker comes to life; whether that was so.

    Judged at each loss of a worker that ended by itself. All have the same template: where one of
    them lives, it is nodes that end the others, and the job goes on with those that it has.
    """
    own = [v for v in vacancies if v.cause is Cause.ITSELF and v.retries >= HOPELESS]
    if not own or _is_anyone_well(draft):
        return False
    fail(draft, "WorkersFailing", _describe(own[0].name, own[0].reason))
    return True


def describe_failing(standing: Standing) -> str:
    """That no worker of some place comes to life, and how the last one ended; "" if not so."""
    unborn = any(record.retries >= HOPELESS for record in standing.select_unborn())
    if not unborn and not any(_is_in_doubt(standing.view, pod) for pod in standing.select_roster()):
        return ""
    ended = [r for r in standing.select_records(WorkerState.GONE) if not r.taken]
    last = max(ended, key=lambda record: record.since or standing.now, default=None)
    return _describe(last.name, last.reason) if last else _describe("", "")


def _describe(name: str, reason: str) -> str:
    detail = f"; the last one, {name}: {reason}" if name else ""
    return f"{HOPELESS} or more workers in a row ended before they could be used{detail}"


def _is_anyone_well(standing: Standing) -> bool:
    """Whether a worker lives, or is on its way on a node and may."""
    roster = (pod for pod in standing.select_usable() if pod.node is not None)
    return any(not _is_in_doubt(standing.view, pod) for pod in roster)


def _is_in_doubt(view: View, pod: Pod) -> bool:
    """Whether so many before it ended that it must first be seen to live."""
    return pod.retries >= HOPELESS and pod.uid not in view.listed


def _find_cause(pod: Pod | None) -> Cause:
    if pod is not None and is_refused_by_node(pod):
        return Cause.REFUSED
    return Cause.TAKEN if pod is None or is_disrupted(pod) else Cause.ITSELF


def _measure_life(view: View, joining: WorkerRecord | None, pod: Pod | None) -> timedelta:
    """How long it lived: between two readings of one clock, as far as there are two."""
    if joining is not None and joining.uid and joining.since is not None:
        life = view.now - joining.since
    elif pod is None:
        return SHORT
    else:
        life = _measure_pod(view, pod)
    return max(life, timedelta())


def _measure_pod(view: View, pod: Pod) -> timedelta:
    end = pod.termination.finished if pod.termination else None
    if end is not None and pod.started is not None and pod.started.timestamp() > 0:
        return end - pod.started  # a container that could not be started says 1970
    return (pod.deletion_requested or view.now) - pod.created
