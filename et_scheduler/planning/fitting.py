"""Whether a gang fits on nodes all at once, and on which: tightest first.

Sums over a room, which knows no job, queue or priority. `find_` and `count_` change nothing;
`take_` and `hold_` change the room, and `release_` is the opposite of `hold_`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from et_scheduler.model.shapes import Shape
from et_scheduler.planning.matching import Mask
from et_scheduler.planning.rooms import Counts, Room


@dataclass(frozen=True, slots=True)
class Gang:
    """A launcher, unless it is there already, and so many workers."""

    launcher: Shape | None
    worker: Shape
    workers: int


@dataclass(frozen=True, slots=True)
class Seats:
    """Where a gang's pods go: places of nodes, and how many workers on each."""

    launcher: int | None = None
    places: tuple[int, ...] = ()
    pods: tuple[int, ...] = ()

    def list_places(self) -> tuple[int, ...]:
        """All nodes that are used, in their order."""
        own = () if self.launcher is None else (self.launcher,)
        return tuple(sorted({*self.places, *own}))


def find_seats(
    room: Room, gang: Gang, allowed: Mask | None = None, *, later: bool = False
) -> Seats | None:
    """Seats for the whole gang on allowed nodes, or None where there are none.

    Exact: the launcher goes where it costs the workers least, so that if any choice of nodes holds
    the gang, this finds one.
    """
    if room.count_all(gang.worker, later=later) < gang.workers:
        return None
    fits = room.count_fits(gang.worker, later=later)
    if allowed is not None:
        fits = np.where(allowed, fits, 0)
    missing = int(fits.sum()) - gang.workers
    if missing < 0:
        return None
    if gang.launcher is None:
        return _fill(None, fits, gang.workers)
    launchers = room.count_fits(gang.launcher, later=later)
    candidates = np.flatnonzero(launchers if allowed is None else launchers * allowed)
    if not candidates.size:
        return None
    beside = room.count_fits(gang.worker, later=later, beside=gang.launcher)[candidates]
    costs = fits[candidates] - beside
    best = int(np.lexsort((candidates, fits[candidates], costs))[0])
    if costs[best] > missing:
        return None
    place = int(candidates[best])
    fits = fits.copy()
    fits[place] = beside[best]
    return _fill(place, fits, gang.workers)


def count_largest(gang: Gang, count: Callable[[Shape, Shape | None], Counts]) -> int:
    """How many of its workers there would be room for beside its launcher; -1: none even for that.

    `count` says how many pods of a shape each node would hold, or hold beside one of another.
    """
    fits = count(gang.worker, None)
    if gang.launcher is None:
        return int(fits.sum())
    own = count(gang.launcher, None) > 0
    if not own.any():
        return -1
    return int(fits.sum()) - int((fits - count(gang.worker, gang.launcher))[own].min())


def count_seats(room: Room, gang: Gang, allowed: Mask | None = None, *, later: bool = False) -> int:
    """How many of the gang's workers have room, no more than it has; the launcher left aside."""
    fits = room.count_fits(gang.worker, later=later)
    found = int(fits.sum() if allowed is None else fits[allowed].sum())
    return min(found, gang.workers)


def _fill(launcher: int | None, fits: Counts, workers: int) -> Seats:
    """The tightest nodes first, so that whole ones stay whole."""
    places = np.flatnonzero(fits)
    order = places[np.argsort(fits[places], kind="stable")]
    sums = np.cumsum(fits[order])
    used = int(np.searchsorted(sums, workers)) + 1 if workers else 0
    pods = fits[order[:used]].tolist()
    if used:
        pods[-1] -= int(sums[used - 1]) - workers
    return Seats(launcher, tuple(order[:used].tolist()), tuple(pods))


def take_seats(room: Room, gang: Gang, seats: Seats) -> None:
    """The gang has them from now on."""
    if seats.launcher is not None and gang.launcher is not None:
        room.take((seats.launcher,), (1,), gang.launcher)
    if seats.places:
        room.take(seats.places, seats.pods, gang.worker)


def hold_seats(room: Room, gang: Gang, seats: Seats) -> None:
    """What is or becomes free there is kept for the gang."""
    if seats.launcher is not None and gang.launcher is not None:
        room.hold((seats.launcher,), (1,), gang.launcher)
    if seats.places:
        room.hold(seats.places, seats.pods, gang.worker)


def release_seats(room: Room, gang: Gang, seats: Seats) -> None:
    """The opposite of `hold_seats`."""
    if seats.launcher is not None and gang.launcher is not None:
        room.expect((seats.launcher,), (1,), gang.launcher)
    if seats.places:
        room.expect(seats.places, seats.pods, gang.worker)
