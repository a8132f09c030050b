"""Each version of a namespace's jobs and pods, and what must hold in all of them."""

from __future__ import annotations

import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from kubernetes import watch
from kubernetes.client.exceptions import ApiException
from urllib3.exceptions import HTTPError

from tests.e2e.pools import Pool
from tests.e2e.world import GROUP, PAUSE, RealWorld

Json = Mapping[str, Any]
LONGEST = 400
"""Seconds: no test takes longer."""
FALLBACK = 75
"""Seconds: after sixty a gang that does not stand is taken back."""
JOB, POD = "TrainingJob", "Pod"
SCALINGS = ("ScaleIn", "ScaleOut")
GONE = 410
"""What the server says of a version that it does not know any more."""
ENDED = frozenset({"Succeeded", "Failed"})


@dataclass(frozen=True)
class Version:
    """An object after one write, and when it was heard of; `is_gone` after its last."""

    kind: str
    body: Json
    at: float
    is_gone: bool = False

    @property
    def number(self) -> int:
        """The server counts all its writes."""
        return int(self.body["metadata"]["resourceVersion"])


class History:
    """What was written in a namespace since this was made, as watches tell it, one of each kind."""

    def __init__(
        self, world: RealWorld, *, seconds: float = LONGEST, kinds: Iterable[str] = (JOB, POD)
    ) -> None:
        self._versions: list[Version] = []
        self._until = time.monotonic() + seconds
        custom = world.custom.list_namespaced_custom_object
        for kind in kinds:
            listing: Callable[..., Any] = world.core.list_namespaced_pod
            place: tuple[str, ...] = (world.namespace,)
            if kind != POD:
                listing = custom
                place = (GROUP, "v1alpha1", world.namespace, f"{kind.lower()}s")
            threading.Thread(target=self._follow, args=(kind, listing, place), daemon=True).start()

    def list_versions(self) -> list[Version]:
        """All so far, in the order in which they were written."""
        return sorted(self._versions, key=lambda one: one.number)

    def list_words(self, job: str) -> list[tuple[str, str]]:
        """(reason, message) of what et-scheduler has told a job, repetitions dropped."""
        words: list[tuple[str, str]] = []
        for one in self.list_versions():
            if one.kind == JOB and one.body["metadata"]["name"] == job:
                admission = one.body.get("status", {}).get("admission") or {}
                told = (admission.get("reason", ""), admission.get("message", ""))
                if told not in words[-1:]:
                    words.append(told)
        return words

    def _follow(self, kind: str, listing: Callable[..., Any], place: tuple[str, ...]) -> None:
        """Until the time is over; where the server was away, from the last version on."""
        known: dict[str, str] = {}
        while (left := self._until - time.monotonic()) > 0:
            try:
                for event in watch.Watch().stream(
                    listing, *place, timeout_seconds=int(left) + 1, **known
                ):
                    body, now = event["raw_object"], time.monotonic()
                    known = {"resource_version": body["metadata"]["resourceVersion"]}
                    self._versions.append(Version(kind, body, now, event["type"] == "DELETED"))
            except (ApiException, HTTPError) as error:
                if getattr(error, "status", None) == GONE:
                    known = {}
                PAUSE.wait(0.5)


@dataclass
class Scene:
    """A namespace at one moment."""

    jobs: dict[str, Json] = field(default_factory=dict)
    pods: dict[str, Json] = field(default_factory=dict)

    def take(self, version: Version) -> None:
        """One write later."""
        things = self.jobs if version.kind == JOB else self.pods
        name = version.body["metadata"]["name"]
        if version.is_gone:
            things.pop(name, None)
        else:
            things[name] = version.body


def find_breaches(versions: list[Version], pool: Pool) -> list[str]:
    """What did not hold at some moment; [] if all did."""
    scene, found, partly = Scene(), list[str](), dict[str, float]()
    for version in versions:
        scene.take(version)
        for check in (check_nodes, check_admissions):
            found += [one for one in check(scene, pool) if one not in found]
        texts = {*list_partial_gangs(scene)}
        partly = {text: partly.get(text, version.at) for text in texts}
        late = (text for text, since in partly.items() if version.at - since > FALLBACK)
        found += [text for text in late if text not in found]
    return found


def check_nodes(scene: Scene, pool: Pool) -> Iterator[str]:
    """No node has more on it than it offers."""
    taken = Counter[str]()
    for pod in scene.pods.values():
        if pod["status"].get("phase") not in ENDED:
            taken[pod["spec"].get("nodeName", "")] += count_seats(pod, pool)
    for node, offered in pool.seats.items():
        if taken[node] > offered:
            yield f"{taken[node]} seats of {offered} are taken on {node}"


def check_admissions(scene: Scene, pool: Pool) -> Iterator[str]:
    """No more is given than there is, and no queue has more than its limit."""
    given: dict[str, int] = defaultdict(int)
    for job in filter(is_admitted, scene.jobs.values()):
        template = job["spec"]["etReplicaSpecs"]["worker"]["template"]
        admission = job["status"]["admission"]
        given[admission["queue"]] += admission["workers"] * count_seats(template, pool)
    if sum(given.values()) > sum(pool.seats.values()):
        yield f"{dict(given)} is more than there is"
    for queue, limit in pool.limits.items():
        if given[queue] > limit:
            yield f"{queue} has {given[queue]} seats of {limit}"


def list_partial_gangs(scene: Scene) -> Iterator[str]:
    """Who has a launcher that runs beside fewer workers than its job needs."""
    for name, job in scene.jobs.items():
        pods = [pod for pod in scene.pods.values() if find_label(pod, "name") == name]
        runs = any(
            pod["status"].get("phase") == "Running" and find_label(pod, "role") == "launcher"
            for pod in filter(is_staying, pods)
        )
        if not (runs and is_admitted(job)):
            continue
        going = set(job["status"]["admission"].get("leaving", ()))
        workers = [
            pod
            for pod in filter(is_staying, pods)
            if find_label(pod, "role") == "worker"
            and pod["spec"].get("nodeName")
            and pod["metadata"]["name"] not in going
        ]
        least = job["spec"]["etReplicaSpecs"]["worker"]["minReplicas"]
        if len(workers) < least:
            yield f"{name} runs with fewer than {least} workers"


def is_admitted(job: Json) -> bool:
    """Whether what it was given is its own: it has not ended, nor is it on its way out."""
    status = job.get("status", {})
    is_over = status.get("phase") in ENDED or job["metadata"].get("deletionTimestamp")
    state = (status.get("admission") or {}).get("state")
    return state == "Admitted" and not is_over and not job["spec"].get("suspend")


def is_staying(pod: Json) -> bool:
    """Whether nobody has asked it to go."""
    return not pod["metadata"].get("deletionTimestamp")


def find_label(pod: Json, kind: str) -> str:
    """Of which job (`name`) or role a pod is."""
    label: str = pod["metadata"].get("labels", {}).get(f"training-job-{kind}", "")
    return label


def count_seats(pod: Json, pool: Pool) -> int:
    """How many seats a pod, or a template of one, asks for."""
    containers = pod["spec"]["containers"]
    return sum(
        int(one.get("resources", {}).get("requests", {}).get(pool.resource, 0))
        for one in containers
    )
