"""Who goes first where workers must go, and why."""

from __future__ import annotations

from et_operator.model.pods import Pod
from et_operator.planning.drafts import Draft


def rank_victims(draft: Draft) -> list[Pod]:
    """The roster, best victims first."""
    return sorted(draft.select_roster(), key=lambda pod: _rank(draft, pod))


def explain_victim(draft: Draft, pod: Pod) -> str:
    """Why this worker and not another."""
    if pod.name in draft.view.leavers:
        return f"{pod.name}: named by et-scheduler"
    if not pod.is_container_running:
        return f"{pod.name}: not running"
    if draft.view.has_notice(pod):
        return f"{pod.name}: its node {pod.node} is cordoned or going away"
    if pod.deletion_cost:
        return f"{pod.name}: pod-deletion-cost {pod.deletion_cost}"
    return f"{pod.name}: among the newest"


def _rank(draft: Draft, pod: Pod) -> tuple[bool, bool, bool, int, float, int]:
    is_late = draft.view.has_notice(pod)
    return (
        pod.name not in draft.view.leavers,
        pod.is_container_running,
        not is_late,
        pod.deletion_cost,
        -pod.created.timestamp(),
        -(pod.index or 0),
    )
