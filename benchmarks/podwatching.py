"""What a watch of pods tells: when each ran, when each ended, and what its command printed.

Times are when a line of a watch came here, by the benchmark's clock, not what a kubelet wrote into
it. Nothing is created or deleted.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from benchmarks.apis import Api, Sightings, build_path
from benchmarks.benches import Site
from devcluster.certificates import INSIDE

Lines = Iterable[tuple[float, bytes]]
"""Lines of a watch with the time at which each came."""


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


async def read_stamp(api: Api, namespace: str, pod: str) -> float:
    """When the command of commands/stamp.py began, by its own word (UTC seconds)."""
    path = build_path("pods", namespace, pod) + "/log"
    text = await api.read_text(INSIDE + path, container="launcher")
    for line in text.splitlines():
        if line.startswith("began "):
            return float(line.split()[1])
    raise LookupError(f"the log of {pod} does not tell when its command began")


async def watch_pods(site: Site, seen: Sightings, namespace: str, selector: str) -> None:
    """Tell `seen` of the namespace's pods, for ever."""
    path = build_path("pods", namespace)
    await seen.follow(site.api, path, watch="1", labelSelector=selector)


async def wait_running(seen: Sightings, pod: str) -> float:
    """When this pod's containers were seen running."""
    return await seen.wait(lambda: find_running(seen.lines, pod), f"{pod} runs")


def _list_states(pod: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [own["state"] for own in pod["status"].get("containerStatuses") or ()]
