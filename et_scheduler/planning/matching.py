"""Which nodes a pod may be on at all, whatever is free there: labels, taints, ports."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

import numpy as np
from numpy.typing import NDArray

from et_scheduler.model.cluster import Node
from et_scheduler.model.shapes import Operator, Requirement, Shape, Taint, Toleration

Mask = NDArray[np.bool_]


class Sorts:
    """Nodes sorted by all that a shape can tell of them: each sort is judged once."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self._nodes = nodes
        self._sorted: dict[frozenset[str], tuple[NDArray[np.intp], list[Node]]] = {}

    def match(self, shape: Shape) -> Mask:
        """For each node whether pods of this shape may be on it."""
        keys = frozenset(requirement.key for term in shape.terms for requirement in term)
        if keys not in self._sorted:
            self._sorted[keys] = self._sort(sorted(keys))
        numbers, examples = self._sorted[keys]
        judged = np.array([does_match(shape, node) for node in examples], dtype=np.bool_)
        return judged[numbers]

    def _sort(self, keys: Sequence[str]) -> tuple[NDArray[np.intp], list[Node]]:
        known: dict[Hashable, int] = {}
        examples: list[Node] = []
        numbers = np.zeros(len(self._nodes), dtype=np.intp)
        for place, node in enumerate(self._nodes):
            labels = tuple(node.labels.get(key) for key in keys)
            seen = (node.has_room, node.taints, node.ports, labels)
            if seen not in known:
                known[seen] = len(examples)
                examples.append(node)
            numbers[place] = known[seen]
        return numbers, examples


def does_match(shape: Shape, node: Node) -> bool:
    """Whether pods of this shape may be on this node."""
    if not node.has_room or shape.host_ports & node.ports:
        return False
    if not all(_is_tolerated(taint, shape.tolerations) for taint in node.taints):
        return False
    return not shape.terms or any(
        all(_holds(requirement, node.labels.get(requirement.key)) for requirement in term)
        for term in shape.terms
    )


def _is_tolerated(taint: Taint, tolerations: Sequence[Toleration]) -> bool:
    return any(
        (not one.key or one.key == taint.key)
        and (one.effect is None or one.effect is taint.effect)
        and (one.is_any_value or one.value == taint.value)
        for one in tolerations
    )


def _holds(requirement: Requirement, value: str | None) -> bool:
    return _TESTS[requirement.operator](value, requirement.values)


def _compare(value: str | None, values: tuple[str, ...]) -> int:
    """-1, 0, 1 as the label is less, equal or greater; 0 too where one of them is no number."""
    try:
        mine, bound = int(value or ""), int(values[0])
    except (ValueError, IndexError):
        return 0
    return (mine > bound) - (mine < bound)


_Test = Callable[[str | None, tuple[str, ...]], bool]
_TESTS: dict[Operator, _Test] = {
    Operator.IN: lambda value, values: value is not None and value in values,
    Operator.NOT_IN: lambda value, values: value not in values,
    Operator.EXISTS: lambda value, _: value is not None,
    Operator.DOES_NOT_EXIST: lambda value, _: value is None,
    Operator.GREATER: lambda value, values: _compare(value, values) > 0,
    Operator.LESS: lambda value, values: _compare(value, values) < 0,
}
