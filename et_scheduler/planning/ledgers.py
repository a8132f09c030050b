"""What each queue has, needs at least, and is due: kept up to date while a pass decides.

Amounts come in, and sums go out: which pods they are of is for counting.py, what is due is shared
out by sharing.py. All in integers, so that a pass can be decided again to the last digit.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from et_scheduler.model.queues import Queue
from et_scheduler.planning.matching import Mask
from et_scheduler.planning.pools import Pools
from et_scheduler.planning.rooms import Counts
from et_scheduler.planning.sharing import Claim, share

SCALE = 10**9
"""Fractions are compared as so many parts, in integers."""
UNLIMITED = 2**62


class Ledger:
    """One row a queue, one column a resource of a pool. Limits count over all pools.

    Places for pods are due as all else is, and count for nothing unless it is said: who has many
    tiny pods has no less of what there is, and who is due places keeps nothing else by that.
    What is found of it holds as long as `changes` stays the same.
    """

    def __init__(self, queues: Mapping[str, Queue], pools: Pools) -> None:
        self.queues = queues
        self.total = pools.total
        self._pools, self._is_shared = pools, pools.is_shared
        self._limits = {name: self._read_limits(queue) for name, queue in queues.items()}
        self._ratios: dict[str, int] = {}
        self._above: dict[str, int] = {}
        self.clear()

    def clear(self) -> None:
        """Begin the books anew: nobody has or asks for anything."""
        self.allocated = {name: np.zeros_like(self.total) for name in self.queues}
        self.least = {name: np.zeros_like(self.total) for name in self.queues}
        self.requested = {name: np.zeros_like(self.total) for name in self.queues}
        self.deserved = {name: np.zeros_like(self.total) for name in self.queues}
        self.coming = {name: np.zeros_like(self.total) for name in self.queues}
        self._unseated = {name: np.zeros_like(self.total) for name in self.queues}
        self._is_contended = np.zeros(len(self.total), dtype=np.bool_)
        self.changes = 0

    def book(self, queue: str, amounts: Counts, least: Counts | None = None) -> None:
        """The queue, if there is one, has so much more, and needs so much more at least."""
        self.changes += 1
        if queue in self.queues:
            self._ratios.pop(queue, None)
            self._above.pop(queue, None)
            self.allocated[queue] += amounts
            if least is not None:
                self.least[queue] += least

    def miss(self, queue: str, amounts: Counts) -> None:
        """So much of what the queue may have is nowhere, and may never be: nobody can give it back.

        An autoscaler is to see pods that fit on no node. They count for limits, and for what is
        requested; else whoever asked for what no node has would have others of his queue go.
        """
        if queue in self.queues:
            self.changes += 1
            self._ratios.pop(queue, None)
            self._above.pop(queue, None)
            self._unseated[queue] += amounts

    def expect(self, queue: str, amounts: Counts) -> None:
        """Others leave so much room for somebody of the queue who waits."""
        self.coming[queue] += amounts

    def apportion(self) -> None:
        """Compute what each deserves from what all request.

        What pods of others have is nobody's due: all jobs together could else be within theirs, and
        none give for a gang of the queue that is first.
        """
        self._ratios.clear()
        self._above.clear()
        asked = {name: self._cut(name).tolist() for name in self.queues}
        for column in range(len(self.total)):
            claims = [
                Claim(name, queue.weight, queue.priority, asked[name][column])
                for name, queue in self.queues.items()
            ]
            total = int(self._pools.left[column])
            self._is_contended[column] = sum(claim.request for claim in claims) > total
            for name, amount in share(total, claims).items():
                self.deserved[name][column] = amount

    def find_spare(self, queue: str) -> Counts:
        """What it has above what it is due; anything of a resource that there is enough of.

        Of that each queue is due all that it requests, so that losing a job would always be too
        much: a launcher's few bytes would keep whole nodes.
        """
        spare = self._find_seated(queue) - self.deserved[queue]
        return np.where(self._is_contended & self._is_shared, spare, UNLIMITED)

    def get_ratio(self, queue: str, more: Counts | None = None) -> int:
        """allocated/deserved of the resource where it is largest, in parts of SCALE."""
        if more is None and queue in self._ratios:
            return self._ratios[queue]
        ratio = self._find_ratio(queue, self._find_seated(queue) + (0 if more is None else more))
        if more is None:
            self._ratios[queue] = ratio
        return ratio

    def _find_ratio(self, queue: str, amounts: Counts) -> int:
        shared = self._is_shared
        pairs = zip(amounts[shared].tolist(), self.deserved[queue][shared].tolist(), strict=True)
        return max(
            (amount * SCALE // deserved if deserved else UNLIMITED)
            for amount, deserved in (*pairs, (0, 1))
            if amount or deserved
        )

    def is_above_share(self, queue: str, wanted: Counts) -> bool:
        """Whether the queue has more than it is due of something that is wanted."""
        return bool(self.find_above(queue) & self.mark_wanted(wanted))

    def find_above(self, queue: str) -> int:
        """The resources of which the queue has more than it is due, as a number of `mark`."""
        if queue not in self._above:
            self._above[queue] = mark(self._find_seated(queue) > self.deserved[queue])
        return self._above[queue]

    def mark_wanted(self, wanted: Counts, *, with_places: bool = False) -> int:
        """The resources that are wanted, as a number of `mark`."""
        return mark((wanted > 0) & self._select(with_places=with_places))

    def is_in_share(self, queue: str, gang: Counts, *, with_places: bool = False) -> bool:
        """Whether the queue's jobs at their least, with this gang, are within what it is due.

        So are those for which others leave room already. A queue that has nothing may exceed by one
        gang, or it could never begin.
        """
        coming, counted = self.coming[queue], self._select(with_places=with_places)
        if not (self.allocated[queue][counted].any() or coming[counted].any()):
            return True
        return self.is_due(queue, gang, with_places=with_places)

    def is_due(self, queue: str, gang: Counts, *, with_places: bool = False) -> bool:
        """As `is_in_share`, but that one that has nothing is due no more than others."""
        wanted = self.least[queue] + self.coming[queue] + gang
        over = (wanted > self.deserved[queue]) & (gang > 0)
        return not over[self._select(with_places=with_places)].any()

    def exceeds_limit(
        self, queue: str, more: Counts, *, at_least: bool = False, owed: Counts | None = None
    ) -> bool:
        """Whether the queue would have more than it may; `at_least`: with its jobs at theirs."""
        if not self.queues[queue].limits:
            return False
        return bool(self.find_over(queue, more, at_least=at_least, owed=owed).any())

    def find_over(
        self, queue: str, more: Counts, *, at_least: bool = False, owed: Counts | None = None
    ) -> Mask:
        """By resource, whether that would be above its limit.

        What is `owed` to others counts for the resources of which it would have more.
        """
        amounts = self._pools.sum_up(self.least[queue] if at_least else self.allocated[queue])
        wanted = self._pools.sum_up(more)
        if owed is not None:
            amounts = amounts + self._pools.sum_up(owed)
        over: Mask = (amounts + wanted > self._limits[queue]) & (wanted > 0)
        return over

    def find_surplus(self, queue: str, wanted: Counts) -> Counts:
        """By resource, what it would have with that above its limits; below 0 where it may more."""
        return self._pools.sum_up(self.allocated[queue] + wanted) - self._limits[queue]

    def _find_seated(self, queue: str) -> Counts:
        return self.allocated[queue] - self._unseated[queue]

    def _select(self, *, with_places: bool) -> Mask:
        return np.ones_like(self._is_shared) if with_places else self._is_shared

    def _cut(self, queue: str) -> Counts:
        """What it asks for within its limits: what it has first, then by the names of pools."""
        left, asked = self._limits[queue].copy(), self.requested[queue]
        has = np.minimum(self.allocated[queue], asked)
        cut = np.zeros_like(asked)
        for part in (has, asked - has):
            for wanted, row in zip(self._pools.split(part), self._pools.split(cut), strict=True):
                within = np.minimum(wanted, left)
                row[:] = row + within
                left -= within
        return cut

    def _read_limits(self, queue: Queue) -> Counts:
        limits = [queue.limits.get(name, UNLIMITED) for name in self._pools.resources]
        return np.array(limits, dtype=np.int64)


def mark(columns: Mask) -> int:
    """Some columns as one number: what thousands are asked costs no array."""
    return int.from_bytes(columns.tobytes(), "little")
