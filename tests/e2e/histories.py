"""Each version of a namespace's jobs and pods, and what must hold in all of them."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from kubernetes import watch
from kubernetes.client.exceptions import ApiException
from kubernetes.utils.quantity import parse_quantity
from urllib3.exceptions import HTTPError

from tests.e2e.world import GROUP, PAUSE, RealWorld, find_condition

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


@dataclass(frozen=True)
class Bounds:
    """How much there is of a resource: on each node, and for a queue that has a limit."""

    resource: str
    nodes: Mapping[str, Decimal]
    limits: Mapping[str, Decimal]

    @classmethod
    def of_cpu(cls, world: RealWorld, **limits: str) -> Bounds:
        """The CPU of the cluster; of queues as a TrainingQueue has it."""
        nodes = {
            node.metadata.name: parse_quantity(node.status.allocatable["cpu"])
            for node in world.core.list_node().items
        }
        return cls("cpu", nodes, {name: parse_quantity(text) for name, text in limits.items()})


def judge(history: History, bounds: Bounds) -> None:
    """What must hold has held since the history began."""
    versions = history.list_versions()
    assert versions, "the watches have told something"
    assert find_breaches(versions, bounds) == []


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


def find_breaches(versions: list[Version], bounds: Bounds) -> list[str]:
    """What did not hold at some moment; [] if all did."""
    scene, found, partly = Scene(), list[str](), dict[str, float]()
    for version in versions:
        scene.take(version)
        for check in (check_nodes, check_admissions):
            found += [one for one in check(scene, bounds) if one not in found]
        texts = {*list_partial_gangs(scene)}
        partly = {text: partly.get(text, version.at) for text in texts}
        late = (text for text, since in partly.items() if version.at - since > FALLBACK)
        found += [text for text in late if text not in found]
    return found


def check_nodes(scene: Scene, bounds: Bounds) -> Iterator[str]:
    """No node has more on it than it offers."""
    taken: dict[str, Decimal] = defaultdict(Decimal)
    for pod in scene.pods.values():
        if pod["status"].get("phase") not in ENDED:
            taken[pod["spec"].get("nodeName", "")] += sum_requests(pod, bounds.resource)
    for node, offered in bounds.nodes.items():
        if taken[node] > offered:
            yield f"{taken[node]} of {offered} are taken on {node}"


def check_admissions(scene: Scene, bounds: Bounds) -> Iterator[str]:
    """No more workers are given than there is room for, and no queue has more than its limit."""
    given: dict[str, Decimal] = defaultdict(Decimal)
    for job in filter(is_admitted, scene.jobs.values()):
        template = job["spec"]["etReplicaSpecs"]["worker"]["template"]
        admission = job["status"]["admission"]
        given[admission["queue"]] += admission["workers"] * sum_requests(template, bounds.resource)
    total, offered = sum(given.values()), sum(bounds.nodes.values())
    if total > offered:
        yield f"{total} of {offered} are given"
    for queue, limit in bounds.limits.items():
        if given[queue] > limit:
            yield f"{queue} has {given[queue]} of {limit}"


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
    """Whether what it was given is its own: it has not ended, nor is it on its way out.

    Who is held, and has spent what he was given last, waits to be given more.
    """
    status = job.get("status", {})
    is_over = status.get("phase") in ENDED or job["metadata"].get("deletionTimestamp")
    admission = status.get("admission") or {}
    is_held = find_condition(status, "Admitted").get("status") == "False"
    is_spent = is_held and admission.get("number", 0) <= status.get("admittedNumber", 0)
    is_its_own = admission.get("state") == "Admitted" and not is_spent
    return is_its_own and not is_over and not job["spec"].get("suspend")


def is_staying(pod: Json) -> bool:
    """Whether nobody has asked it to go."""
    return not pod["metadata"].get("deletionTimestamp")


def find_label(pod: Json, kind: str) -> str:
    """Of which job (`name`) or role a pod is."""
    label: str = pod["metadata"].get("labels", {}).get(f"training-job-{kind}", "")
    return label


def sum_requests(pod: Json, resource: str) -> Decimal:
    """How much a pod, or a template of one, asks for."""
    requests = [one.get("resources", {}).get("requests", {}) for one in pod["spec"]["containers"]]
    return sum((parse_quantity(one.get(resource, 0)) for one in requests), Decimal())
