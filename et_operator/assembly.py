"""The composition root: the only place that wires concrete parts, and what the process runs.

Which kinds are watched, and which files run in user containers, is said here too. Nothing is
decided about a job: a sighting goes into the store, and out come the keys of jobs to look at.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from importlib.resources import files
from importlib.resources.abc import Traversable

import structlog

from et_contract.frames import PROTOCOL_VERSION
from et_kube.clock import APART, Clock, ComparedClock, LaterClock
from et_kube.resources import (
    CONFIG_MAPS,
    GROUP,
    NETWORK_POLICIES,
    NODES,
    PODS,
    ROLE_BINDINGS,
    ROLES,
    SCALE_INS,
    SCALE_OUTS,
    SERVICE_ACCOUNTS,
    TRAINING_JOBS,
    Resource,
)
from et_kube.rest import Rest
from et_kube.watching import Cut, Deleted, Reflector, Resumed, Sighting, Synced, Upserted
from et_operator.acting.executing import Executor
from et_operator.codec.runtimes import hash_files
from et_operator.measuring import Metrics
from et_operator.model.conditions import TROUBLES, find_troubles
from et_operator.model.keys import JobKey
from et_operator.model.names import SELECTOR_OURS
from et_operator.model.snapshots import RuntimeFiles
from et_operator.model.statuses import Runtime
from et_operator.reconciling import Reconciler
from et_operator.settings import Settings
from et_operator.state.ingesting import Ingest
from et_operator.state.store import Store
from et_operator.sweeping import Sweeper
from et_process.lanes import Lanes
from et_process.leading import build_lease, lead_again_and_again
from et_process.recording import WRITERS, Recorder
from et_process.running import run_program
from et_process.supervising import Tasks, run_for_ever
from et_process.watches import Watches
from et_process.workqueue import WorkQueue

SHARES = 4
"""One namespace has no more than this part of the workers."""
SLOW_SHARES = 2
"""All namespaces that are slow have no more than this part of the workers together."""
CONTROLLER = f"{GROUP}/et-operator"
"""Who reports, in Events."""

WATCHED = {
    TRAINING_JOBS: "",
    SCALE_INS: "",
    SCALE_OUTS: "",
    PODS: SELECTOR_OURS,
    CONFIG_MAPS: SELECTOR_OURS,
    SERVICE_ACCOUNTS: SELECTOR_OURS,
    ROLES: SELECTOR_OURS,
    ROLE_BINDINGS: SELECTOR_OURS,
    NETWORK_POLICIES: SELECTOR_OURS,
    NODES: "",
}
"""Every kind that is watched, with its label selector."""

CAUSES = {
    TRAINING_JOBS: "job",
    SCALE_INS: "scaling",
    SCALE_OUTS: "scaling",
    PODS: "pod",
    NODES: "node",
}
"""What passes are counted under that follow from a change; from another kind's: "child"."""

RUNTIME_PACKAGES = (
    "launcher.protocol",
    "launcher.agent",
    "launcher.shim",
    "launcher.ssh",
    "launcher.ranks",
    "hostdiscovery",
)
RUNTIME_MODULES = {
    "launcher": ("__init__.py", "boot.py"),
    "et_contract": (
        "__init__.py",
        "frames.py",
        "hosts.py",
        "names.py",
        "options.py",
        "paths.py",
        "scripts.py",
        "starters.py",
        "texts.py",
        "wrappers.py",
    ),
}
"""What runs in user containers; see launcher/boot.py."""

log = structlog.get_logger()


async def run(settings: Settings) -> None:
    """Be the operator until SIGTERM or SIGINT."""
    metrics, store = Metrics(), Store(settings.notices)

    def build(api: Rest, clock: ComparedClock) -> Operator:
        later = LaterClock(clock)
        return Operator(
            settings, api, store, clock=later, metrics=metrics, find_drift=lambda: clock.apart
        )

    await run_program(settings, metrics, build)


class Operator:
    """All parts of one replica, wired.

    `find_drift` tells how far the clock is from the API server's.
    """

    def __init__(
        self,
        settings: Settings,
        api: Rest,
        store: Store,
        *,
        clock: Clock,
        metrics: Metrics,
        find_drift: Callable[[], timedelta] = timedelta,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._metrics = metrics
        self._store = store
        self._watches = Watches(clock, store.coverage.expect_list)
        self._ingest = Ingest(store, metrics.note_unreadable, self._watches.note_set_back)
        self._queue: WorkQueue[JobKey] = WorkQueue(
            clock,
            lanes=Lanes(
                lambda key: key.namespace,
                max(settings.workers // SHARES, 1),
                slow_share=max(settings.workers // SLOW_SHARES, 1),
                now=clock.monotonic,
            ),
            on_wait=metrics.queue_seconds.observe,
            on_take=lambda cause: metrics.causes.labels(cause).inc(),
        )
        self._lease = build_lease(api, clock, settings)
        self._is_leading = False
        guarded = api.guarded(self._lease.guard)
        self._recorder = Recorder(
            guarded,
            clock,
            controller=CONTROLLER,
            instance=settings.identity,
            on_drop=lambda _: metrics.events_lost.inc(),
        )
        shipped = read_runtime(settings)
        executor = Executor(
            guarded,
            self._recorder,
            keep=self._ingest.read,
            requests_at_once=settings.requests_at_once,
            now=clock.monotonic,
        )
        self._sweeper = Sweeper(
            store=self._store, api=guarded, executor=executor, clock=clock, shipped=shipped
        )
        self._reconciler = Reconciler(
            store=self._store,
            api=guarded,
            executor=executor,
            queue=self._queue,
            clock=clock,
            shipped=shipped,
            metrics=metrics,
            default_queue=settings.default_queue,
            find_drift=find_drift,
        )
        self._find_drift = find_drift
        for resource, selector in WATCHED.items():
            for namespace in settings.namespaces or (None,):
                if resource.namespaced or namespace is None:
                    reflector = self._build_reflector(api, resource, namespace, selector)
                    self._watches.add(resource, namespace, reflector)
        self.tasks: Tasks = {
            **self._watches.tasks,
            "lead": partial(lead_again_and_again, self._lease, self._lead),
            "queue": self._queue.run,
        }

    def describe_trouble(self) -> str:
        """What keeps this replica from being useful to anybody; "" when nothing does.

        A namespace that cannot be seen, for its admin has taken our rights there, is no reason to
        keep the others from a new replica.
        """
        troubles = dict(self._watches.find_troubles())
        is_of_use = None not in troubles and set(troubles) < set(self._settings.namespaces)
        if is_of_use or not troubles:
            return self._describe_drift()
        return next(iter(troubles.values()))

    def _describe_drift(self) -> str:
        drift = self._find_drift()
        if drift <= APART:
            return ""
        apart = f"its clock and the API server's are {drift.total_seconds():.0f} s apart"
        return f"{apart}: no job or worker is ended, and none deleted, for its time is over"

    def measure(self) -> None:
        """Bring the gauges up to date, just before they are read."""
        self._metrics.queue_depth.set(self._queue.depth)
        self._metrics.unseen.set(len(dict(self._watches.find_troubles())))
        self._metrics.is_leader.set(1 if self._lease.is_leader else 0)
        phases = Counter(
            entry.value.status.phase.value if entry.value.status.phase else "New"
            for entry in self._store.jobs
        )
        self._metrics.jobs.clear()
        for phase, count in phases.items():
            self._metrics.jobs.labels(phase).set(count)
        troubles = Counter(
            found.type if found.type in TROUBLES else "other"  # anybody may write a condition
            for entry in self._store.jobs
            if not entry.value.status.has_finished
            for found in find_troubles(entry.value.status.conditions)
        )
        self._metrics.troubles.clear()
        for condition, count in troubles.items():
            self._metrics.troubles.labels(condition).set(count)

    def _build_reflector(
        self, api: Rest, resource: Resource, namespace: str | None, selector: str
    ) -> Reflector:
        self._store.coverage.expect_list(resource, namespace)
        return Reflector(
            api,
            self._clock,
            resource,
            namespace,
            self._see,
            label_selector=selector,
            keep=lambda obj: self._ingest.read_listed(resource, obj),
            find_newest=lambda: self._store.tables[resource].find_newest(namespace),
            on_defect=self._metrics.defects.labels("watch").inc,
        )

    def _see(self, sighting: Sighting) -> None:
        """Who stands by looks at no job, and would keep the name of each that ever was."""
        cause, keys = name_cause(sighting), self._take_in(sighting)
        for key in keys if self._is_leading else ():
            self._queue.add(key, cause=cause)

    def _take_in(self, sighting: Sighting) -> set[JobKey]:
        match sighting:
            case Synced():
                return self._ingest.sync(
                    sighting.resource,
                    sighting.namespace,
                    sighting.items,
                    version=sighting.version,
                    at=sighting.begun,
                    is_set_back=sighting.is_set_back,
                )
            case Upserted():
                return self._ingest.upsert(sighting.resource, sighting.object)
            case Deleted():
                return self._ingest.delete(sighting.resource, sighting.object)
            case Cut():
                self._store.coverage.note_cut(sighting.resource, sighting.namespace)
            case Resumed():
                self._store.coverage.note_resumed(
                    sighting.resource, sighting.namespace, sighting.at
                )
        return set()

    async def _lead(self) -> None:
        """One term: nothing is planned for a namespace before its lists were taken anew in it.

        The last of these brings all its jobs into the queue (see Ingest.sync). A namespace that
        cannot be listed waits by itself.
        """
        log.info("leading", identity=self._settings.identity)
        self._watches.list_anew()
        workers = {f"worker {n}": self._reconciler.work for n in range(self._settings.workers)}
        writers = {f"events {n}": self._recorder.run for n in range(WRITERS)}
        self._is_leading = True
        try:
            await run_for_ever({**workers, **writers, "sweep": self._sweeper.run})
        finally:
            self._is_leading = False
            self._queue.clear()  # all jobs come again with the lists of the next term


def name_cause(sighting: Sighting) -> str:
    """What a pass that follows from a sighting is counted under."""
    return "list" if isinstance(sighting, Synced) else CAUSES.get(sighting.resource, "child")


def read_runtime(settings: Settings) -> RuntimeFiles:
    """The files that user containers run, as this operator ships them, and their hash."""
    texts: dict[str, str] = {}
    for package, names in RUNTIME_MODULES.items():
        for name in names:
            texts[f"{package}/{name}"] = (files(package) / name).read_text("utf-8")
    for package in RUNTIME_PACKAGES:
        for item in files(package).iterdir():
            if is_runtime_file(item):
                texts[f"{package.replace('.', '/')}/{item.name}"] = item.read_text("utf-8")
    runtime = Runtime(hash_files(texts), settings.broker_image, PROTOCOL_VERSION)
    return RuntimeFiles(runtime, texts, settings.broker_pull_secrets)


def is_runtime_file(item: Traversable) -> bool:
    """Python files and shell scripts, no caches and markers."""
    return item.is_file() and item.name.endswith((".py", ".sh"))
