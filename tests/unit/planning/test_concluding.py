"""Scalings that cannot come to their end: nobody waits for them longer than a minute."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from et_kube.resources import (
    CONFIG_MAPS,
    NETWORK_POLICIES,
    PODS,
    ROLE_BINDINGS,
    ROLES,
    Ref,
    Resource,
)
from et_operator.model.actions import AcceptScaling, Action, AnswerScaling
from et_operator.model.snapshots import Refusal
from et_operator.model.statuses import ScalingKind
from et_operator.planning.concluding import CONFIRMING, MOST_UNTOLD, TELLING
from et_operator.planning.planner import plan
from tests.planning_makers import START, ModelWorld, make_job, make_scaling


class Mute(ModelWorld):
    """Writes to some scalings are refused."""

    def __init__(self, workers: int = 4) -> None:
        super().__init__(make_job(workers, minimum=1, maximum=40))
        self.mute: set[str] = set()

    def settle(self) -> None:
        """Passes until one would write nothing that is not refused."""
        for _ in range(60):
            result = plan(self.snapshot(), self.now)
            if result.status is None and all(map(self._is_refused, result.actions)):
                return
            self.step()
        raise AssertionError(f"does not come to rest: {self.log[-8:]}")

    def _apply(self, action: Action) -> None:
        if not self._is_refused(action):
            super()._apply(action)

    def _is_refused(self, action: Action) -> bool:
        return isinstance(action, AcceptScaling | AnswerScaling) and action.uid in self.mute

    def ask(self, kind: ScalingKind, name: str, count: int = 1, **how: Any) -> str:
        return self.add(make_scaling(kind, name, **how, count=count, created=self.now)).uid


def start(workers: int = 4) -> Mute:
    world = Mute(workers)
    world.start()
    return world


@pytest.mark.long
def test_a_scaling_that_is_deleted_and_held_by_a_finalizer_holds_up_no_other() -> None:
    world = start()
    uid = world.ask(ScalingKind.IN, "in")
    world.settle()
    world.scalings[uid] = replace(world.scalings[uid], deletion_requested=True)
    world.go_on()
    assert world.status.scaling is None
    world.ask(ScalingKind.OUT, "out")
    world.go_on()
    assert world.scaling_phase("out") == "ScaleSucceeded"
    world.edit(replicas=7)
    world.go_on()
    assert len(world.workers) == 7


@pytest.mark.long
def test_a_scaling_that_may_not_be_written_to_is_not_begun_and_holds_up_no_other() -> None:
    world = start()
    world.mute.add(world.ask(ScalingKind.IN, "first", is_owned=False))
    world.wait(1)
    world.ask(ScalingKind.OUT, "second", count=2)
    world.go_on()
    assert world.scaling_phase("second") == "ScaleSucceeded"
    assert len(world.workers) == 6
    assert world.scaling_phase("first") == ""
    world.mute.clear()
    world.go_on()
    assert world.scaling_phase("first") == "ScaleSucceeded"
    assert len(world.workers) == 5


@pytest.mark.long
def test_an_end_that_cannot_be_told_is_kept_and_told_when_it_can() -> None:
    world = start()
    uid = world.ask(ScalingKind.IN, "first")
    while world.scaling_phase("first") == "":
        world.step()
    world.mute.add(uid)
    world.go_on(rounds=3)
    assert world.status.scaling is not None
    world.ask(ScalingKind.OUT, "second", count=2)
    world.wait(TELLING.total_seconds())
    world.go_on()
    assert world.status.scaling is None
    assert [end.uid for end in world.status.untold] == [uid]
    assert world.scaling_phase("second") == "ScaleSucceeded"
    assert len(world.workers) == 5
    world.mute.clear()
    world.go_on()
    assert world.scaling_phase("first") == "ScaleSucceeded"
    assert len(world.workers) == 5  # and it was done once
    assert world.status.untold == ()


@pytest.mark.long
def test_an_end_of_which_nobody_wants_to_know_is_forgotten_after_a_live_read() -> None:
    world = start()
    uid = world.ask(ScalingKind.IN, "first")
    while world.scaling_phase("first") == "":
        world.step()
    world.mute.add(uid)
    world.go_on()
    world.wait(TELLING.total_seconds())
    world.settle()
    assert world.status.untold
    del world.scalings[uid]
    result = plan(world.snapshot(), world.now)
    assert [ref.name for ref in result.premises] == ["first"]
    world.settle()
    assert world.status.untold == ()


@pytest.mark.long
def test_no_scaling_is_begun_while_too_many_ends_are_untold_but_a_number_is() -> None:
    world = start(20)
    for number in range(MOST_UNTOLD + 1):
        uid = world.ask(ScalingKind.IN, f"s{number}")
        world.mute.add(uid)
        world.go_on()
        world.wait(TELLING.total_seconds())
        world.go_on()
    assert len(world.status.untold) == MOST_UNTOLD
    assert len(world.workers) == 20 - MOST_UNTOLD
    world.edit(replicas=6)
    world.go_on()
    assert len(world.workers) == 6
    assert world.status.scaling is None


@pytest.mark.long
@pytest.mark.parametrize("is_clock_set_back", [False, True])
def test_a_clock_that_is_set_back_keeps_no_end_for_longer(is_clock_set_back: bool) -> None:
    world = start()
    uid = world.ask(ScalingKind.IN, "first")
    while world.scaling_phase("first") == "":
        world.step()
    world.mute.add(uid)
    world.go_on()
    assert not world.status.untold
    world.wait(-3600 if is_clock_set_back else 0)
    world.settle()
    world.wait(TELLING.total_seconds())
    world.settle()
    assert world.status.untold


@pytest.mark.long
def test_a_scale_in_whose_pods_must_not_be_deleted_ends_and_says_whose_words_keep_them() -> None:
    world = start()
    world.ask(ScalingKind.IN, "in")
    world.settle()
    victim = world.status.scaling.victims[0].name  # type: ignore[union-attr]
    for count in (1, 4):
        refusal = Refusal("policy: keep", count, world.now, 1, victim, is_deletion=True)
        world.refusals = {Ref(PODS, "ns", victim): refusal}
        world.serve()
        world.settle()
    assert (world.scaling_phase("in"), world.scaling_reason("in")) == ("ScaleFailed", "NotDeleted")
    assert "policy: keep" in world.scalings["in-uid"].status.conditions[-1].message
    assert world.replicas == 3
    world.ask(ScalingKind.OUT, "out")
    world.go_on()
    assert world.scaling_phase("out") == "ScaleSucceeded"


def test_by_a_clock_that_is_behind_no_pod_outlives_its_grace() -> None:
    world = start()
    world.ask(ScalingKind.IN, "in")
    world.settle()
    world.serve()
    right = world.now
    world.wait(-1200)
    world.settle()
    [victim] = [pod for pod in world.pods.values() if pod.is_deleting]
    world.put(victim.name, deletion_requested=right)  # by the server's clock
    world.settle()
    assert world.scaling_phase("in") == "Scaling"
    world.now = right
    world.reap()
    world.settle()
    assert world.scaling_phase("in") == "ScaleSucceeded"


@pytest.mark.long
@pytest.mark.parametrize("grace", [30, 3600])
def test_a_pod_that_outlives_its_grace_holds_a_scale_in_for_a_bounded_time(grace: int) -> None:
    world = start()
    world.ask(ScalingKind.IN, "in")
    world.settle()
    world.serve()
    world.settle()
    [victim] = [pod for pod in world.pods.values() if pod.is_deleting]
    world.put(victim.name, deletion_requested=world.now, deletion_grace_seconds=grace)
    world.wait(grace + CONFIRMING.total_seconds() - 1)
    world.settle()
    assert world.scaling_phase("in") == "Scaling"
    assert world.step().requeue_after == timedelta(seconds=1)
    world.wait(1)
    world.settle()
    assert world.scaling_reason("in") == "NotDeleted"
    assert world.replicas == 3
    assert world.status.scaling is None


def test_scalings_of_one_second_take_their_turns_as_they_were_made() -> None:
    one, other = (
        make_scaling(ScalingKind.OUT, name, created=START, resource_version=version)
        for name, version in (("z", "9"), ("a", "10"))
    )
    later = make_scaling(ScalingKind.OUT, "b", created=START + timedelta(seconds=1))
    assert sorted((later, other, one), key=lambda s: s.order) == [one, other, later]


def test_what_they_are_told_meanwhile_changes_nothing_of_that() -> None:
    """Each write is a new version: whose turn it is would change, and all be told so again."""
    world = ModelWorld(make_job(3, minimum=1))
    world.start()
    world.edit(replicas=2)
    world.step()
    for version, name in enumerate(("in0", "in1", "out2", "in3"), 1):
        kind = ScalingKind.OUT if name.startswith("out") else ScalingKind.IN
        scaling = make_scaling(kind, name, count=1, created=world.now)
        world.add(replace(scaling, resource_version=str(version)))
    world.settle()
    world.add(replace(world.scalings["in0-uid"], resource_version="9999"))  # labelled by somebody
    world.settle()
    told = {name: s.status.conditions[-1].message for name, s in world.scalings.items()}
    assert told["in1-uid"] == "waits for ScaleIn in0"
    assert told["out2-uid"] == "waits for ScaleIn in1"
    assert told["in3-uid"] == "waits for ScaleOut out2"


# ------------------------------------------------------------------ what else is refused
def refuse(world: ModelWorld, resource: Resource) -> None:
    """The server refuses what is to be written of this kind, and has just said so again."""
    refusal = Refusal("denied by policy", 4, world.now, world.job.generation, "job-x")
    world.refusals = {resource: refusal}


@pytest.mark.parametrize("resource", [NETWORK_POLICIES, ROLES, ROLE_BINDINGS])
def test_scalings_are_carried_out_beside_what_is_refused(resource: Resource) -> None:
    world = start()
    uid = world.ask(ScalingKind.IN, "in", 2, is_owned=False)
    if resource == NETWORK_POLICIES:
        del world.children["NetworkPolicy"]
    if resource == ROLE_BINDINGS:
        world.bound = frozenset({"another"})
    if resource == ROLES:
        world.role_names |= {"job-worker-99"}  # which is to go, as one that was lost
    for _ in range(8):
        refuse(world, resource)
        world.go_on(1)
    assert world.scalings[uid].status.phase == "ScaleSucceeded"
    assert len(world.workers) == 2
    assert world.condition("WritesRefused") == "True"


def test_workers_leave_though_the_rights_on_others_are_refused() -> None:
    world = start()
    world.role_names -= {"job-worker-0"}
    uid = world.ask(ScalingKind.IN, "in", 2)
    for _ in range(8):
        refuse(world, ROLES)
        world.settle()
        world.serve()
        world.settle()
        world.reap()
        world.wait(2)
    assert world.scalings[uid].status.phase == "ScaleSucceeded"


@pytest.mark.parametrize("resource", [ROLES, CONFIG_MAPS])
def test_a_job_that_has_ended_goes_in_time_though_its_role_must_not_be_touched(
    resource: Resource,
) -> None:
    world = ModelWorld(make_job(2, ttl_after_finished=timedelta(seconds=100)))
    world.start()
    uid = world.add(make_scaling(ScalingKind.IN, "in", count=1, is_owned=False)).uid
    world.finish()
    world.step()  # which records the end
    role = world.role_names
    for _ in range(5):
        refuse(world, resource)
        world.settle()
        world.reap()
        world.wait(30)
    assert world.role_names == (role if resource == ROLES else frozenset())
    assert world.job_is_gone
    assert world.scalings[uid].status.phase == "ScaleFailed"
