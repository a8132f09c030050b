"""The jobs and pods that are measured with.

Written by hand, by no code of the operator or of `et`, so that what is measured does not make its
own load. Nothing is sent here.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from devcluster.settings import OPERATOR_IMAGE, TRAINER_IMAGE

GROUP = "kai.alibabacloud.com"
API_VERSION = f"{GROUP}/v1alpha1"
COMMANDS = Path(__file__).resolve().parent / "commands"
SIMULATED = {
    "nodeSelector": {"type": "kwok"},
    "tolerations": [{"key": "kwok.x-k8s.io/node", "operator": "Exists", "effect": "NoSchedule"}],
}
"""What sends a pod to a simulated node."""
_SERVER_MADE = ("nodeName", "serviceAccount", "serviceAccountName", "priority", "preemptionPolicy")


def build_job(
    name: str, *, workers: int, command: Sequence[str], placing: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """A TrainingJob on the operator's own image: small, with python3, on every node, never warm.

    `placing` goes into the pods of both roles.
    """
    container = {"image": OPERATOR_IMAGE, "imagePullPolicy": "IfNotPresent"}
    launcher = {"name": "launcher", **container, "command": list(command)}
    rest = dict(placing or {})
    return {
        "apiVersion": API_VERSION,
        "kind": "TrainingJob",
        "metadata": {"name": name},
        "spec": {
            "etReplicaSpecs": {
                "launcher": {"template": {"spec": {"containers": [launcher], **rest}}},
                "worker": {
                    "replicas": workers,
                    "template": {"spec": {"containers": [{"name": "worker", **container}], **rest}},
                },
            }
        },
    }


def build_training(name: str, steps: int, mode: str) -> dict[str, Any]:
    """An elastic Horovod job of 2 workers whose launcher reaches them in this way."""
    discovery = ["--host-discovery-script", "/etc/edl/discover_hosts.sh"]
    horovodrun = ["horovodrun", "-np", "2", "--min-np", "2", *discovery]
    train = ["python3", "/examples/horovod-torch/train.py", "--step-seconds", "0"]
    job = build_job(name, workers=2, command=[*horovodrun, *train, "--steps", str(steps)])
    job["spec"] |= {"launcherAttachMode": mode, "cleanPodPolicy": "None"}
    for role in job["spec"]["etReplicaSpecs"].values():
        role["template"]["spec"]["containers"][0]["image"] = TRAINER_IMAGE
    return job


def build_scaling(kind: str, name: str, job: str, count: int) -> dict[str, Any]:
    """A ScaleIn or ScaleOut by so many workers."""
    wish = "toAdd" if kind == "ScaleOut" else "toDelete"
    return {
        "apiVersion": API_VERSION,
        "kind": kind,
        "metadata": {"name": name},
        "spec": {"selector": {"name": job}, wish: {"count": count}},
    }


def build_bare_pod(pod: Mapping[str, Any], name: str) -> dict[str, Any]:
    """A job's pod as nobody's: no owner, no label that the operator watches, no account."""
    spec = {key: value for key, value in pod["spec"].items() if key not in _SERVER_MADE}
    spec["automountServiceAccountToken"] = False
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"benchmark": "bare"}},
        "spec": copy.deepcopy(spec),
    }


def read_command(name: str) -> list[str]:
    """A program of benchmarks/commands as a container's command."""
    return ["python3", "-c", (COMMANDS / f"{name}.py").read_text()]
