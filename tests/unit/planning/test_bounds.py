"""What others write is bounded where it goes into our own objects."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from et_contract.documents import MAX_WORKERS
from et_kube.resources import PODS
from et_operator.model.statuses import ScalingKind, WorkerRecord, WorkerState
from et_operator.model.texts import MAX_MESSAGE, MAX_REASON, measure
from et_operator.planning.creating import create_pods
from et_operator.planning.drafts import SINGLE_READS, Draft
from et_operator.planning.forgetting import MANY_ENDS
from et_operator.planning.planner import plan
from tests.counting import find_peak
from tests.planning_makers import START, ModelWorld, make_job, make_scaling


def test_no_scaling_goes_beyond_the_largest_job() -> None:
    world = ModelWorld(make_job(2))
    world.start()
    world.add(make_scaling(ScalingKind.OUT, "more", count=MAX_WORKERS - 1))
    world.settle()
    assert world.scaling_reason("more") == "AboveMax"
    [condition] = world.scalings["more-uid"].status.conditions
    assert "1025 workers: a job has 1024 workers at most" in condition.message


@pytest.mark.long
def test_of_what_all_workers_have_a_pass_holds_the_labels_alone_for_each() -> None:
    texts = {f"label-{n}": "" for n in range(256)}
    job = make_job(MAX_WORKERS)
    assert job.spec is not None
    template = {"metadata": {"labels": texts, "annotations": texts}, **job.spec.worker.template}
    worker = replace(job.spec.worker, template=template)
    world = ModelWorld(replace(job, spec=replace(job.spec, worker=worker)))
    while not world.status.workers:
        world.step()
    draft = Draft(world.snapshot(), world.now)
    assert len(create_pods(draft)[1]) == MAX_WORKERS
    assert find_peak(lambda: create_pods(draft)) < MAX_WORKERS * 10_000


@pytest.mark.long
def test_a_scaling_up_to_the_largest_job_is_done() -> None:
    world = ModelWorld(make_job(2))
    world.start()
    world.add(make_scaling(ScalingKind.OUT, "more", count=MAX_WORKERS - 2))
    world.settle()
    assert len(world.workers) == MAX_WORKERS


def test_what_a_worker_said_at_its_end_is_kept_in_short() -> None:
    world = ModelWorld(make_job(2))
    world.start()
    world.end("job-worker-1", 1)
    end = world.pods["job-worker-1"].termination
    assert end is not None
    world.put("job-worker-1", termination=replace(end, message="\x01<" * 2000))
    world.step()
    [record] = [r for r in world.status.workers if r.name == "job-worker-1"]
    assert record.reason.startswith("exit code 1 Error ...")
    assert record.reason.endswith("\x01<\x01<")
    assert measure(record.reason) <= MAX_REASON


def test_only_the_newest_of_many_ends_are_remembered() -> None:
    world = ModelWorld(make_job(2))
    world.start()
    ends = tuple(
        WorkerRecord(
            f"job-worker-{n}", f"u{n}", WorkerState.GONE, since=START - timedelta(seconds=n)
        )
        for n in range(100, 100 + 2 * MANY_ENDS)
    )
    status = replace(world.status, workers=(*world.status.workers, *reversed(ends)))
    world.job = replace(world.job, status=status)
    world.settle()
    kept = {r.uid for r in world.status.workers if r.state is WorkerState.GONE}
    assert kept == {end.uid for end in ends[:MANY_ENDS]}


def test_the_message_of_a_condition_is_bounded() -> None:
    draft = Draft(ModelWorld().snapshot(), START)
    draft.set_condition("LauncherTrouble", "True", "Trouble", "&" * 100_000)
    [condition] = draft.status.conditions
    assert measure(condition.message) <= MAX_MESSAGE
    before = draft.status
    draft.set_condition("LauncherTrouble", "True", "Trouble", "&" * 100_000)
    assert draft.status is before


def test_a_number_in_a_label_changes_nothing() -> None:
    world = ModelWorld(make_job(2, minimum=1))
    world.start()
    world.delete("job-worker-1")
    world.settle()
    world.reap()
    world.settle()
    world.wait(2)
    world.settle()
    assert world.status.last_worker_index == 2


def test_after_the_last_number_they_begin_anew_past_those_in_use() -> None:
    world = ModelWorld(make_job(2, minimum=1))
    world.start()
    world.job = replace(world.job, status=replace(world.status, last_worker_index=999_998))
    world.edit(replicas=5)
    world.settle()
    assert sorted(world.workers) == [
        "job-worker-0",
        "job-worker-1",
        "job-worker-2",
        "job-worker-3",
        "job-worker-999999",
    ]


@pytest.mark.parametrize(("workers", "named"), [(SINGLE_READS - 1, SINGLE_READS - 1), (40, 0)])
def test_many_workers_that_are_missing_are_looked_for_at_once(workers: int, named: int) -> None:
    world = ModelWorld(make_job(workers, minimum=1))
    world.start()
    for name in [name for name in world.pods if "worker" in name]:
        del world.pods[name]
    premises = plan(world.snapshot(), world.now).premises
    pods = [ref.name for ref in premises if ref.resource == PODS]
    assert pods.count("") == 1  # before others are named in their places
    assert len(pods) == named + 1


@pytest.mark.long
def test_the_ends_of_pods_that_a_finalizer_keeps_are_remembered_no_longer_than_others() -> None:
    world = ModelWorld(make_job(16, minimum=1))
    world.start()
    for _ in range(MANY_ENDS // 16 + 4):
        for name, pod in list(world.pods.items()):
            if "worker" in name and not pod.is_deleting:
                world.end(name, 143, pod_reason="Evicted")
                world.delete(name)
        world.settle()
        world.wait(70)
        world.settle()
        world.run()
        world.settle()
        world.serve()
        world.settle()
    assert sum(pod.is_deleting for pod in world.pods.values()) > MANY_ENDS + 16
    gone = [record for record in world.status.workers if record.state is WorkerState.GONE]
    assert len(gone) <= MANY_ENDS + 16
    assert len(world.workers) == 16
