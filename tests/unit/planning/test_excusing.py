"""Workers that were lost while nobody looked, and what that explains of their launcher's end."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from et_kube.resources import PODS
from et_operator.model.pods import Termination
from et_operator.model.statuses import ScalingKind
from et_operator.planning.excusing import find_reserve
from launcher.protocol.leaving import Leaving
from tests.planning_makers import ModelWorld, make_job, make_scaling

ELASTIC = [pytest.param(True, id="elastic"), pytest.param(False, id="fixed")]


def start(*, is_elastic: bool) -> ModelWorld:
    world = ModelWorld(make_job(3, is_elastic=is_elastic, minimum=1))
    world.start()
    world.settle()
    return world


def take(world: ModelWorld, name: str, minutes: int) -> None:
    """A kubelet evicted it so long ago; its pod stays."""
    at = world.now - timedelta(minutes=minutes)
    world.put(
        name,
        phase="Failed",
        is_container_running=False,
        pod_reason="Evicted",
        termination=Termination(137, "Error", finished=at),
    )


@pytest.mark.long
@pytest.mark.parametrize("is_elastic", ELASTIC)
@pytest.mark.parametrize("is_pod_there", [False, True])
def test_a_worker_that_was_lost_while_nobody_looked_explains_a_failure(
    *, is_elastic: bool, is_pod_there: bool
) -> None:
    world = start(is_elastic=is_elastic)
    if is_pod_there:
        take(world, "job-worker-1", 1)
    else:
        del world.pods["job-worker-1"]
    world.finish(1)
    world.settle()
    assert world.reason("Restarting") == "WorkerLost"
    assert (world.status.failures.user, world.status.failures.infrastructure) == (0, 1)
    world.go_on()
    assert (world.phase(), world.status.epoch) == ("Running", 2)


def test_so_does_one_that_was_being_deleted_when_it_was_last_seen() -> None:
    world = start(is_elastic=True)
    world.delete("job-worker-1")
    world.settle()
    world.wait(900)
    world.reap()
    world.finish(1)
    world.settle()
    assert world.reason("Restarting") == "WorkerLost"


def test_that_its_pod_is_gone_is_read_before_the_platform_is_blamed() -> None:
    world = start(is_elastic=True)
    del world.pods["job-worker-1"]
    world.finish(1)
    assert (PODS, "job-worker-1") in {(r.resource, r.name) for r in world.step().premises}


@pytest.mark.parametrize("why", ["scaled in", "used up"])
@pytest.mark.parametrize("is_pod_there", [False, True])
def test_so_does_one_that_we_ended_by_force_whoever_wanted_it_to_leave(
    why: str, *, is_pod_there: bool
) -> None:
    """As under mpirun in a script whose first command was horovodrun: it reads no list."""
    world = start(is_elastic=True)
    worker = world.pods["job-worker-2"]
    if why == "scaled in":
        world.add(make_scaling(ScalingKind.IN, "less", pod_names=(worker.name,)))
    else:
        assert world.report is not None
        world.report = replace(world.report, used_up={worker.uid: 137})
        world.settle()
        world.report = replace(world.report, used_up={})  # something is started there
    world.settle()
    world.wait(world.job.spec.drain_timeout.total_seconds() + 1 if world.job.spec else 0)
    world.settle()
    assert world.pods[worker.name].is_deleting
    world.end(worker.name, 137)
    if not is_pod_there:
        world.reap()
        world.settle()
    world.wait(2)
    world.finish(1)
    world.settle()
    assert world.reason("Restarting") == "WorkerLost"
    assert (world.status.failures.user, world.status.failures.infrastructure) == (0, 1)


def test_one_that_was_scaled_in_while_nobody_looked_excuses_nothing() -> None:
    world = start(is_elastic=True)
    world.add(make_scaling(ScalingKind.IN, "less", pod_names=("job-worker-1",)))
    world.settle()
    world.delete("job-worker-1")
    world.reap()
    world.finish(1)
    world.settle()
    assert world.reason("Failed") == "LauncherFailed"


def test_nor_does_one_that_no_list_had() -> None:
    world = ModelWorld(make_job(2, minimum=1))
    world.settle()
    world.run()
    world.settle()
    world.serve(list_new=False)
    world.settle()
    del world.pods["job-worker-1"]
    world.finish(1)
    world.settle()
    assert world.reason("Failed") == "LauncherFailed"


@pytest.mark.parametrize("is_noted", [False, True])
def test_a_loss_counts_from_when_it_was_and_not_from_when_it_was_noted(*, is_noted: bool) -> None:
    world = start(is_elastic=True)
    world.wait(3600)
    take(world, "job-worker-1", 50)
    if is_noted:
        world.settle()
    world.finish(3)
    world.settle()
    assert world.reason("Failed") == "LauncherFailed"


@pytest.mark.parametrize("is_elastic", ELASTIC)
@pytest.mark.parametrize(
    ("seconds", "reason", "explains"),
    [(59, "", True), (61, "EvictionByEvictionAPI", False), (61, "DeletionByTaintManager", True)],
)
def test_one_that_somebody_took_once_the_launcher_had_ended_explains_nothing(
    seconds: int, reason: str, *, is_elastic: bool, explains: bool
) -> None:
    world = start(is_elastic=is_elastic)
    world.finish(3)
    world.put("job-launcher", termination=Termination(3, "Error", finished=world.now))
    world.wait(seconds)
    world.delete("job-worker-1")
    world.put("job-worker-1", disruption_reason=reason)
    world.settle()
    expected = ("Restarting", "WorkerLost") if explains else ("Failed", "LauncherFailed")
    assert world.reason(expected[0]) == expected[1]


def drain(world: ModelWorld, *, closes: bool = False) -> None:
    """Somebody deletes a worker, which has an hour; its agent is told so."""
    world.delete("job-worker-1", grace=3600)
    world.settle()
    world.serve(close=closes)
    world.settle()


@pytest.mark.parametrize("is_elastic", ELASTIC)
@pytest.mark.parametrize(("seconds", "explains"), [(240, False), (2600, False), (2760, True)])
def test_one_that_is_to_go_explains_nothing_before_its_processes_are_ended(
    seconds: int, *, is_elastic: bool, explains: bool
) -> None:
    world = start(is_elastic=is_elastic)
    drain(world)
    world.wait(seconds)
    world.settle()
    world.finish(3)
    world.settle()
    expected = ("Restarting", "WorkerLost") if explains else ("Failed", "LauncherFailed")
    assert world.reason(expected[0]) == expected[1]


def test_nor_is_a_command_short_of_one_that_is_scaled_in_and_is_yet_to_go() -> None:
    world = lose("job-worker-0", least=3)
    world.add(make_scaling(ScalingKind.IN, "less", pod_names=("job-worker-1",)))
    world.settle()
    world.serve(close=False)
    world.settle()
    assert world.states()["job-worker-1"] == "draining"
    give_up(world, after=500)
    check(world, is_excused=False)


def test_one_that_has_closed_explains_it_however_long_its_pod_stays() -> None:
    world = start(is_elastic=True)
    drain(world, closes=True)
    world.wait(120)
    world.settle()
    world.finish(1)
    world.settle()
    assert world.reason("Restarting") == "WorkerLost"


@pytest.mark.parametrize("has_gone", [False, True])
def test_a_command_has_those_who_are_to_go_until_they_have_gone(*, has_gone: bool) -> None:
    world = ModelWorld(make_job(4, command_least=4))
    world.start()
    drain(world)
    world.wait(1800)
    world.settle()
    if has_gone:
        world.reap()
        world.settle()
        world.wait(640)
    world.finish(1)
    world.settle()
    assert world.status.shortage is not None
    assert (world.status.shortage.until is None) is has_gone
    assert (world.reason("Restarting") == "WorkerLost") is has_gone


def test_when_the_processes_of_a_worker_are_ended_is_what_its_agent_makes_of_its_grace() -> None:
    for grace in (20, 30, 60, 3600):
        leaving = Leaving(30)
        leaving.tell(grace, grace, 0)
        assert leaving.deadline() == (grace - find_reserve(grace))


def lose(*names: str, replicas: int = 4, least: int = 4, **spec: object) -> ModelWorld:
    """A job that has just lost these workers, and whose next ones find no node."""
    world = ModelWorld(make_job(replicas, command_least=least, **spec))
    world.start()
    world.settle()
    for name in names:
        world.delete(name)
    world.settle()
    world.reap()
    world.settle()
    return world


def join(world: ModelWorld, *names: str) -> None:
    world.run(*names)
    world.settle()
    world.wait(2)
    world.settle()
    world.serve()
    world.settle()


def give_up(world: ModelWorld, *, after: float) -> None:
    """The command ends with 1, so many seconds after it was created."""
    world.wait(after - (world.now - world.job.created).total_seconds())
    world.settle()
    world.finish(1)
    world.settle()


def end(world: ModelWorld, *, at: datetime) -> None:
    """The command has ended with 1, and its container then."""
    world.finish(1)
    world.put("job-launcher", termination=Termination(1, "Error", finished=at))
    world.settle()


def check(world: ModelWorld, *, is_excused: bool) -> None:
    expected = ("Restarting", "WorkerLost") if is_excused else ("Failed", "LauncherFailed")
    assert world.reason(expected[0]) == expected[1]
    assert world.status.failures.user == (0 if is_excused else 1)


def test_a_command_that_waits_for_more_workers_until_it_gives_up_was_not_to_blame() -> None:
    world = lose("job-worker-1")
    give_up(world, after=640)
    check(world, is_excused=True)
    [told] = [c.message for c in world.status.conditions if c.type == "Restarting"]
    assert told.startswith("too few workers were left for its command to go on, and the launcher")


@pytest.mark.parametrize(("known_after", "judged_after"), [(299, 600), (330, 600), (620, 620)])
def test_a_loss_begins_a_wait_once_it_is_known_however_old_it_is_then(
    known_after: float, judged_after: float
) -> None:
    world = ModelWorld(make_job(4, command_least=4))
    world.start()
    lost = world.now
    ended = lost + timedelta(seconds=600)
    take(world, "job-worker-1", 0)
    world.wait(known_after)  # nobody looks, or nobody hears its node
    if known_after < judged_after:
        world.settle()
        world.wait(judged_after - known_after)
    end(world, at=ended)
    check(world, is_excused=True)


@pytest.mark.parametrize("least", [0, 1, 3])
def test_one_that_has_enough_workers_or_does_not_say_fails_by_itself(least: int) -> None:
    world = lose("job-worker-1", least=least, minimum=4)
    give_up(world, after=4 * 3600)
    check(world, is_excused=False)


@pytest.mark.parametrize("least", [0, 1])
def test_one_that_has_nobody_left_was_not_to_blame_whatever_it_says(least: int) -> None:
    world = lose(*(f"job-worker-{index}" for index in range(4)), least=least)
    give_up(world, after=640)
    check(world, is_excused=True)


@pytest.mark.parametrize("seconds", [200, 420])
@pytest.mark.parametrize("what", ["one joins", "number", "scaling"])
def test_whatever_is_written_while_it_waits(what: str, seconds: float) -> None:
    world = lose("job-worker-1", "job-worker-2")
    world.wait(seconds)
    world.settle()
    if what == "one joins":
        join(world, "job-worker-4")
    elif what == "number":
        world.edit(replicas=5)
    else:
        world.add(make_scaling(ScalingKind.OUT, "more", count=1))
    world.settle()
    give_up(world, after=640)
    check(world, is_excused=True)


@pytest.mark.parametrize(("of_pod", "is_excused"), [(4, True), (2, False), (None, False)])
def test_its_least_number_is_that_with_which_it_was_started(
    *, of_pod: int | None, is_excused: bool
) -> None:
    world = ModelWorld(make_job(4, command_least=4))
    world.start()
    world.put("job-launcher", command_least=of_pod)  # None: of a former version
    world.edit(command_least=2)
    world.settle()
    world.delete("job-worker-1")
    world.settle()
    world.reap()
    world.settle()
    give_up(world, after=640)
    check(world, is_excused=is_excused)


@pytest.mark.parametrize("seconds", [200, 640])
def test_a_suspension_while_it_ends_changes_nothing(seconds: float) -> None:
    world = lose("job-worker-1")
    world.wait(seconds)
    world.settle()
    assert world.report is not None
    world.report = replace(world.report, ended=1, is_told_to_end=False)
    world.edit(suspend=True)
    world.settle()
    world.wait(2)
    world.end("job-launcher", 1)
    world.settle()
    world.reap()
    world.wait(65)
    world.settle()
    assert (world.phase(), world.status.failures.user) == ("Suspended", 0)


@pytest.mark.parametrize(("seconds", "is_excused"), [(59, True), (61, False)])
def test_a_loss_in_whose_place_another_came_explains_nothing_any_more(
    *, seconds: float, is_excused: bool
) -> None:
    world = lose("job-worker-1")
    world.wait(590)
    world.settle()
    join(world)
    world.wait(seconds)
    world.settle()
    end(world, at=world.now)
    check(world, is_excused=is_excused)


@pytest.mark.parametrize(("seconds", "is_excused"), [(290, True), (310, False)])
def test_nor_does_one_that_was_filled_while_nobody_looked(
    *, seconds: float, is_excused: bool
) -> None:
    world = lose("job-worker-1")
    world.wait(1800)
    world.run()
    world.settle()
    world.serve()
    world.wait(seconds)
    end(world, at=world.now)
    check(world, is_excused=is_excused)


@pytest.mark.parametrize(("seconds", "is_excused"), [(59, True), (8 * 3600, False)])
def test_nor_that_of_a_launcher_whose_pod_is_gone_hours_after(
    *, seconds: float, is_excused: bool
) -> None:
    world = lose("job-worker-1")
    world.wait(590)
    world.settle()
    join(world)
    world.wait(seconds)
    assert world.report is not None
    world.report = replace(world.report, ended=1, is_told_to_end=False)
    del world.pods["job-launcher"]
    world.settle()
    check(world, is_excused=is_excused)


def test_nor_does_it_where_what_lacks_has_never_come() -> None:
    world = lose("job-worker-1")
    join(world)
    world.edit(replicas=8)
    give_up(world, after=4 * 3600)
    check(world, is_excused=False)


@pytest.mark.parametrize(("others", "is_excused"), [(0, False), (2, True)])
def test_nor_where_it_never_had_as_many_as_it_needs(*, others: int, is_excused: bool) -> None:
    world = ModelWorld(make_job(2 + others, command_least=4))
    world.start()
    world.delete("job-worker-1")
    world.settle()
    world.reap()
    world.settle()
    give_up(world, after=640)
    check(world, is_excused=is_excused)


def test_nor_where_a_worker_that_failed_by_itself_is_what_it_waits_for() -> None:
    world = lose("job-worker-1")
    join(world)
    world.wait(3600)
    world.settle()
    world.end("job-worker-0", 1)
    world.settle()
    give_up(world, after=3600 + 700)
    check(world, is_excused=False)


def test_a_place_whose_worker_was_used_up_counts_until_another_one_is_there() -> None:
    world = ModelWorld(make_job(5, command_least=5))
    world.start()
    assert world.report is not None
    world.add(make_scaling(ScalingKind.IN, "less", pod_names=("job-worker-3",)))
    used = world.pods["job-worker-4"]
    world.report = replace(world.report, used_up={used.uid: 137})
    world.settle()
    world.delete(used.name)
    world.reap()
    world.settle()
    world.wait(1800)
    world.settle()
    world.delete("job-worker-1")
    world.settle()
    world.reap()
    world.settle()
    give_up(world, after=1800 + 640)
    check(world, is_excused=True)


def test_nor_the_end_of_the_next_launcher() -> None:
    world = lose("job-worker-1")
    give_up(world, after=640)
    world.go_on()
    assert (world.phase(), world.status.epoch) == ("Running", 2)
    world.wait(30)
    world.finish(1)
    world.settle()
    check(world, is_excused=False)


def test_a_loss_is_known_for_as_long_as_an_end_may_be_explained_by_it() -> None:
    world = lose("job-worker-1", least=1)
    world.wait(290)
    end = Termination(1, "Error", finished=world.now)
    world.put(
        "job-launcher", is_container_running=False, termination=end
    )  # its broker is yet to tell
    world.wait(15)
    join(world, "job-worker-4")
    world.wait(60)
    world.settle()
    check(world, is_excused=True)
