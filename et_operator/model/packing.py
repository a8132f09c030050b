"""JSON that is kept for long and read seldom: as its text, a tenth to a fortieth of the objects.

For the two templates of a job, of which the store has thousands. Whoever reads one gets the objects
that all readers share, and must not change them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from et_kube.resources import Json

_UNPACKED = 4
"""So many texts are kept unpacked: one pass looks at the two templates of one job."""


class Packed(Mapping[str, Any]):
    """A JSON object that is unpacked when it is looked at. `text` is its JSON, ASCII alone."""

    __slots__ = ("text",)

    def __init__(self, body: Json) -> None:
        self.text = json.dumps(body, separators=(",", ":"))

    def __getitem__(self, key: str) -> Any:
        return _unpack(self.text)[key]

    def __iter__(self) -> Iterator[str]:
        return iter(_unpack(self.text))

    def __len__(self) -> int:
        return len(_unpack(self.text))

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Packed):
            return self.text == other.text
        return isinstance(other, Mapping) and _unpack(self.text) == other

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        return f"Packed({self.text[:100]})"


def digest(body: Json) -> str:
    """A short name of what it holds: the same for equal ones, whatever the order of their keys."""
    if not isinstance(body, Packed):
        body = Packed(body)
    return _digest(body.text)


@lru_cache(maxsize=_UNPACKED)
def _digest(text: str) -> str:
    canonical = json.dumps(_unpack(text), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()[:16]


@lru_cache(maxsize=_UNPACKED)
def _unpack(text: str) -> dict[str, Any]:
    """Shared by all who look: read-only, as any Json."""
    found: dict[str, Any] = json.loads(text)
    return found
