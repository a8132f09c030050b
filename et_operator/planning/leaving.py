"""Which leaving workers may be deleted: the rule that no process is ever cut off by mistake."""

from __future__ import annotations

from et_operator.model.actions import Action
from et_operator.model.jobs import WorkerRecord, WorkerState
from et_operator.planning.finishing import delete_pod
from et_operator.planning.scripting import is_script_done
from et_operator.planning.stopping import FORCED
from et_operator.planning.views import View

KEPT_FAILED = 5
"""So many failed workers stay for their logs until the job is cleaned up."""


def delete_leavers(view: View) -> list[Action]:
    """Delete the workers that the observed status names as leaving and that may go now."""
    actions: list[Action] = []
    for record in view.status.workers:
        pod = view.pods.get(record.uid)
        if record.state is not WorkerState.LEAVING or pod is None or pod.is_deleting:
            continue
        if may_delete(view, record):
            actions.append(delete_pod(pod))
    return actions


def may_delete(view: View, record: WorkerRecord) -> bool:
    """Whether this leaving worker has no process, can get none, or has had its time."""
    if record.reason == FORCED:
        return True
    if _is_held_by_script(view, record):
        return False
    if record.generation is None and not view.is_held(record.uid):
        return True
    if record.uid in view.closed:
        return True
    is_written = record.generation is not None and view.written_generation >= record.generation
    return is_written and not view.can_command_run


def delete_old_failures(view: View) -> list[Action]:
    """Trim ended pods: a leaving worker's, all but the newest few failed, older launchers."""
    known = {r.uid for r in view.status.workers if r.state is WorkerState.GONE}
    ended = [p for p in view.workers if p.is_terminal and p.uid in known and not p.is_deleting]
    ended.sort(key=lambda pod: (pod.created, pod.index or 0))
    actions = [delete_pod(pod) for pod in ended[:-KEPT_FAILED]]
    for pod in view.launchers:
        age = view.status.epoch - (pod.epoch or 0)
        if not pod.is_deleting and (age > 1 or (age == 1 and not _has_ended(view, pod.uid))):
            actions.append(delete_pod(pod))
    return list(actions)


def _has_ended(view: View, uid: str) -> bool:
    pod = view.pods[uid]
    return pod.termination is not None or view.is_gone(pod)


def _is_held_by_script(view: View, record: WorkerRecord) -> bool:
    scaling = view.status.scaling
    if scaling is None or scaling.outcome is not None:
        return False
    if all(victim.uid != record.uid for victim in scaling.victims):
        return False
    live = next((s for s in view.snapshot.scalings if s.uid == scaling.uid), None)
    return not is_script_done(scaling, live)
