from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from et_kube.errors import (
    AlreadyExists,
    Conflict,
    KubeError,
    NotFound,
    NotLeader,
    OutcomeUnknown,
    Unreachable,
)
from et_kube.leasing import Lease
from et_kube.resources import Json, Ref, Resource
from fakes.clock import FakeClock

SECOND = timedelta(seconds=1)


class Server:
    """Holds one Lease, and fails as a test says."""

    def __init__(self) -> None:
        self.lease: dict[str, Any] | None = None
        self.version = 0
        self.error: KubeError | None = None
        self.is_hanging = False
        self.lose_answers = False

    async def _begin(self) -> None:
        await asyncio.sleep(0)
        if self.is_hanging:
            await asyncio.Event().wait()
        if self.error is not None:
            raise self.error

    async def get(self, ref: Ref) -> Json:
        await self._begin()
        if self.lease is None:
            raise NotFound(404, "NotFound", "no lease")
        return self.lease

    async def create(self, resource: Resource, namespace: str | None, manifest: Json) -> Json:
        await self._begin()
        if self.lease is not None:
            raise AlreadyExists(409, "AlreadyExists", "")
        return self._store(manifest["spec"])

    async def patch(self, ref: Ref, body: Json) -> Json:
        await self._begin()
        assert self.lease is not None
        if body["metadata"]["resourceVersion"] != self.lease["metadata"]["resourceVersion"]:
            raise Conflict(409, "Conflict", "modified")
        stored = self._store({**self.lease["spec"], **body["spec"]})
        if self.lose_answers:
            raise OutcomeUnknown("cut")
        return stored

    def _store(self, spec: Json) -> Json:
        self.version += 1
        metadata = {"uid": "u", "resourceVersion": str(self.version)}
        self.lease = {"metadata": metadata, "spec": dict(spec)}
        return self.lease

    @property
    def spec(self) -> Json:
        assert self.lease is not None
        return self.lease["spec"]


def make_lease(server: Server, clock: FakeClock, identity: str) -> Lease:
    return Lease(
        server,  # type: ignore[arg-type]
        clock,
        namespace="ns",
        name="l",
        identity=identity,
        duration=15 * SECOND,
        renew_deadline=10 * SECOND,
        retry_period=2 * SECOND,
        chance=lambda: 0.0,
    )


async def stay() -> None:
    await asyncio.Event().wait()


class Replica:
    """One contender and what its work went through."""

    def __init__(self, server: Server, clock: FakeClock, identity: str) -> None:
        self.lease = make_lease(server, clock, identity)
        self.history: list[str] = []
        self.task: asyncio.Task[None] | None = None

    def start(self, group: asyncio.TaskGroup) -> None:
        self.task = group.create_task(self._lead())

    def stop(self) -> None:
        assert self.task is not None
        self.task.cancel()

    async def _lead(self) -> None:
        try:
            await self.lease.lead(self._work)
        except NotLeader:
            self.history.append("lost")

    async def _work(self) -> None:
        self.history.append("begun")
        try:
            await stay()
        finally:
            await asyncio.sleep(0)
            self.history.append("ended")


async def test_the_first_leads_and_the_second_waits():
    server, clock = Server(), FakeClock()
    a, b = Replica(server, clock, "a"), Replica(server, clock, "b")
    async with asyncio.TaskGroup() as group:
        a.start(group)
        await clock.settle()
        b.start(group)
        await clock.advance(120 * SECOND)
        assert (a.history, b.history) == (["begun"], [])
        assert a.lease.is_leader
        a.lease.guard()
        with pytest.raises(NotLeader):
            b.lease.guard()
        assert server.spec["holderIdentity"] == "a"
        assert server.spec["leaseDurationSeconds"] == 15
        a.stop()
        b.stop()


async def test_a_lease_that_is_given_back_is_taken_at_the_next_look():
    server, clock = Server(), FakeClock()
    a, b = Replica(server, clock, "a"), Replica(server, clock, "b")
    async with asyncio.TaskGroup() as group:
        a.start(group)
        await clock.settle()
        b.start(group)
        await clock.advance(10 * SECOND)
        a.stop()
        await clock.settle()
        assert a.history == ["begun", "ended"]
        assert server.spec["holderIdentity"] == ""
        await clock.advance(2 * SECOND)
        assert b.history == ["begun"]
        assert server.spec["leaseTransitions"] == 1
        b.stop()


async def test_a_holder_that_is_dead_is_replaced_after_the_duration_as_seen_on_our_clock():
    server, clock = Server(), FakeClock()
    server._store({"holderIdentity": "dead", "renewTime": "garbage", "leaseDurationSeconds": 15})
    b = Replica(server, clock, "b")
    async with asyncio.TaskGroup() as group:
        b.start(group)
        await clock.advance(14 * SECOND)
        assert b.history == []
        await clock.advance(4 * SECOND)
        assert b.history == ["begun"]
        b.stop()


@pytest.mark.parametrize("trouble", ["error", "hanging"])
async def test_whoever_cannot_renew_stops_before_anybody_else_may_start(trouble: str):
    server, clock = Server(), FakeClock()
    a = Replica(server, clock, "a")
    async with asyncio.TaskGroup() as group:
        a.start(group)
        await clock.settle()
        if trouble == "error":
            server.error = Unreachable("away")
        else:
            server.is_hanging = True
        await clock.advance(timedelta(seconds=9.9))
        a.lease.guard()
        assert a.history == ["begun"]
        await clock.advance(timedelta(seconds=0.2))
        with pytest.raises(NotLeader):
            a.lease.guard()
        assert a.history == ["begun", "ended", "lost"]


async def test_one_request_that_hangs_does_not_cost_the_lease():
    server, clock = Server(), FakeClock()
    a = Replica(server, clock, "a")
    async with asyncio.TaskGroup() as group:
        a.start(group)
        await clock.settle()
        server.is_hanging = True
        await clock.advance(3 * SECOND)
        server.is_hanging = False
        await clock.advance(30 * SECOND)
        assert a.history == ["begun"]
        a.stop()


async def test_a_renewal_whose_answer_was_lost_is_recognised_as_ours():
    server, clock = Server(), FakeClock()
    a = Replica(server, clock, "a")
    async with asyncio.TaskGroup() as group:
        a.start(group)
        await clock.settle()
        server.lose_answers = True
        await clock.advance(5 * SECOND)
        server.lose_answers = False
        await clock.advance(30 * SECOND)
        assert a.history == ["begun"]
        a.stop()


async def test_a_lease_that_another_one_has_taken_is_lost_at_once():
    server, clock = Server(), FakeClock()
    a = Replica(server, clock, "a")
    async with asyncio.TaskGroup() as group:
        a.start(group)
        await clock.settle()
        server._store({**server.spec, "holderIdentity": "thief"})
        await clock.advance(5 * SECOND)
    assert a.history == ["begun", "ended", "lost"]
    assert server.spec["holderIdentity"] == "thief"


async def test_the_clock_that_counts_is_read_when_a_write_is_sent():
    server, clock = Server(), FakeClock()
    lease = make_lease(server, clock, "a")
    async with asyncio.TaskGroup() as group:
        task = group.create_task(lease.lead(stay))
        await clock.settle()
        lease.guard()
        clock._passed += 11  # a suspended machine: time has passed, no task has run
        with pytest.raises(NotLeader):
            lease.guard()
        task.cancel()


async def test_work_that_fails_gives_the_lease_back():
    server, clock = Server(), FakeClock()

    async def break_down() -> None:
        raise LookupError("broken")

    with pytest.raises(LookupError, match="broken"):
        await make_lease(server, clock, "a").lead(break_down)
    assert server.spec["holderIdentity"] == ""


def test_times_that_would_let_two_lead_are_refused():
    with pytest.raises(ValueError, match="renew deadline"):
        Lease(
            Server(),  # type: ignore[arg-type]
            FakeClock(),
            namespace="ns",
            name="l",
            identity="a",
            duration=10 * SECOND,
            renew_deadline=10 * SECOND,
            retry_period=2 * SECOND,
        )
