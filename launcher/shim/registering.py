"""horovodrun that waits for each rank of the training once, and for no other.

A rank that needs a new ring asks horovodrun for its place there, and is answered once all have
asked: as many as the training has ranks. horovodrun counts who asks, whoever that is
(horovod/runner/elastic/registration.py, `_record_state`). A rank of a pod that was deleted by force
lives on for a moment; one asks again whose connection was cut. What is counted so stays, and the
next ring begins without one that has not asked: that one waits for good, a worker that is to leave
until its time is over, one that is to stay until Gloo's time-out ends the job. Where all who were
counted have failed, horovodrun ends at once. The same in 0.20.0 to 0.28.1.

So who has no place in the training is not counted: it is answered at once, with none. Who was
counted already, as alive or as failed, waits beside until the next ring is known.
"""

from __future__ import annotations

import threading
import weakref

from launcher.shim import fitting

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict

READY, FAILURE = "READY", "FAILURE"
LOOK_SECONDS = 0.1


def count_once() -> None:
    """Have horovodrun count so; people are told where its Horovod is not as we know it."""
    fitting.replace(_replace, "a rank without a place may be counted")


def _replace() -> None:
    from horovod.runner.elastic import registration
    from horovod.runner.elastic.driver import ElasticDriver

    registry = registration.WorkerStateRegistry
    wait = registry._wait  # noqa: SLF001 (the barrier has no other door)
    fitting.check("_wait", wait, ["self", "key", "state", "rendezvous_id"])
    fitting.check("last_rendezvous", registry.last_rendezvous, ["self"])
    has_place = ElasticDriver.has_rank_assignment
    fitting.check("has_rank_assignment", has_place, ["self", "host", "slot"])
    if (registration.READY, registration.FAILURE) != (READY, FAILURE):
        raise fitting.Misfit("its states have other names")
    pause = threading.Event()
    entries: weakref.WeakKeyDictionary[Any, Entry] = weakref.WeakKeyDictionary()

    def wait_once(registry: Any, key: Any, state: str, rendezvous_id: int) -> Any:
        driver = registry._driver  # noqa: SLF001 (the same)
        if not driver.has_rank_assignment(*key):
            return rendezvous_id
        entry = entries.setdefault(registry, Entry())
        is_failed = registry._states.get(key) == FAILURE  # noqa: SLF001 (the same)
        if state != READY or (entry.enter(key, rendezvous_id) and not is_failed):
            return wait(registry, key, state, rendezvous_id)
        while registry.last_rendezvous() == rendezvous_id and not driver.finished():
            pause.wait(LOOK_SECONDS)
        return rendezvous_id

    registry._wait = wait_once  # noqa: SLF001 (the same)


class Entry:
    """Who is counted as alive for the next ring."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counted: Dict[Any, int] = {}
        """By host and slot, in which of the training's rings it asked for the next."""

    def enter(self, key: Any, ring: int) -> bool:
        """Whether it had not been counted."""
        with self._lock:
            is_new = self._counted.get(key) != ring
            self._counted[key] = ring
            return is_new
