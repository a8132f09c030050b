from __future__ import annotations

import time
from dataclasses import replace
from datetime import timedelta

import pytest

from et_contract.documents import ScriptResult
from et_kube.resources import PODS, TRAINING_JOBS
from et_operator.model.actions import AnswerScaling, Delete, SetReplicas
from et_operator.model.names import ANNOTATION_APPLIED_SCALING
from et_operator.model.phases import ScalingPhase
from et_operator.model.plans import Plan
from et_operator.model.pods import Node
from et_operator.model.specs import ScriptRight
from et_operator.model.statuses import Leaving, ScalingKind, WorkerState
from et_operator.planning.answering import plan_orphan
from et_operator.planning.leaving import CERTAIN_AFTER
from et_operator.planning.scripting import find_script_refusal
from tests.planning_makers import CORDON, START, ModelWorld, make_job, make_scaling

IN, OUT = ScalingKind.IN, ScalingKind.OUT


def start(replicas: int = 4, **spec: object) -> ModelWorld:
    world = ModelWorld(make_job(replicas, **spec))
    world.start()
    world.wait(20)
    return world


# ------------------------------------------------------------------ the plain path
def test_scale_out_adds_workers_and_succeeds_when_they_are_listed() -> None:
    world = start(2)
    world.add(make_scaling(OUT, "more", count=2))
    world.settle()
    assert world.replicas == 4
    assert world.job.annotations[ANNOTATION_APPLIED_SCALING] == "more-uid"
    assert world.phase() == "Scaling"
    world.run()
    world.settle()
    assert world.scaling_phase("more") == "Scaling"
    world.serve()
    world.settle()
    assert world.scaling_phase("more") == "ScaleSucceeded"
    status = world.scalings["more-uid"].status
    assert status.add_pods == ("job-worker-2", "job-worker-3")
    assert status.job_uid == "job-uid"
    assert [c.type for c in status.conditions] == ["Created", "Scaling", "ScaleSucceeded"]
    assert world.status.scaling is None
    assert world.phase() == "Running"


def test_scale_in_drains_before_it_deletes() -> None:
    world = start(3)
    world.add(make_scaling(IN, "less", count=1))
    world.settle()
    assert world.states()["job-worker-2"] == "draining"
    assert not world.pods["job-worker-2"].is_deleting
    world.serve(close=False)
    world.settle()
    assert not world.pods["job-worker-2"].is_deleting
    world.serve()
    world.settle()
    assert world.pods["job-worker-2"].is_deleting
    assert world.scaling_phase("less") == "Scaling"
    world.reap()
    world.settle()
    assert world.scaling_phase("less") == "ScaleSucceeded"
    assert world.replicas == 2
    [outcome] = world.scalings["less-uid"].status.workers
    assert outcome.result is Leaving.GRACEFUL


def test_the_decision_is_in_the_status_before_anything_follows() -> None:
    world = start(3)
    world.add(make_scaling(IN, "less", count=1))
    first = world.step()
    assert first.actions == ()
    assert world.status.scaling is not None
    assert world.status.scaling.victims[0].uid == world.pods["job-worker-2"].uid
    second = world.step()
    assert second.status is None
    assert isinstance(second.actions[0], SetReplicas)
    assert world.replicas == 2


def test_pod_names_win_over_count() -> None:
    world = start(4)
    world.add(make_scaling(IN, "less", count=3, pod_names=("job-worker-0",)))
    world.go_on()
    assert sorted(world.workers) == ["job-worker-1", "job-worker-2", "job-worker-3"]
    assert world.replicas == 3


def test_default_victims() -> None:
    world = start(5)
    world.put("job-worker-0", is_container_running=False)
    world.put("job-worker-1", node="n2")
    world.put("job-worker-2", deletion_cost=-5)
    world.nodes["n2"] = Node("n2", notice=CORDON)
    world.add(make_scaling(IN, "less", count=4))
    world.step()
    assert world.status.scaling is not None
    names = [victim.name for victim in world.status.scaling.victims]
    assert names == ["job-worker-0", "job-worker-1", "job-worker-2", "job-worker-4"]
    assert "not running" in world.status.scaling.choice
    assert "cordoned" in world.status.scaling.choice


@pytest.mark.long
@pytest.mark.parametrize("is_bare", [False, True])
@pytest.mark.parametrize(("least", "is_told"), [(3, True), (2, False), (0, False)])
def test_a_scale_in_below_what_the_command_goes_on_with_is_done_and_told(
    least: int, *, is_bare: bool, is_told: bool
) -> None:
    world = ModelWorld(make_job(4, minimum=1, command_least=least))
    world.start()
    if is_bare:
        world.edit(replicas=2)
    else:
        world.add(make_scaling(ScalingKind.IN, "less", count=2))
    world.go_on()
    assert len(world.workers) == 2
    assert (world.condition("TooFewWorkers") == "True") is is_told
    told = [event.message for event in world.events if event.reason == "TooFewWorkers"]
    assert len(told) == is_told
    assert all("--min-np" in words and "minReplicas: 3" in words for words in told)
    if not is_bare:
        end = world.scalings["less-uid"].status.conditions[-1]
        assert end.type == "ScaleSucceeded"
        assert ("goes on with 3" in end.message) is is_told
    world.edit(replicas=3)
    world.go_on()
    assert world.condition("TooFewWorkers") == ("False" if is_told else None)


def test_it_is_the_number_of_the_launcher_that_runs_which_a_scale_in_is_below() -> None:
    world = ModelWorld(make_job(4, minimum=1, command_least=2))
    world.start()
    world.edit(replicas=2, command_least=4)
    world.go_on()
    assert world.condition("TooFewWorkers") is None
    world.end("job-launcher", 137, pod_reason="Evicted")
    world.go_on()
    assert (world.status.epoch, world.condition("TooFewWorkers")) == (2, "True")


def test_an_index_is_not_used_again() -> None:
    world = start(3)
    world.add(make_scaling(IN, "less", count=2))
    world.go_on()
    world.add(make_scaling(OUT, "more", count=1))
    world.go_on()
    assert sorted(world.workers) == ["job-worker-0", "job-worker-3"]


def test_one_at_a_time_by_age() -> None:
    world = start(2)
    world.add(make_scaling(OUT, "second", count=1, created=START + timedelta(seconds=1)))
    world.add(make_scaling(OUT, "first", count=1))
    world.settle()
    assert world.scaling_phase("first") == "Scaling"
    assert world.scaling_phase("second") == "Created"
    world.go_on()
    assert world.scaling_phase("second") == "ScaleSucceeded"
    assert world.replicas == 4


def test_bare_change_of_replicas_out_and_in() -> None:
    world = start(2)
    world.edit(replicas=4)
    world.go_on()
    assert len(world.workers) == 4
    world.edit(replicas=1)
    world.settle()
    assert sorted(world.states().values()) == ["active", "draining", "draining", "draining"]
    world.go_on()
    assert world.workers == ["job-worker-0"]
    assert world.status.scaling is None
    assert ANNOTATION_APPLIED_SCALING not in world.job.annotations


# ------------------------------------------------------------------ refusals
@pytest.mark.parametrize(
    ("scaling", "reason"),
    [
        pytest.param(make_scaling(IN, "s", count=3), "BelowMin", id="below min"),
        pytest.param(make_scaling(OUT, "s", count=3), "AboveMax", id="above max"),
        pytest.param(make_scaling(IN, "s", pod_names=("who",)), "UnknownPods", id="unknown"),
        pytest.param(make_scaling(IN, "s", invalid="spec: no"), "InvalidSpec", id="invalid"),
    ],
)
def test_refused(scaling: object, reason: str) -> None:
    world = start(4, minimum=2, maximum=6)
    world.add(scaling)  # type: ignore[arg-type]
    world.go_on(1)
    assert world.scaling_phase("s") == "ScaleFailed"
    assert world.scaling_reason("s") == reason
    assert world.replicas == 4
    assert len(world.workers) == 4
    assert world.status.scaling is None


def test_a_refused_scaling_lets_the_next_one_go() -> None:
    world = start(2)
    world.add(make_scaling(IN, "bad", count=2))
    world.add(make_scaling(OUT, "good", count=1, created=START + timedelta(seconds=1)))
    world.go_on()
    assert world.scaling_phase("bad") == "ScaleFailed"
    assert world.scaling_phase("good") == "ScaleSucceeded"


def test_a_finished_job_is_not_scaled() -> None:
    world = start(2)
    world.finish(0)
    world.settle()
    world.add(make_scaling(OUT, "late", count=1))
    world.settle()
    assert world.scaling_reason("late") == "JobFinished"


def test_a_job_created_again_under_the_name_is_not_scaled() -> None:
    world = start(2)
    scaling = make_scaling(OUT, "old", count=1)
    world.add(replace(scaling, status=replace(scaling.status, job_uid="former")))
    world.settle()
    assert world.scaling_reason("old") == "JobReplaced"
    assert world.replicas == 2


def test_a_terminal_scaling_is_never_started() -> None:
    world = start(2)
    world.add(make_scaling(OUT, "more", count=1))
    world.go_on()
    writes = world.writes
    world.go_on(2)
    assert world.writes == writes
    assert world.replicas == 3


def test_ttl_deletes_the_scaling() -> None:
    world = start(2)
    world.add(make_scaling(OUT, "more", count=1, ttl_after_finished=timedelta(seconds=60)))
    world.go_on()
    world.wait(60)
    world.settle()
    assert world.scalings == {}


def test_by_a_clock_that_may_be_wrong_its_ttl_is_not_over() -> None:
    """Whoever waits for what became of it would find nothing."""
    world = start(2)
    scaling = make_scaling(OUT, "more", count=1, ttl_after_finished=timedelta(seconds=60))
    world.add(scaling)
    world.go_on()
    [ended] = world.scalings.values()
    assert ended.status.phase is not None
    assert ended.status.phase.is_final
    world.wait(3600)
    world.complete_since = world.now  # see state/coverage.py
    world.settle()
    assert world.scalings
    assert plan_orphan(ended, world.now, world.now) == Plan(requeue_after=CERTAIN_AFTER)
    world.wait(60)
    world.settle()
    assert not world.scalings


def test_a_scaling_without_a_job_fails_after_thirty_seconds() -> None:
    scaling = make_scaling(OUT, "lost", count=1)
    later = START + timedelta(seconds=100)
    assert plan_orphan(scaling, START, None) == Plan()
    waiting = plan_orphan(scaling, later + timedelta(seconds=10), later)
    assert waiting == Plan(requeue_after=timedelta(seconds=20))
    refused = plan_orphan(scaling, later + timedelta(seconds=30), later)
    [answer] = refused.actions
    assert isinstance(answer, AnswerScaling)
    assert refused.events[0].reason == "JobNotFound"
    assert answer.status.phase is ScalingPhase.FAILED
    assert answer.status.conditions[-1].type == "ScaleFailed"


# ------------------------------------------------------------------ stops
def test_cancelled_scale_out_keeps_the_listed_and_lets_the_others_go() -> None:
    world = start(2)
    scaling = world.add(make_scaling(OUT, "more", count=2))
    world.settle()
    world.run("job-worker-2")
    world.wait(2)
    world.settle()
    world.serve()
    world.settle()
    del world.scalings[scaling.uid]
    world.go_on(1)
    assert world.replicas == 3
    assert sorted(world.workers) == ["job-worker-0", "job-worker-1", "job-worker-2"]
    assert world.status.scaling is None


def test_cancelled_before_the_number_was_written_changes_nothing() -> None:
    world = start(2)
    scaling = world.add(make_scaling(OUT, "more", count=2))
    world.step()
    del world.scalings[scaling.uid]
    world.settle()
    assert world.replicas == 2
    assert len(world.workers) == 2
    assert ANNOTATION_APPLIED_SCALING not in world.job.annotations


def test_cancelled_scale_in_finishes_what_was_draining() -> None:
    world = start(3)
    scaling = world.add(make_scaling(IN, "less", count=1))
    world.settle()
    del world.scalings[scaling.uid]
    world.go_on()
    assert world.replicas == 2
    assert len(world.workers) == 2
    assert world.status.last_worker_index == 2


def test_cancelled_scale_in_keeps_workers_that_no_config_named_draining() -> None:
    world = start(3)
    scaling = world.add(make_scaling(IN, "less", count=1))
    world.step()
    del world.scalings[scaling.uid]
    world.go_on()
    assert world.replicas == 3
    assert len(world.workers) == 3
    assert world.status.last_worker_index == 2
    assert set(world.states().values()) == {"active"}


def test_scale_out_is_stopped_at_its_timeout() -> None:
    world = start(2)
    world.add(make_scaling(OUT, "more", count=2, timeout=timedelta(seconds=30)))
    world.settle()
    assert world.requeue_after is not None
    world.wait(30)
    world.settle()
    assert world.scaling_reason("more") == "TimedOut"
    assert world.replicas == 2
    assert len(world.workers) == 2


def test_the_newest_number_supersedes() -> None:
    world = start(2)
    world.add(make_scaling(OUT, "more", count=2))
    world.settle()
    world.edit(replicas=3)
    world.go_on()
    assert world.scaling_reason("more") == "Superseded"
    assert world.replicas == 3
    assert len(world.workers) == 3
    assert world.status.last_worker_index == 3


def test_superseded_before_its_own_number_was_written() -> None:
    world = start(2)
    world.add(make_scaling(OUT, "more", count=2))
    world.step()
    world.edit(replicas=5)
    world.go_on()
    assert world.scaling_reason("more") == "Superseded"
    assert world.replicas == 5
    assert len(world.workers) == 5


def test_a_number_that_climbs_throws_nothing_away_that_is_starting() -> None:
    world = start(2, minimum=1)
    for number in (10, 11, 13):
        world.edit(replicas=number)
        world.settle()
        world.wait(15)  # and no image is there yet
    assert not any(line.startswith("delete Pod") for line in world.log)
    assert world.status.last_worker_index == 12
    assert not [event for event in world.events if event.reason == "ScaleFailed"]
    assert "raised again: 2 -> 13 workers" in world.events[-1].message
    world.go_on(2)
    assert world.status.scaling is None
    assert len(world.workers) == 13
    assert len(set(world.states())) == 13


def test_a_number_that_goes_up_and_down_throws_away_no_more_than_it_falls() -> None:
    world = start(2, minimum=1)
    for number in (10, 9, 10, 9, 10):
        world.edit(replicas=number)
        world.settle()
        world.wait(15)
        world.run()  # and nobody is listed yet
        world.settle()
        world.serve(list_new=False)
        world.settle()
        world.reap()
    assert world.status.last_worker_index == 11
    assert len(world.workers) == 10
    world.go_on()
    assert world.status.scaling is None


def test_a_number_that_climbs_and_falls_again_is_superseded() -> None:
    world = start(2, minimum=1)
    for number in (10, 11, 3):
        world.edit(replicas=number)
        world.settle()
    world.go_on(2)
    assert len(world.workers) == 3
    assert world.status.decided_replicas == 3


@pytest.mark.parametrize("number", [4, 5])
def test_a_scale_out_that_a_higher_number_supersedes_leaves_its_workers_to_it(number: int) -> None:
    world = start(2)
    world.add(make_scaling(OUT, "more", count=2))
    world.settle() if number == 5 else world.step()
    names = {"job-worker-2", "job-worker-3"}
    world.edit(replicas=number)
    world.go_on()
    assert world.scaling_reason("more") == "Superseded"
    assert len(world.workers) == number
    assert names <= set(world.workers)
    assert world.status.last_worker_index == number - 1


def test_a_scale_in_counts_from_the_number_that_a_user_set_and_takes_who_is_pending() -> None:
    world = start(2)
    world.edit(replicas=3)
    world.settle()
    assert "job-worker-2" in world.workers

    world.add(make_scaling(IN, "less", count=1, created=START + timedelta(seconds=9)))
    world.go_on()

    assert world.scaling_reason("less") == "ScaleSucceeded"
    assert world.replicas == 2
    assert sorted(world.workers) == ["job-worker-0", "job-worker-1"]


def test_scale_in_never_waits_behind_a_scale_out_that_waits_for_pods() -> None:
    world = start(3)
    world.add(make_scaling(OUT, "more", count=2))
    world.settle()
    world.add(make_scaling(IN, "less", count=1, created=START + timedelta(seconds=9)))
    world.settle()
    assert world.scaling_reason("more") == "Preempted"
    world.serve()
    world.settle()
    world.reap()
    world.settle()
    assert world.scaling_phase("less") == "ScaleSucceeded"
    assert world.replicas == 2


def test_a_scale_in_that_would_be_refused_preempts_nothing() -> None:
    world = start(3)
    world.add(make_scaling(OUT, "more", count=2))
    world.settle()
    world.add(make_scaling(IN, "less", count=9, created=START + timedelta(seconds=9)))
    world.settle()
    assert world.scaling_phase("more") == "Scaling"


def test_end_of_the_job_stops_the_scaling() -> None:
    world = start(2)
    world.add(make_scaling(OUT, "more", count=2))
    world.settle()
    world.finish(0)
    world.settle()
    assert world.scaling_reason("more") == "JobFinished"
    assert world.status.scaling is None
    assert world.replicas == 2


# ------------------------------------------------------------------ workers that die meanwhile
def test_a_victim_that_dies_by_itself_is_gone() -> None:
    world = start(3)
    world.add(make_scaling(IN, "less", count=1))
    world.settle()
    world.end("job-worker-2", 1)
    world.settle()
    assert world.scaling_phase("less") == "ScaleSucceeded"
    [outcome] = world.scalings["less-uid"].status.workers
    assert outcome.result is Leaving.GONE
    assert len(world.workers) == 2


def test_a_scaling_tells_which_pods_it_has_added() -> None:
    world = start(2)
    world.add(make_scaling(OUT, "more", count=2))
    world.settle()
    assert world.status.scaling is not None
    added = {worker.name: worker.uid for worker in world.status.scaling.added}
    assert added == {name: world.pods[name].uid for name in ("job-worker-2", "job-worker-3")}


def test_an_added_worker_that_dies_is_replaced_in_its_place() -> None:
    world = start(2)
    world.add(make_scaling(OUT, "more", count=1))
    world.settle()
    world.end("job-worker-2", 1)
    world.go_on()
    assert world.scaling_phase("more") == "ScaleSucceeded"
    assert world.scalings["more-uid"].status.add_pods == ("job-worker-3",)
    assert len(world.workers) == 3


def test_a_launcher_that_dies_while_workers_drain_lets_them_go() -> None:
    world = start(3)
    world.add(make_scaling(IN, "less", count=1))
    world.settle()
    world.serve(close=False)
    world.end("job-launcher", 137, pod_reason="Evicted")
    world.settle()
    assert world.pods["job-worker-2"].is_deleting
    world.go_on()
    assert world.scaling_phase("less") == "ScaleSucceeded"
    assert world.phase() == "Running"


def test_a_worker_that_never_leaves_is_forced_after_the_drain_timeout() -> None:
    world = start(3, drain_timeout=timedelta(seconds=100))
    world.add(make_scaling(IN, "less", count=1))
    world.settle()
    world.wait(50)
    world.serve(close=False)
    world.settle()
    assert world.requeue_after == timedelta(seconds=100)  # counted from the list that was read
    world.wait(99)
    world.settle()
    assert not world.pods["job-worker-2"].is_deleting
    world.wait(1)
    world.settle()
    assert world.pods["job-worker-2"].is_deleting
    world.reap()
    world.settle()
    [outcome] = world.scalings["less-uid"].status.workers
    assert outcome.result is Leaving.FORCED


def test_no_drain_is_forced_soon_after_the_operator_came_back() -> None:
    world = start(3, drain_timeout=timedelta(seconds=10))
    world.add(make_scaling(IN, "less", count=1))
    world.settle()
    world.wait(1000)
    world.complete_since = world.now
    world.settle()
    assert world.requeue_after == timedelta(seconds=60)
    assert not world.pods["job-worker-2"].is_deleting


def test_a_drain_that_a_cut_watch_holds_up_is_told() -> None:
    world = start(3, drain_timeout=timedelta(seconds=10))
    world.add(make_scaling(IN, "less", count=1))
    world.settle()
    world.serve(close=False)
    world.settle()
    for _ in range(4):
        assert world.condition("DrainHeldUp") is None
        world.wait(40)
        world.complete_since = world.now  # as state/coverage.py says while a watch is cut
        world.settle()
    assert world.condition("DrainHeldUp") == "True"
    assert not world.pods["job-worker-2"].is_deleting
    told = next(event for event in world.events if event.reason == "DrainHeldUp")
    assert "job-worker-2: drainTimeoutSeconds are over" in told.message
    world.wait(61)
    world.settle()
    assert world.condition("DrainHeldUp") == "False"
    assert world.pods["job-worker-2"].is_deleting


def test_a_cut_watch_holds_up_no_drain_of_whom_somebody_deletes_already() -> None:
    world = start(3, drain_timeout=timedelta(seconds=10))
    world.delete("job-worker-2", grace=3600)
    world.settle()
    world.serve(close=False)
    world.settle()
    world.wait(600)
    world.complete_since = world.now
    world.settle()
    assert world.condition("DrainHeldUp") is None


def test_a_victim_that_was_never_a_member_goes_at_once() -> None:
    world = start(2)
    world.edit(replicas=3)
    world.settle()
    world.add(make_scaling(IN, "less", pod_names=("job-worker-2",), created=world.now))
    world.settle()
    assert "job-worker-2" not in world.workers


def _list_states(result: Plan) -> list[WorkerState]:
    return [record.state for record in result.status.workers] if result.status else []


def test_deciding_to_delete_at_once_rests_on_the_config_and_deleting_rests_on_the_job() -> None:
    world = start(2)
    world.edit(replicas=3)
    world.settle()
    world.add(make_scaling(IN, "less", pod_names=("job-worker-2",), created=world.now))
    plans = [world.step() for _ in range(4)]
    deciding = next(p for p in plans if WorkerState.LEAVING in _list_states(p))
    deleting = next(p for p in plans if any(isinstance(a, Delete) for a in p.actions))
    assert "job-config" in {ref.name for ref in deciding.premises}
    assert [(ref.resource, ref.name) for ref in deleting.premises] == [(TRAINING_JOBS, "job")]


def test_deleting_for_want_of_a_running_command_rests_on_the_launcher() -> None:
    world = start(3)
    world.add(make_scaling(IN, "less", count=1))
    world.settle()
    world.serve(close=False)
    world.pods["job-launcher"] = replace(
        world.pods["job-launcher"], is_container_running=False, has_container_started=False
    )
    plans = [world.step() for _ in range(4)]
    deleting = next(p for p in plans if any(isinstance(a, Delete) for a in p.actions))
    assert (PODS, "job-launcher") in {(ref.resource, ref.name) for ref in deleting.premises}


# ------------------------------------------------------------------ scripts
def run_script(world: ModelWorld, attempt: int, code: int | None, name: str = "s") -> None:
    assert world.config is not None
    assert world.report is not None
    order = f"{name}-uid-{attempt}"
    assert [o.id for o in world.config.scripts] == [order]
    scripts = {**world.report.scripts, order: ScriptResult(code, "said")}
    world.report = replace(world.report, scripts=scripts)


def test_the_script_of_a_scale_in_runs_between_the_list_and_the_deletion() -> None:
    world = start(3, scripts=ScriptRight.ENVIRONMENT)
    env = (("A", "b"),)
    world.add(make_scaling(IN, "s", count=1, script="/s.sh", env=env))
    world.settle()
    assert world.config is not None
    assert world.config.scripts == ()
    world.serve()
    world.settle()
    assert not world.pods["job-worker-2"].is_deleting
    [order] = world.config.scripts
    assert (order.script, order.hosts, order.env) == ("/s.sh", "job-worker-2:1", env)
    assert order.timeout_seconds == 60
    run_script(world, 1, 0)
    world.settle()
    assert world.scaling_phase("s") == "ScriptExecuted"
    assert world.pods["job-worker-2"].is_deleting
    world.reap()
    world.settle()
    assert world.scaling_phase("s") == "ScaleSucceeded"
    assert world.scalings["s-uid"].status.script_output == "said"


STEERING = [
    *("PATH", "LD_PRELOAD", "PYTHONPATH", "BASH_ENV", "ENV", "ld_preload", "BASH_FUNC_ls%%"),
    *("_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS", "LUA_INIT", "OPENSSL_CONF", "OMPI_MCA_plm_rsh_agent"),
    *("LESSOPEN", "CVS_RSH", "https_proxy"),
]


@pytest.mark.long
@pytest.mark.parametrize(
    ("script", "env", "right", "needed"),
    [
        ("/s.sh; evil", (), ScriptRight.FILES, ScriptRight.SHELL),
        ("/s.sh argument", (), ScriptRight.ENVIRONMENT, ScriptRight.SHELL),
        ("-c evil", (), ScriptRight.FILES, ScriptRight.SHELL),
        ("$(evil)", (), ScriptRight.FILES, ScriptRight.SHELL),
        ("/s.sh\nevil", (), ScriptRight.FILES, ScriptRight.SHELL),
        ("/s.sh", (("A", "b"),), ScriptRight.FILES, ScriptRight.ENVIRONMENT),
        *(("/s.sh", ((n, "x"),), ScriptRight.ENVIRONMENT, ScriptRight.SHELL) for n in STEERING),
    ],
)
def test_who_creates_scalings_runs_files_alone_unless_the_jobs_author_allows_more(
    script: str, env: tuple[tuple[str, str], ...], right: ScriptRight, needed: ScriptRight
) -> None:
    world = start(2, scripts=right)
    world.add(make_scaling(OUT, "s", count=1, script=script, env=env))
    world.settle()
    assert world.scaling_reason("s") == "ScriptRefused"
    told = world.scalings["s-uid"].status.conditions[-1].message
    assert f'kai.alibabacloud.com/scaling-scripts: "{needed}"' in told

    world.edit(scripts=needed)
    world.add(make_scaling(OUT, "t", count=1, script=script, env=env))
    world.go_on()
    assert world.config is not None
    [order] = world.config.scripts
    assert (order.script, order.env) == (script, env)
    assert order.is_shell is (needed is ScriptRight.SHELL)


@pytest.mark.parametrize(("end", "is_steering"), [("1", False), ("S", True)])
def test_a_long_name_of_a_variable_is_looked_through_once(end: str, *, is_steering: bool) -> None:
    spec = make_job(scripts=ScriptRight.ENVIRONMENT).spec
    assert spec is not None
    env = (("JAVAOPT" * 8000 + end, "x"),)
    began = time.process_time()
    refusal = find_script_refusal(spec, make_scaling(OUT, "s", count=1, script="/s.sh", env=env))
    assert time.process_time() < began + 1
    assert bool(refusal) is is_steering


def test_a_right_that_is_withdrawn_meanwhile_gives_no_order() -> None:
    world = start(2, scripts=ScriptRight.SHELL)
    world.add(make_scaling(OUT, "s", count=1, script="/s.sh; evil"))
    world.settle()
    world.edit(scripts=ScriptRight.FILES)
    world.go_on()
    assert world.config is not None
    assert world.config.scripts == ()


def test_the_script_of_a_scale_out_runs_when_the_hosts_are_listed() -> None:
    world = start(2)
    world.add(make_scaling(OUT, "s", count=1, script="/s.sh"))
    world.settle()
    world.run()
    world.settle()
    assert world.config is not None
    assert world.config.scripts == ()
    world.serve()
    world.settle()
    run_script(world, 1, 0)
    world.settle()
    assert world.scaling_phase("s") == "ScaleSucceeded"


def test_a_script_is_tried_as_often_as_its_backoff_limit_allows() -> None:
    world = start(3)
    world.add(make_scaling(IN, "s", count=1, script="/s.sh", backoff_limit=1))
    world.settle()
    world.serve()
    world.settle()
    run_script(world, 1, 5)
    world.settle()
    world.wait(10)
    world.settle()
    run_script(world, 2, None)
    world.settle()
    assert world.scaling_reason("s") == "ScriptFailed"
    world.go_on()
    assert len(world.workers) == 2  # draining is one-way
    assert world.replicas == 2


def test_a_script_without_an_answer_counts_as_failed() -> None:
    world = start(3)
    world.add(make_scaling(IN, "s", count=1, script="/s.sh"))
    world.settle()
    world.serve()
    world.settle()
    world.wait(89)
    world.settle()
    assert world.scaling_phase("s") == "Scaling"
    world.wait(1)
    world.settle()
    assert world.scaling_reason("s") == "ScriptFailed"


def evict(world: ModelWorld, name: str = "job-worker-2") -> None:
    world.delete(name)
    world.reap(name)


def start_deaf() -> ModelWorld:
    """A ScaleIn with a script whose worker goes before the broker has read that it is to leave."""
    world = start(3)
    world.add(make_scaling(IN, "s", count=1, script="/s.sh"))
    world.settle()
    evict(world)
    world.settle()
    return world


def test_a_scale_in_whose_workers_have_gone_waits_for_its_script() -> None:
    world = start_deaf()
    assert world.scaling_phase("s") == "Scaling"
    run_script(world, 1, 0)
    world.settle()
    assert world.scaling_phase("s") == "ScaleSucceeded"
    assert world.scalings["s-uid"].status.script_attempts == 1


def test_a_script_that_nobody_answers_for_is_no_success_though_the_workers_have_gone() -> None:
    world = start_deaf()
    world.wait(90)
    world.settle()
    world.go_on()
    assert world.scaling_reason("s") == "ScriptFailed"
    assert world.replicas == 2


@pytest.mark.parametrize(
    ("is_ordered", "told", "attempts"),
    [
        (False, "; its script was not run", 0),
        (True, "; whether its script has run is not known", 1),
    ],
)
def test_an_end_that_is_not_the_scripts_says_what_is_known_of_it(
    is_ordered: bool, told: str, attempts: int
) -> None:
    world = start(3)
    world.add(make_scaling(IN, "s", count=1, script="/s.sh"))
    world.settle()
    world.serve()
    world.step() if not is_ordered else world.settle()  # recorded, and not in a config yet
    assert world.status.scaling is not None
    assert world.status.scaling.script is not None
    world.edit(suspend=True)
    world.go_on()
    status = world.scalings["s-uid"].status
    assert status.conditions[-1].message.endswith(told)
    assert status.script_attempts == attempts


def test_a_scaling_of_a_suspended_job_says_that_its_script_was_not_run() -> None:
    world = start(3)
    world.edit(suspend=True)
    world.go_on()
    world.add(make_scaling(IN, "s", count=1, script="/s.sh"))
    world.go_on()
    assert world.scaling_phase("s") == "ScaleSucceeded"
    status = world.scalings["s-uid"].status
    assert status.conditions[-1].message.endswith("; its script was not run")


@pytest.mark.parametrize(
    ("is_read", "known"),
    [(True, "left the host list 600 s ago"), (False, "was to leave the host list 600 s ago")],
)
def test_a_worker_that_is_ended_by_force_is_told_with_what_is_known_of_it(
    is_read: bool, known: str
) -> None:
    world = start(3)
    world.add(make_scaling(IN, "s", count=1))
    world.settle()
    if is_read:
        world.serve(close=False)
    world.settle()
    told: list[str] = []
    for _ in range(13):
        world.wait(60)
        told += [r.message for r in world.step().events if r.reason == "DrainTimedOut"]
    assert [known in message for message in told] == [True]


def test_the_timeout_of_a_scale_in_is_its_scripts_alone() -> None:
    world = start(3)
    world.add(make_scaling(IN, "less", count=1, timeout=timedelta(seconds=30)))
    world.settle()
    world.wait(100)
    world.settle()
    assert world.scaling_phase("less") == "Scaling"
    world.go_on()
    assert world.scaling_phase("less") == "ScaleSucceeded"


def test_the_timeout_of_a_scale_out_ends_when_its_hosts_are_listed() -> None:
    world = start(2)
    world.add(make_scaling(OUT, "s", count=1, script="/s.sh", timeout=timedelta(seconds=30)))
    world.settle()
    world.run()
    world.settle()
    world.serve()
    world.settle()
    assert world.config is not None
    assert world.config.scripts[0].timeout_seconds == 30
    world.wait(31)
    world.settle()
    run_script(world, 1, 0)
    world.settle()
    assert world.scaling_phase("s") == "ScaleSucceeded"


def test_a_phase_that_somebody_made_unreadable_is_what_the_last_condition_says() -> None:
    world = start(2)
    world.add(make_scaling(OUT, "more", count=2))
    world.settle()
    scaling = world.scalings["more-uid"]
    world.scalings["more-uid"] = replace(scaling, status=replace(scaling.status, phase=None))
    world.settle()
    assert world.scaling_phase("more") == "Scaling"


def test_of_a_script_whose_right_was_taken_away_meanwhile_nobody_knows_whether_it_has_run() -> None:
    world = start(3, scripts=ScriptRight.SHELL)
    world.add(make_scaling(IN, "s", count=1, script="/s.sh; deregister"))
    world.settle()
    world.serve()
    world.settle()
    world.edit(scripts=ScriptRight.FILES)
    world.settle()
    world.edit(suspend=True)
    world.go_on()
    status = world.scalings["s-uid"].status
    assert "whether its script has run is not known" in status.conditions[-1].message
    assert status.script_attempts == 1
