"""`et run`, as a person types it and as it is done against the whole operator."""

from __future__ import annotations

import asyncio
import base64
import json
from datetime import timedelta
from pathlib import Path

import pytest
import yaml

from et.errors import EtError
from et.quickjobs import QuickJob
from et.restarting import restart
from et.runs import Run, build_run, run_script
from et.screens import Screen
from et.scripts import MOST
from et_kube.errors import OutcomeUnknown, Refused, Unreachable
from et_kube.resources import CONFIG_MAPS, PODS, TRAINING_JOBS, Ref, Resource
from fakes.clients import Call, Fault, Moment
from tests.makers import make_job
from tests.simulation.worlds import NAMESPACE, SimulatedWorld
from tests.unit.et.rigs import join, make_screen, read
from tests.unit.et.test_commands import Desk
from tests.unit.et.test_deleting import Answering

LIMIT = timedelta(minutes=5)
SECOND = timedelta(seconds=1)


def change(script: str) -> None:
    Path(script).write_text("print('two')\n")


@pytest.fixture
def script(tmp_path: Path) -> str:
    path = tmp_path / "train_net.py"
    path.write_text("print('one')\n")
    return str(path)


def build(script: str, **fields: object) -> Run:
    return build_run(QuickJob("train", "img", (), **fields), script, ())  # type: ignore[arg-type]


async def run_once(
    world: SimulatedWorld, run: Run, screen: Screen | None = None, *, is_sure: bool = False
) -> None:
    cluster, screen = join(world), screen or Answering(says=False)
    await run_script(cluster, screen, run, is_sure=is_sure, limit=LIMIT, as_json=False)


async def run(world: SimulatedWorld, script: str, screen: Screen | None = None) -> None:
    """Run it, and let time pass until that is over."""
    async with asyncio.TaskGroup() as group:
        task = group.create_task(run_once(world, build(script), screen, is_sure=screen is None))
        for _ in range(3):
            await world.settle(timedelta(minutes=2))
            await world.clock.advance(SECOND)
        assert task.done()


async def end(world: SimulatedWorld, script: str) -> str:
    """A run of it that has ended; its job's uid."""
    await run(world, script)
    await world.until(lambda: world.phase() == "Running")
    world.end_command(0)
    await world.until(lambda: world.phase() == "Succeeded")
    return find_uid(world)


def find_uid(world: SimulatedWorld) -> str:
    uid: str = world.get(TRAINING_JOBS, "train")["metadata"]["uid"]
    return uid


def strike(verb: str, resource: Resource, moment: Moment, error: BaseException) -> Fault:
    """It strikes each such request of a person."""

    def fault(call: Call, when: Moment) -> None:
        if (call.user, call.verb, call.ref.resource, when) == ("et", verb, resource, moment):
            raise error

    return fault


def find_scripts(world: SimulatedWorld) -> list[str]:
    maps = world.cluster.list(CONFIG_MAPS)
    return [one["data"]["train_net.py"] for one in maps if "train_net.py" in one["data"]]


def test_a_script_and_what_is_beside_it_are_sent_with_the_job(tmp_path: Path, script: str):
    desk = Desk()
    other = tmp_path / "weights.bin"
    other.write_bytes(b"\xff\x00")

    words = ("run", script, "--image", "img", "--replicas", "2", "--max", "4", "--slots", "2")
    assert desk.type(*words, "--with", str(other), "--", "--lr", "0.1") == 0

    (job,), (files,) = desk.cluster.list(TRAINING_JOBS), desk.cluster.list(CONFIG_MAPS)
    assert job["metadata"]["name"] == "train-net"
    roles = job["spec"]["etReplicaSpecs"]
    assert " ".join(roles["launcher"]["template"]["spec"]["containers"][0]["command"]) == (
        "horovodrun -np 4 --max-np 8 --host-discovery-script /etc/edl/discover_hosts.sh "
        "python3 -u /training/train_net.py --lr 0.1"
    )
    assert job["spec"]["slotsPerWorker"] == 2
    worker = roles["worker"]["template"]["spec"]
    assert worker["volumes"][0]["configMap"] == {"name": files["metadata"]["name"]}
    assert worker["containers"][0]["volumeMounts"][0]["mountPath"] == "/training"
    assert "volumes" not in roles["launcher"]["template"]["spec"]
    assert files["data"] == {"train_net.py": "print('one')\n"}
    assert base64.b64decode(files["binaryData"]["weights.bin"]) == b"\xff\x00"
    (owner,) = files["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"]) == ("TrainingJob", job["metadata"]["uid"])
    assert desk.out == f"TrainingJob train-net is created in namespace {NAMESPACE}"


def test_a_dry_run_shows_both(script: str):
    desk = Desk()

    assert desk.type("run", script, "--image", "img", "--dry-run") == 0

    job, files = yaml.safe_load_all(desk.out)
    assert (job["kind"], files["kind"]) == ("TrainingJob", "ConfigMap")
    assert desk.cluster.list(CONFIG_MAPS) == []


@pytest.mark.long
async def test_a_changed_script_takes_the_place_of_its_ended_job(script: str):
    async with SimulatedWorld() as world:
        await run(world, script)
        assert find_scripts(world) == ["print('one')\n"]
        await world.until(lambda: world.phase() == "Running")
        first = world.get(TRAINING_JOBS, "train")["metadata"]["uid"]
        world.end_command(0)
        await world.until(lambda: world.phase() == "Succeeded")

        change(script)
        await run(world, script)
        await world.until(lambda: world.phase() == "Running")

        assert world.get(TRAINING_JOBS, "train")["metadata"]["uid"] != first
        assert find_scripts(world) == ["print('two')\n"]


async def test_what_trains_is_left_alone_and_it_is_said_what_to_type(script: str):
    async with SimulatedWorld() as world:
        await run(world, script)
        await world.until(lambda: world.phase() == "Running")

        with pytest.raises(EtError, match=r"train has not ended \(Running\): `et delete train`"):
            await run_once(world, build(script))

        assert world.phase() == "Running"


async def test_a_job_of_somebody_else_is_never_replaced(script: str):
    async with SimulatedWorld() as world:
        world.create(TRAINING_JOBS, make_job("train"))
        await world.until(lambda: world.phase() == "Running")
        world.end_command(0)
        await world.until(lambda: world.phase() == "Succeeded")

        with pytest.raises(EtError, match="that et run has not made: choose another --name"):
            await run_once(world, build(script))

        assert world.phase() == "Succeeded"


@pytest.mark.long
@pytest.mark.parametrize("says", [True, False])
async def test_whoever_has_an_ended_job_is_asked_before_it_goes(script: str, *, says: bool):
    async with SimulatedWorld() as world:
        before = await end(world, script)
        screen = Answering(says=says)
        if says:
            await run(world, script, screen)
        else:
            with pytest.raises(EtError, match="nothing was deleted, and nothing made"):
                await run_once(world, build(script), screen)

        assert (find_uid(world) != before) == says
        asked = "in the way, of train_net.py: TrainingJob train (Succeeded), 1 pod with what they"
        assert read(screen.err).startswith(asked)


def test_without_a_terminal_an_ended_job_stays_and_it_is_said_what_to_type(script: str):
    desk = Desk()
    words = ("run", script, "--image", "img")
    assert desk.type(*words) == 0
    (job,) = desk.cluster.list(TRAINING_JOBS)
    ended = {"status": {"phase": "Succeeded"}}
    desk.cluster.patch(Ref(TRAINING_JOBS, NAMESPACE, "train-net"), ended, subresource="status")

    assert desk.type(*words) == 1
    assert desk.err.endswith("et: nobody has said yes: --yes does not ask")
    (stays,) = desk.cluster.list(TRAINING_JOBS)
    assert stays["metadata"]["uid"] == job["metadata"]["uid"]
    assert desk.type(*words, "--yes") == 0
    (new,) = desk.cluster.list(TRAINING_JOBS)
    assert new["metadata"]["uid"] != job["metadata"]["uid"]


@pytest.mark.parametrize("resource", [TRAINING_JOBS, CONFIG_MAPS])
async def test_what_is_refused_deletes_nothing_and_leaves_nothing(script: str, resource: Resource):
    refusal = strike("dry-run", resource, Moment.BEFORE, Refused(403, "Forbidden", "quota"))
    async with SimulatedWorld() as world:
        world.log.faults.append(refusal)
        with pytest.raises(Refused):
            await run_once(world, build(script), is_sure=True)
        assert not world.get(TRAINING_JOBS, "train")
        world.log.faults.clear()
        before = await end(world, script)

        world.log.faults.append(refusal)
        with pytest.raises(Refused):
            await run_once(world, build(script), is_sure=True)
        assert find_uid(world) == before


async def test_who_may_not_let_a_job_begin_loses_none(script: str):
    refusal = Refused(403, "Forbidden", "cannot patch")
    async with SimulatedWorld() as world:
        before = await end(world, script)
        world.log.faults.append(strike("patch", TRAINING_JOBS, Moment.BEFORE, refusal))
        with pytest.raises(Refused):
            await run_once(world, build(script), is_sure=True)

        assert find_uid(world) == before

    async with SimulatedWorld() as world:
        world.log.faults.append(strike("patch", TRAINING_JOBS, Moment.BEFORE, refusal))
        with pytest.raises(Refused):
            await run_once(world, build(script))

        assert world.cluster.list(TRAINING_JOBS) == []


@pytest.mark.long
async def test_a_quota_that_the_ended_job_fills_is_no_refusal(script: str):
    def refuse(call: Call, moment: Moment) -> None:
        is_one_more = call.verb in {"create", "dry-run"} and call.ref.resource == TRAINING_JOBS
        if is_one_more and moment is Moment.BEFORE and world.cluster.list(TRAINING_JOBS):
            raise Refused(403, "Forbidden", 'trainingjobs "train" is forbidden: exceeded quota: q')

    async with SimulatedWorld() as world:
        before = await end(world, script)
        world.log.faults.append(refuse)
        screen = Answering(says=True)

        await run(world, script, screen)

        assert find_uid(world) != before
        assert read(screen.err).startswith("a quota has no room beside the one that is in the way")


@pytest.mark.long
@pytest.mark.parametrize("ago", [SECOND, timedelta(minutes=5)])
@pytest.mark.parametrize("is_job_there", [True, False])
async def test_pods_that_do_not_go_are_named_and_another_name_is_advised(
    script: str, ago: timedelta, *, is_job_there: bool
):
    async with SimulatedWorld() as world:
        before = await end(world, script)
        world.change(PODS, "train-launcher", {"metadata": {"finalizers": ["corp.example/x"]}})
        if is_job_there:
            world.delete(PODS, "train-launcher")
        else:
            world.delete(TRAINING_JOBS, "train")
        await world.settle(timedelta(minutes=2))
        await world.clock.advance(ago)
        raised: list[str] = []

        async def go() -> None:
            try:
                await run_once(world, build(script), is_sure=True)
            except EtError as error:
                raised.append(str(error))

        async with asyncio.TaskGroup() as group:
            group.create_task(go())
            await world.settle(timedelta(minutes=1))
            await world.clock.advance(LIMIT)

        (said,) = raised
        assert said.startswith("pods of the former train do not go (train-launcher on node-")
        assert said.endswith("choose another --name")
        jobs = [job["metadata"]["uid"] for job in world.cluster.list(TRAINING_JOBS)]
        assert jobs == ([before] if is_job_there else [])


async def test_what_is_odd_in_a_job_is_told_as_it_is_made(script: str):
    screen, odd = make_screen(), build(script)
    (container,) = odd.job["spec"]["etReplicaSpecs"]["launcher"]["template"]["spec"]["containers"]
    container["command"] = ["horovodrun", "-np", "2", "python3", "x.py"]
    async with SimulatedWorld() as world:
        await run_once(world, odd, screen)

    assert read(screen.err).startswith(
        "warning: the command of the launcher tells horovodrun of no"
    )


SUSPENDED = (
    "train may be left without its script, suspended: it runs nothing; `et delete train`, then "
    "type this again"
)
UNANSWERED = OutcomeUnknown("create: connection reset")


@pytest.mark.parametrize(
    "fault",
    [
        strike("create", TRAINING_JOBS, Moment.AFTER, UNANSWERED),
        strike("create", TRAINING_JOBS, Moment.AFTER, asyncio.CancelledError()),
        strike("create", CONFIG_MAPS, Moment.BEFORE, asyncio.CancelledError()),
        strike("create", CONFIG_MAPS, Moment.BEFORE, Unreachable("no route")),
        strike("create", CONFIG_MAPS, Moment.BEFORE, Refused(403, "Forbidden", "quota")),
        strike("create", CONFIG_MAPS, Moment.AFTER, UNANSWERED),
    ],
)
async def test_what_is_cut_off_before_the_files_are_there_runs_nothing(script: str, fault: Fault):
    screen = make_screen()
    async with SimulatedWorld() as world:
        world.log.faults.append(fault)
        with pytest.raises((OutcomeUnknown, Unreachable, Refused, asyncio.CancelledError)):
            await run_once(world, build(script), screen)
        world.log.faults.clear()
        await world.settle(timedelta(minutes=2))

        assert read(screen.err) == SUSPENDED
        assert world.get(TRAINING_JOBS, "train")["spec"]["suspend"] is True
        assert world.cluster.list(PODS) == []
        with pytest.raises(EtError, match=r"has not ended .*: `et delete train` ends"):
            await run_once(world, build(script), is_sure=True)


async def test_a_job_that_was_never_stored_is_not_said_to_be_left(script: str):
    screen = make_screen()
    async with SimulatedWorld() as world:
        refusal = Refused(403, "Forbidden", "quota")
        world.log.faults.append(strike("create", TRAINING_JOBS, Moment.BEFORE, refusal))
        with pytest.raises(Refused):
            await run_once(world, build(script), screen)

    assert read(screen.err) == ""


@pytest.mark.long
async def test_a_job_with_its_files_is_let_begin_though_an_answer_is_lost(script: str):
    answers = [UNANSWERED]

    def fault(call: Call, moment: Moment) -> None:
        is_patch = (call.user, call.verb, moment) == ("et", "patch", Moment.AFTER)
        if is_patch and call.body and answers:
            raise answers.pop()

    async with SimulatedWorld() as world:
        world.log.faults.append(fault)
        await run(world, script)
        await world.until(lambda: world.phase() == "Running")

        assert not answers
        assert world.launchers() == ["train-launcher"]
        assert not world.get(TRAINING_JOBS, "train")["spec"]["suspend"]


async def test_who_may_not_let_it_begin_is_told_how_it_will(script: str):
    screen = make_screen()

    def refusal(call: Call, moment: Moment) -> None:
        if (call.user, call.verb) == ("et", "patch") and call.body and moment is Moment.BEFORE:
            raise Refused(403, "Forbidden", "taken away since it was tried")

    async with SimulatedWorld() as world:
        world.log.faults.append(refusal)
        with pytest.raises(Refused):
            await run_once(world, build(script), screen)
        world.log.faults.clear()
        await world.until(lambda: world.phase() == "Suspended")

        async with asyncio.TaskGroup() as group:
            group.create_task(restart(join(world), make_screen(), "train", LIMIT))
            for _ in range(3):
                await world.settle(timedelta(minutes=1))
                await world.clock.advance(SECOND)
        await world.until(lambda: world.phase() == "Running")

    assert read(screen.err) == "train may be suspended still: `et restart train` lets it begin"


async def test_who_is_interrupted_between_two_jobs_is_told(script: str):
    async with SimulatedWorld() as world:
        await end(world, script)
        screen = make_screen()
        world.log.faults.append(
            strike("delete", TRAINING_JOBS, Moment.AFTER, asyncio.CancelledError())
        )
        with pytest.raises(asyncio.CancelledError):
            await run_once(world, build(script), screen, is_sure=True)

    assert read(screen.err).endswith("the new train is not made: type this again")


@pytest.mark.long
def test_files_that_cannot_be_sent_are_named(tmp_path: Path, script: str):
    desk = Desk()
    (tmp_path / "data.bin").write_bytes(b"x" * (MOST + 1))
    (tmp_path / "run.sh").write_text("x")
    twin = tmp_path / "twin"
    twin.mkdir()
    (twin / "train_net.py").write_text("x")
    complaints = {
        (script,): "give --image",
        (script, "--image", "i", "--with", str(tmp_path)): "is a folder: name its files",
        (script, "--image", "i", "--with", str(tmp_path / "data.bin")): "put data on a volume",
        (script, "--image", "i", "--with", str(twin / "train_net.py")): "two files train_net.py",
        (str(tmp_path / "run.sh"), "--image", "i"): "is no Python script (.py)",
        ("nowhere.py", "--image", "i"): "nowhere.py cannot be read: No such file",
    }
    for words, complaint in complaints.items():
        assert desk.type("run", *words) == 1, words
        assert complaint in desk.err
    assert desk.cluster.list(TRAINING_JOBS) == []


# ------------------------------------------------------------------ options that submit has too
def test_secrets_and_volumes_are_named_for_the_workers_alone():
    desk = Desk()
    options = (
        *("--env", "A=1", "--env-from", "secret/keys", "--env-from", "configmap/places"),
        *("--secret-env", "TOKEN=hub/token", "--volume", "data:/data:ro"),
        *("--volume", "secret/cert:/cert"),
    )

    words = ("submit", "--name", "n", "--image", "i", *options, "--", "python3", "x.py")
    assert desk.type(*words) == 0

    (job,) = desk.cluster.list(TRAINING_JOBS)
    roles = job["spec"]["etReplicaSpecs"]
    worker = roles["worker"]["template"]["spec"]
    (container,) = worker["containers"]
    assert container["env"] == [
        {"name": "A", "value": "1"},
        {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "hub", "key": "token"}}},
    ]
    assert container["envFrom"] == [
        {"secretRef": {"name": "keys"}},
        {"configMapRef": {"name": "places"}},
    ]
    assert [volume | {"name": ""} for volume in worker["volumes"]] == [
        {"name": "", "persistentVolumeClaim": {"claimName": "data"}},
        {"name": "", "secret": {"secretName": "cert"}},
    ]
    assert container["volumeMounts"][0] == {
        "name": "volume-0",
        "mountPath": "/data",
        "readOnly": True,
    }
    launcher = roles["launcher"]["template"]["spec"]
    assert "volumes" not in launcher
    assert launcher["containers"][0]["env"] == [{"name": "A", "value": "1"}]


def test_a_raw_command_has_the_volumes_and_still_no_secrets():
    desk = Desk()

    options = ("--raw", "--volume", "data:/data", "--secret-env", "TOKEN=hub/token", "--env", "A=1")
    words = ("submit", "--name", "n", "--image", "i", *options, "--dry-run", "-o", "json")
    assert desk.type(*words, "--", "sh", "/data/run.sh") == 0

    job = json.loads(desk.out)
    launcher = job["spec"]["etReplicaSpecs"]["launcher"]["template"]["spec"]
    assert launcher["containers"][0]["volumeMounts"][0]["mountPath"] == "/data"
    assert launcher["containers"][0]["env"] == [{"name": "A", "value": "1"}]


def test_yaml_for_people_has_no_anchors():
    desk = Desk()

    words = ("submit", "--name", "n", "--image", "i", "--env", "A=1", "--dry-run", "--", "run")
    assert desk.type(*words) == 0

    assert "&id" not in desk.out
    assert desk.out.count("value: '1'") == 2


@pytest.mark.parametrize(
    ("option", "complaint"),
    [
        (("--secret-env", "hunter2"), "--secret-env: write NAME=SECRET/KEY"),
        (("--secret-env", "A=hunter2"), "--secret-env: write NAME=SECRET/KEY"),
        (("--secret-env", "A=Hunter2/K7MDENG/bPx"), "--secret-env: write NAME=SECRET/KEY"),
        (("--secret-env", "A=hunter2/K7MDENG/bPx"), "--secret-env: write NAME=SECRET/KEY"),
        (("--secret-env", "A=hunter2/K7MDENG+"), "--secret-env: write NAME=SECRET/KEY"),
        (("--secret-env", "A=Hunter2/key"), "--secret-env: write NAME=SECRET/KEY"),
        (("--secret-env", "hunter2 A=hub/key"), "--secret-env: write NAME=SECRET/KEY"),
        (("--env-from", "hunter2"), "--env-from: write secret/NAME or configmap/NAME"),
        (("--env-from", "secret/Hunter2"), "--env-from: write secret/NAME or configmap/NAME"),
        (("--env-from", "secret/hunter2/a"), "--env-from: write secret/NAME or configmap/NAME"),
        (("--volume", "data"), "--volume data: write CLAIM:/path, secret/NAME:/path"),
        (("--volume", "data:relative"), "--volume data:relative: write CLAIM:/path"),
    ],
)
def test_an_option_that_cannot_be_read_says_what_to_write(option: tuple[str, str], complaint: str):
    desk = Desk()

    assert desk.type("submit", "--name", "n", "--image", "i", *option, "--", "run") == 1

    assert desk.err.startswith(f"et: {complaint}")
    assert "hunter2" not in desk.err.lower()
    assert desk.log.calls == []
