"""The generator keeps its word: a seed is a case, every class comes up, texts are JSON."""

from __future__ import annotations

import json

from et_kube.errors import Refused
from et_kube.resources import SCALE_INS, SCALE_OUTS, TRAINING_JOBS
from fakes.clock import FakeClock
from fakes.cluster import FakeCluster
from tests.specs.generating import Case, NotStored, build_case, dump
from tests.specs.odds import ODDS, Raw
from tests.specs.places import list_places, put, show

CASES = [build_case(f"seed/{number}", name=f"c{number}") for number in range(400)]


def test_a_seed_is_a_case():
    again = build_case("seed/7", name="c7")
    assert list_texts(again) == list_texts(CASES[7])
    assert build_case("seed/8", name="c7").manifest.text != again.manifest.text


def list_texts(case: Case) -> list[str]:
    """What is sent: the objects may be nested more deeply than Python compares."""
    return [case.manifest.text, *(f"{one.subresource} {one.written.text}" for one in case.edits)]


def test_every_class_and_every_kind_comes_up():
    odd = [line for case in CASES for line in case.manifest.odd]
    assert {line.split(" at ")[0] for line in odd} == set(ODDS)
    assert {case.resource for case in CASES} == {TRAINING_JOBS, SCALE_INS, SCALE_OUTS}
    assert {edit.subresource for case in CASES for edit in case.edits} == {"", "status", "scale"}


def test_some_are_stored_and_some_refused():
    taken = [is_taken(case) for case in CASES]
    assert 0.2 < sum(taken) / len(taken) < 0.9


def is_taken(case: Case) -> bool:
    """Whether the server in memory stores it."""
    try:
        FakeCluster(FakeClock().now).create(case.resource, "team-a", case.manifest.stored)
    except (Refused, NotStored):
        return False
    return True


def test_places_reach_what_the_schema_knows_and_what_it_does_not():
    shown = {show(path) for path in list_places(TRAINING_JOBS, "spec")}
    worker = "spec.etReplicaSpecs.worker"
    assert {
        "spec.backoffLimit",
        f"{worker}.replicas",
        f"{worker}.template.spec.containers[0].resources.limits.nvidia.com/gpu",
        f"{worker}.template.metadata.labels",
    } <= shown


def test_what_is_on_the_way_to_a_place_is_made():
    assert put({"a": "text"}, ("a", 1, "b"), 5) == {"a": [{}, {"b": 5}]}
    assert put({"a": 1}, ("b",), 2) == {"a": 1, "b": 2}


def test_raw_text_is_written_as_it_is():
    text = dump({"a": Raw("1e3", 1000), "b": [Raw('{"c":1,"c":2}', {"c": 2})]})
    assert text == '{"a": 1e3, "b": [{"c":1,"c":2}]}'
    assert json.loads(text) == {"a": 1000.0, "b": [{"c": 2}]}
