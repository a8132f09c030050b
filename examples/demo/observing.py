"""What a person would look at: the job, its scalings, its Events and the training's own lines."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Coroutine, Sequence
from contextlib import AsyncExitStack, aclosing, suppress
from dataclasses import dataclass, field
from typing import Any, Self, TypeVar

from places import Place

from et.clusters import Place as Where
from et.clusters import open_cluster
from et.logs import PodLog
from et.reading import SCALINGS, find_launcher, read_events, read_pods
from et.screens import escape
from et.steps import Step, count_repeats, list_sizes, parse_step
from et_contract.pods import Role
from et_kube.errors import AlreadyExists, NotFound
from et_kube.resources import PODS, TRAINING_JOBS, Json, Ref, Resource
from et_operator.codec.decoding import decode_job
from et_operator.model.jobs import TrainingJob

NAMESPACES = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
LIVE_SECONDS = 2.0
LOOK_SECONDS = 0.5
CLEARING_SECONDS = 90.0
T = TypeVar("T")


@dataclass(frozen=True)
class Moment:
    """One look at the job: seconds since submission, workers, and the newest step."""

    seconds: float
    workers: int
    size: int
    step: int
    loss: float | None


@dataclass
class Observer:
    """Looks at one job of one namespace as the command line does; use it as a context manager.

    `steps` are those that rank 0 printed, in order.
    """

    place: Place
    namespace: str
    job: str
    live: bool
    steps: list[Step] = field(default_factory=list)
    history: list[Moment] = field(default_factory=list)
    status: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._runner = asyncio.Runner()
        self._stack = AsyncExitStack()
        self._log: PodLog | None = None
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

    @property
    def phase(self) -> str:
        """The job's phase, "" while it has none."""
        return self.status.get("phase") or ""

    @property
    def size(self) -> int:
        """The world size of the newest step, 0 before the first."""
        return (self.steps[-1].size or 0) if self.steps else 0

    @property
    def sizes(self) -> list[int]:
        """World sizes in the order in which the training saw them."""
        return list_sizes(self.steps)

    @property
    def restarts(self) -> int:
        """How often the launcher was started again."""
        return int(self.status.get("restartCount") or 0)

    def count_repeated_steps(self) -> int:
        """Steps that had to be trained more than once."""
        return count_repeats(self.steps)

    def clear(self) -> None:
        """Make the namespace, and take away what an earlier demo left in it."""
        self._run(self._clear())
        end = time.monotonic() + CLEARING_SECONDS
        while self._run(self._list_pods()) and time.monotonic() < end:
            self.pause()

    def submit(self, manifest: dict[str, object]) -> None:
        """Create the job; time counts from here."""
        self._started = time.monotonic()
        self.create(manifest)

    def create(self, manifest: dict[str, object]) -> None:
        """Create one of our objects."""
        resource = _find_resource(manifest)
        created = self._run(self._cluster.api.create(resource, self.namespace, manifest))
        self._uids.add(created["metadata"]["uid"])

    def has_ended(self, manifest: dict[str, object]) -> bool:
        """Whether a scaling has succeeded; SystemExit when it failed."""
        name = manifest["metadata"]["name"]  # type: ignore[index]
        ref = Ref(_find_resource(manifest), self.namespace, name)
        status = dict(self._run(self._cluster.api.get(ref)).get("status") or {})
        self._scalings[name] = status
        if status.get("phase") == "ScaleFailed":
            raise SystemExit(f"demo failed: {name}: {status['conditions'][-1]}")
        return status.get("phase") == "ScaleSucceeded"

    def get_scaling(self, name: str) -> dict[str, object]:
        """The status of a scaling that has ended."""
        return self._scalings[name]

    def look(self) -> None:
        """Read job, pods, log and Events once; print what is new."""
        self._run(self._look())

    def pause(self) -> None:
        """Wait for the next look."""
        self._run(asyncio.sleep(LOOK_SECONDS))

    def describe(self) -> str:
        """The job's conditions, for a failure message."""
        return json.dumps(self.status.get("conditions", []), indent=1)

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(work)

    async def _clear(self) -> None:
        api = self._cluster.api
        manifest = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace}}
        with suppress(AlreadyExists):
            await api.create(NAMESPACES, None, manifest)
        for resource in (TRAINING_JOBS, *SCALINGS):
            for item in (await api.list(resource, self.namespace)).items:
                name, uid = item["metadata"]["name"], item["metadata"]["uid"]
                with suppress(NotFound):  # scalings go with their job
                    await api.delete(Ref(resource, self.namespace, name), uid=uid)

    async def _list_pods(self) -> Sequence[Json]:
        return (await self._cluster.api.list(PODS, self.namespace)).items

    async def _look(self) -> None:
        stored = await self._cluster.api.get(Ref(TRAINING_JOBS, self.namespace, self.job))
        self.status = dict(stored.get("status") or {})
        job = decode_job(stored)
        workers = await self._look_at_pods(job)
        await self._tell_events()
        newest = self.steps[-1] if self.steps else Step(number=0)
        moment = Moment(
            time.monotonic() - self._started, workers, self.size, newest.number or 0, newest.loss
        )
        self.history.append(moment)
        if self.live and moment.seconds - self._shown >= LIVE_SECONDS:
            self._shown = moment.seconds
            self._tell(moment)

    async def _look_at_pods(self, job: TrainingJob) -> int:
        """Read what the launcher has printed since the last look; how many workers run."""
        pods = await read_pods(self._cluster, job)
        launcher = find_launcher(pods, job)
        if launcher is not None and launcher.has_container_started:
            if self._log is None or self._log.pod.uid != launcher.uid:
                self._log = PodLog(self._cluster, launcher)
            async with aclosing(self._log.read(is_following=False)) as lines:
                async for line in lines:
                    step = parse_step(line.text)
                    if step is not None and step.size is not None:
                        self.steps.append(step)
        return sum(pod.role is Role.WORKER and pod.phase == "Running" for pod in pods)

    def _tell(self, moment: Moment) -> None:
        loss = "-" if moment.loss is None else f"{moment.loss:.4f}"
        print(
            f"{moment.seconds:6.1f} s  {self.phase or '-':<10} workers {moment.workers}"
            f"  step {moment.step:>4}  loss {loss:>8}  world size {moment.size}",
            flush=True,
        )

    async def _tell_events(self) -> None:
        for event in await read_events(self._cluster, self.namespace):
            uid, about = event["metadata"]["uid"], event.get("involvedObject") or {}
            if about.get("uid") in self._uids and uid not in self._told:
                self._told.add(uid)
                words = f"{event.get('reason')}: {event.get('message')}"
                print(f"          {escape(words)}", flush=True)


def _find_resource(manifest: Json) -> Resource:
    return next(r for r in (TRAINING_JOBS, *SCALINGS) if r.kind == manifest["kind"])
