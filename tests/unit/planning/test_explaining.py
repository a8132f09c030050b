"""Whatever waits says for what, since when and until when; and says it once."""

from __future__ import annotations

from datetime import timedelta

from et_operator.model.conditions import find_condition
from et_operator.model.snapshots import Refusal
from et_operator.model.specs import LauncherCreation
from et_operator.model.statuses import ScalingKind
from tests.planning_makers import ModelWorld, make_job, make_scaling

IN, OUT = ScalingKind.IN, ScalingKind.OUT
WORDS = "0/3 nodes are available: 3 Insufficient cpu."
TOLD = "no node fits: Insufficient cpu"


def start(replicas: int = 4, **spec: object) -> ModelWorld:
    world = ModelWorld(make_job(replicas, **spec))
    world.start()
    world.wait(20)
    world.settle()
    return world


def read_job(world: ModelWorld, kind: str = "Scaling") -> str:
    found = find_condition(world.status.conditions, kind)
    return found.message if found is not None and found.status == "True" else ""


def read_scaling(world: ModelWorld, name: str) -> str:
    return world.scalings[f"{name}-uid"].status.conditions[-1].message


def rest(world: ModelWorld, seconds: int, steps: int = 20) -> int:
    """How many writes there are while nothing happens but time."""
    before = world.writes
    for _ in range(steps):
        world.wait(seconds / steps)
        world.settle()
    return world.writes - before


def stick(world: ModelWorld, *names: str) -> None:
    """No node takes these pods, and it is clear by now."""
    for name in names:
        world.put(name, unschedulable_message=WORDS)
    world.wait(15)
    world.settle()


# ------------------------------------------------------------------ scalings that go on
def test_a_scale_out_names_its_pods_their_trouble_and_when_it_is_given_up() -> None:
    world = start(2)
    world.add(make_scaling(OUT, "more", count=2, timeout=timedelta(minutes=10)))
    world.settle()
    stick(world, "job-worker-2", "job-worker-3")
    told = (
        f"2 -> 4 workers; waits: job-worker-2, job-worker-3: Unschedulable: {TOLD} "
        "(since 2026-01-01 12:00:21 UTC); given up at 2026-01-01 12:10:21 UTC (its timeout)"
    )
    assert read_job(world) == told
    assert read_scaling(world, "more") == told
    assert rest(world, 500) == 0


def test_that_no_node_fits_is_told_once_however_many_nodes_come_and_go() -> None:
    world = start(2)
    world.add(make_scaling(OUT, "more", count=1))
    world.settle()
    stick(world, "job-worker-2")
    before, taint = world.writes, "node(s) had untolerated taint {a: b}"
    for nodes in range(3, 20):
        claims = "no new claims to deallocate, " if nodes % 2 else ""  # from Kubernetes 1.33 on
        words = f"0/{nodes} nodes are available: {nodes} Insufficient cpu. {claims}preemption: 0/"
        words += f"{nodes} nodes are available: {nodes} No preemption victims found."
        world.put("job-worker-2", unschedulable_message=words)
        world.settle()
    assert world.writes == before
    for few, many in ((2, 11), (9, 11), (11, 9)):  # they are sorted with their numbers
        reasons = sorted((f"{few} Insufficient cpu", f"{many} {taint}"))
        words = f"0/{few + many} nodes are available: {', '.join(reasons)}."
        world.put("job-worker-2", unschedulable_message=words)
        world.settle()
        assert f"job-worker-2: no node fits: Insufficient cpu, {taint}" in read_job(
            world, "Unschedulable"
        ).replace("Unschedulable: ", "")
    assert world.writes - before <= 3, "one other reason, on the job and on its scaling"


def test_the_words_of_a_pull_are_told_once_whatever_the_kubelet_is_at() -> None:
    world = start(2)
    world.add(make_scaling(OUT, "more", count=1))
    world.settle()
    cause = "failed to resolve reference nope:1: not found"
    said = []
    tries = [
        ("ErrImagePull", cause),
        ("ImagePullBackOff", f'Back-off pulling image "nope:1": ErrImagePull: {cause}'),
    ]
    for reason, words in tries * 3:
        world.put("job-worker-2", waiting_reason=reason, waiting_message=words)
        world.wait(30)
        world.settle()
        said.append((read_scaling(world, "more"), read_job(world, "ImagePullFailing")))
    assert len(set(said)) == 1
    assert f"job-worker-2: ImagePullBackOff: {cause} (since " in said[0][0]


def test_a_start_that_takes_long_without_a_trouble_is_told_after_a_minute() -> None:
    world = start(2)
    world.add(make_scaling(OUT, "more", count=1))
    world.settle()
    world.put("job-worker-2", waiting_reason="ContainerCreating")
    world.wait(50)
    world.settle()
    assert read_scaling(world, "more") == "2 -> 3 workers"
    world.wait(20)
    world.settle()
    assert "waits: job-worker-2: ContainerCreating (since " in read_scaling(world, "more")
    world.go_on()
    assert world.scaling_phase("more") == "ScaleSucceeded"
    assert not read_job(world)
    assert world.scalings["more-uid"].status.conditions[1].message == "2 -> 3 workers"


def test_a_refused_worker_is_told_and_not_anew_with_each_try() -> None:
    world = start(2)
    world.add(make_scaling(OUT, "more", count=1))
    while world.replicas == 2:
        world.refusal = Refusal("exceeded quota", 2, world.now, generation=1)
        world.step()
    world.refusal = Refusal("exceeded quota", 2, world.now, generation=2)
    world.settle()
    told = "job-worker-2: refused (exceeded quota), tried again within 5 min each time"
    assert told in read_scaling(world, "more")
    world.wait(20)
    world.refusal = Refusal("exceeded quota", 3, world.now, generation=2)
    assert rest(world, 30, 3) == 0


def test_a_scale_in_names_who_must_commit_and_when_they_are_ended_by_force() -> None:
    world = start(3, drain_timeout=timedelta(minutes=6))
    world.add(make_scaling(IN, "less", count=1))
    world.settle()
    world.serve(close=False)
    world.settle()
    assert read_scaling(world, "less") == "3 -> 2 workers"
    world.wait(15)
    world.settle()
    told = (
        "3 -> 2 workers; waits: job-worker-2: asked at 2026-01-01 12:00:21 UTC to end their "
        "processes, as Horovod does at the next commit; ended by force at 2026-01-01 12:06:21 UTC "
        "(drainTimeoutSeconds)"
    )
    assert (read_scaling(world, "less"), read_job(world)) == (told, told)
    assert rest(world, 300) == 0


def test_a_quick_scaling_is_told_no_more_often_than_without_words_of_waits() -> None:
    world = start(3)
    world.add(make_scaling(OUT, "more", count=1))
    said = []
    world.on_write = lambda what: said.append(read_job(world)) if what == "status" else None
    world.go_on()
    assert world.scaling_phase("more") == "ScaleSucceeded"
    assert set(said) <= {"", "3 -> 4 workers"}


# ------------------------------------------------------------------ scalings that wait
def test_who_waits_is_told_for_whom_and_not_again_when_others_have_had_their_turn() -> None:
    world = start(4, minimum=1)
    for number in range(3):
        created = world.now + timedelta(seconds=number)
        world.add(make_scaling(IN, f"in-{number}", count=1, created=created))
    world.settle()
    assert read_scaling(world, "in-1") == "waits for ScaleIn in-0"
    assert read_scaling(world, "in-2") == "waits for ScaleIn in-1"
    versions = world.scalings["in-2-uid"].resource_version
    world.serve()
    world.settle()
    world.reap()
    world.settle()
    assert world.scaling_phase("in-0") == "ScaleSucceeded"
    assert world.scaling_phase("in-1") == "Scaling"
    assert world.scalings["in-2-uid"].resource_version == versions


def test_who_waits_for_a_number_is_told_which() -> None:
    world = start(2)
    world.edit(replicas=4)
    world.settle()
    world.add(make_scaling(OUT, "more", count=1))
    world.settle()
    assert read_scaling(world, "more") == "waits for the change of worker.replicas to 4"


# ------------------------------------------------------------------ the job's own
def test_a_launcher_that_is_yet_to_come_is_told_with_its_time() -> None:
    world = start(2, restart_policy="OnFailure")
    for _ in range(2):
        launcher = world.launcher
        assert launcher is not None
        world.end(launcher.name, 137, disruption_reason="EvictionByEvictionAPI")
        world.step()
        told = read_job(world, "Awaiting")
        assert told.startswith("the next launcher is created at 2026-01-01 12:0")
        world.wait(5)
        world.go_on(2)
    assert not read_job(world, "Awaiting")


def test_a_launcher_that_waits_for_workers_and_their_trouble_are_told() -> None:
    world = ModelWorld(make_job(2, launcher_creation=LauncherCreation.WAIT_FOR_WORKERS_READY))
    world.settle()
    world.run("job-worker-0")
    stick(world, "job-worker-1")
    told = read_job(world, "Awaiting")
    assert told.startswith("the launcher is created once 2 workers run; job-worker-1: Unschedul")
    assert TOLD not in told
    assert TOLD in read_job(world, "Unschedulable")
    assert world.status.trouble == "Unschedulable"
    world.go_on()
    assert not read_job(world, "Awaiting")


def test_a_replacement_is_told_with_the_time_of_its_creation() -> None:
    world = start(2)
    for seconds in (0, 1, 2, 4):
        world.wait(seconds)
        world.settle()
        world.end(world.workers[-1], 1)
        world.settle()
    last = world.status.target_workers[-1]
    told = f"{last}: created at 2026-01-01 12:00:36 UTC"
    assert read_job(world, "Awaiting") == told
    assert world.status.trouble == ""
