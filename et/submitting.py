"""`et submit`: make objects, and tell what the API server has against them.

Made, or changed by updating.py, in the order in which they are given; where one is refused, those
before it stay. `et run` takes its warnings and hints.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import yaml

from et.clusters import Cluster, get_meta
from et.errors import EtError
from et.manifests import Objects
from et.screens import Screen
from et.updating import update
from et.watching import watch
from et_kube.resources import TRAINING_JOBS, Json
from et_operator.codec.decoding import decode_job


class Change(NamedTuple):
    """That jobs which are there are changed; None: their number of workers stays."""

    replicas: int | None = None


class PlainDumper(yaml.SafeDumper):
    """Writes what occurs twice twice: people read no anchors."""

    def ignore_aliases(self, _: object) -> bool:
        """As SafeDumper's."""
        return True


@dataclass(frozen=True, slots=True)
class Manner:
    """How objects are submitted: to which namespace ("" for their own), or as a change."""

    namespace: str = ""
    as_json: bool = False
    is_watching: bool = False
    change: Change | None = None


async def submit_and_watch(
    cluster: Cluster, screen: Screen, objects: Objects, manner: Manner
) -> bool:
    """Submit or change them, and watch the one job until its end; whether it succeeded."""
    jobs = [manifest for resource, manifest in objects if resource is TRAINING_JOBS]
    if manner.is_watching and len(jobs) != 1:
        raise EtError(f"--watch is for one TrainingJob, there are {len(jobs)}")
    namespace, as_json = manner.namespace, manner.as_json
    if manner.change is None:
        stored = await submit(cluster, screen, objects, namespace=namespace, as_json=as_json)
    else:
        quiet = Screen(screen.err, screen.err) if as_json else screen
        number = manner.change.replicas
        stored = await update(cluster, quiet, objects, namespace=namespace, replicas=number)
        for job in stored:
            warn_of_misfits(screen, job)
        if as_json:
            screen.show_json(stored[0] if len(stored) == 1 else stored)
    if not manner.is_watching:
        return True
    job = next(obj for obj in stored if obj["kind"] == TRAINING_JOBS.kind)
    there = replace(cluster, namespace=get_meta(job, "namespace"))
    return await watch(there, screen, get_meta(job, "name"), stored=job)


async def submit(
    cluster: Cluster, screen: Screen, objects: Objects, *, namespace: str, as_json: bool
) -> list[Json]:
    """Create them in order; an object's own namespace counts where `namespace` is empty."""
    created = []
    for resource, manifest in objects:
        place = namespace or get_meta(manifest, "namespace") or cluster.namespace
        body = {**manifest, "metadata": {**manifest["metadata"], "namespace": place}}
        stored = await cluster.api.create(resource, place, body)
        created.append(stored)
        if resource is TRAINING_JOBS:
            warn_of_misfits(screen, stored)
        if as_json:
            continue
        screen.say(f"{resource.kind} {get_meta(stored, 'name')} is created in namespace {place}")
        if resource is TRAINING_JOBS:
            hint_at_followers(screen, stored)
    if as_json:
        screen.show_json(created[0] if len(created) == 1 else created)
    return created


def warn_of_misfits(screen: Screen, job: Json) -> None:
    """What does nothing in it, or does not go together."""
    for misfit in decode_job(job).warnings:
        screen.warn(misfit.text)


def hint_at_followers(screen: Screen, job: Json) -> None:
    """How to see what becomes of it."""
    name, place = get_meta(job, "name"), get_meta(job, "namespace")
    screen.hint(f"follow it:  et watch {name} -n {place}   et logs -f {name} -n {place}")


def show_manifests(screen: Screen, objects: Objects, *, as_json: bool) -> None:
    """What would be sent."""
    bodies = [dict(manifest) for _, manifest in objects]
    if as_json:
        screen.show_json(bodies[0] if len(bodies) == 1 else bodies)
        return
    text = yaml.dump_all(bodies, Dumper=PlainDumper, sort_keys=False, width=100)
    screen.say(text.rstrip("\n"))
