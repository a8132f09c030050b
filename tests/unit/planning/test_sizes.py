"""The largest job fits into the objects that have to hold it, in the worst of its steps."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from et_contract.documents import (
    MAX_WORKERS,
    HostConfig,
    Member,
    MemberState,
    Report,
    ScriptOrder,
    ToldNotice,
    encode_report,
)
from et_contract.pods import MAX_EPOCH, MAX_INDEX, MAX_JOB_NAME, build_worker_name
from et_kube.notices import NoticeKind
from et_operator.codec.decoding import MAX_ENV, MAX_SCRIPT, MAX_SLOTS
from et_operator.codec.encoding import encode_config_data, encode_status_patch
from et_operator.codec.templates import MAX_TEMPLATE
from et_operator.model.blacklists import GivenUp, Moment
from et_operator.model.conditions import Condition
from et_operator.model.listings import Listing
from et_operator.model.notices import MAX_REMEMBERED, NoticeRecord
from et_operator.model.scalings import ScalingStatus
from et_operator.model.shortages import Shortage
from et_operator.model.statuses import (
    Backoff,
    JobStatus,
    LauncherMove,
    Leaving,
    Runtime,
    ScalingKind,
    ScalingRecord,
    WorkerId,
    WorkerOutcome,
    WorkerRecord,
    WorkerState,
)
from et_operator.model.texts import MAX_MESSAGE, find_reason_limit
from et_operator.planning.forgetting import MANY_ENDS
from et_operator.planning.noticing import MOST
from et_operator.state.store import MOST_BESIDE
from tests.planning_makers import START, ModelWorld, make_job, make_scaling

ETCD = 3 * 2**19
"""Bytes of one request that etcd takes, 1.5 MiB, unless it was told otherwise."""
CONFIG_MAP = 2**20
ANNOTATIONS = 2**18
"""The most that the API server takes, of all annotations of an object together."""
CONDITIONS = 24
UID = "12345678-1234-1234-1234-123456789012"
NAMES = tuple(build_worker_name("j" * MAX_JOB_NAME, MAX_INDEX - n) for n in range(MAX_WORKERS))
REASON = "x" * find_reason_limit(MAX_WORKERS)
LONG = "m" * MAX_MESSAGE


def count_bytes(body: Any) -> int:
    """As it is stored: nulls of a merge patch are gone."""

    def strip(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: strip(item) for key, item in value.items() if item is not None}
        return [strip(item) for item in value] if isinstance(value, list) else value

    return len(json.dumps(strip(body), separators=(",", ":")))


def make_leaving(names: tuple[str, ...], uid: str) -> JobStatus:
    """All but one are on their way out, each with all that is ever remembered of it."""
    record = WorkerRecord(
        "",
        uid,
        WorkerState.LEAVING,
        REASON,
        START,
        MAX_INDEX,
        START,
        served=True,
        taken=True,
        ours=True,
    )
    outcome = WorkerOutcome("", Leaving.GRACEFUL, 123456.789, REASON, uid)
    scaling = ScalingRecord(
        ScalingKind.IN,
        "s" * 253,
        UID,
        MAX_WORKERS,
        1,
        START,
        victims=tuple(WorkerId(name, uid) for name in names),
        choice=LONG,
        workers=tuple(replace(outcome, name=name) for name in names),
    )
    listing = Listing(START, (MAX_INDEX,) * (MAX_WORKERS // 64 + 1))
    status = make_status(scaling, tuple(replace(record, name=name) for name in names))
    return replace(status, listings=(listing,) * 64)


def make_growing(names: tuple[str, ...], uid: str) -> JobStatus:
    """All ended just now, and their successors are on their way."""
    gone = WorkerRecord("", uid, WorkerState.GONE, REASON, START, taken=True, ours=True)
    born = WorkerRecord("", uid, WorkerState.JOINING, since=START, retries=1000, ours=True)
    added = tuple(WorkerId(name, uid) for name in names)
    scaling = ScalingRecord(ScalingKind.OUT, "s" * 253, UID, 1, MAX_WORKERS, START, added=added)
    records = [replace(gone, name=name) for name in (*names, *names[:MANY_ENDS])]
    records += [replace(born, name=name) for name in NAMES]
    return replace(make_status(scaling, tuple(records)), target_workers=names)


def make_status(scaling: ScalingRecord, records: tuple[WorkerRecord, ...]) -> JobStatus:
    condition = Condition("", "True", "R" * 40, LONG, START, MAX_INDEX)
    return JobStatus(
        conditions=tuple(replace(condition, type=f"Condition{n}") for n in range(CONDITIONS)),
        scaling=scaling,
        runtime=Runtime("d" * 10, "i" * 1024),
        workers=records,
        launcher_uid=UID,
        launch_backoff=Backoff(1, START),
        lost_launchers=Backoff(1, START),
        shortage=Shortage(1, START, START),
        notices=tuple(
            NoticeRecord(
                "r" * MAX_REMEMBERED,
                NoticeKind.FIRM,
                START,
                "n" * 253,
                "",
                START,
                START,
                "s" * MAX_REMEMBERED,
                MAX_INDEX,
            )
            for _ in range(MOST)
        ),
        launcher_move=LauncherMove(
            UID, 1, "r" * 2 * MAX_REMEMBERED, START, START, "w" * 32, START, 124, MAX_EPOCH
        ),
        given_up=GivenUp(1, (Moment(START, 3 * MAX_WORKERS),) * 62, START),
    )


@pytest.mark.parametrize("make", [make_leaving, make_growing])
def test_the_largest_job_is_one_object(make: Callable[..., JobStatus]) -> None:
    templates = 2 * MAX_TEMPLATE
    managed = templates  # metadata.managedFields names each field once more
    size = count_bytes(encode_status_patch(make(NAMES, UID))) + MAX_SCRIPT
    assert templates + managed + ANNOTATIONS + size < ETCD


def test_its_largest_scaling_is_one_object() -> None:
    record = make_leaving(NAMES, UID).scaling
    assert record is not None
    status = ScalingStatus(
        conditions=tuple(Condition(f"C{n}", "True", "R", LONG, START) for n in range(5)),
        to_delete_pods=NAMES,
        workers=record.workers,
        script_output=LONG * 2,
    )
    names = count_bytes(list(NAMES))  # spec.toDelete.podNames
    assert count_bytes(encode_status_patch(status)) + 2 * names + ANNOTATIONS < ETCD


def test_its_config_is_one_config_map() -> None:
    address = "2001:0db8:0000:0000:0000:ff00:0042:8329"
    member = Member("", UID, MAX_SLOTS, MemberState.DRAINING, "c" * 63, ips=(address, address))
    active = [replace(member, name=n, uid=n, state=MemberState.ACTIVE) for n in NAMES]
    hosts = ",".join(f"{name}:{MAX_SLOTS}" for name in NAMES)
    moment = "2026-01-31T12:00:00Z"
    order = ScriptOrder(UID, "x" * 4096, hosts, (("A", "v" * MAX_ENV),), MAX_INDEX)
    own = ScriptOrder(UID * 3, "x" * MAX_SCRIPT, NAMES[0], (("A", "9" * 12),), MAX_INDEX)
    config = HostConfig(
        "j" * MAX_JOB_NAME,
        "n" * 63,
        UID,
        MAX_INDEX,
        MAX_INDEX,
        MAX_WORKERS,
        1,
        tuple(active),
        (order, own),
        notices=tuple(
            ToldNotice("r" * MAX_REMEMBERED, "s" * MAX_REMEMBERED, moment, (uid,))
            for uid in (UID, *NAMES)
        ),
        notice_signal="SIGUSR1",
    )
    data = encode_config_data(config)
    size = sum(len(key) + len(text.encode()) for key, text in data.items())
    assert size < CONFIG_MAP, size


def test_its_report_has_room_for_what_is_known_of_each_worker() -> None:
    """Twice as many as there are at once: those of a full exchange are there together."""
    uids = frozenset(f"{UID[:-8]}{n:08}" for n in range(2 * MAX_WORKERS))
    used_up = dict.fromkeys(uids, -(2**31))
    report = Report(MAX_INDEX, UID, MAX_INDEX, MAX_INDEX, MAX_INDEX, uids, uids, used_up=used_up)
    assert len(encode_report(report)) < CONFIG_MAP // 2 - MOST_BESIDE


def live(workers: int) -> Iterator[int]:
    """Bytes of the status in all steps of a job that loses all but one and has them again."""
    world = ModelWorld(make_job(workers, minimum=1))

    def settle() -> int:
        world.settle()
        return count_bytes(encode_status_patch(world.status))

    world.start()
    world.add(make_scaling(ScalingKind.IN, "less", count=workers - 1, created=world.now))
    yield settle()
    world.serve(close=False)
    yield settle()
    world.wait(700)
    yield settle()
    world.reap()
    yield settle()
    world.edit(replicas=workers)
    yield settle()


@pytest.mark.long
def test_no_step_writes_more_than_is_counted_here() -> None:
    written = [max(live(workers)) for workers in (20, 40)]
    names = [build_worker_name("job", 10 + number) for number in range(40)]
    statuses = [make_leaving(tuple(names[:n]), "job-worker-12-345") for n in (20, 40)]
    counted = [count_bytes(encode_status_patch(status)) for status in statuses]
    assert written[1] - written[0] < counted[1] - counted[0]
