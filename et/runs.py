"""`et run`: a script of mine as a job, and the changed script once more in its place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from et.clusters import Cluster, get_meta
from et.deleting import delete_job, wait_until_gone
from et.errors import EtError
from et.manifests import Objects
from et.quickjobs import QuickJob, build_job
from et.reading import has_ended
from et.screens import Screen
from et.scripts import FOLDER, build_files, name_files, name_job, read_files
from et.submitting import hint_at_followers
from et.watching import watch
from et_kube.errors import KubeError, NotFound
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
    cluster: Cluster, screen: Screen, run: Run, *, limit: timedelta, as_json: bool
) -> Json:
    """Create both, in the place of an ended job of former files; the job as stored.

    Raises:
        EtError: a job of this name may not be replaced, or does not go within `limit`.
    """
    name = run.job["metadata"]["name"]
    await _make_room(cluster, screen, name, limit)
    stored = await cluster.api.create(TRAINING_JOBS, cluster.namespace, run.job)
    job = decode_job(stored)
    owner = {
        "apiVersion": TRAINING_JOBS.api_version,
        "kind": TRAINING_JOBS.kind,
        "name": name,
        "uid": job.uid,
    }
    metadata = {**run.files["metadata"], "ownerReferences": [owner]}
    try:
        body = {**run.files, "metadata": metadata}
        await cluster.api.create(CONFIG_MAPS, cluster.namespace, body)
    except KubeError:  # it would wait for its script for ever
        await delete_job(cluster, job)
        raise
    if as_json:
        screen.show_json(stored)
    else:
        screen.say(f"TrainingJob {name} is created in namespace {cluster.namespace}")
        hint_at_followers(screen, stored)
    return stored


async def run_and_watch(
    cluster: Cluster,
    screen: Screen,
    run: Run,
    *,
    limit: timedelta,
    as_json: bool,
    is_watching: bool,
) -> bool:
    """The same, and with `is_watching` watch the job until its end; whether it succeeded."""
    stored = await run_script(cluster, screen, run, limit=limit, as_json=as_json)
    return not is_watching or await watch(cluster, screen, get_meta(stored, "name"))


async def _make_room(cluster: Cluster, screen: Screen, name: str, limit: timedelta) -> None:
    try:
        stored = await cluster.api.get(Ref(TRAINING_JOBS, cluster.namespace, name))
    except NotFound as error:
        if name not in error.message:
            raise
        return
    job = decode_job(stored)
    if ANNOTATION not in (stored["metadata"].get("annotations") or {}):
        raise EtError(
            f"there is a TrainingJob {name!r} that et run has not made: choose another --name, or "
            f"`et delete {name}` first"
        )
    if not has_ended(job) and job.deletion_requested is None:
        raise EtError(
            f"{name} has not ended ({job.status.phase or 'not begun'}): `et delete {name}` ends "
            "it, then type this again; or choose another --name to run both"
        )
    screen.hint(f"{name} has ended ({job.status.phase}): it goes, with its logs, for the new one")
    await delete_job(cluster, job)
    await wait_until_gone(cluster, [job], limit)
