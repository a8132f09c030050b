"""What jobs count for: as pods of their kinds, and as amounts of what queues share.

A part of the draft that only computes: what it answers is written into the books by others
(seating.py, drafts.py). Which pods stay is told by standings.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from et_scheduler.model.jobs import Pod
from et_scheduler.model.queues import Queue
from et_scheduler.model.shapes import Shape
from et_scheduler.planning.fitting import Gang
from et_scheduler.planning.ledgers import SCALE
from et_scheduler.planning.pools import Piece, Pools
from et_scheduler.planning.rooms import Counts, Room
from et_scheduler.planning.standings import Standing


class Counting:
    """What jobs count for in each step of a pass. `get_queue`: by which queue a job counts."""

    def __init__(
        self,
        queues: Mapping[str, Queue],
        room: Room,
        pools: Pools,
        get_queue: Callable[[Standing], str],
    ) -> None:
        self._queues, self._room, self._pools, self._get_queue = queues, room, pools, get_queue
        self._parts: dict[Piece, tuple[int, ...]] = {}
        self._wholes: list[int] = np.where(pools.is_shared, pools.total, 0).tolist()

    def get_amounts(self, standing: Standing, workers: int, *, launcher: bool = True) -> Counts:
        """What so many new workers of the job would take of what is shared."""
        amounts: Counts = self._pools.get_vector(standing.job.worker) * workers
        if launcher:
            amounts = amounts + self._pools.get_vector(standing.job.launcher)
        return amounts

    def get_gang(self, standing: Standing, gang: Gang) -> Counts:
        """What a gang of the job would take of what is shared, with its launcher if it has one."""
        return self.get_amounts(standing, gang.workers, launcher=gang.launcher is not None)

    def list_pieces(self, standing: Standing, pods: Sequence[Pod]) -> list[Piece]:
        """As what these bound workers count, in their order."""
        if not pods:
            return []
        by_node, known = self._pools.by_node, dict[tuple[Shape | None, int | None], Piece]()
        kinds = [(pod.shape, by_node.get(pod.node)) for pod in pods]
        for shape, pool in set(kinds):
            known[shape, pool] = self._pools.get_piece(shape or standing.job.worker, pool)
        return [known[kind] for kind in kinds]

    def count_held(
        self, standing: Standing, workers: int, there: Sequence[Piece]
    ) -> Counter[Piece]:
        """What the job counts for with so many workers: those that are `there` as they are.

        Others count where they may come at all.
        """
        queue, counts = self._get_queue(standing), self.count_bound(standing, there[:workers])
        if workers > len(there):
            coming = standing.coming
            if self.may_come(queue, coming):
                counts[self._pools.get_piece(coming)] += workers - len(there)
        if standing.launcher is None and self.may_come(queue, standing.job.launcher):
            counts[self._pools.get_piece(standing.job.launcher)] += 1
        return counts

    def count_bound(self, standing: Standing, there: Sequence[Piece]) -> Counter[Piece]:
        """What the job counts for with these workers, and with its launcher if that has a node."""
        counts, launcher = Counter(there), standing.launcher
        if launcher is not None:
            own = launcher.shape or standing.job.launcher
            counts[self._pools.find_piece(own, launcher.node)] += 1
        return counts

    def may_come(self, queue: str, shape: Shape) -> bool:
        """Whether some node could hold such pods, or one may come for them."""
        known = self._queues.get(queue)
        return self._room.could_hold(shape) or (known is not None and known.is_autoscaled)

    def get_held(self, standing: Standing, workers: int) -> Counts:
        """What a job holds, as amounts of what is shared."""
        there = self.list_pieces(standing, standing.workers[:workers])
        return self._sum(self.count_held(standing, workers, there))

    def get_lacking(self, standing: Standing) -> Counts:
        """What of that has no node: as it is counted there, whatever its template asks for now."""
        there = self.list_pieces(standing, standing.workers)
        held = self.count_held(standing, standing.size, there)
        return self._sum(held - self.count_bound(standing, there))

    def get_taken(self, standing: Standing, pods: Sequence[Pod]) -> Counts:
        """What these bound workers take of what is shared."""
        return self._sum(Counter(self.list_pieces(standing, pods)))

    def _sum(self, counts: Mapping[Piece, int]) -> Counts:
        amounts = np.zeros_like(self._pools.total)
        for piece, count in counts.items():
            amounts += self._pools.vectors[piece] * count
        return amounts

    def note_parts(self, standing: Standing, there: Sequence[Piece]) -> None:
        """Compute the shares of the cluster of its launcher and of each worker, on average."""
        launcher, job = standing.launcher, standing.job
        if not there and launcher is None:
            standing.launcher_parts = self._get_parts(self._pools.get_piece(job.launcher))
            standing.worker_parts = self._get_parts(self._pools.get_piece(job.worker))
            return
        own = (launcher.shape or job.launcher, launcher.node) if launcher else (job.launcher,)
        standing.launcher_parts = self._get_parts(self._pools.find_piece(*own))
        pieces = there or [self._pools.get_piece(job.worker)]
        if len(set(pieces)) == 1:
            standing.worker_parts = self._get_parts(pieces[0])
            return
        columns = zip(*(self._get_parts(piece) for piece in pieces), strict=True)
        standing.worker_parts = tuple(sum(column) // len(pieces) for column in columns)

    def _get_parts(self, piece: Piece) -> tuple[int, ...]:
        if piece not in self._parts:
            pairs = zip(self._pools.vectors[piece].tolist(), self._wholes, strict=True)
            self._parts[piece] = tuple(n * SCALE // whole if whole else 0 for n, whole in pairs)
        return self._parts[piece]
