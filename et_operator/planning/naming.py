"""What workers that are to come are called.

Numbers go on from the last one that was given, and a name that anybody has is passed over. Names
are recorded here; creating.py makes the pods in a later pass.
"""

from __future__ import annotations

from et_contract.pods import MAX_INDEX, build_worker_name
from et_operator.model.statuses import WorkerRecord, WorkerState
from et_operator.planning.drafts import Draft
from et_operator.planning.standings import Standing


def reserve_names(draft: Draft, count: int) -> tuple[str, ...]:
    """Record names that no worker of this job has had; their pods are created in a later pass."""
    index = draft.status.last_worker_index
    if index < 0:  # none was ever decided, or the record of it is lost
        index = max((pod.index or 0 for pod in draft.view.workers), default=-1)
    job = draft.view.job.key.name
    names: list[str] = []
    while len(names) < count:
        index = index + 1 if index < MAX_INDEX else 0
        name = build_worker_name(job, index)
        if not _is_in_use(draft, name):
            names.append(name)
            draft.remember(WorkerRecord(name, "", WorkerState.JOINING, since=draft.now))
    draft.change(last_worker_index=index)
    return tuple(names)


def _is_in_use(standing: Standing, name: str) -> bool:
    """Whether a worker has this name, whoever's it is, or is still remembered by it."""
    view = standing.view
    is_ours = name in view.names or standing.find_record(name) is not None
    return is_ours or name in view.member_names or name in view.snapshot.taken_names
