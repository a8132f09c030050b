"""The kinds of objects that we read or write, by their place in the API.

A kind is named once, here, with the version that we speak; paths are made of it in rest.py. Nothing
of what is in an object is known here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Json = Mapping[str, Any]
"""A JSON object as the API server sends it. Treat it as read-only."""


@dataclass(frozen=True, slots=True)
class Resource:
    """One kind: `group` "" is the core group."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        """As in an object's `apiVersion`."""
        return f"{self.group}/{self.version}" if self.group else self.version


GROUP = "kai.alibabacloud.com"

TRAINING_JOBS = Resource(GROUP, "v1alpha1", "trainingjobs", "TrainingJob")
SCALE_INS = Resource(GROUP, "v1alpha1", "scaleins", "ScaleIn")
SCALE_OUTS = Resource(GROUP, "v1alpha1", "scaleouts", "ScaleOut")
TRAINING_QUEUES = Resource(GROUP, "v1alpha1", "trainingqueues", "TrainingQueue", namespaced=False)
PODS = Resource("", "v1", "pods", "Pod")
CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap")
SECRETS = Resource("", "v1", "secrets", "Secret")
SERVICE_ACCOUNTS = Resource("", "v1", "serviceaccounts", "ServiceAccount")
NODES = Resource("", "v1", "nodes", "Node", namespaced=False)
NAMESPACES = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
PRIORITY_CLASSES = Resource(
    "scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", namespaced=False
)
ROLES = Resource("rbac.authorization.k8s.io", "v1", "roles", "Role")
ROLE_BINDINGS = Resource("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding")
NETWORK_POLICIES = Resource("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy")
LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease")
EVENTS = Resource("events.k8s.io", "v1", "events", "Event")

_STEPS = frozenset({"", ".", ".."})


def is_name(text: str) -> bool:
    """Whether a path of the API can name an object, or a namespace, so.

    It is the API server's own rule: others would make it the path of a collection, or of a part.
    """
    return text not in _STEPS and "/" not in text and "%" not in text


@dataclass(frozen=True, slots=True)
class Ref:
    """One object by name. `namespace` is "" for kinds without one."""

    resource: Resource
    namespace: str
    name: str

    def __str__(self) -> str:
        place = f"{self.namespace}/" if self.namespace else ""
        return f"{self.resource.kind} {place}{self.name}"
