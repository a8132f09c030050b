"""What a pass was given, as one line of JSON, and back: a report of a defect is a file of them.

Fields that have their default are left out, and each shape is there once: a line is as long as what
is known, not as all who have it. All that has a name may be called by a hash of it: such a line is
decided in the same way, for what names decide is decided by their order.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass
from enum import StrEnum
from functools import cache
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints

from et_contract.texts import parse_json
from et_scheduler.model.cluster import Cluster
from et_scheduler.model.jobs import Job
from et_scheduler.model.queues import Queue
from et_scheduler.model.rules import Rules
from et_scheduler.model.shapes import Shape

MAX_LINE = 2**28
PLAIN = frozenset({"requests", "allocatable", "taken", "amounts", "limits", "ports", "host_ports"})
PLAIN |= {"order", "unproven"}
"""Fields that name resources, ports, and what is called the same in every cluster."""
_SHAPES = "shapes"
"""Beside the arguments: the shapes, which a number stands for everywhere else in the line."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The arguments of `decide`."""

    cluster: Cluster
    queues: tuple[Queue, ...]
    jobs: tuple[Job, ...]
    now: int
    rules: Rules = field(default_factory=Rules)


def encode_snapshot(snapshot: Snapshot, hash_name: Callable[[str], str] | None = None) -> str:
    """One line, without its end; with hashes there are no names in it."""
    rename = str if hash_name is None else _hide(snapshot, hash_name)
    return json.dumps(_pack_all(snapshot, rename), separators=(",", ":"))


def decode_snapshot(line: str) -> Snapshot:
    """Raises ValueError for what is no snapshot."""
    try:
        body = parse_json(line, MAX_LINE)
        shapes = [_unpack(Shape, one, ()) for one in body.pop(_SHAPES, ())]
        found: Snapshot = _unpack(Snapshot, body, shapes)
    except (LookupError, TypeError, AttributeError) as error:
        raise ValueError(f"not a snapshot: {type(error).__name__}: {error}") from error
    return found


def _hide(snapshot: Snapshot, hash_name: Callable[[str], str]) -> Callable[[str], str]:
    """What names are called: their place among all that are in the line, and their hash.

    Nothing stays nothing, and numbers stay: nodes are compared by them.
    """
    names = set[str]()

    def note(name: str) -> str:
        names.add(name)
        return name

    _pack_all(snapshot, note)
    hidden = {
        name: name if not name or _is_number(name) else f"{place:07}-{hash_name(name)}"
        for place, name in enumerate(sorted(names))
    }
    return hidden.__getitem__


def _is_number(text: str) -> bool:
    try:
        int(text)
    except ValueError:
        return False
    return True


def _pack_all(snapshot: Snapshot, rename: Callable[[str], str]) -> dict[str, Any]:
    shapes: dict[Shape, int] = {}
    body: dict[str, Any] = _pack(snapshot, rename, shapes)
    return body | {_SHAPES: [_pack_fields(one, rename, shapes) for one in shapes]}


def _pack(value: Any, rename: Callable[[str], str], shapes: dict[Shape, int]) -> Any:
    if isinstance(value, Shape):
        return shapes.setdefault(value, len(shapes))
    if is_dataclass(value):
        return _pack_fields(value, rename, shapes)
    if isinstance(value, Mapping):
        return {rename(key): _pack(held, rename, shapes) for key, held in value.items()}
    if isinstance(value, tuple):
        return [_pack(item, rename, shapes) for item in value]
    if isinstance(value, frozenset):
        return sorted(map(rename, value))
    is_text = isinstance(value, str) and not isinstance(value, StrEnum)
    return rename(value) if is_text else value


def _pack_fields(
    value: Any, rename: Callable[[str], str], shapes: dict[Shape, int]
) -> dict[str, Any]:
    pairs = ((one, getattr(value, one.name)) for one in fields(value) if one.init)
    return {
        one.name: _pack(held, str if one.name in PLAIN else rename, shapes)
        for one, held in pairs
        if held != _find_default(one)
    }


def _find_default(one: Field[Any]) -> Any:
    return one.default if one.default_factory is MISSING else one.default_factory()


def _unpack(hint: Any, body: Any, shapes: Sequence[Shape]) -> Any:
    """The value of this type; the types are those of the model, whose fields know nothing else."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin is UnionType:
        some = next(one for one in inner if one is not NoneType)
        return None if body is None else _unpack(some, body, shapes)
    if origin is tuple:
        kinds = inner[:1] * len(body) if inner[-1] is Ellipsis else inner
        return tuple(_unpack(kind, item, shapes) for kind, item in zip(kinds, body, strict=True))
    if origin is frozenset and isinstance(body, list):
        return frozenset(str(item) for item in body)
    if origin is Mapping:
        return {str(key): _unpack(inner[1], item, shapes) for key, item in body.items()}
    if is_dataclass(hint):
        return _unpack_fields(hint, body, shapes)
    if issubclass(hint, StrEnum):
        return hint(body)
    if type(body) is not hint:
        raise TypeError(f"{body!r} is no {hint.__name__}")
    return body


def _unpack_fields(hint: Any, body: Any, shapes: Sequence[Shape]) -> Any:
    if hint is Shape and type(body) is int:
        return shapes[body]
    known = _find_kinds(hint)
    return hint(**{key: _unpack(known[key], item, shapes) for key, item in body.items()})


@cache
def _find_kinds(hint: Any) -> Mapping[str, Any]:
    kinds = get_type_hints(hint)
    return {one.name: kinds[one.name] for one in fields(hint) if one.init}
