"""Pods of a template that was edited since, and workers that are to be new.

An edited template is for pods that are yet to come: what runs is left alone, and said to run the
old one. Only a pod that cannot start is replaced by itself. Whoever wants the new one sooner says
up to which index the workers are to be new (ANNOTATION_RENEWED), and they leave one after the
other, as long as the others go on without them: a number, for no index is ever used again, and no
clock has a say in which workers are meant.
"""

from __future__ import annotations

from et_kube.resources import Json
from et_operator.model.actions import Action
from et_operator.model.names import ANNOTATION_RENEWED
from et_operator.model.packing import digest
from et_operator.model.pods import Pod
from et_operator.model.statuses import WorkerState
from et_operator.model.texts import count, name_some
from et_operator.planning.drafts import Draft
from et_operator.planning.holding import check_state_stays
from et_operator.planning.leaving import leave, tell_replaced
from et_operator.planning.ranking import rank_victims
from et_operator.planning.replacing import Cause, Vacancy, judge_loss
from et_operator.planning.standings import Standing
from et_operator.planning.troubles import diagnose

OUTDATED, RENEWED = "Outdated", "Restarted"
"""Reasons of leaving workers."""
_MOST_DIGITS = 10


def dismiss_outdated(draft: Draft) -> list[Vacancy]:
    """Let workers of an old template leave that cannot start; returns their places."""
    stuck = [p for p in _list_outdated_workers(draft) if _check_stuck(draft, p)]
    vacancies = [judge_loss(draft, p.name, p, OUTDATED, Cause.TAKEN) for p in stuck]
    for pod in stuck:
        leave(draft, pod.name, pod.uid, OUTDATED)
    if stuck:
        names = name_some([pod.name for pod in stuck])
        draft.tell("WorkerLeaving", f"{names} cannot start; replaced, for the template was edited")
    return vacancies


def delete_outdated_launcher(draft: Draft) -> list[Action]:
    """Delete a launcher of an old template that cannot start: the next one has the new template."""
    pod = draft.view.launcher
    if pod is None or not draft.view.is_launcher_outdated or not _check_stuck(draft, pod):
        return []
    return [tell_replaced(draft, pod, "cannot start, and its template was edited")]


def renew_workers(draft: Draft) -> list[Vacancy]:
    """Let the next one leave of those that are to be new, when all others are of use."""
    old = list_old_workers(draft)
    if not old or find_bar(draft) or not _is_steady(draft):
        return []
    wanted = {pod.uid for pod in _list_spare(draft)}
    pod = next(pod for pod in rank_victims(draft) if pod.uid in wanted)
    if not check_state_stays(draft, {pod.uid}):
        return []
    leave(draft, pod.name, pod.uid, RENEWED, taken=True)
    rest = f", {len(old) - 1} more follow" if len(old) > 1 else ", the last one"
    draft.tell("WorkerLeaving", f"worker {pod.name} leaves and is replaced as was asked for{rest}")
    return [Vacancy(pod.name, RENEWED, Cause.TAKEN, draft.now, 0)]


def list_old_workers(standing: Standing) -> list[Pod]:
    """Workers that are to be replaced by new ones; a number that none has had yet means nobody.

    Nor does one with the uid of another job: an annotation is copied with its manifest.
    """
    text, _, uid = standing.view.job.annotations.get(ANNOTATION_RENEWED, "").partition("/")
    if uid not in {"", standing.view.job.uid}:
        return []
    if not (text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS):
        return []
    through = int(text)
    if through > standing.decided.last_worker_index:
        return []
    return [p for p in standing.select_roster() if p.index is not None and p.index <= through]


def describe_renewal(standing: Standing) -> str:
    """Which workers are yet to be replaced, and what that waits for; "" where none are."""
    old = list_old_workers(standing)
    if not old:
        return ""
    names = name_some([pod.name for pod in old])
    bar = find_bar(standing)
    waits = bar or (
        "the next one leaves once all workers are hosts, one that stays for a minute, no node of "
        "theirs is lost, and nothing else goes on"
    )
    return f"to be replaced one after the other: {names}; {waits}"


def find_bar(standing: Standing) -> str:
    """Why none of them can leave while the command runs; "" where one may."""
    if not standing.view.is_elastic:
        return "its command starts all processes at once, suspend and resume the job instead"
    if _list_spare(standing):
        return ""
    has = count(_count_of_use(standing), "worker")
    return (
        f"the job has {has} and cannot go on with fewer: scale it out by one first, or suspend and "
        "resume it"
    )


def describe_outdated(standing: Standing) -> str:
    """Which pods run another template than the job has by now; "" where none does."""
    view = standing.view
    workers = [pod for pod in _list_outdated_workers(standing) if not pod.has_ended]
    told = [
        _describe(standing.spec.worker.template, workers),
        _describe(
            standing.spec.launcher_template,
            [view.launcher] if view.launcher and view.is_launcher_outdated else [],
        ),
    ]
    if not any(told):
        return ""
    name = view.job.key.name
    return (
        f"{'; '.join(filter(None, told))}. `et restart {name}` (or suspend and resume) starts all "
        f"pods anew, `et restart {name} --workers` the workers one after the other"
    )


def _describe(template: Json, pods: list[Pod]) -> str:
    if not pods:
        return ""
    images = sorted({pod.image for pod in pods if pod.image})
    verb = "runs" if len(pods) == 1 else "run"
    now = str(template["spec"]["containers"][0].get("image", ""))
    told = f"{name_some([pod.name for pod in pods])} {verb} an older template"
    if images == [now]:
        return f"{told} than the job has"
    return f"{told} (image {name_some(images)}) than the job has (image {now})"


def _list_outdated_workers(standing: Standing) -> list[Pod]:
    now = digest(standing.spec.worker.template)
    return [pod for pod in standing.select_roster() if pod.template not in {"", now}]


def _check_stuck(draft: Draft, pod: Pod) -> bool:
    return not pod.has_container_started and diagnose(draft, pod) is not None


def _list_spare(standing: Standing) -> list[Pod]:
    """Workers that are to be new and that the command goes on without, whoever of them it is."""
    view, old = standing.view, list_old_workers(standing)
    least = max(view.spec.worker.min_replicas or 1, view.command_least)
    if _count_of_use(standing) > least:
        return old
    return [pod for pod in old if pod.uid in standing.used_up]


def _count_of_use(standing: Standing) -> int:
    """How many workers it is to have without those that stay though they are used up."""
    roster = standing.select_roster()
    used_up = sum(pod.uid in standing.used_up for pod in roster)
    return (standing.decided.decided_replicas or 0) - used_up


def _is_steady(standing: Standing) -> bool:
    """Whether all workers are hosts, and neither a scaling nor another departure goes on.

    Of one that nobody hears it is not known: it may be back, or have left, in a moment.
    """
    view, status = standing.view, standing.decided
    if status.scaling is not None or not view.is_training or view.spec.suspend:
        return False
    coming = (*standing.select_unborn(), *standing.select_held())
    if standing.select_records(WorkerState.LEAVING) or coming:
        return False
    roster = standing.select_roster()
    is_whole = len(roster) == status.decided_replicas
    return is_whole and all(p.uid in view.listed and not view.is_lost(p) for p in roster)
