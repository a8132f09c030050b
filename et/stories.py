"""The story of a job, in the order in which it happened.

Three tell it: Events (in most words, but the server forgets them after an hour), the job's own
conditions, and its scalings. What two of them tell is told once.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import chain

from et.clusters import get_meta
from et.steps import tell_cause
from et_kube.resources import Json
from et_kube.times import parse_time
from et_operator.model.conditions import Condition
from et_operator.model.jobs import TrainingJob
from et_operator.model.pods import Pod
from et_operator.model.scalings import Scaling
from et_operator.model.statuses import WorkerOutcome
from et_operator.model.texts import count, name_some

JOB = "job"
SAME = timedelta(seconds=15)
"""An Event and a condition of one kind that are no further apart tell of the same."""
ORDINARY = frozenset({"JobFinished", "Done", "JobResumed", "Over", "Restarted", "Recovered"})
"""Reasons of a condition that is no longer true which something else in the story tells."""
_SCALING = re.compile(r"^(ScaleIn|ScaleOut) ([a-z0-9.-]+)(?::| was stopped| succeeded)")
_POD = re.compile(r"\S+-(?:launcher(?:-r\d+)?|worker-\d+)")
_SAYS_LESS = re.compile(r"Error: (?:ErrImagePull|ImagePullBackOff)$|Back-off pulling image ")
"""What a kubelet says beside `Failed to pull image`, which has the cause."""
_LONG_AGO = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing that happened. `about` is the job, a scaling or a pod; `what` a word for it."""

    at: datetime
    about: str
    what: str
    text: str
    is_warning: bool = False
    count: int = 1
    short: str = ""
    """The text for people: of a command's output its error alone."""

    def show(self) -> str:
        """What is shown of the text."""
        return self.short or self.text


def tell_story(
    job: TrainingJob, scalings: Iterable[Scaling], events: Iterable[Json]
) -> list[Entry]:
    """Everything that happened to the job, oldest first."""
    scalings = list(scalings)
    uids = {scaling.uid: scaling for scaling in scalings}
    outcomes = {name_scaling(s): describe_outcomes(s.status.workers) for s in scalings}
    told = [
        replace(entry, text=f"{entry.text}; {outcomes[entry.about]}")
        if entry.what.startswith("Scale") and outcomes.get(entry.about)
        else entry
        for event in events
        if (entry := read_event(event, job, uids)) is not None
    ]
    told = merge_pods(told)
    others = chain(_read_job(job), *(_read_scaling(scaling) for scaling in scalings))
    known: dict[str, list[Entry]] = defaultdict(list)
    for entry in told:
        known[entry.about].append(entry)
    new = [entry for entry in others if not any(_is_same(entry, o) for o in known[entry.about])]
    return sorted([*told, *new], key=lambda entry: entry.at)


def choose_events(job: TrainingJob, scalings: Iterable[Scaling] = ()) -> Callable[[Json], bool]:
    """Which Events say something of the job, its pods, and these scalings of it."""
    uids = {scaling.uid: scaling for scaling in scalings}
    return lambda event: read_event(event, job, uids) is not None


def read_event(event: Json, job: TrainingJob, scalings: Mapping[str, Scaling]) -> Entry | None:
    """An Event of the job or one of its scalings (by uid), or a warning about one of its pods."""
    about: Json = event.get("involvedObject") or {}
    uid, name, kind = about.get("uid"), str(about.get("name") or ""), about.get("kind")
    message = str(event.get("message"))
    reason, text, short = str(event.get("reason") or ""), " ".join(message.split()), ""
    is_warning = event.get("type") == "Warning"
    scaling = scalings.get(str(uid))
    if uid == job.uid:
        named = _SCALING.match(text)
        subject = f"{named[1]} {named[2]}" if named else JOB
        text = text[named.end() :].strip(": ") if named else text
        short = " ".join(tell_cause(message).split()) if named is None else ""
    elif scaling is not None:
        subject = name_scaling(scaling)
    elif kind == "Pod" and is_warning and name.startswith(f"{job.key.name}-"):
        subject = name
        if not re.fullmatch(r"(launcher(-r\d+)?|worker-\d+)", name[len(job.key.name) + 1 :]):
            return None
    else:
        return None
    at = find_time(event)
    if at < job.created:
        return None  # of a former job's pods of the same name
    return Entry(at, subject, reason, text, is_warning, find_count(event), short)


def drop_past(events: Iterable[Json], pods: Iterable[Pod] | None) -> list[Json]:
    """Without those about pods that are gone, and those that tell why one had not started yet."""
    if pods is None:
        return list(events)
    born = {key: pod for pod in pods for key in (pod.uid, pod.name)}
    return [event for event in events if not _is_past(event, born)]


def _is_past(event: Json, pods: Mapping[str, Pod]) -> bool:
    about: Json = event.get("involvedObject") or {}
    if about.get("kind") != "Pod":
        return False
    pod = pods.get(str(about.get("uid") or about.get("name")))
    return pod is None or (pod.started is not None and find_time(event) < pod.started)


def merge_pods(entries: Iterable[Entry]) -> list[Entry]:
    """One warning of all pods that have it, without those that another one of the pod explains."""
    groups: dict[object, list[Entry]] = defaultdict(list)
    for entry in entries:
        if not _POD.fullmatch(entry.about):
            groups[len(groups)].append(entry)
        elif not _SAYS_LESS.match(entry.text):
            groups[entry.what, entry.text.replace(entry.about, "")].append(entry)
    return [_merge(group) for group in groups.values()]


def find_time(event: Json) -> datetime:
    """When it happened first: newer Events have eventTime, older ones firstTimestamp."""
    texts = (event.get("eventTime"), event.get("firstTimestamp"), event.get("lastTimestamp"))
    times = (parse_time(text) for text in (*texts, get_meta(event, "creationTimestamp")))
    return next((time for time in times if time is not None), _LONG_AGO)


def find_count(event: Json) -> int:
    """How often it happened."""
    return int((event.get("series") or {}).get("count") or event.get("count") or 1)


def name_scaling(scaling: Scaling) -> str:
    """`ScaleIn shrink`, as the operator's Events name it."""
    return f"{scaling.kind.value} {scaling.name}"


def describe_wish(scaling: Scaling) -> str:
    """What a scaling asks for."""
    if scaling.pod_names:
        return f"{', '.join(scaling.pod_names)} must go"
    return f"{count(scaling.count or 0, 'worker')} {_DIRECTION[scaling.kind.value]}"


def describe_outcomes(workers: Iterable[WorkerOutcome]) -> str:
    """How each worker left."""
    return ", ".join(f"{w.name} {w.result.value} after {w.seconds:.1f} s" for w in workers)


_DIRECTION = {"ScaleIn": "less", "ScaleOut": "more"}


def _merge(group: list[Entry]) -> Entry:
    first = min(group, key=lambda entry: entry.at)
    names = sorted({entry.about for entry in group})
    return replace(first, about=name_some(names), count=sum(entry.count for entry in group))


def _read_job(job: TrainingJob) -> Iterator[Entry]:
    yield Entry(job.created, JOB, "Submitted", "the job was submitted")
    for condition in job.status.conditions:
        at = condition.last_transition_time
        if at is None:
            continue
        text = condition.message or condition.reason
        if condition.status == "True":
            is_warning, short = condition.type == "Failed", tell_cause(text)
            yield Entry(at, JOB, condition.type, text, is_warning, short=short)
        elif condition.reason not in ORDINARY:
            ended = f"no longer {condition.type} ({condition.reason})"
            yield Entry(at, JOB, condition.type, f"{ended}: {text}" if condition.message else ended)


def _read_scaling(scaling: Scaling) -> Iterator[Entry]:
    name = name_scaling(scaling)
    yield Entry(scaling.created, name, "Asked", describe_wish(scaling))
    for condition in scaling.status.conditions:
        if condition.last_transition_time is not None and condition.type != "Created":
            yield _read_scaling_condition(scaling, name, condition, condition.last_transition_time)


def _read_scaling_condition(
    scaling: Scaling, name: str, condition: Condition, at: datetime
) -> Entry:
    failed = condition.type == "ScaleFailed"
    text = f"{condition.reason}: {condition.message}" if failed else condition.message
    outcomes = (
        describe_outcomes(scaling.status.workers) if condition.type.startswith("Scale") else ""
    )
    return Entry(at, name, condition.type, f"{text}; {outcomes}" if outcomes else text, failed)


def _is_same(entry: Entry, event: Entry) -> bool:
    """Whether an Event about the same told it; that of a refused scaling has the reason as word."""
    words = {entry.what, entry.text.partition(":")[0] if entry.is_warning else entry.what}
    return event.what in words and abs(entry.at - event.at) <= SAME
