"""A host that has the training's state stays, whoever lets others go."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from et_kube.notices import Notice, NoticeKind
from et_operator.model.blacklists import GivenUp
from et_operator.model.names import ANNOTATION_RENEWED
from et_operator.model.pods import Node
from et_operator.model.statuses import ScalingKind, WorkerState
from tests.planning_makers import CORDON, ModelWorld, make_job, make_scaling

FIRM = Notice("Karpenter drains it", "taint karpenter.sh/disrupted", NoticeKind.FIRM)


def start(workers: int = 1, **spec: Any) -> ModelWorld:
    """A job that has trained for an hour on n2."""
    world = ModelWorld(make_job(workers, **({"minimum": 1} | spec)))
    world.start()
    for name in world.workers:
        world.put(name, node="n2")
    world.nodes["n3"] = Node("n3")
    world.wait(3600)
    world.settle()
    return world


def say(world: ModelWorld, node: str, notice: Notice) -> None:
    world.nodes[node] = replace(world.nodes[node], notice=notice)
    world.settle()


def list_another(world: ModelWorld, seconds: int = 1) -> None:
    """A new worker runs on n3 and is listed, since so many seconds."""
    world.run(node="n3")
    world.settle()
    world.serve()
    world.settle()
    world.wait(seconds)
    world.settle()


def grow(workers: int = 1) -> ModelWorld:
    """One more, which is listed since a second."""
    world = start(workers)
    world.edit(replicas=workers + 1)
    world.settle()
    list_another(world)
    return world


def leaving(world: ModelWorld) -> list[str]:
    return [r.name for r in world.status.workers if r.state is WorkerState.LEAVING]


def let_leave(world: ModelWorld) -> None:
    for step in (world.serve, world.settle, world.reap, world.settle):
        step()


def renew(world: ModelWorld, through: int) -> None:
    world.job = replace(world.job, annotations={ANNOTATION_RENEWED: str(through)})
    world.settle()


# ------------------------------------------------------------------ workers that are to be new
def test_the_last_old_worker_stays_until_a_new_one_has_the_state() -> None:
    world = start(2)
    renew(world, 1)
    assert leaving(world) == ["job-worker-1"]
    let_leave(world)
    list_another(world, 59)
    assert leaving(world) == []
    assert world.requeue_after is not None, "it looks again when it may go"
    world.wait(2)
    world.settle()
    assert leaving(world) == ["job-worker-0"]


def test_what_the_command_makes_of_it_is_no_failure_of_its_own() -> None:
    world = start(2, backoff_limit=0)
    renew(world, 1)
    let_leave(world)
    world.finish(1)
    world.settle()
    assert world.phase() != "Failed"
    assert world.status.failures.user == 0


def test_a_used_up_worker_that_stays_is_none_with_which_the_command_goes_on() -> None:
    world = start(3, minimum=2)
    stopped = GivenUp(world.status.epoch, stopped=world.now)
    world.job = replace(world.job, status=replace(world.status, given_up=stopped))
    assert world.report is not None
    world.report = replace(world.report, used_up={world.pods["job-worker-2"].uid: 1})
    world.job = replace(world.job, annotations={ANNOTATION_RENEWED: "1"})
    world.settle()
    assert leaving(world) == []
    [condition] = [c for c in world.status.conditions if c.type == "RestartingWorkers"]
    assert "the job has 2 workers and cannot go on with fewer" in condition.message
    renew(world, 2)
    assert leaving(world) == ["job-worker-2"], "without that one it goes on as before"


# ------------------------------------------------------------------ notices
def test_one_that_was_created_long_ago_is_a_host_from_when_it_is_listed() -> None:
    world = ModelWorld(make_job(2, minimum=1))
    world.settle()
    world.wait(5)
    world.run("job-worker-0", "job-launcher")
    world.put("job-worker-0", node="n2")
    for _ in range(2):
        world.wait(5)
        world.settle()
        world.serve()
        world.settle()
    assert world.states() == {"job-worker-0": "active"}
    world.wait(7200)
    world.settle()
    world.nodes["n3"] = Node("n3")
    list_another(world)
    say(world, "n2", FIRM)
    assert leaving(world) == []
    world.wait(60)
    world.settle()
    assert leaving(world) == ["job-worker-0"]


def test_so_is_one_that_runs_long_before_it_is_listed() -> None:
    world = start()
    world.edit(replicas=2)
    world.settle()
    world.run(node="n3")
    world.settle()
    world.wait(90)
    world.settle()
    list_another(world)
    say(world, "n2", FIRM)
    assert leaving(world) == []


# ------------------------------------------------------------------ scalings
@pytest.mark.parametrize("notice", [FIRM, CORDON, None])
def test_fewer_workers_keep_one_with_the_state(notice: Notice | None) -> None:
    world = grow()
    if notice is not None:
        say(world, "n2", notice)
    world.edit(replicas=1)
    world.settle()
    assert leaving(world) == ["job-worker-1"]


def test_whose_node_goes_leaves_first_once_another_has_the_state() -> None:
    world = grow()
    say(world, "n2", CORDON)
    world.wait(60)
    world.edit(replicas=1)
    world.settle()
    assert leaving(world) == ["job-worker-0"]


def test_those_that_are_named_wait_until_one_that_stays_has_the_state() -> None:
    world = grow()
    names = ("job-worker-0",)
    world.add(make_scaling(ScalingKind.IN, "less", pod_names=names, created=world.now))
    world.settle()
    world.wait(30)
    world.settle()
    assert leaving(world) == []
    [scaling] = world.scalings.values()
    assert "waits for a worker that stays" in scaling.status.conditions[-1].message
    world.wait(30)
    world.settle()
    assert leaving(world) == ["job-worker-0"]


def test_names_are_not_compared_with_the_name_of_each_worker() -> None:
    compared: list[str] = []

    class Name(str):
        __slots__ = ()
        __hash__ = str.__hash__

        def __eq__(self, other: object) -> bool:
            compared.append(self)
            return str.__eq__(self, other)

    world = grow()
    names = tuple(Name(f"other-{number}") for number in range(1000))
    world.add(make_scaling(ScalingKind.IN, "less", pod_names=names, created=world.now))
    world.settle()
    assert world.scaling_reason("less") == "UnknownPods"
    assert len(compared) < 1000


def test_they_wait_a_minute_at_most_where_nobody_comes() -> None:
    world = start(2)
    world.end("job-worker-1", 1)
    world.settle()
    names = ("job-worker-0",)
    world.add(make_scaling(ScalingKind.IN, "less", pod_names=names, created=world.now))
    world.settle()
    assert leaving(world) == []
    world.wait(61)
    world.settle()
    assert leaving(world) == ["job-worker-0"]


# ------------------------------------------------------------------ nodes that nobody hears
OUT_OF_SERVICE = replace(FIRM, source="taint node.kubernetes.io/out-of-service")


def lose(world: ModelWorld, node: str, notice: Notice | None = None) -> None:
    world.nodes[node] = replace(
        world.nodes[node], is_ready=False, is_unreachable=True, notice=notice
    )
    world.settle()


def hear(world: ModelWorld, node: str) -> None:
    world.nodes[node] = Node(node)
    world.settle()


def start_apart(workers: int = 2) -> ModelWorld:
    """Worker 0 on n1, the others on n2, the launcher on n3."""
    world = start(workers)
    world.put("job-worker-0", node="n1")
    world.put("job-launcher", node="n3")
    world.settle()
    return world


@pytest.mark.parametrize("is_there", [True, False])
def test_the_last_host_that_is_heard_stays_until_another_is_heard(*, is_there: bool) -> None:
    world = start_apart()
    if is_there:
        lose(world, "n1")
    else:
        del world.nodes["n1"]
    say(world, "n2", FIRM)
    assert leaving(world) == []
    [condition] = [c for c in world.status.conditions if c.type == "NodesLeaving"]
    assert "it stays until another host is listed for a minute" in condition.message
    hear(world, "n1")
    assert leaving(world) == ["job-worker-1"]


def test_of_two_that_go_the_one_that_is_heard_is_spared() -> None:
    world = start_apart()
    lose(world, "n2", OUT_OF_SERVICE)
    assert leaving(world) == ["job-worker-1"]
    world = start_apart()
    world.nodes["n1"] = replace(world.nodes["n1"], notice=FIRM)
    lose(world, "n2", OUT_OF_SERVICE)
    assert leaving(world) == ["job-worker-1"]


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("is_of_number", [False, True])
def test_fewer_workers_are_those_that_nobody_hears(count: int, *, is_of_number: bool) -> None:
    world = start_apart(3)
    lose(world, "n1")
    if is_of_number:
        world.edit(replicas=3 - count)
    else:
        world.add(make_scaling(ScalingKind.IN, "less", count=count, created=world.now))
    world.settle()
    assert sorted(leaving(world)) == ["job-worker-0", "job-worker-2"][:count]
    assert world.status.scaling is not None
    assert "job-worker-0: nobody hears its node n1" in world.status.scaling.choice


def test_one_that_is_named_stays_while_all_others_are_heard_no_more() -> None:
    world = start_apart()
    lose(world, "n2")
    names = ("job-worker-0",)
    world.add(make_scaling(ScalingKind.IN, "less", pod_names=names, created=world.now))
    world.settle()
    world.wait(600)
    world.settle()
    assert leaving(world) == []
    [scaling] = world.scalings.values()
    assert "a worker that stays, on a node that is heard" in scaling.status.conditions[-1].message
    hear(world, "n2")
    assert leaving(world) == ["job-worker-0"]


def test_nobody_is_made_new_while_another_is_heard_no_more() -> None:
    world = start_apart(3)
    lose(world, "n1")
    renew(world, 2)
    assert leaving(world) == []
    [condition] = [c for c in world.status.conditions if c.type == "RestartingWorkers"]
    assert "no node of theirs is lost" in condition.message
    hear(world, "n1")
    assert leaving(world) == ["job-worker-2"]


@pytest.mark.long
def test_one_that_is_heard_no_more_stays_while_nobody_else_has_the_state() -> None:
    world = grow()
    world.edit(replicas=3)
    world.settle()
    list_another(world)
    lose(world, "n2", FIRM)
    assert leaving(world) == [], "its node may be back in a moment"
    world.edit(replicas=2)
    world.settle()
    assert leaving(world) == ["job-worker-2"]
    world.wait(60)
    world.settle()
    assert leaving(world) == ["job-worker-2", "job-worker-0"], "by now another one has it"


@pytest.mark.parametrize("is_scaled", [False, True])
def test_where_none_is_heard_all_is_as_if_all_were(*, is_scaled: bool) -> None:
    world = start_apart()
    lose(world, "n1", None if is_scaled else OUT_OF_SERVICE)
    lose(world, "n2", None if is_scaled else OUT_OF_SERVICE)
    if is_scaled:
        world.edit(replicas=1)
        world.settle()
        assert leaving(world) == ["job-worker-1"]
        return
    assert leaving(world) == ["job-worker-0"]
    list_another(world, 59)
    assert "job-worker-1" not in leaving(world)
    world.wait(2)
    world.settle()
    assert "job-worker-1" in leaving(world)


# ------------------------------------------------------------------ what is remembered
def test_one_that_is_listed_later_in_the_same_second_is_none_of_the_first() -> None:
    world = ModelWorld(make_job(1, minimum=1))
    world.nodes["n3"] = Node("n3")
    world.start()
    world.edit(replicas=2)
    world.settle()
    list_another(world, 0)
    say(world, "n1", FIRM)
    assert leaving(world) == []


def test_those_that_have_settled_are_told_together_and_nothing_is_written_for_that() -> None:
    world = grow()
    assert [listing.indexes for listing in world.status.listings] == [(0,), (1,)]
    world.wait(60)
    writes = world.writes
    world.settle()
    assert world.writes == writes
    world.edit(replicas=3)
    world.settle()
    list_another(world)
    assert [listing.indexes for listing in world.status.listings] == [(0, 1), (2,)]
