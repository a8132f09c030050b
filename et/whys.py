"""`et why`: why a job waits, has the workers that it has, or has ended.

Only reads. Reasons are those that operator, et-scheduler and server have given; of its own it adds
the error in the job's output, and that no step was seen.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from rich.table import Table
from rich.text import Text

from et.clusters import Cluster
from et.errors import EtError
from et.listing import describe_span
from et.queues import format_since, list_line, name_job, read_queue
from et.reading import (
    count_wanted,
    explain_end,
    find_queue,
    has_ended,
    list_troubles,
    names_cause,
    read_admission,
    read_cause,
    read_events,
    read_job,
    read_pods,
    read_silence,
)
from et.screens import Screen, format_duration, style_phase
from et.stories import JOB, Entry, choose_events, drop_past, tell_story
from et_contract.admissions import ADMITTED, REFUSED, AdmissionState
from et_kube.errors import KubeError, Refused
from et_operator.codec.decoding import decode_job
from et_operator.model.conditions import AWAITING, find_condition
from et_operator.model.jobs import TrainingJob
from et_operator.model.pods import Pod
from et_operator.model.texts import count
from et_scheduler.model.jobs import Admission

LATELY = timedelta(minutes=30)
"""Warnings that are older explain nothing of what is now."""
MOST_WARNINGS = 3
ALIKE = 100
"""A warning whose last characters, so many, are in a trouble tells the same: a kubelet puts words
of its own before those of a pull, and the cause of an idle worker was a warning first."""
MOST_BEFORE = 3

Fact = tuple[str, str]


async def explain(cluster: Cluster, screen: Screen, name: str, *, as_json: bool) -> None:
    """`et why`: print what keeps a job waiting, or why it has what it has."""
    stored = await read_job(cluster, name)
    job, admission = decode_job(stored), read_admission(stored)
    line = await _read_line(cluster, find_queue(job, admission))
    events = await read_events(cluster, job.key.namespace, choose_events(job))
    events = drop_past(events, await _read_pods(cluster, job))
    story = tell_story(job, [], events)
    now = cluster.clock.now()
    facts = list(list_reasons(job, admission, line, story, now))
    cause = await read_cause(cluster, job)
    if cause and (as_json or not names_cause(explain_end(job), cause)):
        facts.append(("error", cause))
    silence = await read_silence(cluster, job)
    facts += [("training", silence)] if silence else []
    if as_json:
        reasons = [{"about": label, "text": text} for label, text in facts]
        screen.show_json({"job": name, "phase": job.status.phase, "reasons": reasons})
        return
    title = Text.assemble((name, "bold"), "  ", style_phase(job.status.phase or ""))
    screen.say(title.append(f"  {describe_span(job, now)}", style="dim"))
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for label, text in facts:
        table.add_row(label, text)
    screen.show(table)


def list_reasons(
    job: TrainingJob,
    admission: Admission | None,
    line: Sequence[str],
    story: Sequence[Entry],
    now: datetime,
) -> Iterator[Fact]:
    """What there is to say, most telling first: a label and a sentence each."""
    if job.invalid:
        yield "spec", job.invalid
    if has_ended(job):
        yield "end", explain_end(job)
        yield from (("warning", f"{kind}: {text}") for kind, text in job.warnings)
        return
    told, queue = find_condition(job.status.conditions, ADMITTED), find_queue(job, admission)
    if told is not None and told.reason == REFUSED:  # et-scheduler says no more of it
        yield "queue", "in no line: its pods would not be created"
        yield "why", told.message
    elif queue and admission is not None:
        yield from _list_of_queue(job, admission, line, now)
    elif queue:
        yield "queue", (told.message if told else "") or "the operator has not looked at it yet"
        yield "next", f"et-scheduler answers for queue {queue}; does it run?"
    for trouble in list_troubles(job):
        yield "trouble", trouble
    yield from _list_waits(job)
    yield from _list_warnings(job, story, now)
    yield "workers", _describe_workers(job)


def _list_waits(job: TrainingJob) -> Iterator[Fact]:
    for kind, label in (("Scaling", "scaling"), (AWAITING, "waits")):
        found = find_condition(job.status.conditions, kind)
        if found is not None and found.status == "True":
            yield label, found.message


def _list_of_queue(
    job: TrainingJob, admission: Admission, line: Sequence[str], now: datetime
) -> Iterator[Fact]:
    where = f"in queue {find_queue(job, admission)}"
    if admission.state is AdmissionState.ADMITTED:
        yield "queue", f"admitted {where} {format_since(admission.since, now)} ago"
        yield "may have", f"{count(admission.workers, 'worker')} now"
        if admission.leaving:
            yield "leaving", ", ".join(admission.leaving)
    else:
        yield "queue", f"waits {where} for {format_since(admission.queued_at, now)}"
        yield from _list_of_line(name_job(job), line)
    if admission.message:
        yield "why", admission.message


def _list_of_line(name: str, line: Sequence[str]) -> Iterator[Fact]:
    if name not in line:
        return
    place = line.index(name)
    yield "place", f"{place + 1} of those who wait"
    if place:
        before = list(line[max(place - MOST_BEFORE, 0) : place])
        more = f" and {place - len(before)} more" if place > len(before) else ""
        yield "behind", ", ".join(before) + more


def _list_warnings(job: TrainingJob, story: Sequence[Entry], now: datetime) -> Iterator[Fact]:
    """The newest, without what a condition tells: it is a trouble, and told as such, or over."""
    told = {condition.type for condition in job.status.conditions}
    troubles = list_troubles(job)
    warnings = [
        one
        for one in story
        if one.is_warning
        and now - one.at <= LATELY
        and not (one.about == JOB and one.what in told)
        and not any(one.text[-ALIKE:] in trouble for trouble in troubles)
    ]
    for one in warnings[-MOST_WARNINGS:]:
        about = "" if one.about == JOB else f"{one.about}: "
        yield "warning", f"{about}{one.what}: {one.show()} ({format_duration(now - one.at)} ago)"


def _describe_workers(job: TrainingJob) -> str:
    wanted = count_wanted(job)
    of = "" if wanted is None else f" of {wanted}"
    return f"{len(job.status.current_workers)}{of} run"


async def _read_pods(cluster: Cluster, job: TrainingJob) -> list[Pod] | None:
    """None where they may not be read."""
    try:
        return await read_pods(cluster, job)
    except KubeError:
        return None


async def _read_line(cluster: Cluster, queue: str) -> list[str]:
    """Who waits in the queue; nobody where it is gone or may not be read."""
    try:
        return list_line(await read_queue(cluster, queue)) if queue else []
    except (EtError, Refused):
        return []
