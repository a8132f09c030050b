"""Names, labels and annotations that the operator gives: what each is called is said here alone.

What its broker has to know too is called in et_contract (`names`, `pods`). Text alone: who may hold
a name, and what follows where somebody else does, is decided by whoever asks.
"""

from __future__ import annotations

from collections.abc import Mapping

from et_contract.names import build_config_name, build_report_name
from et_contract.pods import LABEL_GROUP, LABEL_JOB, LABEL_ROLE, Role
from et_kube.resources import GROUP

LABEL_INDEX = "replica-index"
LABEL_EPOCH = "kai.alibabacloud.com/epoch"
LABEL_RUNTIME = "kai.alibabacloud.com/runtime"
ANNOTATION_APPLIED_SCALING = "kai.alibabacloud.com/applied-scaling"
ANNOTATION_DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
ANNOTATION_CONTAINER = "kai.alibabacloud.com/container"
"""On our pods: the container that the template names first, wherever a mesh puts its own."""
ANNOTATION_RETRIES = "kai.alibabacloud.com/retries"
"""On a worker: how many in a row ended soon in its place (planning/replacing.py)."""
ANNOTATION_ELASTIC = "kai.alibabacloud.com/elastic"
"""On a launcher: whether workers may join and leave while it runs (model/specs, is_elastic)."""
ANNOTATION_LEAST = "kai.alibabacloud.com/least-workers"
"""On a launcher: with how few workers its command goes on (model/specs, command_least)."""
ANNOTATION_AVOIDS = "kai.alibabacloud.com/avoids"
"""On a worker: nodes that it keeps off, for they were said to end (model/avoiding)."""
ANNOTATION_LAUNCHER = "kai.alibabacloud.com/launcher"
"""On a job: the name of its launcher (et_contract/starters.py), where its command does not tell."""
ANNOTATION_SCRIPTS = "kai.alibabacloud.com/scaling-scripts"
"""On a job: what scalings may have run in its launcher (model/specs, ScriptRight)."""
ANNOTATION_TEMPLATE = "kai.alibabacloud.com/template"
"""On our pods: which template of the job they were made from (planning/renewing.py)."""
ANNOTATION_RENEWED = "kai.alibabacloud.com/renew-workers-through"
"""On a job: the last index of the workers that are to be replaced (planning/renewing.py)."""
MANAGED_BY = "et-operator"
_SEAL = "-"
"""No name of an object begins like this."""
MAX_BEGINNING = 58
"""Characters of the beginning of a name to which the server makes up the end: of a longer one it
cuts the rest off (k8s.io/apiserver, pkg/storage/names/generate.go)."""
LABELS_OURS = {LABEL_GROUP: GROUP}
"""On everything that the operator makes in users' namespaces, and what its watches select by."""
SELECTOR_OURS = ",".join(f"{key}={value}" for key, value in LABELS_OURS.items())
"""What is ours, as a label selector."""


def build_document_names(job: str) -> tuple[str, str]:
    """Names of the two documents: what the operator and the broker tell each other is in them."""
    return build_config_name(job), build_report_name(job)


def build_access_name(job: str) -> str:
    """The ServiceAccount of the job's broker."""
    return f"{job}-launcher"


def build_role_prefix(job: str) -> str:
    """How the names of the broker's Role and of its binding begin; the server makes up the end.

    A binding names its Role, and outlives it: whoever knew the name could have bound a Role of his
    own that was called so, and would have what comes into ours.

    Of the longest name of a job the last letter is left out: without the last dash the name would
    not be known as that of a job's Role (deploy/components/operator-policy).
    """
    end = "-launcher-"
    return job[: MAX_BEGINNING - len(end)] + end


def build_seal(job_uid: str) -> str:
    """What each rule of a job's Role names, besides what it grants: no object can be called so.

    RBAC lets nobody make, change or bind a Role with rights that he does not hold himself. Nobody
    holds one on this name, but for this Role's own holders and who may do it to every object. So
    the Role can be bound by nobody else, even while it grants nothing, and cannot be forged.
    """
    return f"{_SEAL}{job_uid}"


def build_worker_seal(job: str) -> str:
    """What a Role names beside the workers of this job, so that it is known as one of ours.

    No object can be called so either: whoever has rights on it has them as a broker of the job.
    `deploy/components/exec-policy` asks for it, of the caller who executes in `<job>-worker-<n>`.
    """
    return f"{_SEAL}{job}-worker"


def build_network_name(job: str) -> str:
    """The NetworkPolicy around the job's pods; the job's own name is what people call theirs."""
    return f"{job}-pods"


def build_keys_prefix(job: str) -> str:
    """How the name of the Secret with a job's ssh keys begins; the server makes up the end."""
    return f"{job}-ssh-"


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
    return {**LABELS_OURS, LABEL_JOB: job}


def is_in_sight(labels: Mapping[str, str] | None) -> bool:
    """Whether our watches show what has these labels: of anything else no change is ever heard."""
    return LABELS_OURS.items() <= (labels or {}).items()


def build_worker_selector(job: str) -> str:
    """The label selector that `status.selector` publishes: workers only, as an HPA needs."""
    return f"{LABEL_GROUP}={GROUP},{LABEL_JOB}={job},{LABEL_ROLE}={Role.WORKER.value}"
