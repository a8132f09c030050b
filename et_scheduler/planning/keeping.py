"""Where room is kept for pods of others that are yet to come.

In the room of the pass (services.py), and in the one that there will be once all have gone who were
asked to go (levelling.py). Nobody is asked to go here.
"""

from __future__ import annotations

import numpy as np

from et_scheduler.model.cluster import Headroom
from et_scheduler.model.shapes import Shape
from et_scheduler.planning.drafts import Draft
from et_scheduler.planning.fitting import Gang, Seats, count_seats, find_seats, hold_seats
from et_scheduler.planning.rooms import Counts, Room


def keep_in(draft: Draft, room: Room, headroom: Headroom) -> list[tuple[Gang, Seats]]:
    """Keep what is or becomes free there, for so many at most; answers where for how many."""
    left, tiers, kept = headroom.pods, rank_places(draft, headroom.shape), []
    for tier in np.unique(tiers).tolist():
        found = count_seats(room, Gang(None, headroom.shape, left), tiers == tier, later=True)
        gang = Gang(None, headroom.shape, found)
        seats = find_seats(room, gang, tiers == tier, later=True)
        if seats is not None:
            hold_seats(room, gang, seats)
            kept.append((gang, seats))
            left -= found
    return kept


def rank_places(draft: Draft, shape: Shape) -> Counts:
    """By node, where pods that are yet to come cost gangs least: lower is better.

    Last where somebody waits for the node; before, by how many kinds of what they do not ask for
    it has: who needs its GPUs can be nowhere else.
    """
    is_other = draft.room.get_vector(shape) == 0
    ranks: Counts = (draft.room.allocatable[:, is_other] > 0).sum(axis=1)
    ranks[list(list_reserved(draft))] += len(is_other)
    return ranks


def list_reserved(draft: Draft) -> frozenset[int]:
    """Where others wait for room: what they are given is theirs while there is other room."""
    names = {name for one in draft.standings.values() for name in one.admission.reserved}
    return frozenset(draft.room.places[name] for name in names if name in draft.room.places)
