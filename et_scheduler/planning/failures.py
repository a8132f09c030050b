"""What was tried in a pass in vain, so that nothing as large is tried again.

Kept by starting.py for one pass, in which room only gets less. Who holds nodes, or has seats kept,
is never called hopeless: for him there is room that nobody else may have.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable
from operator import le, lt

from et_scheduler.model.shapes import Shape
from et_scheduler.planning.drafts import ALLOWED, Draft
from et_scheduler.planning.fitting import Gang
from et_scheduler.planning.standings import Standing


class Failures:
    """What decides who may be asked, and where the pods may be: room only gets less in a pass."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._found: dict[Hashable, list[tuple[int, ...]]] = defaultdict(list)
        self._numbers: dict[Hashable, int] = {}
        self._kinds: dict[Shape, int] = {}

    def is_hopeless(self, standing: Standing, gang: Gang) -> bool:
        """Whether one that is as large in nothing has failed, and so this one would."""
        if standing.held is not None or standing.job.uid in self._draft.holds.by_uid:
            return False
        size = self._measure(gang)
        tried = self._found.get(self._sort(standing, gang), ())
        return any(all(map(le, one, size)) for one in tried)

    def note(self, standing: Standing, gang: Gang) -> None:
        """A search has failed; the least of their kind are kept."""
        if standing.job.uid not in self._draft.holds.by_uid:
            size = self._measure(gang)
            kept = self._found[self._sort(standing, gang)]
            kept[:] = [one for one in kept if any(map(lt, one, size))]
            kept.append(size)

    def _measure(self, gang: Gang) -> tuple[int, ...]:
        return (gang.workers, *self._draft.room.get_amounts(gang.worker))

    def _sort(self, standing: Standing, gang: Gang) -> Hashable:
        worker, job = gang.worker, standing.job
        if worker not in self._kinds:
            is_offered = self._draft.room.is_offered(worker)  # what is not, no measure shows
            where = (worker.terms, worker.tolerations, worker.host_ports, is_offered)
            self._kinds[worker] = self._numbers.setdefault(where, len(self._numbers))
        queue = self._draft.get_queue(standing)
        can_ask = self._draft.hearing.may_ask(standing)  # else it says nothing of who can
        has_waited = self._draft.has_waited(standing)  # it waits for fewer then
        spared = [bool(self._draft.find_spared(standing, allowed)) for allowed in (1, ALLOWED)]
        asks = (queue, job.priority, can_ask, *spared, has_waited)
        return (*asks, gang.launcher, self._kinds[worker])
