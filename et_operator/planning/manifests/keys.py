"""The ssh keys of a job whose launcher reaches its workers by ssh: the Secret, and who sees what.

The launcher has the user's private key and the workers' public one, a worker the other two.
"""

from __future__ import annotations

from typing import Any

from et_contract import names, paths
from et_contract.pods import Role
from et_kube.resources import Json
from et_operator.model.jobs import TrainingJob
from et_operator.model.names import build_keys_prefix, build_labels
from et_operator.model.specs import AttachMode
from et_operator.planning.manifests.owning import build_metadata

_FILES = {
    Role.LAUNCHER: (names.KEY_USER, names.KEY_KNOWN_HOSTS),
    Role.WORKER: (names.KEY_HOST, names.KEY_AUTHORIZED),
}
_READABLE = 0o444
"""By whatever user the image has: both ends copy their private key to a file of their own."""


def has_keys(job: TrainingJob) -> bool:
    """Whether the job's launcher reaches its workers by ssh."""
    return job.spec is not None and job.spec.attach_mode is AttachMode.SSH


def build_keys(job: TrainingJob) -> Json:
    """The Secret without its keys and the end of its name, which come when it is created."""
    metadata = build_metadata(job, "", build_labels(job.key.name))
    del metadata["name"]
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {**metadata, "generateName": build_keys_prefix(job.key.name)},
        "type": "Opaque",
        "immutable": True,
    }


def add_keys(job: TrainingJob, spec: dict[str, Any], role: Role) -> None:
    """Mount what this role needs of the Secret into its first container, and into no other."""
    items = [{"key": name, "path": name} for name in _FILES[role]]
    secret = {
        "secretName": job.status.keys_secret,
        "defaultMode": _READABLE,
        "items": items,
    }
    volume = {"name": paths.KEYS_VOLUME, "secret": secret}
    spec["volumes"] = [*(spec.get("volumes") or ()), volume]
    container = spec["containers"][0]
    mount = {"name": paths.KEYS_VOLUME, "mountPath": paths.KEYS_DIR, "readOnly": True}
    container["volumeMounts"] = [*(container.get("volumeMounts") or ()), mount]
