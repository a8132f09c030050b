from __future__ import annotations

from typing import Any

from benchmarks.brokers import Brokers
from et_contract.documents import HostConfig, Member, MemberState, encode_config
from et_contract.names import CONFIG_KEY
from et_contract.pods import LABEL_JOB

ACTIVE, DRAINING = MemberState.ACTIVE, MemberState.DRAINING


def make_config(generation: int, epoch: int = 1, **members: MemberState) -> dict[str, Any]:
    found = tuple(Member(f"job-{uid}", uid, 1, state, "w") for uid, state in members.items())
    config = HostConfig("job", "ns", "u", generation, epoch, 2, 2, found)
    return {"data": {CONFIG_KEY: encode_config(config)}}


def make_launcher(name: str, uid: str, phase: str = "Running") -> dict[str, Any]:
    metadata = {"name": name, "uid": uid, "labels": {LABEL_JOB: "job"}}
    return {"metadata": metadata, "status": {"phase": phase}}


def test_members_are_listed_and_who_drains_is_closed_once_a_launcher_runs() -> None:
    brokers = Brokers(None, "ns")  # type: ignore[arg-type]
    brokers.note_config(make_config(4, a=ACTIVE, b=DRAINING))
    brokers.note_launcher(make_launcher("job-launcher", "l", "Pending"))
    assert brokers.find_report("job") is None
    brokers.note_launcher(make_launcher("job-launcher", "l"))
    report = brokers.find_report("job")
    assert report is not None
    assert (report.epoch, report.launcher_uid, report.served_generation) == (1, "l", 4)
    assert (report.listed, report.closed) == ({"a", "b"}, {"b"})


def test_a_launcher_of_a_former_epoch_says_nothing() -> None:
    brokers = Brokers(None, "ns")  # type: ignore[arg-type]
    brokers.note_launcher(make_launcher("job-launcher", "l"))
    brokers.note_config(make_config(1, epoch=2))
    assert brokers.find_report("job") is None
    brokers.note_launcher(make_launcher("job-launcher-r1", "m"))
    brokers.note_launcher(make_launcher("job-launcher", "l"))
    report = brokers.find_report("job")
    assert report is not None
    assert (report.epoch, report.launcher_uid) == (2, "m")
