"""`et run`: a script of mine as a job, and the changed script once more in its place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from et.clusters import Cluster, get_meta
from et.deleting import delete_job, describe_loss, wait_until_gone
from et.errors import REFUSALS, EtError
from et.manifests import Objects
from et.quickjobs import QuickJob, build_job
from et.reading import has_ended
from et.screens import Screen
from et.scripts import FOLDER, build_files, name_files, name_job, read_files
from et.submitting import hint_at_followers
from et.suspending import resume
from et_kube.errors import AlreadyExists, NotFound
from et_kube.resources import CONFIG_MAPS, TRAINING_JOBS, Json, Ref
from et_operator.codec.decoding import decode_job

ANNOTATION = "kai.alibabacloud.com/et-run"
"""Of a job that was made here: the script's name. Only such a job is replaced."""


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
        """Both, as they would be sent but for the owner, which is not known yet."""
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
    await _try(cluster, run)
    await _make_room(cluster, screen, run, is_sure=is_sure, limit=limit)
    stored = await _create(cluster, screen, run)
    if as_json:
        screen.show_json(stored)
    else:
        screen.say(f"TrainingJob {run.name} is created in namespace {cluster.namespace}")
        hint_at_followers(screen, stored)
    return stored


async def _try(cluster: Cluster, run: Run) -> None:
    """Raise what the server has against either."""
    for resource, manifest in run.objects:
        # that the name is held is found last: all the rest was in order
        with suppress(AlreadyExists):
            await cluster.api.dry_run(resource, cluster.namespace, manifest)


async def _make_room(
    cluster: Cluster, screen: Screen, run: Run, *, is_sure: bool, limit: timedelta
) -> None:
    name = run.name
    try:
        stored = await cluster.api.get(Ref(TRAINING_JOBS, cluster.namespace, name))
    except NotFound as error:
        if name not in error.message:
            raise
        return
    job = decode_job(stored)
    script = (stored["metadata"].get("annotations") or {}).get(ANNOTATION)
    if script is None:
        raise EtError(
            f"there is a TrainingJob {name!r} that et run has not made: choose another --name, or "
            f"`et delete {name}` first"
        )
    if not has_ended(job) and job.deletion_requested is None:
        raise EtError(
            f"{name} has not ended ({job.status.phase or 'not begun'}): `et delete {name}` ends "
            "it, then type this again; or choose another --name to run both"
        )
    if job.deletion_requested is None:
        screen.hint(f"in the way, of {script}: {await describe_loss(cluster, job)}")
        if not is_sure and not screen.ask("Delete it for the new one?"):
            raise EtError("nothing was deleted, and nothing made: choose another --name")
    with screen.telling(f"the new {name} is not made: type this again"):
        await delete_job(cluster, job)
        await wait_until_gone(cluster, [job], limit)


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
