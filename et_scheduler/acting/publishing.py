"""What is shown of queues: written where it differs, at most once in PERIOD for each.

Where nothing differs but what it is due, at most once in DUE_PERIOD.

A task of who leads; each pass offers it the newest statuses. It decides nothing about them, never
writes a spec, and leaves a queue alone that has gone meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

import structlog

from et_kube.api import Api
from et_kube.clock import Clock
from et_kube.errors import KubeError
from et_kube.resources import TRAINING_QUEUES, Json, Ref
from et_scheduler.codec.queues import build_queue_patch, encode_queue_status
from et_scheduler.model.queues import QueueStatus
from et_scheduler.state.ingesting import Ingest
from et_scheduler.state.store import Store

log = structlog.get_logger()

PERIOD = timedelta(seconds=5)
DUE_PERIOD = timedelta(minutes=1)
"""What queues are due changes with each pod of others, for all of them at once."""


class Publisher:
    """Writes the newest statuses that it was given.

    Args:
        api: whose writes the lease guards.
        store: what is shown now.
        ingest: where answers go.
        clock: for the period.
    """

    def __init__(self, api: Api, store: Store, ingest: Ingest, clock: Clock) -> None:
        self._api = api
        self._store = store
        self._ingest = ingest
        self._clock = clock
        self._statuses: tuple[QueueStatus, ...] = ()
        self._written: dict[str, float] = {}

    def offer(self, statuses: Iterable[QueueStatus]) -> None:
        """Show these from now on; returns at once."""
        self._statuses = tuple(statuses)
        names = {status.name for status in self._statuses}
        self._written = {name: at for name, at in self._written.items() if name in names}

    async def run(self) -> None:
        """Never ends. One queue that cannot be written holds up no other."""
        while True:
            for status in self._statuses:
                try:
                    await self._write(status)
                except (KubeError, ValueError) as error:
                    log.info("queue status not written", queue=status.name, why=str(error))
            await self._clock.sleep(PERIOD)

    async def _write(self, status: QueueStatus) -> None:
        place = ("", status.name)
        stored = self._store.queues.find(place)
        uid = self._store.queues.find_uid(place)
        if stored is None or uid is None:
            return
        wanted = encode_queue_status(status)
        patch = build_queue_patch(stored.shown, wanted)
        if patch is None or self._can_wait(status.name, stored.shown, wanted):
            return
        entry = self._store.queues.find_entry(place, uid)
        version = str(entry.version) if entry is not None else ""
        answer = await self._api.patch(
            Ref(TRAINING_QUEUES, "", status.name),
            {"metadata": {"uid": uid, "resourceVersion": version}, "status": patch},
            subresource="status",
        )
        self._ingest.put(TRAINING_QUEUES, answer)
        self._written[status.name] = self._clock.monotonic()

    def _can_wait(self, name: str, shown: Json, wanted: Json) -> bool:
        """Whether the status differs in what is due alone, and was written a short time ago."""
        at, seconds = self._written.get(name), DUE_PERIOD.total_seconds()
        if at is None or self._clock.monotonic() - at >= seconds:
            return False
        return all(shown.get(key) == value for key, value in wanted.items() if key != "deserved")
