"""Status objects to JSON and back, read off the model's dataclasses: no field can be forgotten.

Names on the wire are the field names in camelCase, except those in `_WIRE_NAMES`. Nothing is
decided here: what cannot be read is told, and what may still be done then is the caller's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from datetime import datetime
from enum import Enum
from functools import cache, partial
from types import NoneType, UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from et_contract.documents import MAX_WORKERS
from et_contract.pods import MAX_EPOCH, MAX_INDEX
from et_kube.errors import InvalidObject
from et_kube.resources import Json
from et_kube.times import format_time, parse_time
from et_operator.codec.fields import Fields, attempt
from et_operator.model.conditions import Condition
from et_operator.model.statuses import JobStatus, LauncherMove, ReplicaStatuses, ScalingRecord

Status = TypeVar("Status")

_LARGEST = 2**31 - 2**20
"""Of any number there: counters have 32 bits in the CRDs, and there must be room to count on."""
_BOUNDS: dict[tuple[type, str], tuple[int, int]] = {
    (JobStatus, "decided_replicas"): (0, MAX_WORKERS),
    (JobStatus, "last_worker_index"): (-1, MAX_INDEX),
    (JobStatus, "epoch"): (0, MAX_EPOCH),
    (JobStatus, "generation"): (0, _LARGEST),
    (JobStatus, "slowest_drain"): (0, _LARGEST),
    (LauncherMove, "epoch"): (0, MAX_EPOCH),
    (LauncherMove, "row"): (0, MAX_EPOCH),
    (ScalingRecord, "base"): (0, MAX_WORKERS),
    (ScalingRecord, "target"): (0, MAX_WORKERS),
    (ScalingRecord, "final"): (0, MAX_WORKERS),
}
"""Numbers that planning counts up to, or on from: anybody who may edit a job may write them."""
_WIRE_NAMES: dict[tuple[type, str], str] = {
    (ReplicaStatuses, "launcher"): "Launcher",
    (ReplicaStatuses, "worker"): "Worker",
}


def decode_status(kind: type[Status], body: Json) -> tuple[Status, dict[str, str]]:
    """What `body` says, as a `kind`; for each field that cannot be read, why not.

    Such a field, by its name on the wire, has its default. It is for the caller to say what may
    still be done: nobody but an operator writes there, and a job must not fail for what is not its
    author's.
    """
    values: dict[str, Any] = {}
    problems: dict[str, str] = {}
    for name, key, hint, _ in describe_fields(kind):
        if body.get(key) is None:
            continue
        path = f"status.{key}"
        read = partial(_decode_field, kind, name, hint, body[key], path)
        value, problem = attempt(read, path)
        if problem:
            problems[key] = problem
        else:
            values[name] = value
    return kind(**values), problems


def encode_status(status: object) -> dict[str, Any]:
    """A merge-patch body for `status`: every field is named, null for one that has no value.

    Lists are replaced whole by a merge patch, so what has no value in their elements is left out.
    """
    return _encode_object(status, in_list=False)


def describe_fields(kind: type) -> tuple[tuple[str, str, Any, object], ...]:
    """(field name, name on the wire, type, default or MISSING) of each field of a dataclass."""
    return _describe(kind)


@cache
def _describe(kind: Any) -> tuple[tuple[str, str, Any, object], ...]:
    hints = get_type_hints(kind)
    return tuple(
        (field.name, _name_on_wire(kind, field), hints[field.name], field.default)
        for field in fields(kind)
    )


def _name_on_wire(kind: type, field: Field[Any]) -> str:
    first, *rest = field.name.split("_")
    return _WIRE_NAMES.get((kind, field.name), first + "".join(map(str.capitalize, rest)))


def _encode_object(value: object, *, in_list: bool) -> dict[str, Any]:
    body: dict[str, Any] = {}
    for name, key, _, default in describe_fields(type(value)):
        item = getattr(value, name)
        if item is None or (item in ("", ()) and item == default):
            if not in_list:
                body[key] = None
        else:
            body[key] = _encode(item, in_list=in_list)
    return body


def _encode(value: Any, *, in_list: bool) -> Any:
    match value:
        case tuple():
            return [_encode(item, in_list=True) for item in value]
        case datetime():
            return format_time(value)
        case Enum():
            return value.value
        case bool() | int() | float() | str() | Mapping():
            return value
        case _:
            return _encode_object(value, in_list=in_list)


def _decode_field(kind: type, name: str, hint: Any, value: Any, path: str) -> Any:
    found = _decode(hint, value, path)
    least, most = _BOUNDS.get((kind, name), (None, None))
    if least is not None and most is not None and not least <= found <= most:
        raise InvalidObject(path, f"is {found}, which is not within {least} and {most}")
    return found


def _decode(hint: Any, value: Any, path: str) -> Any:
    if isinstance(hint, UnionType):
        [hint] = [arm for arm in get_args(hint) if arm is not NoneType]
    if get_origin(hint) is tuple:
        return _decode_list(get_args(hint)[0], value, path)
    if get_origin(hint) is Mapping:
        return dict(Fields(value, path).body)
    if is_dataclass(hint):
        return _decode_object(hint, value, path)
    return _decode_scalar(hint, value, path)


def _decode_list(hint: Any, value: Any, path: str) -> tuple[Any, ...]:
    if not isinstance(value, list):
        raise InvalidObject(path, "is not a list")
    if hint is Condition:
        return tuple(c for item in value if (c := _read_condition(item)) is not None)
    return tuple(_decode(hint, item, f"{path}[{i}]") for i, item in enumerate(value))


def _read_condition(body: Any) -> Condition | None:
    """A condition of whoever wrote it: only type and status must be there, as in the CRD.

    It is nobody's decision that such a one has no reason, so it damages no status; one without type
    or status says nothing, and is left out.
    """
    if not isinstance(body, Mapping):
        return None
    kind, status = body.get("type"), body.get("status")
    if not isinstance(kind, str) or not isinstance(status, str):
        return None
    reason, message, generation = map(body.get, ("reason", "message", "observedGeneration"))
    return Condition(
        type=kind,
        status=status,
        reason=reason if isinstance(reason, str) else "",
        message=message if isinstance(message, str) else "",
        last_transition_time=parse_time(body.get("lastTransitionTime")),
        observed_generation=generation if type(generation) is int else None,
    )


def _decode_object(kind: Any, body: Any, path: str) -> Any:
    if not isinstance(body, Mapping):
        raise InvalidObject(path, "is not an object")
    values: dict[str, Any] = {}
    for name, key, hint, default in describe_fields(kind):
        if body.get(key) is not None:
            values[name] = _decode_field(kind, name, hint, body[key], f"{path}.{key}")
        elif isinstance(hint, UnionType):
            values[name] = None
        elif default is MISSING and not _has_factory(kind, name):
            raise InvalidObject(f"{path}.{key}", "is missing")
    return kind(**values)


@cache
def _has_factory(kind: Any, name: str) -> bool:
    return any(f.name == name and f.default_factory is not MISSING for f in fields(kind))


def _decode_scalar(hint: Any, value: Any, path: str) -> Any:
    if hint is datetime:
        moment = parse_time(value) if isinstance(value, str) else None
        if moment is None:
            raise InvalidObject(path, "is not a time")
        return moment
    if issubclass(hint, Enum):
        try:
            return hint(value)
        except ValueError as error:
            raise InvalidObject(path, f"is {value!r}, which is unknown") from error
    if isinstance(value, int) and not -_LARGEST <= value <= _LARGEST:
        raise InvalidObject(path, "is larger than any number there")
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, hint) or (hint is int and isinstance(value, bool)):
        raise InvalidObject(path, f"is not of type {hint.__name__}")
    return value
