"""A launcher ends before its node does, and another one goes on elsewhere; but never in vain."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from et_contract.admissions import MAX_NODES, AdmissionState
from et_contract.documents import DRIVER_STALLED, ScriptOrder, ScriptResult
from et_contract.names import ENV_DEADLINE, build_report_name
from et_kube.resources import CONFIG_MAPS, Json
from et_operator.model.actions import Delete
from et_operator.model.admissions import Admission
from et_operator.model.names import ANNOTATION_AVOIDS
from et_operator.model.pods import Node, Pod, Termination
from et_operator.model.scripts import NoticeScript
from et_operator.model.snapshots import Refusal
from et_operator.model.specs import NoticePolicy, RestartPolicy, ScriptRight, StallPolicy
from et_operator.model.statuses import Failures, ScalingKind
from et_operator.planning.moving import QUICK
from et_operator.planning.planner import plan
from tests.planning_makers import CORDON, START, ModelWorld, make_job, make_scaling, make_template
from tests.unit.planning.test_noticing import (
    AT_ONCE,
    HOSTNAME,
    LEAD,
    find_created,
    find_words,
    leave_in,
    list_kept_off,
    say,
    told,
)

LAUNCHER = "job-launcher"
FIRST, SECOND, THIRD = LAUNCHER, f"{LAUNCHER}-r1", f"{LAUNCHER}-r2"


def start(workers: int = 3, **spec: Any) -> ModelWorld:
    """A job that has trained for an hour, its launcher on n2, its workers on n1; n3 is empty."""
    world = ModelWorld(make_job(workers, **({"minimum": 1} | spec)))
    world.nodes["n3"] = Node("n3")
    world.start()
    world.put(LAUNCHER, node="n2")
    world.wait(3600)
    world.settle()
    return world


def is_moved(world: ModelWorld, name: str = LAUNCHER) -> bool:
    """Whether it was told to end."""
    return name not in world.pods or world.pods[name].is_deleting


def assert_moved_after(world: ModelWorld, seconds: int) -> None:
    """So much later it is told to end, and not a second before."""
    world.wait(seconds - 1)
    world.settle()
    assert not is_moved(world)
    world.wait(1)
    world.settle()
    assert is_moved(world)


def end_launcher(world: ModelWorld) -> None:
    """It was told to end, and its command has: then the next one comes, on the third node."""
    world.finish(143, is_told_to_end=True)
    world.settle()
    world.reap()
    world.wait(1)
    world.settle()


def find_launcher(world: ModelWorld, name: str) -> Json:
    """The manifest of the launcher of this name, once it is created."""
    for _ in range(20):
        for manifest in find_created(world.step()):
            if manifest["metadata"]["name"] == name:
                return manifest
    raise AssertionError(f"{name} was not created: {world.log[-8:]}")


# ------------------------------------------------------------------ when
def test_another_launcher_goes_on_elsewhere_before_the_node_of_the_first_ends() -> None:
    world = start()
    say(world, "n2", leave_in(world, 120))
    world.settle()
    assert not is_moved(world)
    assert world.requeue_after == timedelta(seconds=100)
    words = "job-launcher on n2: it leaves (annotation leaving-at), at 2026-01-01T13:02:01Z; at"
    assert f"{words} 2026-01-01T13:01:41Z it ends, and another launcher" in find_words(world)
    world.wait(100)
    world.settle()
    assert is_moved(world)
    [message] = told(world, "LauncherMoved")
    assert "job-launcher on n2: it leaves (annotation leaving-at): it ends now" in message
    end_launcher(world)
    world.run(SECOND, node="n3")
    world.settle()
    world.serve()
    world.settle()
    assert world.workers == [f"job-worker-{n}" for n in range(3)], "the workers stay"
    assert (world.status.epoch, world.phase()) == (2, "Running")
    assert world.condition("NodesLeaving") == "False"


def test_it_counts_as_one_whose_place_the_platform_wanted_and_no_failure_is_spent() -> None:
    world = start(restart_policy=RestartPolicy.NEVER, backoff_limit=0)
    for number, name in enumerate((FIRST, SECOND)):
        world.put(name, node="n2", avoids="")
        say(world, "n2", replace(AT_ONCE, source=f"sign {number}"))
        world.settle()
        assert is_moved(world, name)
        end_launcher(world)
        say(world, "n2", None)
        world.wait(4)
        world.go_on(1)
    assert world.status.failures == Failures(user=0, infrastructure=2)
    assert (world.status.epoch, world.phase()) == (3, "Running")
    assert world.status.lost_launchers is None
    again = told(world, "Restarting")[-1]
    assert "job-launcher-r1 was moved off its node before that ends: n2: Karpenter" in again


@pytest.mark.parametrize("seconds", [None, -60, 0, 19])
def test_where_there_is_no_time_it_ends_at_once(seconds: float | None) -> None:
    world = start()
    say(world, "n2", AT_ONCE if seconds is None else leave_in(world, seconds))
    world.settle()
    assert is_moved(world)


def test_a_lead_counts_from_when_its_sign_was_seen() -> None:
    world = start()
    say(world, "n2", LEAD)
    world.settle()
    assert_moved_after(world, 100)


def test_the_margin_is_that_of_a_job_whose_workers_are_slow_to_leave() -> None:
    world = start()
    world.job = replace(world.job, status=replace(world.status, slowest_drain=45))
    say(world, "n2", leave_in(world, 120))
    world.settle()
    assert world.requeue_after == timedelta(seconds=30)


@pytest.mark.parametrize("policy", NoticePolicy)
def test_what_is_not_sure_moves_no_launcher(policy: NoticePolicy) -> None:
    world = start(notice_policy=policy)
    say(world, "n2", CORDON)
    world.wait(3600)
    world.settle()
    assert not is_moved(world)
    if policy is NoticePolicy.EAGER:
        assert find_words(world).endswith("; a launcher is not moved for that")


def test_and_hides_nothing_that_is_where_workers_are_moved_for_both() -> None:
    world = start(notice_policy=NoticePolicy.EAGER)
    both = (replace(CORDON, deadline=world.now), leave_in(world, 120))
    world.nodes["n2"] = replace(world.nodes["n2"], notice=both[1], notices=both)
    world.settle()
    assert not is_moved(world)
    world.wait(100)
    world.settle()
    assert is_moved(world)


def test_what_is_long_over_moves_nobody() -> None:
    world = start()
    say(world, "n2", leave_in(world, -600))
    world.settle()
    assert not is_moved(world)
    assert find_words(world).endswith(", which is over: it stays")
    assert world.requeue_after is None, "and is not looked at again"


def test_a_word_on_its_own_pod_moves_it_and_it_may_come_back_there() -> None:
    world = start()
    world.put(LAUNCHER, notice=leave_in(world, 30))
    world.settle()
    assert not is_moved(world)
    world.wait(10)
    world.settle()
    assert is_moved(world)
    end_launcher(world)
    world.run(SECOND, node="n2")
    world.settle()
    assert not is_moved(world, SECOND)


def test_a_word_on_its_pod_that_is_no_time_is_told() -> None:
    world = start()
    world.put(LAUNCHER, misread="annotation leaving-at is 'soon'")
    world.settle()
    assert "job-launcher: annotation leaving-at is 'soon'" in find_words(world)


# ------------------------------------------------------------------ what comes between
def test_a_word_that_is_taken_back_before_its_moment_moves_nobody() -> None:
    world = start()
    say(world, "n2", leave_in(world, 120))
    world.settle()
    world.wait(99)
    say(world, "n2", None)
    world.settle()
    world.wait(100)
    world.settle()
    assert not is_moved(world)
    assert (world.status.launcher_move, told(world, "LauncherMoved")) == (None, [])


def test_and_so_it_is_after_the_decision_while_nothing_was_done() -> None:
    world = start()
    say(world, "n2", AT_ONCE)
    while world.status.launcher_move is None:
        world.step()
    say(world, "n2", None)
    world.settle()
    assert not is_moved(world)
    assert world.status.launcher_move is None


def test_its_report_is_read_before_it_is_deleted() -> None:
    world = start()
    say(world, "n2", AT_ONCE)
    for _ in range(5):
        result = world.step()
        if any(isinstance(action, Delete) for action in result.actions):
            break
    names = {ref.name for ref in result.premises if ref.resource == CONFIG_MAPS}
    assert names == {build_report_name("job")}


@pytest.mark.parametrize(("code", "phase"), [(0, "Succeeded"), (1, "Failed")])
def test_a_command_that_has_ended_by_itself_is_judged_by_that(code: int, phase: str) -> None:
    world = start()
    assert world.report is not None
    world.report = replace(world.report, ended=code, is_told_to_end=False)
    say(world, "n2", AT_ONCE)
    world.settle()
    assert not is_moved(world), "its pod ends by itself"
    world.finish(code)
    world.settle()
    assert world.phase() == phase


def test_one_that_is_yet_to_start_is_moved_from_where_it_was_put() -> None:
    world = ModelWorld(make_job(2))
    world.nodes["n3"] = Node("n3")
    world.settle()
    world.put(LAUNCHER, node="n2")
    say(world, "n2", AT_ONCE)
    world.settle()
    world.wait(10)
    world.settle()
    assert LAUNCHER not in world.pods
    assert SECOND in world.pods


def test_one_without_a_node_stays() -> None:
    world = ModelWorld(make_job(2))
    say(world, "n2", AT_ONCE)
    world.settle()
    world.wait(3600)
    world.settle()
    assert LAUNCHER in world.pods


def suspend(world: ModelWorld) -> None:
    world.edit(suspend=True)


def wait_in_queue(world: ModelWorld) -> None:
    world.job = replace(world.job, admission=Admission(2, AdmissionState.WAITING))


@pytest.mark.parametrize(("hold", "queue"), [(suspend, ""), (wait_in_queue, "q")])
def test_a_job_that_is_held_is_not_moved_and_goes_on_as_it_would(
    hold: Callable[[ModelWorld], None], queue: str
) -> None:
    world = ModelWorld(make_job(2, queue=queue))
    world.nodes["n3"] = Node("n3")
    world.settle()
    if queue:
        world.job = replace(world.job, admission=Admission(1, AdmissionState.ADMITTED, workers=2))
    world.start()
    world.put(LAUNCHER, node="n2")
    hold(world)
    say(world, "n2", AT_ONCE)
    world.settle()
    assert told(world, "LauncherMoved") == []
    assert is_moved(world), "for all its pods end"
    assert world.status.launcher_move is None


def test_one_that_hangs_and_is_replaced_for_that_is_none_that_was_moved() -> None:
    world = start(stall_policy=StallPolicy.RESTART)
    assert world.report is not None
    world.report = replace(world.report, problems={DRIVER_STALLED: "it hangs"})
    world.settle()
    world.wait(60)
    say(world, "n2", AT_ONCE)
    world.settle()
    assert world.status.epoch == 2
    assert told(world, "LauncherMoved") == []


def test_a_job_that_is_suspended_meanwhile_begins_anew_as_any_other() -> None:
    world = start()
    say(world, "n2", AT_ONCE)
    world.settle()
    assert is_moved(world)
    suspend(world)
    world.settle()
    end_launcher(world)
    world.reap()
    world.edit(suspend=False)
    assert list_kept_off(find_launcher(world, SECOND)) == []


def test_a_job_in_a_queue_is_moved_within_what_it_was_given() -> None:
    world = ModelWorld(make_job(2, queue="q"))
    world.nodes["n3"] = Node("n3")
    world.settle()
    world.job = replace(world.job, admission=Admission(1, AdmissionState.ADMITTED, workers=2))
    world.start()
    world.put(LAUNCHER, node="n2")
    say(world, "n2", AT_ONCE)
    world.settle()
    end_launcher(world)
    assert list_kept_off_by(world, SECOND) == "n2"
    assert len(world.workers) == 2
    assert world.condition("Suspended") != "True"


def test_a_scaling_goes_on_with_the_next_launcher() -> None:
    world = start(2)
    world.add(make_scaling(ScalingKind.OUT, "more", count=1, created=world.now))
    world.settle()
    say(world, "n2", AT_ONCE)
    world.settle()
    end_launcher(world)
    for _ in range(4):
        world.run(node="n3")
        world.settle()
        world.serve()
        world.settle()
        world.wait(10)
    assert world.scaling_phase("more") == "ScaleSucceeded"
    assert len(world.workers) == 3


def test_it_leaves_with_a_worker_of_its_node_and_one_restart_is_all() -> None:
    world = start()
    world.put("job-worker-2", node="n2")
    say(world, "n2", leave_in(world, 120))
    world.settle()
    world.run("job-worker-3", node="n3")
    world.settle()
    world.wait(100)
    world.settle()
    assert is_moved(world)
    end_launcher(world)
    for _ in range(4):
        world.run(node="n3")
        world.settle()
        world.serve()
        world.settle()
        world.reap()
        world.wait(10)
    assert world.workers == ["job-worker-0", "job-worker-1", "job-worker-3"]
    assert (world.status.epoch, len(told(world, "LauncherMoved"))) == (2, 1)


def test_by_a_clock_that_is_behind_it_goes_on_for_so_long() -> None:
    world = start()
    say(world, "n2", leave_in(world, 120))
    world.settle()
    world.now -= timedelta(minutes=20)
    world.settle()
    assert not is_moved(world)
    world.now += timedelta(minutes=20, seconds=100)
    world.settle()
    assert is_moved(world)


def test_of_nodes_that_are_not_heard_of_nothing_is_concluded() -> None:
    world = start()
    say(world, "n2", leave_in(world, 30))
    world.settle()
    world.are_nodes_known = False
    world.wait(100)
    world.settle()
    assert not is_moved(world)
    assert "nothing is heard of nodes at the moment" in find_words(world)
    assert world.requeue_after is not None
    world.are_nodes_known = True
    world.settle()
    assert is_moved(world)


# ------------------------------------------------------------------ where
def list_kept_off_by(world: ModelWorld, name: str) -> str:
    return world.pods[name].avoids


def test_the_next_one_is_kept_off_all_nodes_that_end_and_the_one_after_it_prefers_others() -> None:
    world = start()
    world.nodes["n4"] = Node("n4", notice=AT_ONCE, hostname="host-4")
    say(world, "n2", AT_ONCE)
    world.settle()
    world.finish(143, is_told_to_end=True)
    world.settle()
    world.wait(2)
    second = find_launcher(world, SECOND)
    assert list_kept_off(second) == [["host-4", "n2"]]
    assert second["metadata"]["annotations"][ANNOTATION_AVOIDS] == "n2,n4"
    world.run(SECOND, node="n3")
    world.end(SECOND, 143, deletion_requested=world.now)
    world.settle()
    world.wait(10)
    third = find_launcher(world, THIRD)
    assert list_kept_off(third) == []
    [_, preferred] = third["spec"]["affinity"]["nodeAffinity"][
        "preferredDuringSchedulingIgnoredDuringExecution"
    ]
    [expression] = preferred["preference"]["matchExpressions"]
    assert expression == {"key": HOSTNAME, "operator": "NotIn", "values": ["host-4", "n2"]}


def test_no_template_says_what_a_launcher_keeps_off() -> None:
    template = make_template(command=["horovodrun"])
    template["metadata"] = {"annotations": {ANNOTATION_AVOIDS: "n2"}}
    job = make_job(1)
    assert job.spec is not None
    world = ModelWorld(replace(job, spec=replace(job.spec, launcher_template=template)))
    world.settle()
    assert list_kept_off_by(world, LAUNCHER) == ""


def test_one_that_finds_no_node_so_is_made_anew_and_may_go_anywhere() -> None:
    world = start()
    say(world, "n2", AT_ONCE)
    world.settle()
    end_launcher(world)
    world.wait(170)
    world.settle()
    assert SECOND in world.pods
    world.wait(20)
    world.settle()
    world.wait(10)
    third = find_launcher(world, THIRD)
    assert list_kept_off(third) == []
    [message] = told(world, "LauncherReplaced")
    assert "job-launcher-r1 has found no node but those that are said to end" in message
    world.run(THIRD, node="n2")
    world.wait(600)
    world.settle()
    assert not is_moved(world, THIRD), "it was put there in spite of that"
    assert "so it stays until its node ends" in find_words(world)
    assert world.requeue_after is None


def test_of_one_that_is_made_anew_it_is_told_once_however_often_its_deletion_is_refused() -> None:
    world = start()
    say(world, "n2", AT_ONCE)
    world.settle()
    end_launcher(world)
    assert SECOND in world.pods
    world.wait(200)
    first = plan(world.snapshot(), world.now)
    [delete] = [action for action in first.actions if isinstance(action, Delete)]
    assert [event.reason for event in first.events] == ["LauncherReplaced"]
    refusal = Refusal("no", 1, world.now, world.job.generation, SECOND, is_deletion=True)
    world.refusals[delete.subject] = refusal
    second = plan(world.snapshot(), world.now)
    assert [event.reason for event in second.events] == ["WritesRefused"]


@pytest.mark.parametrize("minutes", [-30, 30])
def test_by_a_wrong_clock_it_has_its_time_to_find_one_as_well(minutes: int) -> None:
    world = start()
    say(world, "n2", AT_ONCE)
    world.settle()
    world.finish(143, is_told_to_end=True)
    world.settle()
    world.reap()
    world.wait(2)
    find_launcher(world, SECOND)
    created = world.pods[SECOND].created + timedelta(minutes=minutes)
    world.put(SECOND, created=created)
    world.settle()
    world.wait(170)
    world.settle()
    assert not is_moved(world, SECOND)
    world.wait(20 + max(minutes, 0) * 60)
    world.settle()
    assert is_moved(world, SECOND)


def test_why_it_finds_none_is_told_of_one_that_is_bound_alone() -> None:
    world = start()
    say(world, "n2", AT_ONCE)
    world.settle()
    end_launcher(world)
    for name, is_bound in ((SECOND, True), (THIRD, False)):
        words = "0/3 nodes are available: 3 node(s) had untolerated taint {a: b}."
        world.put(name, unschedulable_message=words)
        world.wait(15)
        world.settle()
        assert ("it keeps off n2" in world.message("Unschedulable")) == is_bound
        world.wait(200)
        world.settle()
        world.wait(10)
        world.settle()


def test_where_every_node_is_said_to_end_it_stays_until_one_does_not() -> None:
    world = start()
    for node in world.nodes:
        say(world, node, leave_in(world, 30))
    world.settle()
    world.wait(60)
    world.settle()
    assert not is_moved(world)
    assert "that is said of every node, so it stays until its own ends" in find_words(world)
    assert world.requeue_after is not None, "nobody tells of a node that comes"
    assert world.requeue_after <= timedelta(seconds=30)
    world.nodes["n4"] = Node("n4")
    world.wait(30)
    world.settle()
    assert is_moved(world)


def test_a_word_about_the_next_node_moves_it_again_and_one_that_it_knew_does_not() -> None:
    world = start()
    for node, name in (("n2", FIRST), ("n3", SECOND)):
        say(world, node, AT_ONCE)
        world.settle()
        assert is_moved(world, name)
        world.put(name, termination=None)
        end_launcher(world)
        world.wait(10)
        world.settle()
        world.run(world.launcher.name if world.launcher else "", node="n3")
        world.settle()
    assert list_kept_off_by(world, THIRD) == "n2,n3"
    assert world.pods[THIRD].node == "n3", "nothing has kept it off"
    world.wait(3600)
    world.settle()
    assert not is_moved(world, THIRD)


@pytest.mark.long
def test_where_not_all_that_end_can_be_named_a_young_one_stays_for_ten_minutes() -> None:
    world = start()
    for number in range(MAX_NODES + 10):
        world.nodes[f"a{number:03}"] = Node(f"a{number:03}", notice=AT_ONCE)
    say(world, "n2", AT_ONCE)
    world.settle()
    end_launcher(world)
    last = f"a{MAX_NODES + 9:03}"
    world.run(SECOND, node=last)
    world.settle()
    assert last not in list_kept_off_by(world, SECOND).split(",")
    world.wait(500)
    world.settle()
    assert not is_moved(world, SECOND)
    world.wait(110)
    world.settle()
    assert is_moved(world, SECOND)


@pytest.mark.long
@pytest.mark.parametrize("answers", [True, False])
def test_and_so_it_does_whatever_its_script_does(answers: bool) -> None:
    world = start(notice_script=SCRIPT)
    for number in range(MAX_NODES + 10):
        world.nodes[f"a{number:03}"] = Node(f"a{number:03}", notice=AT_ONCE)
    say(world, "n2", AT_ONCE)
    world.settle()
    answer(world, 0)
    end_launcher(world)
    world.run(SECOND, node=f"a{MAX_NODES + 9:03}")
    world.settle()
    world.serve()
    world.settle()
    if answers:
        answer(world, 0)
    world.wait(500)
    world.settle()
    assert not is_moved(world, SECOND)
    world.wait(110)
    world.settle()
    assert is_moved(world, SECOND)


def say_of_pod(world: ModelWorld, pod: Pod) -> None:
    """Somebody says it of each launcher that comes, as a policy of the namespace may."""
    world.put(pod.name, notice=AT_ONCE)


def say_of_its_node(world: ModelWorld, pod: Pod) -> None:
    """It is said of each node on which one is, and of no other any more."""
    for name in world.nodes:
        say(world, name, AT_ONCE if name == pod.node else None)


def say_by_a_clock_that_is_behind(world: ModelWorld, pod: Pod) -> None:
    """The server, which says when a launcher was made, is half an hour ahead of ours."""
    if pod.notice is None:
        world.put(pod.name, notice=AT_ONCE, created=pod.created + timedelta(minutes=30))


def say_by_a_clock_that_is_ahead(world: ModelWorld, pod: Pod) -> None:
    """The same, and it is half an hour behind."""
    if pod.notice is None:
        world.put(pod.name, notice=AT_ONCE, created=pod.created - timedelta(minutes=30))


def follow(world: ModelWorld, tell: Callable[[ModelWorld, Pod], None], minutes: int) -> int:
    """Something is said for so long of each launcher that comes; how many are moved."""
    end, before = world.now + timedelta(minutes=minutes), len(told(world, "LauncherMoved"))
    while world.now < end:
        pod = world.launcher
        if pod is not None and pod.is_deleting and not pod.has_ended:
            world.finish(143, is_told_to_end=True)
            world.settle()
            world.reap()
        elif pod is not None and pod.phase == "Pending":
            world.run(pod.name, node=f"n{3 - (pod.epoch or 0) % 2}")
        elif pod is not None and not pod.has_ended:
            tell(world, pod)
        world.wait(5)
        world.settle()
        world.serve()
        world.settle()
    return len(told(world, "LauncherMoved")) - before


@pytest.mark.long
@pytest.mark.parametrize("script", [None, NoticeScript("/job/save.sh", timedelta(seconds=5))])
@pytest.mark.parametrize(
    "tell",
    [
        say_of_pod,
        say_of_its_node,
        say_by_a_clock_that_is_behind,
        say_by_a_clock_that_is_ahead,
    ],
)
def test_who_is_told_of_an_end_wherever_it_comes_is_soon_moved_each_ten_minutes_alone(
    tell: Callable[[ModelWorld, Pod], None], script: NoticeScript | None
) -> None:
    world = start(notice_script=script)
    assert follow(world, tell, 12) <= QUICK + 2
    assert follow(world, tell, 30) <= 3


@pytest.mark.long
def test_one_that_has_trained_for_long_is_moved_at_once_whatever_was_before() -> None:
    world = start()
    follow(world, say_of_pod, 12)
    pod = world.launcher
    assert pod is not None
    world.put(pod.name, notice=None)
    world.settle()
    world.wait(1300)
    world.settle()
    assert follow(world, say_of_pod, 5) == QUICK + 1


@pytest.mark.parametrize("lost", ["launcher_move", "all"])
def test_without_its_record_the_next_one_comes_all_the_same(lost: str) -> None:
    world = start()
    say(world, "n2", AT_ONCE)
    world.settle()
    assert is_moved(world)
    if lost == "launcher_move":
        status = replace(world.status, launcher_move=None)
    else:
        status = replace(type(world.status)(), epoch=1, launcher_uid=world.status.launcher_uid)
    world.job = replace(world.job, status=status)
    end_launcher(world)
    world.wait(10)
    world.settle()
    assert world.status.epoch == 2
    assert world.phase() != "Failed"


def test_what_is_said_and_by_whom_is_remembered_within_bounds() -> None:
    world = start()
    node = "n" * 250
    world.nodes[node] = Node(node, notice=replace(AT_ONCE, reason="r" * 128, source="s" * 300))
    world.put(LAUNCHER, node=node)
    world.settle()
    move = world.status.launcher_move
    assert move is not None
    assert len(move.reason) <= 192
    assert move.at >= START


# ------------------------------------------------------------------ its script
SCRIPT = NoticeScript("/job/save.sh", timedelta(seconds=50))


def find_orders(world: ModelWorld) -> list[ScriptOrder]:
    assert world.config is not None
    return list(world.config.scripts)


def answer(world: ModelWorld, code: int | None, output: str = "") -> None:
    """The script that was ordered has ended."""
    [order] = find_orders(world)
    assert world.report is not None
    results = {**world.report.scripts, order.id: ScriptResult(code, output)}
    world.report = replace(world.report, scripts=results)
    world.settle()


def test_its_script_runs_once_and_when_it_has_ended_the_launcher_ends() -> None:
    world = start(notice_script=SCRIPT)
    say(world, "n2", leave_in(world, 120))
    world.settle()
    [order] = find_orders(world)
    pod = world.pods[LAUNCHER]
    assert order == ScriptOrder(
        id=f"notice/{pod.uid}/2026-01-01T13:00:01.123456Z",
        script="/job/save.sh",
        hosts=LAUNCHER,
        env=((ENV_DEADLINE, str(int(world.now.timestamp()) + 120)),),
        timeout_seconds=50,
        is_shell=False,
    )
    assert "spec.noticeScript runs" in told(world, "NoticeScript")[0]
    assert "; once spec.noticeScript has ended, or at 2026-01-01T13:01:41Z it ends" in find_words(
        world
    )
    world.wait(30)
    world.settle()
    assert not is_moved(world)
    answer(world, 0)
    assert is_moved(world)
    assert find_orders(world) == []
    assert told(world, "ScriptFailed") == []


def test_whatever_it_does_the_launcher_ends_at_its_moment() -> None:
    world = start(notice_script=SCRIPT)
    say(world, "n2", leave_in(world, 120))
    world.settle()
    world.wait(100)
    world.settle()
    assert is_moved(world)
    [message] = told(world, "LauncherMoved")
    assert "it ends now, before spec.noticeScript has ended, and another" in message


@pytest.mark.parametrize("code", [7, None])
def test_a_script_that_fails_changes_nothing_but_is_told(code: int | None) -> None:
    world = start(notice_script=SCRIPT)
    say(world, "n2", leave_in(world, 120))
    world.settle()
    answer(world, code, "no room\n")
    assert is_moved(world)
    [message] = told(world, "ScriptFailed")
    assert message == f"spec.noticeScript ended with exit code {code or 124}: no room"


def end_command(world: ModelWorld, code: int) -> None:
    """The command ends, and nobody had sent it SIGTERM from outside; then its pod."""
    assert world.report is not None
    world.report = replace(world.report, ended=code, is_told_to_end=False)
    world.settle()
    world.finish(code)
    world.settle()


@pytest.mark.parametrize("code", [0, 1, 143])
@pytest.mark.parametrize("has_answered", [False, True])
def test_a_script_may_have_the_command_save_and_end(code: int, *, has_answered: bool) -> None:
    world = start(notice_script=SCRIPT, restart_policy=RestartPolicy.NEVER, backoff_limit=0)
    say(world, "n2", leave_in(world, 300))
    world.settle()
    if has_answered:
        answer(world, 0)
        assert is_moved(world)
    end_command(world, code)
    world.wait(2)
    assert list_kept_off(find_launcher(world, SECOND)) == [["n2"]]
    assert (world.status.epoch, world.phase()) == (2, "Restarting")
    assert world.status.failures == Failures(user=0, infrastructure=1)
    assert find_orders(world) == []


@pytest.mark.parametrize("seconds", [1, 59])
def test_so_it_may_where_the_word_is_taken_back_meanwhile(seconds: int) -> None:
    world = start(notice_script=SCRIPT)
    say(world, "n2", leave_in(world, 300))
    world.settle()
    say(world, "n2", None)
    world.wait(seconds)
    world.settle()
    assert find_orders(world) == []
    end_command(world, 0)
    assert (world.status.epoch, world.phase()) == (2, "Restarting")


def test_so_it_may_where_the_job_is_suspended_meanwhile() -> None:
    world = start(notice_script=SCRIPT)
    say(world, "n2", leave_in(world, 300))
    world.settle()
    world.edit(suspend=True)
    world.step()
    end_command(world, 0)
    world.reap()
    world.settle()
    assert world.phase() == "Suspended"
    world.edit(suspend=False)
    world.wait(60)
    world.settle()
    assert (world.status.epoch, SECOND in world.pods) == (2, True)
    world.run(SECOND, node="n3")
    world.settle()
    world.serve()
    world.settle()
    end_command(world, 0)
    assert world.phase() == "Succeeded"


def test_a_word_that_comes_and_goes_runs_it_once_while_it_has_its_time() -> None:
    world = start(notice_script=SCRIPT)
    word = leave_in(world, 300)
    say(world, "n2", word)
    world.settle()
    [order] = find_orders(world)
    for _ in range(5):
        for notice in (None, word):
            say(world, "n2", notice)
            world.wait(5)
            world.settle()
    assert find_orders(world) == [order]
    assert len(told(world, "NoticeScript")) == 1
    answer(world, 0)
    assert is_moved(world)


@pytest.mark.parametrize("answers", [False, True])
def test_in_a_launcher_that_stays_it_has_its_time_and_then_all_is_the_commands_own(
    *, answers: bool
) -> None:
    for seconds, phase in ((50, "Restarting"), (61, "Succeeded")):
        world = start(notice_script=SCRIPT)
        world.put(LAUNCHER, avoids="n2")
        say(world, "n2", leave_in(world, 300))
        world.settle()
        if answers:
            answer(world, 0)
        world.wait(seconds)
        world.settle()
        assert not is_moved(world)
        end_command(world, 0)
        assert world.phase() == phase


def test_of_a_script_that_has_ended_a_long_time_is_not_waited_for() -> None:
    world = start(notice_script=replace(SCRIPT, timeout=timedelta(hours=1)))
    world.put(LAUNCHER, avoids="n2")
    say(world, "n2", AT_ONCE)
    world.settle()
    answer(world, 1)
    world.wait(600)
    world.settle()
    assert len(told(world, "ScriptFailed")) == 1
    end_command(world, 0)
    assert world.phase() == "Succeeded"


@pytest.mark.long
def test_a_script_of_half_an_hour_may_have_the_command_end_when_it_ends_itself() -> None:
    """In a launcher that stays; the command ends within seconds, and is asked for no sooner."""
    for seconds, phase in ((5, "Restarting"), (599, "Restarting"), (600, "Succeeded")):
        world = start(notice_script=replace(SCRIPT, timeout=timedelta(hours=1)))
        world.put(LAUNCHER, avoids="n2")
        say(world, "n2", AT_ONCE)
        world.settle()
        for _ in range(30):
            world.wait(60)
            world.settle()
        answer(world, 0)
        world.wait(seconds)
        world.settle()
        end_command(world, 0)
        assert world.phase() == phase


@pytest.mark.parametrize("is_taken_back", [False, True])
def test_so_it_may_where_the_launcher_is_to_stay_just_as_it_was_to_end(
    *, is_taken_back: bool
) -> None:
    world = start(notice_script=SCRIPT)
    say(world, "n2", leave_in(world, 300))
    world.settle()
    decide_end(world)
    for node in world.nodes if not is_taken_back else ["n2"]:
        say(world, node, None if is_taken_back else AT_ONCE)
    world.settle()
    assert not is_moved(world)
    end_command(world, 0)
    assert (world.status.epoch, world.phase()) == (2, "Restarting")


@pytest.mark.parametrize("seconds", [1, 69])
def test_so_it_may_where_its_end_is_seen_before_its_broker_is_heard(seconds: int) -> None:
    world = start(notice_script=SCRIPT)
    if seconds > 1:
        world.put(LAUNCHER, avoids="n2")
    say(world, "n2", leave_in(world, 300))
    world.settle()
    world.wait(seconds)
    if seconds == 1:
        decide_end(world)
    end = Termination(0, "Completed", finished=world.now)
    world.put(LAUNCHER, is_container_running=False, termination=end)
    world.settle()
    world.wait(2)
    world.settle()
    assert world.report is not None
    world.report = replace(world.report, ended=0, is_told_to_end=False)
    world.settle()
    assert (world.status.epoch, world.phase()) == (2, "Restarting")


def decide_end(world: ModelWorld) -> None:
    """Its script has ended, and so is the launcher to; it is not told yet."""
    [order] = find_orders(world)
    assert world.report is not None
    world.report = replace(world.report, scripts={order.id: ScriptResult(0, "")})
    world.step()
    assert world.status.launcher_move is not None
    assert world.status.launcher_move.at is not None
    assert not is_moved(world)


@pytest.mark.long
def test_a_script_that_ends_each_launcher_that_stays_runs_in_four_in_a_row() -> None:
    world = start(notice_script=SCRIPT)
    for node in world.nodes:
        say(world, node, AT_ONCE)
    world.settle()
    for number in range(QUICK + 1):
        assert len(find_orders(world)) == 1
        end_command(world, 0)
        world.wait(10)
        world.settle()
        world.run(f"{LAUNCHER}-r{number + 1}", node="n2")
        world.settle()
        world.serve()
        world.settle()
    assert find_orders(world) == []
    end_command(world, 0)
    assert world.phase() == "Succeeded"


def test_where_nobody_says_when_it_has_its_time() -> None:
    world = start(notice_script=SCRIPT)
    say(world, "n2", AT_ONCE)
    world.settle()
    [order] = find_orders(world)
    assert order.env == ((ENV_DEADLINE, ""),)
    assert_moved_after(world, 60)


def test_where_no_time_is_left_the_launcher_ends_without_it() -> None:
    world = start(notice_script=SCRIPT)
    say(world, "n2", leave_in(world, 15))
    world.settle()
    assert is_moved(world)
    assert "before spec.noticeScript has run" in told(world, "LauncherMoved")[0]
    assert told(world, "NoticeScript") == []


def test_it_runs_ten_minutes_ahead_at_the_earliest() -> None:
    world = start(notice_script=SCRIPT)
    say(world, "n2", leave_in(world, 3600))
    world.settle()
    world.wait(3600 - 620 - 1)
    world.settle()
    assert find_orders(world) == []
    world.wait(1)
    world.settle()
    assert len(find_orders(world)) == 1


def test_two_words_run_it_once_and_one_that_is_taken_back_runs_no_more() -> None:
    world = start(notice_script=SCRIPT)
    first, second = leave_in(world, 120), replace(AT_ONCE, deadline=leave_in(world, 90).deadline)
    say(world, "n2", first)
    world.settle()
    [order] = find_orders(world)
    world.nodes["n2"] = replace(world.nodes["n2"], notice=second, notices=(second, first))
    world.wait(1)
    world.settle()
    assert find_orders(world) == [order]
    world.nodes["n2"] = Node("n2")
    world.settle()
    assert find_orders(world) == []
    world.wait(600)
    world.settle()
    assert world.status.launcher_move is None
    assert not is_moved(world)
    say(world, "n2", leave_in(world, 120))
    world.settle()
    [again] = find_orders(world)
    assert again.id != order.id


def test_one_that_stays_has_it_run_too_for_nothing_else_is_left() -> None:
    world = start(notice_script=SCRIPT)
    for node in world.nodes:
        say(world, node, leave_in(world, 120))
    world.settle()
    answer(world, 0)
    world.wait(110)
    world.settle()
    assert not is_moved(world)
    assert find_orders(world) == []
    assert len(told(world, "NoticeScript")) == 1


def test_and_is_moved_at_once_when_it_has_somewhere_to_go() -> None:
    world = start(notice_script=SCRIPT)
    for node in world.nodes:
        say(world, node, leave_in(world, 120))
    world.settle()
    answer(world, 0)
    world.nodes["n4"] = Node("n4")
    world.wait(30)
    world.settle()
    assert is_moved(world)


def test_a_launcher_that_runs_nothing_yet_runs_no_script() -> None:
    world = ModelWorld(make_job(2, notice_script=SCRIPT))
    world.nodes["n3"] = Node("n3")
    world.settle()
    world.put(LAUNCHER, node="n2")
    say(world, "n2", AT_ONCE)
    world.settle()
    world.wait(10)
    world.settle()
    assert LAUNCHER not in world.pods
    assert find_orders(world) == []


def test_a_soft_word_runs_no_script() -> None:
    world = start(notice_script=SCRIPT, notice_policy=NoticePolicy.EAGER)
    say(world, "n2", CORDON)
    world.settle()
    assert find_orders(world) == []


def test_shell_text_is_run_as_such_where_the_job_allows_it() -> None:
    script = NoticeScript("save --all; sync")
    world = start(notice_script=script, scripts=ScriptRight.SHELL)
    say(world, "n2", leave_in(world, 120))
    world.settle()
    [order] = find_orders(world)
    assert (order.script, order.is_shell) == ("save --all; sync", True)


def test_without_it_from_then_on_it_is_not_waited_for() -> None:
    world = start(notice_script=SCRIPT)
    say(world, "n2", leave_in(world, 120))
    world.settle()
    world.edit(notice_script=None)
    world.settle()
    assert find_orders(world) == []
    assert is_moved(world)


def test_while_a_scalings_script_runs_both_are_ordered() -> None:
    world = start(2, notice_script=SCRIPT)
    scaling = make_scaling(
        ScalingKind.OUT, "more", count=1, created=world.now, script="/job/announce.sh"
    )
    world.add(scaling)
    for _ in range(3):
        world.settle()
        world.run(node="n1")
        world.settle()
        world.serve()
    world.settle()
    say(world, "n2", leave_in(world, 120))
    world.settle()
    assert [order.script for order in find_orders(world)] == ["/job/announce.sh", "/job/save.sh"]
