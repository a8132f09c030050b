"""What the shapes of pods weigh that are there, by namespace: all of them together have a bound.

Each shape is there once and has its own bound (codec/shapes.py), and anybody who may create pods
makes as many shapes as pods. So they are counted for as long as anybody has them: the store, a list
that is being read, a pass. Nobody has to say when one is over.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from weakref import ref

from et_scheduler.codec.shapes import weigh
from et_scheduler.model.shapes import Shape

LIGHT = 2**11
"""Bytes of a shape that is kept in any case, as that of a DaemonSet's pod, each of which names its
node: a pod takes as much itself."""
MOST = 2**25
"""Bytes of all others together."""
PART = 8
"""One namespace has so small a part of what those of others leave: whoever comes finds as much."""


class Weights:
    """The weight of each namespace's shapes. A shape that several have counts for the first.

    `on_full` is told of a namespace one of whose shapes is not to be kept, once until it has given
    all back.
    """

    def __init__(self, on_full: Callable[[str], None] = lambda _: None) -> None:
        self._on_full = on_full
        self._left = MOST
        self._taken: dict[str, int] = {}
        self._full = set[str]()
        self._counted: dict[ref[Shape], tuple[str, int]] = {}
        self._gone: deque[ref[Shape]] = deque()
        """Of shapes that are there no more: the thread of a pass may be the last that had them."""

    def may_keep(self, namespace: str, shape: Shape) -> bool:
        """Whether there is room for it; it is counted then, and not twice."""
        self._give_back()
        weight = weigh(shape)
        if weight <= LIGHT or ref(shape) in self._counted:
            return True
        taken = self._taken.get(namespace, 0) + weight
        if taken > (self._left - weight) // PART:
            self._tell(namespace)
            return False
        self._counted[ref(shape, self._gone.append)] = (namespace, weight)
        self._taken[namespace] = taken
        self._left -= weight
        return True

    def _give_back(self) -> None:
        while self._gone:
            namespace, weight = self._counted.pop(self._gone.popleft())
            self._left += weight
            self._taken[namespace] -= weight
            if not self._taken[namespace]:
                del self._taken[namespace]
                self._full.discard(namespace)

    def _tell(self, namespace: str) -> None:
        if namespace not in self._full:
            self._full.add(namespace)
            self._on_full(namespace)
