"""What may break between a launcher and its workers, and on the way to them."""

from __future__ import annotations

import re
from collections import defaultdict

import pytest

from devcluster.cgroups import find_parent
from tests.e2e.faults import (
    HOSTNAME,
    ONE_ON_EACH,
    broken,
    find_nodes,
    find_processes,
    get_spec,
    kill,
    wait_until_back,
    wait_until_lost,
)
from tests.e2e.light_jobs import read_output
from tests.e2e.playing import play
from tests.e2e.test_launchers import run_in
from tests.e2e.world import RealWorld, build_job, devcluster

pytestmark = pytest.mark.cluster

COUNT = """
import os, subprocess, sys, threading, time
COUNT = "i=0; until test -e /tmp/enough; do i=$((i+1)); echo $i; sleep 0.05; done; echo last $i"

def read():
    text = subprocess.run(["/etc/edl/discover_hosts.sh"], stdout=subprocess.PIPE, check=True).stdout
    return sorted(line.split(b":")[0] for line in text.split())

def follow(host):
    process = subprocess.Popen(["ssh", host, COUNT + "; exit 7"], stdout=subprocess.PIPE)
    for line in process.stdout:
        os.write(1, host + b" " + line)
    os.write(1, b"%s code %d\\n" % (host, process.wait()))

hosts = read()
threads = [threading.Thread(target=follow, args=(host,), daemon=True) for host in hosts]
for thread in threads:
    thread.start()
while any(thread.is_alive() for thread in threads):
    now = read()
    if now != hosts:
        sys.exit("the list was %s and is %s" % (hosts, now))
    time.sleep(0.5)
"""
"""A launcher's command: numbered lines from each worker, as long as the list stays the same."""
WORKERS = ("counted-worker-0", "counted-worker-1")


@pytest.mark.alone
@pytest.mark.point("every-cut")
def test_no_fault_of_the_way_costs_a_line_an_exit_or_a_host(world: RealWorld) -> None:
    home, away = find_nodes()
    job = build_job("counted", command=["python3", "-c", COUNT])
    get_spec(job, "launcher")["nodeSelector"] = {HOSTNAME: home}
    get_spec(job, "worker")["topologySpreadConstraints"] = [ONE_ON_EACH]
    uid = world.create(job)["metadata"]["uid"]
    wait_for_more(world)
    pods = {pod.metadata.uid for pod in world.pods()}

    kill(find_processes(uid, "-m launcher.broker"))
    wait_for_more(world)
    for faults in (["restart"], ["kill", "restart"], ["kill", "restart"]):
        for fault in faults:
            devcluster("fault", f"{fault}-apiserver")
    wait_for_more(world)
    kill(find_processes(uid, "agent..bridge.py"))
    wait_for_more(world)
    for fault, remedy in (("stop-kubelet", "start-kubelet"), ("cut", "heal")):
        with broken(away, fault, remedy):
            wait_until_lost(world, away)
        wait_until_back(world, away)
        wait_for_more(world)

    assert world.report("counted")["exits"] == {}
    for worker in WORKERS:
        run_in(world, worker, "touch /tmp/enough")
    world.wait_for_phase("counted", "Succeeded")
    for worker, lines in read_lines(world).items():
        numbers = [int(line) for line in lines[:-2]]
        assert numbers == list(range(1, len(numbers) + 1)), worker
        assert lines[-2:] == [f"last {len(numbers)}", "code 7"]
    report = world.report("counted")
    assert [[ended["code"] for ended in exits] for exits in report["exits"].values()] == [[7], [7]]
    assert report["brokerStart"] == 2
    assert world.status("trainingjobs", "counted")["epoch"] == 1
    assert pods >= {pod.metadata.uid for pod in world.pods()}


@pytest.mark.point("dead-containerd-shim")
def test_11_a_worker_whose_containerd_shim_is_killed_is_lost_and_replaced(world: RealWorld) -> None:
    world.create(build_job("bereft", command=play()))
    world.wait(lambda: find_users(world) == ["0", "1"], "both workers are used")
    [uid] = [p.metadata.uid for p in world.pods("worker") if p.metadata.name == "bereft-worker-1"]

    kill([find_parent(pid) for pid in find_processes(uid, " agent --")])

    world.wait(lambda: find_users(world) == ["0", "2"], "another worker takes its place")
    assert uid not in world.report("bereft")["exits"]
    status = world.status("trainingjobs", "bereft")
    assert (status["epoch"], status["failures"].get("user", 0)) == (1, 0)


def find_users(world: RealWorld) -> list[str]:
    """The numbers of the workers on which the launcher has a process."""
    lines = read_output(world, "bereft-launcher")
    return re.findall(r"worker-(\d+)", lines[-1]) if lines else []


def read_lines(world: RealWorld) -> dict[str, list[str]]:
    """What has come from each worker, in order."""
    found = defaultdict(list)
    for line in read_output(world, "counted-launcher"):
        host, _, rest = line.partition(" ")
        found[host].append(rest)
    return found


def wait_for_more(world: RealWorld) -> None:
    """Until more has come from each worker."""
    before = {worker: len(read_lines(world)[worker]) for worker in WORKERS}

    def look() -> bool:
        now = read_lines(world)
        return all(len(now[worker]) > before[worker] for worker in WORKERS)

    world.wait(look, f"all workers are heard of: {before}", 90)
