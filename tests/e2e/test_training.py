"""A job trains, grows and shrinks while it trains; nothing is trained twice."""

from __future__ import annotations

import re
import shlex

import pytest

from tests.e2e.world import RealWorld, build_job, find_condition, scale_in, scale_out, train

pytestmark = pytest.mark.cluster

LATE = r"""
mkdir /tmp/late
printf '#!/bin/sh\ncase "$*" in *-worker-2*) sleep 7 ;; esac\nexec %s "$@"\n' \
    "$(command -v ssh)" >/tmp/late/ssh
chmod +x /tmp/late/ssh
export PATH="/tmp/late:$PATH"
"""
"""Of what horovodrun starts at once, what it starts in worker 2 comes seconds later."""


def assert_no_step_was_repeated(world: RealWorld, job: str, steps: int) -> None:
    numbers = [step.number for step in world.steps(job)]
    assert numbers == list(range(1, steps + 1))


@pytest.mark.point("no-lost-step")
def test_grows_from_two_to_four_and_shrinks_to_three_without_a_repeated_step(
    world: RealWorld,
) -> None:
    world.create(build_job("elastic", command=train("--steps", "150", "--step-seconds", "0.3")))
    world.wait_for_size("elastic", 2)

    world.create(scale_out("grow", "elastic", 2))
    status = world.wait_for_scaling("scaleouts", "grow")
    assert status["phase"] == "ScaleSucceeded"
    assert status["addPods"] == ["elastic-worker-2", "elastic-worker-3"]
    world.wait_for_size("elastic", 4)

    world.create(scale_in("shrink", "elastic", pods=["elastic-worker-2"]))
    status = world.wait_for_scaling("scaleins", "shrink")
    assert status["phase"] == "ScaleSucceeded"
    assert [(w["name"], w["result"]) for w in status["workers"]] == [
        ("elastic-worker-2", "graceful")
    ]
    world.wait_for_size("elastic", 3)
    world.wait_for_phase("elastic", "Succeeded", timeout=180)

    assert world.sizes("elastic") == [2, 4, 3]
    assert_no_step_was_repeated(world, "elastic", 150)
    assert world.status("trainingjobs", "elastic")["epoch"] == 1


@pytest.mark.point("rank-0")
def test_the_worker_of_rank_zero_leaves_and_the_others_go_on(world: RealWorld) -> None:
    world.create(
        build_job("lead", command=train("--steps", "100", "--step-seconds", "0.3"), workers=3)
    )
    world.wait_for_size("lead", 3)
    first = world.wait(
        lambda: find_rank_zero(world, "lead"), "the training says which worker has rank 0"
    )

    world.create(scale_in("leave", "lead", pods=[first]))

    status = world.wait_for_scaling("scaleins", "leave")
    assert status["phase"] == "ScaleSucceeded", status
    assert [w["result"] for w in status["workers"]] == ["graceful"]
    world.wait_for_phase("lead", "Succeeded", timeout=180)
    assert world.sizes("lead") == [3, 2]
    assert_no_step_was_repeated(world, "lead", 100)


def find_rank_zero(world: RealWorld, job: str) -> str:
    """The host that the training printed as rank 0's."""
    for line in world.log(f"{job}-launcher").splitlines():
        _, found, rest = line.partition("host=")
        if found and "step=" in line:
            return rest.split()[0]
    return ""


@pytest.mark.point("slow-commit")
def test_a_script_that_commits_every_twenty_seconds_lets_its_worker_go(world: RealWorld) -> None:
    command = train("--steps", "150", "--step-seconds", "0.3", "--commit-seconds", "20")
    world.create(build_job("slow", command=command, workers=3))
    world.wait_for_size("slow", 3)

    world.create(scale_in("leave", "slow", count=1))

    status = world.wait_for_scaling("scaleins", "leave", timeout=120)
    assert status["phase"] == "ScaleSucceeded"
    assert [w["result"] for w in status["workers"]] == ["graceful"]
    world.wait_for_size("slow", 2)


@pytest.mark.point("spare")
def test_a_spare_above_max_np_leaves_without_disturbing_the_training(world: RealWorld) -> None:
    command = train("--steps", "100", "--step-seconds", "0.3", maximum=2)
    world.create(build_job("spare", command=command, workers=3))
    world.wait_for_size("spare", 2)
    world.wait(
        lambda: (
            find_condition(world.status("trainingjobs", "spare"), "HostsListed").get("status")
            == "True"
        ),
        "all hosts are listed",
    )
    [spare] = set(world.worker_names()) - find_trainers(world, "spare")

    world.create(scale_in("leave", "spare", pods=[spare]))

    status = world.wait_for_scaling("scaleins", "leave")
    assert status["phase"] == "ScaleSucceeded"
    world.wait_for_phase("spare", "Succeeded", timeout=120)
    assert world.sizes("spare") == [2]
    assert_no_step_was_repeated(world, "spare", 100)


@pytest.mark.point("spare")
def test_a_spare_takes_over_from_a_worker_that_leaves(world: RealWorld) -> None:
    command = train("--steps", "60", "--step-seconds", "0.3", maximum=2)
    world.create(build_job("relay", command=command, workers=3))
    world.wait_for_size("relay", 2)
    trainers = find_trainers(world, "relay")

    world.create(scale_in("leave", "relay", pods=[max(trainers)]))

    assert world.wait_for_scaling("scaleins", "leave")["phase"] == "ScaleSucceeded"
    world.wait_for_phase("relay", "Succeeded", timeout=120)
    assert world.sizes("relay") == [2]
    assert len(find_trainers(world, "relay")) == 3
    assert_no_step_was_repeated(world, "relay", 60)


@pytest.mark.point("not-started")
def test_a_worker_whose_script_has_not_reached_horovod_yet_leaves(world: RealWorld) -> None:
    """And is started seconds after the others, as the last of many is on a busy machine."""
    trainer = train("--steps", "60", "--step-seconds", "0.3", "--sleep-before-init", "12")
    command = ["bash", "-c", f"{LATE}\n{shlex.join(trainer)}"]
    world.create(build_job("early", command=command, workers=3))
    world.wait(
        lambda: (
            find_condition(world.status("trainingjobs", "early"), "HostsListed").get("status")
            == "True"
        ),
        "all hosts are listed",
    )

    world.create(scale_in("leave", "early", count=1))

    status = world.wait_for_scaling("scaleins", "leave", timeout=150)
    assert status["phase"] == "ScaleSucceeded"
    assert [w["result"] for w in status["workers"]] == ["graceful"]
    world.wait_for_phase("early", "Succeeded", timeout=180)
    assert world.sizes("early")[-1] == 2


@pytest.mark.point("no-token")
def test_no_user_container_holds_a_token(world: RealWorld) -> None:
    world.create(build_job("bare", command=train("--steps", "20", "--step-seconds", "0.3")))
    world.wait_for_size("bare", 2)

    for pod in world.pods():
        holders = [
            container.name
            for container in pod.spec.containers
            for mount in container.volume_mounts or []
            if "serviceaccount" in mount.mount_path
        ]
        assert holders == [], f"{pod.metadata.name} has a token in {holders}"
        assert pod.spec.automount_service_account_token is False


def find_trainers(world: RealWorld, job: str) -> set[str]:
    """The workers that have had a rank, when each of the two ranks has told where it is."""

    def look() -> set[str]:
        found = re.findall(r"joined rank=\d+ size=2 host=(\S+)", world.log(f"{job}-launcher"))
        return set(found) if len(set(found)) > 1 else set()

    return world.wait(look, "two workers have joined the training")
