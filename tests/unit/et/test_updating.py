"""`et submit --update` against the whole operator, in a simulated world."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from et.errors import EtError
from et.screens import Screen
from et.submitting import submit as submit_objects
from et.updating import build_update, update
from et_contract.pods import MAX_JOB_NAME
from et_kube.api import APPLY_PATCH
from et_kube.errors import Refused
from et_kube.resources import SCALE_OUTS, TRAINING_JOBS, Json, Resource
from et_operator.model.names import ANNOTATION_RENEWED
from fakes.clients import Call, CallLog, Moment
from fakes.clock import FakeClock
from fakes.cluster import FakeCluster
from tests.makers import make_job, make_scale_out
from tests.simulation.lives import start
from tests.simulation.worlds import NAMESPACE, SimulatedWorld
from tests.unit.et.rigs import join, make_cluster, make_screen, read
from tests.unit.et.test_commands import Desk


@pytest.fixture
async def world() -> SimulatedWorld:
    world = SimulatedWorld()
    await start(world, minReplicas=1, maxReplicas=4)
    return world


async def run(
    world: SimulatedWorld, manifest: Json, screen: Screen | None = None, replicas: int | None = None
) -> Json:
    objects = [(TRAINING_JOBS, manifest)]
    screen = screen or make_screen()
    [stored] = await update(join(world), screen, objects, namespace="", replicas=replicas)
    return stored


def make(**fields: Any) -> dict[str, Any]:
    return make_job(**{"minReplicas": 1, "maxReplicas": 4, **fields})


def count(job: Json) -> int:
    return int(job["spec"]["etReplicaSpecs"]["worker"]["replicas"])


async def test_a_change_comes_and_a_scaling_is_not_undone(world: SimulatedWorld):
    world.cluster.patch(
        world.ref(TRAINING_JOBS, "train"), {"spec": {"replicas": 3}}, subresource="scale"
    )
    screen = make_screen()

    stored = await run(world, make(maxReplicas=8), screen)

    assert count(stored) == 3
    assert stored["spec"]["etReplicaSpecs"]["worker"]["maxReplicas"] == 8
    assert read(screen.out) == (
        f"TrainingJob train in namespace {NAMESPACE} is updated; it has 3 workers (--replicas sets "
        "another number)"
    )


async def test_the_number_that_is_said_is_set(world: SimulatedWorld):
    assert count(await run(world, make(), replicas=4)) == 4


async def test_what_an_update_brought_and_the_file_has_no_more_goes(world: SimulatedWorld):
    brought = await run(world, make(drainTimeoutSeconds=90, ttlSecondsAfterFinished=60))
    assert brought["spec"]["ttlSecondsAfterFinished"] == 60

    stored = await run(world, make(drainTimeoutSeconds=90))

    assert "ttlSecondsAfterFinished" not in stored["spec"]
    assert stored["spec"]["drainTimeoutSeconds"] == 90
    assert count(stored) == 2


async def submit(world: SimulatedWorld, manifest: Json) -> None:
    await submit_objects(
        join(world), make_screen(), [(TRAINING_JOBS, manifest)], namespace="", as_json=False
    )


def rename(manifest: dict[str, Any], name: str) -> dict[str, Any]:
    template = manifest["spec"]["etReplicaSpecs"]["worker"]["template"]
    template["spec"]["containers"][0]["name"] = name
    return manifest


def list_containers(job: Json) -> list[str]:
    template = job["spec"]["etReplicaSpecs"]["worker"]["template"]
    return [container["name"] for container in template["spec"]["containers"]]


async def test_what_the_first_submit_brought_and_the_file_has_no_more_goes(world: SimulatedWorld):
    await submit(world, rename(make(name="mine", ttlSecondsAfterFinished=60), "before"))
    screen = make_screen()

    stored = await run(world, rename(make(name="mine"), "after"), screen)

    assert "ttlSecondsAfterFinished" not in stored["spec"]
    assert list_containers(stored) == ["after"]
    assert "it stays" not in read(screen.err)


async def test_what_a_job_of_a_former_update_has_of_its_submit_goes(world: SimulatedWorld):
    """Neither time was anything handed over then."""
    await submit(world, make(name="mine", ttlSecondsAfterFinished=60))
    ref = world.ref(TRAINING_JOBS, "mine")
    body = build_update(make(name="mine", queue="some"), NAMESPACE, None, None)
    world.cluster.patch(ref, body, content_type=APPLY_PATCH, manager="et")

    stored = await run(world, make(name="mine"))

    assert "queue" not in stored["spec"]
    assert "ttlSecondsAfterFinished" not in stored["spec"]


async def test_a_file_that_was_made_of_a_stored_job_is_one_as_any_other(world: SimulatedWorld):
    """By `kubectl get -o yaml`, with --show-managed-fields; and the job may be another by now."""
    await submit(world, make(name="mine"))
    ref = world.ref(TRAINING_JOBS, "mine")
    exported = json.loads(json.dumps(await join(world).api.get_managed(ref)))

    same = await run(world, exported)
    assert same["metadata"]["uid"] == exported["metadata"]["uid"]

    world.delete(TRAINING_JOBS, "mine")
    await world.settle(timedelta(minutes=1))
    new = await run(world, exported)
    assert new["metadata"]["uid"] != exported["metadata"]["uid"]


async def test_a_number_that_was_scaled_stays_where_the_job_was_submitted(world: SimulatedWorld):
    await submit(world, make(name="mine", workers=2))
    ref = world.ref(TRAINING_JOBS, "mine")
    world.cluster.patch(ref, {"spec": {"replicas": 3}}, subresource="scale", manager="kubectl")
    assert count(await run(world, make(name="mine", workers=2))) == 3
    assert count(await run(world, make(name="mine", workers=2, backoffLimit=9))) == 3


async def test_an_update_ends_no_replacing_of_workers(world: SimulatedWorld):
    await submit(world, make(name="mine"))
    ref = world.ref(TRAINING_JOBS, "mine")
    annotations = {ANNOTATION_RENEWED: "1"}
    await join(world).api.patch(ref, {"metadata": {"annotations": annotations}})

    stored = await run(world, make(name="mine", backoffLimit=9))

    assert stored["metadata"]["annotations"] == annotations


async def test_one_that_changes_while_it_is_handed_over_is_looked_at_again(world: SimulatedWorld):
    def scale_between(call: Call, moment: Moment) -> None:
        is_write = (call.user, call.verb, moment) == ("et", "patch", Moment.BEFORE)
        if is_write and "managedFields" in call.body["metadata"] and not scaled:
            scaled.append(4)
            world.cluster.patch(ref, {"spec": {"replicas": 4}}, subresource="scale")

    await submit(world, make(name="mine", ttlSecondsAfterFinished=60))
    scaled: list[int] = []
    ref = world.ref(TRAINING_JOBS, "mine")
    world.log.faults.append(scale_between)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(run(world, make(name="mine")))
        await world.clock.advance(timedelta(seconds=1))
    assert count(task.result()) == 4
    assert "ttlSecondsAfterFinished" not in task.result()["spec"]
    assert scaled


async def test_what_others_have_decided_stays(world: SimulatedWorld):
    await run(world, make())
    world.change(TRAINING_JOBS, "train", {"spec": {"suspend": True}})

    assert (await run(world, make(backoffLimit=9)))["spec"]["suspend"] is True


async def test_a_job_that_was_let_go_on_is_not_suspended_by_its_old_file(world: SimulatedWorld):
    screen = make_screen()

    stored = await run(world, make(backoffLimit=9, suspend=True), screen)

    assert not stored["spec"].get("suspend")
    assert stored["spec"]["backoffLimit"] == 9
    assert "spec.suspend stays false, whatever the file says" in read(screen.err)


async def test_what_came_with_the_job_and_is_not_in_the_file_is_named(world: SimulatedWorld):
    world.change(TRAINING_JOBS, "train", {"spec": {"ttlSecondsAfterFinished": 60}})
    await run(world, make())
    screen = make_screen()

    stored = await run(world, make(), screen)

    assert stored["spec"]["ttlSecondsAfterFinished"] == 60
    assert "and it stays: spec.ttlSecondsAfterFinished; it came" in read(screen.err)
    assert read(screen.out).endswith("has what the file says already")


async def test_a_template_that_changes_is_told_with_what_to_type(world: SimulatedWorld):
    manifest, screen = make(), make_screen()
    template = manifest["spec"]["etReplicaSpecs"]["worker"]["template"]
    template["spec"]["containers"][0]["image"] = "trainer:2"

    await run(world, manifest, screen)

    assert "`et restart train -n team-a` for all, with --workers" in read(screen.err)


async def test_what_is_so_already_is_said_to_be(world: SimulatedWorld):
    await run(world, make())
    screen = make_screen()

    await run(world, make(), screen)

    assert read(screen.out).endswith("is as the file says already")


async def test_what_more_the_job_has_may_not_be_known(world: SimulatedWorld):
    def refuse(call: Call, moment: Moment) -> None:
        if (call.user, call.verb, moment) == ("et", "dry-run", Moment.BEFORE):
            raise Refused(403, "Forbidden", "you may not create trainingjobs")

    await run(world, make())
    world.log.faults.append(refuse)
    screen = make_screen()

    await run(world, make(), screen)

    assert read(screen.out).endswith("has what the file says already")
    assert "whether it has more than the file is not known" in read(screen.err)


class BoundedCluster(FakeCluster):
    """With the rule of the definition about names, which counts for those that are made up, too."""

    def dry_run(self, resource: Resource, namespace: str | None, manifest: Json) -> dict[str, Any]:
        found = super().dry_run(resource, namespace, manifest)
        if len(found["metadata"]["name"]) > MAX_JOB_NAME:
            raise Refused(422, "Invalid", "choose a shorter name")
        return found


async def test_what_more_the_job_has_is_known_of_the_longest_name_too():
    screen, clock = make_screen(), FakeClock()
    cluster = make_cluster(BoundedCluster(clock.now), clock)
    manifest = make()
    manifest["metadata"]["name"] = "a-job-" + "b" * (MAX_JOB_NAME - 6)
    for _ in range(2):
        await update(cluster, screen, [(TRAINING_JOBS, manifest)], namespace="", replicas=None)
    assert read(screen.out).endswith("is as the file says already")


async def test_a_job_that_is_not_there_is_created():
    screen, clock = make_screen(), FakeClock()
    cluster = make_cluster(FakeCluster(clock.now), clock)

    [stored] = await update(cluster, screen, [(TRAINING_JOBS, make())], namespace="", replicas=None)

    assert count(stored) == 2
    assert read(screen.out) == f"TrainingJob train in namespace {NAMESPACE} is created"


async def test_one_that_changes_meanwhile_is_looked_at_again(world: SimulatedWorld):
    scaled: list[int] = []

    def scale_between(call: Call, moment: Moment) -> None:
        if (call.user, call.verb, moment) == ("et", "patch", Moment.BEFORE) and not scaled:
            scaled.append(4)
            ref = world.ref(TRAINING_JOBS, "train")
            world.cluster.patch(ref, {"spec": {"replicas": 4}}, subresource="scale")

    world.log.faults.append(scale_between)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(run(world, make(maxReplicas=8)))
        await world.clock.advance(timedelta(seconds=1))
    assert count(task.result()) == 4
    assert scaled


async def test_one_that_somebody_makes_meanwhile_is_changed_as_one_that_was_there():
    screen, clock, log = make_screen(), FakeClock(), CallLog()
    fake = FakeCluster(clock.now)

    def make_before(call: Call, moment: Moment) -> None:
        if call.is_write and moment is Moment.BEFORE and not fake.list(TRAINING_JOBS):
            fake.create(TRAINING_JOBS, NAMESPACE, make(workers=3, suspend=True))

    log.faults.append(make_before)
    objects = [(TRAINING_JOBS, make(workers=2))]
    cluster = make_cluster(fake, clock, log=log)
    async with asyncio.TaskGroup() as group:
        work = update(cluster, screen, objects, namespace="", replicas=None)
        task = group.create_task(work)
        await clock.advance(timedelta(seconds=1))

    [stored] = task.result()
    assert (count(stored), stored["spec"]["suspend"]) == (3, True)


async def test_a_job_that_has_ended_or_something_else_is_not_updated(world: SimulatedWorld):
    with pytest.raises(EtError, match="a ScaleOut is never changed"):
        await update(
            join(world),
            make_screen(),
            [(SCALE_OUTS, make_scale_out("more"))],
            namespace="",
            replicas=None,
        )
    world.end_command(0)
    await world.until(lambda: world.phase() == "Succeeded")
    with pytest.raises(EtError, match=r"train has ended .*`et delete train`, and submit it again"):
        await run(world, make())


async def test_a_job_that_is_being_deleted_is_not_updated(world: SimulatedWorld):
    finalizers = {"metadata": {"finalizers": ["foregroundDeletion"]}}
    world.change(TRAINING_JOBS, "train", finalizers)
    world.delete(TRAINING_JOBS, "train")
    before = world.get(TRAINING_JOBS, "train")
    assert before["metadata"]["deletionTimestamp"]

    words = (
        r"train is being deleted, .*wait --for=delete trainingjob train -n team-a`\), then submit"
    )
    with pytest.raises(EtError, match=words):
        await run(world, make(maxReplicas=3))

    assert world.get(TRAINING_JOBS, "train")["spec"] == before["spec"]


def test_what_is_applied_leaves_the_file_as_it_is():
    manifest = make(workers=2)
    body = build_update(manifest, "team", None, 7)
    assert count(body) == 7
    assert count(manifest) == 2


def test_a_change_that_leaves_workers_without_anything_to_run_is_told(tmp_path: Path):
    desk, path = Desk(), tmp_path / "job.yaml"
    manifest = make(workers=2)
    launcher = manifest["spec"]["etReplicaSpecs"]["launcher"]["template"]["spec"]["containers"][0]
    launcher["command"] = [*launcher["command"][:-1], "--max-np", "4", "train.py"]
    for most, told in (
        (4, ""),
        (8, "runs 4 processes at most (--max-np), and 8 workers of"),
    ):
        manifest["spec"]["etReplicaSpecs"]["worker"]["maxReplicas"] = most
        path.write_text(json.dumps(manifest), encoding="utf-8")
        assert desk.type("submit", "--update", str(path)) == 0
        assert told in desk.err
        assert ("warning: " in desk.err) is bool(told)


@pytest.mark.long
def test_replicas_count_where_they_are_said(tmp_path: Path):
    desk, path = Desk(), tmp_path / "job.yaml"
    path.write_text(json.dumps(make(workers=2)), encoding="utf-8")
    numbers = []
    for words in ((), ("--replicas", "3"), ()):
        assert desk.type("submit", "--update", str(path), *words) == 0
        numbers.append(count(desk.cluster.list(TRAINING_JOBS)[0]))
    assert numbers == [2, 3, 3]
