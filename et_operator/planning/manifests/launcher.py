"""The launcher pod: the user's command behind our PID 1, and the broker beside it.

creating.py makes it, queueing.py has it tried. The broker, a sidecar with an image and a user of
its own, alone gets the token; no container of the user's mounts it.
"""

from __future__ import annotations

from typing import Any

from et_contract import names, paths
from et_contract.pods import Role, build_launcher_name
from et_kube.resources import Json
from et_operator.model.jobs import TrainingJob
from et_operator.model.names import ANNOTATION_ELASTIC, ANNOTATION_LEAST
from et_operator.model.specs import JobSpec, LossRecovery
from et_operator.model.statuses import JobStatus, Runtime
from et_operator.planning.manifests.access import find_account
from et_operator.planning.manifests.keys import add_keys, has_keys
from et_operator.planning.manifests.placement import keep_off_spot
from et_operator.planning.manifests.pods import (
    add_env,
    add_mounts,
    build_env,
    build_grace,
    build_pod_labels,
    copy_template,
    wrap_command,
)
from et_operator.planning.manifests.runtimes import build_runtime_volume

BROKER_USER = 65532
TOKEN_SECONDS = 3607
_EMPTY = {
    paths.RUN_VOLUME: paths.RUN_DIR,
    paths.EDL_VOLUME: paths.EDL_DIR,
    paths.MPI_VOLUME: paths.MPI_DIR,
    paths.JOB_VOLUME: paths.JOB_DIR,
}
_STAY = {
    "karpenter.sh/do-not-disrupt": "true",
    "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
}
_NO_SYSTEM_CERTIFICATES = {"name": "SSL_CERT_FILE", "value": "/dev/null"}
"""aiohttp reads the image's when it is imported (connector.py, _SSL_CONTEXT_VERIFIED): 50 ms of
each start, for nothing, since the API server is known by the cluster's own certificate."""
_RESTRICTED = {
    "runAsNonRoot": True,
    "runAsUser": BROKER_USER,
    "runAsGroup": BROKER_USER,
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}


def build_launcher(
    job: TrainingJob,
    spec: JobSpec,
    *,
    status: JobStatus,
    runtime: Runtime,
    pull_secrets: tuple[str, ...] = (),
) -> Json:
    """The launcher pod of the status' epoch."""
    epoch, slots = status.epoch, spec.slots_per_worker
    minimum = spec.find_needed(status.decided_replicas)
    labels = build_pod_labels(job, Role.LAUNCHER, epoch)
    pod = keep_off_spot(
        copy_template(job, spec.launcher_template, labels, build_launcher_name(job.key.name, epoch))
    )
    annotations, body = pod["metadata"]["annotations"], pod["spec"]
    told_of_command = {
        ANNOTATION_ELASTIC: "true" if spec.is_elastic else "false",
        ANNOTATION_LEAST: str(spec.command_least),
    }
    pod["metadata"]["annotations"] = {**_STAY, **annotations, **told_of_command}
    body["serviceAccountName"] = find_account(job)
    body["automountServiceAccountToken"] = False
    if pull_secrets:
        own = list(body.get("imagePullSecrets") or ())
        extra = [{"name": name} for name in pull_secrets]
        body["imagePullSecrets"] = own + [item for item in extra if item not in own]
    env = [
        *build_env(job, epoch),
        {"name": names.ENV_SLOTS, "value": str(slots)},
        {"name": names.ENV_MIN_SLOTS, "value": str(minimum * slots)},
        {"name": names.ENV_ATTACH_MODE, "value": spec.attach_mode.value},
    ]
    told = [{"name": names.ENV_LAUNCHER, "value": spec.launcher}]
    if spec.loss_recovery is LossRecovery.FAST:
        told.append({"name": names.ENV_LOSSES, "value": names.FAST})
    _wrap_user(body, [*env, *told], runtime)
    if has_keys(job):
        add_keys(job, body, Role.LAUNCHER)
    body["volumes"].append(_build_token_volume())
    body["initContainers"] = [_build_broker(runtime, env), *(body.get("initContainers") or ())]
    return pod


def _wrap_user(spec: dict[str, Any], env: list[dict[str, Any]], runtime: Runtime) -> None:
    container = spec["containers"][0]
    container.setdefault("terminationMessagePolicy", "FallbackToLogsOnError")
    kept = ",".join(str(item["name"]) for item in container.get("env") or ())
    wrap_command(container, "launch")
    keep = {"name": names.ENV_KEEP, "value": kept}
    add_env(container, [*env, build_grace(spec), keep])
    add_mounts(spec, container, build_runtime_volume(runtime), _EMPTY)


def _build_broker(runtime: Runtime, env: list[dict[str, Any]]) -> dict[str, Any]:
    """The native sidecar: the only holder of a token."""
    return {
        "name": names.BROKER_CONTAINER,
        "image": runtime.broker_image,
        "imagePullPolicy": "IfNotPresent",
        "restartPolicy": "Always",
        "command": ["python3", "-m", "launcher.broker"],
        "env": [*env, _NO_SYSTEM_CERTIFICATES],
        "resources": {"requests": {"cpu": "20m", "memory": "64Mi"}},
        "securityContext": _RESTRICTED,
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [
            {"name": paths.RUN_VOLUME, "mountPath": paths.RUN_DIR},
            {"name": paths.TOKEN_VOLUME, "mountPath": paths.TOKEN_DIR, "readOnly": True},
        ],
    }


def _build_token_volume() -> dict[str, Any]:
    token = {"path": "token", "expirationSeconds": TOKEN_SECONDS}
    certificate = {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}
    namespace = {"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}}
    return {
        "name": paths.TOKEN_VOLUME,
        "projected": {
            "sources": [
                {"serviceAccountToken": token},
                {"configMap": certificate},
                {"downwardAPI": {"items": [namespace]}},
            ]
        },
    }
