"""What an API server does with a custom resource and its structural schema, without CEL.

Unknown fields are pruned, defaults filled in, and what does not fit is refused: a status field that
the schema does not know disappears here as it would in a real cluster. What is handed in is never
changed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from et_kube.resources import Resource
from fakes.documents import copy_json

CRDS = Path(__file__).resolve().parents[1] / "crds"
Schema = Mapping[str, Any]

_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
}


@cache
def load_definitions(folder: Path = CRDS) -> Mapping[tuple[str, str], Schema]:
    """(group, plural) -> the version entry of each CustomResourceDefinition in `folder`."""
    found: dict[tuple[str, str], Schema] = {}
    for path in sorted(folder.glob("*.yaml")):
        for document in yaml.safe_load_all(path.read_text(encoding="utf-8")):
            if document and document.get("kind") == "CustomResourceDefinition":
                spec = document["spec"]
                found[spec["group"], spec["names"]["plural"]] = spec["versions"][0]
    return found


def find_definition(resource: Resource) -> Schema | None:
    """The version entry of a kind of ours; None for every other kind."""
    return load_definitions().get((resource.group, resource.plural))


def admit(document: Any, schema: Schema) -> tuple[Any, list[str]]:
    """The document pruned and with defaults, and what is wrong with it."""
    top = {**schema, "properties": dict(schema.get("properties", {}))}
    for own in ("apiVersion", "kind", "metadata"):
        top["properties"][own] = {"x-kubernetes-preserve-unknown-fields": True}
    shaped = _shape(copy_json(document), top)
    return shaped, list(find_faults(shaped, top, ""))


def _shape(value: Any, schema: Schema) -> Any:
    if isinstance(value, dict):
        return _shape_object(value, schema)
    if isinstance(value, list) and "items" in schema:
        return [_shape(item, schema["items"]) for item in value]
    return value


def _shape_object(value: dict[str, Any], schema: Schema) -> dict[str, Any]:
    known: Mapping[str, Schema] = schema.get("properties", {})
    extra = schema.get("additionalProperties")
    keep = schema.get("x-kubernetes-preserve-unknown-fields", False) or extra is True
    result: dict[str, Any] = {}
    for key, item in value.items():
        inner = known.get(key, extra if isinstance(extra, Mapping) else None)
        if inner is None:
            if keep or (schema.get("x-kubernetes-embedded-resource") and key in _EMBEDDED):
                result[key] = item
        elif item is None and "type" in inner and not inner.get("nullable"):
            continue  # as if it were not there; a default takes its place
        else:
            result[key] = _shape(item, inner)
    for key, inner in known.items():
        if key not in result and "default" in inner:
            result[key] = _shape(copy_json(inner["default"]), inner)
    return result


_EMBEDDED = {"apiVersion", "kind", "metadata"}


def find_faults(value: Any, schema: Schema, path: str) -> Iterator[str]:
    """What is wrong with a value, a sentence each that begins with the place."""
    if value is None and schema.get("nullable"):
        return
    if schema.get("x-kubernetes-int-or-string"):
        if isinstance(value, bool) or not isinstance(value, (int, str)):
            yield f"{path}: must be an integer or a string"
        return
    kind = schema.get("type")
    if kind is not None and not _is_of(value, kind):
        yield f'{path}: Invalid value: in body must be of type {kind}: "{type(value).__name__}"'
        return
    yield from _find_limit_faults(value, schema, path)
    if isinstance(value, dict):
        yield from _find_object_faults(value, schema, path)
    if isinstance(value, list) and "items" in schema:
        for index, item in enumerate(value):
            yield from find_faults(item, schema["items"], f"{path}[{index}]")


def _is_of(value: Any, kind: str) -> bool:
    if isinstance(value, bool):
        return kind == "boolean"
    if kind == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, _TYPES[kind])


def _find_object_faults(value: dict[str, Any], schema: Schema, path: str) -> Iterator[str]:
    for key in schema.get("required", ()):
        if key not in value:
            yield f"{path}.{key}: Required value"
    known: Mapping[str, Schema] = schema.get("properties", {})
    extra = schema.get("additionalProperties")
    for key, item in value.items():
        inner = known.get(key, extra if isinstance(extra, Mapping) else None)
        if inner is not None:
            yield from find_faults(item, inner, f"{path}.{key}")


def _find_limit_faults(value: Any, schema: Schema, path: str) -> Iterator[str]:
    if "enum" in schema and value not in schema["enum"]:
        yield f'{path}: Unsupported value: "{value}"'
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        if value < schema.get("minimum", value):
            yield f"{path}: Invalid value: {value}: should be >= {schema['minimum']}"
        if value > schema.get("maximum", value):
            yield f"{path}: Invalid value: {value}: should be <= {schema['maximum']}"
    if isinstance(value, str):
        yield from _find_text_faults(value, schema, path)
    for kind, least, most in (
        (list, "minItems", "maxItems"),
        (dict, "minProperties", "maxProperties"),
    ):
        if isinstance(value, kind) and not _is_within(len(value), schema, least, most):
            yield f"{path}: Invalid value: {len(value)} entries"


def _find_text_faults(value: str, schema: Schema, path: str) -> Iterator[str]:
    if not _is_within(len(value), schema, "minLength", "maxLength"):
        yield f"{path}: Invalid value: {len(value)} characters"
    if "pattern" in schema and not re.search(schema["pattern"], value):
        yield f"{path}: Invalid value: does not match {schema['pattern']}"


def _is_within(size: int, schema: Schema, least: str, most: str) -> bool:
    return bool(schema.get(least, size) <= size <= schema.get(most, size))
