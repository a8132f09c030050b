"""In which order decisions are written, and what one that is not taken does to the others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from functools import partial
from itertools import count
from typing import Any

import pytest

from et_contract.admissions import AdmissionState
from et_kube.backoff import RECONCILING
from et_kube.errors import (
    Conflict,
    KubeError,
    NotFound,
    NotLeader,
    OutcomeUnknown,
    Refused,
    Throttled,
    Unreachable,
)
from et_kube.events import Event
from et_kube.resources import TRAINING_JOBS, TRAINING_QUEUES, Json, Ref
from et_kube.watching import Upserted
from et_scheduler.acting.publishing import DUE_PERIOD, PERIOD, Publisher
from et_scheduler.acting.writing import AT_ONCE, CUTS, LATE, LONGER, PARTS, RESTING, Writer
from et_scheduler.codec.admissions import encode_admission
from et_scheduler.measuring import Metrics
from et_scheduler.model.decisions import Change, Step
from et_scheduler.model.jobs import Admission
from et_scheduler.model.queues import QueueStatus
from et_scheduler.model.reasons import Reason
from et_scheduler.state.ingesting import Ingest
from et_scheduler.state.store import Store
from et_scheduler.state.surveying import Surveyor
from fakes.clock import FakeClock
from fakes.documents import merge_patch
from tests.unit.scheduler.test_codec import make_stored

pytestmark = pytest.mark.usefixtures("quiet_logs")


class Server:
    """Takes patches, but for those that it has an error for."""

    def __init__(self) -> None:
        self.objects: dict[str, Any] = {}
        self.errors: dict[str, KubeError] = {}
        self.patched: list[str] = []
        self.is_changed_before = False
        self.is_away = False
        self.hold = partial(asyncio.sleep, 0)
        self._versions = count(100)

    async def patch(self, ref: Ref, body: Any, *, subresource: str = "") -> Json:
        assert subresource == "status"
        await self.hold()
        if ref.name in self.errors:
            raise self.errors[ref.name]
        is_pinned = body["metadata"].pop("resourceVersion", None) is not None
        if is_pinned and self.is_changed_before:
            raise Conflict(409, "Conflict", "it has been modified")
        self.patched.append(ref.name)
        new: Any = merge_patch(self.objects[ref.name], body)
        new["metadata"]["resourceVersion"] = str(next(self._versions))
        return new  # type: ignore[no-any-return]

    async def get(self, ref: Ref) -> Json:
        if self.is_away:
            raise Unreachable("connection refused")
        if ref.name not in self.objects:
            raise NotFound(404, "NotFound", ref.name)
        found: Json = self.objects[ref.name]
        return found


class Desk:
    def __init__(self, *names: str, elsewhere: str = "") -> None:
        self.clock = FakeClock()
        self.server = Server()
        self.store = Store()
        self.ingest = Ingest(self.store)
        self.events: list[Event] = []
        self.metrics = Metrics()
        self.writer = Writer(self.server, self.ingest, self, self.clock, self.metrics)  # type: ignore[arg-type]
        self.surveyor = Surveyor(self.store)
        for name in (*names, *filter(None, [elsewhere])):
            job = make_stored()
            job["metadata"] |= {"name": name, "uid": name, "resourceVersion": "7"}
            job["metadata"] |= {"namespace": "other"} if name == elsewhere else {}
            self.server.objects[name] = job
            self.ingest.take(Upserted(TRAINING_JOBS, job))

    def record(self, event: Event) -> None:
        self.events.append(event)

    async def write(self, *changes: Change) -> timedelta | None:
        return await self.writer.write(changes, self.surveyor.survey().entries)


def change(name: str, step: Step, reason: Reason = Reason.STARTED) -> Change:
    told = Admission(1, AdmissionState.ADMITTED, "main", workers=2, reason=reason, message="x")
    return Change(name, step, told)


CHANGES = (
    change("reserves", Step.RESERVE),
    change("gives", Step.GIVE),
    change("takes", Step.TAKE),
    change("told", Step.TELL),
)
NAMES = tuple(one.uid for one in CHANGES)


async def test_each_step_is_written_before_the_next_one() -> None:
    desk = Desk(*NAMES)
    assert await desk.write(*CHANGES) == timedelta()
    assert tuple(desk.server.patched) == NAMES
    assert [job.admission for job in desk.surveyor.survey().jobs] == [c.admission for c in CHANGES]


@pytest.mark.parametrize("name", NAMES)
async def test_after_a_patch_that_was_refused_no_later_step_is_written(name: str) -> None:
    desk = Desk(*NAMES)
    desk.server.errors[name] = Refused(422, "Invalid", "a webhook denied the request")
    assert await desk.write(*CHANGES) == timedelta()
    assert tuple(desk.server.patched) == NAMES[: NAMES.index(name)]
    assert set(desk.writer.list_resting()) == {name}
    assert desk.writer.find_wait() is not None
    await desk.clock.advance(timedelta(seconds=1))
    assert not desk.writer.list_resting()


async def test_a_rest_is_since_the_first_failure_in_a_row() -> None:
    desk = Desk("takes")
    desk.server.errors["takes"] = Refused(422, "Invalid", "a webhook denied the request")
    found = []
    for pause in (0, 30, 200):
        await desk.clock.advance(timedelta(seconds=pause))
        await desk.write(CHANGES[2])
        found.append(desk.writer.list_resting()["takes"])
    assert found[0] == found[1]
    assert found[2] == found[0] + 230_000, "it was not tried for a while"


async def test_who_is_refused_again_and_again_is_tried_seldom() -> None:
    desk = Desk("takes")
    desk.server.errors["takes"] = Refused(500, "InternalError", "request is too large")
    waits = []
    for _ in range(20):
        await desk.write(CHANGES[2])
        wait = desk.writer.find_wait()
        assert wait is not None
        waits.append(wait)
        await desk.clock.advance(wait)
    assert waits == sorted(waits)
    assert (waits[0], waits[-1]) == (timedelta(seconds=0.2), RESTING.limit)


async def test_of_a_namespace_with_many_such_jobs_each_is_tried_seldom_from_the_first() -> None:
    names = [f"job-{number:02}" for number in range(64)]
    desk = Desk(*names, elsewhere="other")
    error = Refused(500, "InternalError", "request is too large")
    desk.server.errors |= dict.fromkeys([*names, "other"], error)
    for wait in (0, 2):
        await desk.clock.advance(timedelta(seconds=wait))
        for name in names:
            await desk.write(change(name, Step.RESERVE))
    await desk.write(change("other", Step.RESERVE))
    await desk.clock.advance(timedelta(seconds=15))
    resting = desk.writer.list_resting()
    assert len(resting) > len(names) // 2
    assert "other" not in resting


async def test_an_outage_of_the_server_makes_nobody_wait_for_long() -> None:
    names = [f"job-{number:02}" for number in range(64)]
    desk = Desk(*names)
    desk.server.errors |= dict.fromkeys(names, OutcomeUnknown("no answer in time"))
    desk.server.is_away = True
    changes = [change(name, Step.RESERVE) for name in names]
    for _ in range(60):
        resting = desk.writer.list_resting()
        await desk.write(*[one for one in changes if one.uid not in resting])
        await desk.clock.advance(timedelta(seconds=5))
    await desk.clock.advance(RECONCILING.limit)
    assert not desk.writer.list_resting()
    assert desk.events == []


@pytest.mark.parametrize(
    "error",
    [Refused(500, "InternalError", "too large"), NotFound(404, "NotFound", "x")],
    ids=["filled", "deleted"],
)
async def test_jobs_that_are_made_anew_cut_no_more_than_a_part_of_all_passes_short(
    error: KubeError,
) -> None:
    """Each is filled to the last byte, or deleted, just then, and is followed by the next."""
    names = [f"job-{number:02}" for number in range(9)]
    desk = Desk(*names, elsewhere="honest")
    desk.server.errors |= dict.fromkeys(names, error)
    namespace = desk.server.objects[names[0]]["metadata"]["namespace"]
    kept_off = []
    for name in names[:4]:
        await desk.write(change(name, Step.RESERVE), change("honest", Step.TAKE))
        kept_off.append(set(desk.writer.list_kept_off()))
        await desk.clock.advance(timedelta(seconds=2))
    assert kept_off == [set(), set(), {namespace}, {namespace}]
    jobs = desk.surveyor.survey({}, desk.writer.list_kept_off()).jobs
    assert {job.uid for job in jobs if not job.is_frozen} == {"honest"}
    await desk.write(change("honest", Step.TAKE))
    assert desk.server.patched == ["honest"]
    await desk.clock.advance(timedelta(seconds=2 * PARTS - 2))
    assert not desk.writer.list_kept_off()


async def test_who_is_admitted_is_planned_with_whatever_others_of_his_namespace_do() -> None:
    desk = Desk("waits", "runs")
    desk.server.objects["runs"]["status"]["admission"] = encode_admission(CHANGES[0].admission)
    desk.server.objects["runs"]["metadata"]["resourceVersion"] = "8"
    desk.ingest.take(Upserted(TRAINING_JOBS, desk.server.objects["runs"]))
    namespace = desk.server.objects["runs"]["metadata"]["namespace"]
    jobs = desk.surveyor.survey({}, {namespace: 1}).jobs
    assert {job.uid: job.frozen_since for job in jobs} == {"waits": 1, "runs": None}


async def test_conflicts_and_an_outage_keep_no_namespace_off() -> None:
    desk = Desk("takes", elsewhere="told")
    for error in (Conflict(409, "Conflict", "x"), OutcomeUnknown("no answer in time")):
        desk.server.errors["takes"] = error
        desk.server.is_away = isinstance(error, OutcomeUnknown)
        for _ in range(CUTS - 1 + desk.server.is_away):
            await desk.write(change("takes", Step.RESERVE), change("told", Step.TAKE))
            await desk.clock.advance(timedelta(seconds=2))
        assert not desk.writer.list_kept_off()


async def test_nobody_rests_for_much_longer_than_it_has_lasted() -> None:
    """A webhook that is started anew refuses all of a namespace."""
    names = [f"job-{number:02}" for number in range(64)]
    desk = Desk(*names)
    desk.server.errors |= dict.fromkeys(names, Refused(500, "InternalError", "no webhook"))
    changes = [change(name, Step.TAKE) for name in names]
    for _ in range(50):
        resting = desk.writer.list_resting()
        await desk.write(*[one for one in changes if one.uid not in resting])
        await desk.clock.advance(timedelta(seconds=0.1))
    await desk.clock.advance(timedelta(seconds=5 * LONGER))
    assert not desk.writer.list_resting()


async def test_whose_job_cannot_be_written_is_told_once() -> None:
    desk = Desk("takes")
    desk.server.errors["takes"] = Refused(500, "InternalError", "request is too large")
    for _ in range(9):
        await desk.write(CHANGES[2])
    [event] = desk.events
    assert (event.reason, event.is_warning) == ("AdmissionNotWritten", True)
    assert "request is too large" in event.message


async def test_nobody_is_asked_beside_one_who_could_not_be_written() -> None:
    """Both are asked for one and the same: alone, neither would give anything."""
    desk = Desk("honest", "padded")
    desk.server.errors["padded"] = Refused(500, "InternalError", "request is too large")
    both = change("honest", Step.GIVE), change("padded", Step.GIVE)
    await desk.write(change("padded", Step.TELL))
    await desk.write(*both)
    assert desk.server.patched == []
    del desk.server.errors["padded"]
    await desk.write(*both)
    assert desk.server.patched == ["padded", "honest"]


async def test_a_conflict_is_looked_at_and_tried_again_at_once() -> None:
    desk = Desk("takes")
    desk.server.objects["takes"]["metadata"]["resourceVersion"] = "9"
    desk.server.errors["takes"] = Conflict(409, "Conflict", "it has been modified")
    await desk.write(CHANGES[2])
    assert not desk.writer.list_resting()
    assert desk.surveyor.survey().entries["takes"].version == 9
    for _ in range(2):
        await desk.write(CHANGES[2])
    assert set(desk.writer.list_resting()) == {"takes"}


async def test_a_job_that_is_changed_all_the_time_is_written_all_the_same() -> None:
    """Its author would keep what it was given, and have others give, for as long as he likes."""
    desk = Desk("takes")
    desk.server.is_changed_before = True
    for _ in range(2):
        await desk.write(CHANGES[2])
        assert desk.server.patched == []
    await desk.write(CHANGES[2])
    assert desk.server.patched == ["takes"]
    await desk.write(CHANGES[2])
    assert desk.server.patched == ["takes"] * 2  # that it was so is remembered
    await desk.clock.advance(RESTING.limit + timedelta(seconds=1))
    await desk.write(CHANGES[2])
    assert desk.server.patched == ["takes"] * 2  # as long as it may be so


async def test_jobs_that_are_changed_all_the_time_keep_nobody_of_the_same_step_waiting() -> None:
    busy = [f"aaa-{number:02}" for number in range(2 * AT_ONCE)]
    desk = Desk(*busy, "honest")
    desk.server.errors |= dict.fromkeys(busy, Conflict(409, "Conflict", "it has been modified"))
    await desk.write(*[change(name, Step.TAKE) for name in (*busy, "honest")])
    assert desk.server.patched == ["honest"]


async def test_on_one_that_is_gone_nothing_rests_but_what_was_asked_for_it() -> None:
    desk = Desk(*NAMES)
    desk.server.errors["takes"] = desk.server.errors["gives"] = NotFound(404, "NotFound", "x")
    await desk.write(*CHANGES)
    assert desk.server.patched == ["reserves", "told"]
    desk = Desk(*NAMES)
    desk.server.errors["reserves"] = NotFound(404, "NotFound", "x")
    await desk.write(*CHANGES)
    assert desk.server.patched == []


async def test_a_server_that_answers_late_is_not_waited_for_by_each_of_many() -> None:
    names = [f"job-{number:02}" for number in range(4 * AT_ONCE)]
    desk = Desk(*names)
    desk.server.errors |= dict.fromkeys(names, OutcomeUnknown("no answer in time"))
    desk.server.hold = partial(desk.clock.sleep, LATE * 2)
    async with asyncio.TaskGroup() as group:
        group.create_task(desk.write(*[change(name, Step.TAKE) for name in names]))
        await desk.clock.advance(LATE * 2)
    assert len(desk.writer.list_resting()) == AT_ONCE


async def test_a_job_that_is_gone_is_forgotten() -> None:
    desk = Desk("takes")
    desk.server.errors["takes"] = NotFound(404, "NotFound", "takes")
    await desk.write(CHANGES[2])
    assert desk.surveyor.survey().jobs == ()


async def test_a_server_that_asks_to_wait_is_given_time() -> None:
    desk = Desk("takes", elsewhere="told")
    for name in ("takes", "told"):
        desk.server.errors[name] = Throttled(429, "", "x", timedelta(seconds=3))
    both = change("takes", Step.TAKE), change("told", Step.TAKE)
    assert await desk.write(*both) == timedelta(seconds=3)


async def test_a_webhook_of_one_namespace_that_asks_to_wait_keeps_nobody_else_waiting() -> None:
    desk = Desk("takes", elsewhere="told")
    desk.server.errors["takes"] = Throttled(429, "", "x", timedelta(seconds=60))
    both = change("takes", Step.TAKE), change("told", Step.TAKE)
    assert await desk.write(*both) == timedelta()
    await desk.clock.advance(timedelta(seconds=59))
    assert set(desk.writer.list_resting()) == {"takes"}


async def test_whoever_does_not_lead_writes_nothing_more() -> None:
    desk = Desk(*NAMES)
    desk.server.errors["gives"] = NotLeader("not any more")
    with pytest.raises(NotLeader):
        await desk.write(*CHANGES)
    assert desk.server.patched == ["reserves"]


async def test_an_event_comes_with_another_reason_only() -> None:
    desk = Desk("takes")
    await desk.write(change("takes", Step.TAKE))
    await desk.write(change("takes", Step.TELL))
    await desk.write(change("takes", Step.GIVE, Reason.EVICTED))
    assert [(e.reason, e.is_warning) for e in desk.events] == [
        ("Started", False),
        ("Evicted", True),
    ]


# ------------------------------------------------------------------ queues
@asynccontextmanager
async def running(run: Callable[[], Coroutine[Any, Any, None]]) -> AsyncIterator[None]:
    async with asyncio.TaskGroup() as group:
        task = group.create_task(run())
        yield
        task.cancel()


def make_status(name: str, waiting: int, **allocated: int) -> QueueStatus:
    return QueueStatus(name, waiting, 0, allocated, {}, ())


def open_publisher(desk: Desk, *names: str) -> Publisher:
    """Of these queues."""
    for name in names:
        queue = {"metadata": {"name": name, "uid": name, "resourceVersion": "1"}, "spec": {}}
        desk.server.objects[name] = queue
        desk.ingest.take(Upserted(TRAINING_QUEUES, queue))
    return Publisher(desk.server, desk.store, desk.ingest, desk.clock)  # type: ignore[arg-type]


async def test_a_queue_is_written_where_it_differs_and_not_more_often_than_it_may() -> None:
    desk = Desk()
    publisher = open_publisher(desk, "bad", "good")
    desk.server.errors["bad"] = Refused(422, "Invalid", "no")
    async with running(publisher.run):
        publisher.offer((make_status("bad", 1), make_status("good", 1, cpu=5)))
        await desk.clock.advance(PERIOD)
        for waiting in range(9):
            publisher.offer((make_status("bad", 1), make_status("good", waiting, gpu=5)))
            await desk.clock.advance(PERIOD / 10)
        await desk.clock.advance(PERIOD * 3)
    assert desk.server.patched == ["good"] * 2
    stored = desk.store.queues.find(("", "good"))
    assert stored is not None
    assert (stored.shown["waiting"], stored.shown["allocated"]) == (8, {"gpu": 5})


async def test_pods_of_others_that_come_and_go_have_no_queue_written_all_the_time() -> None:
    """They change what it is due; what else differs is written as ever, with that."""
    desk = Desk()
    publisher, status = open_publisher(desk, "queue"), make_status("queue", 1, cpu=5)
    async with running(publisher.run):
        for second in range(int((DUE_PERIOD - PERIOD).total_seconds())):
            publisher.offer((replace(status, deserved={"cpu": second}),))
            await desk.clock.advance(timedelta(seconds=1))
        assert desk.server.patched == ["queue"]
        publisher.offer((replace(status, deserved={"cpu": 7}),))
        await desk.clock.advance(PERIOD)
        assert desk.server.patched == ["queue"] * 2
        publisher.offer((replace(status, waiting=2, deserved={"cpu": 8}),))
        await desk.clock.advance(PERIOD)
    assert desk.server.patched == ["queue"] * 3
    assert desk.store.queues.find(("", "queue")).shown["deserved"] == {"cpu": 8}  # type: ignore[union-attr]
