"""Nodes: what they have, and whether they have room at all.

The store calls it with the signs of its installation. What is not said never counts in a node's
favour: without a word that it is ready, or with too many taints, it has no room.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from sys import intern

from et_kube.notices import ROWS, Row, find_notice
from et_kube.quantities import read_amounts
from et_kube.resources import Json
from et_kube.shaping import FIELD, HOSTNAME
from et_scheduler.codec.reading import MAX_NAME, find_moment, read_object, read_text
from et_scheduler.model.cluster import Node
from et_scheduler.model.shapes import Effect, Taint

_MAX_TAINTS = 512
_UNREADY = frozenset({"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"})
"""Taints that say what the condition Ready says: they come after it, and stay a moment longer."""
_UNSCHEDULABLE = "node.kubernetes.io/unschedulable"


def decode_node(obj: Json, rows: Sequence[Row] = ROWS) -> Node:
    """The node with nothing on it. One that says nothing is not ready, and has no room.

    Nor has one that is said for sure to end, or with more taints than are looked at. That it is not
    ready, and since when, is told as that alone, whatever taints say so too.
    """
    metadata, spec = obj["metadata"], read_object(obj, "spec")
    status = read_object(obj, "status")
    name = read_text(metadata, "name")
    labels = read_object(metadata, "labels")
    taints = spec.get("taints") or ()
    kept = tuple(_list_taints(taints[:_MAX_TAINTS]))
    known = {intern(str(key)): intern(str(value)[:MAX_NAME]) for key, value in labels.items()}
    known[f"{FIELD}metadata.name"] = name
    notice = find_notice(obj, rows) if len(taints) <= _MAX_TAINTS else None
    is_going = bool(metadata.get("deletionTimestamp")) or spec.get("unschedulable") is True
    is_going |= notice is not None and notice.is_firm
    ready = _find_ready(status)
    is_ready = ready.get("status") == "True" and all(one.key not in _UNREADY for one in kept)
    since = None if is_ready else find_moment(ready, "lastTransitionTime")
    has_room = (is_ready or since is not None) and not is_going and len(taints) <= _MAX_TAINTS
    return Node(
        name,
        {intern(key): n for key, n in read_amounts(status.get("allocatable")).items()},
        labels=known,
        taints=tuple(one for one in kept if one.key not in _UNREADY),
        hostname=known.get(HOSTNAME, ""),
        has_room=has_room,
        unready_since=since if has_room else None,
    )


def _find_ready(status: Json) -> Json:
    conditions = status.get("conditions") or ()
    return next((one for one in conditions if one.get("type") == "Ready"), {})


def _list_taints(taints: Iterable[Json]) -> Iterator[Taint]:
    """Taints that keep pods away. A node that is cordoned has no room, whoever tolerates that."""
    for one in taints:
        effect, key = one.get("effect"), str(one.get("key"))
        if effect in {Effect.NO_SCHEDULE, Effect.NO_EXECUTE} and key != _UNSCHEDULABLE:
            yield Taint(intern(key), intern(str(one.get("value") or "")), Effect(effect))
