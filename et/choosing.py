"""Whether a worker of a job may be taken away to see what that costs, and which. No I/O.

rehearsing.py asks it before anything is done, and again after somebody has thought about it. Who
has the training's state is judged as the operator does, from what it has recorded.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from et.errors import EtError
from et.losses import find_least, list_hosts, name_bounds
from et.reading import explain_end, has_ended
from et.scaling import complete_names
from et_contract.pods import Role
from et_kube.times import format_time
from et_operator.model.conditions import find_condition
from et_operator.model.jobs import TrainingJob
from et_operator.model.listings import SYNCED_AFTER
from et_operator.model.pods import Pod
from et_operator.model.scalings import Scaling
from et_operator.model.statuses import WorkerState
from et_operator.model.texts import count

IN_THE_WAY = ("NodesLeaving", "RestartingWorkers", "WorkersIdle", "NoRing", "DriverStalled")
"""Conditions that say that it does not train as it usually does, or soon will not."""


def check(job: TrainingJob, scalings: Sequence[Scaling]) -> None:
    """EtError where a loss would end or stop the training, or something else goes on."""
    name, spec, status = job.key.name, job.spec, job.status
    if has_ended(job):
        raise EtError(f"{name} has ended ({status.phase}): {explain_end(job)}")
    decided = status.decided_replicas
    if spec is None or decided is None or status.phase != "Running":
        busy = "a scaling is at work: " if status.phase == "Scaling" else ""
        raise EtError(
            f"{name} is {status.phase or 'not seen by the operator'}, not Running: {busy}rehearse "
            f"when it trains; `et why {name}` says what it waits for"
        )
    if not spec.is_elastic:
        raise EtError(
            f"{name}'s command needs each of its workers: the loss of one ends it, and all begins "
            "again from its own checkpoint"
        )
    _check_rest(job, scalings)
    least = find_least(spec)
    if decided <= 1:
        raise EtError(
            f"{name} has one worker alone: its loss ends the command; `et scale {name} --by +1`"
        )
    if decided - 1 < least:
        raise EtError(
            f"{name} has {count(decided, 'worker')} and cannot go on with fewer, because of "
            f"{name_bounds(spec, decided)}: lower that, or `et scale {name} --by +1` first"
        )


def _check_rest(job: TrainingJob, scalings: Sequence[Scaling]) -> None:
    """EtError unless all workers are there and nobody comes or goes, or is about to."""
    name, status = job.key.name, job.status
    for scaling in scalings:
        if scaling.status.phase is None or not scaling.status.phase.is_final:
            raise EtError(f"{scaling.kind.value} {scaling.name} is not done yet: rehearse after it")
    for kind in IN_THE_WAY:
        told = find_condition(status.conditions, kind)
        if told is not None and told.status == "True":
            raise EtError(f"{name}: {told.message or kind}; rehearse when that is over")
    moving = [r.name for r in status.workers if r.state is not WorkerState.GONE]
    hosts = list_hosts(status, name)
    if status.scaling is not None or moving or len(hosts) < (status.decided_replicas or 0):
        who = f" ({', '.join(moving)})" if moving else ""
        raise EtError(
            f"{name}: a scaling or a loss is at work{who}, {len(hosts)} of "
            f"{count(status.decided_replicas, 'worker')} are hosts: rehearse when all are"
        )


def choose(job: TrainingJob, pods: Sequence[Pod], hosts: Sequence[str], wanted: str) -> Pod:
    """The worker that is meant, the newest where none is; EtError where it is no host."""
    workers = {pod.name: pod for pod in pods if pod.role is Role.WORKER and not pod.has_ended}
    there = [name for name in hosts if name in workers]
    name = complete_names(job.key.name, [wanted])[0] if wanted else there[-1] if there else ""
    if name not in there:
        raise EtError(f"{name or 'none'} is no host of {job.key.name}; hosts: {', '.join(there)}")
    pod = workers[name]
    if pod.is_deleting or pod.notice is not None:
        raise EtError(f"{name} is about to leave already: name another with --worker")
    return pod


def check_state_stays(job: TrainingJob, worker: Pod, now: datetime) -> None:
    """EtError where no other host surely has the training's state (see planning/holding.py)."""
    moments = {index: one.since for one in job.status.listings for index in one.indexes}
    first = min(moments.values(), default=now)
    rest = {index: since for index, since in moments.items() if index != worker.index}
    synced = [since for since in moments.values() if now - since >= SYNCED_AFTER]
    holders = [since for since in rest.values() if since in synced or since == first]
    if holders or not rest:
        return
    ready = min(rest.values()) + SYNCED_AFTER
    raise EtError(
        f"{worker.name} alone surely has the training's state: the others are hosts for less than "
        f"{SYNCED_AFTER.total_seconds():.0f} s, and without it the command would end; name "
        f"another with --worker, or try again after {format_time(ready)}"
    )
