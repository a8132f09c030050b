"""What is seen of a job at one moment, as a picture for a terminal or a line for a pipe.

No I/O and no clock: watching.py brings what is seen up to date and hands in the time. What is said
is taken from the job's own record, its scalings and its log.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from rich.console import Console, RenderableType
from rich.segment import Segment, Segments
from rich.table import Table
from rich.text import Text

from et.losses import LastLoss
from et.reading import (
    describe_workers,
    explain_end,
    explain_silence,
    has_ended,
    list_troubles,
)
from et.screens import format_duration, style_phase
from et.steps import Progress, Step
from et.stories import describe_outcomes, name_scaling
from et_operator.model.conditions import AWAITING, find_troubles
from et_operator.model.jobs import TrainingJob
from et_operator.model.scalings import Scaling
from et_operator.model.statuses import ScalingRecord, WorkerState
from et_operator.model.texts import count

SHOWN = 6
"""Scalings that are shown, the newest."""
FRESH = timedelta(minutes=5)
"""For so long a scaling is shown that has failed."""
BAR = 20


@dataclass(slots=True)
class Picture:
    """What is shown of one job.

    `changes` are those of a number itself, which leave no object behind.
    """

    job: TrainingJob
    progress: Progress = field(default_factory=Progress)
    scalings: tuple[Scaling, ...] = ()
    changes: dict[datetime, ScalingRecord] = field(default_factory=dict)
    note: str = ""
    is_gone: bool = False
    loss: LastLoss = field(default_factory=LastLoss)

    def take(self, job: TrainingJob) -> None:
        """The job as it is now."""
        self.job = job
        record = job.status.scaling
        if record is not None and record.kind.is_number:
            self.changes[record.started] = record


def fit(picture: Picture, now: datetime, console: Console) -> RenderableType:
    """The picture in the room that the terminal has: what is oldest is left out first."""
    room, shown = max(console.height - 1, 2), SHOWN
    while True:
        page = draw(picture, now, shown)
        lines = console.render_lines(page, pad=False)
        if len(lines) <= room:
            return page
        if not shown:
            break
        shown -= 1
    kept = [lines[0], *lines[len(lines) - room + 1 :]]
    return Segments([part for line in kept for part in (*line, Segment.line())])


def draw(picture: Picture, now: datetime, shown: int = SHOWN) -> Table:
    """The picture: a title, then what is known, each fact on its line; so many scalings at most."""
    job, status = picture.job, picture.job.status
    began, ended = status.start_time or job.created, status.completion_time or now
    title = Text.assemble((job.key.name, "bold"), "  ", style_phase(status.phase or ""))
    title.append(f"  {format_duration(ended - began)}", style="dim")
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for label, value in _list_facts(picture, now, shown):
        table.add_row(label, value)
    page = Table.grid()
    page.add_row(title)
    page.add_row(table)
    return page


def summarise(picture: Picture) -> str:
    """What the picture shows, in a line."""
    job, newest = picture.job, picture.progress.newest
    parts = [f"{job.status.phase or '-':<10}", f"workers {describe_workers(job)}"]
    parts += [f"{label} {value}" for label, value in _list_progress(newest)]
    record = job.status.scaling
    if record is not None and record.outcome is None:
        parts.append(f"scaling {record.base} -> {record.target}")
    return "  ".join(parts)


def find_stage(picture: Picture) -> tuple[object, ...]:
    """What must change for a line to be worth more than the step it tells."""
    status = picture.job.status
    is_scaling = status.scaling is not None and status.scaling.outcome is None
    return (status.phase, status.current_workers, is_scaling, picture.progress.newest.size)


def list_notes(picture: Picture) -> dict[str, str]:
    """By a word for each: a sentence of every trouble, and of what is waited for."""
    conditions = picture.job.status.conditions
    notes = {
        c.type: f"trouble: {c.type}: {c.message or c.reason}" for c in find_troubles(conditions)
    }
    found = {c.type: c.message for c in conditions if c.status == "True"}
    if wait := find_wait(picture.job):
        notes["the wait of the scaling"] = f"the scaling waits: {wait}"
    if AWAITING in found:
        notes["the wait"] = f"waits: {found[AWAITING]}"
    return notes


def list_scalings(picture: Picture, now: datetime, *, is_over: bool = False) -> list[str]:
    """A line for each scaling there was or is, oldest first; `is_over`: only for the former.

    One that has failed, and so has changed nothing, is no matter any more after a while.
    """
    found = [
        (scaling.created, _describe_scaling(scaling))
        for scaling in picture.scalings
        if (not is_over or (scaling.status.phase is not None and scaling.status.phase.is_final))
        and not _is_stale(scaling, now)
    ]
    found += [
        (at, _describe_change(record))
        for at, record in picture.changes.items()
        if not is_over or record.outcome is not None
    ]
    return [line for _, line in sorted(found)]


def _list_facts(picture: Picture, now: datetime, shown: int) -> Iterator[tuple[str, str | Text]]:
    job = picture.job
    yield "workers", _describe_workers(job)
    yield from _list_training(picture, now)
    lines = list_scalings(picture, now)
    left_out = len(lines) - shown
    if left_out > 0:
        rest = lines[left_out:]
        lines = [f"... {left_out} before these", *rest] if rest else [f"{left_out} not shown"]
    for index, line in enumerate(lines):
        yield "scalings" if index == 0 else "", line
    yield from _list_waits(job)
    for trouble in list_troubles(job):
        yield "trouble", Text(trouble, style="yellow")
    if picture.note:
        yield "note", Text(picture.note, style="yellow")
    if has_ended(job):
        style = "green" if job.status.phase == "Succeeded" else "red"
        yield "end", Text(explain_end(job), style=style)


def _list_waits(job: TrainingJob) -> Iterator[tuple[str, str]]:
    """What is waited for; that of a ScaleIn or ScaleOut is told with it."""
    record, found = job.status.scaling, job.status.conditions
    waits = [c.message for c in found if c.type == AWAITING and c.status == "True"]
    if record is not None and record.kind.is_number:
        waits = [find_wait(job), *waits]
    yield from (("waits", wait) for wait in waits if wait)


def find_wait(job: TrainingJob) -> str:
    """For what the scaling waits that goes on, as the condition says it; "" for nothing."""
    found = (c for c in job.status.conditions if c.type == "Scaling" and c.status == "True")
    return next((c.message.partition("; waits: ")[2] for c in found), "")


def _list_training(picture: Picture, now: datetime) -> Iterator[tuple[str, str | Text]]:
    newest = picture.progress.newest
    facts = _list_progress(newest)
    if not facts:
        silence = explain_silence(picture.job, now)
        quiet = Text("no step was seen in the launcher's log yet", style="dim")
        yield "training", Text(silence, style="yellow") if silence else quiet
        return
    if newest.total and newest.number is not None:
        full = round(BAR * min(newest.number / newest.total, 1.0))
        bar = Text("#" * full, style="green").append("." * (BAR - full), style="dim")
        yield "training", bar.append(f" {newest.number / newest.total:.0%}", style="default")
    yield from facts
    if len(picture.progress.sizes) > 1:
        yield "sizes seen", " -> ".join(map(str, picture.progress.sizes))
    if loss := picture.loss.describe():
        yield "last loss", loss


def _list_progress(newest: Step) -> list[tuple[str, str]]:
    loss = None if newest.loss is None else f"{newest.loss:.5g}"
    size = None if newest.size is None else str(newest.size)
    found = (
        ("epoch", _count(newest.epoch, newest.epochs)),
        ("step", _count(newest.number, newest.total)),
        ("loss", loss),
        ("world size", size),
    )
    return [(label, value) for label, value in found if value is not None]


def _count(number: int | None, total: int | None) -> str | None:
    if number is None:
        return None
    return f"{number}/{total}" if total is not None else str(number)


def _describe_workers(job: TrainingJob) -> Text:
    text = Text(f"{describe_workers(job)} running")
    worker = job.spec.worker if job.spec else None
    if worker is not None:
        most = f", at most {worker.max_replicas}" if worker.max_replicas else ""
        text.append(f"  (at least {worker.min_replicas or 1}{most})", style="dim")
    for state, style in ((WorkerState.JOINING, "cyan"), (WorkerState.LEAVING, "yellow")):
        names = [record.name for record in job.status.workers if record.state is state]
        if names:
            text.append(f"\n{state.value.lower()}: {', '.join(names)}", style=style)
    return text


def _is_stale(scaling: Scaling, now: datetime) -> bool:
    status = scaling.status
    ended = status.completion_time
    return status.phase == "ScaleFailed" and ended is not None and now - ended > FRESH


def _describe_scaling(scaling: Scaling) -> str:
    status, name = scaling.status, name_scaling(scaling)
    if not status.conditions:
        return f"{name}: not seen by the operator yet"
    last = status.conditions[-1]
    if status.phase is None or not status.phase.is_final:
        return f"{name}: {last.message}"
    if last.type == "ScaleFailed":
        return f"{name} failed ({last.reason}): {last.message}"
    began, ended = status.start_time, status.completion_time
    lasted = f" in {(ended - began).total_seconds():.1f} s" if began and ended else ""
    changes = next((c.message for c in status.conditions if c.type == "Scaling"), last.message)
    outcomes = describe_outcomes(status.workers)
    return f"{name}: {changes}{lasted}" + (f"; {outcomes}" if outcomes else "")


def _describe_change(record: ScalingRecord) -> str:
    outcomes = describe_outcomes(record.workers)
    text = f"Replicas: {record.base} -> {count(record.target, 'worker')}"
    if record.outcome is not None and not record.outcome.succeeded:
        text += f", stopped ({record.outcome.reason}): {record.outcome.message}"
    return text + (f"; {outcomes}" if outcomes else "")
