"""ConfigMaps and access objects of a job."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

import pytest

from et_contract.documents import (
    AHEAD,
    MAX_WORKERS,
    HostConfig,
    Member,
    MemberState,
    Report,
    encode_config,
    encode_report,
)
from et_operator.codec.children import (
    decode_child,
    decode_host_config,
    decode_job_report,
    decode_role_names,
    find_owner,
    select_documents,
    select_mounted,
)
from et_operator.model.keys import Owner
from et_operator.model.names import LABELS_OURS
from et_operator.model.snapshots import Child

CONFIG = HostConfig("train", "team", "u", generation=3, epoch=2, replicas=2, min_replicas=1)
REPORT = Report(epoch=2, launcher_uid="l", broker_start=1)


OWNER = {
    "apiVersion": "kai.alibabacloud.com/v1alpha1",
    "kind": "TrainingJob",
    "name": "train",
    "uid": "u",
    "controller": True,
}


def test_a_child_and_whose_it_is():
    body = {
        "metadata": {
            "name": "train-config",
            "uid": "c",
            "resourceVersion": "5",
            "labels": {**LABELS_OURS, "kai.alibabacloud.com/runtime": "abc"},
            "ownerReferences": [{"uid": "x"}, OWNER],
        }
    }
    assert decode_child(body) == Child("train-config", "c", "5", Owner("train", "u"), "abc")


def test_a_child_of_nobody():
    assert decode_child({"metadata": {"name": "a"}}) == Child("a", "", "", None)


@pytest.mark.parametrize(
    "other",
    [
        {"apiVersion": "nope.example/v1alpha1"},
        {"apiVersion": "v1"},
        {"kind": "ScaleIn"},
        {"controller": False},
        {"uid": "u" * 65},
        {"name": "x" * 500_000},
    ],
)
def test_no_job_is_the_owner_where_anything_else_is_said(other: dict[str, str]):
    assert find_owner({"labels": LABELS_OURS, "ownerReferences": [OWNER | other]}) is None


def test_the_version_of_the_owners_kind_is_of_no_account():
    newer = OWNER | {"apiVersion": "kai.alibabacloud.com/v1"}
    assert find_owner({"labels": LABELS_OURS, "ownerReferences": [newer]}) == Owner("train", "u")


def test_the_names_that_a_role_gives_rights_on():
    rules = [
        {"resources": ["pods/exec"], "resourceNames": ["-u", "w-0", "w-1"], "verbs": ["get"]},
        {"resources": ["configmaps"], "resourceNames": ["train-config"], "verbs": ["get"]},
        {"resources": ["pods/exec"], "resourceNames": ["w-2"], "verbs": ["create"]},
    ]
    assert decode_role_names({"rules": rules}, "u") == {"w-0", "w-1", "w-2", "train-config"}
    assert decode_role_names({}, "u") == frozenset()


def test_of_a_role_with_more_names_than_ours_could_have_no_more_are_kept():
    names = ["x" * 500_000, *(f"{n:x}" for n in range(200_000))]
    kept = decode_role_names({"rules": [{"resourceNames": names}]}, "u")
    assert len(kept) == 4 * MAX_WORKERS
    assert max(map(len, kept)) == 64


def test_the_config_is_read_back():
    assert decode_host_config({"config.json": encode_config(CONFIG)}) == CONFIG


@pytest.mark.parametrize("documents", [{}, {"config.json": ""}, {"config.json": "{"}])
def test_a_config_that_cannot_be_read_is_none(documents: dict[str, str]):
    assert decode_host_config(documents) is None


@pytest.mark.parametrize(
    ("ahead", "is_read"), [(0, True), (AHEAD, True), (AHEAD + 1, False), (2**53 - 100, False)]
)
def test_a_number_far_ahead_of_the_jobs_own_is_nobodys(ahead: int, is_read: bool):
    for config in (replace(CONFIG, generation=7 + ahead), replace(CONFIG, epoch=7 + ahead)):
        found = decode_host_config({"config.json": encode_config(config)}, 7, 7)
        assert found == (config if is_read else None)


@pytest.mark.parametrize(
    ("count", "uid", "is_read"),
    [(3 * MAX_WORKERS, "", True), (3 * MAX_WORKERS + 1, "", False), (1, "u" * 64, False)],
)
def test_a_config_of_more_or_longer_members_than_any_job_has_is_nobodys(
    count: int, uid: str, is_read: bool
):
    members = tuple(
        Member(f"w-{n}", f"{n}{uid}", 1, MemberState.ACTIVE, "main") for n in range(count)
    )
    config = replace(CONFIG, members=members)
    found = decode_host_config({"config.json": encode_config(config)}, 7, 7)
    assert found == (config if is_read else None)


@pytest.mark.parametrize(
    ("ahead", "is_read"), [(4 * AHEAD, True), (4 * AHEAD + 1, False), (2**53 - 100, False)]
)
def test_a_report_of_a_generation_far_ahead_is_nobodys(ahead: int, is_read: bool):
    report = replace(REPORT, observed_generation=7 + ahead)
    found = decode_job_report({"report-2": encode_report(report)}, 2, 7)
    assert found == (report if is_read else None)


def test_a_report_of_an_epoch_far_ahead_is_not_the_newest():
    report = replace(REPORT, epoch=AHEAD + 1)
    documents = {"report-2": encode_report(REPORT), f"report-{AHEAD + 1}": encode_report(report)}
    assert decode_job_report(documents, 0) == REPORT


def test_of_a_config_map_the_config_and_the_reports_are_kept():
    kept = {"config.json": "c", "report-10": "r10", "report-11": "r11"}
    data = {"hostfile": "h", "report-x": "x", **kept}
    assert select_documents({"data": data}) == kept
    assert select_documents({"data": {"config.json": 5}}) == {}
    assert select_documents({"data": None}) == {}


def test_of_a_document_each_character_is_kept_as_one_byte():
    """Ours have no others; one wide one would make four bytes of each."""
    (kept,) = select_documents({"data": {"config.json": "\U0001f600" + "a" * 10_000}}).values()
    assert (len(kept), kept[1:]) == (10_001, "a" * 10_000)
    assert sys.getsizeof(kept) < 10_200

    config = replace(CONFIG, members=(Member("w", "u", 1, MemberState.ACTIVE, "c\u00e9"),))
    documents = select_documents({"data": {"config.json": encode_config(config)}})
    assert decode_host_config(documents, 2, 3) == config


def test_the_report_of_this_epoch_only():
    documents = {"report-2": encode_report(REPORT), "report-1": "{}"}
    assert decode_job_report(documents, 2) == REPORT
    assert decode_job_report(documents, 0) == REPORT
    assert decode_job_report(documents, 1) is None
    assert decode_job_report(documents, 3) is None


def test_a_report_under_another_epochs_key_is_none():
    assert decode_job_report({"report-3": encode_report(REPORT)}, 3) is None


@pytest.mark.parametrize(
    ("volumes", "mounted"),
    [
        ([{"name": "a", "configMap": {"name": "one"}}, {"name": "b"}], {"one"}),
        ([{"name": "c", "emptyDir": {}}], set()),
        (None, set()),
        ([{"name": f"v{n}", "configMap": {"name": f"m{n}"}} for n in range(2000)], {"m7"}),
    ],
)
def test_of_the_config_maps_that_a_pod_mounts_those_are_found_that_are_asked_for(
    volumes: list[dict[str, Any]] | None, mounted: set[str]
) -> None:
    asked = frozenset({"one", "two", "m7"})
    assert select_mounted({"spec": {"volumes": volumes}}, asked) == mounted


@pytest.mark.parametrize("number", ["9" * 5000, "1" * 10, "\u0663", "", "-1", "1 ", "0", "03"])
def test_a_key_that_names_no_epoch_is_none(number: str):
    texts = {f"report-{number}": "{}", "report-2": encode_report(REPORT)}
    assert decode_job_report(texts, 0) == REPORT
