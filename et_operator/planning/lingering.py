"""A command that was told to have ended, in a container that is not seen to: a wait with an end.

Its PID 1 leaves some seconds after it. Where that hangs, or its kubelet or runtime does, the pod is
deleted, and how long that may take is known (presence.py). What follows is what its code means.
"""

from __future__ import annotations

from dataclasses import replace

from et_contract.names import build_report_name
from et_kube.resources import CONFIG_MAPS, PODS
from et_operator.model.actions import Action
from et_operator.model.conditions import END_UNSEEN, is_true
from et_operator.model.pods import Pod
from et_operator.planning.attributing import UNSEEN_AFTER
from et_operator.planning.drafts import Draft
from et_operator.planning.leaving import delete_pod, doubt_time
from et_operator.planning.standings import Standing

GRACE = 30
"""Seconds that its pod has to end: the command has, which may have an hour."""


def describe_unseen(draft: Draft) -> str:
    """Whose end is not seen, and what becomes of it; "" where nothing is due.

    Said until its pod has ended: that was told before anybody has ended it.
    """
    pod = _find_lingering(draft)
    if pod is None:
        return ""
    if not is_true(draft.status.conditions, END_UNSEEN):
        if pod.is_deleting:
            return ""
        since = draft.view.snapshot.told_since or draft.now
        if draft.wait_out(since, UNSEEN_AFTER) or doubt_time(draft):
            return ""
    code = draft.view.report.ended if draft.view.report is not None else None
    return (
        f"the command in {pod.name} has ended with {code}, and for "
        f"{UNSEEN_AFTER.seconds // 60} min its container has not been seen to end: look at the "
        f"kubelet and the container runtime of node {pod.node}; the pod is deleted, and a minute "
        "after its grace at the latest what that code means is done"
    )


def delete_lingering_launcher(draft: Draft) -> list[Action]:
    """Delete the launcher of which that was said: its end is awaited for its grace and a minute."""
    pod = _find_lingering(draft)
    if pod is None or pod.is_deleting or not is_true(draft.view.status.conditions, END_UNSEEN):
        return []
    draft.rest_on(CONFIG_MAPS, build_report_name(draft.view.job.key.name))
    draft.rest_on(PODS, pod.name)
    return [replace(delete_pod(pod), grace_seconds=GRACE)]


def _find_lingering(standing: Standing) -> Pod | None:
    """The launcher whose command was told to have ended, while its container is not seen to."""
    report, pod = standing.view.report, standing.view.launcher
    if report is None or report.ended is None or pod is None or pod.uid != report.launcher_uid:
        return None
    return None if standing.view.is_gone(pod) else pod
