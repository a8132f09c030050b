"""Statuses survive the way to the API server and back, and what is gone is removed there."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from enum import Enum
from types import NoneType, UnionType
from typing import Any, get_args, get_origin

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from et_operator.codec.encoding import encode_status_patch
from et_operator.codec.statuses import decode_status, describe_fields, encode_status
from et_operator.model.conditions import Condition
from et_operator.model.scalings import ScalingStatus
from et_operator.model.statuses import JobStatus, WorkerId
from tests.unit.codec.examples import FULL_JOB_STATUS, FULL_SCALING_STATUS, NOON

LEAVES = {
    datetime: st.timedeltas(timedelta(0), timedelta(days=9000)).map(lambda age: NOON + age),
    float: st.floats(allow_nan=False, allow_infinity=False),
    int: st.integers(0, 1024),
    str: st.text(max_size=5),
    bool: st.booleans(),
}


def build(hint: Any) -> st.SearchStrategy[Any]:
    """Any value of a type that a status may have."""
    if isinstance(hint, UnionType):
        [inner] = [arm for arm in get_args(hint) if arm is not NoneType]
        return st.none() | build(inner)
    if get_origin(hint) is tuple:
        return st.lists(build(get_args(hint)[0]), max_size=2).map(tuple)
    if get_origin(hint) is Mapping:
        return st.just({"role": "worker", "requests": {"cpu": 1000}})
    if hint in LEAVES:
        return LEAVES[hint]
    if issubclass(hint, Enum):
        return st.sampled_from(hint)
    return st.builds(hint, **{name: build(inner) for name, _, inner, _ in describe_fields(hint)})


JOB_STATUSES = build(JobStatus)
SCALING = encode_status_patch(FULL_JOB_STATUS)["status"]["scaling"]


def merge(target: Any, patch: Any) -> Any:
    """RFC 7386."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge(result.get(key), value)
    return result


@pytest.mark.long
@settings(max_examples=50)
@given(JOB_STATUSES, JOB_STATUSES)
def test_a_patch_makes_of_any_status_exactly_the_new_one(old: JobStatus, new: JobStatus):
    stored = merge(merge({}, encode_status_patch(old)), encode_status_patch(new))
    assert decode_status(JobStatus, stored["status"]) == (new, {})


def test_every_field_goes_there_and_back():
    for status, encode in (
        (FULL_JOB_STATUS, encode_status_patch),
        (FULL_SCALING_STATUS, encode_status_patch),
    ):
        stored = merge({}, encode(status))["status"]
        assert decode_status(type(status), stored) == (status, {})


def test_names_are_those_that_the_predecessors_clients_read():
    stored = merge({}, encode_status_patch(FULL_JOB_STATUS))["status"]
    assert stored["replicaStatuses"]["Launcher"] == {"active": 1, "succeeded": 0, "failed": 2}
    assert stored["replicaStatuses"]["Worker"]["active"] == 3
    assert stored["currentWorkers"] == ["train-worker-0"]
    assert stored["startTime"] == "2026-01-02T12:00:00.250000Z"


def test_a_field_without_a_value_is_null_and_a_count_of_zero_is_not():
    body = encode_status_patch(JobStatus())["status"]
    assert body["scaling"] is body["phase"] is body["workers"] is body["currentScaler"] is None
    assert (body["epoch"], body["generation"], body["replicas"]) == (0, 0, 0)


def test_nothing_null_stands_in_a_list():
    body = encode_status_patch(FULL_JOB_STATUS)["status"]
    assert body["scaling"]["added"] == [{"name": WorkerId("train-worker-3").name}]


def test_an_older_status_lacks_what_it_did_not_know():
    decoded, problems = decode_status(ScalingStatus, {"phase": "Scaling", "unknown": 1})
    assert decoded.phase == "Scaling"
    assert problems == {}


def test_of_a_worker_without_a_pod_no_uid_is_written_and_none_is_read() -> None:
    victim, outcome = {"name": "w-0"}, {"name": "w-0", "result": "gone", "seconds": 1.0}
    scaling = {**merge({}, SCALING), "victims": [victim], "workers": [outcome]}
    decoded, problems = decode_status(JobStatus, {"scaling": scaling})
    assert problems == {}
    assert decoded.scaling is not None
    assert [worker.uid for worker in (*decoded.scaling.victims, *decoded.scaling.workers)] == [
        "",
        "",
    ]
    assert encode_status_patch(decoded)["status"]["scaling"]["victims"] == [victim]
    [stored] = encode_status_patch(decoded)["status"]["scaling"]["workers"]
    assert "uid" not in stored


def test_what_could_not_be_read_is_left_as_it_is():
    body = encode_status_patch(FULL_JOB_STATUS, {"scaling"})["status"]
    assert "scaling" not in body
    assert "workers" in body


def test_a_condition_of_somebody_else_damages_nothing():
    bodies: list[Any] = [
        {"type": "QuotaReserved", "status": "True"},
        {"type": "Odd", "status": "False", "reason": 5, "lastTransitionTime": "soon"},
        {"status": "True"},
        "text",
    ]
    status, problems = decode_status(JobStatus, {"conditions": bodies})
    assert problems == {}
    assert status.conditions == (Condition("QuotaReserved", "True"), Condition("Odd", "False"))
    assert encode_status(status)["conditions"] == [
        {"type": "QuotaReserved", "status": "True"},
        {"type": "Odd", "status": "False"},
    ]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("decidedReplicas", 2**31 - 1),
        ("decidedReplicas", -1),
        ("lastWorkerIndex", 10**12),
        ("epoch", 2**63 - 1),
        ("generation", 2**63 - 1),
        ("restartCount", 10**400),
        ("restartCount", 2**31 - 1),
        ("failures", {"user": 2**31 - 1, "infrastructure": 0}),
        ("startTime", "9999-12-31T23:59:59Z"),
        ("scaling", {**SCALING, "target": 10**9}),
        ("scaling", {**SCALING, "final": -1}),
    ],
)
def test_a_number_that_nobody_could_count_on_from_is_unread(key: str, value: object):
    _, problems = decode_status(JobStatus, {key: value})
    assert list(problems) == [key]
    assert problems[key].startswith(f"status.{key}")
