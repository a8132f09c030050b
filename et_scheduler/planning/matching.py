"""Which nodes a pod may be on at all, whatever is free there: labels and taints.

Of nodes there are thousands, and authors of pods write hundreds of requirements: each node's labels
are read once in a pass for each key that some node has, and a requirement is judged for all nodes
together.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from functools import cached_property
from itertools import product
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from et_scheduler.model.cluster import Node
from et_scheduler.model.shapes import Effect, Operator, Requirement, Shape, Taint, Toleration

Mask = NDArray[np.bool_]
_INTEGERS = range(-(2**63), 2**63)
_Value = TypeVar("_Value", bound=Hashable)


class Traits:
    """All that a shape can tell of nodes, in columns."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self._nodes = nodes
        self._columns: dict[str, _Column] = {}
        self._masks: dict[Hashable, Mask] = {}

    def match(self, shape: Shape) -> Mask:
        """For each node whether pods of this shape may be on it; found once for those alike."""
        where = (shape.terms, shape.tolerations)
        mask = self._masks.get(where)
        if mask is None:
            mask = self._masks[where] = self._find(*where)
        return mask

    def _find(
        self, terms: Sequence[Sequence[Requirement]], tolerations: Sequence[Toleration]
    ) -> Mask:
        mask: Mask = self._having_room & self._match_taints(tolerations)
        if terms:
            chosen: Mask = np.zeros(len(self._nodes), dtype=np.bool_)
            for term in terms:
                chosen |= self._match_all(term)
            mask &= chosen
        return mask

    def _match_all(self, term: Sequence[Requirement]) -> Mask:
        mask: Mask = np.ones(len(self._nodes), dtype=np.bool_)
        for requirement in term:
            mask &= self._get_column(requirement.key).judge(requirement)
        return mask

    def _match_taints(self, tolerations: Sequence[Toleration]) -> Mask:
        numbers, known = self._taints
        tolerated = {
            (one.key, one.effect, None if one.is_any_value else one.value) for one in tolerations
        }
        judged = [all(_is_among(one, tolerated) for one in taints) for taints in known]
        mask: Mask = np.array(judged, dtype=np.bool_)[numbers]
        return mask

    @cached_property
    def _having_room(self) -> Mask:
        return np.array([node.has_room for node in self._nodes], dtype=np.bool_)

    @cached_property
    def _taints(self) -> tuple[NDArray[np.intp], list[tuple[Taint, ...]]]:
        return _number([node.taints for node in self._nodes])

    @cached_property
    def _keys(self) -> frozenset[str]:
        return frozenset[str]().union(*(node.labels for node in self._nodes))

    def _get_column(self, key: str) -> _Column:
        """One for each key that a node has, and one for all others."""
        key = key if key in self._keys else ""
        if key not in self._columns:
            self._columns[key] = _Column([node.labels.get(key) for node in self._nodes])
        return self._columns[key]


class _Column:
    """What the nodes have as one label, None where they have none."""

    def __init__(self, labels: Sequence[str | None]) -> None:
        self._numbers, self._known = _number(labels)
        self._places = {value: number for number, value in enumerate(self._known)}

    def judge(self, one: Requirement) -> Mask:
        """For each node whether the requirement holds."""
        if one.operator in {Operator.GREATER, Operator.LESS}:
            return self._compare(one)[self._numbers]
        values = one.values if one.operator in {Operator.IN, Operator.NOT_IN} else (None,)
        is_without = one.operator in {Operator.NOT_IN, Operator.EXISTS}
        return (self._find(values) ^ is_without)[self._numbers]

    def _find(self, values: Iterable[str | None]) -> Mask:
        """Which of the known values are among these."""
        found: Mask = np.zeros(len(self._known), dtype=np.bool_)
        found[[self._places[value] for value in values if value in self._places]] = True
        return found

    def _compare(self, one: Requirement) -> Mask:
        """Which are greater, or less; none where the bound is no number."""
        bounds = [number for value in one.values if (number := _parse(value)) is not None]
        are_numbers, numbers = self._parsed
        if len(bounds) != 1 or len(one.values) != 1:
            return np.zeros(len(self._known), dtype=np.bool_)
        is_greater = one.operator is Operator.GREATER
        held: Mask = numbers > bounds[0] if is_greater else numbers < bounds[0]
        return are_numbers & held

    @cached_property
    def _parsed(self) -> tuple[Mask, NDArray[np.int64]]:
        """Which of the known values are numbers, and these."""
        parsed = [_parse(value or "") for value in self._known]
        are_numbers: Mask = np.array([one is not None for one in parsed], dtype=np.bool_)
        return are_numbers, np.array([one or 0 for one in parsed], dtype=np.int64)


def _number(values: Sequence[_Value]) -> tuple[NDArray[np.intp], list[_Value]]:
    """Equal values by one number, from 0 on; the values in that order."""
    known: dict[_Value, int] = {}
    numbers = [known.setdefault(value, len(known)) for value in values]
    return np.array(numbers, dtype=np.intp), list(known)


def _parse(value: str) -> int | None:
    try:
        number = int(value)
    except ValueError:
        return None
    return number if number in _INTEGERS else None


def _is_among(taint: Taint, tolerated: set[tuple[str, Effect | None, str | None]]) -> bool:
    """Whether a toleration of it is there, in one of its eight forms: an author has hundreds."""
    return not tolerated.isdisjoint(
        product((taint.key, ""), (taint.effect, None), (taint.value, None))
    )
