"""Horovod's own rules for workers that are late, early or never commit; a horovodrun that hangs."""

from __future__ import annotations

import shlex

import pytest

from et_contract import paths
from tests.askers import PROGRAM, TOLD
from tests.e2e.faults import get_spec
from tests.e2e.light_jobs import wait_for_condition, wait_for_event
from tests.e2e.test_launchers import run_in
from tests.e2e.world import RealWorld, build_job, find_condition, scale_in, scale_out, train

pytestmark = pytest.mark.cluster

LATE = 'case $HOROVOD_HOSTNAME in *-worker-2) sleep 40;; esac; exec "$@"'
EARLY = """
case $HOROVOD_HOSTNAME in *-worker-0) exec "$@";; esac
"$@" &
until test -e /tmp/enough; do sleep 0.2; done
kill $!
exit 0
"""
"""Scripts that run their arguments: on one worker late, or until somebody has had enough."""


@pytest.mark.point("forced")
def test_4_survivors_go_on_without_a_worker_that_never_commits_and_is_ended(
    world: RealWorld,
) -> None:
    command = train("--steps", "100000", "--step-seconds", "0.2", "--commit-every", "1000000")
    command[1:1] = ["--gloo-timeout-seconds", "30"]
    job = build_job("deaf", command=command, workers=3, drainTimeoutSeconds=5)
    get_spec(job, "worker")["terminationGracePeriodSeconds"] = 12
    world.create(job)
    world.wait_for_size("deaf", 3)

    world.create(scale_in("leave", "deaf", count=1))

    status = world.wait_for_scaling("scaleins", "leave")
    assert status["phase"] == "ScaleSucceeded"
    assert [w["result"] for w in status["workers"]] == ["forced"]
    world.wait_for_size("deaf", 2)
    assert world.sizes("deaf") == [3, 2]
    assert world.status("trainingjobs", "deaf")["epoch"] == 1


@pytest.mark.point("counted-once")
def test_each_rank_is_waited_for_once_and_no_other(world: RealWorld) -> None:
    command = train("--steps", "100000", "--step-seconds", "0.3")
    world.create(build_job("counted", command=command, workers=1, minReplicas=1))
    world.wait_for_size("counted", 1)
    words = ["python3", "-c", PROGRAM, paths.LIB_DIR]
    assert run_in(world, "counted-launcher", f"{shlex.join(words)} 2> /dev/null") == TOLD


@pytest.mark.point("slow-import")
def test_9_a_new_worker_that_is_late_costs_nothing_within_the_time_out_and_all_beyond(
    world: RealWorld, neighbour: RealWorld
) -> None:
    patient = wrap(LATE, "--steps", "100", "--step-seconds", "0.3")
    hasty = wrap(LATE, "--steps", "100000", "--step-seconds", "0.3")
    hasty[1:1] = ["--gloo-timeout-seconds", "20"]
    world.create(build_job("patient", command=patient))
    neighbour.create(build_job("hasty", command=hasty))
    for place, job in ((world, "patient"), (neighbour, "hasty")):
        place.wait_for_size(job, 2)
        place.create(scale_out("grow", job, 1))

    neighbour.wait_for_phase("hasty", "Failed", timeout=180)
    assert neighbour.sizes("hasty") == [2]
    failed = find_condition(neighbour.status("trainingjobs", "hasty"), "Failed")
    assert failed["reason"] == "LauncherFailed"
    world.wait_for_phase("patient", "Succeeded", timeout=180)
    assert world.sizes("patient") == [2, 3]
    assert [step.number for step in world.steps("patient")] == list(range(1, 101))


@pytest.mark.point("early-end")
def test_28_a_worker_that_ends_with_0_early_ends_the_others_by_horovods_rule(
    world: RealWorld,
) -> None:
    command = wrap(EARLY, "--steps", "100000", "--step-seconds", "0.3")
    command[1:1] = ["--gloo-timeout-seconds", "30"]
    job = build_job("brief", command=command)
    # With a process for each slot horovodrun may read the code of one that it ends as 0: two of its
    # threads wait for that (horovod/runner/common/util/safe_shell_exec.py), and one hears nothing.
    job["metadata"]["annotations"] = {"kai.alibabacloud.com/launcher": "horovodrun-in-process"}
    world.create(job)
    world.wait_for_size("brief", 2)
    uids = {pod.metadata.name: pod.metadata.uid for pod in world.pods("worker")}

    run_in(world, "brief-worker-1", "touch /tmp/enough")

    world.wait_for_phase("brief", "Failed", timeout=180)
    failed = find_condition(world.status("trainingjobs", "brief"), "Failed")
    assert "the launcher ended with exit code 1" in failed["message"]
    log = world.log("brief-launcher")  # of whose end other threads of horovodrun write too
    assert "brief-worker-0[0]\nExit code: 143" in log, "horovodrun blames another"
    exits = world.report("brief")["exits"]
    assert [ended["code"] for ended in exits[uids["brief-worker-1"]]] == [0]
    assert [ended["code"] for ended in exits[uids["brief-worker-0"]]] == [143]


@pytest.mark.point("driver-stalled")
def test_26_a_horovodrun_that_is_stopped_is_told_until_it_goes_on(world: RealWorld) -> None:
    world.create(build_job("wedged", command=train("--steps", "200", "--step-seconds", "0.3")))
    world.wait_for_size("wedged", 2)
    number = len(world.steps("wedged")) + 40
    world.wait(lambda: len(world.steps("wedged")) > number, "it has trained for a while")

    run_in(world, "wedged-launcher", "pkill -STOP -f '[h]orovodrun .*-np'")
    assert "hangs" in wait_for_condition(world, "wedged", "DriverStalled")
    wait_for_event(world, "wedged", "DriverStalled")
    run_in(world, "wedged-launcher", "pkill -CONT -f '[h]orovodrun .*-np'")

    wait_for_condition(world, "wedged", "DriverStalled", "False")
    world.wait_for_phase("wedged", "Succeeded", timeout=180)
    assert [step.number for step in world.steps("wedged")] == list(range(1, 201))


def wrap(script: str, *args: str) -> list[str]:
    """The user's command, its training behind a shell script that each worker runs."""
    command = train(*args)
    split = command.index("python3")
    return [*command[:split], "sh", "-c", script, "sh", *command[split:]]
