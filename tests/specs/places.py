"""Where an author may write: every field of our schemas, and what a pod may have where they end."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from et_kube.resources import TRAINING_JOBS, Resource
from fakes.schemas import Schema, find_definition

Path = tuple[str | int, ...]

_METADATA = (
    *("name", "generateName", "namespace", "uid", "labels", "labels a", "annotations"),
    *("annotations a", "annotations kai.alibabacloud.com/launcher", "finalizers", "finalizers 0"),
    *("ownerReferences", "ownerReferences 0 uid", "deletionTimestamp", "generation"),
    *("annotations job-supervisor.kube-ai.io/job-suspended", "labels training-job-name"),
    *("labels group-name", "annotations arena.kubeflow.org/ssh-secret", "managedFields"),
)
_POD = (
    *("activeDeadlineSeconds", "affinity", "affinity nodeAffinity", "automountServiceAccountToken"),
    *("containers", "containers 0", "containers 1", "dnsConfig", "dnsPolicy", "enableServiceLinks"),
    *("ephemeralContainers", "hostAliases", "hostIPC", "hostNetwork", "hostPID", "hostUsers"),
    *("hostname", "imagePullSecrets", "imagePullSecrets 0", "initContainers", "initContainers 0"),
    *("nodeName", "nodeSelector", "nodeSelector a", "os", "overhead", "preemptionPolicy"),
    *("priority", "priorityClassName", "readinessGates", "resourceClaims", "restartPolicy"),
    *("runtimeClassName", "schedulerName", "schedulingGates", "serviceAccount"),
    *("securityContext", "securityContext runAsUser", "securityContext fsGroup", "subdomain"),
    *("serviceAccountName", "shareProcessNamespace", "terminationGracePeriodSeconds"),
    *("tolerations", "tolerations 0", "topologySpreadConstraints", "volumes", "volumes 0"),
    *("volumes 0 name", "volumes 0 configMap", "volumes 0 projected", "unheardOf"),
)  # fmt: skip
_CONTAINER = (
    *("args", "args 0", "args 1", "command", "command 0", "command 1", "env", "env 0"),
    *("env 0 name", "env 0 value", "env 0 valueFrom", "envFrom", "envFrom 0", "image"),
    *("imagePullPolicy",),
    *("lifecycle", "lifecycle preStop", "livenessProbe", "name", "ports", "ports 0 containerPort"),
    *("readinessProbe", "resources", "resources limits", "resources limits nvidia.com/gpu"),
    *("resources limits cpu", "resources requests", "resources claims", "restartPolicy"),
    *("restartPolicyRules", "restartPolicyRules 0 action"),
    *("securityContext", "securityContext privileged", "startupProbe", "stdin", "tty"),
    *("terminationMessagePath", "terminationMessagePolicy", "volumeDevices", "volumeMounts"),
    *("volumeMounts 0", "volumeMounts 0 mountPath", "volumeMounts 0 name", "workingDir"),
    *("unheardOf",),
)  # fmt: skip
_TEMPLATE = ("metadata", *(f"metadata {place}" for place in _METADATA), "spec", "unheardOf")


@cache
def list_places(resource: Resource, part: str) -> tuple[Path, ...]:
    """Every place of a kind below `spec`, `status` or `metadata`, the part itself included."""
    if part == "metadata":
        return (("metadata",), *(("metadata", *_split(place)) for place in _METADATA))
    typed = tuple(_walk(find_schema(resource)["properties"][part], (part,)))
    if resource != TRAINING_JOBS or part != "spec":
        return typed
    return (*typed, *_list_untyped())


def _list_untyped() -> Iterator[Path]:
    for role in ("launcher", "worker"):
        template: Path = ("spec", "etReplicaSpecs", role, "template")
        for place in _TEMPLATE:
            yield (*template, *_split(place))
        for place in _POD:
            yield (*template, "spec", *_split(place))
        for place in _CONTAINER:
            yield (*template, "spec", "containers", 0, *_split(place))


def find_schema(resource: Resource) -> Schema:
    """The openAPIV3Schema of a kind of ours."""
    definition = find_definition(resource)
    assert definition is not None, f"{resource.kind} is no kind of ours"
    schema: Schema = definition["schema"]["openAPIV3Schema"]
    return schema


def _walk(schema: Schema, path: Path) -> Iterator[Path]:
    yield path
    for key, inner in schema.get("properties", {}).items():
        yield from _walk(inner, (*path, key))
    if "items" in schema:
        yield from _walk(schema["items"], (*path, 0))


def _split(place: str) -> Path:
    return tuple(int(word) if word.isdecimal() else word for word in place.split(" "))


def put(document: Any, path: Path, value: Any) -> Any:
    """The document with a value at this place; what is not there on the way to it is made."""
    if not path:
        return value
    key, *rest = path
    if isinstance(key, int):
        items = list(document) if isinstance(document, list) else []
        items += [{} for _ in range(key + 1 - len(items))]
        items[key] = put(items[key], tuple(rest), value)
        return items
    fields = dict(document) if isinstance(document, Mapping) else {}
    fields[key] = put(fields.get(key), tuple(rest), value)
    return fields


def show(path: Path) -> str:
    """As people write it: spec.containers[0].name."""
    words = (f"[{key}]" if isinstance(key, int) else f".{key}" for key in path)
    return "".join(words).removeprefix(".")


# ---------------------------------------------------------------- values that fit
def sample(schema: Schema, dice: random.Random) -> Any:
    """A value that this schema takes; each optional field is there or not."""
    if "enum" in schema:
        return dice.choice(schema["enum"])
    match schema.get("type"):
        case "object":
            return _sample_object(schema, dice)
        case "array":
            return [sample(schema["items"], dice) for _ in range(dice.choice((0, 1, 1, 2)))]
        case "integer" | "number":
            least, most = schema.get("minimum", 0), schema.get("maximum", 2**31 - 1)
            return dice.choice((least, least + 1, min(least + 30, most), most))
        case "boolean":
            return dice.random() < 0.5
        case _:
            return _sample_text(schema, dice)


def _sample_object(schema: Schema, dice: random.Random) -> dict[str, Any]:
    required = schema.get("required", ())
    return {
        key: sample(inner, dice)
        for key, inner in schema.get("properties", {}).items()
        if key in required or dice.random() < 0.5
    }


def _sample_text(schema: Schema, dice: random.Random) -> str:
    if schema.get("format") == "date-time":
        return dice.choice(("2026-01-01T00:00:00Z", "2026-11-22T07:00:00Z"))
    least, most = schema.get("minLength", 0), schema.get("maxLength", 300)
    return dice.choice(("a" * max(least, 1), "train-worker-0"[:most], "a" * most))
