"""What texts were decoded to, each once as long as there is room for it.

A pass looks at the documents of its job anew, and these change seldom. Decoded they take many times
their size, so what is known of the last ones is kept and no more.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")

MOST = 2 * 2**20
"""Characters of the texts of which it is known what they say: two of the largest, or a dozen
configs of the largest job. What they say takes up to twenty times that."""
LEAST = 512
"""Characters for which a text counts that has fewer, for its place."""


class Readings(Generic[T]):
    """Knows what the texts say that were read last.

    Args:
        decode: what it is that a text says, by nothing but the text; raises nothing.
    """

    def __init__(self, decode: Callable[[str], T]) -> None:
        self._decode = decode
        self._known: OrderedDict[str, T] = OrderedDict()
        self._size = 0

    def read(self, text: str) -> T:
        """What a text says."""
        if text not in self._known:
            self._known[text] = self._decode(text)
            self._size += max(len(text), LEAST)
        self._known.move_to_end(text)
        found = self._known[text]
        while self._size > MOST:
            oldest, _ = self._known.popitem(last=False)
            self._size -= max(len(oldest), LEAST)
        return found
