"""`et restart`: all pods of a job end, and it goes on with new ones from its own checkpoint.

It deletes nothing: the job is suspended, and resumed once it has stopped (suspending.py). Wherever
it is interrupted, it says in which state the job is left and what to type.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta

from et.clusters import Cluster, get_meta
from et.errors import REFUSALS, EtError
from et.reading import explain_end, find_queue, has_ended, read_admission, read_job, read_pods
from et.screens import Screen
from et.suspending import check_annotation, is_suspended, resume, suspend
from et.waiting import wait_until
from et_kube.errors import Conflict, NotFound
from et_kube.resources import Json
from et_operator.codec.decoding import decode_job
from et_operator.model.conditions import STOPPED, find_condition
from et_operator.model.jobs import TrainingJob
from et_operator.model.pods import Pod

ANSWER = timedelta(seconds=15)
"""So long it is waited for what becomes of a job that was resumed."""
TRIES = 8
"""So often a job that has stopped may change between our look and our write."""


async def restart(
    cluster: Cluster, screen: Screen, name: str, limit: timedelta, *, is_sure: bool = False
) -> None:
    """Suspend the job, wait until it has stopped, resume it, and say what it does then.

    Of a job that is suspended already only the rest is done: who was interrupted types it again.
    Who would lose a place in a queue is asked before.

    Raises:
        EtError: the job cannot be restarted, or somebody says no; or it has not stopped within
            `limit`, and stays suspended; or somebody has let it go on before it had stopped.
    """
    stored = await read_job(cluster, name)
    job = decode_job(stored)
    _check(job)
    stop = Stop(cluster, job)
    await stop.look()  # who may not list pods hears so before anything ends
    queue = find_queue(job, read_admission(stored))
    if queue and not job.status.is_suspended and not is_sure:
        _ask(screen, name, queue)
    with screen.telling(f"{name} may be suspended: `et restart {name}` goes on", unless=REFUSALS):
        stop.seen = await suspend(cluster, stored)
    left = f"{name} stays suspended: `et restart {name}` goes on"
    with screen.telling(left, unless=(EtError, NotFound, Conflict)):  # or it is there no more
        screen.say(f"{name} is suspended: its pods end, each has its grace to save")
        await _let_go_on(cluster, stop, limit)
    with screen.telling(f"{name} is resumed: `et watch {name}` shows what it does"):
        outcome = await _find_outcome(cluster, stored)
        old = await stop.list_old() if stop.is_let_go else []
    if old:
        raise EtError(
            f"somebody has let {name} go on before it had stopped, and of its pods these are as "
            f"before: {', '.join(old)}; `et restart {name}` begins again"
        )
    if stop.is_let_go:
        screen.say(f"somebody has let {name} go on meanwhile")
    screen.say(outcome)


def _check(job: TrainingJob) -> None:
    name = job.key.name
    if has_ended(job):
        raise EtError(f"{name} has ended ({job.status.phase}): {explain_end(job)}; submit it again")
    if job.status.phase == "Waiting":
        raise EtError(f"{name} waits in a queue and has no pods: `et why {name}` says for what")
    check_annotation(job)


def _ask(screen: Screen, name: str, queue: str) -> None:
    screen.hint(
        f"{name} has its place in queue {queue} as long as it runs: suspended, it gives that back, "
        "and then waits in line for room again, which others may have taken"
    )
    if not screen.ask("Suspend it?"):
        raise EtError(f"nothing was done: {name} goes on as it is")


async def _let_go_on(cluster: Cluster, stop: Stop, limit: timedelta) -> None:
    """Resume it once it has stopped, as it was then; or somebody else has."""
    for _ in range(TRIES):
        await _wait(cluster, stop, limit)
        if stop.is_let_go:
            return
        with suppress(Conflict):
            await resume(cluster, stop.seen, is_pinned=True)
            return
    name = stop.job.key.name
    raise EtError(f"{name} changes all the time and stays suspended: `et restart {name}` goes on")


async def _wait(cluster: Cluster, stop: Stop, limit: timedelta) -> None:
    name = stop.job.key.name
    try:
        await wait_until(cluster.clock, stop.look, limit)
    except TimeoutError as error:
        names = str(error) or ", ".join(stop.left) or "the operator has not answered"
        verb = "was not seen to stop" if str(error) else "has not stopped"
        raise EtError(
            f"{name} {verb} after {limit.total_seconds():.0f} s ({names}) and stays "
            f"suspended: `et restart {name}` goes on"
        ) from error


async def _find_outcome(cluster: Cluster, stored: Json) -> str:
    """What a job that was resumed does, once the operator has looked at it."""
    name, seen = decode_job(stored).key.name, stored

    async def goes_on() -> bool:
        nonlocal seen
        seen = await read_job(cluster, name)
        return not decode_job(seen).status.is_suspended

    try:
        await wait_until(cluster.clock, goes_on, ANSWER)
    except TimeoutError as error:
        if str(error):
            return f"{name} is resumed; what it does now is not known: {error}"
        job = decode_job(seen)
        if job.status.phase == "Waiting":
            where = find_queue(job, read_admission(seen))
            return f"{name} waits for room in queue {where}: `et why {name}` says behind whom"
        told = find_condition(job.status.conditions, "Suspended")
        why = f" ({told.message})" if told else ""
        return f"{name} is resumed, and does not go on yet{why}: `et why {name}` says more"
    return f"{name} goes on with new pods, from its own checkpoint if it wrote one"


@dataclass(slots=True)
class Stop:
    """What of a suspended job still runs, and whether it is suspended still."""

    cluster: Cluster
    job: TrainingJob
    left: list[str] = field(default_factory=list)
    first: frozenset[str] | None = None
    """Uids of the pods at the first look."""
    seen: Json = field(default_factory=dict)
    """The job as it was last seen since we suspended it; empty before."""
    is_let_go: bool = False
    """Somebody has resumed it since."""

    async def look(self) -> bool:
        """Whether it has stopped, which the operator says, or nobody wants that any more.

        Pods may be there still: on a node that is lost, or held by a finalizer.

        Raises:
            EtError: nothing is left that could stop, or that is ours to resume.
        """
        stored = await read_job(self.cluster, self.job.key.name)
        job = decode_job(stored)
        if job.uid != self.job.uid:
            raise EtError(f"{job.key.name} was deleted and made anew meanwhile")
        if job.deletion_requested:
            raise EtError(f"{job.key.name} is being deleted")
        if has_ended(job):
            raise EtError(f"{job.key.name} has ended meanwhile: {explain_end(job)}")
        if self.seen:
            self._take(stored)
            if self.is_let_go:
                return True
        pods = await read_pods(self.cluster, job)
        if self.first is None:
            self.first = frozenset(pod.uid for pod in pods)
        self.left = [pod.name for pod in pods if not pod.has_ended]
        told = find_condition(job.status.conditions, "Suspended")
        has_stopped = told is not None and (told.status, told.reason) == ("True", STOPPED)
        return has_stopped and all(map(_is_asked, pods))

    async def list_old(self) -> list[str]:
        """Of the pods at the first look those that nobody has asked to go."""
        pods = await read_pods(self.cluster, self.job)
        return [pod.name for pod in pods if pod.uid in (self.first or ()) and not _is_asked(pod)]

    def _take(self, stored: Json) -> None:
        """Each change of the spec counts its generation: one that changed nothing was undone."""
        before, self.seen = self.seen, stored
        self.is_let_go = not is_suspended(stored)
        is_changed = get_meta(before, "generation") != get_meta(stored, "generation")
        if is_changed and not self.is_let_go and before["spec"] == stored["spec"]:
            name = self.job.key.name
            raise EtError(
                f"somebody has let {name} go on meanwhile and suspended it again: it stays "
                f"suspended, and `et restart {name}` lets it go on"
            )


def _is_asked(pod: Pod) -> bool:
    """Whether the pod is asked to go: an older operator says that all has stopped before that."""
    return pod.is_deleting or pod.has_ended
