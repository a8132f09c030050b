"""JSON objects as the API server treats them: copies and merge patches.

Pure. Nothing that is given is changed, and what
`copy_` gives nobody else holds.
"""

from __future__ import annotations

import marshal
from collections.abc import Mapping
from typing import Any

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
