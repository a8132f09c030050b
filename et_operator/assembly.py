"""The composition root: the only place that wires concrete parts, and what the process runs."""

from __future__ import annotations

import math
from collections import Counter
from datetime import timedelta
from importlib.resources import files
from importlib.resources.abc import Traversable

import structlog

from et_contract.frames import PROTOCOL_VERSION
from et_kube import __version__
from et_kube.clock import Clock, SystemClock
from et_kube.connecting import connect
from et_kube.errors import NotLeader
from et_kube.leasing import Lease
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
from et_operator.codec.encoding import encode_status_patch
from et_operator.codec.runtimes import hash_files
from et_operator.measuring import Metrics
from et_operator.model.jobs import JobKey, Runtime
from et_operator.model.names import SELECTOR_OURS
from et_operator.model.snapshots import RuntimeFiles
from et_operator.reconciling import Reconciler, note_unreadable
from et_operator.settings import Settings
from et_operator.state.ingesting import Ingest
from et_operator.state.store import Store
from et_operator.sweeping import Sweeper
from et_runtime.lanes import Lanes
from et_runtime.logging import configure_logging
from et_runtime.recording import WRITERS, Recorder
from et_runtime.serving import build_app, serve
from et_runtime.supervising import run_for_ever, stop_on_signals, supervise
from et_runtime.workqueue import WorkQueue

STOP_GRACE = timedelta(seconds=20)
SHARES = 4
"""One namespace has no more than this part of the workers."""
SLOW_SHARES = 2
"""All namespaces that are slow have no more than this part of the workers together."""
SET_BACK = 60.0
"""Seconds within which lists that were set back are of one restore of etcd."""
SILENCE = 180.0
"""Seconds without a word from the API server after which a replica is not ready."""

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
    "hostdiscovery",
)
RUNTIME_MODULES = {
    "launcher": ("__init__.py", "boot.py"),
    "et_contract": (
        "__init__.py",
        "frames.py",
        "hosts.py",
        "names.py",
        "paths.py",
        "starters.py",
        "texts.py",
    ),
}
"""What runs in user containers; see launcher/boot.py."""

log = structlog.get_logger()


async def run(settings: Settings) -> None:
    """Be the operator until SIGTERM or SIGINT."""
    configure_logging(settings.log_format, settings.log_level)
    clock = SystemClock()
    metrics = Metrics()
    store = Store()

    def observe(verb: str, resource: Resource, code: int, seconds: float) -> None:
        metrics.note_request(verb, resource.plural, code, seconds)

    with stop_on_signals() as stop:
        async with connect() as connection:
            api = Rest(connection, observe=observe)
            operator = Operator(settings, api, store, clock=clock, metrics=metrics)
            app = build_app(
                metrics,
                healthy=lambda: "",
                ready=operator.describe_trouble,
                refresh=operator.measure,
            )
            async with serve(app, settings.http_port):
                log.info("operator started", version=__version__, identity=settings.identity)
                await supervise(operator.tasks, stop=stop, clock=clock, grace=STOP_GRACE)
                log.info("operator stopped")


class Operator:
    """All parts of one replica, wired."""

    def __init__(
        self, settings: Settings, api: Rest, store: Store, *, clock: Clock, metrics: Metrics
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._metrics = metrics
        self._store = store
        self._ingest = Ingest(self._store, note_unreadable(metrics), self._note_set_back)
        self._set_back_at = -math.inf
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
        self._lease = Lease(
            api,
            clock,
            namespace=settings.own_namespace,
            name=settings.lease_name,
            identity=settings.identity,
            duration=settings.lease_duration,
            renew_deadline=settings.renew_deadline,
            retry_period=settings.retry_period,
        )
        guarded = api.guarded(self._lease.guard)
        self._recorder = Recorder(
            guarded,
            clock,
            controller=CONTROLLER,
            instance=settings.identity,
            on_drop=lambda _: metrics.events_lost.inc(),
        )
        shipped = read_runtime(settings)
        self._sweeper = Sweeper(store=self._store, api=guarded, clock=clock, shipped=shipped)
        self._reconciler = Reconciler(
            store=self._store,
            api=guarded,
            executor=Executor(
                guarded,
                self._recorder,
                encode_status_patch,
                requests_at_once=settings.requests_at_once,
                now=clock.monotonic,
            ),
            queue=self._queue,
            clock=clock,
            shipped=shipped,
            metrics=metrics,
        )
        self._reflectors = {
            (resource, namespace): self._build_reflector(api, resource, namespace, selector)
            for resource, selector in WATCHED.items()
            for namespace in (settings.namespaces or (None,))
            if resource.namespaced or not settings.namespaces
        }
        self.tasks = {
            **{
                f"watch {resource.plural} {namespace or ''}": reflector.run
                for (resource, namespace), reflector in self._reflectors.items()
            },
            "lead": self._lead_again_and_again,
            "queue": self._queue.run,
        }

    def describe_trouble(self) -> str:
        """What keeps this replica from being useful to anybody; "" when nothing does.

        A namespace that cannot be seen, for its admin has taken our rights there, is no reason to
        keep the others from a new replica.
        """
        troubles = self._find_troubles()
        is_of_use = None not in troubles and set(troubles) < set(self._settings.namespaces)
        return "" if is_of_use or not troubles else next(iter(troubles.values()))

    def _find_troubles(self) -> dict[str | None, str]:
        """Why what happens is not seen, by namespace; None stands for all of them."""
        now = self._clock.monotonic()
        troubles: dict[str | None, str] = {}
        for (resource, namespace), reflector in self._reflectors.items():
            kind = resource.plural
            if not reflector.is_synced:
                troubles[namespace] = f"the list of {kind} is not complete yet"
            elif reflector.last_contact is not None and now - reflector.last_contact > SILENCE:
                troubles[namespace] = (
                    f"no word about {kind} from the API server for {SILENCE:.0f} s"
                )
        return troubles

    def measure(self) -> None:
        """Bring the gauges up to date, just before they are read."""
        self._metrics.queue_depth.set(self._queue.depth)
        self._metrics.unseen.set(len(self._find_troubles()))
        self._metrics.is_leader.set(1 if self._lease.is_leader else 0)
        phases = Counter(
            entry.value.status.phase.value if entry.value.status.phase else "New"
            for entry in self._store.jobs
        )
        self._metrics.jobs.clear()
        for phase, count in phases.items():
            self._metrics.jobs.labels(phase).set(count)

    def _note_set_back(self) -> None:
        """One kind was set back, so all were: a watch that was far behind would not notice it."""
        now = self._clock.monotonic()
        if now - self._set_back_at < SET_BACK:
            return  # these lists tell the same
        self._set_back_at = now
        log.warning("etcd was set back: everything is listed anew")
        for reflector in self._reflectors.values():
            reflector.relist()

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
            keep=lambda obj: self._ingest.read(resource, obj),
            find_newest=lambda: self._store.tables[resource].find_newest(namespace),
            on_defect=self._metrics.defects.labels("watch").inc,
        )

    def _see(self, sighting: Sighting) -> None:
        cause = name_cause(sighting)
        for key in self._take_in(sighting):
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

    async def _lead_again_and_again(self) -> None:
        while True:
            try:
                await self._lease.lead(self._lead)
            except NotLeader as error:
                log.warning("no longer the leader", reason=str(error))

    async def _lead(self) -> None:
        """One term: nothing is planned for a namespace before its lists were taken anew in it.

        The last of these brings all its jobs into the queue (see Ingest.sync). A namespace that
        cannot be listed waits by itself.
        """
        log.info("leading", identity=self._settings.identity)
        for (resource, namespace), reflector in self._reflectors.items():
            self._store.coverage.expect_list(resource, namespace)
            reflector.relist()
        workers = {f"worker {n}": self._reconciler.work for n in range(self._settings.workers)}
        writers = {f"events {n}": self._recorder.run for n in range(WRITERS)}
        await run_for_ever({**workers, **writers, "sweep": self._sweeper.run})


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
