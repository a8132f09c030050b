"""JSON objects as the API server treats them: copies, merge patches, JSON patches.

Pure, but for Refused where a server would refuse. Nothing that is given is changed, and what
`copy_` gives nobody else holds.
"""

from __future__ import annotations

import marshal
from collections.abc import Mapping
from typing import Any

from et_kube.errors import Refused

SCALARS = frozenset({str, int, float, bool, type(None)})


def copy_json(value: Any) -> Any:
    """A deep copy of JSON, so that nobody's changes reach the store."""
    kind = type(value)
    if kind in SCALARS:
        return value
    if kind is dict:
        return {key: copy_json(item) for key, item in value.items()}
    if isinstance(value, Mapping):
        return {str(key): copy_json(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [copy_json(item) for item in value]
    if isinstance(value, (str, int, float)):  # an enum is a str too
        return value
    raise TypeError(f"not JSON: {value!r}")


def copy_stored(document: Any) -> Any:
    """A copy of what copy_json has made: plain, so that a tenth of the time will do."""
    return marshal.loads(marshal.dumps(document))  # noqa: S302 (our own bytes)


def merge_patch(target: Any, patch: Any) -> Any:
    """RFC 7396; the target is not changed."""
    if not isinstance(patch, Mapping):
        return copy_json(patch)
    result = dict(target) if isinstance(target, Mapping) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge_patch(result.get(key), value)
    return result


def json_patch(target: Any, operations: list[Any]) -> Any:
    """RFC 6902 without move and copy; raises Refused as the server does (422)."""
    document = copy_json(target)
    for operation in operations:
        document = _apply_operation(document, operation)
    return document


def _apply_operation(document: Any, operation: Mapping[str, Any]) -> Any:
    parts = [p.replace("~1", "/").replace("~0", "~") for p in operation["path"].split("/")[1:]]
    if not parts:
        raise Refused(422, "Invalid", "a patch of the whole document is not supported here")
    parent = document
    for part in parts[:-1]:
        parent = _step(parent, part)
    key = parts[-1]
    match operation["op"]:
        case "test":
            if _step(parent, key) != operation["value"]:
                raise Refused(422, "Invalid", f"testing path {operation['path']} failed")
        case "add":
            _add(parent, key, copy_json(operation["value"]))
        case "replace":
            _step(parent, key)
            parent[int(key) if isinstance(parent, list) else key] = copy_json(operation["value"])
        case "remove":
            _step(parent, key)
            del parent[int(key) if isinstance(parent, list) else key]
        case other:
            raise Refused(400, "BadRequest", f"unexpected kind of operation: {other}")
    return document


def _step(parent: Any, key: str) -> Any:
    try:
        return parent[int(key)] if isinstance(parent, list) else parent[key]
    except (KeyError, IndexError, ValueError, TypeError) as error:
        raise Refused(422, "Invalid", f"the path {key} does not exist") from error


def _add(parent: Any, key: str, value: Any) -> None:
    if isinstance(parent, list):
        parent.insert(len(parent) if key == "-" else int(key), value)
    else:
        parent[key] = value
