"""Whoever copies a manifest from a page or from the examples gets what it says."""

from __future__ import annotations

from typing import Any

import pytest

from et_kube.resources import Json
from et_operator.codec.decoding import decode_job, decode_scaling
from et_scheduler.codec.queues import decode_queue
from fakes.schemas import admit, find_definition
from tests.shown import KINDS, read_shown

SHOWN = read_shown()


def test_pages_and_examples_show_all_kinds():
    kinds = {manifest["kind"] for manifests in SHOWN.values() for manifest in manifests}
    assert kinds == set(KINDS)
    assert any(name.startswith("docs/migration.md") for name in SHOWN)


@pytest.mark.parametrize("place", SHOWN)
def test_what_is_shown_is_accepted_whole_and_understood(place: str):
    for manifest in SHOWN[place]:
        definition = find_definition(KINDS[manifest["kind"]])
        assert definition is not None
        stored, faults = admit(manifest, definition["schema"]["openAPIV3Schema"])
        assert faults == []
        assert list_dropped(manifest, stored, manifest["kind"]) == []
        assert find_complaint(stored) == ""


def list_dropped(given: Any, stored: Any, path: str) -> list[str]:
    """Fields that the server would not keep, because it does not know them."""
    if isinstance(given, dict):
        known = stored if isinstance(stored, dict) else {}
        return [
            name
            for key, value in given.items()
            for name in (
                list_dropped(value, known[key], f"{path}.{key}")
                if key in known
                else [f"{path}.{key}"] * (value is not None)
            )
        ]
    if isinstance(given, list):
        pairs = zip(given, stored, strict=True)
        return [name for one, kept in pairs for name in list_dropped(one, kept, f"{path}[]")]
    return []


def find_complaint(stored: Json) -> str:
    """What the operator or et-scheduler would say of it; ValueError for what is no queue."""
    if stored["kind"] == "TrainingQueue":
        decode_queue(stored)
        return ""
    return (decode_job if stored["kind"] == "TrainingJob" else decode_scaling)(stored).invalid
