"""Manifests: read from files, or of scalings.

Nothing is sent here, and no other kind than ours passes: for these there is kubectl. Whether an
object is right is for the API server to say.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from et.documents import read_documents
from et.errors import EtError
from et.quickjobs import QuickJob, build_job
from et_kube.resources import SCALE_INS, SCALE_OUTS, TRAINING_JOBS, Json, Resource

Objects = Sequence[tuple[Resource, Json]]
KINDS: Mapping[str, Resource] = {r.kind: r for r in (TRAINING_JOBS, SCALE_INS, SCALE_OUTS)}


def collect(quick: QuickJob) -> Objects:
    """What is to be submitted: the job of the flags, or without an image, what the files hold.

    Raises:
        EtError: a file cannot be used, or the flags make no job.
    """
    if not quick.image:
        if not quick.command:
            raise EtError("give a file, or --name, --image and a command after --")
        if quick.name:
            raise EtError("--name is for a job of flags, which needs --image too")
        return [found for source in quick.command for found in read_manifests(source)]
    if not quick.name:
        raise EtError("--image needs --name too: what the job is called")
    return [(TRAINING_JOBS, build_job(quick))]


def build_scaling(resource: Resource, job: str, wish: Mapping[str, Any]) -> dict[str, Any]:
    """A ScaleIn or ScaleOut with a name of the server's making."""
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"generateName": f"{job}-"},
        "spec": {"selector": {"name": job}, **wish},
    }


def read_manifests(source: str) -> Objects:
    """The objects of our kinds in a YAML or JSON file, `-` for standard input; EtError."""
    try:
        text = sys.stdin.read() if source == "-" else Path(source).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise EtError(f"{source} cannot be read: {reason}") from error
    found = list(_find_objects(source, read_documents(source, text)))
    if not found:
        raise EtError(f"{source} is empty")
    return found


def _find_objects(source: str, documents: Iterable[Any]) -> Iterator[tuple[Resource, Json]]:
    for document in documents:
        if document is None:
            continue
        kind = document.get("kind") if isinstance(document, dict) else None
        resource = KINDS.get(str(kind))
        if resource is None:
            known = ", ".join(KINDS)
            raise EtError(
                f"{source} has an object of kind {kind!r}; et submits {known}, "
                "use kubectl apply for anything else"
            )
        if document.get("apiVersion") != resource.api_version:
            raise EtError(f"{source}: apiVersion of a {kind} must be {resource.api_version}")
        if not isinstance(document.get("metadata"), dict):
            raise EtError(f"{source}: a {kind} without metadata.name")
        yield resource, document
