from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta

import pytest

from et_kube.errors import KubeError, NotFound, Unreachable
from et_kube.events import Event
from et_kube.resources import TRAINING_JOBS, Json, Ref, Resource
from et_process.recording import BURST, MAX_QUEUED, WRITERS, Recorder, cut
from fakes.clock import FakeClock

SECOND = timedelta(seconds=1)


def make_event(message: str = "words", uid: str = "u", namespace: str = "team") -> Event:
    return Event(Ref(TRAINING_JOBS, namespace, "job"), uid, "Scaled", message, is_warning=True)


class Server:
    def __init__(self) -> None:
        self.created: list[Json] = []
        self.patched: list[tuple[str, Json]] = []
        self.error: KubeError | None = None
        self.patch_error: KubeError | None = None
        self.slow: set[str] = set()
        self.never = asyncio.Event()

    async def create(self, resource: Resource, namespace: str | None, manifest: Json) -> Json:
        if self.error is not None:
            raise self.error
        assert manifest["metadata"]["namespace"] == namespace
        if namespace in self.slow:
            await self.never.wait()
        self.created.append(manifest)
        return manifest

    async def patch(self, ref: Ref, body: Json) -> Json:
        if self.patch_error is not None:
            raise self.patch_error
        self.patched.append((ref.name, body))
        return body


@asynccontextmanager
async def recording(
    server: Server, clock: FakeClock, drops: list[str] | None = None
) -> AsyncIterator[Recorder]:
    sink: list[str] = [] if drops is None else drops
    recorder = Recorder(
        server, clock, controller="group/program", instance="op-1", on_drop=sink.append
    )  # type: ignore[arg-type]
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(recorder.run()) for _ in range(WRITERS)]
        yield recorder
        await clock.settle()
        for task in tasks:
            task.cancel()


async def test_what_is_recorded_becomes_an_event_on_its_object():
    server = Server()
    async with recording(server, FakeClock()) as recorder:
        recorder.record(make_event())
    (event,) = server.created
    assert event["metadata"].pop("name").startswith("job.")
    assert event == {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"namespace": "team"},
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": "group/program",
        "reportingInstance": "op-1",
        "action": "Reconcile",
        "reason": "Scaled",
        "type": "Warning",
        "note": "words",
        "regarding": {
            "apiVersion": "kai.alibabacloud.com/v1alpha1",
            "kind": "TrainingJob",
            "namespace": "team",
            "name": "job",
            "uid": "u",
        },
    }


@pytest.mark.parametrize("end", ["", ".", "-", "--"])
async def test_of_a_long_name_of_an_object_the_event_has_a_name_too(end: str):
    server, event = Server(), make_event()
    name = "a" * (200 - len(end)) + end + "a" * 20
    async with recording(server, FakeClock()) as recorder:
        recorder.record(replace(event, ref=replace(event.ref, name=name)))
    part = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
    assert re.fullmatch(rf"{part}\.{part}", server.created[0]["metadata"]["name"])


async def test_what_is_said_again_and_again_is_counted_and_written_once_a_minute():
    server, clock = Server(), FakeClock()
    async with recording(server, clock) as recorder:
        for _ in range(10):
            recorder.record(make_event())
            await clock.advance(5 * SECOND)
        assert (len(server.created), len(server.patched)) == (1, 0)
        await clock.advance(15 * SECOND)
        recorder.record(make_event())
    name = server.created[0]["metadata"]["name"]
    series = {"count": 11, "lastObservedTime": "2026-01-01T00:01:05.000000Z"}
    assert server.patched == [(name, {"series": series})]


async def test_of_a_report_only_what_its_event_says_is_kept_and_told_apart():
    """Reports are remembered, and what a broker or an author has said may be long."""
    server = Server()
    async with recording(server, FakeClock()) as recorder:
        for number in range(3):
            recorder.record(make_event("x" * 80_000 + str(number)))
    (event,) = server.created
    assert event["series"]["count"] == 3
    assert len(event["note"]) == 1024


async def test_an_event_that_has_expired_is_made_anew():
    server, clock = Server(), FakeClock()
    async with recording(server, clock) as recorder:
        recorder.record(make_event())
        await clock.advance(7200 * SECOND)
        server.patch_error = NotFound(404, "NotFound", "expired")
        recorder.record(make_event())
    assert len({event["metadata"]["name"] for event in server.created}) == 2
    assert "series" not in server.created[1]
    assert server.created[1]["eventTime"] == "2026-01-01T02:00:00.000000Z"


async def test_one_object_cannot_flood_the_server():
    server, clock, drops = Server(), FakeClock(), []
    async with recording(server, clock, drops) as recorder:
        for number in range(100):
            recorder.record(make_event(str(number)))
        recorder.record(make_event(uid="other"))
        await clock.settle()
        assert len(server.created) == BURST + 1
        assert drops == ["rate"] * (100 - int(BURST))
        await clock.advance(60 * SECOND)
        for number in range(100, 110):
            recorder.record(make_event(str(number)))
    assert len(server.created) == BURST + 1 + 2


async def test_what_an_object_says_again_and_again_leaves_room_for_its_last_word():
    server, clock = Server(), FakeClock()
    async with recording(server, clock) as recorder:
        for number in range(500):
            recorder.record(make_event(f"worker {number} ended"))
        recorder.record(replace(make_event("given up"), reason="Failed"))
    assert server.created[-1]["reason"] == "Failed"
    assert len(server.created) == BURST + 1


async def test_a_server_that_is_away_costs_events_and_nothing_else():
    server, clock, drops = Server(), FakeClock(), []
    server.error = Unreachable("away")
    async with recording(server, clock, drops) as recorder:
        recorder.record(make_event())
        await clock.settle()
        server.error = None
        recorder.record(make_event())
    assert drops == ["Unreachable"]
    assert server.created[0]["series"]["count"] == 2


def test_a_queue_that_is_full_never_blocks():
    drops: list[str] = []
    recorder = Recorder(
        Server(), FakeClock(), controller="group/program", instance="op", on_drop=drops.append
    )  # type: ignore[arg-type]
    for number in range(MAX_QUEUED // 2 + 5):
        recorder.record(make_event(uid=str(number)))
    assert drops == ["queue"] * 5


@pytest.mark.long
def test_a_namespace_that_floods_leaves_room_to_all_others():
    drops: list[str] = []
    recorder = Recorder(
        Server(), FakeClock(), controller="group/program", instance="op", on_drop=drops.append
    )  # type: ignore[arg-type]
    for flood in ("team-a", "team-b", "team-c"):
        for number in range(MAX_QUEUED):
            recorder.record(make_event(uid=str(number), namespace=flood))
    drops.clear()
    for number in range(50):
        recorder.record(make_event(uid=str(number), namespace="team-d"))
    assert drops == []


async def test_namespaces_whose_events_are_held_up_hold_up_no_other():
    server, clock = Server(), FakeClock()
    server.slow = {f"slow-{number}" for number in range(WRITERS - 1)}
    async with recording(server, clock) as recorder:
        for namespace in sorted(server.slow):
            for number in range(3):
                recorder.record(make_event(uid=str(number), namespace=namespace))
        await clock.settle()
        recorder.record(make_event("said"))
        await clock.settle()
        assert [event["note"] for event in server.created] == ["said"]


def test_a_note_is_cut_between_characters():
    assert cut("short", 1024) == "short"
    assert cut("é" * 600, 1024) == "é" * 510 + "..."
    assert len(cut("a" * 5000, 1024)) == 1024


@pytest.mark.usefixtures("quiet_logs")
async def test_a_report_that_cannot_be_written_is_dropped_and_the_next_one_is_not():
    server, drops = Server(), []
    async with recording(server, FakeClock(), drops) as recorder:
        ref = replace(make_event().ref, name=5)  # type: ignore[arg-type]
        recorder.record(replace(make_event(), ref=ref))
        recorder.record(make_event("words"))
    assert [event["note"] for event in server.created] == ["words"]
    assert drops == ["TypeError"]
