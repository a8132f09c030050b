"""Names of nodes that a pod was made to keep off, as a text that is written on it.

Others may write there too, on pods of their own: so it is kept as it stands, within bounds, and
taken apart only for whom it is looked at.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import islice

from et_contract.admissions import MAX_NODES

MAX_TEXT = 8192
"""Characters, all ASCII: for so many nodes as a pod keeps off, with names of forty each."""
MOST_TEXTS = 64
"""Of all pods of a job: those of ours that were made at one time have the same."""
_MAX_NAME = 253
_DNS_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")


def pack_avoided(nodes: Iterable[str]) -> str:
    """These names with commas; of more than there is room for, the first."""
    text = ",".join(nodes)
    return text if len(text) <= MAX_TEXT else text[: MAX_TEXT + 1].rpartition(",")[0]


def keep_avoided(text: object) -> str:
    """What somebody has written there, "" where it cannot be ours."""
    is_ours = isinstance(text, str) and len(text) <= MAX_TEXT and text.isascii()
    return str(text) if is_ours else ""


def list_avoided(text: str) -> list[str]:
    """The names of nodes in it."""
    found = text.split(",", MAX_NODES)[:MAX_NODES]
    return [name for name in found if len(name) <= _MAX_NAME and _DNS_NAME.fullmatch(name)]


def list_all_avoided(texts: Iterable[str]) -> dict[str, list[str]]:
    """The names in each of these texts, of which many may be the same; of too many in the first."""
    first = islice(dict.fromkeys(filter(None, texts)), MOST_TEXTS)
    return {text: list_avoided(text) for text in first}
