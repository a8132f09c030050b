"""What is told of hosts that were lost: since when, and what it took until all were back."""

from __future__ import annotations

from dataclasses import replace

from tests.planning_makers import ModelWorld, make_job


def start(replicas: int = 3, **spec: object) -> ModelWorld:
    world = ModelWorld(make_job(replicas, minimum=1, **spec))
    world.start()
    world.wait(100)
    return world


def list_told(world: ModelWorld) -> list[str]:
    return [event.message for event in world.events if event.reason == "Recovered"]


def come_back(world: ModelWorld) -> None:
    """Who is missing is created, runs, and is listed."""
    world.run()
    world.settle()
    world.serve()
    world.settle()


def test_a_job_recovers_until_it_has_all_its_hosts_again_and_says_what_that_took() -> None:
    world = start()
    world.end("job-worker-1", 137)
    world.settle()
    assert world.condition("Recovering") == "True"
    assert world.message("Recovering") == "job-worker-1 was lost"
    assert list_told(world) == []
    world.wait(14)
    come_back(world)
    assert world.condition("Recovering") == "False"
    assert list_told(world) == ["3 hosts again, 14 s after job-worker-1 was lost"]


def test_losses_that_follow_are_of_the_same_recovery() -> None:
    world = start()
    world.end("job-worker-1", 137)
    world.settle()
    world.wait(10)
    world.end("job-worker-2", 137)
    world.settle()
    world.wait(10)
    come_back(world)
    assert list_told(world) == ["3 hosts again, 20 s after job-worker-1 was lost"]


def test_a_host_that_horovod_has_given_up_is_lost_too() -> None:
    world = start()
    assert world.report is not None
    world.report = replace(world.report, used_up={world.pods["job-worker-2"].uid: 137})
    world.settle()
    assert world.message("Recovering") == "job-worker-2 was lost"


def test_who_was_no_host_yet_is_no_loss_of_one() -> None:
    world = ModelWorld(make_job(3, minimum=1))
    world.settle()
    world.run()
    world.settle()
    world.end("job-worker-1", 1)
    world.settle()
    assert world.condition("Recovering") is None


def test_a_job_that_goes_on_with_fewer_by_its_own_wish_has_recovered() -> None:
    world = start()
    world.end("job-worker-2", 137)
    world.settle()
    world.edit(replicas=2)
    world.settle()
    world.serve()
    world.settle()
    assert list_told(world) == ["2 hosts again, 0 s after job-worker-2 was lost"]


def test_where_the_command_starts_anew_or_ends_nothing_has_recovered() -> None:
    world = start()
    world.end("job-worker-1", 137)
    world.settle()
    world.finish()
    world.settle()
    assert world.condition("Recovering") == "False"
    assert world.reason("Recovering") == "JobFinished"
    assert list_told(world) == []
