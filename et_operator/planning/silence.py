"""A broker that reports nothing though it should: the only trouble that it cannot report itself.

Its token may have expired, its rights be gone, its report be refused, its container fail.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from et_contract.names import BROKER_CONTAINER
from et_operator.model.statuses import WorkerState
from et_operator.planning.drafts import Draft
from et_operator.planning.standings import Standing

SILENT_AFTER = timedelta(minutes=2)
"""A minute is what it waits itself before it tells of what it is refused."""


def describe_silence(draft: Draft) -> str:
    """What the broker has not reported for too long, and where to look; "" where nothing is due."""
    view, pod = draft.view, draft.view.launcher
    if pod is None or pod.is_deleting or not view.is_launcher_running:
        return ""
    since = pod.started if view.report is None else _find_unheard(draft)
    if since is None:
        return ""
    if draft.wait_until(since + SILENT_AFTER):
        return ""
    what = "nothing yet" if view.report is None else "nothing of workers that must leave"
    return (
        f"{pod.name} has reported {what} for more than {SILENT_AFTER.seconds // 60} min; "
        f"`kubectl logs {pod.name} -c {BROKER_CONTAINER}` says why"
    )


def _find_unheard(standing: Standing) -> datetime | None:
    """Since when the config names a worker as draining without the broker having read it."""
    report = standing.view.report
    heard = report.observed_generation if report is not None else 0
    unheard = [
        record.waiting_since
        for record in standing.select_records(WorkerState.LEAVING)
        if (record.generation or 0) > heard and record.waiting_since is not None
    ]
    return min(unheard, default=None)
