"""Horovod's own horovodrun with our transport inside, at 128 workers of 8 slots.

Needs the image that trains, for Horovod's own program; all around it is fakes/podless.py on the
host, whose folder the pod mounts.
"""

from __future__ import annotations

import asyncio
import subprocess
import tempfile
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from benchmarks.apis import build_path, wait_for
from benchmarks.benches import Bench, Site
from benchmarks.findings import Figure, Finding, Goal, Place, Series, Side
from benchmarks.namespaces import make_namespace
from devcluster import building
from devcluster.certificates import INSIDE
from devcluster.settings import TRAINER_IMAGE
from et_contract import paths
from fakes.apiserver import ROOT
from fakes.podless import PodlessJob, measure_memory, running

WORKERS, SLOTS = 128, 8
EXECS = 16
PATIENCE = 180.0
POD = "horovodrun"
SOURCE = "/opt/edl/source"
PROGRAM = "launcher/shim/injecting.py"
MIB = 2**20


async def measure(bench: Bench) -> Finding:
    """One run; `samples` does not apply to its size."""
    site = bench.get_site()
    with tempfile.TemporaryDirectory() as folder:
        job = PodlessJob(Path(folder), count=WORKERS, slots=SLOTS)
        job.use_sockets()
        # The pod goes first: then the broker ends what runs in the workers.
        async with running(job), make_namespace(site, "wrapper") as namespace:
            assert job.broker is not None  # noqa: S101 (it runs)
            times = await start_slots(site, namespace, folder)
            broker = measure_memory([job.broker.pid]) / MIB
            horovodrun = measure_memory(find_processes(PROGRAM)) / MIB
            starts, memory = await run_execs(site, namespace)
    spread = (times[-1] - times[0]).total_seconds()
    return Finding(
        series=(
            Series("first to last of 1,024 slots", "s", (spread,)),
            Series("horovodrun at 1,024 slots", "MiB", (horovodrun,)),
            Series("the broker beside it", "MiB", (broker,)),
            Series("both together, a slot", "MiB", ((horovodrun + broker) / (WORKERS * SLOTS),)),
            Series("a slot with `kubectl exec`", "MiB", memory, Side.BARE),
            Series("start of a command by `kubectl exec`", "ms", starts, Side.BARE),
        ),
        goals=(
            Goal("first to last slot of 1,024", spread, 10.0, "s"),
            Goal("launcher's side at 1,024 slots", (horovodrun + broker) / 1024, 0.35, "GiB"),
        ),
    )


async def start_slots(site: Site, namespace: str, folder: str) -> list[datetime]:
    """Start horovodrun in a pod: when each slot's first word came, by the kubelet's clock."""
    await site.api.create(build_path("pods", namespace), build_pod(folder))
    log = INSIDE + build_path("pods", namespace, POD) + "/log"
    times: list[datetime] = []

    async def are_all_up() -> bool:
        pod = await site.api.get(build_path("pods", namespace, POD))
        if pod["status"]["phase"] == "Pending":
            return False
        text = await site.api.read_text(log, timestamps="true")
        lines = [line.split(" ", 1) for line in text.splitlines()]
        times[:] = [datetime.fromisoformat(at) for at, words in lines if words.endswith(">:up")]
        if pod["status"]["phase"] != "Running":
            raise RuntimeError(f"horovodrun has ended: {text[-2000:]}")
        return len(times) == WORKERS * SLOTS

    await wait_for(are_all_up, "all slots are up", seconds=PATIENCE)
    return sorted(times)


async def run_execs(site: Site, namespace: str) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """`kubectl exec` per slot, one after the other: ms to the first word, and MiB of each."""
    program = building.find_kube(site.cluster.cache)
    access = [f"--kubeconfig={site.cluster.kubeconfig}", f"--server={INSIDE}", "-n", namespace]
    slot = ["sh", "-c", "echo up; exec sleep 600"]
    running_execs, starts = [], []
    for _ in range(EXECS):
        begun = site.clock.monotonic()
        process = await asyncio.create_subprocess_exec(
            program, "kubectl", *access, "exec", POD, "--", *slot, stdout=subprocess.PIPE
        )
        assert process.stdout is not None  # noqa: S101 (it is a pipe)
        await process.stdout.readline()
        starts.append(1000 * (site.clock.monotonic() - begun))
        running_execs.append(process)
    memory = tuple(measure_memory([process.pid]) / MIB for process in running_execs)
    for process in running_execs:
        process.kill()
        await process.wait()
    return tuple(starts), memory


def build_pod(folder: str) -> dict[str, Any]:
    """The launcher's user container alone; the broker of the job in `folder` is beside it."""
    count = str(WORKERS * SLOTS)
    command = ["python3", f"{SOURCE}/launcher/shim/horovodrun.py"]
    command += ["-np", count, "--min-np", count, "--network-interface", "lo"]
    command += ["--host-discovery-script", paths.DISCOVER_SCRIPT]
    command += ["sh", "-c", "echo up; exec sleep 600"]
    mounts = {"run": (folder, paths.RUN_DIR), "source": (str(ROOT), SOURCE)}
    container = {
        "name": POD,
        "image": TRAINER_IMAGE,
        "imagePullPolicy": "IfNotPresent",
        "command": command,
        "volumeMounts": [{"name": n, "mountPath": inside} for n, (_, inside) in mounts.items()],
    }
    volumes = [{"name": n, "hostPath": {"path": outside}} for n, (outside, _) in mounts.items()]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": POD},
        "spec": {
            "containers": [container],
            "volumes": volumes,
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 0,
        },
    }


def find_processes(words: str) -> Iterator[int]:
    """Processes of this machine with these words in their command line."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            line = (folder / "cmdline").read_bytes()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if words.encode() in line:
            yield int(folder.name)


FIGURE = Figure(
    title="horovodrun at 128 workers of 8 slots",
    explanation=(
        "The trainer image's own horovodrun, Horovod and all, in a pod, with our transport inside; "
        "the job around it has no pods, as in transport-slots: 128 agents as processes, a real "
        "broker, an API server that is a stand-in. Each slot prints a line and sleeps; times are "
        "when that line was in the pod's log. Beside it `kubectl exec` for a slot each, "
        f"{EXECS} of them, into that pod. Memory is the proportional set size."
    ),
    measure=measure,
    place=Place.TRAINING,
)
