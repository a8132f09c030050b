"""`et describe`: what a job is, who works for it, and how it came to that.

Only reads, everything once. The order of what happened is stories.py's; what an operator or a
server has not said is not said here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from rich.table import Table
from rich.text import Text

from et.clusters import Cluster
from et.listing import describe_scaling, describe_span
from et.logs import Beginning, PodLog
from et.losses import LONGEST, LastLoss
from et.reading import (
    count_wanted,
    find_launcher,
    has_ended,
    list_troubles,
    read_events,
    read_job,
    read_pods,
    read_scalings,
    read_stored_scalings,
)
from et.screens import Screen, cut, format_clock, format_duration, style_phase
from et.stories import JOB, Entry, choose_events, tell_story
from et_contract.pods import Role, read_command
from et_kube.errors import KubeError
from et_kube.racing import run_within
from et_kube.resources import Json
from et_kube.times import format_time
from et_operator.codec.decoding import decode_job
from et_operator.model.conditions import AWAITING, RECOVERING, Condition, find_condition
from et_operator.model.jobs import TrainingJob
from et_operator.model.pods import Pod
from et_operator.model.statuses import JobStatus, WorkerState

MARGIN = timedelta(minutes=1)
"""From when training stands still to when a loss is told; clocks may differ by less."""
LOG_LIMIT = timedelta(seconds=10)
"""For the launcher's log: a node that is down would hold it for minutes."""


@dataclass(frozen=True, slots=True)
class Account:
    """Everything about one job at one time."""

    job: TrainingJob
    stored: Json
    pods: Sequence[Pod]
    story: Sequence[Entry]
    loss: str = ""
    """What the newest loss of a worker cost the training, as its log tells."""


async def read_account(cluster: Cluster, name: str) -> Account:
    """The account of the job `name`; EtError where there is none."""
    stored = await read_job(cluster, name)
    job = decode_job(stored)
    scalings = await read_scalings(cluster, job)
    pods = await read_pods(cluster, job)
    is_told = choose_events(job, scalings)
    story = tell_story(job, scalings, await read_events(cluster, job.key.namespace, is_told))
    loss = await read_loss(cluster, job, pods)
    return Account(job, stored, pods, story, loss)


async def read_loss(cluster: Cluster, job: TrainingJob, pods: list[Pod]) -> str:
    """As `Account.loss`; "" where none is told of, and where the log cannot be read in time."""
    told = find_condition(job.status.conditions, RECOVERING)
    launcher = find_launcher(pods, job)
    if told is None or not told.message or told.last_transition_time is None:
        return ""
    if launcher is None or not launcher.has_container_started:
        return ""
    at = told.last_transition_time
    start = at - LONGEST - MARGIN  # there are steps before the loss, and they come slowly
    log = PodLog(cluster, launcher, Beginning(since=cluster.clock.now() - start))
    # It stands for the loss, and more may follow; or for the end of what was missing since then.
    span = (at - MARGIN, None) if told.status == "True" else (start, at)
    try:
        return await run_within(cluster.clock, LOG_LIMIT, _read_cost(log, *span))
    except (TimeoutError, KubeError):
        return ""


async def _read_cost(log: PodLog, first: datetime, last: datetime | None) -> str:
    """Of the newest loss from `first` on, to `last` where that is known."""
    loss, is_told = LastLoss(), False
    async with aclosing(log.read(is_following=False)) as lines:
        async for line in lines:
            loss.take(line.at, line.text)
            is_told = loss.at is not None and loss.at >= first
            newest = loss.at if is_told else last
            if newest is not None and line.at - newest > LONGEST + 2 * MARGIN:
                break
    return loss.describe() if is_told else ""


async def describe(cluster: Cluster, screen: Screen, name: str, *, as_json: bool) -> None:
    """`et describe`: print the account of the job `name`, or give it to programs as JSON."""
    account = await read_account(cluster, name)
    if as_json:
        scalings = await read_stored_scalings(cluster, account.job)
        screen.show_json(encode_account(account, scalings))
        return
    now = cluster.clock.now()
    facts = Table.grid(padding=(0, 2, 0, 0))
    facts.add_column(style="dim", no_wrap=True)
    facts.add_column(overflow="fold")
    for label, value in list_facts(account.job, now, account.loss):
        facts.add_row(label, value)
    screen.show(facts)
    if account.pods:
        screen.say("")
        rows = [_describe_pod(account.job, pod, now) for pod in account.pods]
        screen.show_rows(("POD", "STATE", "NODE", "AGE"), rows)
    screen.say("")
    show_story(screen, account, now)


def encode_account(account: Account, scalings: Sequence[Json]) -> dict[str, Any]:
    """What is shown of a job, for programs."""
    story = [
        {
            "time": format_time(entry.at),
            "about": entry.about,
            "reason": entry.what,
            "message": entry.text,
            "type": "Warning" if entry.is_warning else "Normal",
            "count": entry.count,
        }
        for entry in account.story
    ]
    told = {"job": account.stored, "scalings": scalings, "story": story}
    return told | ({"lastLoss": account.loss} if account.loss else {})


def show_story(screen: Screen, account: Account, now: datetime) -> None:
    """One line a thing that happened, with the time of day and since the job was submitted."""
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    table.add_column("TIME", no_wrap=True)
    table.add_column("AFTER", justify="right", no_wrap=True)
    table.add_column("WHAT HAPPENED", overflow="fold")
    for entry in account.story:
        after = format_duration(entry.at - account.job.created)
        table.add_row(format_clock(entry.at, now), after, cut(_tell(entry)))
    screen.show(table)


def _tell(entry: Entry) -> Text:
    about = "" if entry.about == JOB else f"{entry.about}: "
    text = Text.assemble((f"{about}{entry.what}", "yellow" if entry.is_warning else "bold"))
    text.append(f"  {entry.show()}")
    if entry.count > 1:
        text.append(f" ({entry.count} times)", style="dim")
    return text


def list_facts(job: TrainingJob, now: datetime, loss: str = "") -> Iterator[tuple[str, str | Text]]:
    """What the job is and how it is, a label and words each; `loss` as in an account."""
    status, worker = job.status, job.spec.worker if job.spec else None
    yield "job", Text(f"{job.key.name}  (namespace {job.key.namespace})")
    phase = style_phase(status.phase or "")
    yield "phase", phase.append(f"  {describe_span(job, now)}", style="default")
    if worker is not None:
        most = f", at most {worker.max_replicas}" if worker.max_replicas else ""
        least = f"at least {worker.min_replicas or 1}"
        running = len(status.current_workers)
        yield "workers", f"{running} running, {count_wanted(job)} wanted, {least}{most}"
        yield "command", _find_command(job)
    if describe_scaling(job) != "-":
        told = find_condition(status.conditions, "Scaling")
        yield "scaling", f"{describe_scaling(job)}{_find_wait(told)}"
    if status.restart_count:
        failures = status.failures
        detail = f"{failures.user} by the command, {failures.infrastructure} by the cluster"
        yield "restarts", f"{status.restart_count} (failures: {detail})"
    waits = find_condition(status.conditions, AWAITING)
    if waits is not None and waits.status == "True":
        yield "waits", waits.message
    yield from (("last loss", words) for words in (_tell_recovery(status), loss) if words)
    for warning in job.warnings if has_ended(job) else ():  # their Events are forgotten
        yield "warning", Text(warning.text, style="yellow")
    for trouble in (*([job.invalid] if job.invalid else []), *list_troubles(job)):
        yield "trouble", Text(trouble, style="yellow")


def _tell_recovery(status: JobStatus) -> str:
    """Who was lost last, and whether as many hosts as are wanted are back."""
    told = find_condition(status.conditions, RECOVERING)
    if told is None or not told.message:
        return ""
    return f"{told.message}, and not all hosts are back" if told.status == "True" else told.message


def _find_wait(told: Condition | None) -> str:
    """What a scaling waits for, as the condition says it after how far it is to go."""
    _, sign, wait = (told.message if told is not None else "").partition("; waits: ")
    return sign and f"  ({wait})"


def _find_command(job: TrainingJob) -> str:
    containers = (
        (job.spec.launcher_template.get("spec") or {}).get("containers") if job.spec else ()
    )
    first = containers[0] if containers else {}
    return " ".join(map(str, read_command(first)))


def _describe_pod(job: TrainingJob, pod: Pod, now: datetime) -> tuple[str | Text, ...]:
    return (pod.name, describe_state(job, pod), pod.node or "-", format_duration(now - pod.created))


def describe_state(job: TrainingJob, pod: Pod) -> Text:
    """In a word or two what the pod does, or what it waits for."""
    leaving = {r.uid for r in job.status.workers if r.state is WorkerState.LEAVING}
    if pod.uid in leaving or pod.is_deleting:
        return Text("leaving", style="yellow")
    if pod.termination is not None:
        code = pod.termination.exit_code
        if code == 0:
            return Text("ended", style="dim" if pod.role is Role.WORKER else "green")
        return Text(f"ended with {code}", style="red")
    if pod.is_container_running:
        return Text("running", style="green")
    if pod.unschedulable_message:
        return Text("no node takes it", style="yellow")
    return Text(pod.waiting_reason or pod.phase.lower(), style="yellow")
