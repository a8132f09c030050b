"""devcluster on this machine, with a second cluster beside the one that other tests use."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from pathlib import Path

import pytest

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

CHECKOUT = Path(__file__).resolve().parent.parent.parent
NAME = "dctest"
KERNEL_VALUES = (
    "vm/overcommit_memory",
    "vm/panic_on_oom",
    "kernel/panic",
    "kernel/panic_on_oops",
    "kernel/keys/root_maxkeys",
    "kernel/keys/root_maxbytes",
    "net/ipv4/ip_forward",
)
PARTS = (
    "etcd",
    "apiserver",
    "controller-manager",
    "scheduler",
    "relay",
    "node-1-holder",
    "node-1-containerd",
    "node-1-kubelet",
)
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "still"},
    "spec": {
        "terminationGracePeriodSeconds": 1,
        "containers": [
            {"name": "pause", "image": "localhost/pause:dev", "imagePullPolicy": "Never"}
        ],
    },
}


def devcluster(*arguments: str, given: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run a command of devcluster on the second cluster."""
    return subprocess.run(
        [sys.executable, "-m", "devcluster", *arguments],
        input=given,
        capture_output=True,
        text=True,
        check=False,
        cwd=CHECKOUT,
        env=os.environ | {"DEVCLUSTER_NAME": NAME},
        timeout=200,
    )


def succeed(*arguments: str, given: str | None = None) -> str:
    """Run a command of devcluster that must succeed."""
    result = devcluster(*arguments, given=given)
    assert result.returncode == 0, f"{arguments}: {result.stderr}{result.stdout}"
    return result.stdout


def read_pids() -> dict[str, int]:
    """Return the pid of each part, as ``status`` tells it."""
    lines = [line.split() for line in devcluster("status").stdout.splitlines()]
    return {words[0]: int(words[2]) for words in lines if len(words) == 3 and words[1] == "pid"}


def wait_for(condition: Callable[[], bool], seconds: float) -> None:
    """Wait until a condition holds."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "this took too long"
        time.sleep(0.2)  # noqa: TID251 - a test of processes waits for them


def is_ready() -> bool:
    """Tell whether the node is ready."""
    path = "{.status.conditions[?(@.type=='Ready')].status}"
    return devcluster("kubectl", "get", "node", "node-1", "-o", f"jsonpath={path}").stdout == "True"


def is_running(pod: str) -> bool:
    """Tell whether a pod calls itself running."""
    return (
        devcluster("kubectl", "get", "pod", pod, "-o", "jsonpath={.status.phase}").stdout
        == "Running"
    )


def start_pod() -> None:
    """Have a pod that runs."""
    wait_for(
        lambda: devcluster("kubectl", "get", "serviceaccount", "default").returncode == 0,
        seconds=30,
    )
    succeed("kubectl", "apply", "-f", "-", given=json.dumps(POD))
    wait_for(lambda: is_running("still"), seconds=60)


@pytest.fixture
def cluster() -> Iterator[None]:
    """The second cluster, running; the next test finds it as this one leaves it."""
    succeed("up", "--nodes", "1")
    return


@pytest.fixture(scope="module", autouse=True)
def _ending() -> Iterator[None]:
    succeed("down")
    yield
    succeed("down")


# ---------------------------------------------------------------- traces


@dataclass(frozen=True)
class Traces:
    """What a cluster could leave on the machine."""

    processes: frozenset[str]
    namespaces: frozenset[str]
    mounts: frozenset[str]
    links: frozenset[str]
    rules: frozenset[str]
    groups: frozenset[str]
    values: frozenset[str]


def look() -> Traces:
    """Look for traces, those of other clusters left out."""
    processes, namespaces = set(), set()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            groups = (folder / "cgroup").read_text()
            command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            own = {f"{kind} {(folder / 'ns' / kind).readlink()}" for kind in ("net", "mnt", "uts")}
        except OSError:
            continue
        if "/system" in groups and f"/{NAME}/" not in groups:
            continue  # a process of another cluster
        if f"/{NAME}/" in groups or f"clusters/{NAME}/" in command:
            processes.add(f"{folder.name} {command}")
            namespaces |= own
    mounts = Path("/proc/self/mounts").read_text().splitlines()
    return Traces(
        frozenset(processes),
        frozenset(namespaces),
        frozenset(m for m in mounts if "clusters/" not in m or f"clusters/{NAME}/" in m),
        _run("ip", "-oneline", "-brief", "link"),
        frozenset(line for line in _run("iptables-save") if not line.startswith("#")),
        frozenset(str(path) for path in Path("/sys/fs/cgroup").glob(f"**/{NAME}")),
        frozenset(
            f"{name} {(Path('/proc/sys') / name).read_text()}"
            for name in KERNEL_VALUES
            if (Path("/proc/sys") / name).exists()
        ),
    )


def _run(*command: str) -> frozenset[str]:
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    return frozenset(result.stdout.splitlines())


@pytest.mark.point("cluster-traceless")
def test_down_leaves_no_trace_of_a_cluster_with_a_running_pod() -> None:
    before = look()
    succeed("up", "--nodes", "1")
    start_pod()
    while_up = look()
    succeed("down")
    after = look()
    for field in fields(Traces):
        assert getattr(after, field.name) == getattr(before, field.name), field.name
    assert while_up.processes, "what is looked for would have been seen"
    assert while_up.groups
    assert while_up.values == before.values, "not even while it runs"
    assert while_up.links == before.links
    assert while_up.rules == before.rules


@pytest.mark.point("cluster-traceless")
def test_a_killed_cluster_leaves_nothing_that_down_does_not_clear(cluster: None) -> None:
    before = look()
    start_pod()
    for pid in read_pids().values():
        os.kill(pid, signal.SIGKILL)
    assert look().groups
    succeed("down")
    after = look()
    assert not after.processes
    assert not after.groups
    assert not [line for line in after.mounts if f"clusters/{NAME}/" in line]
    assert after.links == before.links


# ---------------------------------------------------------------- up


@pytest.mark.point("cluster-up")
def test_a_second_up_changes_no_process(
    cluster: None, record_property: Callable[[str, object], None]
) -> None:
    before = read_pids()
    assert set(before) == set(PARTS)
    begin = time.monotonic()
    succeed("up")
    record_property("second_up_seconds", round(time.monotonic() - begin, 2))
    assert read_pids() == before


def test_a_fresh_start_is_recorded(record_property: Callable[[str, object], None]) -> None:
    succeed("down")
    begin = time.monotonic()
    succeed("up", "--nodes", "1")
    record_property("fresh_up_seconds", round(time.monotonic() - begin, 2))
    assert devcluster("status").returncode == 0


@pytest.mark.point("cluster-recovers")
@pytest.mark.parametrize("part", PARTS)
def test_up_brings_back_a_killed_part_and_leaves_the_others(part: str, cluster: None) -> None:
    start_pod()
    before = read_pids()
    os.kill(before[part], signal.SIGKILL)
    wait_for(lambda: part not in read_pids(), seconds=10)
    succeed("up")
    after = read_pids()
    assert set(after) == set(PARTS)
    assert {name: pid for name, pid in after.items() if name != part} == {
        name: pid for name, pid in before.items() if name != part
    }
    assert is_running("still")


@pytest.mark.point("cluster-recovers")
def test_up_brings_back_a_node_of_which_all_was_killed(cluster: None) -> None:
    start_pod()
    pids = read_pids()
    for part in PARTS[-3:]:
        os.kill(pids[part], signal.SIGKILL)
    succeed("up")
    assert set(read_pids()) == set(PARTS)
    wait_for(lambda: is_running("still"), seconds=90)


@pytest.mark.point("cluster-recovers")
def test_a_cable_that_was_never_joined_is_joined_by_the_next_up(cluster: None) -> None:
    """What an interruption leaves that comes between the cable and the bridge."""
    namespace = Path(succeed("kubeconfig").strip()).parent / "namespaces" / "cluster"
    inside, cable = ["nsenter", f"--net={namespace}", "--"], f"{NAME}-n1"
    subprocess.run([*inside, "ip", "link", "set", cable, "nomaster", "down"], check=True)
    succeed("up")
    shown = subprocess.run(
        [*inside, "ip", "-oneline", "link", "show", cable],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    assert " master br0 " in shown
    assert ",UP" in shown


@pytest.mark.point("cluster-recovers")
@pytest.mark.parametrize("command", [("up", "--nodes", "1"), ("down",)], ids=["up", "down"])
@pytest.mark.parametrize("round_", range(3))
def test_an_interrupted_command_is_put_right_by_the_next(
    command: tuple[str, ...], round_: int
) -> None:
    succeed("down" if command[0] == "up" else "up")
    seconds = random.Random(round_).uniform(0.05, 1.5 if command[0] == "up" else 0.2)  # noqa: S311
    with subprocess.Popen(
        [sys.executable, "-m", "devcluster", *command],
        cwd=CHECKOUT,
        env=os.environ | {"DEVCLUSTER_NAME": NAME},
        stderr=subprocess.DEVNULL,
    ) as process:
        time.sleep(seconds)  # noqa: TID251 - the moment of the interruption
        process.kill()
    succeed("up", "--nodes", "1")
    assert devcluster("status").returncode == 0
    succeed("down")
    assert not look().groups
    assert not look().processes


# ---------------------------------------------------------------- access and faults


def test_the_kubeconfig_works_from_the_host(cluster: None) -> None:
    path = Path(succeed("kubeconfig").strip())
    assert json.loads(path.read_text())["clusters"][0]["cluster"]["server"].startswith(
        "https://127.0.0.1:"
    )
    assert json.loads(succeed("kubectl", "version", "-o", "json"))["serverVersion"]["minor"] == "36"


def test_every_request_is_audited(cluster: None) -> None:
    succeed("kubectl", "get", "configmaps", "--namespace", "kube-public")
    log = Path(succeed("kubeconfig").strip()).parent / "logs" / "audit.log"
    assert '"namespace":"kube-public"' in log.read_text()


def test_the_api_server_is_killed_and_brought_back_with_what_it_knew(cluster: None) -> None:
    start_pod()
    succeed("fault", "kill-apiserver")
    assert devcluster("kubectl", "get", "nodes").returncode != 0
    succeed("fault", "restart-apiserver")
    assert is_running("still")
    before = read_pids()["apiserver"]
    succeed("fault", "restart-apiserver")
    assert read_pids()["apiserver"] != before


def test_a_stopped_kubelet_leaves_its_containers_and_is_started_again(cluster: None) -> None:
    succeed("fault", "stop-kubelet", "node-1")
    assert "node-1-kubelet" not in read_pids()
    succeed("fault", "start-kubelet", "node-1")
    assert "node-1-kubelet" in read_pids()


def test_a_cut_node_is_not_ready_until_it_is_healed(cluster: None) -> None:
    succeed("fault", "cut", "node-1")
    wait_for(lambda: not is_ready(), seconds=150)  # 20 s of them are what nodes are granted
    succeed("fault", "heal", "node-1")
    wait_for(is_ready, seconds=120)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("fault", "cut"), "needs the name of a node"),
        (("fault", "cut", "node-9"), "no real node 'node-9'"),
        (("fault", "kill-apiserver", "node-1"), "takes no name"),
        (("load", "/nowhere.tar"), "no file /nowhere.tar"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_sentence(
    arguments: tuple[str, ...], reason: str, cluster: None
) -> None:
    result = devcluster(*arguments)
    assert result.returncode == 1
    assert reason in result.stderr
    assert "Traceback" not in result.stderr


def test_nodes_can_be_added_to_a_running_cluster(cluster: None) -> None:
    before = read_pids()
    succeed("up", "--nodes", "2")
    after = read_pids()
    assert {name: after[name] for name in before} == before
    assert "node-2-kubelet" in after
    succeed("down")
