"""Jobs with a queue: held until et-scheduler has spoken, resized when it says another number."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from et_contract.admissions import AdmissionState, Elasticity, Placement
from et_contract.pods import Role
from et_kube.resources import PODS, Json
from et_operator.model.actions import Create, DryRun
from et_operator.model.admissions import Admission
from et_operator.model.conditions import find_condition, is_true
from et_operator.model.jobs import TrainingJob
from et_operator.model.phases import JobPhase, ScalingPhase
from et_operator.model.plans import Plan
from et_operator.model.pods import Node, Termination
from et_operator.model.specs import AttachMode, CleanPodPolicy, RestartPolicy
from et_operator.model.statuses import ScalingKind
from tests.planning_makers import START, ModelWorld, make_job, make_scaling, make_shipped

ADMITTED, WAITING = AdmissionState.ADMITTED, AdmissionState.WAITING


class Noting(ModelWorld):
    """It keeps the pods that it was asked to create."""

    def __init__(self, job: TrainingJob) -> None:
        super().__init__(job)
        self.bodies: dict[str, Json] = {}

    def apply(self, result: Plan) -> None:
        for action in result.actions:
            if isinstance(action, Create) and action.resource == PODS:
                self.bodies[action.manifest["metadata"]["name"]] = action.manifest
        super().apply(result)


def make_world(**changes: Any) -> ModelWorld:
    return ModelWorld(make_job(2, queue="vision", **changes))


def answer(world: ModelWorld, number: int, workers: int, **changes: Any) -> None:
    """What et-scheduler says now."""
    state = changes.pop("state", ADMITTED)
    admission = Admission(number, state, workers=workers, **changes)
    world.job = replace(world.job, admission=admission)


def start(world: ModelWorld, workers: int = 2) -> None:
    world.settle()
    answer(world, 1, workers)
    world.start()


def count_workers(world: ModelWorld) -> int:
    return sum(pod.role is Role.WORKER for pod in world.pods.values())


def test_a_job_with_a_queue_is_held_and_says_what_its_pods_ask_for():
    world = make_world()
    world.go_on()
    assert world.pods == {}
    assert world.status.phase is JobPhase.WAITING
    admitted = find_condition(world.status.conditions, "Admitted")
    assert admitted is not None
    assert (admitted.status, admitted.reason) == ("False", "Waiting")
    assert world.status.shapes is not None
    assert [shape["role"] for shape in world.status.shapes.pods] == ["launcher", "worker"]


def test_a_scheduler_that_does_not_answer_is_named_after_a_while():
    world = make_world()
    world.settle()
    assert world.requeue_after is not None
    world.wait(31)
    world.settle()
    admitted = find_condition(world.status.conditions, "Admitted")
    assert admitted is not None
    assert "does not answer" in admitted.message
    assert admitted.reason == "Waiting"


def test_an_admitted_job_starts_with_what_it_may_have_and_not_with_what_its_spec_says():
    world = make_world()
    start(world, workers=4)
    assert count_workers(world) == 4
    assert world.status.admitted_number == 1
    assert is_true(world.status.conditions, "Admitted")
    assert world.replicas == 2
    assert world.status.phase is JobPhase.RUNNING


@pytest.mark.long
def test_it_grows_and_shrinks_with_its_admission_and_worker_replicas_is_never_written():
    world = make_world()
    start(world)
    answer(world, 1, 4)
    world.go_on()
    assert count_workers(world) == 4
    world.wait(60)  # the new ones have the training's state by then
    answer(world, 1, 1, leaving=("job-worker-0", "job-worker-1", "job-worker-2"))
    world.go_on()
    assert [p.name for p in world.pods.values() if p.role is Role.WORKER] == ["job-worker-3"]
    assert world.replicas == 2
    assert not any("replicas" in line for line in world.log)


def test_who_is_evicted_waits_for_a_newer_admission():
    world = make_world()
    start(world)
    answer(world, 1, 0, state=WAITING, message="behind vision/big")
    world.go_on()
    assert world.pods == {}
    assert world.status.phase is JobPhase.WAITING
    admitted = find_condition(world.status.conditions, "Admitted")
    assert admitted is not None
    assert admitted.message == "behind vision/big"
    answer(world, 1, 2)
    world.go_on()
    assert world.pods == {}
    answer(world, 2, 3)
    world.go_on()
    assert count_workers(world) == 3
    assert world.status.epoch == 2


def test_a_suspended_job_has_spent_its_admission():
    world = make_world()
    start(world)
    world.edit(suspend=True)
    world.go_on()
    assert world.pods == {}
    assert world.status.phase is JobPhase.SUSPENDED
    world.edit(suspend=False)
    world.go_on()
    assert world.pods == {}
    assert world.status.phase is JobPhase.WAITING
    answer(world, 2, 2)
    world.go_on()
    assert count_workers(world) == 2


@pytest.mark.parametrize("is_told_first", [True, False])
def test_so_has_one_that_never_started_by_it(*, is_told_first: bool):
    world = make_world()
    world.settle()
    if is_told_first:
        answer(world, 1, 2)
    world.edit(suspend=True)
    world.settle()
    answer(world, 1, 2)
    world.settle()
    world.edit(suspend=False)
    world.go_on()
    assert (world.pods, world.status.phase) == ({}, JobPhase.WAITING)


@pytest.mark.long
def test_and_one_that_has_left_its_queue_where_it_comes_back_before_anybody_looks():
    world = make_world()
    world.settle()
    answer(world, 1, 4)
    world.edit(queue="")
    world.go_on(12)
    assert (count_workers(world), world.status.phase) == (2, JobPhase.RUNNING)
    world.wait(3600)
    world.edit(queue="vision", suspend=True)
    world.step()
    world.edit(suspend=False)
    world.go_on(12)
    assert (world.pods, world.status.phase) == ({}, JobPhase.WAITING)
    answer(world, 2, 3)
    world.go_on(12)
    assert count_workers(world) == 3


def test_what_cannot_be_read_changes_nothing_of_a_job_that_runs():
    world = make_world()
    start(world, workers=3)
    before = world.writes
    world.job = replace(world.job, admission=None)
    world.go_on()
    assert count_workers(world) == 3
    assert world.writes == before


def test_a_job_that_runs_without_a_queue_does_so_until_its_next_start():
    world = ModelWorld(make_job(2))
    world.start()
    world.edit(queue="vision")
    world.go_on()
    assert count_workers(world) == 2
    world.edit(suspend=True)
    world.go_on()
    world.edit(suspend=False)
    world.go_on()
    assert world.pods == {}
    assert world.status.phase is JobPhase.WAITING


def test_what_a_job_without_a_queue_leaves_is_its_own_whatever_is_asked_of_its_next_start():
    world = ModelWorld(make_job(2, clean_pod_policy=CleanPodPolicy.NONE))
    world.start()
    world.edit(queue="default")
    world.finish(0)
    world.go_on(6)
    assert world.phase() == "Succeeded"
    assert count_workers(world) == 2


def test_a_job_that_was_admitted_stays_so_when_its_queue_is_taken_out_of_its_spec():
    world = make_world()
    start(world, workers=3)
    world.edit(queue="")
    world.go_on()
    assert count_workers(world) == 3


@pytest.mark.long
def test_the_author_of_a_fixed_job_may_have_fewer_at_once_and_more_when_it_is_admitted():
    world = make_world()
    world.settle()
    answer(world, 1, 2, elasticity=Elasticity.FIXED)
    world.start()
    world.edit(replicas=1)
    world.go_on()
    assert count_workers(world) == 1
    world.edit(replicas=3)
    world.go_on()
    assert count_workers(world) == 2
    answer(world, 1, 3, elasticity=Elasticity.FIXED)
    world.go_on()
    assert count_workers(world) == 3


@pytest.mark.parametrize("kind", [ScalingKind.IN, ScalingKind.OUT])
def test_a_scaling_of_a_job_in_a_queue_is_told_who_decides(kind: ScalingKind):
    world = make_world()
    start(world)
    scaling = world.add(make_scaling(kind, "wish", count=1))
    world.go_on()
    status = world.scalings[scaling.uid].status
    assert status.phase is ScalingPhase.FAILED
    assert status.conditions[-1].reason == "InQueue"
    assert count_workers(world) == 2


def start_fixed() -> ModelWorld:
    """A job of two whose number is its author's, with a ScaleOut by two in its status."""
    world = make_world()
    world.settle()
    answer(world, 1, 2, elasticity=Elasticity.FIXED)
    world.start()
    world.add(make_scaling(ScalingKind.OUT, "more", count=2))
    world.go_on()
    return world


def read_end(world: ModelWorld, name: str = "more") -> tuple[str, str]:
    """How a scaling ended: its phase, and the reason."""
    status = world.scalings[f"{name}-uid"].status
    assert status.phase is not None
    return status.phase.value, status.conditions[-1].reason


def test_the_author_of_a_fixed_job_scales_it_in_at_once():
    world = make_world()
    world.settle()
    answer(world, 1, 2, elasticity=Elasticity.FIXED)
    world.start()
    world.add(make_scaling(ScalingKind.IN, "less", count=1))
    world.go_on()
    assert read_end(world, "less") == ("ScaleSucceeded", "ScaleSucceeded")
    assert (count_workers(world), world.replicas) == (1, 1)


@pytest.mark.long
def test_a_scale_out_of_a_fixed_job_brings_its_number_at_once_and_workers_once_admitted():
    world = start_fixed()
    assert (count_workers(world), world.replicas) == (2, 4)
    assert world.status.decided_replicas == 2
    assert read_end(world) == ("Scaling", "Started")
    told = find_condition(world.status.conditions, "Scaling")
    assert told is not None
    assert told.message == "2 -> 4 workers, once et-scheduler lets the job have as many"
    world.wait(3600)
    answer(world, 1, 4, elasticity=Elasticity.FIXED)
    world.go_on()
    assert (count_workers(world), world.replicas) == (4, 4)
    assert read_end(world) == ("ScaleSucceeded", "ScaleSucceeded")


@pytest.mark.long
def test_its_time_begins_when_its_workers_may_come():
    world = make_world()
    world.settle()
    answer(world, 1, 2, elasticity=Elasticity.FIXED)
    world.start()
    world.add(make_scaling(ScalingKind.OUT, "more", count=1, timeout=timedelta(seconds=60)))
    world.go_on()
    world.wait(3600)
    world.go_on()
    assert read_end(world) == ("Scaling", "Started")
    answer(world, 1, 3, elasticity=Elasticity.FIXED)
    world.settle()
    assert world.status.scaling is not None
    assert world.status.scaling.started == world.now
    world.wait(61)
    world.settle()
    assert read_end(world) == ("ScaleFailed", "TimedOut")
    assert world.replicas == 2


@pytest.mark.long
def test_a_scale_in_does_not_wait_for_what_waits_in_line():
    world = start_fixed()
    world.add(make_scaling(ScalingKind.IN, "less", count=1))
    world.go_on(12)
    assert read_end(world) == ("ScaleFailed", "Preempted")
    assert read_end(world, "less") == ("ScaleSucceeded", "ScaleSucceeded")
    assert (count_workers(world), world.replicas) == (1, 1)


def test_a_scale_out_that_is_taken_away_in_line_leaves_the_number_as_it_was():
    world = start_fixed()
    del world.scalings["more-uid"]
    world.go_on()
    assert (count_workers(world), world.replicas) == (2, 2)
    assert world.status.scaling is None


@pytest.mark.long
def test_another_number_in_the_spec_takes_the_place_of_what_waits_in_line():
    world = start_fixed()
    world.edit(replicas=3)
    world.go_on()
    assert read_end(world) == ("ScaleFailed", "Superseded")
    assert (count_workers(world), world.replicas) == (2, 3)
    assert world.status.last_worker_index == 1, "no worker was ever named for it"
    answer(world, 1, 3, elasticity=Elasticity.FIXED)
    world.go_on()
    assert count_workers(world) == 3


@pytest.mark.long
def test_workers_that_et_scheduler_takes_back_are_given_up_with_their_scale_out():
    world = start_fixed()
    answer(world, 1, 4, elasticity=Elasticity.FIXED)
    world.settle()
    answer(world, 1, 2, elasticity=Elasticity.FIXED)
    world.go_on(12)
    assert read_end(world) == ("ScaleFailed", "NotAdmitted")
    assert (count_workers(world), world.replicas) == (2, 2)
    assert world.status.decided_replicas == 2


def start_raised(number: int = 4, **changes: Any) -> ModelWorld:
    """A job of two whose author wants more, which waits in line."""
    world = make_world(**changes)
    world.settle()
    answer(world, 1, 2, elasticity=Elasticity.FIXED)
    world.start()
    world.edit(replicas=number)
    world.go_on()
    assert (count_workers(world), world.replicas) == (2, number)
    return world


@pytest.mark.long
def test_a_scale_out_counts_from_a_raised_number_and_waits_until_that_is_met():
    world = start_raised()
    world.add(make_scaling(ScalingKind.OUT, "more", count=1))
    world.go_on()
    assert (read_end(world), world.replicas) == (("Created", "Accepted"), 4)
    assert world.scalings["more-uid"].status.conditions[-1].message == (
        "waits for the 4 workers that worker.replicas asks for, of which et-scheduler lets the job "
        "have 2: lower worker.replicas, or delete this ScaleOut, to end the wait"
    )
    answer(world, 1, 4, elasticity=Elasticity.FIXED)
    world.go_on()
    assert (count_workers(world), world.replicas) == (4, 5)
    assert read_end(world) == ("Scaling", "Started")
    answer(world, 1, 5, elasticity=Elasticity.FIXED)
    world.go_on()
    assert read_end(world) == ("ScaleSucceeded", "ScaleSucceeded")
    assert count_workers(world) == 5


@pytest.mark.long
@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_scale_in_counts_from_a_raised_number_and_takes_what_waits_in_line_first(count: int):
    world = start_raised()
    world.add(make_scaling(ScalingKind.OUT, "more", count=1))
    world.add(make_scaling(ScalingKind.IN, "less", count=count, created=START + timedelta(1)))
    world.go_on(12)
    assert read_end(world, "less") == ("ScaleSucceeded", "ScaleSucceeded")
    assert len(world.scalings["less-uid"].status.to_delete_pods) == max(count - 2, 0)
    assert count_workers(world) == world.status.decided_replicas == 2
    assert world.replicas == (3 if count == 1 else 5 - count)
    answer(world, 1, 5, elasticity=Elasticity.FIXED)
    world.go_on(12)
    assert (count_workers(world), world.replicas) == (5 - count, 5 - count)
    assert read_end(world) == ("ScaleSucceeded", "ScaleSucceeded")


def test_who_is_named_by_a_scale_in_goes_and_the_rest_of_a_raised_number_waits_on():
    world = start_raised()
    world.add(make_scaling(ScalingKind.IN, "less", pod_names=("job-worker-0",)))
    world.go_on(12)
    assert read_end(world, "less") == ("ScaleSucceeded", "ScaleSucceeded")
    assert "job-worker-0" not in world.pods
    assert (count_workers(world), world.replicas, world.status.decided_replicas) == (2, 3, 2)


def test_a_scale_in_that_is_taken_away_gives_a_raised_number_back():
    world = start_raised()
    world.add(make_scaling(ScalingKind.IN, "less", count=3))
    for _ in range(3):
        world.step()
    assert world.replicas == 1
    del world.scalings["less-uid"]
    world.go_on(12)
    assert world.replicas == 4 - (world.status.last_worker_index - 1)
    assert (count_workers(world), world.status.decided_replicas) == (2, 2)


def test_a_scale_in_keeps_to_the_bounds_of_the_author_where_he_has_less_than_these():
    world = start_raised(minimum=3)
    world.add(make_scaling(ScalingKind.IN, "less", count=2))
    world.go_on()
    assert (read_end(world, "less"), world.replicas) == (("ScaleFailed", "BelowMin"), 4)


def test_workers_that_et_scheduler_takes_back_end_a_scale_out_that_waits():
    world = start_fixed()
    answer(world, 1, 1, elasticity=Elasticity.FIXED)
    world.go_on(12)
    assert read_end(world) == ("ScaleFailed", "NotAdmitted")
    assert (count_workers(world), world.replicas) == (1, 2)


@pytest.mark.long
def test_who_is_evicted_while_a_scale_out_waits_comes_back_as_he_was():
    world = start_fixed()
    answer(world, 1, 0, state=WAITING)
    world.go_on(12)
    assert world.pods == {}
    assert (read_end(world), world.replicas) == (("ScaleFailed", "Suspended"), 2)
    answer(world, 2, 2, elasticity=Elasticity.FIXED)
    world.go_on(12)
    assert count_workers(world) == 2


def test_a_record_that_lost_its_number_says_what_is_there_while_more_waits_in_line():
    world = start_fixed()
    world.job = replace(world.job, status=replace(world.status, decided_replicas=None))
    world.go_on()
    assert (count_workers(world), world.status.decided_replicas) == (2, 2)


def test_pods_are_bound_to_the_nodes_that_were_chosen_and_replacements_kept_off_reserved_ones():
    world = Noting(make_job(2, queue="vision"))
    bodies = world.bodies
    world.settle()
    placement = Placement(launcher="n1", only=("n1", "n2"), avoid=("n9",))
    answer(world, 1, 2, placement=placement)
    world.start()
    assert read_nodes(bodies["job-launcher"]) == [("In", ["n1"]), ("NotIn", ["n9"])]
    assert read_nodes(bodies["job-worker-0"]) == [("In", ["n1", "n2"]), ("NotIn", ["n9"])]
    world.delete("job-worker-0")
    world.go_on()
    assert read_nodes(bodies["job-worker-2"]) == [("NotIn", ["n9"])]


def read_nodes(pod: Json) -> list[tuple[str, list[str]]]:
    affinity = pod["spec"]["affinity"]["nodeAffinity"]
    [term] = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    return [(one["operator"], one["values"]) for one in term["matchExpressions"]]


def test_requests_that_cannot_be_read_are_told_and_hold_up_nothing_else():
    job = make_job(2, queue="vision")
    assert job.spec is not None
    container = {"name": "main", "image": "i", "resources": {"requests": {"cpu": "many"}}}
    worker = replace(job.spec.worker, template={"spec": {"containers": [container]}})
    world = ModelWorld(replace(job, spec=replace(job.spec, worker=worker)))
    world.go_on()
    admitted = find_condition(world.status.conditions, "Admitted")
    assert admitted is not None
    assert "cannot be read" in admitted.message
    assert [event.reason for event in world.events].count("ShapeUnknown") == 1


@pytest.mark.parametrize("was_started", [False, True])
def test_a_job_whose_queue_is_taken_away_while_it_waits_starts_and_stays(was_started: bool):
    world = make_world()
    world.settle()
    if was_started:
        start(world)
        world.edit(suspend=True)
        world.go_on()
        world.edit(suspend=False)
        world.go_on()
        assert world.status.phase is JobPhase.WAITING
    epoch = world.status.epoch
    world.edit(queue="")
    world.go_on(12)
    assert find_admitted(world)[:2] == ("False", "NoQueue")
    assert world.status.phase is JobPhase.RUNNING
    assert world.status.epoch == epoch + 1
    assert count_workers(world) == 2


@pytest.mark.parametrize("policy", list(CleanPodPolicy))
def test_what_a_job_was_admitted_to_it_gives_back_when_it_has_ended(policy: CleanPodPolicy):
    world = make_world(clean_pod_policy=policy)
    start(world)
    world.finish(0)
    world.go_on(6)
    assert world.phase() == "Succeeded"
    assert count_workers(world) == 0


@pytest.mark.parametrize("code", [0, 3])
@pytest.mark.parametrize("is_queue_kept", [True, False])
def test_so_it_does_where_it_ends_as_it_is_evicted(code: int, *, is_queue_kept: bool) -> None:
    world = make_world(clean_pod_policy=CleanPodPolicy.NONE)
    start(world)
    world.finish(code)
    answer(world, 1, 0, state=WAITING)
    if not is_queue_kept:
        world.edit(queue="")
    world.go_on(6)
    assert world.phase() == ("Failed" if code else "Succeeded")
    assert count_workers(world) == 0


def test_who_waits_without_shapes_since_a_former_operator_gets_them_and_is_tried() -> None:
    world = make_world()
    world.objection = "no such class"
    world.go_on()
    message = "what a pod of its templates requests cannot be read, correct its resources"
    told = find_condition(world.status.conditions, "Admitted")
    assert told is not None
    former = replace(told, reason="Waiting", message=message)
    conditions = [c for c in world.status.conditions if c.type != "Admitted"]
    world.job = replace(world.job, status=replace(world.status, conditions=(*conditions, former)))
    world.objection = ""
    world.refusals.clear()
    world.go_on()
    assert list_priorities(world) == [7, 7]


def test_an_admission_is_not_spent_while_the_last_launcher_may_still_tell_its_end():
    world = make_world()
    start(world)
    answer(world, 1, 0, state=WAITING)
    world.settle()
    ended = Termination(143, "Error", "the tail")
    world.put("job-launcher", is_container_running=False, termination=ended)
    world.settle()
    answer(world, 2, 2)
    world.settle()
    assert world.status.admitted_number == 1
    world.wait(61)
    world.go_on(12)
    assert world.status.admitted_number == 2
    assert count_workers(world) == 2


def test_a_launcher_that_is_lost_comes_again_wherever_there_is_room():
    world = Noting(make_job(2, queue="vision"))
    world.settle()
    answer(world, 1, 2, placement=Placement(launcher="n1", only=("n1",), avoid=("n9",)))
    world.start()
    world.delete("job-launcher")
    world.reap("job-launcher")
    world.go_on(12)
    [again] = [body for name, body in world.bodies.items() if name.startswith("job-launcher-r")]
    assert read_nodes(again) == [("NotIn", ["n9"])]


def test_a_template_that_cannot_be_read_takes_no_running_job_out_of_the_books():
    world = make_world()
    start(world)
    shapes = world.status.shapes
    assert shapes is not None
    assert world.job.spec is not None
    container = {"name": "main", "image": "i", "resources": {"requests": {"cpu": "-1"}}}
    template = {"spec": {"containers": [container]}}
    world.edit(worker=replace(world.job.spec.worker, template=template))
    world.go_on()
    assert world.status.shapes == shapes
    assert "ShapeUnknown" in [event.reason for event in world.events]


def find_admitted(world: ModelWorld) -> tuple[str, str, str]:
    told = find_condition(world.status.conditions, "Admitted")
    assert told is not None
    return told.status, told.reason, told.message


def list_priorities(world: ModelWorld) -> list[Any]:
    shapes = world.status.shapes
    return [pod.get("priority") for pod in shapes.pods] if shapes is not None else []


def list_classes(world: ModelWorld) -> list[Any]:
    shapes = world.status.shapes
    return [pod.get("priorityClassName") for pod in shapes.pods] if shapes is not None else []


def count_tries(world: ModelWorld) -> int:
    return sum(line.startswith("try ") for line in world.log)


def test_who_waits_asks_for_what_the_server_would_create() -> None:
    world = make_world()
    world.go_on()
    assert list_priorities(world) == [7, 7]
    assert list_classes(world) == ["seven", "seven"]
    assert find_admitted(world)[:2] == ("False", "Waiting")
    world.wait(3600)
    world.go_on()
    assert count_tries(world) == 2
    start(world)
    assert count_workers(world) == 2


def test_who_would_have_no_pods_is_in_no_line_until_he_would() -> None:
    world = make_world()
    world.objection = "exceeded quota: pods"
    world.go_on()
    status, reason, message = find_admitted(world)
    assert (status, reason) == ("False", "PodsRefused")
    assert "exceeded quota: pods" in message
    assert world.status.shapes is None
    world.settle()
    writes, tries = world.writes, count_tries(world)
    world.wait(4)
    world.settle()
    assert (world.writes, count_tries(world)) == (writes, tries)
    world.objection = ""
    world.wait(10)
    world.go_on()
    world.refusals.clear()  # as the server's answer does
    world.go_on()
    assert find_admitted(world)[:2] == ("False", "Waiting")
    assert list_priorities(world) == [7, 7]


def test_who_comes_back_into_the_line_waits_there_too_where_his_pods_would_not_be_made() -> None:
    world = make_world()
    world.go_on()
    start(world)
    world.objection = "no such class"
    answer(world, 1, 0, state=WAITING)
    world.go_on()
    assert find_admitted(world)[1] == "PodsRefused"
    assert world.status.phase is JobPhase.WAITING


def test_an_edit_is_tried_at_once_and_the_refusal_of_another_spec_says_nothing() -> None:
    world = make_world()
    world.objection = "no such class"
    world.go_on()
    world.objection = ""
    world.edit(replicas=1)
    world.go_on()
    assert find_admitted(world)[1] == "Waiting"


def test_an_edit_is_tried_once_though_the_clock_is_behind_that_of_the_job_by_now() -> None:
    """It began to wait by a clock that was right, and what is answered now is from before that."""
    world = make_world()
    world.settle()
    world.set_back(timedelta(minutes=10))
    world.tick = timedelta(milliseconds=50)
    world.edit(slots_per_worker=2)
    world.log.clear()
    world.settle()
    assert sorted(world.log) == ["status", "status", "try launcher", "try worker"]
    assert world.status.shapes is not None
    assert world.status.shapes.is_proven


def test_who_comes_back_into_the_line_is_tried_again_once_his_pods_are_gone() -> None:
    world = make_world()
    world.go_on()
    start(world)
    tries = count_tries(world)
    answer(world, 1, 0, state=WAITING)
    world.step()
    assert find_admitted(world)[1] == "Waiting"
    assert list_priorities(world) == list_classes(world) == [None, None]
    assert world.pods
    world.step()
    assert count_tries(world) == tries
    world.go_on()
    assert count_tries(world) == tries + 2
    assert list_priorities(world) == [7, 7]


@pytest.mark.parametrize("is_unreachable", [True, False])
def test_nor_is_a_worker_waited_for_that_stays_once_its_time_is_over(
    *, is_unreachable: bool
) -> None:
    """Et-scheduler starts its job beside it, and till it is tried nobody would give for it."""
    world = make_world()
    start(world)
    world.put("job-worker-0", node="n2")
    world.nodes["n2"] = Node("n2", is_unreachable=is_unreachable)
    answer(world, 1, 0, state=WAITING)
    for _ in range(3):
        world.settle()
        world.reap("job-launcher", "job-worker-1")
    assert list(world.pods) == ["job-worker-0"]
    tries = count_tries(world)
    world.wait(89)
    world.settle()
    assert count_tries(world) == tries, "it counts in its namespace's quota until its grace is over"
    assert world.requeue_after == timedelta(seconds=1)
    world.wait(1)
    world.settle()
    assert count_tries(world) == tries + 2
    assert list_priorities(world) == [7, 7]


def test_but_a_launcher_is_for_two_commands_could_save_at_once() -> None:
    world = make_world()
    start(world)
    answer(world, 1, 0, state=WAITING)
    world.settle()
    tries = count_tries(world)
    for _ in range(2):
        world.wait(3600)
        world.settle()
        world.reap("job-worker-0", "job-worker-1")
    assert list(world.pods) == ["job-launcher"]
    world.settle()
    assert count_tries(world) == tries


def test_what_is_tried_has_no_name_and_no_account_that_comes_with_the_start() -> None:
    world = make_world()
    tried: list[Json] = []
    for _ in range(4):
        tried += [a.manifest for a in world.step().actions if isinstance(a, DryRun)]
    launcher, worker = tried
    assert launcher["metadata"]["generateName"] == "job-launcher-"
    assert worker["metadata"]["generateName"] == "job-worker-0-"
    assert not any("name" in pod["metadata"] for pod in tried)
    assert not any("serviceAccountName" in pod["spec"] for pod in tried)


def test_a_launcher_that_stays_for_its_log_keeps_nobody_from_being_tried() -> None:
    world = make_world(restart_policy=RestartPolicy.ON_FAILURE)
    start(world)
    world.finish(1)
    world.go_on()
    answer(world, 1, 0, state=WAITING)
    world.go_on()
    assert [(pod.name, pod.phase) for pod in world.pods.values()] == [("job-launcher", "Failed")]
    assert list_priorities(world) == [7, 7]


def test_a_strangers_pod_keeps_nobody_from_being_tried_and_no_job_on_its_old_runtime() -> None:
    world = make_world()
    start(world)
    planted = world.pods["job-launcher"]
    for name in ("zz-launcher-r900", "job-launcher-r900"):
        world.pods[name] = replace(planted, name=name, uid=name, epoch=901)
    answer(world, 1, 0, state=WAITING)
    world.go_on()
    assert {pod.name for pod in world.pods.values()} == {"zz-launcher-r900", "job-launcher-r900"}
    assert list_priorities(world) == [7, 7]
    world.shipped = make_shipped("d2")
    answer(world, 2, 2)
    world.go_on()
    assert world.status.runtime is not None
    assert world.status.runtime.digest == "d2"


def test_what_is_tried_has_a_name_for_what_comes_with_the_start() -> None:
    world = make_world(attach_mode=AttachMode.SSH)
    tried: list[Json] = []
    for _ in range(4):
        tried += [a.manifest for a in world.step().actions if isinstance(a, DryRun)]
    keys = [v["secret"] for pod in tried for v in pod["spec"]["volumes"] if "secret" in v]
    assert len(keys) == len(tried) == 2
    assert all(secret["secretName"].startswith("job-ssh-") for secret in keys)
    assert world.status.keys_secret == ""


def test_who_meets_a_webhook_that_may_not_be_asked_is_unproven_and_no_less_in_line() -> None:
    world = make_world()
    world.objection = 'admission webhook "pods.old" does not support dry run'
    world.go_on()
    status, reason, message = find_admitted(world)
    assert (status, reason) == ("False", "Waiting")
    assert world.objection in message
    assert list_priorities(world) == [None, None]
    answer(world, 0, 0, state=WAITING, message="behind vision/big")
    world.settle()
    assert find_admitted(world)[2].startswith("behind vision/big; ")
    world.objection = ""
    world.wait(10)
    world.step()
    world.refusals.clear()  # as the server's answer does
    world.settle()
    assert find_admitted(world)[2] == "behind vision/big"
    assert list_priorities(world) == [7, 7]


def test_who_was_refused_is_in_line_again_where_the_server_may_not_be_asked_any_more() -> None:
    world = make_world()
    world.objection = "violates PodSecurity"
    world.go_on()
    assert find_admitted(world)[1] == "PodsRefused"
    world.objection = 'admission webhook "pods.old" does not support dry run'
    world.wait(10)
    passes = 0
    while find_admitted(world)[1] != "Waiting":
        passes += 1
        assert passes < 9
        world.step()
    assert list_priorities(world) == [None, None]  # in the very pass: nobody waits without shapes


@pytest.mark.parametrize(
    ("queue", "edit"), [("prod", "spec.queue prod"), ("", "that spec.queue is left out")]
)
def test_who_edits_the_queue_of_a_job_that_runs_is_told_when_that_counts(
    queue: str, edit: str
) -> None:
    world = make_world()
    world.settle()
    answer(world, 1, 2, queue="vision")
    world.start()
    admitted = find_condition(world.status.conditions, "Admitted")
    assert admitted is not None
    assert admitted.message == "the job may have 2 workers"
    world.edit(queue=queue)
    world.go_on()
    admitted = find_condition(world.status.conditions, "Admitted")
    assert admitted is not None
    assert admitted.message.endswith(
        f"; it stays in queue vision: {edit} counts from its next admission"
    )
