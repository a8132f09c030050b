"""Who goes first where workers must go, and why.

Only reads: how many go, and when, is for whoever asks (scaling, membership, renewing, yielding).
Which hosts have the training's state is told by holding.py.
"""

from __future__ import annotations

from collections.abc import Container

from et_operator.model.pods import Pod
from et_operator.planning.holding import can_miss_lost, list_keepers
from et_operator.planning.standings import Standing


def rank_victims(standing: Standing) -> list[Pod]:
    """The roster, best victims first; at the end one that has the training's state, if one has.

    One on a lost node goes before all that run elsewhere and are of use, if the state is elsewhere.
    """
    missable = {p.uid for p in standing.select_roster() if standing.view.is_lost(p)}
    if missable and not can_miss_lost(standing):
        missable = set()
    ranked = sorted(standing.select_roster(), key=lambda pod: _rank(standing, pod, missable))
    for group in reversed(list_keepers(standing) if standing.view.can_command_run else []):
        uids = {pod.uid for pod in group}
        last = next(pod for pod in reversed(ranked) if pod.uid in uids)
        ranked = [*(pod for pod in ranked if pod is not last), last]
    return ranked


def explain_victim(standing: Standing, pod: Pod) -> str:
    """Why this worker and not another."""
    view = standing.view
    if pod.name in view.leavers:
        return f"{pod.name}: named by et-scheduler"
    if not pod.is_container_running:
        return f"{pod.name}: not running"
    if pod.uid in standing.used_up:
        return f"{pod.name}: its host is used no more, a process failed there"
    if view.is_lost(pod):
        return f"{pod.name}: nobody hears its node {pod.node}"
    notice = view.find_notice(pod)
    if notice is not None:
        return f"{pod.name} on {pod.node}: {notice}"
    if pod.deletion_cost:
        return f"{pod.name}: pod-deletion-cost {pod.deletion_cost}"
    return f"{pod.name}: among the newest"


def _rank(
    standing: Standing, pod: Pod, missable: Container[str]
) -> tuple[bool, bool, bool, bool, bool, bool, int, float, int]:
    view = standing.view
    notice = view.find_notice(pod)
    return (
        pod.name not in view.leavers,
        pod.is_container_running,
        pod.uid not in standing.used_up,
        pod.uid not in missable,
        notice is None,
        notice is not None and not notice.is_firm,
        pod.deletion_cost,
        -pod.created.timestamp(),
        -(pod.index or 0),
    )
