"""Each judge of a night sees what it is there for, and nothing where all was well."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.chaos.judging import JUDGES, list_breaches
from tests.chaos.records import Cost, Passage, Record, Step, Strike, measure_cost
from tests.chaos.schedules import Fault, Kind, Round
from tests.e2e.histories import JOB, POD, Version

ROUND = Round(0, (Fault(Kind.WORKER, 0, 5.0, 2),), 0.0, 0.0)


def build_pod(uid: str, role: str = "worker", *, at: float = 0, gone: bool = False, **more: Any):
    labels = {"training-job-name": "job", "training-job-role": role}
    metadata = {"name": f"job-{uid}", "uid": uid, "labels": labels, "resourceVersion": "1"}
    status = more.pop("status", {"phase": "Running"})
    return Version(POD, {"metadata": metadata | more, "status": status}, at, gone)


def dying(uid: str, **more: Any) -> Version:
    return build_pod(uid, deletionTimestamp="2026-01-01T00:00:00Z", **more)


def build_job(**status: Any) -> Version:
    metadata = {"name": "job", "uid": "j", "resourceVersion": "1"}
    return Version(JOB, {"metadata": metadata, "status": {"epoch": 1, **status}}, 0)


def build_scaling(name: str, **status: str) -> Version:
    return Version("ScaleIn", {"metadata": {"name": name}, "status": status}, 0)


def steps(*numbers: int, start: float = 0.0) -> list[Step]:
    return [Step(number, 2, start + place) for place, number in enumerate(numbers)]


STRIKE = Strike(Kind.WORKER, 2.5, frozenset({"a"}), ("scaleins/less",), operators=1)
PASSAGE = Passage(ROUND, (STRIKE,), ended=2.5, back=9.0)
CALM = Record(
    job="job",
    maximum=2,
    commit_every=5,
    bound=60.0,
    passages=[PASSAGE],
    steps=steps(1, 2, 3, 2, 3, 4, 5, 6, 7),
    versions=[
        *(build_job(phase="Running"), build_pod("a"), build_pod("b")),
        *(dying("a"), build_pod("a", gone=True), build_pod("c")),
        build_job(scaling={"victims": [{"name": "job-c", "uid": "c"}]}),
        *(build_job(), dying("c")),
        build_job(workers=[{"uid": "b", "state": "Leaving", "reason": "UsedUp"}]),
        dying("b"),
        build_pod("d", status={"phase": "Failed"}),
        dying("d", status={"phase": "Failed"}),
        build_pod("l", "launcher"),
        build_scaling("less", phase="Scaling"),
        build_scaling("less", phase="ScaleSucceeded"),
    ],
    operators=frozenset({"second"}),
)
NOBODYS = [*CALM.versions, build_pod("e"), dying("e")]
LAST = replace(PASSAGE, back=None)
BREACHES: dict[str, list[tuple[dict[str, Any], str]]] = {
    "no worker is deleted that nobody asked for": [
        ({"versions": NOBODYS}, "job-e was deleted while it ran, for nothing"),
        (
            {"versions": [build_pod("c"), dying("c"), *CALM.versions[6:]]},
            "job-c was deleted while it ran, for nothing",
        ),
    ],
    "no end that did not happen": [
        ({"versions": [*CALM.versions, build_job(phase="Failed")]}, "the job is Failed"),
        (
            {"versions": [*CALM.versions, build_job(epoch=2)]},
            "1 times a new launcher, 0 were lost by the schedule",
        ),
        (
            {"versions": [*CALM.versions, build_job(failures={"user": 1})]},
            "1 failures were called the user's",
        ),
    ],
    "no worker beyond the maximum": [
        (
            {"versions": [*CALM.versions, *map(build_pod, "efg")]},
            "3 workers at once, 2 are allowed",
        ),
    ],
    "no step lost beyond what lies between two commits": [
        ({"steps": steps(*range(1, 10), 4)}, "6 steps from 4 on were trained again"),
    ],
    "every scaling is concluded": [
        ({"versions": CALM.versions[:-1]}, "scaleins/less was never concluded: Scaling"),
        ({"versions": CALM.versions[:-2]}, "scaleins/less was never concluded: no phase"),
    ],
    "the wanted number of ranks is back after each round": [
        (
            {"passages": [LAST]},
            "round 0 (a worker's PID 1 is killed): the wanted ranks never came back",
        ),
        (
            {"passages": [replace(PASSAGE, back=70.0)]},
            "round 0 (a worker's PID 1 is killed): the wanted ranks were back after 68 s only",
        ),
    ],
    "nothing is left behind": [
        ({"left": ["ConfigMap job-config"]}, "ConfigMap job-config was left behind"),
    ],
    "no restart of the operator but the schedule's": [
        (
            {"operators": frozenset("bc")},
            "the operator began anew 2 times, 1 of them by the schedule",
        ),
    ],
}


def test_where_all_was_well_nobody_says_anything():
    assert list_breaches(CALM) == []


@pytest.mark.parametrize(
    ("promise", "change", "breach"),
    [(promise, *case) for promise, cases in BREACHES.items() for case in cases],
)
def test_each_judge_sees_its_own_and_no_other_says_anything(
    promise: str, change: dict[str, Any], breach: str
):
    record = replace(CALM, **change)
    assert list(JUDGES[promise](record)) == [breach]
    assert list_breaches(record) == [breach]


def test_every_judge_has_been_seen_to_fail():
    assert BREACHES.keys() == JUDGES.keys()


def test_a_launcher_that_the_schedule_took_may_have_a_successor():
    strike = Strike(Kind.LAUNCHER, 2.5, frozenset({"a"}), ("scaleins/less",), operators=1)
    passages = [replace(PASSAGE, strikes=(strike,))]
    versions = [*CALM.versions, build_job(epoch=2)]
    assert list_breaches(replace(CALM, passages=passages, versions=versions)) == []


@pytest.mark.parametrize("kind", [Kind.NOTICE, Kind.WITHDRAWN])
def test_after_a_notice_one_more_may_be_there_and_whom_the_status_names_may_go(kind: Kind):
    strike = Strike(kind, 2.5, frozenset({"a"}), ("scaleins/less",), operators=1)
    successor = {"name": "job-e", "uid": "e", "replaces": "f"}
    versions = [
        *(*CALM.versions, build_pod("f"), build_pod("g")),
        *(replace(build_job(workers=[successor]), at=3.0), build_pod("e")),
        replace(build_job(workers=[{**successor, "reason": "Unneeded"}]), at=4.0),
        dying("e"),
    ]
    noticed = replace(CALM, passages=[replace(PASSAGE, strikes=(strike,))], versions=versions)
    assert list_breaches(noticed) == []
    untold = replace(CALM, versions=versions)
    assert list_breaches(untold) == ["job-e was deleted while it ran, for nothing"]


def test_a_launcher_that_is_said_to_end_may_have_a_successor():
    strike = Strike(Kind.LAUNCHER_NOTICE, 2.5, frozenset({"a"}), ("scaleins/less",), operators=1)
    passages = [replace(PASSAGE, strikes=(strike,))]
    versions = [*CALM.versions, build_job(epoch=2)]
    assert list_breaches(replace(CALM, passages=passages, versions=versions)) == []


def test_what_goes_with_its_job_is_no_wrong_deletion():
    job = build_job()
    job.body["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    versions = [*CALM.versions, build_pod("e"), job, dying("e")]
    assert list_breaches(replace(CALM, versions=versions)) == []


def test_a_round_costs_the_longest_time_without_a_step_and_what_is_trained_again():
    told = [*steps(1, 2, 3), *steps(2, 3, start=7.5), *steps(4, start=9.0), *steps(5, start=99)]
    record = replace(CALM, steps=told)
    assert measure_cost(record, PASSAGE) == Cost(still=5.0, repeated=2, back=6.5)
