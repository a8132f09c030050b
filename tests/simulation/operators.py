"""The operator under simulation: the real state, planner and executor, driven one pass at a time.

What is left out is what has no say in decisions: the event loop's tasks, the lease, the reflectors.
Their work (list, then watch; take a due key) is done here by explicit calls, so that a world can
let each list be taken, and each event come, at any moment.
"""

from __future__ import annotations

from datetime import timedelta

from et_kube.clock import Clock
from et_kube.errors import KubeError
from et_kube.events import Event
from et_kube.resources import Resource
from et_operator.acting.executing import Executor
from et_operator.assembly import WATCHED
from et_operator.codec.runtimes import hash_files
from et_operator.measuring import Metrics
from et_operator.model.keys import JobKey
from et_operator.model.snapshots import RuntimeFiles
from et_operator.model.statuses import Runtime
from et_operator.reconciling import Reconciler
from et_operator.state.ingesting import Ingest
from et_operator.state.store import Store
from fakes.clients import CallLog, FakeApi, View
from fakes.cluster import FakeCluster

FILES = {"launcher/boot.py": "", "et_contract/paths.py": ""}
SHIPPED = RuntimeFiles(
    Runtime(digest=hash_files(FILES), broker_image="localhost/et-operator:dev"), FILES
)
FIRST_RETRY = timedelta(seconds=1)
LAST_RETRY = timedelta(seconds=60)


class Agenda:
    """Which keys are due when; stands in for the WorkQueue where no task waits for it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._due: dict[JobKey, float] = {}
        self._failures: dict[JobKey, int] = {}
        self._resting: dict[JobKey, float] = {}

    def add(self, key: JobKey, after: timedelta | None = None, *, cause: str = "") -> None:
        """As WorkQueue.add: the earliest wish wins."""
        now = self._clock.monotonic()
        at = now + max((after or timedelta()).total_seconds(), 0.0)
        at = max(at, self._resting.get(key, now))
        self._due[key] = min(at, self._due.get(key, at))

    def retry(
        self, key: JobKey, at_least: timedelta | None = None, *, cause: str = ""
    ) -> timedelta:
        """As WorkQueue.retry, without jitter."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        delay = min(FIRST_RETRY * 2 ** min(failures, 10), LAST_RETRY)
        delay = max(delay, at_least or timedelta())
        if at_least is not None:
            self._resting[key] = self._clock.monotonic() + at_least.total_seconds()
            self._due.pop(key, None)
        self.add(key, delay, cause=cause)
        return delay

    def forget(self, key: JobKey) -> None:
        """As WorkQueue.forget."""
        self._failures.pop(key, None)

    def take(self) -> JobKey | None:
        """The key that has been due longest."""
        now = self._clock.monotonic()
        due = sorted((at, key) for key, at in self._due.items() if at <= now)
        if not due:
            return None
        del self._due[due[0][1]]
        return due[0][1]

    def find_wait(self) -> timedelta | None:
        """How long until something is due; None: nothing is."""
        at = min(self._due.values(), default=None)
        return None if at is None else timedelta(seconds=at - self._clock.monotonic())


class SimulatedOperator:
    """One life of an operator process: what it believes is lost with it.

    Args:
        cluster: what it looks after.
        log: where its calls are noted, and from where faults strike.
        clock: its time.
    """

    def __init__(self, cluster: FakeCluster, log: CallLog, clock: Clock) -> None:
        self._cluster = cluster
        self._clock = clock
        self.store = Store()
        self.agenda = Agenda(clock)
        self.events: list[Event] = []
        self._ingest = Ingest(self.store)
        self._cursors: dict[Resource, int] = {}
        self._cut: set[Resource] = set()
        """Kinds whose watches have broken off: a list follows."""
        self.stalled: dict[Resource, int] = {}
        """Kinds whose newest events, so many, are not shown until `catch_up`."""
        for resource in WATCHED:
            self.store.coverage.expect_list(resource, None)
        self._views = {r: View(None, selector, "") for r, selector in WATCHED.items()}
        api = FakeApi(cluster, log)
        self._reconciler = Reconciler(
            store=self.store,
            api=api,
            executor=Executor(
                api, self, keep=self._ingest.read, requests_at_once=4, now=clock.monotonic
            ),
            queue=self.agenda,  # type: ignore[arg-type]
            clock=clock,
            shipped=SHIPPED,
            metrics=Metrics(),
        )

    def record(self, event: Event) -> None:
        """As Recorder.record."""
        self.events.append(event)

    @property
    def is_synced(self) -> bool:
        """Whether every kind was listed; nothing is planned before."""
        return len(self._cursors) == len(WATCHED)

    def start(self) -> None:
        """List every kind now."""
        for resource in WATCHED:
            self.receive(resource)

    def receive(self, resource: Resource) -> bool:
        """Take the list of a kind, and then one event at a time, as its watch shows them."""
        if resource not in self._cursors or resource in self._cut:
            self._list(resource)
            return True
        return self._take_event(resource, self.stalled.get(resource, 0))

    def break_watches(self) -> None:
        """All watches end, and cannot go on from where they were."""
        for resource in self._cursors:
            self._cut.add(resource)
            self.store.coverage.note_cut(resource, None)

    def catch_up(self) -> bool:
        """Take the oldest event of the first kind that is behind; whether one was."""
        return any(self._take_event(resource, 0) for resource in self.stalled)

    def _list(self, resource: Resource) -> None:
        items = self._cluster.list(resource, label_selector=WATCHED[resource])
        version = self._cluster.history.revision
        known = max(self._cursors.get(resource, 0), self.store.tables[resource].find_newest(None))
        is_set_back = version < known
        self._cursors[resource] = version
        self._cut.discard(resource)
        at = self._clock.monotonic()
        keys = self._ingest.sync(
            resource, None, items, version=str(version), at=at, is_set_back=is_set_back
        )
        for key in keys:
            self.agenda.add(key)

    def _take_event(self, resource: Resource, hidden: int) -> bool:
        if resource in self._cut:
            self._list(resource)
            return True
        pending = list(self._cluster.history.list_pending(resource, self._cursors[resource]))
        for change in pending[: max(len(pending) - hidden, 0)]:
            self._cursors[resource] = change.revision
            event = self._views[resource].see(change)
            if event is None:
                continue
            take = self._ingest.delete if event.type == "DELETED" else self._ingest.upsert
            for key in take(resource, event.object):
                self.agenda.add(key)
            return True
        return False

    async def work(self) -> bool:
        """One pass over one job that is due. A defect of the planner is raised, not retried."""
        key = self.agenda.take() if self.is_synced else None
        if key is None:
            return False
        try:
            _, again = await self._reconciler.reconcile(key)
        except KubeError:
            self.agenda.retry(key)
            return True
        if again is not None:
            self.agenda.add(key, again)
        return True
