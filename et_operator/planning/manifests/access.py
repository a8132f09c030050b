"""ServiceAccount, Role and RoleBinding of a job's broker, and the ConfigMap for its report.

RBAC knows objects by their names alone: a Role names what is known to be the job's own, and
nothing that is yet to be created or that has gone.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from et_contract.names import build_config_name, build_report_name
from et_kube.resources import Json
from et_operator.codec.encoding import encode_accounts, encode_rules
from et_operator.codec.templates import find_account_name
from et_operator.model.jobs import TrainingJob
from et_operator.model.names import (
    build_access_name,
    build_labels,
    build_role_prefix,
    build_seal,
    build_worker_seal,
)
from et_operator.model.rights import Rights
from et_operator.planning.manifests.owning import build_metadata

_RBAC = "rbac.authorization.k8s.io"


def find_account(job: TrainingJob) -> str:
    """The launcher's ServiceAccount: the template's own, else one of ours."""
    template = job.spec.launcher_template if job.spec else {}
    return find_account_name(template) or build_access_name(job.key.name)


def build_service_account(job: TrainingJob) -> Json:
    """An account without a mounted token."""
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": _metadata(job, build_access_name(job.key.name)),
        "automountServiceAccountToken": False,
    }


def build_role(job: TrainingJob, workers: Collection[str]) -> Json:
    """What the broker may do: exec into these workers, read its config, write its report.

    Its name is made up by the server, so that no binding can have been there before it.
    """
    return {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "Role",
        "metadata": _metadata_without_name(job),
        "rules": encode_rules(build_rights(job, workers)),
    }


def build_rights(job: TrainingJob, workers: Collection[str]) -> Rights:
    """On these workers' pods, and on the job's two documents."""
    name = job.key.name
    return Rights(
        build_seal(job.uid),
        execs=frozenset({build_worker_seal(name), *workers} if workers else ()),
        reads=frozenset({build_config_name(name)}),
        writes=frozenset({build_report_name(name)}),
    )


def build_no_rights(job: TrainingJob) -> Rights:
    """Rights of nothing: a name alone, to which nobody can bind what comes later (build_seal)."""
    return Rights(build_seal(job.uid))


def build_role_binding(job: TrainingJob, role: str, accounts: Collection[str]) -> Json:
    """This Role, for these accounts.

    Its name is made up by the server too: nobody can have taken it who has read the Role's.
    """
    return {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "RoleBinding",
        "metadata": _metadata_without_name(job),
        "roleRef": {"apiGroup": _RBAC, "kind": "Role", "name": role},
        "subjects": encode_accounts(job.key.namespace, accounts),
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


def _metadata_without_name(job: TrainingJob) -> dict[str, Any]:
    """Metadata with the beginning of a name, to which the server makes up the end."""
    metadata = _metadata(job, "")
    del metadata["name"]
    return {**metadata, "generateName": build_role_prefix(job.key.name)}
