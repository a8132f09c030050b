"""What a person would look at: jobs, their scalings, their Events and the trainings' own lines.

Scenes look and wait by it alone: it reads as the command line does (et.reading, et.logs) and prints
what is new. Written are only the objects of a scene and its namespace, from which it takes jobs and
scalings of an earlier demo.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AsyncExitStack, aclosing, suppress
from dataclasses import dataclass, field
from typing import Any, Self, TypeVar

from et.clusters import Place as Where
from et.clusters import open_cluster
from et.logs import PodLog
from et.reading import ENDED, SCALINGS, find_launcher, read_events, read_pods
from et.screens import escape
from et.steps import parse_step
from et_contract.pods import Role
from et_kube.errors import AlreadyExists, NotFound
from et_kube.resources import (
    NAMESPACES,
    PODS,
    TRAINING_JOBS,
    TRAINING_QUEUES,
    Json,
    Ref,
    Resource,
)
from et_operator.codec.decoding import decode_job
from et_operator.model.jobs import TrainingJob
from examples.demo.places import Place
from examples.demo.trainings import DemoError, Moment, Training

KINDS = {one.kind: one for one in (TRAINING_JOBS, TRAINING_QUEUES, *SCALINGS)}
LIVE_SECONDS = 2.0
LOOK_SECONDS = 0.5
CLEARING_SECONDS = 90.0
PATIENCE = 600.0
T = TypeVar("T")


@dataclass
class Observer:
    """Looks at jobs of one namespace as the command line does; use it as a context manager.

    `trainings` are the jobs that it has submitted.
    """

    place: Place
    namespace: str
    live: bool
    trainings: list[Training] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._runner = asyncio.Runner()
        self._stack = AsyncExitStack()
        self._logs: dict[str, PodLog] = {}
        self._started = time.monotonic()
        self._shown = 0.0
        self._told: set[str] = set()
        self._uids: set[str] = set()
        self._scalings: dict[str, dict[str, Any]] = {}

    def __enter__(self) -> Self:
        where = Where(self.place.kubeconfig, self.place.context, self.namespace)
        self._cluster = self._run(self._stack.enter_async_context(open_cluster(where)))
        return self

    def __exit__(self, *error: object) -> None:
        self._run(self._stack.aclose())
        self._runner.close()

    def clear(self) -> None:
        """Make the namespace, and take away what an earlier demo left in it."""
        self._run(self._clear())
        end = time.monotonic() + CLEARING_SECONDS
        while self._run(self._list_pods()) and time.monotonic() < end:
            self.pause()

    def submit(self, manifest: Json) -> Training:
        """Create a job, which is looked at from now on; time counts from the first one."""
        if not self.trainings:
            self._started = time.monotonic()
        self.create(manifest)
        training = Training(manifest["metadata"]["name"])
        self.trainings.append(training)
        return training

    def create(self, manifest: Json) -> None:
        """Create one of our objects."""
        resource = KINDS[manifest["kind"]]
        namespace = self.namespace if resource.namespaced else None
        created = self._run(self._cluster.api.create(resource, namespace, manifest))
        self._uids.add(created["metadata"]["uid"])

    def delete(self, manifest: Json) -> None:
        """Take one of our objects away, if it is there."""
        self._run(self._delete(KINDS[manifest["kind"]], manifest["metadata"]["name"]))

    def has_ended(self, manifest: Json) -> bool:
        """Whether a scaling has succeeded; DemoError when it failed."""
        name = manifest["metadata"]["name"]
        ref = Ref(KINDS[manifest["kind"]], self.namespace, name)
        status = dict(self._run(self._cluster.api.get(ref)).get("status") or {})
        self._scalings[name] = status
        if status.get("phase") == "ScaleFailed":
            raise DemoError(f"{name}: {status['conditions'][-1]}")
        return status.get("phase") == "ScaleSucceeded"

    def get_scaling(self, name: str) -> dict[str, Any]:
        """The status of a scaling that has ended."""
        return self._scalings[name]

    def wait(self, training: Training, is_there: Callable[[], bool], what: str) -> float:
        """Look every half second until it is so; the seconds that it took.

        DemoError when a job fails, when this one ends before, or when time is over.
        """
        began = time.monotonic()
        while True:
            self.look()
            seconds = time.monotonic() - began
            if is_there():
                return seconds
            for one in self.trainings:
                if one.phase == "Failed":
                    raise DemoError(f"a job failed while waiting until {what}\n{one.describe()}")
            if training.phase == "Succeeded":
                raise DemoError(f"the job {training.name} ended before {what}")
            if seconds > PATIENCE:
                raise DemoError(f"not within {PATIENCE:.0f} s: {what}\n{training.describe()}")
            self.pause()

    def train_on(self, training: Training, steps: int) -> None:
        """Let it train so many steps more."""
        seen = len(training.steps) + steps
        self.wait(training, lambda: len(training.steps) >= seen, "the training goes on")

    def look(self) -> None:
        """Read jobs, pods, logs and Events once; print what is new."""
        self._run(self._look())

    def pause(self) -> None:
        """Wait for the next look."""
        self._run(asyncio.sleep(LOOK_SECONDS))

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(work)

    async def _clear(self) -> None:
        api = self._cluster.api
        manifest = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace}}
        with suppress(AlreadyExists):
            await api.create(NAMESPACES, None, manifest)
        for resource in (TRAINING_JOBS, *SCALINGS):
            for item in (await api.list(resource, self.namespace)).items:
                await self._delete(resource, item["metadata"]["name"])

    async def _delete(self, resource: Resource, name: str) -> None:
        ref = Ref(resource, self.namespace if resource.namespaced else "", name)
        with suppress(NotFound):  # scalings go with their job
            uid = (await self._cluster.api.get(ref))["metadata"]["uid"]
            await self._cluster.api.delete(ref, uid=uid)

    async def _list_pods(self) -> Sequence[Json]:
        return (await self._cluster.api.list(PODS, self.namespace)).items

    async def _look(self) -> None:
        seconds = time.monotonic() - self._started
        moments = [await self._look_at(training, seconds) for training in self.trainings]
        await self._tell_events()
        if self.live and seconds - self._shown >= LIVE_SECONDS:
            self._shown = seconds
            for training, moment in zip(self.trainings, moments, strict=True):
                if training.phase not in ENDED:
                    _tell(training, moment)

    async def _look_at(self, training: Training, seconds: float) -> Moment:
        ref = Ref(TRAINING_JOBS, self.namespace, training.name)
        stored = await self._cluster.api.get(ref)
        training.status = dict(stored.get("status") or {})
        return training.note(seconds, await self._look_at_pods(training, decode_job(stored)))

    async def _look_at_pods(self, training: Training, job: TrainingJob) -> int:
        """Read what the launcher has printed since the last look; how many workers run."""
        pods = await read_pods(self._cluster, job)
        launcher = find_launcher(pods, job)
        if launcher is not None and launcher.has_container_started:
            log = self._logs.setdefault(launcher.uid, PodLog(self._cluster, launcher))
            async with aclosing(log.read(is_following=False)) as lines:
                async for line in lines:
                    step = parse_step(line.text)
                    if step is not None and step.size is not None:
                        training.steps.append(step)
        return sum(pod.role is Role.WORKER and pod.phase == "Running" for pod in pods)

    async def _tell_events(self) -> None:
        def is_new(event: Json) -> bool:
            is_ours = (event.get("involvedObject") or {}).get("uid") in self._uids
            return is_ours and event["metadata"]["uid"] not in self._told

        for event in await read_events(self._cluster, self.namespace, is_new):
            about = event["involvedObject"]
            self._told.add(event["metadata"]["uid"])
            words = f"{about.get('name')}: {event.get('reason')}: {event.get('message')}"
            print(f"          {escape(words)}", flush=True)


def _tell(training: Training, moment: Moment) -> None:
    loss = "-" if moment.loss is None else f"{moment.loss:.4f}"
    print(
        f"{moment.seconds:6.1f} s  {training.name:<5}  {training.phase or '-':<9}"
        f"  workers {moment.workers}  step {moment.step:>4}  loss {loss:>8}"
        f"  world size {moment.size}",
        flush=True,
    )
