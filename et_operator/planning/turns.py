"""Whose turn it is: the next ScaleIn or ScaleOut, and why one cannot be started.

Only reads: scaling.py begins what has its turn, answering.py tells who is refused. The bounds of a
job's size are judged here for both (`find_bound`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from datetime import datetime

from et_contract.documents import MAX_WORKERS
from et_operator.model.names import ANNOTATION_APPLIED_SCALING
from et_operator.model.scalings import Scaling
from et_operator.model.specs import MANY_WORKERS, WorkerSpec
from et_operator.model.statuses import ScalingKind
from et_operator.model.texts import count
from et_operator.planning.admitting import (
    count_allowed,
    is_number_its_own,
    is_queued,
)
from et_operator.planning.concluding import find_untold, needs_no_word
from et_operator.planning.scripting import find_script_refusal
from et_operator.planning.standings import Standing
from et_operator.planning.views import View

IN_QUEUE = (
    "the job is in a queue, and et-scheduler says how many workers it may have: change its "
    "minReplicas and maxReplicas, or worker.replicas where its elasticity is Fixed"
)
"""What a ScaleIn or ScaleOut is told, unless the job was admitted with a number of its own."""


def find_refusal(standing: Standing, scaling: Scaling, base: int) -> tuple[str, str] | None:
    """Why this scaling cannot be started on a job of `base` workers; None if it can."""
    if scaling.invalid:
        return "InvalidSpec", scaling.invalid
    if standing.view.job.annotations.get(ANNOTATION_APPLIED_SCALING) == scaling.uid:
        return "RecordLost", "it was begun, and the job's record of it is lost: the number stays"
    if script := find_script_refusal(standing.spec, scaling):
        return "ScriptRefused", script
    if is_queued(standing.view.job) and not is_number_its_own(standing.view.job):
        return "InQueue", IN_QUEUE
    if is_fixed(standing):
        return (
            "NotElastic",
            f"{_describe_fixed(standing.view)}; suspend it, scale it, and resume it",
        )
    names = {pod.name for pod in standing.select_roster()}
    unknown = [name for name in scaling.pod_names if name not in names]
    if unknown:
        return "UnknownPods", f"not workers of this job, or leaving already: {', '.join(unknown)}"
    return find_bound(standing.view.asked.worker, find_target(scaling, base))


def find_base(standing: Standing) -> int | None:
    """From which number a ScaleIn or ScaleOut counts; None: none was decided yet.

    Also what its author has raised it to and et-scheduler does not let the job have yet.
    """
    decided = standing.status.decided_replicas
    is_part = decided is not None and is_part_admitted(standing.view)
    return standing.view.asked.worker.replicas if is_part else decided


def is_part_admitted(view: View) -> bool:
    """Whether a raised number waits in line: a ScaleOut has its turn when that is met."""
    job = view.snapshot.job
    asked = job.spec.worker.replicas if job.spec is not None else 0
    return count_allowed(job, asked) < asked


def is_fixed(standing: Standing) -> bool:
    """Whether the number of workers can only change between two launchers."""
    has_launcher = bool(standing.status.launcher_uid) and not standing.status.is_suspended
    return has_launcher and not standing.view.is_elastic


def describe_held_number(standing: Standing) -> str:
    """That the spec's number of workers is not met now, and why; "" where it is."""
    wanted, decided = standing.spec.worker.replicas, standing.status.decided_replicas
    if decided in {None, wanted} or standing.status.scaling is not None or not is_fixed(standing):
        return ""
    now = f"worker.replicas is {wanted}, and {decided} take part"
    return (
        f"{now}: {_describe_fixed(standing.view)}; suspend and resume it, and the new number holds"
    )


def describe_too_few(standing: Standing) -> str:
    """That a command which runs waits for more workers than it is to have; "" where it does not."""
    view, decided = standing.view, standing.decided.decided_replicas
    least = view.command_least
    if decided is None or decided >= least or not view.is_elastic or not view.is_launcher_running:
        return ""
    return (
        f"the job is to have {decided} workers, and the command that runs goes on with {least} or "
        "more: it waits for others, and gives up after ten minutes as a rule, which is a failure "
        f"of its own. Bring it to {least} workers (ScaleOut, worker.replicas), or start it with a "
        "smaller least number (horovodrun's is --min-np, or -np without it; torchrun's the first "
        f"of --nnodes); minReplicas: {least} has the next such ScaleIn refused"
    )


def _describe_fixed(view: View) -> str:
    what = "the launcher that runs" if view.spec.is_elastic else view.spec.launcher
    return f"{what} starts all its processes at once: no worker joins or leaves then"


def find_next(view: View, kind: ScalingKind | None = None) -> Scaling | None:
    """The oldest scaling (of this kind) that has not ended.

    Last come those that are not begun yet (see _start_next): one that could not be written to, and
    a ScaleOut while a raised number waits.
    """
    waiting = (s for s in view.snapshot.scalings if kind in {None, s.kind})
    waiting = (s for s in waiting if is_waiting_for_turn(view, s))
    return min(waiting, key=_rank_turns(view), default=None)


def list_turns(view: View) -> deque[Scaling]:
    """All that have not ended, in the order in which find_next gives them."""
    waiting = (s for s in view.snapshot.scalings if is_waiting_for_turn(view, s))
    return deque(sorted(waiting, key=_rank_turns(view)))


def _rank_turns(view: View) -> Callable[[Scaling], tuple[bool, tuple[datetime, int, str]]]:
    is_raised = is_part_admitted(view)

    def find_place(scaling: Scaling) -> tuple[bool, tuple[datetime, int, str]]:
        is_later = is_raised and scaling.kind is ScalingKind.OUT
        return is_later or not scaling.is_accepted, scaling.order

    return find_place


def is_waiting_for_turn(view: View, scaling: Scaling) -> bool:
    """Whether the scaling may yet start: not ended, not being deleted, meant for this very job."""
    is_over = needs_no_word(scaling) or find_untold(view, scaling) is not None
    return not is_over and not scaling.is_of_other(view.job.uid)


def find_target(scaling: Scaling, base: int) -> int:
    """How many workers a job of `base` workers is to have."""
    amount = len(set(scaling.pod_names)) or scaling.count or 0
    return base - amount if scaling.kind is ScalingKind.IN else base + amount


def find_bound(worker: WorkerSpec, number: int) -> tuple[str, str] | None:
    """The bound that so many workers would break; None if they may be."""
    least, most = worker.min_replicas, worker.max_replicas
    if number > MAX_WORKERS:
        return "AboveMax", f"{number} workers: {MANY_WORKERS}"
    if most is not None and number > most:
        return "AboveMax", f"{count(number, 'worker')} would be more than maxReplicas {most}"
    if number >= (least or 1):
        return None
    bound = f"minReplicas {least}" if least else "1, as minReplicas is not given"
    return "BelowMin", f"{count(number, 'worker')} would be fewer than {bound}"
