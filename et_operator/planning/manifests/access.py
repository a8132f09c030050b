"""ServiceAccount, Role and RoleBinding of a job's broker, and the ConfigMap for its report."""

from __future__ import annotations

from typing import Any

from et_operator.model.jobs import TrainingJob
from et_operator.model.names import (
    build_access_name,
    build_config_name,
    build_labels,
    build_report_name,
    build_worker_name,
)
from et_operator.model.resources import Json
from et_operator.planning.manifests.keys import has_keys
from et_operator.planning.manifests.owning import build_metadata

BLOCK = 32
"""Rights are granted for so many worker indices at once, before the first pod of them exists."""
_RBAC = "rbac.authorization.k8s.io"


def find_account(job: TrainingJob) -> str:
    """The launcher's ServiceAccount: the template's own, else one of ours."""
    template = job.spec.launcher_template if job.spec else {}
    own = (template.get("spec") or {}).get("serviceAccountName")
    return str(own) if own else build_access_name(job.key.name)


def list_exec_names(job: TrainingJob, last_index: int) -> tuple[str, ...]:
    """The workers whose agents the broker may reach, in whole blocks; none where ssh does that."""
    if has_keys(job):
        return ()
    blocks = max(last_index, 0) // BLOCK + 1
    return tuple(build_worker_name(job.key.name, index) for index in range(blocks * BLOCK))


def build_service_account(job: TrainingJob) -> Json:
    """An account without a mounted token."""
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": _metadata(job, build_access_name(job.key.name)),
        "automountServiceAccountToken": False,
    }


def build_role(job: TrainingJob, last_index: int) -> Json:
    """What the broker may do: exec into its workers, read its config, write its report."""
    return {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "Role",
        "metadata": _metadata(job, build_access_name(job.key.name)),
        "rules": build_rules(job, last_index),
    }


def build_rules(job: TrainingJob, last_index: int) -> list[dict[str, Any]]:
    """The Role's rules, for worker indices up to the end of the last one's block."""
    name, workers = job.key.name, list_exec_names(job, last_index)
    execs = [_rule("pods/exec", ["get", "create"], list(workers))] if workers else []
    return [
        *execs,
        _rule("configmaps", ["get", "watch"], [build_config_name(name)]),
        _rule("configmaps", ["patch"], [build_report_name(name)]),
    ]


def build_role_binding(job: TrainingJob) -> Json:
    """The Role, for the account that the launcher has."""
    name = build_access_name(job.key.name)
    return {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "RoleBinding",
        "metadata": _metadata(job, name),
        "roleRef": {"apiGroup": _RBAC, "kind": "Role", "name": name},
        "subjects": [
            {"kind": "ServiceAccount", "name": find_account(job), "namespace": job.key.namespace}
        ],
    }


def build_report_map(job: TrainingJob) -> Json:
    """The empty ConfigMap that the broker patches."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": _metadata(job, build_report_name(job.key.name)),
    }


def _metadata(job: TrainingJob, name: str) -> dict[str, Any]:
    return build_metadata(job, name, build_labels(job.key.name))


def _rule(resource: str, verbs: list[str], names: list[str]) -> dict[str, Any]:
    group = [""]
    return {"apiGroups": group, "resources": [resource], "verbs": verbs, "resourceNames": names}
