"""The launcher: how a job begins, and when it may start.

The planner calls it for a job without an epoch, and where others have taken a part of its status;
creating.py makes the pod once `can_launch` lets it.
"""

from __future__ import annotations

from et_contract.documents import AHEAD
from et_operator.model.names import build_worker_selector
from et_operator.model.specs import LauncherCreation
from et_operator.model.texts import count
from et_operator.planning.admitting import awaits_room, count_allowed
from et_operator.planning.drafts import Draft
from et_operator.planning.standings import Standing
from et_operator.planning.views import View


def begin(draft: Draft) -> None:
    """The first decision about a job: what it runs, and that its first launcher comes.

    Where somebody removed the status of a job whose last launcher has ended, the next pass judges
    that end; where it lives, the next one comes when it has ended.
    """
    epoch, ended = _find_last_launcher(draft.view)
    draft.change(
        generation=draft.view.written_generation,
        epoch=epoch if ended else epoch + 1,
        launcher_uid=ended,
        runtime=draft.view.snapshot.shipped.runtime,
        start_time=draft.now,
        selector=build_worker_selector(draft.view.job.key.name),
        decided_replicas=draft.spec.worker.replicas,
    )
    draft.set_condition("Created", "True", "TrainingJobCreated", "the job was accepted")
    draft.tell(
        "Created", f"starting {count(draft.spec.worker.replicas, 'worker')} and the launcher"
    )
    for kind, text in draft.view.job.warnings:
        draft.tell(kind, text, is_warning=True)


def restore(draft: Draft) -> None:
    """Decide anew what others have removed from the status and no pass can do without.

    Without its number all workers would be surplus; without its runtime no pod is created, and none
    where that is not to be had any more, or never was. What lives keeps it, and with it its keys.
    """
    status, scaling = draft.status, draft.status.scaling
    shipped = draft.view.snapshot.shipped.runtime
    if status.epoch and status.runtime is None:
        draft.change(runtime=shipped)
    elif status.epoch and not draft.has_runtime and _is_nobody_there(draft.view):
        draft.change(runtime=shipped, keys_secret="")
    if status.decided_replicas is None and (status.epoch or status.is_suspended):
        is_going_on = scaling is not None and scaling.outcome is None
        if scaling and is_going_on and not awaits_room(draft.view.job, scaling):
            draft.change(decided_replicas=count_allowed(draft.view.job, scaling.target))
        else:
            draft.change(decided_replicas=draft.spec.worker.replicas)


def can_launch(standing: Standing) -> bool:
    """Whether the workers that the launcher waits for, if it does, run."""
    if standing.spec.launcher_creation is LauncherCreation.AT_STARTUP:
        return True
    running = sum(pod.is_container_running for pod in standing.view.live_workers)
    return running >= standing.needed_workers


def _is_nobody_there(view: View) -> bool:
    """Whether the launcher is yet to come, and no pod of the job lives that it would have to fit.

    One that has ended is judged first: its job may have ended with it.
    """
    return view.is_launcher_missing and all(view.is_gone(pod) for pod in view.own_pods)


def _find_last_launcher(view: View) -> tuple[int, str]:
    """(epoch, uid if it has ended, else ""); the epoch of a new job is 0.

    A report is somebody's word that it has ended, and whoever may create ConfigMaps can have put it
    there before us. A job that had a launcher has a Role too, which nobody else can have made.
    """
    config, report, pods = view.snapshot.config, view.snapshot.report, view.snapshot.pods
    told = report.epoch if report else 0
    known = (p.epoch or 0 for p in pods)  # in a worker's label, which others may write
    epoch = max(config.epoch if config else 0, told, *(n for n in known if n <= AHEAD), 0)
    for pod in view.launchers:
        if epoch and pod.epoch == epoch:
            return epoch, pod.uid if pod.termination is not None else ""
    if report is None or report.ended is None or report.epoch != epoch:
        return epoch, ""
    return epoch, report.launcher_uid if view.snapshot.role is not None else ""
