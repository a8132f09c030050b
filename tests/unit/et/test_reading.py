from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from et.logs import LauncherLog
from et.pictures import Picture
from et.reading import (
    SCALINGS,
    explain_end,
    read_events,
    read_pods_called,
    read_scalings,
    read_stored_scalings,
)
from et.stories import choose_events
from et.watching import Watcher
from et_contract.pods import LABEL_ROLE
from et_kube.resources import Json
from et_operator.codec.decoding import decode_scaling
from et_operator.model.conditions import Condition
from fakes.clock import FakeClock
from tests.makers import make_pod
from tests.planning_makers import make_job
from tests.unit.et.rigs import StoredApi, join_stored, make_screen

SECOND = timedelta(seconds=1)
OUTPUT = "[0]<stderr>:Traceback:\n[0]<stderr>:  File 'x'\n[0]<stderr>:ValueError: no data\nexit 1"


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ("the user's command ended with 0", "the user's command ended with 0"),
        (
            f"the launcher ended with exit code 1: {OUTPUT}",
            "the launcher ended with exit code 1: ValueError: no data",
        ),
        (
            f"the launcher ended with exit code 137 (OOMKilled): {OUTPUT}",
            "the launcher ended with exit code 137 (OOMKilled): ValueError: no data",
        ),
        (
            "the launcher ended with exit code 1: x\nRuntimeError: Horovod detected that one or",
            "the launcher ended with exit code 1: a process in a worker has failed",
        ),
        ("the launcher ended with exit code 3: bye", "the launcher ended with exit code 3: bye"),
    ],
)
def test_of_the_output_of_a_failed_command_its_error_is_told(message: str, words: str):
    job = make_job()
    ended = Condition("Failed", "True", "LauncherFailed", message)

    assert explain_end(replace(job, status=replace(job.status, conditions=(ended,)))) == words


def make_scaling(name: str, job: str, **metadata: Any) -> Json:
    meta = {"name": name, "namespace": "ns", "uid": name, **metadata}
    spec = {"selector": {"name": job}, "toAdd": {"count": 1}}
    return {"kind": "ScaleOut", "metadata": meta, "spec": spec}


async def test_of_other_jobs_scalings_no_more_is_read_than_whose_they_are():
    unread = make_scaling("theirs", "other", ownerReferences=object())
    api = StoredApi([unread, make_scaling("ours", "job")])
    found = await read_scalings(join_stored(api), make_job())
    assert [scaling.name for scaling in found] == ["ours"]
    assert len(api.kept) == 1


async def test_of_scalings_no_more_is_held_than_is_told_unless_all_is_shown():
    one, other = make_scaling("one", "job"), make_scaling("other", "job")
    for item, second in ((one, 2), (other, 1)):
        item["metadata"]["creationTimestamp"] = f"2030-01-01T00:00:0{second}Z"
        item["spec"]["env"] = [{"name": "A", "value": "much"}]
    api = StoredApi([one, other])
    assert [scaling.name for scaling in await read_scalings(join_stored(api), make_job())] == [
        *("other", "one")
    ]
    assert "much" not in repr(api.kept)
    assert await read_stored_scalings(join_stored(api), make_job()) == [other, one]


async def test_of_pods_no_more_is_held_than_is_known_of_them():
    pod = make_pod("job-worker-0", labels={LABEL_ROLE: "worker"}, annotations={"some": "much"})
    api = StoredApi([pod])
    [found] = await read_pods_called(join_stored(api), "job")
    assert found.name == "job-worker-0"
    assert "much" not in repr(api.kept)


async def test_of_a_namespaces_events_those_of_the_job_are_kept():
    job, scaling = make_job(), make_scaling("ours", "job")
    told = [
        ("TrainingJob", "job", job.uid),
        ("ScaleOut", "ours", "ours"),
        ("Pod", "job-worker-0", ""),
    ]
    others = [("TrainingJob", "other", "u"), ("Pod", "other-worker-0", "")]
    events = [
        {"kind": "Event", "type": "Warning", "eventTime": "2030-01-01T00:00:00Z", "message": name}
        | {"involvedObject": {"kind": kind, "name": name, "uid": uid}}
        for kind, name, uid in told + others
    ]
    api = StoredApi(events)
    is_told = choose_events(job, [decode_scaling(scaling)])
    found = await read_events(join_stored(api), job.key.namespace, is_told)
    assert [event["message"] for event in found] == ["job", "ours", "job-worker-0"]
    assert api.kept == found


async def test_while_a_scaling_waits_its_job_is_watched_with_few_lists():
    api = StoredApi([make_scaling("ours", "job")])
    cluster = join_stored(api)
    watcher = Watcher(cluster, make_screen(), Picture(make_job()), LauncherLog(cluster))
    assert isinstance(cluster.clock, FakeClock)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(watcher.tell())
        await cluster.clock.advance(60 * SECOND)
        task.cancel()
    assert watcher.picture.scalings
    assert 60 <= sum(resource in SCALINGS for resource in api.lists) <= 62
