"""What a watch of pods tells: when each ran, when each ended, and what it printed.

Times are when a line of a watch came here, by the benchmark's clock, not what a kubelet wrote into
it. Nothing is created or deleted.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

from benchmarks.apis import Api, Transcript, build_path
from benchmarks.benches import Site
from devcluster.certificates import INSIDE
from et_contract.names import BROKER_CONTAINER

Lines = Iterable[tuple[float, bytes]]
"""Lines of a watch with the time at which each came."""
LISTED = '"event": "hosts listed"'
"""What its log has of each list that a broker has written."""


def find_running(lines: Lines, name: str) -> float | None:
    """When the pod's containers were first seen running; None while they have not been."""
    for at, pod in read_pods(lines, name):
        states = _list_states(pod)
        if states and all("running" in state for state in states):
            return at
    return None


def find_ended(lines: Lines, name: str) -> float | None:
    """When the pod's first container was first seen to have ended."""
    for at, pod in read_pods(lines, name):
        states = _list_states(pod)
        if states and "terminated" in states[0]:
            return at
    return None


def read_pods(lines: Lines, name: str) -> Iterator[tuple[float, Mapping[str, Any]]]:
    """The versions of one pod in the order in which they came."""
    wanted = f'"name":"{name}"'.encode()
    for at, line in lines:
        if wanted in line:
            pod = json.loads(line)["object"]
            if pod["metadata"]["name"] == name:
                yield at, pod


async def read_stamp(api: Api, namespace: str, pod: str) -> tuple[float, float]:
    """When commands/stamp.py was started, and when it began, by its own word (UTC seconds)."""
    path = build_path("pods", namespace, pod) + "/log"
    text = await api.read_text(INSIDE + path, container="launcher")
    for line in text.splitlines():
        if line.startswith("began "):
            began, started = line.split()[1:]
            return float(started), float(began)
    raise LookupError(f"the log of {pod} does not tell when its command began")


async def read_listed(api: Api, namespace: str, launcher: str, before: float) -> float:
    """When its broker had changed the list of hosts last before that time (UTC seconds)."""
    path = build_path("pods", namespace, launcher) + "/log"
    text = await api.read_text(INSIDE + path, container=BROKER_CONTAINER)
    return find_listed(text.splitlines(), before)


def find_listed(lines: Iterable[str], before: float) -> float:
    """When a broker had changed the list last before that time, by the lines of its log."""
    entries = [json.loads(line) for line in lines if LISTED in line]
    times = [datetime.fromisoformat(entry["time"]).timestamp() for entry in entries]
    return max(time for time in times if time <= before)


async def watch_pods(site: Site, seen: Transcript, namespace: str, selector: str) -> None:
    """Tell `seen` of the namespace's pods, for ever."""
    path = build_path("pods", namespace)
    await seen.follow(site.api, path, watch="1", labelSelector=selector)


async def wait_running(seen: Transcript, pod: str) -> float:
    """When this pod's containers were seen running."""
    return await seen.wait(lambda: find_running(seen.lines, pod), f"{pod} runs")


def _list_states(pod: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [own["state"] for own in pod["status"].get("containerStatuses") or ()]
