"""Which workers are used up and replaced, and when that stops.

A rank has failed there, and the command that goes on never uses the host again: so says its broker
(launcher/broker/blacklisting.py). That is no loss for which the platform could be blamed, and no
end of the job. But a script that fails on every node must not wear out a cluster.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from et_operator.model.blacklists import USED_UP, GivenUp, Moment
from et_operator.model.pods import Pod
from et_operator.model.texts import name_some
from et_operator.planning.drafts import Draft
from et_operator.planning.leaving import leave
from et_operator.planning.replacing import Cause, Vacancy, judge_loss
from et_operator.planning.standings import Standing

MOST = 3
"""So many for each worker that the job wants are replaced within WITHIN."""
WITHIN = timedelta(hours=1)
GATHERED = timedelta(minutes=1)
"""What comes so soon after another is counted with it: the status has its limit."""
MOST_MOMENTS = 64
"""The CRD's limit of moments in the status: a clock that was ahead leaves many of one time."""


def dismiss_used_up(draft: Draft) -> list[Vacancy]:
    """Let them leave, unless there were too many; returns their places."""
    used_up = _list_used_up(draft)
    if not used_up or find_stop(draft) is not None or not _note(draft, len(used_up)):
        return []
    _tell(draft, used_up)
    vacancies = [judge_loss(draft, p.name, p, USED_UP, Cause.RANK) for p in used_up]
    for pod in used_up:
        leave(draft, pod.name, pod.uid, USED_UP, ours=True)
    return vacancies


def find_stop(standing: Standing) -> GivenUp | None:
    """What is noted of this epoch, where its workers are replaced no more for such ends."""
    noted = _find_noted(standing)
    return noted if noted.stopped is not None else None


def describe_stop(standing: Standing) -> str:
    """That used up workers are replaced no more; "" where that is not so."""
    if find_stop(standing) is None:
        return ""
    names = [pod.name for pod in _list_used_up(standing)]
    who = f"; {name_some(names)} stay and do nothing" if names else ""
    return (
        f"processes failed in more than {MOST} workers within an hour for each that the job wants, "
        "and its command went on without them: no more are replaced for that, until another "
        f"command starts after that hour or the job is suspended and resumed{who}"
    )


def _list_used_up(standing: Standing) -> list[Pod]:
    used_up = standing.used_up
    return [pod for pod in standing.select_roster() if pod.uid in used_up] if used_up else []


def _find_noted(standing: Standing) -> GivenUp:
    """What is noted, and of a former epoch how many there were: a launcher that fails is no news.

    A person who suspends the job has it forgotten (planning/finishing.py).
    """
    noted, epoch = standing.decided.given_up, standing.decided.epoch
    if noted is None or noted.epoch == epoch:
        return noted or GivenUp(epoch)
    return GivenUp(epoch, noted.moments)


def _note(draft: Draft, count: int) -> bool:
    """Note that so many more are used up; whether they may be replaced."""
    noted, now = _find_noted(draft), draft.now
    moments = [moment for moment in noted.moments if moment.at > now - WITHIN]
    most = MOST * (draft.decided.decided_replicas or 0)
    is_enough = sum(moment.count for moment in moments) + count > most
    if moments and moments[-1].at > now - GATHERED:
        last = moments.pop()
        moments.append(replace(last, count=last.count + count))
    else:
        moments.append(Moment(now, count))
    stopped = now if is_enough else None
    kept = tuple(moments[-MOST_MOMENTS:])
    draft.change(given_up=replace(noted, moments=kept, stopped=stopped))
    return not is_enough


def _tell(draft: Draft, used_up: list[Pod]) -> None:
    """Ends with one code are one Event."""
    codes: dict[int, list[str]] = {}
    for pod in used_up:
        codes.setdefault(draft.used_up[pod.uid], []).append(pod.name)
    for code, names in codes.items():
        message = (
            f"{name_some(names)}: a process there ended with exit code {code}, and the command "
            "goes on and never uses that host again: the worker leaves and is replaced; what the "
            f"process wrote is in the log of {draft.view.launcher_name}"
        )
        draft.tell("WorkerGivenUp", message, is_warning=True)
