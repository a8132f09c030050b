"""On which nodes a pod may look for its place, beside what its template says.

Each function gives another pod and leaves the one that it was given as it was. What the template
asks for holds as well; nodes come as hostnames, and are chosen by whoever calls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from et_kube.resources import Json
from et_kube.shaping import HOSTNAME
from et_operator.model.texts import measure

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_HEAVIEST = 100
_SPOT_WEIGHT = 50
MAX_NAMED = 2**16
"""Bytes, as JSON, of the names of nodes in all terms of one pod together: each term has all of them
anew, and so many pods are on their way at once. In four terms there is room for 300 names."""
_SPOT = (
    {"key": "karpenter.sh/capacity-type", "operator": "NotIn", "values": ["spot"]},
    {"key": "eks.amazonaws.com/capacityType", "operator": "NotIn", "values": ["SPOT"]},
    {"key": "cloud.google.com/gke-spot", "operator": "DoesNotExist"},
    {"key": "kubernetes.azure.com/scalesetpriority", "operator": "NotIn", "values": ["spot"]},
)
"""What a node is not that nobody may take back. One without these labels is none of them."""


def keep_off_spot(pod: Json) -> Json:
    """The pod, which goes to a spot node only where no other has room.

    As it was where the template says itself to which nodes it wants.
    """
    if (pod["spec"].get("affinity") or {}).get("nodeAffinity"):
        return pod
    preference = {"weight": _SPOT_WEIGHT, "preference": {"matchExpressions": [*_SPOT]}}
    return _with_affinity(pod, _PREFERRED, lambda _none: [preference])


def dislike(pod: Json, nodes: Iterable[str]) -> Json:
    """The pod, which goes to a node of these hostnames only where no other has room.

    Of more than MAX_NAMED has room for, the first.
    """
    values, _ = _fit(nodes, MAX_NAMED)
    if not values:
        return pod
    term = {"matchExpressions": [{"key": HOSTNAME, "operator": "NotIn", "values": values}]}
    preference = {"weight": _HEAVIEST, "preference": term}
    return _with_affinity(pod, _PREFERRED, lambda own: [*(own or []), preference])


def place(pod: Json, only: Iterable[str] = (), avoid: Iterable[str] = ()) -> Json:
    """The pod, bound to nodes by the hostnames in `only`, and kept off those in `avoid`.

    Each of the template's own terms has to hold together with ours; those without any requirement
    match no node, and stay so. Where a template has so many terms that not all names have room in
    each, `only` is left out, for a part of it could be the full ones; and to those of `avoid` that
    are left the pod goes only where no other has room.
    """
    terms = _list_terms(pod) or [None]
    room = MAX_NAMED // len(terms)
    chosen, missing = _fit(only, room)
    if missing:
        chosen = []
    kept_off, beyond = _fit(avoid, room - sum(map(_weigh, chosen)))
    wanted = [
        {"key": HOSTNAME, "operator": operator, "values": names}
        for operator, names in (("In", chosen), ("NotIn", kept_off))
        if names
    ]
    if wanted:
        narrowed = {"nodeSelectorTerms": [_narrow(term, wanted) for term in terms]}
        pod = _with_affinity(pod, _REQUIRED, lambda _own: narrowed)
    return dislike(pod, beyond)


def _list_terms(pod: Json) -> list[Any]:
    node = (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    return (node.get(_REQUIRED) or {}).get("nodeSelectorTerms") or []


def _fit(names: Iterable[str], room: int) -> tuple[list[str], list[str]]:
    """The names that have room in so many bytes, and the others; both sorted."""
    fitting: list[str] = []
    beyond: list[str] = []
    for name in sorted(names):
        room -= (size := _weigh(name))
        (fitting if room >= 0 else beyond).append(name)
        room += size if room < 0 else 0
    return fitting, beyond


def _weigh(name: str) -> int:
    return measure(name) + len('"", ')


def _with_affinity(pod: Json, kind: str, change: Callable[[Any], Any]) -> Json:
    """The pod with its affinity of this kind to nodes changed; all else as it was given."""
    affinity: dict[str, Any] = {**(pod["spec"].get("affinity") or {})}
    node: dict[str, Any] = {**(affinity.get("nodeAffinity") or {})}
    node[kind] = change(node.get(kind))
    affinity["nodeAffinity"] = node
    return {**pod, "spec": {**pod["spec"], "affinity": affinity}}


def _narrow(term: Json | None, wanted: list[dict[str, Any]]) -> Json:
    if term is None:  # the template has no terms
        return {"matchExpressions": wanted}
    own = term.get("matchExpressions") or []
    if not own and not term.get("matchFields"):
        return term
    return {**term, "matchExpressions": [*own, *wanted]}
