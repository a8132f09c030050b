"""What there is to know of a job: the one reader for the command line and the demo.

Reads and never writes; what is missing that the user has named is an EtError with what to type. In
which words a job's state is told is decided here too, so that all commands tell the same.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import aclosing
from dataclasses import replace
from datetime import datetime, timedelta
from operator import itemgetter
from typing import TypeVar

from et.clusters import Cluster, get_meta
from et.errors import EtError
from et.steps import MAX_LINE, find_cause, parse_step, tell_cause
from et_contract.admissions import ADMITTED, DEFAULT_QUEUE, NO_QUEUE
from et_contract.pods import LABEL_JOB, Role
from et_kube.errors import KubeError, NotFound
from et_kube.resources import (
    PODS,
    SCALE_INS,
    SCALE_OUTS,
    TRAINING_JOBS,
    Json,
    Ref,
    Resource,
    is_name,
)
from et_operator.codec.decoding import decode_scaling, find_job_name
from et_operator.codec.pods import decode_pod
from et_operator.model.conditions import find_condition, find_troubles, is_true
from et_operator.model.jobs import TrainingJob
from et_operator.model.pods import Pod
from et_operator.model.scalings import Scaling
from et_operator.model.texts import count
from et_scheduler.codec.admissions import decode_admission
from et_scheduler.model.jobs import Admission

T = TypeVar("T")
EVENTS = Resource("", "v1", "events", "Event")
"""The older form of Events: it is the one that the roles view and edit may read everywhere."""
SCALINGS = (SCALE_INS, SCALE_OUTS)
ENDED = frozenset({"Succeeded", "Failed"})
CAUSE_TAIL = 500
"""Lines at the end of a log among which an error is looked for; a long one counts as several."""
SILENT_AFTER = timedelta(minutes=3)
"""A training that tells of its steps has told of one by then, most often."""


async def read_job(cluster: Cluster, name: str) -> Json:
    """The job as it is stored; EtError when there is none, or none can have this name."""
    if not is_name(name):
        raise EtError(
            f"{name!r} is no name of a TrainingJob; `et list -A` shows all that there are"
        )
    try:
        return await cluster.api.get(Ref(TRAINING_JOBS, cluster.namespace, name))
    except NotFound as error:
        if name not in error.message:
            raise  # not the job is missing but its kind, or the namespace
        raise EtError(
            f"there is no TrainingJob {name!r} in namespace {cluster.namespace!r}; "
            "`et list -A` shows all that there are"
        ) from error


async def read_jobs(
    cluster: Cluster, keep: Callable[[Json], T | None], *, everywhere: bool = False
) -> list[T]:
    """What `keep` makes of each job of the namespace, or of all, by namespace and name.

    Those of which that is None are left out. Others write them: only where all are to be shown as
    they are, they may be kept so.
    """

    def look(job: Json) -> tuple[str, str, T] | None:
        kept = keep(job)
        if kept is None:
            return None
        return get_meta(job, "namespace"), get_meta(job, "name"), kept

    namespace = None if everywhere else cluster.namespace
    listing = await cluster.api.list(TRAINING_JOBS, namespace, keep=look)
    found = filter(None, listing.items)
    return [kept for _, _, kept in sorted(found, key=itemgetter(0, 1))]


def read_admission(job: Json) -> Admission | None:
    """What et-scheduler tells the job, None where nothing is or nothing can be read."""
    body = (job.get("status") or {}).get("admission")
    try:
        return decode_admission(body) if body is not None else None
    except ValueError:
        return None


def find_queue(job: TrainingJob, admission: Admission | None) -> str:
    """The one that it counts in, which stays while it runs, or will; "" for none.

    Who names none may be in one as well: the operator says so.
    """
    told = find_condition(job.status.conditions, ADMITTED)
    if told is not None and told.reason == NO_QUEUE:
        return ""
    asked = job.spec.queue if job.spec else ""
    return (admission.queue if admission else "") or asked or (DEFAULT_QUEUE if told else "")


async def read_scalings(cluster: Cluster, job: TrainingJob) -> list[Scaling]:
    """The ScaleIns and ScaleOuts that were made for this very job, oldest first.

    Without the environments of their scripts, which are most of the bytes that there can be.
    """
    return await _list_scalings(cluster, job, lambda _, scaling: replace(scaling, env=()))


async def read_stored_scalings(cluster: Cluster, job: TrainingJob) -> list[Json]:
    """A job's scalings as they are stored: only where all are to be shown so."""
    return await _list_scalings(cluster, job, lambda item, _: item)


async def _list_scalings(
    cluster: Cluster, job: TrainingJob, keep: Callable[[Json, Scaling], T]
) -> list[T]:
    def look(item: Json) -> tuple[datetime, str, T] | None:
        """The name comes first: there may be thousands of other jobs."""
        if find_job_name(item) != job.key.name:
            return None
        scaling = decode_scaling(item)
        if scaling.is_of_other(job.uid):
            return None
        return scaling.created, scaling.uid, keep(item, scaling)

    found: list[tuple[datetime, str, T]] = []
    for resource in SCALINGS:
        listing = await cluster.api.list(resource, job.key.namespace, keep=look)
        found += filter(None, listing.items)
    return [kept for _, _, kept in sorted(found, key=itemgetter(0, 1))]


async def read_pods(cluster: Cluster, job: TrainingJob) -> list[Pod]:
    """The job's pods: launchers by epoch, then workers by index."""
    there = replace(cluster, namespace=job.key.namespace)
    mine = [pod for pod in await read_pods_called(there, job.key.name) if pod.owner == job.owner]
    return sorted(mine, key=lambda p: (p.role is Role.WORKER, p.epoch or 0, p.index or 0))


async def read_pods_called(cluster: Cluster, job: str) -> list[Pod]:
    """Pods of whatever job has, or had, this name."""
    selector = f"{LABEL_JOB}={job}"
    listing = await cluster.api.list(
        PODS, cluster.namespace, label_selector=selector, keep=decode_pod
    )
    return list(filter(None, listing.items))


async def read_events(
    cluster: Cluster, namespace: str, is_told: Callable[[Json], bool]
) -> list[Json]:
    """The Events in the namespace that are told (stories.py): there may be many more."""

    def look(event: Json) -> Json | None:
        return event if is_told(event) else None

    listing = await cluster.api.list(EVENTS, namespace, keep=look)
    return list(filter(None, listing.items))


async def read_events_about(cluster: Cluster, namespace: str, names: Iterable[str]) -> list[Json]:
    """The Events about objects that are called so, whatever else happens in the namespace."""
    found: list[Json] = []
    for name in names:
        selector = f"involvedObject.name={name}"
        found += (await cluster.api.list(EVENTS, namespace, field_selector=selector)).items
    return found


async def read_log_lines(
    cluster: Cluster, pod: Pod, params: Mapping[str, str]
) -> AsyncGenerator[str, None]:
    """The lines of the pod's own container, without its sidecars."""
    ref = Ref(PODS, pod.namespace, pod.name)
    stream = cluster.logs.read_log(ref, {"container": pod.container, **params})
    async with aclosing(stream) as lines:
        async for line in lines:
            yield decode_line(line)


def decode_line(line: bytes) -> str:
    """A line of a log as text."""
    return line.decode("utf-8", "replace").rstrip("\r")


def has_ended(job: TrainingJob) -> bool:
    """Whether nothing of it will run again."""
    return job.status.phase in ENDED


def count_wanted(job: TrainingJob) -> int | None:
    """How many workers it is to have now; None where its spec cannot be read.

    In a queue et-scheduler says it, and `worker.replicas` of an elastic job says nothing.
    """
    if is_true(job.status.conditions, ADMITTED) and job.status.decided_replicas:
        return job.status.decided_replicas
    return job.spec.worker.replicas if job.spec else None


def describe_workers(job: TrainingJob) -> str:
    """`3/4`: so many run, so many are wanted."""
    wanted = count_wanted(job)
    return f"{len(job.status.current_workers)}/{'?' if wanted is None else wanted}"


def explain_end(job: TrainingJob) -> str:
    """Why it ended, in the operator's words; of a long output in these only its error."""
    for condition in job.status.conditions:
        if condition.type in ENDED and condition.status == "True":
            return tell_cause(condition.message or condition.reason)
    return ""


def list_troubles(job: TrainingJob) -> list[str]:
    """What somebody should look at, a sentence each."""
    return [f"{c.type}: {c.message or c.reason}" for c in find_troubles(job.status.conditions)]


async def read_cause(cluster: Cluster, job: TrainingJob) -> str:
    """The error in a failed job's own output, "" where there is none or it cannot be read."""
    if job.status.phase != "Failed":
        return ""
    tail = await _read_tail(cluster, job)
    return find_cause("\n".join(tail)) if tail is not None else ""


def names_cause(text: str, cause: str) -> bool:
    """Whether a text says this error already, in however many lines."""
    return " ".join(cause.split()) in " ".join(text.split())


async def read_silence(cluster: Cluster, job: TrainingJob) -> str:
    """That a job runs, and its log tells of no step; "" where it does, or cannot be read."""
    silence = explain_silence(job, cluster.clock.now())
    if not silence:
        return ""
    tail = await _read_tail(cluster, job)
    is_told = tail is None or any(parse_step(line) is not None for line in tail)
    return "" if is_told else silence


async def _read_tail(cluster: Cluster, job: TrainingJob) -> list[str] | None:
    """The end of the launcher's log, None where there is no launcher or it cannot be read."""
    params = {"tailLines": str(CAUSE_TAIL)}
    tail: deque[str] = deque(maxlen=CAUSE_TAIL)
    try:
        launcher = find_launcher(await read_pods(cluster, job), job)
        if launcher is None:
            return None
        async with aclosing(read_log_lines(cluster, launcher, params)) as lines:
            async for line in lines:
                drawn = line.rstrip("\r").rpartition("\r")[2]  # a bar is drawn on itself
                tail.append(drawn[:MAX_LINE])
    except KubeError:
        return None
    return [*tail]


def explain_silence(job: TrainingJob, now: datetime) -> str:
    """What a job may wait for that runs and tells of no step; "" where it is early to ask.

    Nobody but the script knows how far its processes are: they print what they like.
    """
    running = find_condition(job.status.conditions, "Running")
    since = running.last_transition_time if running and running.status == "True" else None
    if since is None or now - since < SILENT_AFTER:
        return ""
    name, number = job.key.name, len(job.status.current_workers)
    minutes = int((now - since).total_seconds() // 60)
    return (
        f"no step was seen in the launcher's log, and its command and {count(number, 'worker')} "
        f"run for {minutes} min: a script that waits before hvd.init(), for data or for another "
        f"rank looks so; `et logs {name}` has what it printed last"
    )


def find_launcher(pods: list[Pod], job: TrainingJob) -> Pod | None:
    """The launcher that counts, once there is one."""
    launchers = [pod for pod in pods if pod.role is Role.LAUNCHER]
    chosen = [pod for pod in launchers if pod.uid == job.status.launcher_uid]
    return next(reversed(chosen or launchers), None)
