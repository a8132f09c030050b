"""What a person would look at: the job, its scalings, its Events and the training's own lines."""

from __future__ import annotations

import json
import re
import threading
import time
from dataclasses import dataclass, field
from typing import Any

from kubernetes import client, config
from kubernetes.client.exceptions import ApiException
from places import Place

GROUP = "kai.alibabacloud.com"
STEP = re.compile(r"step=(\d+) .*?loss=([0-9.e+-]+) .*?size=(\d+)")
LIVE_SECONDS = 2.0
LOOK_SECONDS = 0.5
NOT_FOUND = 404


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
    """Looks at one job of one namespace through the official client.

    `steps` are (number, loss, size) as rank 0 printed them, in order.
    """

    place: Place
    namespace: str
    job: str
    live: bool
    steps: list[tuple[int, float, int]] = field(default_factory=list)
    history: list[Moment] = field(default_factory=list)
    status: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        api = config.new_client_from_config(self.place.kubeconfig, self.place.context)
        self._core = client.CoreV1Api(api)
        self._custom = client.CustomObjectsApi(api)
        self._pause = threading.Event()
        self._started = time.monotonic()
        self._shown = 0.0
        self._told: set[str] = set()
        self._uids: set[str] = set()
        self._scalings: dict[str, dict[str, Any]] = {}

    @property
    def phase(self) -> str:
        """The job's phase, "" while it has none."""
        return self.status.get("phase") or ""

    @property
    def size(self) -> int:
        """The world size of the newest step, 0 before the first."""
        return self.steps[-1][2] if self.steps else 0

    @property
    def sizes(self) -> list[int]:
        """World sizes in the order in which the training saw them."""
        seen: list[int] = []
        for _, _, size in self.steps:
            if not seen or seen[-1] != size:
                seen.append(size)
        return seen

    @property
    def restarts(self) -> int:
        """How often the launcher was started again."""
        return int(self.status.get("restartCount") or 0)

    def count_repeated_steps(self) -> int:
        """Steps that had to be trained more than once."""
        numbers = [number for number, _, _ in self.steps]
        return len(numbers) - len(set(numbers))

    def clear(self) -> None:
        """Make the namespace, and take away what an earlier demo left in it."""
        try:
            self._core.create_namespace(
                client.V1Namespace(metadata=client.V1ObjectMeta(name=self.namespace))
            )
        except ApiException as error:
            if json.loads(error.body).get("reason") != "AlreadyExists":
                raise
        for plural in ("trainingjobs", "scaleins", "scaleouts"):
            self._custom.delete_collection_namespaced_custom_object(
                GROUP, "v1alpha1", self.namespace, plural
            )
        end = time.monotonic() + 90
        while self._core.list_namespaced_pod(self.namespace).items and time.monotonic() < end:
            self.pause()

    def submit(self, manifest: dict[str, object]) -> None:
        """Create the job; time counts from here."""
        self._started = time.monotonic()
        self.create("trainingjobs", manifest)

    def create(self, plural: str, manifest: dict[str, object]) -> None:
        """Create one of our objects."""
        created = self._custom.create_namespaced_custom_object(
            GROUP, "v1alpha1", self.namespace, plural, manifest
        )
        self._uids.add(created["metadata"]["uid"])

    def has_ended(self, plural: str, name: str) -> bool:
        """Whether a scaling has succeeded; SystemExit when it failed."""
        found = self._custom.get_namespaced_custom_object(
            GROUP, "v1alpha1", self.namespace, plural, name
        )
        self._scalings[name] = found.get("status") or {}
        if self._scalings[name].get("phase") == "ScaleFailed":
            raise SystemExit(f"demo failed: {name}: {self._scalings[name]['conditions'][-1]}")
        return self._scalings[name].get("phase") == "ScaleSucceeded"

    def get_scaling(self, name: str) -> dict[str, object]:
        """The status of a scaling that has ended."""
        return self._scalings[name]

    def look(self) -> None:
        """Read job, pods, log and Events once; print what is new."""
        found = self._custom.get_namespaced_custom_object(
            GROUP, "v1alpha1", self.namespace, "trainingjobs", self.job
        )
        self.status = found.get("status") or {}
        self.steps = [
            (int(number), float(loss), int(size))
            for number, loss, size in STEP.findall(self._read_log())
        ]
        self._tell_events()
        newest = self.steps[-1] if self.steps else (0, None, 0)
        moment = Moment(
            time.monotonic() - self._started, self._count_workers(), newest[2], newest[0], newest[1]
        )
        self.history.append(moment)
        if self.live and moment.seconds - self._shown >= LIVE_SECONDS:
            self._shown = moment.seconds
            self._tell(moment)

    def pause(self) -> None:
        """Wait for the next look."""
        self._pause.wait(LOOK_SECONDS)

    def describe(self) -> str:
        """The job's conditions, for a failure message."""
        return json.dumps(self.status.get("conditions", []), indent=1)

    def _tell(self, moment: Moment) -> None:
        loss = "-" if moment.loss is None else f"{moment.loss:.4f}"
        print(
            f"{moment.seconds:6.1f} s  {self.phase or '-':<10} workers {moment.workers}"
            f"  step {moment.step:>4}  loss {loss:>8}  world size {moment.size}",
            flush=True,
        )

    def _tell_events(self) -> None:
        for event in self._core.list_namespaced_event(self.namespace).items:
            is_ours = event.involved_object.uid in self._uids
            if is_ours and event.metadata.uid not in self._told:
                self._told.add(event.metadata.uid)
                print(f"          {event.reason}: {event.message}", flush=True)

    def _count_workers(self) -> int:
        selector = f"training-job-name={self.job},training-job-role=worker"
        pods = self._core.list_namespaced_pod(self.namespace, label_selector=selector).items
        return sum(1 for pod in pods if pod.status.phase == "Running")

    def _read_log(self) -> str:
        try:
            raw = self._core.read_namespaced_pod_log(
                f"{self.job}-launcher", self.namespace, container="launcher", _preload_content=False
            ).data
        except ApiException:
            return ""  # the container has not started yet
        text: str = raw.decode("utf-8", "replace")
        return text
