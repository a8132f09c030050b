"""On which nodes pods are still to come, and who had better look for room elsewhere.

A part of the draft, kept for one pass. It takes no room: it says where others had better not look,
and who looks there all the same breaks nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from et_scheduler.model.shapes import Shape
from et_scheduler.planning.fitting import Gang, Seats
from et_scheduler.planning.matching import Mask
from et_scheduler.planning.rooms import Counts, Room

Rank = tuple[int, int]
"""The rank of a gang's reservation: of two for the same nodes the lower one yields."""


class Promises:
    """Pods that were promised nodes and have none yet: whose they are, by node and resource.

    kube-scheduler knows nothing of our seats. Were two gangs told to look on nodes of which they
    share some, one could take both seats of a shared node, and the other would lack one while a
    seat of the first stays empty, where the other does not look. Who takes nothing of what they
    take is in nobody's way.
    """

    def __init__(self, room: Room) -> None:
        self._room = room
        self._owners: Counts = np.zeros_like(room.allocatable)
        self._wandering: dict[Rank, Counts] = {}
        self._numbers: dict[str, int] = {}
        self._free: dict[tuple[int, Shape, Shape | None], Mask] = {}

    def note(self, uid: str, gang: Gang, seats: Seats, starting: Rank | None = None) -> None:
        """Pods of this job will be on these nodes, and are not yet.

        `starting`: its rank, where it does not stand yet. Which of its nodes has how many of its
        workers is not known then: all may come to any of them, but one with a port comes alone.
        """
        self._free.clear()
        number = self._numbers.setdefault(uid, len(self._numbers) + 1)
        places = np.array(seats.places, dtype=np.intp)
        self._owners[np.ix_(places, self._find_taken(gang.worker))] = number
        if gang.launcher is not None and seats.launcher is not None:
            self._owners[seats.launcher, self._find_taken(gang.launcher)] = number
        if starting is not None and len(places) > 1 and not gang.worker.host_ports:
            more = self._wandering.setdefault(starting, np.zeros_like(self._owners))
            others = gang.workers - np.array(seats.pods, dtype=np.int64)
            more[places] += np.outer(others, self._room.get_vector(gang.worker))

    @contextmanager
    def with_wandering(self, above: Rank | None) -> Iterator[None]:
        """Meanwhile all workers of gangs that do not stand yet are on each of their nodes.

        `above`: only of those of a higher rank than this; None: of all.
        """
        found = [more for rank, more in self._wandering.items() if above is None or rank > above]
        more = np.sum(found, axis=0) if found else None
        if more is not None:
            self._room.keep(more)
        yield
        if more is not None:
            self._room.keep(-more)

    def get_number(self, uid: str) -> int:
        """A number for the owner of promised pods, -1 for all who have none: alike for a search."""
        return self._numbers.get(uid, -1)

    def leave_out(self, uid: str, gang: Gang, allowed: Mask | None) -> Mask | None:
        """Of the allowed nodes those where nobody else's pods are still to come."""
        if not self._numbers:
            return allowed
        key = (self.get_number(uid), gang.worker, gang.launcher)
        if key not in self._free:
            self._free[key] = self._find_free(*key)
        return self._free[key] if allowed is None else self._free[key] & allowed

    def _find_free(self, number: int, worker: Shape, launcher: Shape | None) -> Mask:
        """Nodes on which no pods of others are still to come that take what these shapes take."""
        taken = self._find_taken(worker, launcher)
        owned = self._owners[:, taken]
        mask: Mask = ((owned == 0) | (owned == number)).all(axis=1)
        return mask

    def _find_taken(self, shape: Shape, other: Shape | None = None) -> Counts:
        """Columns of the resources that these shapes take; places for pods are always enough."""
        amounts = self._room.get_vector(shape)[1:]
        if other is not None:
            amounts = amounts | self._room.get_vector(other)[1:]
        return np.flatnonzero(amounts) + 1
