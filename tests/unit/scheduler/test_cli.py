"""Flags, environment, and files of passes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from et_scheduler.cli import main, read_settings
from et_scheduler.codec.snapshots import Snapshot, decode_snapshot, encode_snapshot
from et_scheduler.model.cluster import Cluster, Headroom, PendingPod
from et_scheduler.model.jobs import Admission, Pod
from et_scheduler.model.queues import Queue
from et_scheduler.model.rules import Rules
from et_scheduler.model.shapes import Effect, Operator, Requirement, Shape, Taint, Toleration
from et_scheduler.planning.passing import decide
from et_scheduler.replaying import Recording, hash_name
from tests.unit.scheduler.makers import MAIN, NOW, cpus, make_job, make_node
from tests.unit.scheduler.rigs import SchedulerRig, make_held
from tests.unit.scheduler.test_codec import ADMISSIONS
from tests.unit.scheduler.test_held import QUEUES, draw_idle


def test_the_label_of_pools_is_a_setting() -> None:
    assert read_settings([], {}).pool_label == ""
    assert read_settings([], {"POOL_LABEL": "gpu"}).pool_label == "gpu"


def test_flags_stand_before_the_environment() -> None:
    environ = {"HTTP_PORT": "1", "LOG_LEVEL": "debug", "POD_NAME": "p", "POD_NAMESPACE": "n"}
    settings = read_settings(["--http-port", "2"], environ)
    assert (settings.http_port, settings.log_level) == (2, "debug")
    assert (settings.identity, settings.own_namespace) == ("p", "n")


@pytest.mark.parametrize(
    ("environ", "flags", "is_observing"),
    [
        ({}, [], False),
        ({}, ["--observe"], True),
        ({"OBSERVE": "true"}, [], True),
        ({"OBSERVE": "false"}, [], False),
        ({"OBSERVE": "perhaps"}, [], True),  # whoever says anything wants to look first
    ],
)
def test_observing_is_asked_for(
    environ: dict[str, str], flags: list[str], *, is_observing: bool
) -> None:
    assert read_settings(flags, environ).is_observing is is_observing


def test_a_bad_setting_is_refused_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--log-level", "loud"])
    assert "--log-level" in capsys.readouterr().err


async def test_what_was_recorded_is_decided_again_in_the_same_way(
    tmp_path: Path, quiet_logs: None, capsys: pytest.CaptureFixture[str]
) -> None:
    record = tmp_path / "passes"
    rig = SchedulerRig(nodes=2, cpu=4, record=str(record))
    rig.create(make_held("one", least=2, most=4), make_held("two", least=9, most=9))
    async with rig.running():
        await rig.advance(5)
    assert main(["--replay", str(record)]) == 0
    told = capsys.readouterr().out
    assert "TAKE team/one: Admitted, 4 workers" in told
    assert "team/two waits: TooLarge" in told
    assert "queue main: 1 run, 1 wait, has {'cpu': 4000}" in told


def list_texts(value: Any) -> Iterator[str]:
    """All texts of a JSON value, keys too."""
    if isinstance(value, dict):
        yield from value
        value = list(value.values())
    for item in value if isinstance(value, list) else []:
        yield from list_texts(item)
    if isinstance(value, str):
        yield value


async def test_where_names_are_hashed_none_is_in_the_record(
    tmp_path: Path, quiet_logs: None, capsys: pytest.CaptureFixture[str]
) -> None:
    record = tmp_path / "passes"
    record.write_text("of the process before, by another salt\n")
    rig = SchedulerRig(nodes=2, cpu=4, record=str(record), is_hashing=True)
    rig.create(make_held("one", least=2, most=4), make_held("two", least=9, most=9))
    async with rig.running():
        await rig.advance(5)
    lines = record.read_text().splitlines()
    texts = {text for line in lines for text in list_texts(json.loads(line))}
    assert not [t for t in texts for name in ("one", "two", "team", "main", "node-") if name in t]
    assert main(["--replay", str(record)]) == 0
    told = capsys.readouterr().out
    assert re.search(r"TAKE \d{7}-[0-9a-f]{16}/\d{7}-[0-9a-f]{16}: Admitted, 4 workers", told)
    assert re.search(r"waits: TooLarge", told)
    assert re.search(r"queue \d{7}-[0-9a-f]{16}: 1 run, 1 wait, has {'cpu': 4000}", told)


@pytest.mark.parametrize("seed", range(8))
def test_by_hashed_names_the_same_is_decided(seed: int) -> None:
    """Who is first where all else is alike, too: that is by the order of names, which stays."""
    nodes, jobs = draw_idle(seed)
    snapshot = Snapshot(Cluster(nodes), QUEUES, tuple(jobs), NOW)
    hashed = decode_snapshot(encode_snapshot(snapshot, partial(hash_name, b"salt")))
    assert describe(hashed) == describe(snapshot)


def describe(snapshot: Snapshot) -> list[object]:
    """What is decided, with jobs and nodes by their places among them."""
    nodes = sorted(node.name for node in snapshot.cluster.nodes)
    jobs = sorted(job.uid for job in snapshot.jobs)
    given = (snapshot.cluster, snapshot.queues, snapshot.jobs, snapshot.now, snapshot.rules)
    found: list[object] = []
    for change in decide(*given).changes:
        told = change.admission
        places = [
            [nodes.index(name) for name in names]
            for names in (told.placement.only, told.placement.avoid, told.reserved)
        ]
        found.append((change.step, jobs.index(change.uid), told.workers, told.reason, places))
    return found


def test_what_is_named_in_two_places_has_one_hash_and_numbers_stay() -> None:
    shape = replace(cpus(1), tolerations=(Toleration("mine", "yes"),))
    terms = (
        Requirement("zone", Operator.IN, ("a",)),
        Requirement("size", Operator.GREATER, ("7",)),
    )
    nodes = tuple(
        make_node(
            f"node-{size}",
            hostname=f"host-{size}",
            labels={"zone": zone, "size": size},
            taints=(Taint("mine", "yes", Effect.NO_SCHEDULE),),
        )
        for zone, size in (("a", "7"), ("a", "12"), ("b", "13"))
    )
    job = make_job("job", 1, 1, launcher=shape, worker=replace(shape, terms=(terms,)))
    snapshot = Snapshot(Cluster(nodes), MAIN, (job,), NOW)
    hashed = decode_snapshot(encode_snapshot(snapshot, partial(hash_name, b"salt")))
    [change] = decide(hashed.cluster, hashed.queues, hashed.jobs, NOW).changes
    [host] = change.admission.placement.only
    assert host.endswith(hash_name(b"salt", "host-12"))


def test_a_file_that_is_no_record_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for text in ("x\n", "[]\n", '{"cluster": {"nodes": [{"name": 1}]}}\n', '{"now": 1}\n'):
        (tmp_path / "odd").write_text(text)
        assert main(["--replay", str(tmp_path / "odd")]) == 1
    assert main(["--replay", str(tmp_path / "none")]) == 1
    assert len(capsys.readouterr().err.splitlines()) == 5


@pytest.mark.long
@given(st.integers(0, 2**40), ADMISSIONS)
def test_a_snapshot_is_read_as_it_was_written(now: int, admission: Admission) -> None:
    requirement = Requirement("pool", Operator.IN, ("a", "b"))
    toleration = Toleration("k", "v", Effect.NO_EXECUTE)
    shape = Shape((("cpu", 5),), ((requirement,), ()), (toleration,), frozenset({"TCP/1"}), "x")
    node = make_node(
        "n", taints=(Taint("k", "v", Effect.NO_EXECUTE),), ports=(frozenset({"TCP/1"}),)
    )
    pods = (Pod("w", "n", 5, is_draining=True, shape=shape), Pod("l", is_launcher=True))
    job = replace(make_job("j", sizes=(1, 2)), worker=shape, pods=pods, admission=admission)
    cluster = Cluster((node,), (PendingPod("u", shape, -5, now),), Headroom(shape, 3))
    queue = Queue("q", limits={"cpu": 0}, namespaces=frozenset({"a"}))
    snapshot = Snapshot(cluster, (queue,), (job,), now, Rules(level_quiet=5))
    assert decode_snapshot(encode_snapshot(snapshot)) == snapshot


def test_a_shape_is_in_a_record_once() -> None:
    """A Deployment's 2,600 replicas of 64 KiB each, and a record of a pass is one line."""
    needs = Requirement("pool", Operator.IN, ("a" * 5000,))
    shape = Shape((("cpu", 5),), ((needs,),))
    cluster = Cluster((), tuple(PendingPod(f"pod-{n}", shape, 0, 1) for n in range(20)))
    line = encode_snapshot(Snapshot(cluster, (), (), 1))
    assert 5000 < len(line) < 10_000
    assert decode_snapshot(line).cluster == cluster


@pytest.mark.parametrize("shape", ["7", "-1", '"a"', '{"requests": 1}'])
def test_a_record_with_a_shape_that_is_not_in_it_is_refused(shape: str) -> None:
    with pytest.raises(ValueError, match="not a snapshot"):
        decode_snapshot(
            f'{{"cluster":{{"headroom":{{"shape":{shape},"pods":1}}}},'
            '"queues":[],"jobs":[],"now":1,"shapes":[]}'
        )


def test_a_pass_waits_for_no_record_and_the_next_are_left_out_meanwhile(tmp_path: Path) -> None:
    """A disk that takes nine seconds for each."""
    under_way: list[Callable[[], None]] = []
    recording = Recording(tmp_path / "passes", start=under_way.append)
    with capture_logs() as logs:
        for now in range(1, 9):
            recording.offer(Snapshot(Cluster(), (), (), now))
            if now % 4 == 0:
                under_way.pop()()
    lines = (tmp_path / "passes").read_text().splitlines()
    assert [decode_snapshot(line).now for line in lines] == [1, 5]
    assert [one["left_out"] for one in logs] == [1, 4]


@pytest.mark.long
def test_a_disk_that_hangs_keeps_nobody_from_the_end(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "passes")  # whoever opens it waits for who reads it
    program = """
import sys
from pathlib import Path
from et_scheduler.codec.snapshots import Snapshot
from et_scheduler.model.cluster import Cluster
from et_scheduler.replaying import Recording
Recording(Path(sys.argv[1])).offer(Snapshot(Cluster(), (), (), 1))
"""
    subprocess.run([sys.executable, "-c", program, tmp_path / "passes"], check=True, timeout=60)


@pytest.mark.parametrize("ports", ['["TCP/80"]', '"TCP/80"'])
def test_ports_of_a_former_version_are_refused(ports: str) -> None:
    node = f'{{"name":"n","allocatable":{{}},"ports":{ports}}}'
    line = f'{{"cluster":{{"nodes":[{node}]}},"queues":[],"jobs":[],"now":1}}'
    with pytest.raises(ValueError, match="not a snapshot"):
        decode_snapshot(line)


def test_a_record_does_not_grow_for_ever(tmp_path: Path) -> None:
    recording = Recording(tmp_path / "passes", most=10)
    for now in range(5):
        recording.keep(Snapshot(Cluster(), (), (), now))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["passes", "passes.old"]
    Recording(tmp_path / "no" / "such").keep(Snapshot(Cluster(), (), (), 1))
