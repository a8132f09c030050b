"""`et run`: a script of mine as a job, and the changed script once more in its place.

Nothing goes before the server has tried what is to come, and a job that was not made here is never
replaced. The new one is suspended until its files are there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

from et.clusters import Cluster, get_meta
from et.deleting import delete_job, describe_loss, wait_until_gone
from et.errors import REFUSALS, EtError
from et.manifests import Objects
from et.quickjobs import QuickJob, build_job
from et.reading import has_ended, read_pods_called
from et.screens import Screen
from et.scripts import ANNOTATION, FOLDER, build_files, name_files, name_job, read_files
from et.submitting import hint_at_followers, warn_of_misfits
from et.suspending import resume
from et.waiting import Look, wait_until
from et_kube.errors import AlreadyExists, NotFound, Refused
from et_kube.resources import CONFIG_MAPS, TRAINING_JOBS, Json, Ref
from et_operator.codec.decoding import decode_job
from et_operator.model.pods import Pod

QUOTA = "exceeded quota"
"""How the API server says that one is full."""
LATE = timedelta(minutes=1)
"""A pod that is there so long after its grace does not go by itself."""


@dataclass(frozen=True, slots=True)
class Run:
    """The job, and the ConfigMap with its script."""

    job: Mapping[str, Any]
    files: Mapping[str, Any]

    @property
    def name(self) -> str:
        """The job's."""
        return get_meta(self.job, "name")

    @property
    def objects(self) -> Objects:
        """The job and its files as they would be sent, but for the files' owner: not known yet."""
        return [(TRAINING_JOBS, self.job), (CONFIG_MAPS, self.files)]


def build_run(quick: QuickJob, script: str, others: Sequence[str]) -> Run:
    """A job that runs the script with the command's words as its arguments; EtError."""
    if not quick.image:
        raise EtError("give --image: an image with Python and what the script imports")
    files, name = read_files(script, others), name_job(script, quick.name)
    main, source = next(iter(files)), name_files(name)
    whole = replace(
        quick,
        name=name,
        # what a script prints is seen when it prints it
        command=("python3", "-u", f"{FOLDER}/{main}", *quick.command),
        volumes=(*quick.volumes, f"configmap/{source}:{FOLDER}:ro"),
    )
    job = build_job(whole)
    job["metadata"]["annotations"] = {ANNOTATION: main}
    return Run(job, build_files(source, files))


async def run_script(
    cluster: Cluster, screen: Screen, run: Run, *, is_sure: bool, limit: timedelta, as_json: bool
) -> Json:
    """Create both, in the place of an ended job of former files; the job as stored.

    What would be refused deletes nothing, and the former job goes once somebody agrees.

    Raises:
        EtError: a job of this name may not be replaced, or does not go within `limit`.
    """
    former = await _find_former(cluster, run.name)
    is_counted = await _try(cluster, run, is_any_in_the_way=former is not None)
    if is_counted:
        screen.hint("a quota has no room beside the one that is in the way, which counts in it")
    await _make_room(cluster, screen, run.name, former, is_sure=is_sure, limit=limit)
    stored = await _create(cluster, screen, run)
    warn_of_misfits(screen, stored)
    if as_json:
        screen.show_json(stored)
    else:
        screen.say(f"TrainingJob {run.name} is created in namespace {cluster.namespace}")
        hint_at_followers(screen, stored)
    return stored


async def _try(cluster: Cluster, run: Run, *, is_any_in_the_way: bool) -> bool:
    """Raise what the server has against any step; whether a quota may be full of what is to go."""
    is_counted = False
    for resource, manifest in run.objects:
        try:
            # that the name is held is found last: all the rest was in order
            with suppress(AlreadyExists):
                await cluster.api.dry_run(resource, cluster.namespace, manifest)
        except Refused as error:
            if not is_any_in_the_way or QUOTA not in error.message:
                raise
            is_counted = True
    # who may not let a job begin is refused before it is looked for; nothing is changed
    with suppress(NotFound):
        await cluster.api.patch(Ref(TRAINING_JOBS, cluster.namespace, run.name), {})
    return is_counted


async def _find_former(cluster: Cluster, name: str) -> Json | None:
    """The job that is to be replaced, None where there is none; EtError of one that may not be."""
    try:
        stored = await cluster.api.get(Ref(TRAINING_JOBS, cluster.namespace, name))
    except NotFound as error:
        if name not in error.message:
            raise
        return None
    job = decode_job(stored)
    if find_script(stored) is None:
        raise EtError(
            f"there is a TrainingJob {name!r} that et run has not made: choose another --name, or "
            f"`et delete {name}` first"
        )
    if not has_ended(job) and job.deletion_requested is None:
        raise EtError(
            f"{name} has not ended ({job.status.phase or 'not begun'}): `et delete {name}` ends "
            "it, then type this again; or choose another --name to run both"
        )
    return stored


async def _make_room(
    cluster: Cluster,
    screen: Screen,
    name: str,
    former: Json | None,
    *,
    is_sure: bool,
    limit: timedelta,
) -> None:
    remains = Pods(cluster, name)
    job = decode_job(former) if former is not None else None
    if former is not None and job is not None and job.deletion_requested is None:
        await remains.are_staying()  # or nobody is asked
        loss = await describe_loss(cluster, job)
        screen.hint(f"in the way, of {find_script(former)}: {loss}")
        if not is_sure and not screen.ask("Delete it for the new one?"):
            raise EtError("nothing was deleted, and nothing made: choose another --name")
    with screen.telling(f"the new {name} is not made: type this again"):
        if job is not None:
            await _wait(cluster, remains, remains.are_staying, limit)  # or its logs go in vain
            await delete_job(cluster, job)
        await _wait(cluster, remains, remains.are_gone, limit)
        if job is not None:
            await wait_until_gone(cluster, [job], limit)


async def _wait(cluster: Cluster, remains: Pods, look: Look, limit: timedelta) -> None:
    try:
        await wait_until(cluster.clock, look, limit)
    except TimeoutError as error:
        if str(error):
            raise EtError(
                f"whether the former {remains.name} is gone is not known: {error}"
            ) from error
        raise EtError(remains.describe()) from error


def find_script(stored: Json) -> str | None:
    """The script that a job was made of here, None for one that was not."""
    script: str | None = (stored["metadata"].get("annotations") or {}).get(ANNOTATION)
    return script


@dataclass(slots=True)
class Pods:
    """The pods of a former job of this name, whose names the new one needs."""

    cluster: Cluster
    name: str
    found: list[Pod] = field(default_factory=list)

    async def are_gone(self) -> bool:
        """Whether there is none, whether or not the job itself is there."""
        self.found = await read_pods_called(self.cluster, self.name)
        return not self.found

    async def are_staying(self) -> bool:
        """Whether none is on its way out; EtError of one that should have gone by now."""
        await self.are_gone()
        self.found = [pod for pod in self.found if pod.is_deleting]
        now = self.cluster.clock.now()
        if any(now > pod.grace_end + LATE for pod in self.found if pod.grace_end is not None):
            raise EtError(self.describe())
        return not self.found

    def describe(self) -> str:
        """Why they are in the way, and what to do."""
        names = ", ".join(f"{pod.name} on {pod.node or 'no node'}" for pod in self.found)
        return (
            f"pods of the former {self.name} do not go ({names}), whose node may be lost: choose "
            "another --name"
        )


async def _create(cluster: Cluster, screen: Screen, run: Run) -> Json:
    """The job as stored, which begins once its files are there.

    Whatever is cut off before leaves nothing that runs, and nothing but the job.
    """
    name = run.name
    body = {**run.job, "spec": {**run.job["spec"], "suspend": True}}
    left = (
        f"{name} may be left without its script, suspended: it runs nothing; `et delete {name}`, "
        "then type this again"
    )
    with screen.telling(left, unless=REFUSALS):
        stored = await cluster.api.create(TRAINING_JOBS, cluster.namespace, body)
    owner = {
        "apiVersion": TRAINING_JOBS.api_version,
        "kind": TRAINING_JOBS.kind,
        "name": name,
        "uid": decode_job(stored).uid,
    }
    metadata = {**run.files["metadata"], "ownerReferences": [owner]}
    with screen.telling(left):
        files = {**run.files, "metadata": metadata}
        await cluster.api.create(CONFIG_MAPS, cluster.namespace, files)
    with screen.telling(f"{name} may be suspended still: `et restart {name}` lets it begin"):
        return await resume(cluster, stored)
