"""Manifests as their authors write them: `make_job("train", workers=4)`."""

from __future__ import annotations

from typing import Any

from et_kube.resources import GROUP

Document = dict[str, Any]

COMMAND = ["horovodrun", "--host-discovery-script", "/etc/edl/discover_hosts.sh", "train.py"]
NOWHERE = "no-such-scheduler"
"""A scheduler that no cluster has: pods that name it stay Pending for ever."""


def make_job(name: str = "train", *, workers: int = 2, **fields: Any) -> Document:
    """A TrainingJob. minReplicas and maxReplicas go to the worker, all other fields to the spec."""
    worker = {"replicas": workers, "template": make_template(name="trainer")}
    for key in ("minReplicas", "maxReplicas"):
        if key in fields:
            worker[key] = fields.pop(key)
    spec = {
        "etReplicaSpecs": {
            "launcher": {"template": make_template(name="launcher", command=COMMAND)},
            "worker": worker,
        },
        **fields,
    }
    return _make("TrainingJob", name, spec)


def make_scale_in(name: str, job: str = "train", **fields: Any) -> Document:
    """A ScaleIn: `count=1`, `podNames=["train-worker-1"]`, and any other field of the spec."""
    to_delete = {key: fields.pop(key) for key in ("count", "podNames") if key in fields}
    return _make("ScaleIn", name, {"selector": {"name": job}, "toDelete": to_delete, **fields})


def make_scale_out(name: str, job: str = "train", count: int = 1, **fields: Any) -> Document:
    """A ScaleOut of `count` workers, and any other field of the spec."""
    return _make("ScaleOut", name, {"selector": {"name": job}, "toAdd": {"count": count}, **fields})


def make_template(*, name: str, command: list[str] | None = None) -> Document:
    """A pod template of one container."""
    container: Document = {"name": name, "image": "localhost/trainer:dev"}
    if command is not None:
        container["command"] = command
    return {"spec": {"containers": [container]}}


def make_pod(name: str = "", **metadata: Any) -> Document:
    """A pod that no scheduler takes, so that it is the same in a real cluster."""
    spec = make_template(name="main")["spec"] | {"schedulerName": NOWHERE}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": ({"name": name} if name else {}) | metadata,
        "spec": spec,
    }


def make_config_map(name: str, data: dict[str, str] | None = None, **metadata: Any) -> Document:
    """A ConfigMap."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name} | metadata,
        "data": data or {},
    }


def make_owner(owner: Any) -> Document:
    """A controller reference to an object as stored."""
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
    }


def _make(kind: str, name: str, spec: Document) -> Document:
    return {
        "apiVersion": f"{GROUP}/v1alpha1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": spec,
    }
