"""TrainingJobs of a handful of flags: `et submit --image` and `et run`.

No I/O: flags become a manifest, or an EtError. No value of a Secret ever passes here, and what was
typed where a secret may be is never repeated.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from et.errors import EtError
from et_kube.resources import TRAINING_JOBS

LAUNCHING = "horovodrun"
DISCOVERY = "/etc/edl/discover_hosts.sh"
_KINDS: Mapping[str, str] = {"secret": "secretRef", "configmap": "configMapRef"}
_VARIABLE = re.compile("[A-Za-z_][A-Za-z0-9_.-]*")
_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
_KEY = re.compile("[A-Za-z0-9._-]{1,253}")
"""Of variables, of Secrets and ConfigMaps, and of what these hold: as the API server has them."""
_MOUNT = re.compile(r"(?:(secret|configmap)/)?([a-z0-9.-]+):(/[^:]*)(:ro)?")


@dataclass(frozen=True, slots=True)
class QuickJob:
    """A job of one image, as its flags say it.

    Unless `is_raw`, `command` is what each worker process runs, and horovodrun is put before it.
    What comes from Secrets and ConfigMaps, and volumes, are the workers'. A launcher that had a
    secret variable would repeat it on command lines, for horovodrun does so with all of its
    environment; a raw command may need the volumes.
    """

    name: str
    image: str
    command: Sequence[str]
    replicas: int = 1
    minimum: int | None = None
    maximum: int | None = None
    gpus: int = 0
    slots: int | None = None
    env: Sequence[str] = ()
    env_from: Sequence[str] = ()
    secret_env: Sequence[str] = ()
    volumes: Sequence[str] = ()
    is_raw: bool = False


def build_job(job: QuickJob) -> dict[str, Any]:
    """The TrainingJob; EtError for a flag that cannot be read."""
    if not job.command:
        raise EtError("--image needs a command: put it at the end, after --")
    launcher = {"name": "launcher", "image": job.image, "command": build_command(job)}
    worker: dict[str, Any] = {"name": "worker", "image": job.image}
    if job.gpus:
        worker |= {"resources": {"limits": {"nvidia.com/gpu": job.gpus}}}
    if job.env_from:
        worker |= {"envFrom": [_read_source(text) for text in job.env_from]}
    bounds = {"minReplicas": job.minimum, "maxReplicas": job.maximum}
    slots = {} if job.slots is None else {"slotsPerWorker": job.slots}
    return {
        "apiVersion": TRAINING_JOBS.api_version,
        "kind": TRAINING_JOBS.kind,
        "metadata": {"name": job.name},
        "spec": {
            **slots,
            "etReplicaSpecs": {
                "launcher": {
                    "template": _build_template(
                        launcher, [*_list_variables(job.env)], job.volumes if job.is_raw else ()
                    )
                },
                "worker": {
                    "replicas": job.replicas,
                    **{key: value for key, value in bounds.items() if value is not None},
                    "template": _build_template(
                        worker,
                        [*_list_variables(job.env), *_list_secrets(job.secret_env)],
                        job.volumes,
                    ),
                },
            },
        },
    }


def build_command(job: QuickJob) -> list[str]:
    """The launcher's command: an elastic horovodrun in front, unless there is one already."""
    command = list(job.command)
    if job.is_raw or command[:1] == [LAUNCHING]:
        return command
    slots = job.slots or job.gpus or 1
    numbers = {"-np": job.replicas, "--min-np": job.minimum, "--max-np": job.maximum}
    flags = [
        word for flag, n in numbers.items() if n is not None for word in (flag, str(n * slots))
    ]
    return [LAUNCHING, *flags, "--host-discovery-script", DISCOVERY, *command]


def _build_template(
    container: Mapping[str, Any], variables: Sequence[Mapping[str, Any]], volumes: Sequence[str]
) -> dict[str, Any]:
    found = [_read_volume(f"volume-{number}", text) for number, text in enumerate(volumes)]
    whole = dict(container)
    if variables:
        whole["env"] = list(variables)
    if not found:
        return {"spec": {"containers": [whole]}}
    whole["volumeMounts"] = [mount for _, mount in found]
    return {"spec": {"containers": [whole], "volumes": [volume for volume, _ in found]}}


def _list_variables(texts: Sequence[str]) -> Iterator[dict[str, Any]]:
    """`NAME=VALUE` each, the last one of a name."""
    found = {}
    for text in texts:
        name, separator, value = text.partition("=")
        if not name or not separator:
            raise EtError(f"--env {text}: write NAME=VALUE")
        found[name] = value
    return ({"name": name, "value": value} for name, value in found.items())


def _list_secrets(texts: Sequence[str]) -> Iterator[dict[str, Any]]:
    """`NAME=SECRET/KEY` each: where the value is, never the value."""
    for text in texts:
        name, _, source = text.partition("=")
        secret, _, key = source.partition("/")
        if not (_VARIABLE.fullmatch(name) and _NAME.fullmatch(secret) and _KEY.fullmatch(key)):
            # Not what was typed: it may be the secret itself.
            raise EtError(
                "--secret-env: write NAME=SECRET/KEY, with the name and a key of a Secret (a name "
                "has a-z, 0-9, - and . only)"
            )
        yield {"name": name, "valueFrom": {"secretKeyRef": {"name": secret, "key": key}}}


def _read_source(text: str) -> dict[str, Any]:
    kind, _, name = text.partition("/")
    if kind not in _KINDS or not _NAME.fullmatch(name):
        # Not what was typed, as above.
        raise EtError(
            "--env-from: write secret/NAME or configmap/NAME (a name has a-z, 0-9, - and . only)"
        )
    return {_KINDS[kind]: {"name": name}}


def _read_volume(volume: str, text: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The volume and its mount."""
    found = _MOUNT.fullmatch(text)
    if found is None:
        raise EtError(
            f"--volume {text}: write CLAIM:/path, secret/NAME:/path or configmap/NAME:/path, "
            "with :ro at the end for one that is only read"
        )
    kind, name, path, read_only = found.groups()
    sources = {
        "secret": {"secret": {"secretName": name}},
        "configmap": {"configMap": {"name": name}},
        None: {"persistentVolumeClaim": {"claimName": name}},
    }
    mount = {"name": volume, "mountPath": path} | ({"readOnly": True} if read_only else {})
    return {"name": volume, **sources[kind]}, mount
