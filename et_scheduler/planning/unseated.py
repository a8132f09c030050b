"""Pods of admitted jobs that find no node, and which gangs have no room before these have.

kube-scheduler puts them wherever room becomes free, before a gang that waits has any pods.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import NamedTuple

from et_scheduler.planning.drafts import Draft
from et_scheduler.planning.fitting import (
    Gang,
    Seats,
    count_seats,
    find_seats,
    hold_seats,
    release_seats,
)
from et_scheduler.planning.giving import Rank
from et_scheduler.planning.standings import Standing

Unseated = tuple[Standing, Gang]


class Others(NamedTuple):
    """For whom room is to be there `before` the waiter; who is `seeking` nodes that are to come."""

    before: list[Unseated]
    seeking: list[Unseated]


def list_others(draft: Draft, waiter: Standing, asks: Rank, *, has_waited: bool) -> Others:
    """Whose pods would have the room from which others go for the waiter, in vain then.

    Nobody of strictly lower rank who gives back what he takes: whom the waiter `asks`, unless he is
    of a queue that was deleted, whose whole jobs never go, and who does not stand yet
    (planning/yielding.py). After a minute of waiting, of those who do not stand yet only who is of
    strictly higher rank: with one after the other that never stands the others would keep the
    waiter from room for good.

    For pods that are there for an autoscaler to see nobody goes; in that minute nobody goes for
    what they would take either.
    """
    mine = draft.rank_priority(waiter)
    others = Others([], [])
    for one, gang in draft.unseated:
        if one is waiter or not one.is_admitted:
            continue
        rank, stands = draft.rank_priority(one), one.admission.bound_at is not None
        is_deleted = draft.get_queue(one) not in draft.queues
        if rank < mine and not (stands and (is_deleted or asks(one, one.size) is None)):
            continue
        if is_for_nodes(draft, one):
            if not has_waited:
                others.seeking.append((one, gang))
        elif stands or rank > mine or not has_waited:
            others.before.append((one, gang))
    return others


def is_for_nodes(draft: Draft, standing: Standing) -> bool:
    """Whether the job was admitted without seats, so that an autoscaler sees its pods."""
    admission = standing.admission
    is_told = bool(admission.placement.only or admission.placement.launcher)
    return draft.is_autoscaled(standing) and admission.bound_at is None and not is_told


@contextmanager
def seated(draft: Draft, others: Iterable[Unseated]) -> Iterator[None]:
    """Meanwhile these are in what is free later, as far as they fit."""
    there: list[tuple[Gang, Seats]] = []
    for standing, gang in others:
        if standing.leaving:
            continue
        told = draft.holds.find_told(standing)
        some = replace(gang, workers=count_seats(draft.room, gang, told, later=True))
        seats = find_seats(draft.room, some, told, later=True) if some.workers else None
        if seats is not None:
            hold_seats(draft.room, some, seats)
            there.append((some, seats))
    yield
    for some, seats in reversed(there):
        release_seats(draft.room, some, seats)
