"""What pods ask of nodes: the documents of et_kube/shaping, and pods themselves, as shapes.

Bounds are those of et_kube/shaping and of memory: terms that weigh more are left out, and the shape
says so. Pods that take the same share one object, so nobody changes one.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from weakref import WeakValueDictionary

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
    CPU,
    MEMORY,
    PODS,
    Amounts,
    Effect,
    Operator,
    Requirement,
    Shape,
    Toleration,
)

_MAX_KEY = 320
_MAX_PORT = 32
_MAX_WORDS = 256
_MOST_TERMS, _MOST_TOLERATIONS = 2**16, 2**15
"""Bytes of all that a shape has of them: of thousands of pods they are kept."""
_REQUIREMENT, _VALUE, _TOLERATION, _AMOUNT = 256, 64, 128, 128
"""What each takes besides its characters: its text, and its place among the others."""
_PORT = 192
"""What one takes with them."""
_EVERYWHERE = frozenset({CPU, MEMORY})
_CUT = "more of node affinity than is looked at"
_SHARED: WeakValueDictionary[tuple[object, ...], Shape] = WeakValueDictionary()
"""By all that is in it, each shape that is there."""


def decode_shape(document: Json) -> Shape:
    """A document of et_kube/shaping; raises ValueError for anything else.

    Terms that weigh too much are left out, and said in `unproven`; of tolerations the first count.
    Equal ones are one object: a thousand pods of one template may look for a node.
    """
    requests = document.get("requests") or {}
    if not isinstance(requests, Mapping) or len(requests) > shaping.MAX_RESOURCES:
        raise ValueError("requests are not an object of a few amounts")
    terms = tuple(_read_terms(document))
    unproven = read_words(document, "unproven", _MAX_WORDS)
    if sum(_weigh(one) for term in terms for one in term) > _MOST_TERMS:
        terms, unproven = (), f"{unproven}, {_CUT}" if unproven else _CUT
    amounts = {str(name): _read_amount(amount) for name, amount in requests.items()}
    ports = frozenset(read_texts(document, "hostPorts", shaping.MAX_PORTS, _MAX_PORT))
    return _share(amounts, terms, tuple(_list_tolerations(document)), ports, unproven)


def read_whole_shape(pod: Json) -> Shape:
    """All that a pod asks of a node, which it has not found yet."""
    return decode_shape(shaping.describe_shape(pod))


def read_bound_shape(pod: Json, offered: Container[str] = (), *, is_least: bool = False) -> Shape:
    """What a pod takes of the node that it has: nothing else of it matters any more.

    Of more resources than any pod has, and of the least that counts, those count that its node is
    known to offer, as the kubelet does it: anybody may bind a pod to any name. That least is
    without ports. Equal ones are one object, for there are a hundred thousand of them.
    """
    requests = shaping.sum_requests(pod.get("spec") or {})
    if is_least or len(requests) > shaping.MAX_RESOURCES:
        requests = {n: v for n, v in requests.items() if n in _EVERYWHERE or n in offered}
    ports = () if is_least else shaping.list_exclusive(pod)[: shaping.MAX_PORTS]
    return _share(requests, (), (), frozenset(ports), "")


def weigh(shape: Shape) -> int:
    """The bytes that it takes, nearly, besides what any takes."""
    weight = sum(_weigh(one) for term in shape.terms for one in term)
    weight += sum(_weigh_toleration(one) for one in shape.tolerations)
    weight += sum(_AMOUNT + _measure(name) for name, _ in shape.requests)
    return weight + _PORT * len(shape.host_ports)


def _share(requests: Amounts, *others: object) -> Shape:
    """The shape of these requests, places for pods aside, and of what follows them in a Shape.

    It is the one that is there already, if one is: a hundred thousand pods are read at a start.
    """
    pairs = tuple(sorted((name, n) for name, n in requests.items() if n and name != PODS))
    key = (pairs, *others)
    shape = _SHARED.get(key)
    if shape is None:
        shape = _SHARED[key] = Shape(*key)  # type: ignore[arg-type] # in the order of its fields
    return shape


def _read_amount(amount: object) -> int:
    if isinstance(amount, bool) or not isinstance(amount, int) or amount < 0:
        raise ValueError("an amount is not a whole number from 0 on")
    return min(amount, MOST)


def _read_terms(document: Json) -> Iterator[tuple[Requirement, ...]]:
    for term in read_objects(document, "terms", shaping.MAX_TERMS):
        found = read_objects(term, "requirements", shaping.MAX_REQUIREMENTS)
        yield tuple(_read_requirement(one) for one in found)


def _read_requirement(one: Json) -> Requirement:
    values = read_texts(one, "values", shaping.MAX_VALUES)
    key, operator = read_text(one, "key", _MAX_KEY), Operator(str(one["operator"]))
    return Requirement(key, operator, tuple(sorted({*values})))


def _weigh(one: Requirement) -> int:
    return _REQUIREMENT + _measure(one.key) + sum(_VALUE + _measure(v) for v in one.values)


def _weigh_toleration(one: Toleration) -> int:
    return _TOLERATION + _measure(one.key) + _measure(one.value)


def _measure(text: str) -> int:
    """The bytes of its characters: one that is wide makes all of them so."""
    return len(text) if text.isascii() else 4 * len(text)


def _list_tolerations(document: Json) -> Iterator[Toleration]:
    weight = 0
    for body in read_objects(document, "tolerations", shaping.MAX_TOLERATIONS):
        one = _read_toleration(body)
        weight += _weigh_toleration(one)
        if weight <= _MOST_TOLERATIONS:
            yield one


def _read_toleration(one: Json) -> Toleration:
    effect = read_text(one, "effect")
    return Toleration(
        read_text(one, "key", _MAX_KEY),
        read_text(one, "value", MAX_NAME),
        Effect(effect) if effect else None,
        is_any_value=read_flag(one, "anyValue"),
    )
