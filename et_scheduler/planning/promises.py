"""On which nodes pods are still to come, and who had better look for room elsewhere."""

from __future__ import annotations

import numpy as np

from et_scheduler.model.shapes import Shape
from et_scheduler.planning.fitting import Gang, Seats
from et_scheduler.planning.matching import Mask
from et_scheduler.planning.rooms import Counts, Room


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
        self._numbers: dict[str, int] = {}
        self._free: dict[tuple[int, Shape, Shape | None], Mask] = {}

    def note(self, uid: str, gang: Gang, seats: Seats) -> None:
        """Pods of this job will be on these nodes, and are not yet."""
        self._free.clear()
        number = self._numbers.setdefault(uid, len(self._numbers) + 1)
        places = np.array(seats.places, dtype=np.intp)
        self._owners[np.ix_(places, self._find_taken(gang.worker))] = number
        if gang.launcher is not None and seats.launcher is not None:
            self._owners[seats.launcher, self._find_taken(gang.launcher)] = number

    def get_number(self, uid: str) -> int:
        """Whose promises are left in: all who have none are as one."""
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
        """Where only this one has pods still to come that take any of the same."""
        taken = self._find_taken(worker)
        if launcher is not None:
            taken = np.union1d(taken, self._find_taken(launcher))
        owners = self._owners[:, taken]
        mask: Mask = ((owners == 0) | (owners == number)).all(axis=1)
        return mask

    def _find_taken(self, shape: Shape) -> Counts:
        """Which resources such a pod takes; there are enough places for pods."""
        return np.flatnonzero(self._room.get_vector(shape)[1:]) + 1
