"""Documents are decoded once, and what is known of them has a bound."""

from __future__ import annotations

import tracemalloc

from et_contract.documents import (
    HostConfig,
    Member,
    MemberState,
    Report,
    encode_config,
    encode_report,
)
from et_contract.names import CONFIG_KEY
from et_kube.resources import CONFIG_MAPS, TRAINING_JOBS, Json
from et_operator.codec.children import read_report
from et_operator.model.keys import JobKey
from et_operator.model.names import build_labels
from et_operator.model.snapshots import RuntimeFiles
from et_operator.model.statuses import Runtime
from et_operator.state.ingesting import Ingest
from et_operator.state.readings import LEAST, MOST, Readings
from et_operator.state.store import Store
from et_operator.state.views import build_snapshot
from fakes.clock import START
from tests.counting import count_steps
from tests.makers import make_job, make_owner

KEY = JobKey("team", "train")
SHIPPED = RuntimeFiles(Runtime("digest", "broker:1"), {})


def make_documents(job: Json, name: str, version: int, data: dict[str, str]) -> Json:
    meta = {
        "name": f"train-{name}",
        "namespace": "team",
        "uid": name,
        "resourceVersion": str(version),
        "labels": build_labels("train"),
        "ownerReferences": [make_owner(job)],
    }
    return {"metadata": meta, "data": data}


def make_config(generation: int) -> str:
    members = tuple(
        Member(f"w-{n}", f"u{n}", 1, MemberState.ACTIVE, "main", ips=(f"fd00::{n:x}",))
        for n in range(1, 1000)
    )
    return encode_config(HostConfig("train", "team", "job-1", generation, 1, 1, 1, members, ()))


def test_a_version_of_a_config_is_read_once_and_judged_by_the_job_as_it_is() -> None:
    store = Store()
    ingest = Ingest(store)
    meta = {"namespace": "team", "uid": "job-1", "resourceVersion": "1"}
    job = make_job("train")
    job = {**job, "metadata": {**job["metadata"], **meta}}
    ingest.upsert(TRAINING_JOBS, job)
    ingest.upsert(
        CONFIG_MAPS, make_documents(job, "config", 2, {CONFIG_KEY: make_config(2**20 + 7)})
    )

    def look() -> int | None:
        snapshot = build_snapshot(store, KEY, SHIPPED, START)
        assert snapshot is not None
        return snapshot.config.generation if snapshot.config else None

    assert look() is None, "far ahead of the job"
    status = {"phase": "Running", "generation": 7, "epoch": 1}
    meta = {**job["metadata"], "resourceVersion": "3"}
    ingest.upsert(TRAINING_JOBS, {**job, "metadata": meta, "status": status})
    assert look() == 2**20 + 7
    assert count_steps(look) < 10_000, "an address of each member is some hundred"

    ingest.upsert(CONFIG_MAPS, make_documents(job, "config", 4, {CONFIG_KEY: make_config(8)}))
    assert look() == 8


def test_a_report_is_read_once_whatever_is_wrong_with_it() -> None:
    asked: list[str] = []

    def decode(text: str) -> Report | None:
        asked.append(text)
        return read_report(text)

    readings = Readings(decode)
    good, bad = encode_report(Report(1, "u", 1)), "{" * 1000
    for text in (good, bad) * 3:
        assert (readings.read(text) is None) == (text == bad)
    assert asked == [good, bad]


def test_of_any_number_of_texts_the_last_ones_are_known() -> None:
    asked: list[str] = []

    def decode(text: str) -> int:
        asked.append(text[:4])
        return len(text)

    readings = Readings(decode)
    quarter = MOST // 4
    for number in range(8):
        assert readings.read(f"{number:04}".ljust(quarter)) == quarter
        assert readings.read("0000".ljust(quarter)) == quarter
    assert asked == [f"{number:04}" for number in range(8)], "who is asked often stays"

    readings = Readings(len)
    tracemalloc.start()
    for number in range(10 * MOST // LEAST):
        readings.read(f"{number}")
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert taken < MOST
