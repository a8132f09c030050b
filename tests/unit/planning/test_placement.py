"""What is written into each term of a template is bounded by all of its terms together."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from et_contract.admissions import MAX_NODES, AdmissionState, Placement
from et_kube.notices import Notice, NoticeKind
from et_kube.resources import PODS, Json
from et_kube.shaping import HOSTNAME, MAX_TERMS
from et_operator.codec.decoding import decode_job
from et_operator.model.actions import Create
from et_operator.model.admissions import Admission
from et_operator.model.pods import Node
from et_operator.planning.manifests.placement import MAX_NAMED, place
from et_operator.planning.planner import plan
from tests import makers
from tests.planning_makers import ModelWorld, make_job

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
HOSTS = [f"ip-10-20-{n // 250:03}-{n % 250:03}.eu-central-1.compute.internal" for n in range(400)]
OWN = {"key": "a", "operator": "Exists"}
ENDS = Notice("it ends", "condition InstanceToBeTerminated", NoticeKind.FIRM)
LARGEST = 256 * 1024
"""Bytes: of pods so large 128 are created at once for one namespace, and 512 in all."""


def require(terms: int) -> Json:
    required = {"nodeSelectorTerms": [{"matchExpressions": [OWN]}] * terms} if terms else None
    return {"spec": {"affinity": {"nodeAffinity": {REQUIRED: required}}}}


def list_terms(pod: Json) -> list[list[Any]]:
    required = pod["spec"]["affinity"]["nodeAffinity"][REQUIRED]
    return [term["matchExpressions"] for term in required["nodeSelectorTerms"]]


def list_preferred(pod: Json) -> list[Any]:
    preferred = pod["spec"]["affinity"]["nodeAffinity"].get(PREFERRED) or []
    return [one["preference"]["matchExpressions"] for one in preferred]


@pytest.mark.parametrize("terms", [0, 1, 2])
def test_where_a_template_has_few_terms_all_names_are_required(terms: int) -> None:
    pod = place(require(terms), HOSTS[:MAX_NODES], HOSTS[MAX_NODES:])
    only = {"key": HOSTNAME, "operator": "In", "values": HOSTS[:MAX_NODES]}
    avoid = {"key": HOSTNAME, "operator": "NotIn", "values": HOSTS[MAX_NODES:]}
    own = [OWN] if terms else []
    assert list_terms(pod) == [[*own, only, avoid]] * max(terms, 1)
    assert list_preferred(pod) == []


def test_where_it_has_many_the_first_are_and_it_would_rather_keep_off_the_others() -> None:
    pod = place(require(MAX_TERMS), (), HOSTS[:MAX_NODES])
    [(own, kept_off), *others] = list_terms(pod)
    assert others == [[own, kept_off]] * (MAX_TERMS - 1)
    assert (own, kept_off["operator"]) == (OWN, "NotIn")
    [[beyond]] = list_preferred(pod)
    assert (beyond["operator"], beyond["key"]) == ("NotIn", HOSTNAME)
    assert kept_off["values"] + beyond["values"] == HOSTS[:MAX_NODES]
    assert kept_off["values"]
    assert MAX_TERMS * len(json.dumps(kept_off["values"])) <= MAX_NAMED


def test_nodes_that_it_must_be_on_are_named_whole_or_not_at_all() -> None:
    few, many = (place(require(MAX_TERMS), HOSTS[:n], HOSTS[-1:]) for n in (5, MAX_NODES))
    assert [one["operator"] for one in list_terms(few)[0]] == ["Exists", "In", "NotIn"]
    assert list_terms(few)[0][1]["values"] == HOSTS[:5]
    assert [one["operator"] for one in list_terms(many)[0]] == ["Exists", "NotIn"]


def test_names_of_whatever_length_take_no_more() -> None:
    pod = place(require(MAX_TERMS), (), ["<" * 100_000, "n"])
    assert len(json.dumps(list_terms(pod))) < MAX_NAMED
    assert list_terms(pod)[0][1]["values"] == ["n"]
    assert len(json.dumps(pod)) < MAX_NAMED


def make_largest() -> Json:
    """A job whose worker template has as much of everything as is taken."""
    manifest = makers.make_job(workers=4)
    role = manifest["spec"]["etReplicaSpecs"]["worker"]
    spec = role["template"]["spec"]
    terms = [{"matchExpressions": [{**OWN, "key": f"k{n}"}]} for n in range(MAX_TERMS)]
    spec["affinity"] = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}
    values = [{"name": f"E{n}", "value": "x" * 10} for n in range(2600)]
    spec["containers"][0] |= {"command": ["sh"], "env": values}
    return manifest


@pytest.mark.long
@pytest.mark.parametrize("is_chosen", [False, True])
def test_no_pod_of_whatever_template_is_larger_than_counts_here(*, is_chosen: bool) -> None:
    decoded = decode_job(make_largest())
    assert decoded.spec is not None
    assert len(decoded.spec.worker.template.text) > 100_000
    world = ModelWorld(make_job(4, queue="q" if is_chosen else ""))
    assert world.job.spec is not None
    world.job = replace(world.job, spec=replace(world.job.spec, worker=decoded.spec.worker))
    for host in HOSTS:
        world.nodes[host] = Node(host, notice=ENDS)
    if is_chosen:
        world.settle()
        placement = Placement("", tuple(HOSTS[:MAX_NODES]), tuple(HOSTS[MAX_NODES:]))
        admission = Admission(1, AdmissionState.ADMITTED, workers=4, placement=placement)
        world.job = replace(world.job, admission=admission)
    bodies: list[int] = []
    for _ in range(6):
        result = plan(world.snapshot(), world.now)
        creations = [one for one in result.actions if isinstance(one, Create)]
        bodies += [len(json.dumps(c.manifest)) for c in creations if c.resource == PODS]
        world.apply(result)
    assert len(bodies) == 5
    assert 150_000 < max(bodies) < LARGEST
