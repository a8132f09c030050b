"""horovodrun that waits for each rank of the training once, and for no other.

A rank that needs a new ring asks horovodrun for its place there, and is answered once all have
asked: as many as the training has ranks. horovodrun counts who asks or fails, whoever that is, by
threads that come to a barrier (horovod/runner/elastic/registration.py, `_record_state`). A rank of
a pod that was deleted by force lives on for a moment; one asks again whose connection was cut; of
one that fails while it waits the thread should go and another one come, and both stay where several
fail at once. What is counted so stays, and the next ring begins without one that has not asked:
that one waits for good, a worker that is to leave until its time is over, one that is to stay until
Gloo's time-out ends the job. Where all who were counted have failed, horovodrun ends at once. The
same in 0.20.0 to 0.28.1.

So nobody comes to that barrier. Who has no place in the training is not counted, nor is it noted
that it has failed: it is answered at once, with none. All others are counted by their places,
whatever is said of one and how often, and wait until the next ring is known. Who fails meanwhile is
noted as it comes: what Horovod looks through as it makes that ring is a copy.
"""

from __future__ import annotations

import threading
import weakref

from launcher.shim import fitting

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Set

READY = "READY"


def count_once() -> None:
    """Have horovodrun count so.

    People are told where the installed Horovod is not as we know it.
    """
    fitting.replace(_replace, "a rank without a place may be counted")


def _replace() -> None:
    from horovod.runner.elastic import registration
    from horovod.runner.elastic.driver import ElasticDriver

    registry = registration.WorkerStateRegistry
    fitting.check("_wait", registry._wait, ["self", "key", "state", "rendezvous_id"])  # noqa: SLF001 (the barrier has no other door)
    fitting.check("_action", registry._action, ["self"])  # noqa: SLF001 (the same)
    fitting.check("_record_state", registry._record_state, ["self", "host", "slot", "state"])  # noqa: SLF001 (the same)
    fitting.check("get", registry.get, ["self", "state"])
    fitting.check("get_recorded_slots", registry.get_recorded_slots, ["self"])
    fitting.check("size", registry.size, ["self"])
    fitting.check("last_rendezvous", registry.last_rendezvous, ["self"])
    asked = ElasticDriver.has_rank_assignment
    fitting.check("has_rank_assignment", asked, ["self", "host", "slot"])
    if registration.READY != READY:
        raise fitting.Misfit("its states have other names")
    counts: weakref.WeakKeyDictionary[Any, Counts] = weakref.WeakKeyDictionary()

    def wait_once(registry: Any, key: Any, state: str, rendezvous_id: int) -> Any:
        has_place = registry._driver.has_rank_assignment  # noqa: SLF001 (the same)
        count = counts.setdefault(registry, Counts()).find(rendezvous_id)
        if not has_place(*key):
            count.leave_out(registry, key)
            return rendezvous_id
        is_late = not count.add(key)
        if count.is_complete(registry.size()):
            try:
                registry._action()  # noqa: SLF001 (the same)
            finally:
                count.is_over.set()
        count.is_over.wait()
        has_next = registry.last_rendezvous() != rendezvous_id  # else it would be late for ever
        if is_late and has_next and state != READY and has_place(*key):
            return registry._record_state(*key, state)  # noqa: SLF001 (the same)
        return rendezvous_id

    def copy_noted(registry: Any, state: str) -> Any:
        with registry._lock:  # noqa: SLF001 (the notes are under it)
            return set(registry._workers[state])  # noqa: SLF001 (the same)

    def copy_recorded(registry: Any) -> Any:
        with registry._lock:  # noqa: SLF001 (the same)
            return list(registry._states)  # noqa: SLF001 (the same)

    registry._wait = wait_once  # noqa: SLF001 (the same)
    # `_action` looks through both while others are noted: until 0.22.1 that waited for the barrier.
    registry.get, registry.get_recorded_slots = copy_noted, copy_recorded


class Counts:
    """The count for the next ring of one training."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count = Count(0)

    def find(self, ring: int) -> Count:
        """The count of this ring; one that is over where the next is known already."""
        with self._lock:
            if self._count.ring < ring:
                self._count = Count(ring)
            return self._count if self._count.ring == ring else Count(ring, is_over=True)


class Count:
    """Who has asked in a ring for the next, or has failed, by host and slot."""

    def __init__(self, ring: int, *, is_over: bool = False) -> None:
        self.ring = ring
        self.is_over = threading.Event()
        """The next ring is known, or there will be none."""
        self._lock = threading.Lock()
        self._keys: Set[Any] = set()
        self._is_complete = is_over
        if is_over:
            self.is_over.set()

    def add(self, key: Any) -> bool:
        """Count it; False where all were there before: the next ring is being made."""
        with self._lock:
            if not self._is_complete:
                self._keys.add(key)
            return not self._is_complete

    def leave_out(self, registry: Any, key: Any) -> None:
        """Forget what was noted of one without a place: `_action` compares how many have failed.

        Not while that looks at it; what was noted before that is forgotten by itself.
        """
        with self._lock:
            if not self._is_complete:
                with registry._lock:  # noqa: SLF001 (the notes are under it)
                    registry._states.pop(key, None)  # noqa: SLF001 (the same)
                    for keys in registry._workers.values():  # noqa: SLF001 (the same)
                        keys.discard(key)

    def is_complete(self, size: int) -> bool:
        """Whether all are there now; that is said once."""
        with self._lock:
            is_now = not self._is_complete and len(self._keys) >= size
            self._is_complete = self._is_complete or is_now
            return is_now
