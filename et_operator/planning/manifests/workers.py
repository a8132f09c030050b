"""Worker pods: PID 1 of the container that the template names first is the agent, or runs sshd.

`build_worker` is called once for all workers of a pass and `call_worker` for each: that one changes
nothing but metadata, for the rest is one object in thousands of requests.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from et_contract import names, paths
from et_contract.pods import Role, read_own_index
from et_kube.resources import Json
from et_operator.codec.templates import find_account_name
from et_operator.model.jobs import TrainingJob
from et_operator.model.names import LABEL_INDEX
from et_operator.model.specs import WorkerSpec
from et_operator.model.statuses import Runtime
from et_operator.planning.manifests.keys import add_keys, has_keys
from et_operator.planning.manifests.notices import TELLS_OF_NOTICES
from et_operator.planning.manifests.pods import (
    add_env,
    add_mounts,
    build_env,
    build_grace,
    build_pod_labels,
    copy_template,
    find_mounted,
    take_command,
    wrap_command,
)
from et_operator.planning.manifests.runtimes import build_runtime_volume

GRACE = 60
TOLERATED = 60
"""Seconds on a lost node: the cluster's usual 300 would be the stall of the whole job."""
_EMPTY = {paths.RUN_VOLUME: paths.RUN_DIR, paths.MPI_VOLUME: paths.MPI_DIR}
_TAINTS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


def build_worker(job: TrainingJob, worker: WorkerSpec, *, epoch: int, runtime: Runtime) -> Json:
    """What the pods of all workers have in common; `call_worker` makes one of it."""
    pod = copy_template(job, worker.template, build_pod_labels(job, Role.WORKER, epoch))
    spec = pod["spec"]
    spec.setdefault("terminationGracePeriodSeconds", GRACE)
    if not find_account_name(worker.template):
        spec.setdefault("automountServiceAccountToken", False)
    spec["tolerations"] = _tolerate(spec.get("tolerations") or [])
    container = spec["containers"][0]
    empty: Mapping[str, str] = _EMPTY
    if has_keys(job):
        _serve_ssh(job, spec, epoch)
    else:
        wrap_command(container, "agent")
        add_env(container, [*build_env(job, epoch), build_grace(spec)])
        # What else is there is not ours to write, and of an image's own files there new workers of
        # a job that runs lose nothing for what their agents do not know.
        is_free = (
            paths.EDL_DIR not in find_mounted(container) and runtime.version >= TELLS_OF_NOTICES
        )
        empty = {**_EMPTY, paths.EDL_VOLUME: paths.EDL_DIR} if is_free else _EMPTY
        path = paths.NOTICE_FILE if is_free else ""  # a user's own variable is no path of ours
        add_env(container, [{"name": names.ENV_NOTICE, "value": path}])
    add_mounts(spec, container, build_runtime_volume(runtime), empty)
    return pod


def call_worker(
    job: TrainingJob, common: Json, name: str, annotations: Mapping[str, str] | None = None
) -> Json:
    """The pod of one worker, which shares what is not its own; `annotations`: those it has besides.

    Raises:
        ValueError: no worker of this job is called so.
    """
    index = read_own_index(name, job.key.name)
    if index is None:
        raise ValueError(f"{name!r} is no name of a worker of {job.key.name}")
    metadata = common["metadata"]
    own = {"name": name, "labels": {**metadata["labels"], LABEL_INDEX: str(index)}}
    if annotations:
        own["annotations"] = {**metadata["annotations"], **annotations}
    return {**common, "metadata": {**metadata, **own}}


def _serve_ssh(job: TrainingJob, spec: dict[str, Any], epoch: int) -> None:
    container = spec["containers"][0]
    container.setdefault("terminationMessagePolicy", "FallbackToLogsOnError")
    grace = spec["terminationGracePeriodSeconds"]
    options = [str(names.SSH_PORT), str(epoch), str(grace), paths.KUBEXEC]
    user = take_command(container)
    container["command"] = ["sh", paths.SSH_WORKER, *options, "--", *user]
    add_keys(job, spec, Role.WORKER)


def _tolerate(tolerations: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Leave a lost node soon, unless the template says how long to stay."""
    said = {item.get("key") for item in tolerations if item.get("effect") in {None, "NoExecute"}}
    if None in said:
        return tolerations
    ours = [
        {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": TOLERATED}
        for key in _TAINTS
        if key not in said
    ]
    return [*tolerations, *ours]
