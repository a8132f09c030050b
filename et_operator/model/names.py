"""Names, labels and annotations: each is built and read here and nowhere else."""

from __future__ import annotations

from enum import StrEnum

from et_operator.model.resources import GROUP

LABEL_GROUP = "group-name"
LABEL_JOB = "training-job-name"
LABEL_ROLE = "training-job-role"
LABEL_INDEX = "replica-index"
LABEL_EPOCH = "kai.alibabacloud.com/epoch"
LABEL_RUNTIME = "kai.alibabacloud.com/runtime"
ANNOTATION_APPLIED_SCALING = "kai.alibabacloud.com/applied-scaling"
ANNOTATION_DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
ANNOTATION_CONTAINER = "kai.alibabacloud.com/container"
"""On our pods: the container that the template names first, wherever a mesh puts its own."""
ANNOTATION_LAUNCHER = "kai.alibabacloud.com/launcher"
"""On a job: the name of its launcher (launcher/launchers.py), where its command does not tell."""
MANAGED_BY = "et-operator"
SELECTOR_OURS = f"{LABEL_GROUP}={GROUP}"
"""Label selector of everything that the operator makes in users' namespaces."""

MAX_POD_NAME = 63
INDEX_DIGITS = 6
MAX_JOB_NAME = MAX_POD_NAME - len("-worker-") - INDEX_DIGITS
"""49: `<job>-worker-<6 digits>` must be a DNS label, for Horovod uses it as a host name."""


class Role(StrEnum):
    """What a pod of a job is for."""

    LAUNCHER = "launcher"
    WORKER = "worker"


def build_worker_name(job: str, index: int) -> str:
    """`<job>-worker-<index>`; an index is never used twice in a job's life."""
    return f"{job}-worker-{index}"


def build_launcher_name(job: str, epoch: int) -> str:
    """`<job>-launcher` for the first epoch, `<job>-launcher-r<epoch - 1>` for later ones."""
    return f"{job}-launcher" if epoch <= 1 else f"{job}-launcher-r{epoch - 1}"


def build_config_name(job: str) -> str:
    """The ConfigMap that the operator writes and the broker reads."""
    return f"{job}-config"


def build_report_name(job: str) -> str:
    """The ConfigMap that the broker writes and the operator reads."""
    return f"{job}-report"


def build_access_name(job: str) -> str:
    """ServiceAccount, Role and RoleBinding of the job's broker."""
    return f"{job}-launcher"


def build_network_name(job: str) -> str:
    """The NetworkPolicy around the job's pods."""
    return job


def build_keys_name(job: str, uid: str) -> str:
    """The Secret with the ssh keys of the job of this uid: a name that nobody else's can have."""
    return f"{job}-ssh-{uid}"


def build_runtime_name(digest: str) -> str:
    """The immutable ConfigMap with agent, shim and hostdiscovery; `digest` is its hash."""
    return f"edl-runtime-{digest}"


def build_labels(job: str, role: Role | None = None) -> dict[str, str]:
    """The labels of everything that belongs to a job; with the role for pods."""
    labels = {
        **build_job_labels(job),
        "app.kubernetes.io/name": "trainingjob",
        "app.kubernetes.io/instance": job,
        "app.kubernetes.io/managed-by": MANAGED_BY,
    }
    if role is not None:
        labels[LABEL_ROLE] = role.value
        labels["app.kubernetes.io/component"] = role.value
    return labels


def build_job_labels(job: str) -> dict[str, str]:
    """The labels that tell a job's own objects from all others of its namespace."""
    return {LABEL_GROUP: GROUP, LABEL_JOB: job}


def build_worker_selector(job: str) -> str:
    """The label selector that `status.selector` publishes: workers only, as an HPA needs."""
    return f"{LABEL_GROUP}={GROUP},{LABEL_JOB}={job},{LABEL_ROLE}={Role.WORKER.value}"
