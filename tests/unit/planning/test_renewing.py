"""Edited templates: what runs the old one is said, what cannot start is replaced, who asks is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from et_kube.resources import TRAINING_JOBS
from et_operator.model.conditions import find_condition
from et_operator.model.names import ANNOTATION_RENEWED
from et_operator.model.packing import Packed, digest
from et_operator.model.statuses import ScalingKind, WorkerState
from tests.planning_makers import ModelWorld, make_job, make_scaling, make_template

KIND = "TemplateChanged"
NEW = make_template(image="trainer:2")


def start(replicas: int = 3, **spec: object) -> ModelWorld:
    world = ModelWorld(make_job(replicas, **spec))
    world.start()
    world.wait(20)
    world.settle()
    return world


def edit_workers(world: ModelWorld, image: str = "trainer:2") -> None:
    spec = world.job.spec
    assert spec is not None
    world.edit(worker=replace(spec.worker, template=make_template(image=image)))
    world.settle()


def edit_launcher(world: ModelWorld, image: str = "trainer:2") -> None:
    world.edit(launcher_template=make_template(image=image, command=["horovodrun"]))
    world.settle()


def ask(world: ModelWorld, through: object) -> None:
    world.job = replace(world.job, annotations={ANNOTATION_RENEWED: str(through)})


def read(world: ModelWorld, kind: str = KIND) -> str:
    found = find_condition(world.status.conditions, kind)
    return found.message if found is not None and found.status == "True" else ""


def count_events(world: ModelWorld) -> int:
    return sum(e.reason == KIND and e.ref.resource == TRAINING_JOBS for e in world.events)


# ------------------------------------------------------------------ what runs
def test_a_template_is_known_whatever_the_order_of_its_keys() -> None:
    assert digest(Packed({"a": 1, "b": [2]})) == digest({"b": [2], "a": 1})
    assert digest({"a": 1}) != digest({"a": 2})


def test_pods_of_an_older_template_are_named_with_what_they_run_and_told_once() -> None:
    world = start(2)
    edit_workers(world)
    edit_launcher(world)
    assert read(world) == (
        "job-worker-0, job-worker-1 run an older template (image trainer) than the job has (image "
        "trainer:2); job-launcher runs an older template (image trainer) than the job has (image "
        "trainer:2). `et restart job` (or suspend and resume) starts all pods anew, "
        "`et restart job --workers` the workers one after the other"
    )
    assert world.status.trouble == KIND
    assert len(world.workers) == 2
    world.go_on()
    assert count_events(world) == 1


def test_an_image_that_is_the_same_is_not_named() -> None:
    world = start(2)
    template = make_template(env=[{"name": "A", "value": "2"}])
    spec = world.job.spec
    assert spec is not None
    world.edit(worker=replace(spec.worker, template=template))
    world.settle()
    assert read(world).startswith("job-worker-0, job-worker-1 run an older template than the job ")


def test_workers_that_come_later_run_the_new_one_and_are_not_named() -> None:
    world = start(2)
    edit_workers(world)
    world.edit(replicas=3)
    world.go_on()
    assert read(world).startswith("job-worker-0, job-worker-1 run an older template")


def test_it_is_over_when_the_old_template_is_back_or_all_run_the_new_one() -> None:
    world = start(2)
    edit_workers(world)
    edit_workers(world, "trainer")
    assert world.condition(KIND) == "False"
    edit_workers(world)
    world.edit(suspend=True)
    world.go_on()
    world.edit(suspend=False)
    world.go_on()
    assert world.condition(KIND) == "False"
    assert {pod.image for pod in world.pods.values() if pod.index is not None} == {"trainer:2"}


def test_pods_that_do_not_say_their_template_are_not_told_of() -> None:
    world = start(2)
    for name in world.workers:
        world.put(name, template="")
    edit_workers(world)
    assert world.condition(KIND) is None


# ------------------------------------------------------------------ what cannot start
@pytest.mark.parametrize(
    "trouble",
    [
        {"waiting_reason": "ImagePullBackOff", "waiting_message": "no such image"},
        {"waiting_reason": "CreateContainerConfigError", "waiting_message": "no such secret"},
        {"unschedulable_message": "0/3 nodes are available"},
    ],
)
def test_a_worker_that_cannot_start_is_replaced_once_the_template_is_edited(
    trouble: dict[str, str],
) -> None:
    world = ModelWorld(make_job(2))
    world.settle()
    world.run("job-worker-0", "job-launcher")
    world.put("job-worker-1", **trouble)
    world.wait(30)
    world.settle()
    assert world.workers == ["job-worker-0", "job-worker-1"]
    edit_workers(world)
    world.go_on(2)
    assert world.workers == ["job-worker-0", "job-worker-2"]
    assert world.pods["job-worker-2"].image == "trainer:2"
    assert read(world).startswith("job-worker-0 runs an older template")


def test_one_that_may_just_need_a_moment_is_left_alone() -> None:
    world = ModelWorld(make_job(2))
    world.settle()
    world.put("job-worker-1", waiting_reason="ContainerCreating")
    edit_workers(world)
    assert world.workers == ["job-worker-0", "job-worker-1"]


def test_a_launcher_that_cannot_start_is_replaced_too_and_no_failure() -> None:
    world = ModelWorld(make_job(2))
    world.settle()
    world.run("job-worker-0", "job-worker-1")
    world.put("job-launcher", waiting_reason="ErrImagePull", waiting_message="no such image")
    world.settle()
    edit_launcher(world)
    world.go_on()
    assert world.launcher is not None
    assert (world.launcher.name, world.launcher.image) == ("job-launcher-r1", "trainer:2")
    assert world.phase() == "Running"
    assert world.status.failures.user == 0


# ------------------------------------------------------------------ one after the other
def test_workers_are_replaced_one_after_the_other_while_the_others_train() -> None:
    world = start(3, minimum=2)
    edit_workers(world)
    ask(world, 2)
    least, names = 3, set(world.workers)
    for _ in range(12):
        world.go_on(1)
        world.wait(10)
        leaving = [r for r in world.status.workers if r.state is WorkerState.LEAVING]
        assert len(leaving) <= 1
        ready = sum(world.pods[name].is_container_running for name in world.workers)
        least = min(least, ready)
    assert least >= 2
    assert names.isdisjoint(world.workers)
    assert len(world.workers) == 3
    assert world.condition(KIND) == "False"
    assert world.condition("RestartingWorkers") == "False"
    assert world.status.trouble == ""


def test_the_next_one_waits_until_the_last_ones_successor_is_a_host() -> None:
    world = start(3, minimum=2)
    ask(world, 2)
    world.settle()
    world.serve()
    world.settle()
    world.reap()
    world.settle()
    world.wait(600)
    world.settle()
    assert world.workers == ["job-worker-0", "job-worker-1", "job-worker-3"]
    assert read(world, "RestartingWorkers").startswith(
        "to be replaced one after the other: job-worker-0, job-worker-1; the next one leaves once"
    )


@pytest.mark.long
def test_none_goes_below_the_least_number_and_it_is_said_what_to_do() -> None:
    world = start(2, minimum=2)
    ask(world, 1)
    world.go_on()
    assert world.workers == ["job-worker-0", "job-worker-1"]
    assert "scale it out by one first" in read(world, "RestartingWorkers")
    world.add(make_scaling(ScalingKind.OUT, "more", count=1))
    world.go_on(14)
    world.wait(60)
    world.go_on(3)
    assert world.workers == ["job-worker-2", "job-worker-3", "job-worker-4"]


def test_a_command_that_is_not_elastic_keeps_its_workers() -> None:
    world = start(3, is_elastic=False)
    ask(world, 2)
    world.go_on()
    assert len(world.workers) == 3
    assert "suspend and resume the job instead" in read(world, "RestartingWorkers")


def test_who_asks_says_of_which_job() -> None:
    world = start(3, minimum=1)
    ask(world, "2/job-uid")
    world.settle()
    assert read(world, "RestartingWorkers")


@pytest.mark.parametrize("text", ["99", "-1", "all", "", "9" * 400, "2/former-uid", "/job-uid"])
def test_what_no_worker_has_had_yet_or_is_no_number_means_nobody(text: str) -> None:
    world = start(3, minimum=1)
    ask(world, text)
    world.go_on(3)
    assert world.workers == ["job-worker-0", "job-worker-1", "job-worker-2"]
    assert world.condition("RestartingWorkers") is None
