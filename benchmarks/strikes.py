"""What takes a worker, or a part of one, from a training: each from outside, as it happens.

For ring_broken.py, hundred_kills.py and breaks_said.py. Processes of the test cluster's pods are
found by their control groups.
"""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from benchmarks.apis import build_path, wait_for
from benchmarks.trainings import PATIENCE, Loss, Training
from devcluster import faults
from devcluster.certificates import INSIDE
from devcluster.cgroups import find_parent, list_processes
from devcluster.settings import Cluster
from et_contract.documents import POD_GONE
from et_contract.paths import GONE_FILE
from launcher.agent.ranks import write_gone

HUNGER = "hunger"
"""The file in a worker, below its root, whose ranks take all memory that they can get."""
Strike = Callable[[Cluster, str], None]
"""Done to the pod with this uid."""


def kill_worker(cluster: Cluster, uid: str) -> None:
    """SIGKILL for PID 1 of a worker, and by the kernel for all in its container."""
    os.kill(find_agent(cluster, uid), signal.SIGKILL)


def kill_shim(cluster: Cluster, uid: str) -> None:
    """SIGKILL for its containerd-shim: its network goes, then containerd ends the rest."""
    os.kill(find_parent(find_agent(cluster, uid)), signal.SIGKILL)


def kill_rank(cluster: Cluster, uid: str) -> None:
    """SIGKILL for the last of its ranks; the worker lives."""
    os.kill(find_ranks(cluster, uid)[-1], signal.SIGKILL)


def exhaust_memory(cluster: Cluster, uid: str) -> None:
    """Have its ranks take memory until the kernel ends what has most of it."""
    Path(f"/proc/{find_agent(cluster, uid)}/root/{HUNGER}").touch()


async def lose_one(job: Training, strike: Strike, number: int) -> Loss:
    """Strike one of its workers, in turn; what it cost, once all of its ranks train again."""
    workers = await job.list_workers()
    metadata = workers[number % len(workers)]["metadata"]
    struck = job.site.clock.now().timestamp()
    strike(job.site.cluster, metadata["uid"])
    loss = await job.wait_for_loss(struck)
    return replace(loss, beside=await job.count_beside(workers, {metadata["name"]}))


def find_agent(cluster: Cluster, uid: str) -> int:
    """PID 1 of a worker, as this machine numbers it; RuntimeError if there is none."""
    found = _find(cluster, uid, b"boot.py\0agent")
    if not found:
        raise RuntimeError(f"no agent in the pod {uid}")
    return found[0]


def find_ranks(cluster: Cluster, uid: str) -> list[int]:
    """The ranks that train in a worker, by their number there; RuntimeError if there are none."""
    found = [pid for pid in _find(cluster, uid, b"hvd.elastic.run") if _read_place(pid) is not None]
    if not found:
        raise RuntimeError(f"no ranks in the pod {uid}")
    return sorted(found, key=lambda pid: _read_place(pid) or 0)


def say_gone(cluster: Cluster, uid: str, addresses: Sequence[str]) -> None:
    """Tell its ranks, as BREAK has its agent do, that nobody has these addresses any more."""
    told = f"/proc/{find_agent(cluster, uid)}/root{GONE_FILE}"
    write_gone(told, time.monotonic(), addresses)


@contextmanager
def cut(cluster: Cluster, node: str) -> Iterator[None]:
    """A node whose cable is pulled, inside."""
    faults.cause(cluster, "cut", node)
    try:
        yield
    finally:
        faults.cause(cluster, "heal", node)


async def wait_until_gone(job: Training, pod: dict[str, Any]) -> float:
    """When horovodrun was told that a worker's pod is gone."""
    path = build_path("pods", job.namespace, f"{job.name}-launcher") + "/log"
    words = f"edl: {pod['metadata']['name']}: {POD_GONE}"
    told = re.compile(rf"^(\S+) .*{re.escape(words)}", re.MULTILINE)
    found: list[float] = []

    async def is_told() -> bool:
        url = INSIDE + path
        log = await job.site.api.read_text(url, container="launcher", timestamps="true")
        found.extend(datetime.fromisoformat(at).timestamp() for at in told.findall(log))
        return bool(found)

    await wait_for(is_told, f"{job.name} hears of the end", seconds=PATIENCE, interval=1.0)
    return found[0]


async def wait_until_ready(job: Training, node: str) -> None:
    """Until a node is heard of again, and pods come to it."""

    async def is_ready() -> bool:
        found = await job.site.api.get(f"/api/v1/nodes/{node}")
        conditions = found["status"]["conditions"]
        is_tainted = bool(found["spec"].get("taints"))
        return not is_tainted and any(
            c["type"] == "Ready" and c["status"] == "True" for c in conditions
        )

    await wait_for(is_ready, f"{node} is ready", seconds=PATIENCE, interval=1.0)


def _find(cluster: Cluster, uid: str, words: bytes) -> list[int]:
    """Processes of the containers of this pod: a rank has no word of it in its environment."""
    found = []
    for pid in list_processes(cluster):
        folder = Path(f"/proc/{pid}")
        try:
            is_meant = words in (folder / "cmdline").read_bytes()
            if is_meant and uid in (folder / "cgroup").read_text():
                found.append(pid)
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


def _read_place(pid: int) -> int | None:
    """A rank's number on its host; none of what is no rank but has its words, as a shell."""
    try:
        if b"python" not in Path(f"/proc/{pid}/cmdline").read_bytes().partition(b"\0")[0]:
            return None
        environment = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except (FileNotFoundError, ProcessLookupError):
        return None
    named = b"HOROVOD_LOCAL_RANK="
    return next((int(e[len(named) :]) for e in environment if e.startswith(named)), None)
