"""`et list`: one line a job.

Only reads, one list. `et describe` and `et why` take its words for a scaling and for how long.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from rich.text import Text

from et.clusters import Cluster
from et.reading import describe_workers, has_ended, read_jobs
from et.screens import Screen, format_duration, style_phase
from et_kube.resources import Json
from et_operator.codec.decoding import decode_job
from et_operator.model.conditions import find_troubles
from et_operator.model.jobs import TrainingJob

HEADER = ("NAME", "PHASE", "WORKERS", "MIN", "MAX", "RESTARTS", "SCALING", "TROUBLE", "AGE")

LONGEST_TYPE = 63
"""Characters of a trouble's name: whoever writes the status decides how many it has."""


@dataclass(frozen=True, slots=True)
class Line:
    """What is shown of a job, with its namespace before and without its age."""

    created: datetime
    cells: tuple[str | Text, ...]


async def show_list(cluster: Cluster, screen: Screen, *, everywhere: bool, as_json: bool) -> None:
    """All jobs of the namespace, or of all namespaces."""
    if as_json:
        found = await read_jobs(cluster, lambda job: job, everywhere=everywhere)
        screen.show_json({"apiVersion": "v1", "kind": "List", "items": found})
        return
    lines = await read_jobs(cluster, _read_line, everywhere=everywhere)
    if not lines:
        where = "any namespace" if everywhere else f"namespace {cluster.namespace}"
        screen.hint(f"there is no TrainingJob in {where}")
        return
    now = cluster.clock.now()
    rows = [(*line.cells, format_duration(now - line.created)) for line in lines]
    if everywhere:
        screen.show_rows(("NAMESPACE", *HEADER), rows)
    else:
        screen.show_rows(HEADER, [row[1:] for row in rows])


def _read_line(item: Json) -> Line:
    job = decode_job(item)
    return Line(job.created, (job.key.namespace, job.key.name, *_describe(job)))


def _describe(job: TrainingJob) -> tuple[str | Text, ...]:
    status = job.status
    worker = job.spec.worker if job.spec else None
    troubles = [one.type[:LONGEST_TYPE] for one in find_troubles(status.conditions)]
    return (
        style_phase(status.phase or ""),
        "-" if has_ended(job) else describe_workers(job),
        str(worker.min_replicas or 1) if worker else "?",
        str(worker.max_replicas or "-") if worker else "?",
        str(status.restart_count),
        describe_scaling(job),
        Text(",".join(troubles), style="yellow") or "-",
    )


def describe_scaling(job: TrainingJob) -> str:
    """`ScaleIn 4 -> 3` while one goes on."""
    record = job.status.scaling
    if record is None or record.outcome is not None:
        return "-"
    return f"{record.kind.value} {record.base} -> {record.target}"


def describe_span(job: TrainingJob, now: datetime) -> str:
    """`for 67s`; of a job that has ended how long it took, and how long ago that was."""
    began, ended = job.status.start_time or job.created, job.status.completion_time
    if ended is None or not has_ended(job):
        return f"for {format_duration((ended or now) - began)}"
    return f"after {format_duration(ended - began)}, {format_duration(now - ended)} ago"
