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
from et.runs import Run, build_run, run_script
from et.scripts import MOST
from et_kube.errors import Refused
from et_kube.resources import CONFIG_MAPS, TRAINING_JOBS
from fakes.clients import Call, Moment
from tests.makers import make_job
from tests.simulation.worlds import NAMESPACE, SimulatedWorld
from tests.unit.et.rigs import join, make_screen
from tests.unit.et.test_commands import Desk

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


async def run(world: SimulatedWorld, script: str) -> None:
    """Run it, and let time pass until that is over."""
    async with asyncio.TaskGroup() as group:
        work = run_script(join(world), make_screen(), build(script), limit=LIMIT, as_json=False)
        task = group.create_task(work)
        for _ in range(3):
            await world.settle(timedelta(minutes=2))
            await world.clock.advance(SECOND)
        assert task.done()


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
            await run_script(join(world), make_screen(), build(script), limit=LIMIT, as_json=False)

        assert world.phase() == "Running"


async def test_a_job_of_somebody_else_is_never_replaced(script: str):
    async with SimulatedWorld() as world:
        world.create(TRAINING_JOBS, make_job("train"))
        await world.until(lambda: world.phase() == "Running")
        world.end_command(0)
        await world.until(lambda: world.phase() == "Succeeded")

        with pytest.raises(EtError, match="that et run has not made: choose another --name"):
            await run_script(join(world), make_screen(), build(script), limit=LIMIT, as_json=False)

        assert world.phase() == "Succeeded"


async def test_no_job_stays_whose_script_is_refused(script: str):
    def refuse(call: Call, moment: Moment) -> None:
        if call.verb == "create" and call.ref.resource is CONFIG_MAPS and call.user == "et":
            raise Refused(403, "Forbidden", "exceeded quota")

    async with SimulatedWorld() as world:
        world.log.faults.append(refuse)
        with pytest.raises(Refused):
            await run_script(join(world), make_screen(), build(script), limit=LIMIT, as_json=False)

        assert not world.get(TRAINING_JOBS, "train")


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
        (("--env-from", "keys"), "--env-from keys: write secret/NAME or configmap/NAME"),
        (("--volume", "data"), "--volume data: write CLAIM:/path, secret/NAME:/path"),
        (("--volume", "data:relative"), "--volume data:relative: write CLAIM:/path"),
    ],
)
def test_an_option_that_cannot_be_read_says_what_to_write(option: tuple[str, str], complaint: str):
    desk = Desk()

    assert desk.type("submit", "--name", "n", "--image", "i", *option, "--", "run") == 1

    assert desk.err.startswith(f"et: {complaint}")
    assert "hunter2" not in desk.err
