"""One kind of objects as they are now, for ever: list, then watch, and again where that broke.

Whatever the server does (closes at once, answers nonsense, is silent, is away), requests come no
faster than the backoff allows, and nothing that happened is missed: a gap ends in a new list.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeAlias

import structlog

from et_operator.errors import ApiError, EtOperatorError, Expired, Unreachable
from et_operator.kube.api import Api, WatchEvent
from et_operator.model.resources import Json, Resource
from et_operator.runtime.backoff import CONNECTING, KNOCKING
from et_operator.runtime.clock import Clock
from et_operator.runtime.racing import Interrupted, run_unless

log = structlog.get_logger()

SHORTEST_WATCH = timedelta(minutes=5)
LONGEST_WATCH = timedelta(minutes=10)
"""Watches end at random times between, so that they do not all come back at once."""

HEALTHY_WATCH = 5.0
"""Seconds after which a watch that ended was a good one; earlier ends count as failures."""

MAX_EMPTY_WATCHES = 3
"""Watches in a row that closed early without an event. Servers have answered a version that is too
old in this way instead of with 410, so what follows is a list."""


@dataclass(frozen=True, slots=True)
class Synced:
    """All objects there are: what is not among them is gone. The list was begun at `begun`."""

    resource: Resource
    namespace: str | None
    items: tuple[Json, ...]
    version: str
    begun: datetime


@dataclass(frozen=True, slots=True)
class Upserted:
    """An object as it is now."""

    resource: Resource
    object: Json


@dataclass(frozen=True, slots=True)
class Deleted:
    """An object as it was when it went."""

    resource: Resource
    object: Json


Sighting: TypeAlias = Synced | Upserted | Deleted


class Reflector:
    """Tells what becomes of all objects of one kind, in one namespace or in all (None).

    Args:
        api: where to look.
        clock: for delays and times.
        resource: the kind.
        namespace: where, None for everywhere.
        tell: called with each sighting, in order; must not block.
        label_selector: which objects.
        field_selector: which objects.
        chance: the dice for jitter, in [0, 1).
    """

    def __init__(  # noqa: PLR0913 (two places to look from, four ways to narrow and pace it)
        self,
        api: Api,
        clock: Clock,
        resource: Resource,
        namespace: str | None,
        tell: Callable[[Sighting], None],
        *,
        label_selector: str = "",
        field_selector: str = "",
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._api = api
        self._clock = clock
        self._resource = resource
        self._namespace = namespace
        self._tell = tell
        self._labels = label_selector
        self._fields = field_selector
        self._chance = chance
        self._version = ""  # where to watch on from; "" asks for a list
        self._failures = 0
        self._absences = 0
        self._empty_watches = 0
        self._list_wanted = asyncio.Event()
        self._list_taken = asyncio.Condition()
        self.last_contact: float | None = None
        """When the server was last heard of (clock.monotonic)."""
        self.synced_begun: float | None = None
        """When the newest completed list was begun (clock.monotonic)."""

    @property
    def is_synced(self) -> bool:
        """Whether a list has ever been completed."""
        return self.synced_begun is not None

    @property
    def name(self) -> str:
        """For logs."""
        return f"{self._resource.plural} in {self._namespace or 'all namespaces'}"

    def relist(self) -> None:
        """List again as soon as the backoff allows; a list under way starts over."""
        self._list_wanted.set()

    async def wait_synced(self, begun_after: float) -> None:
        """Wait for a list begun at this time (clock.monotonic) or later. Has no deadline."""
        async with self._list_taken:
            await self._list_taken.wait_for(
                lambda: self.synced_begun is not None and self.synced_begun >= begun_after
            )

    async def run(self) -> None:
        """Never ends. Errors of the server and the network are logged and waited out."""
        while True:
            if self._list_wanted.is_set():
                self._list_wanted.clear()
                self._version = ""
            step = self._watch() if self._version else self._list()
            try:
                is_good = await run_unless(self._list_wanted.wait(), step)
            except Interrupted:
                continue
            except EtOperatorError as error:
                await self._wait_out(error)
            else:
                if not is_good:
                    await self._wait_out(None)

    async def _list(self) -> bool:
        begun, begun_at = self._clock.monotonic(), self._clock.now()
        listing = await self._api.list(
            self._resource,
            self._namespace,
            label_selector=self._labels,
            field_selector=self._fields,
        )
        self._version = listing.resource_version
        self._empty_watches = 0
        self.last_contact = self._clock.monotonic()
        self._tell(Synced(self._resource, self._namespace, listing.items, self._version, begun_at))
        async with self._list_taken:
            self.synced_begun = begun
            self._list_taken.notify_all()
        return True

    async def _watch(self) -> bool:
        """One watch until it ends; whether it was a good one."""
        start = self._clock.monotonic()
        events = 0
        span = LONGEST_WATCH - SHORTEST_WATCH
        stream = self._api.watch(
            self._resource,
            self._namespace,
            resource_version=self._version,
            label_selector=self._labels,
            field_selector=self._fields,
            timeout=SHORTEST_WATCH + span * self._chance(),
        )
        try:
            async with aclosing(stream):
                async for event in stream:
                    events += 1
                    self._take(event)
        finally:
            is_good = self._clock.monotonic() - start >= HEALTHY_WATCH
            if is_good:
                self._failures = 0
        self._empty_watches = 0 if is_good or events else self._empty_watches + 1
        if self._empty_watches >= MAX_EMPTY_WATCHES:
            self._version = ""
        return is_good

    def _take(self, event: WatchEvent) -> None:
        """Pass an event on and remember how far we are."""
        self.last_contact = self._clock.monotonic()
        if event.type == "DELETED":
            self._tell(Deleted(self._resource, event.object))
        elif event.type != "BOOKMARK":
            self._tell(Upserted(self._resource, event.object))
        self._version = event.object["metadata"]["resourceVersion"]

    async def _wait_out(self, error: EtOperatorError | None) -> None:
        """Pause after a failure or a watch that ended early, as long as the server asked at least.

        Only good watches count failures from zero: a list that works says nothing of them. A server
        that cannot be reached is counted by itself, so that it is not kept waiting once it is back.
        """
        if isinstance(error, Expired):
            self._version = ""
        if isinstance(error, Unreachable):
            self._absences += 1
            delay = KNOCKING.delay(self._absences, self._chance())
        else:
            self._absences = 0
            self._failures += 1
            delay = CONNECTING.delay(self._failures, self._chance())
        if isinstance(error, ApiError) and error.retry_after is not None:
            delay = max(delay, error.retry_after)
        log.info(
            "will look again",
            what=self.name,
            why=str(error) if error else "the watch ended early",
            seconds=round(delay.total_seconds(), 1),
            failures=self._failures + self._absences,
        )
        await self._clock.sleep(delay)
