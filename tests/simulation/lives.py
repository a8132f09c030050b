"""Whole lives of jobs: what a user does, and what must have come of it at the end.

A life must end the same whatever crashes in between, so it looks only at what users see: phases,
numbers, names in the host list. It ends at rest.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta

from et_contract.documents import MemberState, decode_config
from et_contract.names import CONFIG_KEY
from et_kube.notices import LEAVING_AT
from et_kube.resources import (
    CONFIG_MAPS,
    NETWORK_POLICIES,
    PODS,
    ROLE_BINDINGS,
    ROLES,
    SCALE_INS,
    SCALE_OUTS,
    SECRETS,
    SERVICE_ACCOUNTS,
    TRAINING_JOBS,
    Resource,
)
from et_kube.times import format_time
from tests.makers import NOWHERE, make_job, make_pod, make_scale_in, make_scale_out
from tests.simulation.faults import Quota
from tests.simulation.invariants import owner_uid
from tests.simulation.worlds import SimulatedWorld

Life = Callable[[SimulatedWorld], Awaitable[None]]

CHILDREN = (PODS, CONFIG_MAPS, SERVICE_ACCOUNTS, ROLES, ROLE_BINDINGS, NETWORK_POLICIES, SECRETS)


async def start(world: SimulatedWorld, *, workers: int = 2, **fields: object) -> None:
    """A job whose command runs on all its workers."""
    world.create(TRAINING_JOBS, make_job(workers=workers, **fields))
    await world.until(lambda: world.phase() == "Running" and world.broker.has_started("train"))
    assert world.broker.find_hosts("train") == world.workers()


async def scale(world: SimulatedWorld, resource: Resource, manifest: dict[str, object]) -> str:
    """Create a scaling and wait for its end; returns its final phase."""
    world.create(resource, manifest)
    name = manifest["metadata"]["name"]  # type: ignore[index]
    finals = {"ScaleSucceeded", "ScaleFailed"}
    await world.until(lambda: world.status(resource, name).get("phase") in finals)
    await world.settle(timedelta(minutes=2))
    return str(world.status(resource, name)["phase"])


def count_replicas(world: SimulatedWorld) -> int:
    """What the job's spec asks for."""
    return int(world.get(TRAINING_JOBS, "train")["spec"]["etReplicaSpecs"]["worker"]["replicas"])


async def trains_and_ends(world: SimulatedWorld) -> None:
    await start(world)
    world.end_command(0)
    await world.until(lambda: world.phase() == "Succeeded")
    await world.settle(timedelta(minutes=2))
    assert world.workers() == []
    assert world.launchers() == []


async def keeps_its_pods_when_asked(world: SimulatedWorld) -> None:
    await start(world, cleanPodPolicy="None")
    world.end_command(0)
    await world.until(lambda: world.phase() == "Succeeded")
    await world.settle(timedelta(minutes=2))
    assert len(world.workers()) == 2


async def goes_away_after_its_time(world: SimulatedWorld) -> None:
    await start(world, ttlSecondsAfterFinished=60)
    world.end_command(0)
    await world.until(lambda: not world.get(TRAINING_JOBS, "train"))
    await world.settle()
    assert_nothing_left(world)


async def scales_out(world: SimulatedWorld) -> None:
    await start(world, minReplicas=1, maxReplicas=4)
    assert await scale(world, SCALE_OUTS, make_scale_out("out", count=2)) == "ScaleSucceeded"
    assert count_replicas(world) == 4
    assert len(world.workers()) == 4
    assert world.broker.find_hosts("train") == world.workers()


async def scales_in_by_count(world: SimulatedWorld) -> None:
    await start(world, workers=3, minReplicas=1)
    assert await scale(world, SCALE_INS, make_scale_in("in", count=2)) == "ScaleSucceeded"
    assert count_replicas(world) == 1
    assert len(world.workers()) == 1
    assert world.broker.find_hosts("train") == world.workers()


async def scales_in_by_name(world: SimulatedWorld) -> None:
    await start(world, workers=3, minReplicas=1)
    middle = world.workers()[1]
    manifest = make_scale_in("in", podNames=[middle])
    assert await scale(world, SCALE_INS, manifest) == "ScaleSucceeded"
    assert middle not in world.workers()
    assert len(world.workers()) == 2
    assert count_replicas(world) == 2


async def scales_out_after_scaling_in(world: SimulatedWorld) -> None:
    await scales_in_by_name(world)
    before = set(world.workers())
    assert await scale(world, SCALE_OUTS, make_scale_out("out", count=1)) == "ScaleSucceeded"
    assert len(set(world.workers()) - before) == 1
    assert world.broker.find_hosts("train") == world.workers()


async def refuses_to_scale_below_the_minimum(world: SimulatedWorld) -> None:
    await start(world, workers=2, minReplicas=2)
    assert await scale(world, SCALE_INS, make_scale_in("in", count=1)) == "ScaleFailed"
    assert len(world.workers()) == 2
    assert count_replicas(world) == 2


async def refuses_to_scale_above_the_maximum(world: SimulatedWorld) -> None:
    await start(world, workers=2, maxReplicas=3)
    assert await scale(world, SCALE_OUTS, make_scale_out("out", count=2)) == "ScaleFailed"
    assert len(world.workers()) == 2
    assert count_replicas(world) == 2


async def follows_kubectl_scale(world: SimulatedWorld) -> None:
    await start(world, minReplicas=1, maxReplicas=4)
    for replicas in (4, 1):
        world.change(TRAINING_JOBS, "train", {"spec": {"replicas": replicas}}, "scale")
        await world.until(
            lambda n=replicas: (
                len(world.workers()) == n and world.broker.find_hosts("train") == world.workers()
            )
        )
        await world.settle(timedelta(minutes=2))
    assert world.status(TRAINING_JOBS, "train").get("replicas") == 1
    assert not world.status(TRAINING_JOBS, "train").get("scaling")


async def gives_up_a_scale_out_that_finds_no_room(world: SimulatedWorld) -> None:
    await start(world, maxReplicas=6)
    for index in range(2, 12):
        world.kubelet.waiting[f"train-worker-{index}"] = "0/2 nodes are available"
    manifest = make_scale_out("out", count=2, timeout=60)
    assert await scale(world, SCALE_OUTS, manifest) == "ScaleFailed"
    assert len(world.workers()) == 2
    assert count_replicas(world) == 2


async def runs_the_script_of_a_scale_in(world: SimulatedWorld) -> None:
    await start(world, workers=2, minReplicas=1)
    manifest = make_scale_in("in", count=1, script="/bin/true", timeout=60)
    assert await scale(world, SCALE_INS, manifest) == "ScaleSucceeded"
    assert len({order for order, _ in world.broker.scripts_run}) == 1
    assert len(world.broker.scripts_run) == 1


async def succeeds_though_its_launcher_is_deleted(world: SimulatedWorld) -> None:
    await start(world)
    world.end_command(0)
    while not await world.act("broker"):  # it tells the end before it ends itself
        pass
    world.cluster.remove(world.ref(PODS, "train-launcher"))
    await world.until(lambda: world.phase() == "Succeeded")
    await world.settle(timedelta(minutes=2))
    assert world.status(TRAINING_JOBS, "train")["epoch"] == 1


async def succeeds_though_its_container_is_never_seen_to_end(world: SimulatedWorld) -> None:
    await start(world)
    world.broker.finish("train", 0)
    await world.until(lambda: world.phase() == "Succeeded", timedelta(minutes=20))
    await world.settle(timedelta(minutes=2))
    assert world.status(TRAINING_JOBS, "train")["epoch"] == 1
    assert world.launchers() == []


async def has_ended_though_its_status_is_removed(world: SimulatedWorld) -> None:
    await trains_and_ends(world)
    empty = dict.fromkeys(world.status(TRAINING_JOBS, "train"))
    world.change(TRAINING_JOBS, "train", {"status": empty}, "status")
    await world.until(lambda: world.phase() == "Succeeded")
    await world.settle(timedelta(minutes=2))
    assert world.status(TRAINING_JOBS, "train")["epoch"] == 1


async def starts_again_after_a_failure(world: SimulatedWorld) -> None:
    await start(world, restartPolicy="OnFailure")
    before = world.workers()
    world.end_command(1)
    await world.until(lambda: world.launchers() == ["train-launcher-r1"])
    await world.until(lambda: world.phase() == "Running" and world.broker.has_started("train"))
    assert world.workers() == before
    world.end_command(0)
    await world.until(lambda: world.phase() == "Succeeded")
    await world.settle(timedelta(minutes=2))


async def fails_when_the_command_fails(world: SimulatedWorld) -> None:
    await start(world)
    world.end_command(3)
    await world.until(lambda: world.phase() == "Failed")
    await world.settle(timedelta(minutes=2))
    assert world.workers() == []


async def replaces_a_lost_worker(world: SimulatedWorld) -> None:
    await start(world, workers=3, minReplicas=2)
    world.kubelet.fail(world.workers()[1], disruption="TerminationByKubelet")
    await world.until(
        lambda: len(world.workers()) == 3 and world.broker.find_hosts("train") == world.workers()
    )
    await world.settle(timedelta(minutes=2))
    assert world.phase() == "Running"


async def replaces_a_worker_that_is_used_up(world: SimulatedWorld) -> None:
    await start(world, workers=3, minReplicas=2)
    used_up = world.workers()[1]
    world.broker.use_up("train", used_up)
    await world.until(
        lambda: (
            used_up not in world.workers()
            and len(world.workers()) == 3
            and world.broker.find_hosts("train") == world.workers()
        )
    )
    await world.settle(timedelta(minutes=2))
    assert len(world.workers()) == 3
    assert world.phase() == "Running"


async def replaces_a_worker_whose_neighbour_lives_on(world: SimulatedWorld) -> None:
    job = make_job(workers=3, minReplicas=2)
    shipper = {"name": "log-shipper", "image": "localhost/shipper:dev"}
    worker = job["spec"]["etReplicaSpecs"]["worker"]
    worker["template"]["spec"]["containers"].append(shipper)
    world.kubelet.outliving.add("log-shipper")
    world.create(TRAINING_JOBS, job)
    await world.until(lambda: world.phase() == "Running" and world.broker.has_started("train"))
    lost = world.workers()[1]
    world.kubelet.terminate(lost, 137, reason="OOMKilled")
    await world.until(
        lambda: (
            lost not in world.workers()
            and len(world.workers()) == 3
            and world.broker.find_hosts("train") == world.workers()
        )
    )
    await world.settle(timedelta(minutes=2))
    assert not world.get(PODS, lost)
    assert world.phase() == "Running"


async def starts_with_as_many_workers_as_a_quota_has_room_for(world: SimulatedWorld) -> None:
    world.broker.impatient.add("train")
    quota = Quota(world.cluster, 5)
    world.log.faults.append(quota)
    world.create(TRAINING_JOBS, make_job(workers=8, minReplicas=2))
    await world.until(lambda: world.phase() == "Running" and world.broker.has_started("train"))
    await world.settle(timedelta(minutes=2))
    assert len(world.launchers()) == 1
    assert len(world.workers()) == 4
    await lift(world, quota, workers=8)


async def gives_its_launcher_the_room_that_idle_workers_hold(world: SimulatedWorld) -> None:
    world.broker.impatient.add("train")
    await start(world, workers=4, minReplicas=2)
    quota = Quota(world.cluster, 3)  # which ends nobody: 4 workers stay
    world.log.faults.append(quota)
    world.kubelet.fail(world.launchers()[0], disruption="EvictionByEvictionAPI")
    await world.until(lambda: world.launchers() == ["train-launcher-r1"])
    await world.until(lambda: world.phase() == "Running" and world.broker.has_started("train"))
    assert len(world.workers()) == 2
    await lift(world, quota, workers=4)


async def gives_its_launcher_the_room_of_a_former_one(world: SimulatedWorld) -> None:
    job = make_job(workers=3, minReplicas=3, restartPolicy="OnFailure")  # nobody else gives way
    launcher = job["spec"]["etReplicaSpecs"]["launcher"]
    launcher["template"]["spec"]["containers"].append({"name": "log-shipper", "image": "shipper"})
    world.kubelet.outliving.add("log-shipper")
    world.create(TRAINING_JOBS, job)
    await world.until(lambda: world.phase() == "Running" and world.broker.has_started("train"))
    workers = world.workers()
    world.log.faults.append(Quota(world.cluster, 4))
    world.end_command(1)
    await world.until(lambda: world.launchers() == ["train-launcher-r1"])
    await world.until(lambda: world.phase() == "Running" and world.broker.has_started("train"))
    await world.settle(timedelta(minutes=10))
    assert world.workers() == workers
    assert not world.get(PODS, "train-launcher")


async def lift(world: SimulatedWorld, quota: Quota, workers: int) -> None:
    """There is room again: the job has all its workers within the longest wait for a refusal."""
    quota.pods = 100
    await world.until(lambda: len(world.broker.find_hosts("train")) == workers)
    await world.settle(timedelta(minutes=10))
    assert sorted(world.workers()) == world.broker.find_hosts("train")


async def is_replaced_worker_after_worker(world: SimulatedWorld) -> None:
    await start(world, workers=3, minReplicas=2)
    for _ in range(3):
        world.kubelet.fail(world.workers()[0], disruption="EvictionByEvictionAPI")
        await world.settle(timedelta(seconds=50))
        await world.clock.advance(timedelta(seconds=50))
        assert len(world.workers()) == 3
        assert world.broker.find_hosts("train") == world.workers()
    await world.settle(timedelta(minutes=2))
    assert world.phase() == "Running"


async def is_not_blamed_for_a_worker_that_was_taken(world: SimulatedWorld) -> None:
    await start(world, workers=3, minReplicas=1)
    world.kubelet.fail(world.workers()[1], disruption="TerminationByKubelet")
    world.end_command(1)
    await world.until(lambda: world.launchers() == ["train-launcher-r1"])
    await world.until(
        lambda: len(world.workers()) == 3 and world.broker.find_hosts("train") == world.workers()
    )
    await world.settle(timedelta(minutes=2))
    assert world.phase() == "Running"
    assert world.status(TRAINING_JOBS, "train")["failures"]["user"] == 0


async def is_not_blamed_for_nodes_that_are_started_anew(world: SimulatedWorld) -> None:
    await start(world, workers=3, minReplicas=1)
    for name in (world.workers()[1], "train-launcher"):
        world.kubelet.terminate(name, 255, reason="Unknown")
    await world.until(lambda: world.launchers() == ["train-launcher-r1"])
    await world.until(
        lambda: len(world.workers()) == 3 and world.broker.find_hosts("train") == world.workers()
    )
    world.kubelet.terminate(world.workers()[1], 137, reason="ContainerStatusUnknown")
    world.end_command(1)
    await world.until(lambda: world.launchers() == ["train-launcher-r2"])
    await world.until(
        lambda: len(world.workers()) == 3 and world.broker.find_hosts("train") == world.workers()
    )
    await world.settle(timedelta(minutes=2))
    assert world.phase() == "Running"
    assert world.status(TRAINING_JOBS, "train")["failures"]["user"] == 0


def say_that_it_leaves(world: SimulatedWorld, name: str, minutes: int | None) -> None:
    """Of a pod: that it ends so soon; None: that it stays."""
    word = None
    if minutes is not None:
        word = format_time((world.clock.now() + timedelta(minutes=minutes)).replace(microsecond=0))
    world.change(PODS, name, {"metadata": {"annotations": {LEAVING_AT: word}}})


async def has_a_worker_replaced_before_it_leaves(world: SimulatedWorld) -> None:
    await start(world)
    say_that_it_leaves(world, "train-worker-1", 5)
    # Its successor has the next index, unless a second leader that has not heard of it made one.
    await world.until(lambda: len(world.workers()) == 2 and "train-worker-1" not in world.workers())
    await world.until(lambda: world.broker.find_hosts("train") == world.workers())
    assert count_fewest(world) == 2, "the number of workers has fallen"
    await world.settle(timedelta(minutes=2))
    assert world.phase() == "Running"


async def keeps_a_worker_that_stays_after_all(world: SimulatedWorld) -> None:
    await start(world)
    for index in range(2, 9):  # which one, a second leader may decide once more
        world.kubelet.waiting[f"train-worker-{index}"] = "nobody's"
    say_that_it_leaves(world, "train-worker-1", 9)
    await world.until(lambda: len(world.workers()) == 3)
    say_that_it_leaves(world, "train-worker-1", None)
    await world.until(lambda: len(world.workers()) == 2)
    await world.settle(timedelta(minutes=12))
    assert world.workers() == ["train-worker-0", "train-worker-1"]
    assert world.broker.find_hosts("train") == world.workers()
    assert count_fewest(world) == 2


def count_fewest(world: SimulatedWorld) -> int:
    """How few workers a config has named to be listed, since it named all."""
    texts = [
        change.new["data"][CONFIG_KEY]
        for change in world.cluster.history.list_all(CONFIG_MAPS)
        if change.ref.name == "train-config" and change.new is not None
    ]
    numbers = [
        sum(member.state is MemberState.ACTIVE for member in decode_config(text).members)
        for text in texts
    ]
    return min(numbers[numbers.index(2) :])


async def reaches_its_workers_by_ssh(world: SimulatedWorld) -> None:
    await start(world, maxReplicas=4, launcherAttachMode="ssh")
    assert await scale(world, SCALE_OUTS, make_scale_out("out", count=1)) == "ScaleSucceeded"
    uid = world.get(TRAINING_JOBS, "train")["metadata"]["uid"]
    made = {keys["metadata"]["name"]: owner_uid(keys) for keys in world.cluster.list(SECRETS)}
    assert set(made.values()) == {uid}
    assert len(made) <= 2  # an operator that takes over knows of none that is not recorded
    assert world.status(TRAINING_JOBS, "train")["keysSecret"] in made
    world.delete(TRAINING_JOBS, "train")
    await world.settle()
    assert_nothing_left(world)


async def survives_a_lost_node(world: SimulatedWorld) -> None:
    await start(world, workers=3, minReplicas=1)
    launcher = world.get(PODS, "train-launcher")["spec"]["nodeName"]
    lost = next(n for n in ("node-1", "node-2") if n != launcher)
    world.kubelet.lose_node(lost)
    world.kubelet.evict_from(lost)
    await world.until(
        lambda: len(world.workers()) == 3 and world.broker.find_hosts("train") == world.workers()
    )
    world.kubelet.remove_node(lost)
    await world.settle(timedelta(minutes=2))
    assert len(world.workers()) == 3


async def waits_and_goes_on(world: SimulatedWorld) -> None:
    await start(world)
    world.change(TRAINING_JOBS, "train", {"spec": {"suspend": True}})
    await world.until(lambda: world.phase() == "Suspended" and not world.workers())
    await world.settle(timedelta(minutes=2))
    assert world.launchers() == []
    world.change(TRAINING_JOBS, "train", {"spec": {"suspend": False}})
    await world.until(
        lambda: (
            world.phase() == "Running"
            and len(world.workers()) == 2
            and world.broker.has_started("train")
            and world.broker.find_hosts("train") == world.workers()
        )
    )
    await world.settle(timedelta(minutes=2))


async def is_deleted_while_it_trains(world: SimulatedWorld) -> None:
    await start(world)
    world.delete(TRAINING_JOBS, "train")
    await world.settle()
    assert_nothing_left(world)


async def is_deleted_while_it_scales_in(world: SimulatedWorld) -> None:
    await start(world, workers=3, minReplicas=1)
    world.broker.busy.update(world.workers())
    world.create(SCALE_INS, make_scale_in("in", count=1))
    await world.until(
        lambda: (
            world.status(TRAINING_JOBS, "train").get("scaling")
            and world.get(SCALE_INS, "in")["metadata"].get("ownerReferences")
        )
    )
    world.delete(TRAINING_JOBS, "train")
    await world.settle()
    assert_nothing_left(world)


async def forces_out_a_worker_that_does_not_leave(world: SimulatedWorld) -> None:
    await start(world, workers=2, minReplicas=1, drainTimeoutSeconds=120)
    world.broker.busy.update(world.workers())
    assert await scale(world, SCALE_INS, make_scale_in("in", count=1)) == "ScaleSucceeded"
    assert len(world.workers()) == 1
    results = [w["result"] for w in world.status(SCALE_INS, "in")["workers"]]
    assert results == ["forced"]


async def prefers_scaling_in_to_a_scale_out_that_waits(world: SimulatedWorld) -> None:
    await start(world, workers=3, minReplicas=1, maxReplicas=6)
    for index in range(3, 12):
        world.kubelet.waiting[f"train-worker-{index}"] = "0/2 nodes are available"
    world.create(SCALE_OUTS, make_scale_out("out", count=2))
    await world.until(lambda: world.status(SCALE_OUTS, "out").get("phase") == "Scaling")
    assert await scale(world, SCALE_INS, make_scale_in("in", count=1)) == "ScaleSucceeded"
    await world.until(lambda: world.status(SCALE_OUTS, "out")["phase"] == "ScaleFailed")
    assert count_replicas(world) == 2
    assert len(world.workers()) == 2


async def takes_back_a_scale_out_that_is_deleted(world: SimulatedWorld) -> None:
    await start(world, workers=2, maxReplicas=6)
    for index in range(2, 12):
        world.kubelet.waiting[f"train-worker-{index}"] = "0/2 nodes are available"
    world.create(SCALE_OUTS, make_scale_out("out", count=2))
    await world.until(lambda: len(world.workers()) == 4)
    world.delete(SCALE_OUTS, "out")
    await world.until(lambda: len(world.workers()) == 2)
    await world.settle(timedelta(minutes=2))
    assert count_replicas(world) == 2
    assert not world.status(TRAINING_JOBS, "train").get("scaling")


async def lets_the_newest_number_win(world: SimulatedWorld) -> None:
    await start(world, workers=2, minReplicas=1, maxReplicas=6)
    for index in range(2, 5):
        world.kubelet.waiting[f"train-worker-{index}"] = "0/2 nodes are available"
    world.create(SCALE_OUTS, make_scale_out("out", count=3))
    await world.until(lambda: len(world.workers()) == 5)
    world.change(TRAINING_JOBS, "train", {"spec": {"replicas": 1}}, "scale")
    await world.until(lambda: len(world.workers()) == 1)
    await world.until(lambda: world.status(SCALE_OUTS, "out").get("phase") == "ScaleFailed")
    await world.settle(timedelta(minutes=2))
    assert count_replicas(world) == 1
    assert world.broker.find_hosts("train") == world.workers()


async def waits_in_the_middle_of_a_scale_in(world: SimulatedWorld) -> None:
    await start(world, workers=3, minReplicas=1)
    world.broker.busy.update(world.workers())
    world.create(SCALE_INS, make_scale_in("in", count=1))
    await world.until(lambda: count_replicas(world) == len(world.broker.find_hosts("train")) == 2)
    world.change(TRAINING_JOBS, "train", {"spec": {"suspend": True}})
    await world.until(lambda: world.phase() == "Suspended" and not world.workers())
    world.broker.busy.clear()
    world.change(TRAINING_JOBS, "train", {"spec": {"suspend": False}})
    await world.until(lambda: world.phase() == "Running" and world.broker.has_started("train"))
    await world.settle(timedelta(minutes=2))
    assert len(world.workers()) == count_replicas(world)
    assert world.broker.find_hosts("train") == world.workers()


async def starts_again_when_the_node_of_its_launcher_is_lost(world: SimulatedWorld) -> None:
    await start(world)
    lost = world.get(PODS, "train-launcher")["spec"]["nodeName"]
    world.kubelet.lose_node(lost)
    world.kubelet.evict_from(lost)
    await world.until(lambda: "train-launcher-r1" in world.launchers())
    await world.until(
        lambda: (
            world.phase() == "Running"
            and len(world.workers()) == 2
            and world.broker.find_hosts("train") == world.workers()
        )
    )
    world.kubelet.remove_node(lost)
    await world.settle(timedelta(minutes=2))
    assert world.status(TRAINING_JOBS, "train")["failures"]["user"] == 0


async def has_its_launcher_moved_before_its_node_ends(world: SimulatedWorld) -> None:
    await start(world)
    moment = world.clock.now() + timedelta(minutes=2)
    say_that_it_leaves(world, "train-launcher", 2)
    await world.until(lambda: world.launchers() == ["train-launcher-r1"])
    assert world.clock.now() >= moment - timedelta(seconds=21), "it has trained until then"
    await world.until(
        lambda: (
            world.phase() == "Running"
            and len(world.workers()) == 2
            and world.broker.find_hosts("train") == world.workers()
        )
    )
    await world.settle(timedelta(minutes=12))
    status = world.status(TRAINING_JOBS, "train")
    assert (status["epoch"], status["failures"]["user"]) == (2, 0)


async def has_its_script_run_before_its_launcher_ends(world: SimulatedWorld) -> None:
    await start(world, noticeScript={"script": "/job/save.sh"})
    moment = world.clock.now() + timedelta(minutes=9)
    say_that_it_leaves(world, "train-launcher", 9)
    await world.until(lambda: world.launchers() == ["train-launcher-r1"])
    assert world.clock.now() < moment - timedelta(minutes=5), "its script had ended"
    await world.until(
        lambda: world.phase() == "Running" and world.broker.find_hosts("train") == world.workers()
    )
    await world.settle(timedelta(minutes=12))
    status = world.status(TRAINING_JOBS, "train")
    assert (status["epoch"], status["failures"]["user"]) == (2, 0)
    assert {hosts for _, hosts in world.broker.scripts_run} == {"train-launcher"}


async def gives_up_when_the_command_fails_again_and_again(world: SimulatedWorld) -> None:
    await start(world, restartPolicy="OnFailure", backoffLimit=1)
    world.end_command(1)
    await world.until(lambda: world.launchers() == ["train-launcher-r1"])
    await world.until(lambda: world.phase() == "Running" and world.broker.has_started("train"))
    world.end_command(1)
    await world.until(lambda: world.phase() == "Failed")
    await world.settle(timedelta(minutes=2))
    assert world.launchers() == []


async def takes_a_name_that_another_job_had(world: SimulatedWorld) -> None:
    await start(world)
    world.delete(TRAINING_JOBS, "train")
    world.create(TRAINING_JOBS, make_job())
    uid = world.get(TRAINING_JOBS, "train")["metadata"]["uid"]
    await world.until(
        lambda: (
            world.phase() == "Running"
            and world.broker.has_started("train")
            and world.broker.find_hosts("train") == world.workers()
        )
    )
    await world.settle(timedelta(minutes=2))
    owners = {owner_uid(world.get(PODS, name)) for name in world.workers()}
    assert owners == {uid}


async def leaves_alone_what_is_not_its_own(world: SimulatedWorld) -> None:
    taken = make_pod("train-worker-1", labels={"group-name": "kai.alibabacloud.com"})
    world.create(PODS, taken)
    world.create(SERVICE_ACCOUNTS, {"metadata": {"name": "bystander"}})
    world.kubelet.waiting["train-worker-1"] = "nobody's"
    await start(world)
    await world.settle(timedelta(minutes=2))
    assert world.get(PODS, "train-worker-1")["spec"]["schedulerName"] == NOWHERE


def assert_nothing_left(world: SimulatedWorld) -> None:
    """No child of a job is there any more, and nobody made a new one."""
    left = [
        document["metadata"]["name"]
        for resource in CHILDREN
        for document in world.cluster.list(resource)
        if not document["metadata"]["name"].startswith("edl-runtime-")
    ]
    assert left == []


LIVES: dict[str, Life] = {
    life.__name__: life
    for life in (
        trains_and_ends,
        keeps_its_pods_when_asked,
        goes_away_after_its_time,
        scales_out,
        scales_in_by_count,
        scales_in_by_name,
        scales_out_after_scaling_in,
        refuses_to_scale_below_the_minimum,
        refuses_to_scale_above_the_maximum,
        follows_kubectl_scale,
        gives_up_a_scale_out_that_finds_no_room,
        runs_the_script_of_a_scale_in,
        succeeds_though_its_launcher_is_deleted,
        succeeds_though_its_container_is_never_seen_to_end,
        has_ended_though_its_status_is_removed,
        starts_again_after_a_failure,
        fails_when_the_command_fails,
        replaces_a_lost_worker,
        replaces_a_worker_that_is_used_up,
        replaces_a_worker_whose_neighbour_lives_on,
        starts_with_as_many_workers_as_a_quota_has_room_for,
        gives_its_launcher_the_room_that_idle_workers_hold,
        gives_its_launcher_the_room_of_a_former_one,
        is_replaced_worker_after_worker,
        has_a_worker_replaced_before_it_leaves,
        keeps_a_worker_that_stays_after_all,
        is_not_blamed_for_a_worker_that_was_taken,
        is_not_blamed_for_nodes_that_are_started_anew,
        reaches_its_workers_by_ssh,
        survives_a_lost_node,
        waits_and_goes_on,
        is_deleted_while_it_trains,
        is_deleted_while_it_scales_in,
        forces_out_a_worker_that_does_not_leave,
        prefers_scaling_in_to_a_scale_out_that_waits,
        takes_back_a_scale_out_that_is_deleted,
        lets_the_newest_number_win,
        waits_in_the_middle_of_a_scale_in,
        starts_again_when_the_node_of_its_launcher_is_lost,
        has_its_launcher_moved_before_its_node_ends,
        has_its_script_run_before_its_launcher_ends,
        gives_up_when_the_command_fails_again_and_again,
        takes_a_name_that_another_job_had,
        leaves_alone_what_is_not_its_own,
    )
}

REFUSED = frozenset(
    {
        starts_with_as_many_workers_as_a_quota_has_room_for.__name__,
        gives_its_launcher_the_room_that_idle_workers_hold.__name__,
        gives_its_launcher_the_room_of_a_former_one.__name__,
    }
)
"""Lives with one leader: each of two would tell what it was refused itself, again and again."""
