"""What pods ask of nodes: the documents of et_kube/shaping, and pods themselves, as shapes."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from et_kube import shaping
from et_kube.quantities import MOST
from et_kube.resources import Json
from et_scheduler.codec.reading import (
    MAX_NAME,
    read_flag,
    read_objects,
    read_text,
    read_texts,
    read_words,
)
from et_scheduler.model.shapes import (
    PODS,
    Effect,
    Operator,
    Requirement,
    Shape,
    Toleration,
    make_shape,
)

_MAX_KEY = 320
_MAX_PORT = 32
_MAX_WORDS = 256
_KNOWN = 4096
_Pairs = tuple[tuple[str, int], ...]


def decode_shape(document: Json) -> Shape:
    """A document of et_kube/shaping; raises ValueError for anything else."""
    requests = document.get("requests") or {}
    if not isinstance(requests, Mapping) or len(requests) > shaping.MAX_RESOURCES:
        raise ValueError("requests are not an object of a few amounts")
    return make_shape(
        {str(name): _read_amount(amount) for name, amount in requests.items() if name != PODS},
        terms=tuple(
            tuple(
                _read_requirement(one)
                for one in read_objects(term, "requirements", shaping.MAX_REQUIREMENTS)
            )
            for term in read_objects(document, "terms", shaping.MAX_TERMS)
        ),
        tolerations=tuple(
            _read_toleration(one)
            for one in read_objects(document, "tolerations", shaping.MAX_TOLERATIONS)
        ),
        host_ports=frozenset(read_texts(document, "hostPorts", shaping.MAX_PORTS, _MAX_PORT)),
        unproven=read_words(document, "unproven", _MAX_WORDS),
    )


def read_whole_shape(pod: Json) -> Shape:
    """All that a pod asks of a node, which it has not found yet."""
    return decode_shape(shaping.describe_shape(pod))


def read_bound_shape(spec: Json) -> Shape:
    """What a pod takes of the node that it has: nothing else of it matters any more.

    Equal ones are one object, for there are a hundred thousand of them.
    """
    requests = shaping.sum_requests(spec)
    pairs = tuple(sorted((name, n) for name, n in requests.items() if n and name != PODS))
    return _share(pairs, frozenset(shaping.list_host_ports(spec)))


@lru_cache(maxsize=_KNOWN)
def _share(requests: _Pairs, ports: frozenset[str]) -> Shape:
    return Shape(requests, host_ports=ports)


def _read_amount(amount: object) -> int:
    if isinstance(amount, bool) or not isinstance(amount, int) or amount < 0:
        raise ValueError("an amount is not a whole number from 0 on")
    return min(amount, MOST)


def _read_requirement(one: Json) -> Requirement:
    values = read_texts(one, "values", shaping.MAX_VALUES)
    return Requirement(read_text(one, "key", _MAX_KEY), Operator(str(one["operator"])), values)


def _read_toleration(one: Json) -> Toleration:
    effect = read_text(one, "effect")
    return Toleration(
        read_text(one, "key", _MAX_KEY),
        read_text(one, "value", MAX_NAME),
        Effect(effect) if effect else None,
        is_any_value=read_flag(one, "anyValue"),
    )
