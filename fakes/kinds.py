"""What the server knows about each kind: subresources, what a creator must give, what is immutable.

Only what the operator can run into; the contract tests hold each line against a real server.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Any

from et_kube.errors import NotFound, Refused
from et_kube.resources import CONFIG_MAPS, GROUP, NODES, PODS, Ref, Resource
from fakes.documents import copy_json, copy_stored
from fakes.ownership import build_schema as build_whole_schema
from fakes.schemas import Schema, admit, find_definition, find_faults

Document = dict[str, Any]

DEFAULT_GRACE_SECONDS = 30
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?")
_ANY_AMOUNT = {"x-kubernetes-int-or-string": True}
_TEXT = {"type": "string", "nullable": True}
_TEXTS = {"type": "object", "nullable": True, "additionalProperties": _TEXT}
_OWNER = {
    "type": "object",
    "properties": dict.fromkeys(("apiVersion", "kind", "name", "uid"), _TEXT)
    | {key: {"type": "boolean", "nullable": True} for key in ("controller", "blockOwnerDeletion")},
}
_METADATA = {
    "type": "object",
    "properties": dict.fromkeys(("name", "generateName", "namespace", "uid"), _TEXT)
    | dict.fromkeys(("resourceVersion", "creationTimestamp", "deletionTimestamp"), _TEXT)
    | {"labels": _TEXTS, "annotations": _TEXTS, "generation": {"type": "integer"}}
    | {"finalizers": {"type": "array", "nullable": True, "items": _TEXT}}
    | {"ownerReferences": {"type": "array", "nullable": True, "items": _OWNER}},
}
"""The types of what this server reads of ObjectMeta."""
_FLAG = {"type": "boolean", "nullable": True}
_NUMBER = {"type": "integer", "nullable": True}
_NAMED = {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}}


def _list(items: Schema) -> Schema:
    return {"type": "array", "nullable": True, "items": items}


def _object(**properties: Schema) -> Schema:
    return {"type": "object", "nullable": True, "properties": properties}


_AMOUNTS = {"type": "object", "nullable": True, "additionalProperties": _ANY_AMOUNT}
_CONTAINER = {
    "type": "object",
    "properties": {
        **{key: _list(_TEXT) for key in ("command", "args")},
        **{key: _list(_NAMED) for key in ("env", "volumeDevices", "volumeMounts")},
        **{key: _list(_object()) for key in ("envFrom", "ports")},
        **dict.fromkeys(("name", "image", "imagePullPolicy", "workingDir"), _TEXT),
        **dict.fromkeys(("stdin", "stdinOnce", "tty"), _FLAG),
        **{key: _object() for key in ("lifecycle", "livenessProbe", "securityContext")},
        "resources": _object(limits=_AMOUNTS, requests=_AMOUNTS, claims=_list(_object())),
    },
}
_POD = _object(
    **{key: _list(_CONTAINER) for key in ("containers", "initContainers")},
    **{key: _list(_object()) for key in ("imagePullSecrets", "tolerations", "hostAliases")},
    **dict.fromkeys(("hostIPC", "hostNetwork", "hostPID", "shareProcessNamespace"), _FLAG),
    **dict.fromkeys(("nodeName", "serviceAccountName", "schedulerName", "hostname"), _TEXT),
    **dict.fromkeys(("activeDeadlineSeconds", "terminationGracePeriodSeconds"), _NUMBER),
    **{key: _object() for key in ("affinity", "dnsConfig", "securityContext")},
    volumes=_list(_NAMED),
    nodeSelector=_TEXTS,
)
"""The types of the best known fields of a pod's spec; what is not here is believed."""
_SOURCES = {
    "configMap": "name",
    "hostPath": "path",
    "persistentVolumeClaim": "claimName",
    "secret": "secretName",
}
"""What a volume of each type must name."""
_MAX_NAME = 253
_MAX_LABEL = 63


def is_custom(resource: Resource) -> bool:
    """Whether a CustomResourceDefinition describes it."""
    return resource.group == GROUP


def has_status_subresource(resource: Resource) -> bool:
    """Whether writes to the object itself leave its status alone."""
    return is_custom(resource) or resource in {PODS, NODES}


def has_generation(resource: Resource) -> bool:
    """Whether the server counts changes of what the author asked for."""
    return is_custom(resource) or resource == PODS


def invalid(ref: Ref, fault: str) -> Refused:
    """The server's answer to an object that it will not store."""
    return Refused(422, "Invalid", f'{ref.resource.kind} "{ref.name}" is invalid: {fault}')


def shape(ref: Ref, document: Document) -> Document:
    """The document as it will be stored: pruned, with defaults; raises Refused (422)."""
    definition = find_definition(ref.resource)
    if definition is None:
        return document
    shaped, faults = admit(document, definition["schema"]["openAPIV3Schema"])
    if faults:
        raise invalid(ref, "; ".join(fault.lstrip(".") for fault in faults))
    return shaped  # type: ignore[no-any-return]


@cache
def build_schema(resource: Resource) -> Schema:
    """Of whole objects, as far as it says what of them people may share."""
    definition = find_definition(resource)
    return build_whole_schema(definition["schema"]["openAPIV3Schema"] if definition else None)


def read_metadata(resource: Resource, document: Document) -> Document:
    """The metadata of a manifest, without its nulls; raises Refused (400) for wrong types."""
    metadata = document.get("metadata") or {}
    faults = list(find_faults(metadata, _METADATA, "metadata"))
    if faults:
        raise Refused(400, "BadRequest", f"{resource.kind} cannot be handled: {faults[0]}")
    return {key: value for key, value in metadata.items() if value is not None}


def validate_metadata(ref: Ref, metadata: Mapping[str, Any]) -> None:
    """Names and labels that no server takes; raises Refused (422)."""
    if len(ref.name) > _MAX_NAME or not _SUBDOMAIN.fullmatch(ref.name):
        raise invalid(ref, f'metadata.name: Invalid value: "{ref.name}"')
    for key, value in (metadata.get("labels") or {}).items():
        if not isinstance(value, str):
            raise Refused(400, "BadRequest", f"metadata.labels: {key} is not a string")
        if len(value) > _MAX_LABEL or not _LABEL_VALUE.fullmatch(value):
            raise invalid(ref, f'metadata.labels: Invalid value: "{value}"')
    for owner in metadata.get("ownerReferences") or ():
        missing = [k for k in ("apiVersion", "kind", "name", "uid") if not owner.get(k)]
        if missing:
            raise invalid(ref, f"metadata.ownerReferences.{missing[0]}: Required value")
    controllers = [o for o in metadata.get("ownerReferences") or () if o.get("controller")]
    if len(controllers) > 1:
        raise invalid(ref, "metadata.ownerReferences: Only one reference can have Controller set")


def prepare_create(ref: Ref, document: Document) -> Document:
    """What a newly created object looks like before it gets its identity; raises Refused."""
    if has_status_subresource(ref.resource):
        document.pop("status", None)
    if ref.resource == PODS:
        _prepare_pod(ref, document)
    _validate_keys(ref, document)
    return shape(ref, document)


def prepare_update(ref: Ref, old: Document, new: Document) -> Document:
    """What an update of the object itself may change; raises Refused (422)."""
    if has_status_subresource(ref.resource):
        new.pop("status", None)
        if "status" in old:
            new["status"] = copy_json(old["status"])
    if ref.resource == PODS and _without_mutable(old) != _without_mutable(new):
        raise invalid(ref, "spec: Forbidden: pod updates may not change fields other than ...")
    if ref.resource == CONFIG_MAPS and old.get("immutable"):
        for field in ("data", "binaryData", "immutable"):
            if old.get(field) != new.get(field):
                raise invalid(ref, f"{field}: Forbidden: field is immutable")
    _validate_keys(ref, new)
    return shape(ref, new)


def _validate_keys(ref: Ref, document: Document) -> None:
    both = set(document.get("data") or ()) & set(document.get("binaryData") or ())
    if ref.resource == CONFIG_MAPS and both:
        raise invalid(
            ref, f"data[{min(both)}]: Invalid value: duplicate of key present in binaryData"
        )


def prepare_status_update(ref: Ref, old: Document, new: Document) -> Document:
    """What an update of the status subresource changes: the status; raises NotFound, Refused."""
    if not has_status_subresource(ref.resource):
        raise NotFound(404, "NotFound", "the server could not find the requested resource")
    result = copy_stored(old)
    result.pop("status", None)
    if "status" in new:
        result["status"] = copy_json(new["status"])
    if ref.resource in {PODS, NODES}:
        for field in ("labels", "annotations", "finalizers"):
            if field in new["metadata"]:
                result["metadata"][field] = copy_json(new["metadata"][field])
    return shape(ref, result)


def is_asked_for_the_same(old: Document, new: Document) -> bool:
    """Whether nothing but metadata and status differs: the generation stays then."""
    drop = {"metadata", "status", "apiVersion", "kind"}
    return {k: v for k, v in old.items() if k not in drop} == {
        k: v for k, v in new.items() if k not in drop
    }


def find_scale_path(ref: Ref) -> list[str]:
    """Where the scale subresource writes the number of replicas; raises NotFound."""
    definition = find_definition(ref.resource) or {}
    scale = definition.get("subresources", {}).get("scale")
    if scale is None:
        raise NotFound(404, "NotFound", "the server could not find the requested resource")
    return [part for part in scale["specReplicasPath"].split(".") if part]


def choose_grace_seconds(document: Document, asked: int | None) -> int:
    """How long a deletion of this object waits for its end: pods only, and only once placed."""
    if document["kind"] != PODS.kind:
        return 0
    spec = document.get("spec", {})
    if not spec.get("nodeName"):
        return 0
    if document.get("status", {}).get("phase") in {"Succeeded", "Failed"}:
        return 0
    if asked is not None:
        return asked
    return int(spec.get("terminationGracePeriodSeconds", DEFAULT_GRACE_SECONDS))


def _prepare_pod(ref: Ref, document: Document) -> None:
    spec = document.get("spec") or {}
    faults = list(find_faults(spec, _POD, "spec"))
    if faults:
        raise Refused(400, "BadRequest", f"Pod in version v1 cannot be handled: {faults[0]}")
    if not spec.get("containers"):
        raise invalid(ref, "spec.containers: Required value")
    for part in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(part) or ()):
            for field in ("name", "image"):
                if not container.get(field):
                    raise invalid(ref, f"spec.{part}[{index}].{field}: Required value")
    _validate_volumes(ref, spec)
    spec.setdefault("terminationGracePeriodSeconds", DEFAULT_GRACE_SECONDS)
    if spec["terminationGracePeriodSeconds"] < 0:
        spec["terminationGracePeriodSeconds"] = 1  # as the API server does
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("schedulerName", "default-scheduler")
    document["status"] = {"phase": "Pending", "qosClass": "BestEffort"}


def _validate_volumes(ref: Ref, spec: Document) -> None:
    for index, volume in enumerate(spec.get("volumes") or ()):
        for source, field in _SOURCES.items():
            if volume.get(source) is not None and not volume[source].get(field):
                path = f"spec.volumes[{index}].{source}.{field}"
                raise invalid(ref, f"{path}: Required value")


def _without_mutable(document: Document) -> Document:
    spec = copy_json(document.get("spec", {}))
    for field in ("activeDeadlineSeconds", "tolerations", "terminationGracePeriodSeconds"):
        spec.pop(field, None)
    for container in (*spec.get("containers", ()), *spec.get("initContainers", ())):
        container.pop("image", None)
    return spec  # type: ignore[no-any-return]
