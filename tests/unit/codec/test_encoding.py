"""Which fields of an object each change is."""

from __future__ import annotations

from typing import Any

import pytest

from et_contract.documents import HostConfig
from et_kube.resources import (
    CONFIG_MAPS,
    ROLE_BINDINGS,
    ROLES,
    SCALE_INS,
    TRAINING_JOBS,
    Ref,
    Resource,
)
from et_operator.codec.encoding import (
    encode_change,
    encode_config_data,
    encode_owner,
    encode_rules,
    encode_status_patch,
    find_subresource,
)
from et_operator.model.actions import (
    AcceptScaling,
    AnswerScaling,
    Change,
    SetAccounts,
    SetReplicas,
    SetRights,
    WriteConfig,
    WriteStatus,
)
from et_operator.model.keys import Owner, OwnerReference
from et_operator.model.rights import Rights
from et_operator.model.scalings import ScalingStatus
from et_operator.model.statuses import JobStatus

PIN = {"uid": "u", "resourceVersion": "3"}
PIPELINE = {"apiVersion": "x/v1", "kind": "Pipeline", "name": "p", "uid": "p-uid"}
JOB = Owner("train", "job-uid")
RIGHTS = Rights("-job-uid", execs=frozenset({"b", "a"}))
CONFIG = HostConfig("train", "team", "job-uid", 3, 2, 1, 1)


def pin(resource: Resource) -> tuple[Ref, str, str]:
    return Ref(resource, "team", "it"), "u", "3"


def count_workers(number: int) -> dict[str, Any]:
    return {"etReplicaSpecs": {"worker": {"replicas": number}}}


@pytest.mark.parametrize(
    ("change", "body"),
    [
        (SetReplicas(*pin(TRAINING_JOBS), 3), {"spec": count_workers(3), "metadata": PIN}),
        (
            SetReplicas(*pin(TRAINING_JOBS), 0, "asked"),
            {
                "spec": count_workers(0),
                "metadata": {"annotations": {"kai.alibabacloud.com/applied-scaling": "asked"}}
                | PIN,
            },
        ),
        (
            WriteConfig(*pin(CONFIG_MAPS), CONFIG),
            {"data": encode_config_data(CONFIG), "metadata": PIN},
        ),
        (SetRights(*pin(ROLES), RIGHTS), {"rules": encode_rules(RIGHTS), "metadata": PIN}),
        (
            SetAccounts(*pin(ROLE_BINDINGS), frozenset({"b", "a"})),
            {
                "subjects": [
                    {"kind": "ServiceAccount", "namespace": "team", "name": name} for name in "ab"
                ],
                "metadata": PIN,
            },
        ),
        (
            AcceptScaling(
                *pin(SCALE_INS), (OwnerReference("x/v1", "Pipeline", "p", "p-uid"),), JOB
            ),
            {"metadata": {"ownerReferences": [PIPELINE, encode_owner(JOB)], **PIN}},
        ),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_change_is_these_fields_of_the_very_object_that_was_seen(
    change: Change, body: dict[str, Any]
) -> None:
    assert (encode_change(change), find_subresource(change)) == (body, "")


@pytest.mark.parametrize(
    "change",
    [
        WriteStatus(*pin(TRAINING_JOBS), JobStatus(epoch=2)),
        AnswerScaling(*pin(SCALE_INS), ScalingStatus(job_uid="x")),
    ],
)
def test_a_status_goes_where_no_spec_is_written(change: WriteStatus | AnswerScaling) -> None:
    assert encode_change(change) == {**encode_status_patch(change.status), "metadata": PIN}
    assert find_subresource(change) == "status"


def test_what_a_role_grants_is_named_beside_its_seal() -> None:
    assert [rule["resourceNames"] for rule in encode_rules(RIGHTS)] == [
        ["-job-uid", "a", "b"],
        ["-job-uid"],
        ["-job-uid"],
    ]
