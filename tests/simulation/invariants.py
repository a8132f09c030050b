"""What must hold at every moment of every life, each as a sentence that a user would understand.

`watch_over` puts them on a cluster: each write is judged when it happens, by what the cluster held
at that time, not by what the operator believed.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from typing import Any

from et_contract.names import CONFIG_KEY
from et_contract.pods import LABEL_ROLE
from et_kube.resources import (
    CONFIG_MAPS,
    EVENTS,
    GROUP,
    LEASES,
    PODS,
    SCALE_INS,
    SCALE_OUTS,
    TRAINING_JOBS,
    Json,
    Ref,
)
from et_operator.model.names import LABEL_EPOCH
from fakes.broker import FakeBroker
from fakes.clients import Call, CallLog, Moment
from fakes.cluster import FakeCluster
from fakes.documents import merge_patch
from fakes.histories import Change

OPERATOR = "et-operator"
Judge = Callable[[FakeCluster, Call], None]


class Broken(AssertionError):  # noqa: N818 (a promise was)
    """An invariant does not hold."""


def demand(is_so: object, sentence: str) -> None:
    """Raise Broken with the sentence unless it is so."""
    if not is_so:
        raise Broken(sentence)


# ---------------------------------------------------------------- judged before each write
def no_worker_is_deleted_that_was_not_to_go(cluster: FakeCluster, call: Call) -> None:
    """A worker that still runs is deleted only if the job's status says that it leaves."""
    pod = cluster.find(call.ref) if (call.verb, call.ref.resource) == ("delete", PODS) else None
    if pod is None or not is_role(pod, "worker") or pod["metadata"]["uid"] != call.body["uid"]:
        return
    job = find_owner(cluster, pod)
    if job is None or is_ended(pod) or "deletionTimestamp" in pod["metadata"]:
        return
    status = job.get("status", {})
    is_over = status.get("phase") in {"Succeeded", "Failed"} or "completionTime" in status
    if is_over or job["spec"].get("suspend") or "deletionTimestamp" in job["metadata"]:
        return
    leaving = {w["uid"] for w in status.get("workers") or () if w["state"] in {"Leaving", "Gone"}}
    victims = (status.get("scaling") or {}).get("victims") or ()
    named = leaving | {v.get("uid") for v in victims}
    demand(
        pod["metadata"]["uid"] in named,
        f"worker {call.ref.name} was deleted, but the job's status does not say that it leaves",
    )


def nothing_foreign_is_touched(cluster: FakeCluster, call: Call) -> None:
    """Only our kinds and children of our jobs are changed or deleted."""
    if call.verb == "create" or call.ref.resource.group == GROUP:
        return
    if call.ref.resource in {LEASES, EVENTS} or call.ref.name.startswith("edl-runtime-"):
        return
    found = cluster.find(call.ref)
    if found is None:
        return
    if call.verb == "delete" and found["metadata"]["uid"] != call.body["uid"]:
        return  # the server refuses it: it is another object by now
    owners = found["metadata"].get("ownerReferences") or ()
    is_ours = any(o.get("controller") and o["kind"] == TRAINING_JOBS.kind for o in owners)
    demand(is_ours, f"{call.ref} belongs to somebody else, and {call.verb} was asked of it")


def a_write_of_our_own_objects_is_pinned(cluster: FakeCluster, call: Call) -> None:
    """A stale view cannot overwrite: patches of statuses, jobs and configs name their version."""
    if call.verb != "patch" or not isinstance(call.body, Mapping):
        return
    is_config = call.ref.resource == CONFIG_MAPS and call.ref.name.endswith("-config")
    if call.ref.resource.group == GROUP or is_config:
        pin = (call.body.get("metadata") or {}).get("resourceVersion")
        demand(pin, f"{call.verb} of {call.ref} {call.subresource} names no resourceVersion")


def a_status_fits_its_schema(cluster: FakeCluster, call: Call) -> None:
    """Nothing that the operator wrote into a status was dropped by the server."""
    if call.subresource != "status" or not call.is_applied:
        return
    found = cluster.find(call.ref)
    asked = merge_patch({}, call.body["status"])
    lost = sorted(find_lost(asked, (found or {}).get("status", {}), "status")) if found else []
    demand(not lost, f"the definition of {call.ref.resource.kind} does not know {', '.join(lost)}")


BEFORE_WRITES: tuple[Judge, ...] = (
    no_worker_is_deleted_that_was_not_to_go,
    nothing_foreign_is_touched,
    a_write_of_our_own_objects_is_pinned,
)
AFTER_WRITES: tuple[Judge, ...] = (a_status_fits_its_schema,)


def watch_over(cluster: FakeCluster, log: CallLog) -> None:
    """Judge every write of the operator from now on."""

    def judge(call: Call, moment: Moment) -> None:
        if call.is_write and call.user == OPERATOR:
            for rule in BEFORE_WRITES if moment is Moment.BEFORE else AFTER_WRITES:
                rule(cluster, call)

    log.faults.append(judge)


# ---------------------------------------------------------------- judged over the whole history
def no_index_is_used_twice(cluster: FakeCluster) -> None:
    """A worker's name is never given to another pod of the same job: Horovod blacklists names."""
    made = Counter(
        (owner_uid(change.new), change.ref.name)
        for change in cluster.history.list_all(PODS)
        if change.old is None and change.new is not None and is_role(change.new, "worker")
    )
    twice = sorted(name for (_, name), count in made.items() if count > 1)
    demand(not twice, f"these workers were created twice: {', '.join(twice)}")


def no_two_launchers_of_one_epoch_live(cluster: FakeCluster) -> None:
    """The user's command never runs twice at the same time."""
    living: dict[tuple[str | None, str], set[str]] = {}
    for change in cluster.history.list_all(PODS):
        document = change.last
        if not is_role(document, "launcher"):
            continue
        labels = document["metadata"]["labels"]
        place = living.setdefault((owner_uid(document), labels.get(LABEL_EPOCH, "?")), set())
        if change.new is None or is_ended(change.new):
            place.discard(document["metadata"]["uid"])
        else:
            place.add(document["metadata"]["uid"])
        demand(len(place) <= 1, f"two launchers of one epoch live: {change.ref.name}")


def no_more_workers_than_the_maximum(cluster: FakeCluster) -> None:
    """Workers that run and are not leaving are never more than maxReplicas, pairs aside."""
    living: dict[str | None, set[str]] = {}
    jobs: dict[str | None, Json] = {}
    for change in merge_changes(cluster):
        document = change.last
        if change.ref.resource == TRAINING_JOBS:
            jobs[document["metadata"]["uid"]] = document
        if change.ref.resource != PODS or not is_role(document, "worker"):
            continue
        place = living.setdefault(owner_uid(document), set())
        is_leaving = "deletionTimestamp" in document["metadata"]
        if change.new is None or is_ended(document) or is_leaving:
            place.discard(change.ref.name)
            continue
        place.add(change.ref.name)
        most = find_maximum(cluster, owner_uid(document))
        number = len(place - find_paired(jobs.get(owner_uid(document), {})))
        demand(most is None or number <= most, f"{number} workers, at most {most} wanted")


def no_more_workers_than_anybody_asked_for(cluster: FakeCluster) -> None:
    """At no moment are there more workers that stay than the spec, or a decision, says."""
    jobs: dict[str | None, Json] = {}
    living: dict[str | None, dict[str, str]] = {}
    for change in merge_changes(cluster):
        if change.ref.resource == TRAINING_JOBS:
            jobs[change.last["metadata"]["uid"]] = change.last
        document = change.last
        if change.ref.resource != PODS or not is_role(document, "worker"):
            continue
        owner = owner_uid(document)
        place = living.setdefault(owner, {})
        if change.new is None or is_ended(document) or "deletionTimestamp" in document["metadata"]:
            place.pop(change.ref.name, None)
            continue
        place[change.ref.name] = document["metadata"]["uid"]
        if owner in jobs:
            status = jobs[owner].get("status", {})
            records = status.get("workers", ())
            leaving = {w["uid"] for w in records if w["state"] == "Leaving"}
            held = {w["name"] for w in records if w.get("replaces")}
            going = leaving | {uid for name, uid in place.items() if name in held}
            staying = sorted(name for name, uid in place.items() if uid not in going)
            asked = read_asked(jobs[owner])
            demand(len(staying) <= asked, f"{asked} workers were asked for: {', '.join(staying)}")


def generation_and_epoch_never_fall(cluster: FakeCluster) -> None:
    """What the broker is told, and the job's own record of it, only ever moves on."""
    last: dict[tuple[Ref, str], tuple[int, int]] = {}
    for change in merge_changes(cluster):
        numbers = read_numbers(change)
        if numbers is None:
            continue
        key = (change.ref, change.last["metadata"]["uid"])
        before = last.get(key, (0, 0))
        is_fall = numbers[0] < before[0] or numbers[1] < before[1]
        demand(not is_fall, f"{change.ref}: generation and epoch fell from {before} to {numbers}")
        last[key] = numbers


OVER_HISTORY: tuple[Callable[[FakeCluster], None], ...] = (
    no_index_is_used_twice,
    no_two_launchers_of_one_epoch_live,
    no_more_workers_than_the_maximum,
    no_more_workers_than_anybody_asked_for,
    generation_and_epoch_never_fall,
)


def check_history(cluster: FakeCluster) -> None:
    """Judge everything that ever happened in the cluster."""
    for rule in OVER_HISTORY:
        rule(cluster)


# ---------------------------------------------------------------- judged when all has come to rest
def every_scaling_has_ended(cluster: FakeCluster, _: FakeBroker) -> None:
    """Whoever asks for a scaling gets an answer, and one is remembered only while it goes on."""
    finals = {"ScaleSucceeded", "ScaleFailed"}
    for scaling in (*cluster.list(SCALE_INS), *cluster.list(SCALE_OUTS)):
        if "deletionTimestamp" in scaling["metadata"]:
            continue  # its author asks no more, and somebody else keeps it
        phase = scaling.get("status", {}).get("phase")
        demand(phase in finals, f"scaling {scaling['metadata']['name']} is {phase} for ever")
    for job in cluster.list(TRAINING_JOBS):
        demand("scaling" not in job.get("status", {}), "a scaling that has ended is not put away")


def a_job_that_goes_on_has_the_workers_that_its_spec_says(
    cluster: FakeCluster, broker: FakeBroker
) -> None:
    """All of them run and are hosts of the training, and none besides them runs."""
    for job in cluster.list(TRAINING_JOBS):
        spec, status = job["spec"], job.get("status", {})
        if status.get("phase") in {"Succeeded", "Failed"} or spec.get("suspend"):
            continue
        wanted = spec["etReplicaSpecs"]["worker"]["replicas"]
        workers = find_live_pods(cluster, job, "worker")
        demand(len(workers) == wanted, f"{wanted} workers are wanted, these run: {workers}")
        hosts = broker.find_hosts(job["metadata"]["name"])
        demand(hosts == workers, f"hosts are {hosts}, workers {workers}")
        launchers = find_live_pods(cluster, job, "launcher")
        demand(len(launchers) == 1, f"one launcher is wanted, these run: {launchers}")


def a_job_that_has_ended_keeps_what_its_policy_says(cluster: FakeCluster, _: FakeBroker) -> None:
    """Nothing of it runs any more, unless cleanPodPolicy is None; nor of one that is suspended."""
    for job in cluster.list(TRAINING_JOBS):
        spec, phase = job["spec"], job.get("status", {}).get("phase")
        is_over = phase in {"Succeeded", "Failed"} and spec["cleanPodPolicy"] != "None"
        if is_over or phase == "Suspended":
            left = [n for r in ("launcher", "worker") for n in find_live_pods(cluster, job, r)]
            demand(not left, f"the job is {phase}, and these run: {left}")


def a_job_succeeds_with_its_command_alone(cluster: FakeCluster, broker: FakeBroker) -> None:
    """What a command does when it is told to end, also with 0, is not the end of its training."""
    for job in cluster.scan(TRAINING_JOBS):
        if job.get("status", {}).get("phase") == "Succeeded":
            name = job["metadata"]["name"]
            demand(name in broker.done, f"{name} succeeded before its command was done")


AT_REST: tuple[Callable[[FakeCluster, FakeBroker], None], ...] = (
    every_scaling_has_ended,
    a_job_that_goes_on_has_the_workers_that_its_spec_says,
    a_job_that_has_ended_keeps_what_its_policy_says,
    a_job_succeeds_with_its_command_alone,
)


def check_rest(cluster: FakeCluster, broker: FakeBroker) -> None:
    """Judge a cluster in which nothing happens any more, where nothing hinders the operator."""
    for rule in AT_REST:
        rule(cluster, broker)


# ---------------------------------------------------------------- judged while something hinders
REASONS_WHY = frozenset(
    {
        "PodsRefused",
        "WritesRefused",
        "NameTaken",
        "Unschedulable",
        "WorkersFailing",
        "RanksFailing",
        "Foreign",
        "LauncherTrouble",
    }
)
"""Conditions that say why a job is not as its spec says."""


def check_standing(cluster: FakeCluster, broker: FakeBroker, events: Collection[str]) -> None:
    """Judge a cluster in which nothing has happened for an hour, whatever is in the operator's way.

    A job is as its author wants it, or a condition says why not. One whose very status may not be
    written can say it in Events alone: `events` are the reasons of those there were.
    """
    for rule in AT_REST:
        try:
            rule(cluster, broker)
        except Broken as broken:
            said = [say_why(job) for job in cluster.list(TRAINING_JOBS)]
            is_told = all(said) or not REASONS_WHY.isdisjoint(events)
            demand(is_told, f"{broken}, and no condition says why: {said}")


def say_why(job: Json) -> list[str]:
    """The conditions that tell of a trouble now."""
    status = job.get("status") or {}
    told = {c["type"] for c in status.get("conditions", ()) if c["status"] == "True"}
    return sorted(told & REASONS_WHY)


# ---------------------------------------------------------------- reading documents
def is_role(pod: Json, role: str) -> bool:
    """Whether it is a launcher or a worker."""
    return bool((pod["metadata"].get("labels") or {}).get(LABEL_ROLE) == role)


def find_live_pods(cluster: FakeCluster, job: Json, role: str) -> list[str]:
    """Names of the job's pods of this role that run or will."""
    return sorted(
        pod["metadata"]["name"]
        for pod in cluster.scan(PODS)
        if is_role(pod, role)
        and owner_uid(pod) == job["metadata"]["uid"]
        and not is_ended(pod)
        and "deletionTimestamp" not in pod["metadata"]
    )


def read_asked(job: Json) -> int:
    """The most workers that the spec, or what was decided, asks for."""
    status = job.get("status", {})
    numbers = (
        job["spec"]["etReplicaSpecs"]["worker"]["replicas"],
        status.get("decidedReplicas"),
        (status.get("scaling") or {}).get("target"),
    )
    return max(number for number in numbers if number is not None)


def find_paired(job: Json) -> set[str]:
    """Names of the workers that are there beside the one whose place they take, or took theirs."""
    records = job.get("status", {}).get("workers", ())
    leaving = {w["name"] for w in records if w.get("reason") in {"Noticed", "Unneeded"}}
    return leaving | {w["name"] for w in records if w.get("replaces")}


def is_ended(pod: Json) -> bool:
    """Whether its first container will never run again, whatever others beside it do."""
    status = pod.get("status", {})
    states = [container["state"] for container in status.get("containerStatuses") or ()]
    return status.get("phase") in {"Succeeded", "Failed"} or "terminated" in (states or [{}])[0]


def owner_uid(document: Json | None) -> str | None:
    """The uid of the controller."""
    owners = (document or {}).get("metadata", {}).get("ownerReferences") or ()
    return next((o["uid"] for o in owners if o.get("controller")), None)


def find_owner(cluster: FakeCluster, pod: Json) -> dict[str, Any] | None:
    """The job of a pod, if it is still there."""
    for job in cluster.list(TRAINING_JOBS):
        if job["metadata"]["uid"] == owner_uid(pod):
            return job
    return None


def find_maximum(cluster: FakeCluster, uid: str | None) -> int | None:
    """The highest maxReplicas that the job ever had; None: unbounded."""
    found = [
        change.last["spec"]["etReplicaSpecs"]["worker"].get("maxReplicas")
        for change in cluster.history.list_all(TRAINING_JOBS)
        if change.last["metadata"]["uid"] == uid
    ]
    known = [value for value in found if value is not None]
    return max(known) if known and len(known) == len(found) else None


def merge_changes(cluster: FakeCluster) -> list[Change]:
    """The changes that these rules look at, in the order in which they happened."""
    kinds = (TRAINING_JOBS, PODS, CONFIG_MAPS)
    return sorted(
        (c for kind in kinds for c in cluster.history.list_all(kind)), key=lambda c: c.revision
    )


def read_numbers(change: Change) -> tuple[int, int] | None:
    """Generation and epoch of a job's status or of a config."""
    if change.new is None:
        return None
    if change.ref.resource == TRAINING_JOBS:
        status = change.new.get("status") or {}
        if "epoch" not in status:
            return None  # not begun, or somebody removed it
        return int(status.get("generation") or 0), int(status.get("epoch") or 0)
    text = (
        change.new.get("data", {}).get(CONFIG_KEY) if change.ref.resource == CONFIG_MAPS else None
    )
    if text is None:
        return None
    body = json.loads(text)
    return int(body["generation"]), int(body["epoch"])


def find_lost(asked: Any, stored: Any, path: str) -> set[str]:
    """Paths of fields that were asked for and are not stored."""
    if isinstance(asked, Mapping):
        if not isinstance(stored, Mapping):
            return {path}
        lost = (find_lost(v, stored.get(k), f"{path}.{k}") for k, v in asked.items())
        return set().union(*lost)
    if isinstance(asked, list) and isinstance(stored, list) and len(asked) == len(stored):
        lost = (find_lost(a, s, f"{path}[]") for a, s in zip(asked, stored, strict=True))
        return set().union(*lost)
    return set() if asked == stored else {path}
