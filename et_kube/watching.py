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
from datetime import timedelta
from typing import Any, TypeAlias

import structlog

from et_kube.api import Api, WatchEvent
from et_kube.backoff import CONNECTING, KNOCKING
from et_kube.clock import Clock
from et_kube.errors import ApiError, Expired, KubeError, Truncated, Unreachable, Unreadable
from et_kube.racing import Interrupted, run_unless
from et_kube.resources import Json, Resource

log = structlog.get_logger()

SHORTEST_WATCH = timedelta(minutes=5)
LONGEST_WATCH = timedelta(minutes=10)
"""Watches end at random times between, so that they do not all come back at once."""

HEALTHY_WATCH = 5.0
"""Seconds after which a watch that ended was a good one; earlier ends count as failures."""

MUTE_WATCH = 65.0
"""Seconds in which a watch must have said something: bookmarks come each minute. One from a version
that is yet to come says nothing, however much happens (Kubernetes: storage/cacher), and that is how
a server looks whose etcd was restored; so what follows is a list."""

MAX_EMPTY_WATCHES = 3
"""Watches in a row that closed early without an event. Servers have answered a version that is too
old in this way instead of with 410, so what follows is a list."""


@dataclass(frozen=True, slots=True)
class Synced:
    """All objects there are: what is not among them is gone.

    The list was begun at `begun` (clock.monotonic). `is_set_back` says that the server knows less
    than was known by then, as one whose etcd was restored: what was believed until now is void.
    """

    resource: Resource
    namespace: str | None
    items: tuple[Any, ...]
    version: str
    begun: float
    is_set_back: bool = False


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


@dataclass(frozen=True, slots=True)
class Cut:
    """Nothing more is heard of this kind, until Resumed or Synced says otherwise."""

    resource: Resource
    namespace: str | None


@dataclass(frozen=True, slots=True)
class Resumed:
    """The watch goes on from where it was cut, as of `at` (clock.monotonic): nothing is missed."""

    resource: Resource
    namespace: str | None
    at: float


Sighting: TypeAlias = Synced | Upserted | Deleted | Cut | Resumed


class Reflector:
    """Tells what becomes of all objects of one kind, in one namespace or in all (None).

    It also tells when it cannot. A watch that opens again says so with its first event, which is a
    bookmark where nothing has happened, so it counts as cut for up to a minute longer. One that was
    well and breaks is not told yet: a proxy may end what is idle, and the next one misses nothing.

    Args:
        api: where to look.
        clock: for delays and times.
        resource: the kind.
        namespace: where, None for everywhere.
        tell: called with each sighting, in order; must not block.
        label_selector: which objects.
        field_selector: which objects.
        keep: what is told of the objects of a list, see Api.list; None: they themselves.
        find_newest: the newest version that is known from elsewhere, from answers to writes, say.
        chance: the dice for jitter, in [0, 1).
        on_defect: called for each error that is neither the server's nor the network's.
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
        keep: Callable[[Json], Any] | None = None,
        find_newest: Callable[[], int] = int,
        chance: Callable[[], float] = random.random,
        on_defect: Callable[[], None] | None = None,
    ) -> None:
        self._api = api
        self._clock = clock
        self._resource = resource
        self._namespace = namespace
        self._tell = tell
        self._labels = label_selector
        self._fields = field_selector
        self._keep = keep
        self._find_newest = find_newest
        self._chance = chance
        self._on_defect = on_defect
        self._version = ""  # where to watch on from; "" asks for a list
        self._newest = 0  # of the versions that were told
        self._failures = 0
        self._absences = 0
        self._empty_watches = 0
        self._is_cut = False
        self._was_well = False
        self._list_wanted = asyncio.Event()
        self.last_contact: float | None = None
        """When the server was last heard of (clock.monotonic); None before the first list."""

    @property
    def is_synced(self) -> bool:
        """Whether a list has ever been completed."""
        return self.last_contact is not None

    @property
    def name(self) -> str:
        """How logs call this watch: which objects of which namespace."""
        return f"{self._resource.plural} in {self._namespace or 'all namespaces'}"

    def relist(self) -> None:
        """List again as soon as the backoff allows; no list that was begun before is told."""
        self._list_wanted.set()

    async def run(self) -> None:
        """Never ends. Errors are logged and waited out.

        So is a defect: an answer that nobody foresaw is met with a new list, after a while, and
        what the other watches see is still acted upon.
        """
        while True:
            if self._list_wanted.is_set():
                self._list_wanted.clear()
                self._version = ""
            self._was_well = False
            step = self._watch() if self._version else self._list()
            try:
                is_good = await run_unless(self._list_wanted.wait(), step)
            except Interrupted:
                continue
            except KubeError as error:
                await self._wait_out(error)
            except Exception as error:  # noqa: BLE001 (the process has other things to do)
                self._note_defect(error)
                await self._wait_out(error)
            else:
                if not is_good:
                    await self._wait_out(None)

    async def _list(self) -> bool:
        begun = self._clock.monotonic()
        known = max(self._newest, self._find_newest())
        listing = await self._api.list(
            self._resource,
            self._namespace,
            label_selector=self._labels,
            field_selector=self._fields,
            keep=self._keep,
        )
        if self._list_wanted.is_set():
            return True
        self._version = listing.resource_version
        self._empty_watches = 0
        self._is_cut = False
        self.last_contact = self._clock.monotonic()
        self._newest = read_version(self._version)
        self._tell(
            Synced(
                self._resource,
                self._namespace,
                listing.items,
                self._version,
                begun,
                is_set_back=self._newest < known,
            )
        )
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
            now = self._clock.monotonic()
            lived, heard = now - start, max(start, self.last_contact or start)
            is_good = lived >= HEALTHY_WATCH
            self._was_well = is_good and now - heard < MUTE_WATCH
            if is_good:
                self._failures = 0
            if not events and lived >= MUTE_WATCH:
                self._version = ""
        if is_good:
            self._note_contact()
        self._empty_watches = 0 if is_good or events else self._empty_watches + 1
        if self._empty_watches >= MAX_EMPTY_WATCHES:
            self._version = ""
        return is_good

    def _take(self, event: WatchEvent) -> None:
        """Pass an event on and remember how far we are.

        Raises:
            Expired: it is older than what was told before; the server was set back.
        """
        version = read_version(event.object["metadata"]["resourceVersion"])
        if version < self._newest:
            raise Expired(410, "Expired", f"version {version} comes after {self._newest}")
        self._newest = version
        self._note_contact()
        if event.type == "DELETED":
            self._tell(Deleted(self._resource, event.object))
        elif event.type != "BOOKMARK":
            self._tell(Upserted(self._resource, event.object))
        self._version = event.object["metadata"]["resourceVersion"]

    def _note_contact(self) -> None:
        self.last_contact = self._clock.monotonic()
        if self._is_cut:
            self._is_cut = False
            self._tell(Resumed(self._resource, self._namespace, self.last_contact))

    def _note_defect(self, error: Exception) -> None:
        log.error("a watch met a defect", what=self.name, exc_info=error)
        if self._on_defect is not None:
            self._on_defect()
        self._version = ""

    async def _wait_out(self, error: Exception | None) -> None:
        """Pause after a failure or a watch that ended early, as long as the server asked at least.

        Only good watches count failures from zero: a list that works says nothing of them. A server
        that cannot be reached is counted by itself, so that it is not kept waiting once it is back.
        """
        is_brief = self._was_well and isinstance(error, Truncated)
        if is_brief:
            self._note_contact()
        elif not self._is_cut:
            self._is_cut = True
            self._tell(Cut(self._resource, self._namespace))
        if isinstance(error, Expired | Unreadable):
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


def read_version(text: str) -> int:
    """A resourceVersion as a number (see tables.py); 0 for one that is none."""
    return int(text) if text.isdecimal() else 0
