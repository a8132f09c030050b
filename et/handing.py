"""What came with a job becomes what is applied to it, so that an update can take it away.

Of a server-side apply that goes which its manager alone has *applied* before. What he created is an
`Update` of his, which stays when it is gone from the file: a renamed container would be two.
As client-go's csaupgrade does it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any

from et.clusters import WRITING
from et.scripts import ANNOTATION
from et_kube.resources import TRAINING_JOBS, Json
from et_operator.model.names import ANNOTATION_RENEWED

Fields = Mapping[str, Any]
"""A FieldsV1: names with what is below them; `.` is who has the field itself as well."""
ITSELF = "."
STAYING = (
    ("f:metadata", "f:annotations", f"f:{ANNOTATION}"),
    ("f:metadata", "f:annotations", f"f:{ANNOTATION_RENEWED}"),
    ("f:spec", "f:suspend"),
)
"""What commands write that have no file: no file takes it away."""


def hand_over(entries: Sequence[Json]) -> list[Json] | None:
    """The managedFields with what `et` has written as what it applied; None where that is so."""
    written = [entry for entry in entries if _is_ours(entry, "Update")]
    given: Fields = {}
    staying: Fields = {}
    for entry in written:
        rest, kept = _part(entry.get("fieldsV1") or {})
        given, staying = _unite(given, rest), _unite(staying, kept)
    if not given:
        return None
    applied = next((entry for entry in entries if _is_ours(entry, "Apply")), None)
    whole = _unite(given, (applied or {}).get("fieldsV1") or {})
    others = [entry for entry in entries if entry not in written and entry != applied]
    first = {**(applied or written[0]), "operation": "Apply", "fieldsV1": whole}
    return [first, *others, *([{**written[0], "fieldsV1": staying}] if staying else [])]


def _is_ours(entry: Json, operation: str) -> bool:
    """Of the version that is written now, and of the job itself: not of its scale or status."""
    return (
        entry.get("manager") == WRITING["fieldManager"]
        and entry.get("operation") == operation
        and entry.get("apiVersion") == TRAINING_JOBS.api_version
        and not entry.get("subresource")
    )


def _part(fields: Fields) -> tuple[Fields, Fields]:
    """Without what stays, and that."""
    rest: dict[str, Any] = deepcopy(dict(fields))
    staying: Fields = {}
    for path in STAYING:
        if _take(rest, path):
            kept: Fields = {}
            for name in reversed(path):
                kept = {name: kept}
            staying = _unite(staying, kept)
    return rest, staying


def _take(fields: dict[str, Any], path: Sequence[str]) -> bool:
    """Take it out; what has nothing below it any more was there for its sake alone."""
    name, *deeper = path
    if name not in fields:
        return False
    if deeper and not _take(fields[name], deeper):
        return False
    if not deeper or not fields[name]:
        del fields[name]
    return True


def _unite(one: Fields, other: Fields) -> Fields:
    if not one or not other:
        return one or other
    return {
        name: _unite_below(one[name], other[name])
        if name in one and name in other
        else {**one, **other}[name]
        for name in {**one, **other}
    }


def _unite_below(one: Fields, other: Fields) -> Fields:
    """Of one field: nothing below it is that it is whole somebody's."""
    if bool(one) == bool(other):
        return _unite(one, other)
    return {ITSELF: {}, **(one or other)}
