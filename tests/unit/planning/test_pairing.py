"""A worker that must go has its successor made before, and both change places at once."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from et_contract.admissions import AdmissionState, Elasticity
from et_contract.documents import KNOWS_HELD, HostConfig, MemberState
from et_kube.notices import Notice, NoticeKind
from et_kube.resources import PODS
from et_operator.model.actions import Create
from et_operator.model.admissions import Admission
from et_operator.model.names import ANNOTATION_RENEWED
from et_operator.model.pods import Node
from et_operator.model.snapshots import Refusal
from et_operator.model.statuses import ScalingKind, WorkerState
from et_operator.planning.noticing import MOST
from et_operator.planning.planner import plan
from tests.counting import count_steps
from tests.planning_makers import ModelWorld, make_job, make_scaling

OLD, NEW = "job-worker-2", "job-worker-3"


class Lists:
    """Who may be listed, by each config that was written."""

    def __init__(self, world: ModelWorld) -> None:
        self.seen: list[frozenset[str]] = []
        self._take, world._list = world._list, self._note
        if world.config is not None:
            self._add(world.config)

    def _note(self, config: HostConfig) -> None:
        self._take(config)
        self._add(config)

    def _add(self, config: HostConfig) -> None:
        active = {m.name for m in config.members if m.state is MemberState.ACTIVE}
        if not self.seen or self.seen[-1] != active:
            self.seen.append(frozenset(active))

    @property
    def changes(self) -> int:
        return len(self.seen) - 1

    @property
    def fewest(self) -> int:
        return min(map(len, self.seen))


def start(workers: int = 3, **spec: Any) -> ModelWorld:
    """A job that has trained for an hour, its newest worker on n2, the others on n1."""
    world = ModelWorld(make_job(workers, **({"minimum": 1} | spec)))
    world.nodes["n3"] = Node("n3")
    world.start()
    world.put(f"job-worker-{workers - 1}", node="n2")
    world.wait(3600)
    world.settle()
    return world


def say(world: ModelWorld, node: str, seconds: float | None) -> None:
    """That it ends so soon; None: that it stays."""
    notice = None
    if seconds is not None:
        moment = world.now + timedelta(seconds=seconds)
        notice = Notice("it leaves", "annotation leaving-at", NoticeKind.FIRM, moment)
    world.nodes[node] = replace(world.nodes[node], notice=notice)


def come(world: ModelWorld, *names: str, node: str = "n3") -> None:
    """Those that were made run, and their agents answer."""
    world.settle()
    world.run(*names, node=node)
    world.settle()
    world.serve()
    world.settle()


def find_state(world: ModelWorld, name: str) -> str:
    assert world.config is not None
    return next((m.state.value for m in world.config.members if m.name == name), "")


def find_leaving(world: ModelWorld) -> dict[str, str]:
    records = world.status.workers
    return {r.name: r.reason for r in records if r.state is WorkerState.LEAVING}


def told(world: ModelWorld, reason: str) -> list[str]:
    return [event.message for event in world.events if event.reason == reason]


# ------------------------------------------------------------------ one list
@pytest.mark.parametrize("seconds", [30, 120, 550])
def test_the_list_changes_once_and_the_number_never_falls(seconds: float) -> None:
    world = start()
    lists = Lists(world)
    say(world, "n2", seconds)
    world.settle()
    assert NEW in world.pods, "it is made at once"
    assert find_state(world, OLD) == "active"
    world.wait(5)
    world.run(node="n3")
    world.settle()
    assert (find_state(world, OLD), find_state(world, NEW)) == ("active", "held")
    assert world.status.target_workers == ("job-worker-0", "job-worker-1", OLD), "a pair is one"
    assert f"it leaves once {NEW} is ready, or at " in str(world.status.conditions)
    world.serve()
    world.settle()
    assert (find_state(world, OLD), find_state(world, NEW)) == ("draining", "active")
    assert find_leaving(world) == {OLD: "Noticed"}
    world.go_on()
    assert world.workers == ["job-worker-0", "job-worker-1", NEW]
    assert (lists.changes, lists.fewest) == (1, 3)
    assert world.status.last_worker_index == 3
    assert told(world, "WorkerLost") == []
    [message] = told(world, "WorkerMoved")
    assert message.startswith(f"worker {OLD} left: graceful")


def test_nobody_is_made_long_before() -> None:
    world = start()
    say(world, "n2", 7200)
    world.settle()
    assert NEW not in world.pods
    for _ in range(100):
        assert world.requeue_after is not None
        world.now += world.requeue_after
        world.settle()
        if NEW in world.pods:
            break
    [deadline] = [record.deadline for record in world.status.notices]
    assert deadline is not None
    assert deadline - world.now == timedelta(minutes=10, seconds=20)


def test_where_it_is_not_ready_in_time_its_worker_leaves_without_it_and_it_takes_the_place() -> (
    None
):
    world = start()
    say(world, "n2", 120)
    world.settle()
    world.wait(99)
    world.settle()
    assert find_state(world, OLD) == "active"
    world.wait(1)
    world.settle()
    assert find_state(world, OLD) == "draining"
    world.go_on()
    assert find_state(world, NEW) == "active"
    assert world.status.last_worker_index == 3, "nobody else was made"


@pytest.mark.parametrize("seconds", [-5, 0, 19])
def test_where_there_is_no_time_it_leaves_first(seconds: float) -> None:
    world = start()
    say(world, "n2", seconds)
    world.settle()
    assert find_leaving(world) == {OLD: "Noticed"}
    assert NEW in world.pods
    world.run(node="n3")
    world.settle()
    assert find_state(world, NEW) == "active"


# ------------------------------------------------------------------ many
def start_many() -> ModelWorld:
    """Twenty, half of them each on a node of its own that ends in two minutes."""
    world = start(20)
    for number in range(10):
        name = f"m{number}"
        world.nodes[name] = Node(name)
        world.put(f"job-worker-{number}", node=name)
    world.settle()
    return world


@pytest.mark.long
def test_half_of_twenty_change_places_at_once() -> None:
    world = start_many()
    lists = Lists(world)
    for number in range(10):
        say(world, f"m{number}", 120)
    world.settle()
    for number in range(20, 30):
        world.wait(2)
        come(world, f"job-worker-{number}")
        assert (lists.changes == 0) == (number < 29)
    world.go_on()
    assert (lists.changes, lists.fewest) == (1, 20)


@pytest.mark.long
def test_who_is_late_keeps_nobody_for_more_than_half_a_minute() -> None:
    world = start_many()
    lists = Lists(world)
    for number in range(10):
        say(world, f"m{number}", 120)
    world.settle()
    come(world, *(f"job-worker-{number}" for number in range(20, 26)))
    assert lists.changes == 0
    assert world.requeue_after is not None
    assert world.requeue_after <= timedelta(seconds=30)
    world.wait(30)
    world.settle()
    assert lists.changes == 1
    world.wait(60)
    come(world)
    world.go_on()
    assert (lists.changes, lists.fewest) == (2, 20)


@pytest.mark.long
def test_the_last_host_with_the_state_has_no_successor_until_it_may_go() -> None:
    world = start(2)
    lists = Lists(world)
    for node in ("n1", "n2"):
        say(world, node, 300)
    world.settle()
    assert len(world.workers) == 3, "one of two"
    come(world)
    world.go_on(2)
    assert (lists.changes, lists.fewest) == (1, 2)
    assert len(world.workers) == 2
    world.wait(60)
    come(world)
    world.go_on(2)
    assert (lists.changes, lists.fewest) == (2, 2)
    assert world.workers == ["job-worker-2", "job-worker-3"]


# ------------------------------------------------------------------ ways out
def test_where_the_word_is_withdrawn_exactly_the_successor_leaves() -> None:
    world = start()
    lists = Lists(world)
    say(world, "n2", 120)
    world.settle()
    world.run(node="n3")
    world.settle()
    say(world, "n2", None)
    world.settle()
    assert world.requeue_after is not None
    world.wait(30)
    world.settle()
    assert find_leaving(world) == {NEW: "Unneeded"}
    world.go_on()
    assert world.workers == ["job-worker-0", "job-worker-1", OLD]
    assert (lists.changes, lists.fewest) == (0, 3)


@pytest.mark.long
def test_a_word_that_comes_and_goes_makes_one_successor_and_no_more() -> None:
    world = start()
    for _ in range(20):
        say(world, "n2", 120)
        world.settle()
        world.wait(10)
        say(world, "n2", None)
        world.settle()
        world.wait(10)
    assert world.status.last_worker_index == 3
    world.wait(30)
    world.go_on()
    assert world.workers == ["job-worker-0", "job-worker-1", OLD]


@pytest.mark.long
@pytest.mark.parametrize("seconds", [0, 300])
def test_where_each_worker_that_comes_is_told_of_its_end_they_come_once_a_minute(
    seconds: int,
) -> None:
    world = start()
    end = world.now + timedelta(minutes=10)
    while world.now < end:
        moment = world.now + timedelta(seconds=seconds)
        notice = Notice("it leaves", "annotation leaving-at", NoticeKind.FIRM, moment)
        for name in world.workers:
            if world.pods[name].notice is None:
                world.put(name, notice=notice)
        come(world)
        world.reap()
        world.wait(5)
    assert world.status.last_worker_index <= 3 * 15
    assert world.condition("WorkersFailing") is None


def test_a_name_is_forgotten_where_nothing_was_made() -> None:
    world = start()
    say(world, "n2", 120)
    world.step()
    assert [r.replaces for r in world.status.workers if r.name == NEW] == [OLD]
    say(world, "n2", None)
    world.step()
    world.wait(30)
    world.settle()
    assert NEW not in world.pods
    assert world.status.workers == ()


def test_a_node_that_is_not_there_says_nothing() -> None:
    world = start()
    say(world, "n2", 120)
    world.settle()
    world.run(node="n3")
    world.settle()
    del world.nodes["n2"]
    world.settle()
    assert find_leaving(world) == {}
    assert find_state(world, NEW) == "held"


def test_after_the_change_nothing_is_taken_back() -> None:
    world = start()
    say(world, "n2", 120)
    come(world)
    say(world, "n2", None)
    world.go_on()
    assert world.workers == ["job-worker-0", "job-worker-1", NEW]


def test_the_successor_of_one_that_is_lost_takes_its_place() -> None:
    world = start()
    say(world, "n2", 120)
    world.settle()
    world.run(node="n3")
    world.settle()
    world.end(OLD, 137)
    world.settle()
    assert find_state(world, NEW) == "active"
    world.go_on()
    assert world.status.last_worker_index == 3


def test_one_that_waits_for_nothing_any_more_is_created_whatever_was_refused() -> None:
    world = start()
    say(world, "n2", 120)
    world.step()
    refusal = Refusal("exceeded quota: q", 3, world.now, world.job.generation, NEW)
    world.refusal = refusal
    world.settle()
    assert NEW not in world.pods
    world.wait(5)
    world.end(OLD, 137)
    world.settle()
    assert NEW in world.pods


@pytest.mark.parametrize("is_named", [False, True])
def test_a_scale_in_of_its_worker_takes_the_successor_with_it(*, is_named: bool) -> None:
    world = start()
    say(world, "n2", 120)
    world.settle()
    world.run(node="n3")
    world.settle()
    wish = {"pod_names": (OLD,)} if is_named else {"count": 1}
    world.add(make_scaling(ScalingKind.IN, "less", created=world.now, **wish))
    world.settle()
    assert find_leaving(world) == {OLD: "ScaleIn", NEW: "Unneeded"}
    world.go_on()
    assert world.workers == ["job-worker-0", "job-worker-1"]
    assert world.scaling_phase("less") == "ScaleSucceeded"


def test_a_scale_in_of_another_changes_nothing() -> None:
    world = start()
    say(world, "n2", 120)
    world.settle()
    world.run(node="n3")
    world.settle()
    names = ("job-worker-0",)
    world.add(make_scaling(ScalingKind.IN, "less", created=world.now, pod_names=names))
    world.settle()
    assert find_leaving(world) == {"job-worker-0": "ScaleIn"}
    world.serve()
    world.settle()
    assert find_state(world, NEW) == "active"


def test_a_scale_out_beside_it_has_its_workers_and_ends() -> None:
    world = start()
    world.add(make_scaling(ScalingKind.OUT, "more", created=world.now, count=1))
    world.settle()
    say(world, "n2", 120)
    world.go_on()
    assert world.scaling_phase("more") == "ScaleSucceeded"
    assert len(world.workers) == 4


@pytest.mark.long
def test_a_worker_that_a_scale_out_adds_may_be_replaced_before_the_others_are_there() -> None:
    world = start()
    world.add(make_scaling(ScalingKind.OUT, "more", created=world.now, count=2))
    world.settle()
    world.run("job-worker-3", node="n2")
    world.wait(2)
    world.settle()
    world.serve()
    world.settle()
    say(world, "n2", 120)
    for _ in range(4):
        come(world, "job-worker-5", "job-worker-6")
        world.reap()
    come(world)
    world.go_on()
    assert world.scaling_phase("more") == "ScaleSucceeded"
    assert len(world.workers) == 5


@pytest.mark.long
def test_a_successor_that_ends_is_followed_by_another_a_little_later_each_time() -> None:
    world = start()
    say(world, "n2", 120)
    moments = []
    for _ in range(210):
        world.settle()
        for name in world.workers:
            if world.pods[name].phase == "Pending":
                moments.append(world.now)
                world.run(name, node="n3")
                world.end(name, 1)
        world.wait(0.5)
    assert 4 < len(moments) < 12
    assert find_leaving(world) == {OLD: "Noticed"}, "in time all the same"
    assert told(world, "Failed") == []


@pytest.mark.long
def test_a_successor_that_somebody_deletes_is_followed_by_another() -> None:
    world = start()
    say(world, "n2", 120)
    world.settle()
    world.run(node="n3")
    world.settle()
    world.delete(NEW)
    world.settle()
    come(world)
    world.go_on()
    assert world.workers == ["job-worker-0", "job-worker-1", "job-worker-4"]


@pytest.mark.long
def test_a_successor_on_a_node_that_ends_as_well_is_not_ready() -> None:
    world = start()
    lists = Lists(world)
    say(world, "n2", 120)
    come(world, node="n2")
    assert (lists.changes, find_state(world, NEW)) == (0, "held")
    world.wait(100)
    come(world)
    world.go_on()
    assert (lists.changes, world.status.last_worker_index) == (1, 3), "nobody is moved twice"


def test_a_successor_whose_node_is_lost_is_not_ready() -> None:
    world = start_many()
    lists = Lists(world)
    for number in range(2):
        say(world, f"m{number}", 300)
    world.settle()
    come(world, "job-worker-20")
    world.nodes["n3"] = Node("n3", is_ready=False, is_unreachable=True)
    world.wait(40)
    world.settle()
    assert (lists.changes, find_leaving(world)) == (0, {})
    world.nodes["n3"] = Node("n3")
    world.settle()
    assert find_leaving(world) == {"job-worker-0": "Noticed"}


@pytest.mark.parametrize("is_refused", [False, True])
def test_one_that_is_ready_takes_a_place_for_which_nobody_runs(*, is_refused: bool) -> None:
    """Else the last host with the state would wait for a host that never comes."""
    world = start(2)  # job-worker-1 is noticed, and OLD is its successor
    say(world, "n2", 300)
    world.settle()
    world.run(node="n3")
    world.settle()
    world.end("job-worker-0", 137)
    world.refusal = Refusal("exceeded quota", 9, world.now, 1, "") if is_refused else None
    world.settle()
    assert find_state(world, OLD) == "held"
    world.serve()
    world.settle()
    assert find_state(world, OLD) == "active"
    assert find_state(world, "job-worker-1") == "active"
    replaced = {r.name: r.replaces for r in world.status.workers if r.replaces}
    assert replaced == {NEW: "job-worker-1"}, "who was to take that place is the successor now"
    world.serve()
    world.settle()
    world.wait(61)
    world.settle()
    world.refusal = None
    come(world)
    world.go_on(2)
    assert world.workers == [OLD, NEW]


# ------------------------------------------------------------------ bounds
def test_a_job_at_its_most_may_have_one_more_for_each_pair() -> None:
    world = start(maximum=3)
    lists = Lists(world)
    say(world, "n2", 120)
    come(world)
    world.go_on()
    assert (lists.changes, lists.fewest) == (1, 3)
    assert world.workers == ["job-worker-0", "job-worker-1", NEW]


def test_beside_a_pair_whoever_is_lost_is_replaced_at_the_most_too() -> None:
    world = start(maximum=3)
    say(world, "n2", 120)
    world.settle()
    world.run(node="n3")
    world.settle()
    world.end("job-worker-0", 137)
    world.settle()
    assert "job-worker-4" in world.pods


def test_a_name_that_is_anothers_is_decided_anew() -> None:
    world = start()
    world.taken_names = frozenset({NEW})
    say(world, "n2", 120)
    world.settle()
    assert "job-worker-4" in world.pods
    world.taken_names = frozenset()
    come(world)
    world.go_on()
    assert world.workers == ["job-worker-0", "job-worker-1", "job-worker-4"]


def test_a_name_that_another_takes_meanwhile_is_decided_anew() -> None:
    world = start()
    say(world, "n2", 120)
    world.step()
    world.taken_names = frozenset({NEW})
    world.settle()
    assert "job-worker-4" in world.pods
    assert [r.name for r in world.status.workers if r.replaces] == ["job-worker-4"]


def test_successors_are_created_last() -> None:
    world = start()
    say(world, "n2", 120)
    world.end("job-worker-0", 137)
    made: list[str] = []
    while len(made) < 2:
        found = [a for a in world.step().actions if isinstance(a, Create) and a.resource == PODS]
        made += [action.manifest["metadata"]["name"] for action in found]
        world.wait(0.5)
    assert made == ["job-worker-4", NEW]


def test_in_a_queue_it_leaves_first() -> None:
    job = make_job(2, queue="q", minimum=1)
    admission = Admission(1, AdmissionState.ADMITTED, workers=2, elasticity=Elasticity.AUTO)
    world = ModelWorld(replace(job, admission=admission))
    world.nodes["n3"] = Node("n3")
    world.start()
    world.put("job-worker-1", node="n2")
    world.wait(3600)
    say(world, "n2", 120)
    world.settle()
    assert world.workers == ["job-worker-0", "job-worker-1"]
    world.wait(100)
    world.settle()
    assert find_leaving(world) == {"job-worker-1": "Noticed"}


@pytest.mark.long
@pytest.mark.parametrize("version", [1, KNOWS_HELD])
def test_a_broker_of_before_is_told_of_nobody_who_is_held(version: int) -> None:
    world = start()
    assert world.report is not None
    world.report = replace(world.report, version=version)
    lists = Lists(world)
    say(world, "n2", 120)
    for _ in range(60):
        come(world)
        assert version == KNOWS_HELD or "held" not in world.states().values()
        world.wait(2)
    world.go_on()
    assert world.workers == ["job-worker-0", "job-worker-1", NEW]
    assert (lists.changes, lists.fewest) == ((1, 3) if version == KNOWS_HELD else (2, 2))


def test_nobody_is_held_while_the_command_does_not_train() -> None:
    world = ModelWorld(make_job(2, minimum=1))
    world.nodes["n3"] = Node("n3")
    world.settle()
    world.run(node="n2")
    say(world, "n2", 120)
    world.settle()
    assert world.workers == ["job-worker-0", "job-worker-1"]


def test_of_more_than_are_noted_the_others_leave_first() -> None:
    world = start(MOST + 3)
    for number in range(MOST + 2):
        world.nodes[f"m{number}"] = Node(f"m{number}")
        world.put(f"job-worker-{number}", node=f"m{number}")
        say(world, f"m{number}", 120)
    world.settle()
    assert sum(bool(record.replaces) for record in world.status.workers) == MOST


# ------------------------------------------------------------------ others' doing
def test_a_suspended_job_holds_nobody_and_goes_on_with_its_number() -> None:
    world = start()
    say(world, "n2", 120)
    world.step()
    world.edit(suspend=True)
    world.settle()
    assert not [record for record in world.status.workers if record.replaces]
    world.reap()
    say(world, "n2", None)
    world.edit(suspend=False)
    world.go_on()
    assert len(world.workers) == 3


def test_where_the_launcher_ends_nobody_is_held_any_more() -> None:
    world = start()
    say(world, "n2", 120)
    world.settle()
    world.run(node="n3")
    world.settle()
    world.end("job-launcher", 143, deletion_requested=world.now)
    world.settle()
    assert find_leaving(world) == {OLD: "Noticed"}
    world.go_on()
    assert world.status.epoch == 2
    assert find_state(world, NEW) == "active"
    assert len(world.workers) == 3


def test_a_config_that_somebody_removed_holds_it_again() -> None:
    world = start()
    say(world, "n2", 120)
    world.settle()
    world.run(node="n3")
    world.settle()
    world.config = None
    del world.children["job-config"]
    world.settle()
    assert (find_state(world, OLD), find_state(world, NEW)) == ("active", "held")


def test_where_the_status_is_lost_the_number_comes_back() -> None:
    world = start()
    say(world, "n2", 120)
    world.settle()
    world.run(node="n3")
    world.settle()
    world.job = replace(world.job, status=replace(world.status, workers=()))
    world.go_on()
    assert len(world.workers) == 3


def test_workers_are_renewed_once_nobody_is_held() -> None:
    world = start()
    annotations = {ANNOTATION_RENEWED: "1"}
    say(world, "n2", 120)
    world.settle()
    world.run(node="n3")
    world.job = replace(world.job, annotations=annotations)
    world.settle()
    assert find_leaving(world) == {}


@pytest.mark.long
def test_a_pass_over_pairs_costs_so_much_for_each_of_them() -> None:
    def measure(workers: int) -> int:
        world = start(workers)
        for number in range(workers - 1):
            world.put(f"job-worker-{number}", node="n2")
        world.put(f"job-worker-{workers - 1}", node="n1")
        say(world, "n2", 120)
        world.settle()
        world.run(node="n3")
        world.settle()
        world.serve()
        snapshot = world.snapshot()
        return count_steps(lambda: plan(snapshot, world.now))

    few, many = measure(20), measure(80)
    assert many < 5 * few
