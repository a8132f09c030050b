"""What each queue is due: weighted max-min of each resource, filled up in integers.

Pure arithmetic for ledgers.py, one resource at a time: it knows neither jobs nor nodes, nor what a
queue has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby


@dataclass(frozen=True, slots=True)
class Claim:
    """What a queue asks for of one resource, already cut to its limit."""

    queue: str
    weight: int
    priority: int
    request: int


def share(total: int, claims: Sequence[Claim]) -> Mapping[str, int]:
    """What each queue deserves of one resource.

    Promises: queues of a higher priority first; among equals min(request, weight x level) with one
    level for all; the sum is min(total, all requests); what does not divide goes one by one in the
    order of the names.
    """
    deserved: dict[str, int] = {}
    left = max(total, 0)
    ordered = sorted(claims, key=lambda claim: -claim.priority)
    for _, tier in groupby(ordered, key=lambda claim: claim.priority):
        given = _share_evenly(left, list(tier))
        left -= sum(given.values())
        deserved.update(given)
    return deserved


def _share_evenly(total: int, claims: Sequence[Claim]) -> dict[str, int]:
    """Progressive filling: who asks for less than the level gets it all, and raises the level."""
    deserved: dict[str, int] = {claim.queue: 0 for claim in claims if not claim.weight}
    # By request/weight without a division: the level reaches the smallest of them first.
    open_claims = [claim for claim in claims if claim.weight]
    weights, left = sum(claim.weight for claim in open_claims), total
    while open_claims:
        full = [one for one in open_claims if one.request * weights <= one.weight * left]
        if not full:
            break
        for claim in full:
            deserved[claim.queue] = claim.request
        left -= sum(claim.request for claim in full)
        weights -= sum(claim.weight for claim in full)
        open_claims = [claim for claim in open_claims if claim.queue not in deserved]
    for claim in open_claims:
        deserved[claim.queue] = left * claim.weight // weights
    rest = left - sum(deserved[claim.queue] for claim in open_claims)
    for claim in sorted(open_claims, key=lambda claim: claim.queue)[: max(rest, 0)]:
        deserved[claim.queue] += 1
    return deserved
