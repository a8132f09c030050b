"""ConfigMaps and access objects of a job."""

from __future__ import annotations

import pytest

from et_operator.codec.children import (
    decode_child,
    decode_host_config,
    decode_job_report,
    decode_role_names,
    find_mounted_config_maps,
)
from et_operator.model.snapshots import Child
from launcher.documents import HostConfig, Report, encode_config, encode_report

CONFIG = HostConfig("train", "team", "u", generation=3, epoch=2, replicas=2, min_replicas=1)
REPORT = Report(epoch=2, launcher_uid="l", broker_start=1)


def test_a_child_and_whose_it_is():
    body = {
        "metadata": {
            "name": "train-config",
            "uid": "c",
            "resourceVersion": "5",
            "labels": {"kai.alibabacloud.com/runtime": "abc"},
            "ownerReferences": [{"uid": "x"}, {"uid": "u", "controller": True}],
        }
    }
    assert decode_child(body) == Child("train-config", "c", "5", "u", "abc")


def test_a_child_of_nobody():
    assert decode_child({"metadata": {"name": "a"}}) == Child("a", "", "", None)


def test_the_workers_that_a_role_opens():
    rules = [
        {"resources": ["pods/exec"], "resourceNames": ["w-0", "w-1"], "verbs": ["get"]},
        {"resources": ["configmaps"], "resourceNames": ["train-config"], "verbs": ["get"]},
        {"resources": ["pods/exec"], "resourceNames": ["w-2"], "verbs": ["create"]},
    ]
    assert decode_role_names({"rules": rules}) == {"w-0", "w-1", "w-2"}
    assert decode_role_names({}) == frozenset()


def test_the_config_is_read_back():
    assert decode_host_config({"data": {"config.json": encode_config(CONFIG)}}) == CONFIG


@pytest.mark.parametrize("data", [None, {}, {"config.json": ""}, {"config.json": "{"}])
def test_a_config_that_cannot_be_read_is_none(data: dict[str, str] | None):
    assert decode_host_config({"data": data}) is None


def test_the_report_of_this_epoch_only():
    body = {"data": {"report-2": encode_report(REPORT), "report-1": "{}"}}
    assert decode_job_report(body, 2) == REPORT
    assert decode_job_report(body, 1) is None
    assert decode_job_report(body, 3) is None


def test_a_report_under_another_epochs_key_is_none():
    assert decode_job_report({"data": {"report-3": encode_report(REPORT)}}, 3) is None


def test_the_config_maps_that_pods_mount():
    pods = [
        {"spec": {"volumes": [{"name": "a", "configMap": {"name": "one"}}, {"name": "b"}]}},
        {"spec": {"volumes": [{"name": "c", "emptyDir": {}}]}},
        {"spec": {"volumes": None}},
        {"spec": {"volumes": [{"name": "a", "configMap": {"name": "two"}}]}},
    ]
    assert find_mounted_config_maps(pods) == {"one", "two"}
