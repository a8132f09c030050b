"""On which nodes a pod may look for its place, beside what its template says."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from et_kube.resources import Json
from et_kube.shaping import HOSTNAME

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_HEAVIEST = 100
_SPOT_WEIGHT = 50
_SPOT = (
    {"key": "karpenter.sh/capacity-type", "operator": "NotIn", "values": ["spot"]},
    {"key": "eks.amazonaws.com/capacityType", "operator": "NotIn", "values": ["SPOT"]},
    {"key": "cloud.google.com/gke-spot", "operator": "DoesNotExist"},
    {"key": "kubernetes.azure.com/scalesetpriority", "operator": "NotIn", "values": ["spot"]},
)
"""What a node is not that nobody may take back. One without these labels is none of them."""


def keep_off_spot(pod: Json) -> Json:
    """The same pod, which goes to a spot node only where no other has room.

    As it was where the template says itself to which nodes it wants.
    """
    if (pod["spec"].get("affinity") or {}).get("nodeAffinity"):
        return pod
    preference = {"weight": _SPOT_WEIGHT, "preference": {"matchExpressions": [*_SPOT]}}
    return _with_affinity(pod, _PREFERRED, lambda _none: [preference])


def dislike(pod: Json, nodes: Iterable[str]) -> Json:
    """The same pod, which goes to a node of these hostnames only where no other has room."""
    values = sorted(nodes)
    if not values:
        return pod
    term = {"matchExpressions": [{"key": HOSTNAME, "operator": "NotIn", "values": values}]}
    preference = {"weight": _HEAVIEST, "preference": term}
    return _with_affinity(pod, _PREFERRED, lambda own: [*(own or []), preference])


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

    def narrow(own: Any) -> Json:
        terms = (own or {}).get("nodeSelectorTerms") or [None]
        return {"nodeSelectorTerms": [_narrow(term, wanted) for term in terms]}

    return _with_affinity(pod, _REQUIRED, narrow)


def _with_affinity(pod: Json, kind: str, change: Callable[[Any], Any]) -> Json:
    """The same pod with its affinity of this kind to nodes changed; all else as it was given."""
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
