"""Who goes first where workers must go, and why."""

from __future__ import annotations

from et_operator.model.pods import Pod
from et_operator.planning.holding import select_holders
from et_operator.planning.standings import Standing


def rank_victims(standing: Standing) -> list[Pod]:
    """The roster, best victims first; at the end one that has the training's state, if one has."""
    ranked = sorted(standing.select_roster(), key=lambda pod: _rank(standing, pod))
    if not standing.view.can_command_run:
        return ranked
    holders = {pod.uid for pod in select_holders(standing)}
    last = next((pod for pod in reversed(ranked) if pod.uid in holders), None)
    return ranked if last is None else [*(pod for pod in ranked if pod is not last), last]


def explain_victim(standing: Standing, pod: Pod) -> str:
    """Why this worker and not another."""
    view = standing.view
    if pod.name in view.leavers:
        return f"{pod.name}: named by et-scheduler"
    if not pod.is_container_running:
        return f"{pod.name}: not running"
    if pod.uid in standing.used_up:
        return f"{pod.name}: its host is used no more, a process failed there"
    notice = view.find_notice(pod)
    if notice is not None:
        return f"{pod.name} on {pod.node}: {notice}"
    if pod.deletion_cost:
        return f"{pod.name}: pod-deletion-cost {pod.deletion_cost}"
    return f"{pod.name}: among the newest"


def _rank(standing: Standing, pod: Pod) -> tuple[bool, bool, bool, bool, bool, int, float, int]:
    view = standing.view
    notice = view.find_notice(pod)
    return (
        pod.name not in view.leavers,
        pod.is_container_running,
        pod.uid not in standing.used_up,
        notice is None,
        notice is not None and not notice.is_firm,
        pod.deletion_cost,
        -pod.created.timestamp(),
        -(pod.index or 0),
    )
