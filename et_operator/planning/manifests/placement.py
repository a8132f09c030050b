"""On which nodes a pod may look for its place, beside what its template says."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from et_kube.resources import Json
from et_operator.model.names import HOSTNAME

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_HEAVIEST = 100


def dislike(pod: Json, nodes: Iterable[str]) -> Json:
    """The same pod, which goes to a node of these hostnames only where no other has room."""
    values = sorted(nodes)
    if not values:
        return pod
    affinity: dict[str, Any] = {**(pod["spec"].get("affinity") or {})}
    node: dict[str, Any] = {**(affinity.get("nodeAffinity") or {})}
    term = {"matchExpressions": [{"key": HOSTNAME, "operator": "NotIn", "values": values}]}
    own = node.get(_PREFERRED) or []
    node[_PREFERRED] = [*own, {"weight": _HEAVIEST, "preference": term}]
    affinity["nodeAffinity"] = node
    return {**pod, "spec": {**pod["spec"], "affinity": affinity}}


def place(pod: Json, only: Iterable[str] = (), avoid: Iterable[str] = ()) -> Json:
    """The same pod, bound to nodes by the hostnames in `only`, and kept off those in `avoid`.

    Each of the template's own terms has to hold together with ours; those without any requirement
    match no node, and stay so.
    """
    wanted = [
        {"key": HOSTNAME, "operator": operator, "values": names}
        for operator, names in (("In", sorted(only)), ("NotIn", sorted(avoid)))
        if names
    ]
    if not wanted:
        return pod
    affinity: dict[str, Any] = {**(pod["spec"].get("affinity") or {})}
    node: dict[str, Any] = {**(affinity.get("nodeAffinity") or {})}
    terms = (node.get(_REQUIRED) or {}).get("nodeSelectorTerms")
    node[_REQUIRED] = {"nodeSelectorTerms": [_narrow(term, wanted) for term in terms or [None]]}
    affinity["nodeAffinity"] = node
    return {**pod, "spec": {**pod["spec"], "affinity": affinity}}


def _narrow(term: Json | None, wanted: list[dict[str, Any]]) -> Json:
    if term is None:  # the template has no terms
        return {"matchExpressions": wanted}
    own = term.get("matchExpressions") or []
    if not own and not term.get("matchFields"):
        return term
    return {**term, "matchExpressions": [*own, *wanted]}
