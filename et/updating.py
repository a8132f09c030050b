"""`et submit --update`: a job as its file says, without what others decide of it.

Server-side apply: what the file has holds, whoever else wrote it; what an earlier file brought and
this one has no more goes; all else stays, and what the job has beyond its file is named. The number
of workers is the scalings' own, and whether it is suspended stays as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from datetime import timedelta
from typing import Any

from et.clusters import Cluster, get_meta
from et.errors import EtError
from et.handing import hand_over
from et.manifests import Objects
from et.reading import explain_end, has_ended
from et.screens import Screen
from et_contract.pods import MAX_JOB_NAME
from et_kube.api import APPLY_PATCH
from et_kube.errors import AlreadyExists, Conflict, KubeError, NotFound
from et_kube.resources import TRAINING_JOBS, Json, Ref
from et_operator.codec.decoding import decode_job
from et_operator.model.texts import count

TRIES = 8
"""So often a job may change between our look and our write: its status does while it starts."""
PAUSE = timedelta(milliseconds=250)

_MADE_UP = "-xxxxx"
"""What the server adds to the beginning of a name: the whole is a job's name as any other."""
_OF_SERVER = (
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "managedFields",
    "selfLink",
)
"""What a file has that was made of a job that is stored, and says of none how it is to be."""


async def update(
    cluster: Cluster, screen: Screen, objects: Objects, *, namespace: str, replicas: int | None
) -> list[Json]:
    """Apply jobs, or create them; their number of workers becomes `replicas`, or stays.

    Raises:
        EtError: something in the file cannot be updated.
    """
    for resource, manifest in objects:
        if resource is not TRAINING_JOBS:
            raise EtError(f"--update is for TrainingJobs: a {resource.kind} is never changed")
        if not get_meta(manifest, "name"):
            raise EtError("--update needs a job with a name (metadata.name)")
    stored = []
    for _, manifest in objects:
        place = namespace or get_meta(manifest, "namespace") or cluster.namespace
        stored.append(await _apply(cluster, screen, manifest, place, replicas))
    return stored


async def _apply(
    cluster: Cluster, screen: Screen, manifest: Json, place: str, replicas: int | None
) -> Json:
    ref = Ref(TRAINING_JOBS, place, get_meta(manifest, "name"))
    for _ in range(TRIES):
        before = await _find(cluster, ref)
        try:
            if before is not None:
                before = await _hand_over(cluster, ref, before)
            body = build_update(manifest, place, before, replicas)
            if before is None:  # an apply would take over what somebody else has made by now
                after = await cluster.api.create(TRAINING_JOBS, place, body)
            else:
                after = await cluster.api.patch(ref, body, content_type=APPLY_PATCH)
        except (AlreadyExists, Conflict):
            await cluster.clock.sleep(PAUSE)
            continue
        others = [] if before is None else await _list_others(cluster, body, after)
        tell(screen, before, after, others)
        if before is not None:
            _tell_suspended(screen, manifest, after)
        return after
    raise EtError(f"{ref.name} changes all the time: it was not updated, try again")


async def _find(cluster: Cluster, ref: Ref) -> Json | None:
    try:
        found = await cluster.api.get_managed(ref)
    except NotFound as error:
        if ref.name not in error.message:
            raise  # the kind is missing, or the namespace
        return None
    if get_meta(found, "deletionTimestamp"):
        raise EtError(
            f"{ref.name} is being deleted, and nothing of it changes any more: wait until it is "
            f"gone (`kubectl wait --for=delete trainingjob {ref.name} -n {ref.namespace}`), then "
            "submit it again"
        )
    job = decode_job(found)
    if has_ended(job):
        raise EtError(
            f"{ref.name} has ended ({job.status.phase}): {explain_end(job)}; nothing of it changes "
            f"any more. `et delete {ref.name}`, and submit it again"
        )
    return found


async def _hand_over(cluster: Cluster, ref: Ref, before: Json) -> Json:
    """The job, once what `et` wrote into it without applying it counts as applied."""
    entries = hand_over(before["metadata"].get("managedFields") or ())
    if entries is None:
        return before
    pin = {key: get_meta(before, key) for key in ("uid", "resourceVersion")}
    return await cluster.api.patch(ref, {"metadata": {**pin, "managedFields": entries}})


def build_update(
    manifest: Json, place: str, before: Json | None, replicas: int | None
) -> dict[str, Any]:
    """What is applied: the file, with the number that the job has, of the version that was read.

    So is whether it is suspended: the file may be as old as the job, and others have let it go on.
    What is left out would be taken away where an earlier update brought it.
    """
    body: dict[str, Any] = deepcopy(dict(manifest))
    body.pop("status", None)
    given = {key: one for key, one in body["metadata"].items() if key not in _OF_SERVER}
    body["metadata"] = {**given, "namespace": place}
    number = replicas if replicas is not None else count_replicas(before)
    roles = (body.get("spec") or {}).get("etReplicaSpecs") or {}
    if number is not None and isinstance(roles.get("worker"), dict):
        roles["worker"]["replicas"] = number
    if before is not None:
        _keep_suspend(body, before)
        body["metadata"]["resourceVersion"] = get_meta(before, "resourceVersion")
        body["metadata"]["uid"] = get_meta(before, "uid")
    return body


def _keep_suspend(body: dict[str, Any], before: Json) -> None:
    spec, stored = body.get("spec"), before.get("spec") or {}
    if isinstance(spec, dict):
        spec.pop("suspend", None)
        if "suspend" in stored:
            spec["suspend"] = stored["suspend"]


async def _list_others(cluster: Cluster, body: Json, after: Json) -> list[str] | None:
    """Fields that the job has and would not have, were it made of the file: not of an update.

    None where the server does not say what it would make.
    """
    place = get_meta(after, "namespace")
    beginning = get_meta(after, "name")[: MAX_JOB_NAME - len(_MADE_UP)]
    metadata = {**body["metadata"], "generateName": f"{beginning}-"}
    for key in ("name", "uid", "resourceVersion"):
        metadata.pop(key, None)
    try:
        alone = await cluster.api.dry_run(TRAINING_JOBS, place, {**body, "metadata": metadata})
    except KubeError:
        return None
    return list(_find_more(after.get("spec"), alone.get("spec"), "spec"))


def _find_more(stored: Any, alone: Any, path: str) -> Iterator[str]:
    if isinstance(stored, Mapping) and isinstance(alone, Mapping):
        for key, value in stored.items():
            if key not in alone:
                yield f"{path}.{key}"
            else:
                yield from _find_more(value, alone[key], f"{path}.{key}")
    elif stored != alone:
        yield path


def count_replicas(job: Json | None) -> int | None:
    """How many workers the stored job asks for; None where it says none."""
    worker = _find_worker(job)
    number = worker.get("replicas")
    return number if type(number) is int else None


def tell(screen: Screen, before: Json | None, after: Json, others: Sequence[str] | None) -> None:
    """What has become of the job, what its pods have of it, and what of it is not in the file."""
    name, place = get_meta(after, "name"), get_meta(after, "namespace")
    where = f"TrainingJob {name} in namespace {place}"
    if before is None:
        screen.say(f"{where} is created")
        return
    if others:
        screen.hint(
            f"not as the file has it, and it stays: {', '.join(others)}; it came with the job or "
            f"by others: `kubectl edit trainingjob {name} -n {place}` takes it away"
        )
    if others is None:
        screen.hint(
            "whether it has more than the file is not known: the API server did not say what it "
            "would make of the file alone"
        )
    if before.get("spec") == after.get("spec"):
        is_alike = others is not None and not others
        screen.say(f"{where} {'is as' if is_alike else 'has what'} the file says already")
        return
    workers = count(count_replicas(after), "worker")
    screen.say(f"{where} is updated; it has {workers} (--replicas sets another number)")
    if _find_templates(before) != _find_templates(after):
        screen.hint(
            f"pods that run keep the old template: `et restart {name} -n {place}` for all, with "
            "--workers for the workers while it trains"
        )


def _tell_suspended(screen: Screen, manifest: Json, after: Json) -> None:
    asked = (manifest.get("spec") or {}).get("suspend")
    is_so = (after.get("spec") or {}).get("suspend") or False
    if asked is not None and asked != is_so:
        name, place = get_meta(after, "name"), get_meta(after, "namespace")
        stays, wish = ("true", "false") if is_so else ("false", "true")
        patch = f'{{"spec":{{"suspend":{wish}}}}}'
        screen.hint(
            f"spec.suspend stays {stays}, whatever the file says: `kubectl patch trainingjob "
            f"{name} -n {place} --type merge -p '{patch}'` changes it"
        )


def _find_templates(job: Json) -> list[Any]:
    roles = (job.get("spec") or {}).get("etReplicaSpecs") or {}
    return [(roles.get(role) or {}).get("template") for role in ("launcher", "worker")]


def _find_worker(job: Json | None) -> Mapping[str, Any]:
    roles = ((job or {}).get("spec") or {}).get("etReplicaSpecs") or {}
    return roles.get("worker") or {}
