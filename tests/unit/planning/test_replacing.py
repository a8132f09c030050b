"""Lost workers are replaced, each place for itself, and jobs that can live are not given up."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from et_contract.pods import Role
from et_operator.codec.pods import decode_pod
from et_operator.model.names import ANNOTATION_RETRIES, build_labels
from et_operator.model.pods import MAX_RETRIES, Node, Termination
from tests.planning_makers import ModelWorld, make_job

LONG = 100
"""Seconds after which a worker has lived for long."""


def start(replicas: int = 4, **spec: object) -> ModelWorld:
    world = ModelWorld(make_job(replicas, **spec))
    world.start()
    world.wait(LONG)
    world.settle()
    return world


def list_live(world: ModelWorld) -> list[str]:
    return [name for name in world.workers if not world.pods[name].is_deleting]


def take(world: ModelWorld, name: str) -> None:
    """A kubelet evicts it, and its pod is cleaned away."""
    world.end(name, 137, pod_reason="Evicted")
    world.settle()
    del world.pods[name]
    world.settle()


def live(world: ModelWorld, seconds: int) -> None:
    """Everything works at once."""
    for _ in range(seconds):
        world.wait(1)
        world.run()
        world.settle()
        world.serve()
        world.settle()


def find_wait(world: ModelWorld) -> float:
    """Seconds until the names that were decided become pods."""
    waits = 0.0
    while any(not record.uid and record.state == "Joining" for record in world.status.workers):
        assert world.requeue_after is not None
        waits += world.requeue_after.total_seconds()
        world.wait(world.requeue_after.total_seconds())
        world.settle()
    return waits


# ------------------------------------------------------------------ waits
def test_one_place_waits_longer_and_longer_and_no_other_place_for_it() -> None:
    world = start()
    waits = []
    world.end("job-worker-1", 1)
    for _ in range(9):
        world.settle()
        waits.append(find_wait(world))
        world.end(max(world.workers, key=lambda name: world.pods[name].index or 0), 1)
    assert waits == [0, 1, 2, 4, 8, 16, 32, 60, 60]
    world.settle()
    world.wait(30)
    world.end("job-worker-2", 1)
    world.settle()
    assert len(world.workers) == 3  # 0, 3 and the one in the place of 2
    world.wait(30)
    world.settle()
    assert len(world.workers) == 4


def test_a_wait_is_the_least_time_between_two_of_a_place() -> None:
    world = start()
    world.end("job-worker-1", 1)
    world.settle()
    for life in (0, 1, 3):
        world.wait(life)
        world.end(world.workers[-1], 1)
        world.settle()
        find_wait(world)
    world.wait(6)
    world.end(world.workers[-1], 1)
    world.settle()
    assert find_wait(world) == 2  # 8 s after the one before was created


def test_a_number_that_anybody_wrote_on_a_worker_leaves_a_status_that_can_be_read() -> None:
    world = start()  # which reads again each status that it is to store
    metadata = {"labels": build_labels("job", Role.WORKER)}
    pod = decode_pod({"metadata": metadata | {"annotations": {ANNOTATION_RETRIES: "2146435073"}}})
    assert pod is not None
    world.put("job-worker-1", created=world.now, retries=pod.retries)
    world.end("job-worker-1", 1)
    world.settle()
    [record] = [record for record in world.status.workers if not record.uid]
    assert record.retries == MAX_RETRIES


@pytest.mark.long
def test_who_lived_for_a_minute_is_replaced_at_once() -> None:
    world = start()
    for _ in range(4):
        name = world.workers[-1]
        began = world.now
        live(world, 61)
        ended = Termination(1, "Error", "", world.now)
        world.put(name, started=began)
        world.end(name, 1)
        world.put(name, termination=ended)
        world.settle()
        assert len(world.workers) == 4
        assert world.pods[world.workers[-1]].retries == 0


def test_a_container_that_could_not_be_started_has_not_lived_since_1970() -> None:
    world = start()
    world.put("job-worker-1", created=world.now, started=datetime.fromtimestamp(0, UTC))
    world.end("job-worker-1", 128)
    world.put("job-worker-1", termination=Termination(128, "StartError", "", world.now))
    world.settle()
    find_wait(world)
    assert world.pods["job-worker-4"].retries == 1


@pytest.mark.long
@pytest.mark.parametrize("size", [2, 12])
@pytest.mark.parametrize("rhythm", [10, 50])
@pytest.mark.parametrize("first", ["oldest", "newest"])
def test_evictions_in_a_rhythm_take_one_worker_at_a_time(
    size: int, rhythm: int, first: str
) -> None:
    world = start(size, minimum=1)
    for _ in range(size + 8):
        names = list_live(world)
        take(world, names[0] if first == "oldest" else names[-1])
        live(world, 9)
        world.wait(rhythm - 9)
        assert len(list_live(world)) >= size - 1
        assert world.condition("Failed") is None
    assert len(world.workers) == size


@pytest.mark.long
def test_deletions_in_a_rhythm_push_no_wait_on() -> None:
    world = start(16, minimum=8)
    for _ in range(30):
        world.delete(list_live(world)[0])
        world.settle()
        assert len(list_live(world)) == 16
        world.serve()
        world.settle()
        world.reap()
        live(world, 5)


@pytest.mark.long
def test_what_the_platform_takes_at_once_again_waits_eight_seconds_at_the_most() -> None:
    world = start()
    for _ in range(14):
        take(world, world.workers[-1])
        assert find_wait(world) <= 8
    assert world.condition("WorkersFailing") is None


# ------------------------------------------------------------------ giving up
def fail_place(world: ModelWorld, times: int, **end: object) -> None:
    for _ in range(times):
        world.end(world.workers[-1], 1, **end)
        world.settle()
        if world.status.completion_time is not None:
            return
        find_wait(world)
        world.put(world.workers[-1], node="n2")


def test_a_job_none_of_whose_workers_lives_is_given_up_after_ten_in_a_row() -> None:
    world = ModelWorld(make_job(2))
    world.settle()
    rounds = 0
    while world.status.completion_time is None and rounds < 12:
        rounds += 1
        for name in world.workers:
            world.end(name, 1, node="n1")
        world.settle()
        find_wait(world)
    assert world.reason("Failed") == "WorkersFailing"
    assert "exit code 1" in world.events[-1].message
    assert rounds == 10
    assert world.now - world.job.created < timedelta(minutes=5)
    assert world.status.last_worker_index < 20


@pytest.mark.long
@pytest.mark.parametrize("workers", [1, 24])
def test_an_image_that_ends_each_worker_is_one_loss_a_time_however_many_there_are(
    workers: int,
) -> None:
    world = ModelWorld(make_job(workers))
    world.settle()
    for number in range(10):
        assert world.condition("Failed") is None, number
        for name in world.workers:
            world.end(name, 1, node=f"n{int(name[-1]) % 4}")
        world.settle()
        find_wait(world)
    assert world.reason("Failed") == "WorkersFailing"
    assert len([event for event in world.events if event.reason == "WorkerLost"]) <= 10


@pytest.mark.long
def test_a_zone_that_is_lost_node_by_node_costs_its_own_places_one_wait_each() -> None:
    world = start(24, minimum=8)
    zone, other = [f"a{number}" for number in range(4)], [f"b{number}" for number in range(4)]
    for number, name in enumerate(world.workers):
        world.put(name, node=(zone + other)[number % 8])
    stay = {name for name in world.workers if world.pods[name].node in other}
    for node in zone:
        world.nodes[node] = Node(node, is_unreachable=True)
        for name in list_live(world):
            if world.pods[name].node == node:
                world.delete(name)
        world.settle()
        assert find_wait(world) == 0, node
        assert len(list_live(world)) == 24
        live(world, 5)
    assert stay <= set(list_live(world))
    assert not any(world.pods[name].retries for name in list_live(world))
    assert (world.condition("Failed"), world.condition("WorkersFailing")) == (None, None)
    assert len([event for event in world.events if event.reason == "WorkerLost"]) == 4


@pytest.mark.long
def test_a_job_of_which_one_worker_lives_is_not() -> None:
    world = start(minimum=1)
    for name in ("job-worker-0", "job-worker-1"):
        world.delete(name)
    world.go_on()
    fail_place(world, 14)
    assert world.condition("Failed") is None
    assert world.condition("WorkersFailing") == "True"
    told = [event.message for event in world.events if event.reason == "WorkersFailing"]
    assert len(told) == 1
    assert told[0].startswith(
        "10 or more workers in a row ended before they could be used; the last"
    )
    world.run()
    world.serve()
    world.go_on()
    assert world.condition("WorkersFailing") == "False"


@pytest.mark.long
def test_twelve_ends_on_one_node_do_not_fail_a_large_job_that_starts() -> None:
    world = ModelWorld(make_job(64, minimum=16))
    world.settle()
    world.wait(2)
    workers = list(world.workers)
    world.run("job-launcher", *workers[:40])
    world.settle()
    world.wait(6)
    world.settle()
    for _ in range(12):
        for name in world.workers[52:]:
            world.end(name, 128, node="n2", created=world.now)
        world.settle()
        find_wait(world)
    assert world.condition("Failed") is None
    assert len(world.workers) == 64


@pytest.mark.long
def test_workers_that_are_still_on_their_way_may_live() -> None:
    world = ModelWorld(make_job(4))
    world.settle()
    for name in world.workers[:3]:
        world.put(name, node="n1")  # and pulls its image
    fail_place(world, 12)
    assert world.condition("Failed") is None


@pytest.mark.long
def test_what_a_node_refuses_or_the_platform_takes_is_not_counted_against_the_job() -> None:
    world = ModelWorld(make_job(1))
    world.settle()
    fail_place(world, 30, pod_reason="OutOfnvidia.com/gpu")
    assert world.condition("Failed") is None
    assert world.condition("WorkersFailing") == "True"
    assert find_wait(world) == 0
    world.end(world.workers[-1], 1, pod_reason="TopologyAffinityError")
    world.settle()
    assert find_wait(world) == 60


# ------------------------------------------------------------------ what is told
def test_losses_of_one_cause_are_one_event() -> None:
    world = start(30, minimum=1)
    for name in world.workers[:20]:
        world.delete(name)
    world.nodes["n1"] = Node("n1", is_unreachable=True)
    before = len(world.events)
    world.settle()
    told = [event for event in world.events[before:] if event.reason == "WorkerLost"]
    assert len(told) == 1
    assert told[0].message.startswith("workers job-worker-0, job-worker-1, ")
    assert told[0].message.endswith("job-worker-9 and 10 more ended: its node n1 was lost")


def test_an_event_says_how_long_a_place_must_wait() -> None:
    world = start()
    fail_place(world, 4)
    assert world.events[-1].message == (
        "creating job-worker-7 for workers that are missing, the last one in 4 s"
    )


def test_a_place_whose_name_somebody_else_takes_waits_on_under_another_name() -> None:
    world = start()
    fail_place(world, 4)
    world.end(world.workers[-1], 1)
    world.settle()
    world.taken_names = frozenset({"job-worker-8"})
    world.settle()
    assert find_wait(world) == 8
    assert world.pods["job-worker-9"].retries == 4
