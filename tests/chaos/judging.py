"""What a night must not show. Each judge says what did not hold, and nothing where all did."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from math import inf
from typing import Any

from tests.chaos.records import Record
from tests.chaos.schedules import NOTICES, Kind
from tests.e2e.histories import ENDED, JOB, POD, SCALINGS, Version, find_label

LAUNCHERS = frozenset({Kind.LAUNCHER, Kind.LAUNCHER_NOTICE})
MOVED = frozenset({"Noticed", "Unneeded"})
"""Why a worker leaves because of a notice: its own, or one that was withdrawn."""
CONCLUDED = frozenset({"ScaleSucceeded", "ScaleFailed"})
Json = Mapping[str, Any]


def find_wrong_deletions(record: Record) -> Iterator[str]:
    """A worker's pod is deleted only if a fault struck it, a scaling named it, it had ended, or
    the job's status had said before that it leaves: its host was given up, or, after a notice, it
    changed places with another one or is not needed for that any more."""
    struck = {uid for strike in record.strikes for uid in strike.pods}
    noticed = min((s.at for s in record.strikes if s.kind in NOTICES), default=inf)
    named: set[str] = set()
    told: set[str] = set()
    for version in record.versions:
        body = version.body
        if version.kind == JOB:
            named |= {one.get("uid", "") for one in list_victims(body)}
            reasons = {"UsedUp"} if version.at < noticed else {"UsedUp", *MOVED}
            told |= {one["uid"] for one in list_records(body) if one.get("reason") in reasons}
            if body["metadata"].get("deletionTimestamp") or version.is_gone:
                return
        elif is_worker(version) and body["metadata"].get("deletionTimestamp"):
            uid = body["metadata"]["uid"]
            if uid not in struck | named | told and not has_ended(body):
                named.add(uid)  # said once
                yield f"{body['metadata']['name']} was deleted while it ran, for nothing"


def find_false_ends(record: Record) -> Iterator[str]:
    """The job goes on, no failure is called the user's, and only a lost launcher, or one that is
    said to end, has another."""
    lost = sum(strike.kind in LAUNCHERS for strike in record.strikes)
    highest, blamed = 1, 0
    for version in record.versions:
        if version.kind != JOB or version.is_gone:
            continue
        status = version.body.get("status", {})
        if status.get("phase") in ENDED:
            yield f"the job is {status['phase']}"
            return
        highest = max(highest, status.get("epoch", 0))
        blamed = max(blamed, status.get("failures", {}).get("user", 0))
    if blamed:
        yield f"{blamed} failures were called the user's"
    if highest - 1 > lost:
        yield f"{highest - 1} times a new launcher, {lost} were lost by the schedule"


def find_excess(record: Record) -> Iterator[str]:
    """Never more workers that live and stay than the job's maximum, but for one that takes the
    place of another while both are there."""
    pods: dict[str, Json] = {}
    paired: set[str] = set()
    most = 0
    for version in record.versions:
        if version.kind == JOB:
            paired = {one["name"] for one in list_records(version.body) if is_paired(one)}
        if not is_worker(version):
            continue
        uid = version.body["metadata"]["uid"]
        pods[uid] = version.body
        is_over = version.is_gone or has_ended(version.body)
        if is_over or version.body["metadata"].get("deletionTimestamp"):
            del pods[uid]
        most = max(most, len([p for p in pods.values() if p["metadata"]["name"] not in paired]))
    if most > record.maximum:
        yield f"{most} workers at once, {record.maximum} are allowed"


def find_lost_steps(record: Record) -> Iterator[str]:
    """Nobody goes back by more than lies between two commits."""
    newest = None
    for step in record.steps:
        if newest is not None and newest.number + 1 - step.number > record.commit_every:
            again = newest.number + 1 - step.number
            yield f"{again} steps from {step.number} on were trained again"
        newest = step


def find_open_scalings(record: Record) -> Iterator[str]:
    """Each ScaleIn and ScaleOut was concluded."""
    phases = {name: "" for strike in record.strikes for name in strike.objects}
    for version in record.versions:
        name = f"{version.kind.lower()}s/{version.body['metadata']['name']}"
        if version.kind in SCALINGS and name in phases:
            phases[name] = version.body.get("status", {}).get("phase", "")
    for name, phase in phases.items():
        if phase not in CONCLUDED:
            yield f"{name} was never concluded: {phase or 'no phase'}"


def find_late_returns(record: Record) -> Iterator[str]:
    """After each round the wanted number of ranks trains again, within the bound."""
    for passage in record.passages:
        what = " and ".join(strike.kind for strike in passage.strikes)
        number = passage.round.number
        if passage.back is None:
            yield f"round {number} ({what}): the wanted ranks never came back"
        elif passage.back - passage.ended > record.bound:
            late = passage.back - passage.ended
            yield f"round {number} ({what}): the wanted ranks were back after {late:.0f} s only"


def find_remains(record: Record) -> Iterator[str]:
    """Nothing of the job is there after its deletion."""
    yield from (f"{what} was left behind" for what in record.left)


def find_restarts(record: Record) -> Iterator[str]:
    """The operator begins anew only where the schedule made it."""
    meant = sum(strike.operators for strike in record.strikes)
    seen = len(record.operators)
    if seen > meant:
        yield f"the operator began anew {seen} times, {meant} of them by the schedule"


JUDGES: dict[str, Callable[[Record], Iterator[str]]] = {
    "no worker is deleted that nobody asked for": find_wrong_deletions,
    "no end that did not happen": find_false_ends,
    "no worker beyond the maximum": find_excess,
    "no step lost beyond what lies between two commits": find_lost_steps,
    "every scaling is concluded": find_open_scalings,
    "the wanted number of ranks is back after each round": find_late_returns,
    "nothing is left behind": find_remains,
    "no restart of the operator but the schedule's": find_restarts,
}
"""What is promised, and who says whether it was kept."""


def list_breaches(record: Record) -> list[str]:
    """All that did not hold."""
    return [breach for judge in JUDGES.values() for breach in judge(record)]


def is_worker(version: Version) -> bool:
    """Whether this is a worker's pod."""
    return version.kind == POD and find_label(version.body, "role") == "worker"


def has_ended(pod: Json) -> bool:
    """Whether its worker had ended by itself, or by a fault, before anybody deleted it."""
    status = pod.get("status", {})
    states = (one.get("state", {}) for one in status.get("containerStatuses", ()))
    return status.get("phase") in ENDED or any("terminated" in state for state in states)


def is_paired(record: Json) -> bool:
    """Whether a worker is there beside the one whose place it takes, or that took its own."""
    return bool(record.get("replaces")) or record.get("reason") in MOVED


def list_victims(job: Json) -> list[Json]:
    """Whom the scaling that goes on lets leave."""
    return list((job.get("status", {}).get("scaling") or {}).get("victims", ()))


def list_records(job: Json) -> list[Json]:
    """What the job's status remembers of workers that come or go."""
    return list(job.get("status", {}).get("workers") or ())
