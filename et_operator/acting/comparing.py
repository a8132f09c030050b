"""What the server has stored, beside what it was asked to store.

Something between may change it: a CRD of another version drops fields, a mutating webhook takes
labels, owners or rights away. A decision that is not kept would be made again and again, and what
is not known as the job's be created again and again, or be in its own way: each is as good as
refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta
from http import HTTPStatus
from typing import Any

from et_contract.pods import LABEL_JOB, LABEL_ROLE
from et_kube.errors import Refused
from et_kube.resources import PODS, ROLES, Json, Resource
from et_operator.codec.children import decode_bound_role, find_owner, is_sealed
from et_operator.codec.decoding import FOR_PEOPLE
from et_operator.model.names import LABELS_OURS
from et_operator.model.texts import name_some

PAUSE = timedelta(seconds=10)
"""So long a job rests whose decisions are not kept: what was kept of each is an event, which may
come before the answer, and would bring the next try at once."""
KNOWN_BY = (*LABELS_OURS, LABEL_JOB, LABEL_ROLE)
"""Labels by which pods are watched, listed and read; what becomes of others is their author's."""


def check_status(asked: Json, stored: Json) -> Refused | None:
    """The error where decisions of a status were dropped; what is computed for people may be."""
    decided = {key: value for key, value in asked["status"].items() if key not in FOR_PEOPLE}
    dropped = sorted(find_dropped(decided, stored.get("status"), "status"))
    if not dropped:
        return None
    return _refuse(
        "FieldsDropped",
        f"it does not keep {name_some(dropped)}: the CRDs in this cluster are not those of this "
        "version of the operator, apply these (docs/operations.md)",
        PAUSE,
    )


def check_creation(resource: Resource, asked: Json, stored: Json) -> Refused | None:
    """The error where something was created that is not known again as what it is."""
    altered = sorted(find_altered(resource, asked, stored))
    if not altered:
        return None
    return _refuse(
        "Altered",
        f"it stores this without its {name_some(altered)}: a mutating webhook or a policy of the "
        "cluster changes it, exempt what the operator creates",
    )


def is_lost(resource: Resource, asked: Json, found: Json) -> bool:
    """Whether what has its name is the job's own, without that by which it would be known."""
    owner = find_owner(asked.get("metadata") or {})
    altered = set(find_altered(resource, asked, found))
    return owner is not None and bool(altered) and "owner" not in altered


def find_dropped(asked: Any, stored: Any, path: str) -> set[str]:
    """Paths of what was written and is not there."""
    if asked == stored:  # as nearly all of a large status is: told at once
        return set()
    if isinstance(asked, Mapping):
        known = stored if isinstance(stored, Mapping) else {}
        wanted = {key: value for key, value in asked.items() if value is not None}
        lost = {f"{path}.{key}" for key in wanted if key not in known}
        inner = (find_dropped(v, known[k], f"{path}.{k}") for k, v in wanted.items() if k in known)
        return lost.union(*inner)
    if isinstance(asked, list) and isinstance(stored, list):
        pairs = zip(asked, stored, strict=False)
        return set().union(*(find_dropped(a, s, f"{path}[]") for a, s in pairs))
    return set()


def find_altered(resource: Resource, asked: Json, stored: Json) -> Iterator[str]:
    """What is not as it was asked for, of all by which it is known, beside its name."""
    wanted, found = asked.get("metadata") or {}, stored.get("metadata") or {}
    owner, asked_labels = find_owner(wanted), wanted.get("labels") or {}
    if find_owner({**found, "labels": asked_labels}) != owner:
        yield "owner"
    if resource == ROLES and owner is not None and not is_sealed(stored, owner.uid):
        yield "rules"
    if decode_bound_role(stored) != decode_bound_role(asked):
        yield "role"
    labels = found.get("labels") or {}
    for key in KNOWN_BY if resource == PODS else LABELS_OURS:
        if labels.get(key) != asked_labels.get(key):
            yield f"label {key}"


def _refuse(reason: str, message: str, pause: timedelta | None = None) -> Refused:
    return Refused(HTTPStatus.UNPROCESSABLE_ENTITY, reason, message, pause)
