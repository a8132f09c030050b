"""Room that an administrator keeps for pods of others: so many pods of one size, as a text.

cli.py tries the text, assembly.py reads it for the surveyor. What is no such text raises
ValueError with an example, and is never taken for none.
"""

from __future__ import annotations

import re

from et_kube.quantities import read_amounts
from et_scheduler.model.cluster import Headroom
from et_scheduler.model.shapes import make_shape

MOST_PODS = 10_000
_HEADROOM = re.compile(r"([1-9]\d{0,4})\*([^*]+)")
_EXAMPLE = "20*cpu=3,memory=3Gi"


def read_headroom(text: str) -> Headroom | None:
    """None for an empty text; ValueError says what one looks like."""
    if not text.strip():
        return None
    found = _HEADROOM.fullmatch(text.replace(" ", ""))
    if found is None or int(found[1]) > MOST_PODS:
        raise ValueError(f"up to {MOST_PODS} pods of one size are written as {_EXAMPLE}")
    pairs = [one.partition("=") for one in found[2].split(",")]
    try:
        amounts = read_amounts({name: amount for name, _, amount in pairs})
    except ValueError as error:
        raise ValueError(f"{error}; {_EXAMPLE} is 20 pods of 3 CPU and 3 GiB") from error
    if not amounts or not all(name for name, *_ in pairs):
        raise ValueError(f"a pod without requests has no size; one has in {_EXAMPLE}")
    return Headroom(make_shape(amounts), int(found[1]))
