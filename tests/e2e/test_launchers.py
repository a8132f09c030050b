"""Launchers beside the plain horovodrun: with our transport inside, mpirun, DeepSpeed's runner."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes import client
from kubernetes.stream import stream

from tests.e2e.world import IMAGE, ROOT, RealWorld, build_job, grow_and_shrink, scale_in, train

pytestmark = pytest.mark.cluster

STAND_IN = ROOT / "tests" / "e2e" / "stand_in"
STAND_IN_PLACES = (
    "/usr/local/bin/deepspeed",
    "/workspace/deepspeed/launcher/runner.py",
    "/workspace/deepspeed/launcher/launch.py",
    "/workspace/train.py",
)
PI = ["python3", "-m", "mpi4py", "/examples/mpi4py/pi.py"]
FLAT = """
cat > /tmp/agent <<'END'
#!/bin/sh
echo "$1" >> /tmp/called
read -r word < /tmp/gate
exit 1
END
chmod +x /tmp/agent
mkfifo /tmp/gate
touch /tmp/called
for n in $(seq 70); do echo "host-$n slots=1"; done > /tmp/hosts
export OMPI_MCA_plm_rsh_agent=/tmp/agent
timeout -k 5 60 mpirun -np 70 --hostfile /tmp/hosts true &
for n in $(seq 60); do
    if [ "$(wc -l < /tmp/called)" -ge 70 ]; then break; fi
    sleep 1
done
: 3<> /tmp/gate 4> /tmp/gate
wait
sort -u /tmp/called | wc -l | sed 's/^/daemons started by the launcher: /'
"""
"""Daemons that wait for each other: a tree of them, or a few at a time, would never get there."""


def run_in(world: RealWorld, pod: str, command: str) -> str:
    """Output of a shell command in a pod."""
    container = world.core.read_namespaced_pod(pod, world.namespace).spec.containers[0].name
    session = stream(
        world.core.connect_get_namespaced_pod_exec,
        pod,
        world.namespace,
        command=["sh", "-c", command],
        container=container,
        stdout=True,
        stderr=True,
        _preload_content=False,
    )
    try:
        session.run_forever(timeout=30)
        output: str = session.read_all()
        return output
    finally:
        session.sock.shutdown()  # close() leaves a socket that the other side has ended


def wait_for_nothing(world: RealWorld, pod: str, pattern: str) -> None:
    """Until no process of the pod has a command line like this."""
    command = f"ps -eo args | grep -E '{pattern}' | grep -v grep"
    world.wait(lambda: not run_in(world, pod, command), f"{pod} has no {pattern}", 60)


def read_example(name: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((ROOT / "examples" / name).read_text())
    return found


@pytest.mark.point("in-process")
def test_horovodrun_with_our_transport_inside_loses_no_step(world: RealWorld) -> None:
    job = build_job("inside", command=train("--steps", "110", "--step-seconds", "0.3"))
    name = "horovodrun-in-process"
    job["metadata"]["annotations"] = {"kai.alibabacloud.com/launcher": name}
    world.create(job)
    world.wait_for_size("inside", 2)
    log = world.log("inside-launcher")
    assert "horovodrun starts processes in workers by itself" in log
    assert "[0]<stdout>:step=" in log
    programs = run_in(world, "inside-launcher", "ps -eo args")
    assert "horovodrun" in programs
    assert "rsh.py" not in programs

    grow_and_shrink(world, "inside", by=2, to=4)
    world.wait_for_size("inside", 3)
    world.wait_for_phase("inside", "Succeeded", timeout=180)
    assert world.sizes("inside") == [2, 4, 3]
    assert [step.number for step in world.steps("inside")] == list(range(1, 111))


@pytest.mark.point("mpirun")
def test_mpirun_runs_ranks_of_mpi4py_on_two_workers(world: RealWorld) -> None:
    world.create(read_example("mpirun.yaml"))
    world.wait_for_phase("mpi", "Succeeded", timeout=120)
    log = world.log("mpi-launcher")
    # mpirun may put what two ranks print on one line.
    ranks = re.findall(r"rank=(\d) size=4 host=(mpi-worker-\d)", log)
    assert {int(rank) for rank, _ in ranks} == set(range(4))
    assert {host for _, host in ranks} == {"mpi-worker-0", "mpi-worker-1"}
    assert "pi=3.14159265" in log


@pytest.mark.point("case-37")
def test_case_37_mpirun_starts_70_daemons_from_the_launcher_alone(world: RealWorld) -> None:
    job = build_job("flat", command=["sh", "-c", FLAT], workers=1, minimum=None, maximum=None)
    world.create(job)
    world.wait_for_phase("flat", "Succeeded", timeout=120)
    assert "daemons started by the launcher: 70" in world.log("flat-launcher")


@pytest.mark.point("case-37")
@pytest.mark.point("not-elastic")
@pytest.mark.parametrize("fault", ["rank", "daemon"])
def test_case_37_what_ends_mpirun_fails_the_job_once_and_leaves_no_daemon(
    world: RealWorld, fault: str
) -> None:
    arguments = ["--seconds", "300"] + ([] if fault == "daemon" else ["--fail-rank", "1"])
    command = ["mpirun", "-np", "2", *PI, *arguments]
    world.create(build_job("gang", command=command, minimum=1, cleanPodPolicy="None"))
    if fault == "daemon":
        world.wait(lambda: "rank=1" in world.log("gang-launcher"), "all ranks run")
        world.create(scale_in("less", "gang", count=1))
        status = world.wait_for_scaling("scaleins", "less")
        assert status["conditions"][-1]["reason"] == "NotElastic"
        run_in(world, "gang-worker-1", "pkill -KILL orted")
    world.wait_for_phase("gang", "Failed")
    assert world.status("trainingjobs", "gang")["failures"]["user"] == 1
    assert len(world.pods("launcher")) == 1
    for worker in ("gang-worker-0", "gang-worker-1"):
        wait_for_nothing(world, worker, "orted|pi.py")


@pytest.mark.point("mpirun-lost")
def test_a_lost_worker_starts_mpirun_anew_and_nobody_is_blamed(world: RealWorld) -> None:
    command = ["mpirun", "-np", "2", *PI, "--seconds", "10"]
    world.create(build_job("gang", command=command, minimum=1))
    world.wait(lambda: "rank=1" in world.log("gang-launcher"), "all ranks run")
    world.core.delete_namespaced_pod("gang-worker-1", world.namespace, grace_period_seconds=0)
    world.wait_for_phase("gang", "Succeeded", timeout=180)
    status = world.status("trainingjobs", "gang")
    assert status["failures"].get("user", 0) == 0
    assert status["failures"]["infrastructure"] == 1
    log = "".join(world.log(pod.metadata.name) for pod in world.pods("launcher"))
    assert "host=gang-worker-2" in log
    assert "pi=3.14159265" in log


def deepspeed(world: RealWorld, *arguments: str) -> dict[str, Any]:
    """The example, with a stand-in for DeepSpeed and its training in the place of an image."""
    world.core.create_namespaced_config_map(
        world.namespace,
        client.V1ConfigMap(
            metadata=client.V1ObjectMeta(name="stand-in"),
            data={path.name: path.read_text() for path in STAND_IN.glob("*.py")}
            | {"deepspeed": '#!/bin/sh\nexec python3 -m deepspeed.launcher.runner "$@"\n'},
        ),
    )
    job = read_example("deepspeed.yaml")
    roles = job["spec"]["etReplicaSpecs"]
    for role in roles.values():
        spec = role["template"]["spec"]
        spec["containers"][0] |= {"image": IMAGE, "imagePullPolicy": "IfNotPresent"}
        spec["containers"][0]["volumeMounts"] = [
            {"name": "stand-in", "mountPath": path, "subPath": Path(path).name}
            for path in STAND_IN_PLACES
        ]
        source = {"name": "stand-in", "defaultMode": 0o755}
        spec["volumes"] = [{"name": "stand-in", "configMap": source}]
    roles["launcher"]["template"]["spec"]["containers"][0]["command"] += arguments
    return job


@pytest.mark.point("deepspeed")
def test_deepspeeds_runner_starts_its_ranks_on_two_workers(world: RealWorld) -> None:
    world.create(deepspeed(world, "two words"))
    world.wait_for_phase("deepspeed", "Succeeded", timeout=120)
    log = world.log("deepspeed-launcher")
    said = re.findall(r"(.*): rank=(\d) size=4 host=(.*) \['--deepspeed', 'two words'\]", log)
    ranks = {int(rank): (host, name) for host, rank, name in said}
    first = ranks[0][0]  # the worker that was heard of first
    [second] = {"deepspeed-worker-0", "deepspeed-worker-1"} - {first}
    assert ranks == dict(enumerate([(first, first)] * 2 + [(second, second)] * 2))
    assert f"{first}: everybody is here" in log.splitlines()


@pytest.mark.point("case-38")
def test_case_38_deepspeeds_runner_ends_its_ranks_on_sigint(world: RealWorld) -> None:
    job = deepspeed(world, "forever")
    job["spec"]["cleanPodPolicy"] = "None"
    world.create(job)
    name = "deepspeed-launcher"
    world.wait(lambda: "everybody is here" in world.log(name), "all ranks run")
    run_in(world, name, "pkill -INT -f '[d]eepspeed.launcher.runner'")
    world.wait_for_phase("deepspeed", "Failed")
    assert "pkill ended with" in world.log(name)
    for worker in ("deepspeed-worker-0", "deepspeed-worker-1"):
        wait_for_nothing(world, worker, "launcher.launch|train.py")
