"""Each invariant is seen to break: a rogue does what the operator never must."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from et_contract.pods import LABEL_ROLE
from et_kube.resources import CONFIG_MAPS, PODS, SCALE_INS, TRAINING_JOBS, Json, Ref
from et_operator.model.names import LABEL_EPOCH
from fakes.broker import FakeBroker
from fakes.clients import CallLog, FakeApi
from fakes.clock import FakeClock
from fakes.cluster import FakeCluster
from tests.makers import make_config_map, make_job, make_owner, make_pod, make_scale_in
from tests.simulation.invariants import (
    Broken,
    check_history,
    check_rest,
    check_standing,
    watch_over,
)

PLACE = "team-a"


class Rogue:
    """A cluster with one job of one running worker, and an operator's client on it."""

    def __init__(self) -> None:
        self.cluster, log = FakeCluster(FakeClock().now), CallLog()
        watch_over(self.cluster, log)
        self.api = FakeApi(self.cluster, log)
        manifest = make_job(maxReplicas=2)
        self.job = self.cluster.create(TRAINING_JOBS, PLACE, manifest)
        self.worker = self.add_pod("train-worker-0", "worker")

    def add_pod(self, name: str, role: str) -> Json:
        labels = {LABEL_ROLE: role, LABEL_EPOCH: "1"}
        owners = [make_owner(self.job)]
        manifest = make_pod(name, labels=labels, ownerReferences=owners)
        return self.cluster.create(PODS, PLACE, manifest)

    def set_status(self, **fields: object) -> None:
        ref = Ref(TRAINING_JOBS, PLACE, "train")
        self.cluster.patch(ref, {"status": fields}, subresource="status")

    def ref(self, name: str) -> Ref:
        return Ref(PODS, PLACE, name)


async def test_deleting_a_worker_that_was_not_to_go():
    rogue = Rogue()
    with pytest.raises(Broken, match="train-worker-0"):
        await rogue.api.delete(rogue.ref("train-worker-0"), uid=rogue.worker["metadata"]["uid"])
    leaving = {"name": "train-worker-0", "uid": rogue.worker["metadata"]["uid"], "state": "Leaving"}
    ref = Ref(TRAINING_JOBS, PLACE, "train")
    rogue.cluster.patch(ref, {"status": {"workers": [leaving]}}, subresource="status")
    await rogue.api.delete(rogue.ref("train-worker-0"), uid=rogue.worker["metadata"]["uid"])


async def test_touching_what_belongs_to_somebody_else():
    rogue = Rogue()
    stranger = rogue.cluster.create(CONFIG_MAPS, PLACE, make_config_map("box"))
    ref = Ref(CONFIG_MAPS, PLACE, "box")
    with pytest.raises(Broken, match="somebody else"):
        await rogue.api.patch(ref, {"data": {"a": "1"}})
    with pytest.raises(Broken, match="somebody else"):
        await rogue.api.delete(ref, uid=stranger["metadata"]["uid"])


async def test_writing_a_status_without_saying_from_which_version():
    rogue = Rogue()
    ref = Ref(TRAINING_JOBS, PLACE, "train")
    with pytest.raises(Broken, match="resourceVersion"):
        await rogue.api.patch(ref, {"status": {"phase": "Running"}}, subresource="status")


async def test_writing_a_status_field_that_the_definition_does_not_know():
    rogue = Rogue()
    pin = {"resourceVersion": rogue.job["metadata"]["resourceVersion"]}
    body = {"metadata": pin, "status": {"phase": "Running", "mood": "good"}}
    with pytest.raises(Broken, match=r"status\.mood"):
        await rogue.api.patch(Ref(TRAINING_JOBS, PLACE, "train"), body, subresource="status")


def use_a_name_again(rogue: Rogue) -> None:
    rogue.cluster.remove(rogue.ref("train-worker-0"))
    rogue.add_pod("train-worker-0", "worker")


def start_two_launchers(rogue: Rogue) -> None:
    rogue.add_pod("train-launcher", "launcher")
    rogue.add_pod("train-launcher-r1", "launcher")


def start_too_many_workers(rogue: Rogue) -> None:
    rogue.add_pod("train-worker-1", "worker")
    rogue.add_pod("train-worker-2", "worker")


def start_more_than_asked(rogue: Rogue) -> None:
    worker = {"maxReplicas": 5}
    ref = Ref(TRAINING_JOBS, PLACE, "train")
    rogue.cluster.patch(ref, {"spec": {"etReplicaSpecs": {"worker": worker}}})
    start_too_many_workers(rogue)


def let_the_epoch_fall(rogue: Rogue) -> None:
    ref = Ref(TRAINING_JOBS, PLACE, "train")
    for epoch in (2, 1):
        rogue.cluster.patch(ref, {"status": {"epoch": epoch}}, subresource="status")


@pytest.mark.parametrize(
    ("crime", "sentence"),
    [
        pytest.param(use_a_name_again, "created twice", id="name"),
        pytest.param(start_two_launchers, "two launchers", id="launchers"),
        pytest.param(start_too_many_workers, "at most 2 wanted", id="workers"),
        pytest.param(start_more_than_asked, "2 workers were asked for", id="number"),
        pytest.param(let_the_epoch_fall, "fell", id="epoch"),
    ],
)
def test_a_history_that_must_not_be(crime: Callable[[Rogue], None], sentence: str):
    rogue = Rogue()
    check_history(rogue.cluster)
    crime(rogue)
    with pytest.raises(Broken, match=sentence):
        check_history(rogue.cluster)


def ask_in_vain(rogue: Rogue) -> None:
    rogue.cluster.create(SCALE_INS, PLACE, make_scale_in("in", count=1))


def remember_for_ever(rogue: Rogue) -> None:
    now = "2026-01-01T00:00:00Z"
    record = {"kind": "ScaleIn", "name": "in", "uid": "u", "base": 2, "target": 1, "started": now}
    rogue.set_status(scaling=record)


def end_and_go_on(rogue: Rogue) -> None:
    rogue.set_status(phase="Failed")


@pytest.mark.parametrize(
    ("crime", "sentence"),
    [
        pytest.param(ask_in_vain, "in is None for ever", id="no-answer"),
        pytest.param(remember_for_ever, "not put away", id="record"),
        pytest.param(lambda _: None, "2 workers are wanted, these run", id="missing"),
        pytest.param(end_and_go_on, "the job is Failed, and these run", id="leftover"),
    ],
)
def test_a_rest_that_must_not_be(crime: Callable[[Rogue], None], sentence: str):
    rogue = Rogue()
    crime(rogue)
    with pytest.raises(Broken, match=sentence):
        check_rest(rogue.cluster, FakeBroker(rogue.cluster))


def test_what_is_not_as_it_was_asked_must_be_told():
    rogue = Rogue()
    broker = FakeBroker(rogue.cluster)
    with pytest.raises(Broken, match=r"2 workers are wanted.*no condition says why"):
        check_standing(rogue.cluster, broker, ["Scaling"])
    check_standing(rogue.cluster, broker, ["WritesRefused"])
    told = {"type": "PodsRefused", "status": "False", "reason": "Resolved"}
    rogue.set_status(conditions=[told])
    with pytest.raises(Broken):
        check_standing(rogue.cluster, broker, [])
    rogue.set_status(conditions=[told | {"status": "True"}])
    check_standing(rogue.cluster, broker, [])
