"""`et queue`: what queues have and are due; of one, who waits in it and why.

Only reads. What a queue is due et-scheduler has computed; here nothing is worked out but the order
in which it is shown.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from rich.table import Table
from rich.text import Text

from et.clusters import Cluster, get_meta
from et.errors import EtError
from et.reading import find_queue, read_admission, read_jobs
from et.screens import Screen, format_duration, style_phase
from et_contract.admissions import AdmissionState
from et_kube.errors import NotFound, Refused
from et_kube.quantities import CPU, MILLI
from et_kube.resources import TRAINING_QUEUES, Json, Ref
from et_kube.times import parse_time
from et_operator.codec.decoding import decode_job
from et_operator.model.jobs import TrainingJob
from et_scheduler.codec.queues import StoredQueue, decode_queue
from et_scheduler.model.jobs import Admission

HEADER = ("NAME", "WEIGHT", "PRIORITY", "WAITING", "RUNNING", "HAS/DUE", "AGE")
BAR = 20
_STEP = 1024
_UNITS = ("", "Ki", "Mi", "Gi", "Ti", "Pi")
_BYTES = frozenset({"memory", "ephemeral-storage", "storage"})


@dataclass(frozen=True, slots=True)
class Member:
    """A job of a queue, and what it is told there."""

    name: str
    """`namespace/name`."""
    running: int
    admission: Admission | None

    @property
    def state(self) -> str:
        """Who has no answer yet waits too."""
        return (self.admission.state if self.admission else AdmissionState.WAITING).value


async def read_queue(cluster: Cluster, name: str) -> Json:
    """The queue as it is stored; EtError when there is none."""
    try:
        return await cluster.api.get(Ref(TRAINING_QUEUES, "", name))
    except NotFound as error:
        if name not in error.message:
            raise  # not the queue is missing but its kind
        raise EtError(f"there is no TrainingQueue {name!r}; `et queue` shows all") from error


async def read_members(cluster: Cluster, queue: str) -> tuple[list[Member], bool]:
    """A queue's jobs that have not ended, and whether those of all namespaces could be read."""

    def keep(item: Json) -> Member | None:
        job, admission = decode_job(item), read_admission(item)
        if find_queue(job, admission) != queue or job.status.completion_time:
            return None
        return Member(name_job(job), len(job.status.current_workers), admission)

    try:
        return await read_jobs(cluster, keep, everywhere=True), True
    except Refused:
        return await read_jobs(cluster, keep), False


async def show_queues(cluster: Cluster, screen: Screen, *, as_json: bool) -> None:
    """One line a queue."""
    listing = await cluster.api.list(TRAINING_QUEUES, None)
    found = sorted(listing.items, key=lambda queue: get_meta(queue, "name"))
    if as_json:
        screen.show_json({"apiVersion": "v1", "kind": "List", "items": found})
        return
    if not found:
        screen.hint("there is no TrainingQueue; jobs that are in none start at once")
        return
    now = cluster.clock.now()
    screen.show_rows(HEADER, [_describe_line(queue, now) for queue in found])


async def show_queue(cluster: Cluster, screen: Screen, name: str, *, as_json: bool) -> None:
    """What it has and is due, and its jobs."""
    stored = await read_queue(cluster, name)
    members, is_whole = await read_members(cluster, name)
    line = list_line(stored)
    members = sorted(members, key=lambda member: _find_place(member, line))
    if as_json:
        jobs = [{"name": m.name, "state": m.state} for m in members]
        screen.show_json({"queue": stored, "jobs": jobs})
        return
    facts = Table.grid(padding=(0, 2, 0, 0))
    facts.add_column(style="dim", no_wrap=True)
    facts.add_column(overflow="fold")
    for label, value in _list_facts(stored, decode_queue(stored)):
        facts.add_row(label, value)
    screen.show(facts)
    now = cluster.clock.now()
    if members:
        screen.say("")
        rows = [_describe_member(member, now) for member in members]
        screen.show_rows(("JOB", "STATE", "WORKERS", "FOR", "WHY"), rows)
    if not is_whole:
        screen.hint(f"these are the jobs of {cluster.namespace}: those of all you may not list")


def list_line(queue: Json) -> list[str]:
    """The first of those who wait, `namespace/name`, as et-scheduler serves them."""
    line = (queue.get("status") or {}).get("line")
    return [str(one) for one in line] if isinstance(line, list) else []


def name_job(job: TrainingJob) -> str:
    """As a queue's line names it."""
    return f"{job.key.namespace}/{job.key.name}"


def format_amount(resource: str, amount: int) -> str:
    """`1.5`, `12Gi`: an amount of a status (thousandths of a CPU, bytes, pieces) for people."""
    if resource == CPU:
        return f"{amount / MILLI:g}"
    if resource not in _BYTES:
        return str(amount)
    power = 0
    value = float(amount)
    while value >= _STEP and power < len(_UNITS) - 1:
        value, power = value / _STEP, power + 1
    return f"{value:.3g}{_UNITS[power]}"


def format_since(moment: int, now: datetime) -> str:
    """How long it is since then (milliseconds of the epoch)."""
    return format_duration(now - datetime.fromtimestamp(moment / 1000, UTC)) if moment else "-"


def _describe_line(stored: Json, now: datetime) -> tuple[str | Text, ...]:
    spec, status = stored.get("spec") or {}, stored.get("status") or {}
    age = parse_time(get_meta(stored, "creationTimestamp"))
    name = get_meta(stored, "name")
    return (
        Text(f"{name} (stopped)", style="yellow") if spec.get("stopped") else name,
        str(spec.get("weight", 1)),
        str(spec.get("priority", 0)),
        str(status.get("waiting", "-")),
        str(status.get("running", "-")),
        _describe_share(_read_amounts(status, "allocated"), _read_amounts(status, "deserved")),
        format_duration(now - age) if age else "-",
    )


def _describe_share(has: Mapping[str, int], due: Mapping[str, int]) -> str:
    """The resource of which it has most of what it is due."""
    shared = [resource for resource, amount in due.items() if amount > 0]
    if not shared:
        return "-"
    most = max(shared, key=lambda resource: has.get(resource, 0) / due[resource])
    amounts = f"{format_amount(most, has.get(most, 0))}/{format_amount(most, due[most])}"
    return f"{most} {amounts}"


def _list_facts(stored: Json, known: StoredQueue) -> Iterator[tuple[str, str | Text]]:
    queue, status = known.queue, stored.get("status") or {}
    yield "queue", queue.name
    yield "weight", f"{queue.weight}, priority {queue.priority}"
    if queue.is_stopped:
        yield "stopped", Text("nothing new starts; what runs goes on", style="yellow")
    if known.demands is not None:
        yield "for", "namespaces with certain labels only (spec.namespaces)"
    if not status:
        yield "trouble", Text("no status yet: does et-scheduler run?", style="yellow")
        return
    yield "jobs", f"{status.get('running', 0)} run, {status.get('waiting', 0)} wait"
    has, due = _read_amounts(status, "allocated"), _read_amounts(status, "deserved")
    for resource in sorted({*has, *due, *queue.limits}):
        limit = queue.limits.get(resource)
        yield resource, draw_bar(resource, has.get(resource, 0), due.get(resource, 0), limit)


def draw_bar(resource: str, has: int, due: int, limit: int | None) -> Text:
    """`#` for what it has of its due, `+` for what it has beyond, `.` for the rest."""
    whole = max(has, due, limit or 0, 1)
    within = round(BAR * min(has, due) / whole)
    beyond = round(BAR * has / whole) - within
    bar = Text("#" * within, style="green").append("+" * beyond, style="yellow")
    bar.append("." * (BAR - within - beyond), style="dim")
    text = f" has {format_amount(resource, has)}, due {format_amount(resource, due)}"
    if limit is not None:
        text += f", limit {format_amount(resource, limit)}"
    return bar.append(text, style="default")


def _read_amounts(status: Json, key: str) -> dict[str, int]:
    body = status.get(key)
    found = body.items() if isinstance(body, Mapping) else ()
    return {str(name): amount for name, amount in found if type(amount) is int}


def _find_place(member: Member, line: Sequence[str]) -> tuple[bool, int, str]:
    """First those who run, by name; then the line; then who is too far behind to be in it."""
    name = member.name
    if member.state != AdmissionState.WAITING.value:
        return False, 0, name
    return True, line.index(name) if name in line else len(line), name


def _describe_member(member: Member, now: datetime) -> tuple[str | Text, ...]:
    admission = member.admission
    is_admitted = member.state == AdmissionState.ADMITTED.value
    return (
        member.name,
        style_phase(member.state),
        f"{member.running}/{admission.workers}" if admission and is_admitted else "-",
        format_since(admission.since, now) if admission else "-",
        admission.message if admission else "et-scheduler has not answered yet",
    )
