"""Who has which field of an object, and what a server-side apply with force makes of it.

As structured-merge-diff has it, which API servers do this with: of one version of a kind. Lists are
what the schema of a kind of ours says; those of all other kinds are taken whole here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from et_kube.resources import Json
from fakes.documents import copy_json

Schema = Mapping[str, Any]
Element = str
"""A step to a field, as FieldsV1 writes it: `f:spec`, `k:{"name":"main"}`, `v:"one"`."""
Path = tuple[Element, ...]
Paths = frozenset[Path]

METADATA: Schema = {
    "properties": {
        "labels": {},
        "annotations": {},
        "generateName": {},
        "finalizers": {"x-kubernetes-list-type": "set"},
        "ownerReferences": {
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["uid"],
            "items": {"x-kubernetes-map-type": "atomic"},
        },
    }
}
"""What anybody has of it: all else is the server's own."""
_NAME = ("f:metadata", "f:name")
_ITSELF = "."
_NOTHING = object()


class Manager(NamedTuple):
    """Who writes, and how: `operation` is Apply or Update."""

    name: str
    operation: str
    subresource: str = ""


Owners = Mapping[Manager, Paths]


@dataclass(frozen=True, slots=True)
class Birth:
    """Who made what, of which all is his: most objects are never asked about."""

    maker: Manager
    document: Json

    def list_owners(self, schema: Schema) -> Owners:
        """The owners of the object's fields: of each the one who has made it."""
        return note_update({}, self.maker, {}, self.document, schema)


class Part(NamedTuple):
    """What is in a map or a list; `is_named` where the schema knows the field by its name."""

    value: Any
    schema: Schema
    is_named: bool


@dataclass(slots=True)
class Changes:
    """What differs between two documents."""

    written: set[Path] = field(default_factory=set)
    """What is new, or has another value."""
    removed: set[Path] = field(default_factory=set)


def build_schema(custom: Schema | None) -> Schema:
    """The schema of a whole object, of what its kind's definition says."""
    known = {**((custom or {}).get("properties") or {}), "metadata": METADATA}
    return {**(custom or {}), "properties": known}


def note_update(owners: Owners, who: Manager, old: Json, new: Json, schema: Schema) -> Owners:
    """Who has what after anything but an apply: the writer what he has changed."""
    changes = compare(strip(old), strip(new), schema)
    if not changes.written and not changes.removed:
        return owners
    lost = changes.written | changes.removed
    left = {other: paths - lost for other, paths in owners.items()}
    left[who] = (owners.get(who, frozenset()) - changes.removed) | changes.written
    return {other: paths for other, paths in left.items() if paths}


def apply(
    owners: Owners, who: Manager, live: Json, config: Json, schema: Schema
) -> tuple[Any, Owners]:
    """The document and its owners when this was applied.

    What the same one has applied before and nobody else has goes.
    """
    mine = frozenset(list_paths(strip(config), schema))
    now = {**owners, who: mine}
    held = name_parents(frozenset({_NAME}).union(*now.values()), schema)
    gone = name_parents(owners.get(who, frozenset()), schema) - held
    new = remove(merge(live, config, schema), gone, schema)
    changes = compare(strip(live), strip(new), schema)
    lost = changes.written | changes.removed
    left = {other: paths if other == who else paths - lost for other, paths in now.items()}
    return new, {other: paths for other, paths in left.items() if paths}


def strip(document: Json) -> dict[str, Any]:
    """What of an object anybody may have; its status is that of those who report it."""
    own = {"apiVersion", "kind", "metadata", "status"}
    left = {k: v for k, v in document.items() if k not in own}
    metadata = document.get("metadata") or {}
    shared = {k: v for k, v in metadata.items() if k in METADATA["properties"]}
    return {**left, "metadata": shared} if shared else left


def list_paths(value: Any, schema: Schema, path: Path = ()) -> Iterator[Path]:
    """What an apply of it has: its leaves, items of lists, and fields that no schema names."""
    parts = split(value, schema) or {}
    for element, part in parts.items():
        inner, place = split(part.value, part.schema), (*path, element)
        if inner is None or not part.is_named or part.value == {}:
            yield place
        yield from list_paths(part.value, part.schema, place)


def compare(old: Any, new: Any, schema: Schema) -> Changes:
    """What differs, with what is above what is new or has gone."""
    changes = Changes()
    _compare(old, new, schema, (), changes)
    changes.written.discard(_NAME[:1])
    changes.removed.discard(_NAME[:1])
    return changes


def _compare(old: Any, new: Any, schema: Schema, path: Path, changes: Changes) -> None:
    was, now = split(old, schema), split(new, schema)
    if old is _NOTHING or new is _NOTHING:
        (changes.written if old is _NOTHING else changes.removed).add(path)
    elif old == new:
        return
    elif (was is None and old is not None) or (now is None and new is not None):
        changes.written.add(path)
        return
    parts = {**(was or {}), **(now or {})}
    for element, part in parts.items():
        before = was[element].value if was and element in was else _NOTHING
        after = now[element].value if now and element in now else _NOTHING
        _compare(before, after, part.schema, (*path, element), changes)


def split(value: Any, schema: Schema) -> dict[Element, Part] | None:
    """Parts of a value, each of which somebody else may have; None of what one has as a whole."""
    if isinstance(value, Mapping) and schema.get("x-kubernetes-map-type") != "atomic":
        return {f"f:{key}": _find_field(key, item, schema) for key, item in value.items()}
    kind = schema.get("x-kubernetes-list-type")
    if isinstance(value, (list, tuple)) and kind in {"map", "set"}:
        items = schema.get("items", {})
        return {_name_item(item, schema): Part(item, items, is_named=False) for item in value}
    return None


def _find_field(key: str, value: Any, schema: Schema) -> Part:
    known, extra = schema.get("properties", {}), schema.get("additionalProperties")
    inner = known.get(key, extra if isinstance(extra, Mapping) else {})
    return Part(value, inner, key in known)


def _name_item(item: Any, schema: Schema) -> Element:
    if schema["x-kubernetes-list-type"] == "set":
        return f"v:{json.dumps(item)}"
    keys = {key: item[key] for key in sorted(schema["x-kubernetes-list-map-keys"]) if key in item}
    return "k:" + json.dumps(keys, separators=(",", ":"))


def name_parents(paths: Paths, schema: Schema) -> Paths:
    """With the fields above them that the schema names."""
    found = set(paths)
    for path in paths:
        inner: Schema = schema
        for index, element in enumerate(path[:-1], start=1):
            if element.startswith("f:"):
                part = _find_field(element[2:], None, inner)
                inner = part.schema
                if part.is_named:
                    found.add(path[:index])
            else:
                inner = inner.get("items", {})
    return frozenset(found)


def merge(live: Any, config: Any, schema: Schema) -> Any:
    """What is there with what is applied in it."""
    was, now = split(live, schema), split(config, schema)
    if was is None or now is None:
        return copy_json(config)
    merged = {}
    for element in _put_in_order(list(was), list(now)):
        if element not in now:
            merged[element] = was[element].value
        elif element not in was:
            merged[element] = copy_json(now[element].value)
        else:
            part = now[element]
            merged[element] = merge(was[element].value, part.value, part.schema)
    return _join(merged, live)


def _put_in_order(live: Sequence[Element], config: Sequence[Element]) -> Iterator[Element]:
    """Keys of the configuration as it has them, each of the others where it was among them."""
    left, applied = list(live), frozenset(config)
    for index, element in enumerate(config):
        following = next((e for e in config[index:] if e in live), None)
        while left and left[0] != following:
            other = left.pop(0)
            if other not in applied:
                yield other
        yield element
        if left and left[0] == element:
            del left[0]
    yield from (other for other in left if other not in applied)


def remove(value: Any, gone: Paths, schema: Schema) -> Any:
    """Without these fields; what has nothing left is null."""
    parts = split(value, schema)
    if not parts or not gone:
        return value
    kept = {}
    for element, part in parts.items():
        if (element,) not in gone:
            inner = frozenset(path[1:] for path in gone if path[0] == element)
            kept[element] = remove(part.value, inner, part.schema)
    return _join(kept, value) if kept else None


def _join(parts: Mapping[Element, Any], like: Any) -> Any:
    if isinstance(like, Mapping):
        return {element[2:]: value for element, value in parts.items()}
    return list(parts.values())


def encode(owners: Owners, api_version: str) -> list[dict[str, Any]]:
    """As `metadata.managedFields`, those who apply first."""
    entries = []
    for who in sorted(owners, key=lambda who: who.operation):
        entry = {
            "manager": who.name,
            "operation": who.operation,
            "apiVersion": api_version,
            "fieldsType": "FieldsV1",
            "fieldsV1": _nest(owners[who]),
        }
        entries.append(entry | ({"subresource": who.subresource} if who.subresource else {}))
    return entries


def _nest(paths: Paths) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for path in sorted(paths, key=lambda path: (-len(path), path)):
        place = tree
        for element in path:
            place = place.setdefault(element, {})
        if place:
            place[_ITSELF] = {}
    return tree


def decode(entries: Sequence[Json]) -> Owners:
    """Of `metadata.managedFields`."""
    return {
        Manager(e["manager"], e["operation"], e.get("subresource", "")): frozenset(
            _flatten(e["fieldsV1"], ())
        )
        for e in entries
    }


def _flatten(tree: Json, path: Path) -> Iterator[Path]:
    for element, inner in tree.items():
        if element == _ITSELF:
            yield path
        elif not inner:
            yield (*path, element)
        else:
            yield from _flatten(inner, (*path, element))
