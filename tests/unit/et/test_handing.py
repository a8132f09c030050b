"""Whose the fields of a job are, before an update and after."""

from __future__ import annotations

from typing import Any

import pytest

from et.handing import hand_over
from et_kube.resources import TRAINING_JOBS

RENEWED = "f:kai.alibabacloud.com/renew-workers-through"


def make(operation: str, fields: dict[str, Any], **more: str) -> dict[str, Any]:
    entry = {"manager": "et", "operation": operation, "apiVersion": TRAINING_JOBS.api_version}
    return {**entry, "fieldsType": "FieldsV1", "fieldsV1": fields, **more}


def test_what_was_created_becomes_what_is_applied():
    fields = {"f:spec": {".": {}, "f:backoffLimit": {}}}
    assert hand_over([make("Update", fields, time="then")]) == [
        make("Apply", fields, time="then"),
    ]


def test_it_is_put_to_what_was_applied_before():
    created = {
        "f:spec": {
            "f:a": {".": {}, "f:b": {}},
            "f:c": {},
            "f:d": {"f:e": {}},
            "f:same": {"f:one": {}},
        },
    }
    applied = {
        "f:metadata": {"f:labels": {"f:team": {}}},
        "f:spec": {
            "f:a": {"f:x": {}},
            "f:c": {"f:y": {}},
            "f:d": {},
            "f:same": {"f:other": {}},
        },
    }
    other = make("Update", {"f:spec": {"f:z": {}}}, manager="kubectl-edit")

    handed = hand_over([other, make("Update", created), make("Apply", applied, time="now")])

    spec = {
        "f:a": {".": {}, "f:b": {}, "f:x": {}},
        "f:c": {".": {}, "f:y": {}},
        "f:d": {".": {}, "f:e": {}},
        "f:same": {"f:one": {}, "f:other": {}},
    }
    whole = {"f:metadata": applied["f:metadata"], "f:spec": spec}
    assert handed == [make("Apply", whole, time="now"), other]


@pytest.mark.parametrize(
    "entries",
    [
        pytest.param([], id="no-server-says-it"),
        pytest.param([make("Apply", {"f:spec": {}})], id="applied"),
        pytest.param([make("Update", {"f:spec": {}}, manager="kubectl-create")], id="others"),
        pytest.param([make("Update", {"f:spec": {}}, subresource="scale")], id="scale"),
        pytest.param([make("Update", {"f:spec": {}}, apiVersion="v0")], id="another-version"),
        pytest.param([make("Update", {"f:spec": {"f:suspend": {}}})], id="suspended"),
    ],
)
def test_where_nothing_is_to_be_handed_over_nothing_is_written(entries: list[Any]):
    assert hand_over(entries) is None


def test_what_commands_write_that_have_no_file_stays_theirs():
    def annotate(**fields: dict[str, Any]) -> dict[str, Any]:
        return {"f:metadata": {"f:annotations": {**fields}}}

    suspended = {"f:spec": {"f:suspend": {}, "f:queue": {}}}
    mine: dict[str, Any] = {".": {}, RENEWED: {}, "f:mine": {}}

    handed = hand_over([make("Update", annotate(**mine) | suspended)])

    rest = annotate(**{".": {}, "f:mine": {}}) | {"f:spec": {"f:queue": {}}}
    kept = annotate(**{RENEWED: {}}) | {"f:spec": {"f:suspend": {}}}
    assert handed == [make("Apply", rest), make("Update", kept)]


def test_what_was_there_for_its_sake_alone_goes_with_it():
    fields = {"f:metadata": {"f:annotations": {RENEWED: {}}}, "f:spec": {"f:queue": {}}}

    handed = hand_over([make("Update", fields)])

    assert handed is not None
    assert handed[0] == make("Apply", {"f:spec": {"f:queue": {}}})
