"""Which replica leads: a Lease, kept by renewing it, lost by not being able to.

This limits how long two can lead at once; it does not fence. Three things keep it honest. Times
are measured on our own clock, from before each request was sent, and never read from the Lease.
Whoever cannot renew stops before anybody else may start (renew deadline < lease duration), its work
cancelled and awaited. And every write asks `guard` first.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Coroutine
from datetime import timedelta
from typing import Any

import structlog

from et_kube.api import Api
from et_kube.clock import Clock
from et_kube.errors import AlreadyExists, Conflict, KubeError, NotFound, NotLeader
from et_kube.racing import Interrupted, run_unless, run_within
from et_kube.resources import LEASES, Json, Ref
from et_kube.times import format_micro_time

log = structlog.get_logger()

RELEASE_LIMIT = timedelta(seconds=2)
"""How long the end may be held up by telling others that the lease is free."""


class Lease:
    """One replica's part in the election.

    Args:
        api: where the Lease is; its writes must not be guarded by this lease.
        clock: its monotonic time must count suspension.
        namespace: of the Lease.
        name: of the Lease.
        identity: who we are; no other replica may have the same.
        duration: after so long without a renewal others may take it.
        renew_deadline: after so long without a renewal we stop; well below `duration`.
        retry_period: between renewals, and between looks at somebody else's lease.
        chance: the dice for jitter, in [0, 1).
    """

    def __init__(  # noqa: PLR0913 (the Lease's address and its times; all but two by keyword)
        self,
        api: Api,
        clock: Clock,
        *,
        namespace: str,
        name: str,
        identity: str,
        duration: timedelta,
        renew_deadline: timedelta,
        retry_period: timedelta,
        chance: Callable[[], float] = random.random,
    ) -> None:
        if not retry_period < renew_deadline < duration:
            raise ValueError("retry period < renew deadline < lease duration must hold")
        self._api = api
        self._clock = clock
        self._ref = Ref(LEASES, namespace, name)
        self._identity = identity
        self._duration = duration
        self._renew_deadline = renew_deadline
        self._retry_period = retry_period
        self._chance = chance
        self._stored: Json | None = None  # our Lease as last stored; None: to be read first
        self._observed: object = None  # somebody else's term, and since when it looks like this
        self._observed_since = 0.0
        self._renewed: float | None = None

    @property
    def is_leader(self) -> bool:
        """Whether something may be written now."""
        return self._renewed is not None and self._find_time_left() > timedelta(0)

    def guard(self) -> None:
        """Call last before a write.

        Raises:
            NotLeader: the lease is not ours, or was not renewed in time.
        """
        if not self.is_leader:
            raise NotLeader(f"{self._identity} does not hold {self._ref}")

    async def lead(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """One term: wait until we lead, then run `work` until it ends or the lease is lost.

        However it ends, `work` has ended before, and the lease is given back unless it was lost.

        Raises:
            NotLeader: the lease was lost; `work` was cancelled. Call again to try again.
        """
        await self._acquire()
        log.info("leading", lease=str(self._ref), identity=self._identity)
        try:
            await run_unless(self._hold(), work())
        except Interrupted:
            log.warning("the lease was lost", lease=str(self._ref), identity=self._identity)
            raise NotLeader(f"{self._identity} has lost {self._ref}") from None
        finally:
            was_ours = self.is_leader
            self._renewed = None
            if was_ours:
                await self._release()

    async def _acquire(self) -> None:
        """Wait until the lease is ours, for ever."""
        while True:
            begun = self._clock.monotonic()
            try:
                if await run_within(self._clock, self._renew_deadline, self._try_to_acquire()):
                    self._renewed = begun
                    return
            except (KubeError, TimeoutError) as error:
                log.warning("cannot look at the lease", lease=str(self._ref), why=describe(error))
            await self._clock.sleep(self._retry_period * (1 + self._chance()))

    async def _try_to_acquire(self) -> bool:
        """Take the lease if it is free or has run out; False if another replica has it."""
        self._stored = None
        try:
            stored = await self._api.get(self._ref)
        except NotFound:
            stored = None
        try:
            if stored is None:
                self._stored = await self._create()
            elif self._is_free(stored):
                self._stored = await self._write(stored, self._build_term(stored))
        except (AlreadyExists, Conflict):
            return False  # somebody was faster
        return self._stored is not None

    def _is_free(self, stored: Json) -> bool:
        """Whether nobody holds it, or its holder has not renewed it for as long as it lasts."""
        spec = stored.get("spec") or {}
        holder = spec.get("holderIdentity")
        if not holder or holder == self._identity:
            return True
        term = (holder, spec.get("renewTime"), spec.get("leaseTransitions"))
        now = self._clock.monotonic()
        if term != self._observed:
            self._observed, self._observed_since = term, now
        seconds = spec.get("leaseDurationSeconds")
        lasts = seconds if isinstance(seconds, int) else self._duration.total_seconds()
        return now - self._observed_since > lasts

    async def _hold(self) -> None:
        """Renew the lease; returns when it is lost."""
        while True:
            left = self._find_time_left()
            if left <= timedelta(0):
                return
            await self._clock.sleep(min(self._retry_period, left))
            begun = self._clock.monotonic()
            try:
                # Half of the deadline: one request that hangs must leave time for another.
                limit = min(self._find_time_left(), self._renew_deadline / 2)
                if not await run_within(self._clock, limit, self._renew()):
                    return
            except (KubeError, TimeoutError) as error:
                log.warning("lease not renewed", lease=str(self._ref), why=describe(error))
            else:
                self._renewed = begun

    async def _renew(self) -> bool:
        """Say that we are alive; False if another replica has the lease or nobody knows it.

        After an answer that did not come, and after a conflict, the Lease is read before it is
        written again: that write may have been ours.
        """
        known, self._stored = self._stored, None
        try:
            stored = known if known is not None else await self._api.get(self._ref)
            if (stored.get("spec") or {}).get("holderIdentity") != self._identity:
                return False
            renewed = {"renewTime": format_micro_time(self._clock.now())}
            self._stored = await self._write(stored, renewed)
        except NotFound:
            return False
        return True

    async def _release(self) -> None:
        """Let others in at once; that failing costs them the lease's duration, nothing else."""
        try:
            await run_within(self._clock, RELEASE_LIMIT, self._give_back())
        except (KubeError, TimeoutError) as error:
            log.warning("lease not released", lease=str(self._ref), why=describe(error))

    async def _give_back(self) -> None:
        stored = self._stored if self._stored is not None else await self._api.get(self._ref)
        if (stored.get("spec") or {}).get("holderIdentity") == self._identity:
            await self._write(stored, {"holderIdentity": "", "leaseDurationSeconds": 1})
            log.info("lease released", lease=str(self._ref), identity=self._identity)
        self._stored = None

    async def _create(self) -> Json:
        manifest = {
            "apiVersion": LEASES.api_version,
            "kind": LEASES.kind,
            "metadata": {"name": self._ref.name, "namespace": self._ref.namespace},
            "spec": self._build_term(None),
        }
        return await self._api.create(LEASES, self._ref.namespace, manifest)

    async def _write(self, stored: Json, spec: Json) -> Json:
        """Change the Lease if it is still as we know it."""
        meta = stored["metadata"]
        pinned = {"uid": meta["uid"], "resourceVersion": meta["resourceVersion"]}
        return await self._api.patch(self._ref, {"metadata": pinned, "spec": spec})

    def _build_term(self, before: Json | None) -> Json:
        """The spec of a term of ours that begins now."""
        spec = (before or {}).get("spec") or {}
        transitions = spec.get("leaseTransitions") or 0
        is_change = before is not None and spec.get("holderIdentity") != self._identity
        now = format_micro_time(self._clock.now())
        return {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": max(1, round(self._duration.total_seconds())),
            "acquireTime": now,
            "renewTime": now,
            "leaseTransitions": transitions + is_change,
        }

    def _find_time_left(self) -> timedelta:
        """Until the renew deadline, as of now."""
        if self._renewed is None:
            return timedelta(0)
        passed = timedelta(seconds=self._clock.monotonic() - self._renewed)
        return self._renew_deadline - passed


def describe(error: Exception) -> str:
    """An error in words; a time-out has none of its own."""
    return str(error) or "no answer in time"
