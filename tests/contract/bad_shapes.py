"""Values of another type, size or depth than their field has, as bad_manifests has other faults."""

from __future__ import annotations

from typing import Any

from tests.contract.bad_manifests import Bad, first, job, pod, role


def nest(levels: int) -> Any:
    """An object in an object in an object."""
    value: Any = "x"
    for _ in range(levels):
        value = {"a": value}
    return value


def require(*terms: Any) -> dict[str, Any]:
    """The affinity of a pod that has these terms of nodes."""
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [*terms]}}
    return {"nodeAffinity": required}


def prefer(preferred: Any) -> dict[str, Any]:
    """The affinity of a pod that has these wishes of nodes."""
    return {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}


EXISTS = {"key": "a", "operator": "Exists"}

BAD_SHAPES = [
    Bad(
        "a number without quotes in args",
        job(lambda spec: first(spec, "launcher").update(args=["-np", 2, "python", "train.py"])),
        "must be of type string",
        "launcher.template.spec.containers[0].args[1]: must be a string: put 2 in quotes",
    ),
    Bad(
        "a flag without quotes in args",
        job(lambda spec: first(spec, "worker").update(args=[True])),
        "must be of type string",
        "worker.template.spec.containers[0].args[0]: must be a string: put true in quotes",
    ),
    Bad(
        "args that are a number",
        job(lambda spec: first(spec, "launcher").update(args=5)),
        "must be of type array",
        "launcher.template.spec.containers[0].args: must be a list",
    ),
    Bad(
        "resources that are text",
        job(lambda spec: first(spec, "worker").update(resources="small")),
        "must be of type object",
        "worker.template.spec.containers[0].resources: must be an object",
    ),
    Bad(
        "limits that are a list",
        job(lambda spec: first(spec, "worker").update(resources={"limits": ["gpu=1"]})),
        "must be of type object",
        "worker.template.spec.containers[0].resources.limits: must be an object",
    ),
    Bad(
        "an amount that is a list",
        job(lambda spec: first(spec, "worker").update(resources={"limits": {"cpu": [1]}})),
        None,
        "resources.limits.cpu: must be an amount, for example 2, 500m or 16Gi",
    ),
    Bad(
        "a limit of thousands of digits",
        job(lambda spec: first(spec, "worker").update(resources={"limits": {"x/gpu": "9" * 5000}})),
        None,
        "resources.limits.x/gpu: must be an amount",
    ),
    Bad(
        "more accelerators than slots",
        job(lambda spec: first(spec, "worker").update(resources={"limits": {"x/gpu": "2000"}})),
        None,
        "resources.limits[x/gpu]: is also the number of slots, of which there are at most 1024",
    ),
    Bad(
        "env as a map",
        job(lambda spec: first(spec, "worker").update(env={"NCCL_DEBUG": "INFO"})),
        "must be of type array",
        "worker.template.spec.containers[0].env: must be a list",
    ),
    Bad(
        "env as texts",
        job(lambda spec: first(spec, "launcher").update(env=["NCCL_DEBUG=INFO"])),
        "must be of type object",
        "launcher.template.spec.containers[0].env[0]: must be an object",
    ),
    Bad(
        "a variable's value without quotes",
        job(lambda spec: first(spec, "worker").update(env=[{"name": "A", "value": 1}])),
        "must be of type string",
        "worker.template.spec.containers[0].env[0].value: must be a string: put 1 in quotes",
    ),
    Bad(
        "tolerations as a map",
        job(lambda spec: pod(spec, "worker").update(tolerations={"key": "gpu"})),
        "must be of type array",
        "worker.template.spec.tolerations: must be a list",
    ),
    Bad(
        "a toleration's key as a list",
        job(lambda spec: pod(spec, "worker").update(tolerations=[{"key": ["gpu"]}])),
        None,
        "worker.template.spec.tolerations[0].key: must be a string",
    ),
    Bad(
        "an affinity that is text",
        job(lambda spec: pod(spec, "launcher").update(affinity="gpu")),
        None,
        "launcher.template.spec.affinity: must be an object",
    ),
    Bad(
        "a node affinity that is a list",
        job(lambda spec: pod(spec, "launcher").update(affinity={"nodeAffinity": ["gpu"]})),
        None,
        "launcher.template.spec.affinity.nodeAffinity: must be an object",
    ),
    Bad(
        "an affinity to pods that is text",
        job(lambda spec: pod(spec, "worker").update(affinity={"podAntiAffinity": "mine"})),
        None,
        "worker.template.spec.affinity.podAntiAffinity: must be an object",
    ),
    Bad(
        "what is required of pods as an object",
        job(
            lambda spec: pod(spec, "worker").update(
                affinity={"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {}}}
            )
        ),
        None,
        "podAffinity.requiredDuringSchedulingIgnoredDuringExecution: must be a list",
    ),
    Bad(
        "wishes of nodes that are a number",
        job(lambda spec: pod(spec, "launcher").update(affinity=prefer(3))),
        None,
        "nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution: must be a list",
    ),
    Bad(
        "a term that is text",
        job(lambda spec: pod(spec, "worker").update(affinity=require("gpu"))),
        None,
        "IgnoredDuringExecution.nodeSelectorTerms[0]: must be an object",
    ),
    Bad(
        "fields of a node as a number",
        job(lambda spec: pod(spec, "worker").update(affinity=require({"matchFields": 1}))),
        None,
        "IgnoredDuringExecution.nodeSelectorTerms[0].matchFields: must be a list",
    ),
    Bad(
        "a label's value to match without quotes",
        job(
            lambda spec: pod(spec, "worker").update(
                affinity=require({"matchExpressions": [EXISTS, {**EXISTS, "values": [80]}]})
            )
        ),
        None,
        "nodeSelectorTerms[0].matchExpressions[1].values[0]: must be a string: put 80 in quotes",
    ),
    Bad(
        "more terms than are looked at",
        job(
            lambda spec: pod(spec, "worker").update(
                affinity=require(*[{"matchExpressions": [EXISTS]}] * 65)
            )
        ),
        None,
        "nodeSelectorTerms: are 65, 64 at most: name labels that nodes share",
    ),
    Bad(
        "labels as a list",
        job(lambda spec: role(spec, "worker")["template"].update(metadata={"labels": ["a=b"]})),
        "must be of type object",
        "worker.template.metadata.labels: must be an object",
    ),
    Bad(
        "annotations as text",
        job(lambda spec: role(spec, "worker")["template"].update(metadata={"annotations": "a=b"})),
        "must be of type object",
        "worker.template.metadata.annotations: must be an object",
    ),
    Bad(
        "a label's value without quotes",
        job(lambda spec: role(spec, "worker")["template"].update(metadata={"labels": {"a": 1}})),
        "must be of type string",
        "worker.template.metadata.labels.a: must be a string: put 1 in quotes",
    ),
    Bad(
        "a grace of centuries",
        job(lambda spec: pod(spec, "worker").update(terminationGracePeriodSeconds=10**11)),
        "2147483647",
        "worker.template.spec.terminationGracePeriodSeconds: must be 2147483647 or less",
    ),
    Bad(
        "a template in a thousand levels",
        job(lambda spec: role(spec, "worker")["template"].update(metadata={"x": nest(250)})),
        None,
        "worker.template.metadata.x: is nested deeper than 64 levels, remove it",
    ),
    Bad(
        "a deadline beyond all times",
        job(lambda spec: spec.update(activeDeadlineSeconds=10**12)),
        "2147483647",
        "spec.activeDeadlineSeconds: must be 2147483647 or less",
    ),
]
