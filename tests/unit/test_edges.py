"""Every edge at which something from outside comes in: what breaks there stays with its object.

A job in team-a does what it should while something of team-b breaks whatever it touches.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from et.describing import describe
from et.listing import show_list
from et_contract.documents import (
    InvalidDocument,
    Report,
    decode_config,
    decode_report,
    encode_report,
)
from et_contract.pods import Role
from et_kube.errors import KubeError
from et_kube.resources import CONFIG_MAPS, EVENTS, NODES, PODS, TRAINING_JOBS, Json, Ref
from et_operator.codec.decoding import decode_job, decode_scaling
from et_operator.model.keys import JobKey
from et_operator.model.names import build_labels
from fakes.clients import Call
from fakes.clock import FakeClock
from fakes.cluster import FakeCluster
from tests.makers import make_config_map, make_job
from tests.simulation.worlds import NAMESPACE
from tests.specs.generating import Case, Generator, NotStored, as_stored, build_case
from tests.specs.odds import ODDS
from tests.specs.places import put
from tests.unit.et.rigs import make_cluster, make_screen, read
from tests.unit.test_assembly import AssemblyRig
from tests.unit.test_reconciling import ReconcilerRig

pytestmark = pytest.mark.usefixtures("quiet_logs")

SEEDS = st.integers(0, 2**32).map(lambda number: f"edges/{number}")
DEFECT = TypeError("nobody foresaw this")
OURS = build_labels("odd", Role.WORKER)


def is_of_odd(call: Call) -> bool:
    return call.ref.namespace == "team-b"


EDGES: dict[str, Callable[[Call], bool]] = {
    "writes": lambda call: call.is_write and is_of_odd(call),
    "reads": lambda call: call.verb == "get" and is_of_odd(call),
    "pods": lambda call: call.verb == "create" and call.ref.resource == PODS and is_of_odd(call),
    "status": lambda call: call.subresource == "status" and is_of_odd(call),
    "events": lambda call: call.ref.resource == EVENTS and is_of_odd(call),
}


@pytest.mark.long
@pytest.mark.parametrize("edge", EDGES)
async def test_an_error_that_nobody_foresaw_stays_with_its_job(edge: str) -> None:
    rig = AssemblyRig()
    for namespace in ("team-a", "team-b"):
        rig.cluster.create(TRAINING_JOBS, namespace, make_job(workers=2))
    rig.refuse(EDGES[edge], DEFECT)
    async with rig.running():
        await rig.advance(20)
        assert rig.count_pods("team-a") == 3
        rig.log.faults.clear()
        await rig.advance(70)
        assert rig.count_pods("team-b") == 3


@pytest.mark.long
@pytest.mark.parametrize("verb", ["list", "watch"])
@pytest.mark.parametrize("resource", [TRAINING_JOBS, PODS, CONFIG_MAPS, NODES])
async def test_an_answer_that_nobody_foresaw_is_asked_for_again(verb: str, resource: Any) -> None:
    rig = AssemblyRig()
    rig.refuse(lambda call: call.verb == verb and call.ref.resource == resource, DEFECT)
    async with rig.running():
        await rig.advance(3)
        rig.log.faults.clear()
        rig.cluster.create(TRAINING_JOBS, "team-a", make_job(workers=2))
        await rig.advance(40)
        assert rig.count_pods("team-a") == 3


ODD_OBJECTS: list[tuple[Any, Json]] = [
    (NODES, {"metadata": {"name": "odd"}, "spec": {"taints": ["x"]}}),
    (CONFIG_MAPS, {**make_config_map("odd-report", labels=OURS), "data": {"report-1": ["["]}}),
]
"""What no decoder foresees."""


async def test_an_object_that_cannot_be_read_is_left_out_and_counted() -> None:
    rig = AssemblyRig()
    rig.cluster.create(TRAINING_JOBS, "team-a", make_job(workers=2))
    async with rig.running():
        await rig.advance(5)
        for resource, manifest in ODD_OBJECTS:
            namespace = "team-b" if resource.namespaced else None
            rig.cluster.create(resource, namespace, manifest)
        await rig.advance(20)
        assert rig.count_pods("team-a") == 3
        assert rig.metrics.defects.labels("object")._value.get() > 0


# ------------------------------------------------------------------ whatever anybody writes
def store(cluster: FakeCluster, case: Case) -> Json | None:
    """The object as the server in memory stores it; None where it refuses it."""
    try:
        return cluster.create(case.resource, "team", case.manifest.stored)
    except (KubeError, NotStored):
        return None


@pytest.mark.long
@settings(max_examples=25)
@given(SEEDS)
def test_whatever_is_stored_is_planned_or_told(seed: str) -> None:
    asyncio.run(live_through(build_case(seed, name="train")))


async def live_through(case: Case) -> None:
    """A case from its creation on: no pass raises, whatever is written meanwhile."""
    rig = ReconcilerRig()
    rig.create(TRAINING_JOBS, make_job("target", workers=2))
    stored = store(rig.cluster, case)
    keys = [JobKey("team", "target"), JobKey("team", "train")]
    for edit in ((), *((edit,) for edit in case.edits)):
        for change in edit:
            try:
                ref = Ref(case.resource, "team", (stored or {})["metadata"]["name"])
                rig.cluster.patch(ref, change.written.stored, subresource=change.subresource)
            except (KubeError, NotStored, KeyError):
                continue
        for _ in range(3):
            rig.look()
            for key in keys:
                await rig.reconciler.reconcile(key)


@settings(max_examples=100)
@given(SEEDS)
def test_whatever_was_stored_before_the_rules_is_a_job_or_a_sentence(seed: str) -> None:
    case = build_case(seed, name="train")
    try:
        body = case.manifest.stored
    except NotStored:
        return
    metadata = body.get("metadata")
    if not isinstance(metadata, dict):
        return
    is_job = case.resource == TRAINING_JOBS
    decoded = decode_job(body) if is_job else decode_scaling(body)
    assert len(decoded.invalid) <= 1024
    decoded.invalid.encode()
    assert not is_job or (decoded.spec is None) == bool(decoded.invalid)


@pytest.mark.long
@settings(max_examples=100)
@given(st.randoms(use_true_random=False), st.sampled_from(sorted(ODDS)), st.data())
def test_whatever_a_report_says_is_read_or_refused(
    dice: random.Random, kind: str, data: st.DataObject
) -> None:
    good = json.loads(encode_report(Report(1, "l", 1)))
    key = data.draw(st.sampled_from(sorted(good)))
    path = (key, *data.draw(st.sampled_from([(), ("a",), ("a", 0), ("a", "code"), (0,)])))
    try:
        text = json.dumps(put(good, path, as_stored(ODDS[kind](dice))))
    except (NotStored, AssertionError):
        return
    for read_it in (decode_report, decode_config):
        try:
            read_it(text)
        except InvalidDocument:
            continue


@pytest.mark.long
async def test_lists_show_every_job_whatever_is_wrong_with_some() -> None:
    clock = FakeClock()
    cluster = FakeCluster(clock.now)
    cluster.create(TRAINING_JOBS, NAMESPACE, make_job("good"))
    generator = Generator(random.Random(7))  # noqa: S311 (a die, no secret)
    names = [f"odd-{number}" for number in range(60)]
    stored = [name for name in names if put_odd(cluster, generator, name)]
    assert len(stored) > 10
    screen = make_screen(width=300)
    await show_list(make_cluster(cluster, clock), screen, everywhere=True, as_json=False)
    shown = read(screen.out)
    assert "good" in shown
    assert all(name in shown for name in stored)
    here = make_cluster(cluster, clock)
    for name in ("good", *stored):
        await describe(here, make_screen(width=300), name, as_json=False)


def put_odd(cluster: FakeCluster, generator: Generator, name: str) -> bool:
    """Whether the server takes an odd job and then an odd status."""
    try:
        manifest = generator.build_manifest(TRAINING_JOBS, name).stored
        if manifest["metadata"]["name"] != name:
            return False
        cluster.create(TRAINING_JOBS, NAMESPACE, manifest)
    except (KubeError, NotStored, KeyError, TypeError):
        return False
    try:
        status = generator.build_status(TRAINING_JOBS).stored
        cluster.patch(Ref(TRAINING_JOBS, NAMESPACE, name), status, subresource="status")
    except (KubeError, NotStored):
        pass
    return True
