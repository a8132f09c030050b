"""What workers and launchers have in common: the user's template, with our PID 1 in front.

Variables of ours win over the user's of the same name, paths that the user mounts stay the user's.
What is below a container is shared with the template, and must not be changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from et_contract import names, paths
from et_contract.pods import Role, read_command
from et_kube.notices import LEAVING_AT
from et_kube.resources import Json
from et_operator.codec.encoding import encode_owner
from et_operator.codec.templates import RESTARTING, read_place
from et_operator.model.jobs import TrainingJob
from et_operator.model.names import (
    ANNOTATION_CONTAINER,
    ANNOTATION_TEMPLATE,
    LABEL_EPOCH,
    build_labels,
)
from et_operator.model.packing import digest
from et_operator.planning.manifests.runtimes import build_runtime_mount

DEFAULT_GRACE = 30
"""terminationGracePeriodSeconds of a pod that says nothing, as the API server fills it in."""


def copy_template(
    job: TrainingJob, template: Json, labels: Mapping[str, str], name: str = ""
) -> dict[str, Any]:
    """A pod from the user's template, ours by owner, labels and `name`, which may come later.

    Its `spec` and first container are new and may be changed; all below them is the template's own,
    which many pods share.
    """
    metadata, spec = template.get("metadata") or {}, dict(template.get("spec") or {})
    end_with_pod(spec)
    spec.setdefault("enableServiceLinks", False)
    annotations = {**(metadata.get("annotations") or {})}
    annotations.pop(LEAVING_AT, None)  # of one pod, not of all that are ever made
    annotations[ANNOTATION_CONTAINER] = spec["containers"][0]["name"]
    annotations[ANNOTATION_TEMPLATE] = digest(template)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": job.key.namespace,
            "labels": {**(metadata.get("labels") or {}), **labels},
            "annotations": annotations,
            "ownerReferences": [encode_owner(job.owner)],
        },
        "spec": spec,
    }


def end_with_pod(spec: dict[str, Any]) -> None:
    """Let no end of a container start one anew in this pod: what has ended is judged, and stays.

    Init containers keep their own policy, which makes sidecars of them, but no rules: one can start
    all containers of the pod anew.
    """
    spec["restartPolicy"] = "Never"
    for key, dropped in RESTARTING.items():
        if spec.get(key):
            spec[key] = [{k: v for k, v in c.items() if k not in dropped} for c in spec[key]]


def build_pod_labels(job: TrainingJob, role: Role, epoch: int) -> dict[str, str]:
    """Labels of a pod of this role that was created in this epoch."""
    return {**build_labels(job.key.name, role), LABEL_EPOCH: str(epoch)}


def wrap_command(container: dict[str, Any], verb: str) -> None:
    """Put our PID 1 in front of the user's command."""
    user = take_command(container)
    container["command"] = ["python3", "-I", "-S", paths.BOOT, verb, "--", *user]


def take_command(container: dict[str, Any]) -> list[str]:
    """Remove the user's command from a container."""
    words = read_command(container)
    container.pop("command", None)
    container.pop("args", None)
    return words


def add_env(container: dict[str, Any], env: Iterable[Mapping[str, Any]]) -> None:
    """Our variables after the user's; ours win where names are the same."""
    ours = [dict(item) for item in env]
    names = {item["name"] for item in ours}
    users = [item for item in container.get("env") or () if item.get("name") not in names]
    container["env"] = [*users, *ours]


def add_mounts(
    spec: dict[str, Any], container: dict[str, Any], runtime: Json, empty: Mapping[str, str]
) -> None:
    """The runtime and our empty directories; a path that the user mounts stays the user's."""
    mounts = list(container.get("volumeMounts") or ())
    used = find_mounted(container)
    free = {name: path for name, path in empty.items() if path not in used}
    mounts.append(build_runtime_mount())
    mounts += [{"name": name, "mountPath": path} for name, path in free.items()]
    container["volumeMounts"] = mounts
    volumes = list(spec.get("volumes") or ())
    spec["volumes"] = [*volumes, runtime, *({"name": name, "emptyDir": {}} for name in free)]


def find_mounted(container: Json) -> set[str]:
    """Where a container has its mounts."""
    return {read_place(str(m.get("mountPath", ""))) for m in container.get("volumeMounts") or ()}


def build_env(job: TrainingJob, epoch: int) -> list[dict[str, Any]]:
    """What both PID 1s and the broker need to know about themselves."""
    return [
        {"name": names.ENV_JOB_NAME, "value": job.key.name},
        {"name": names.ENV_JOB_NAMESPACE, "value": job.key.namespace},
        {"name": names.ENV_JOB_UID, "value": job.uid},
        {"name": names.ENV_EPOCH, "value": str(epoch)},
        _from_field(names.ENV_POD_NAME, "metadata.name"),
        _from_field(names.ENV_POD_UID, "metadata.uid"),
    ]


def build_grace(spec: Json) -> dict[str, str]:
    """How long the pod has between SIGTERM and SIGKILL."""
    grace = spec.get("terminationGracePeriodSeconds", DEFAULT_GRACE)
    return {"name": names.ENV_GRACE, "value": str(grace)}


def _from_field(name: str, path: str) -> dict[str, Any]:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}
