"""The operator under simulation: the real state, planner and executor, driven one pass at a time.

What is left out is what has no say in decisions: the event loop's tasks, the lease, the reflectors.
Their work (list, then watch; take a due key) is done here by explicit calls, so that a world can
let each list be taken, and each event come, at any moment.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from et_operator.assembly import WATCHED
from et_operator.codec.encoding import encode_status_patch
from et_operator.errors import EtOperatorError
from et_operator.kube.executing import Executor
from et_operator.model.jobs import JobKey, Runtime
from et_operator.model.plans import Report
from et_operator.model.resources import Resource
from et_operator.model.snapshots import RuntimeFiles
from et_operator.reconciling import Reconciler
from et_operator.runtime.measuring import Metrics
from et_operator.state.ingesting import Ingest
from et_operator.state.store import Store
from tests.fakes.clients import CallLog, FakeApi, View
from tests.fakes.clock import FakeClock
from tests.fakes.cluster import FakeCluster

SHIPPED = RuntimeFiles(
    Runtime(digest="0123456789", broker_image="localhost/et-operator:dev"),
    {"launcher/boot.py": "", "launcher/contract.py": ""},
)
FIRST_RETRY = timedelta(seconds=1)
LAST_RETRY = timedelta(seconds=60)


class Agenda:
    """Which keys are due when; stands in for the WorkQueue where no task waits for it."""

    def __init__(self, clock: FakeClock) -> None:
        self._clock = clock
        self._due: dict[JobKey, datetime] = {}
        self._failures: dict[JobKey, int] = {}
        self._resting: dict[JobKey, datetime] = {}

    def add(self, key: JobKey, after: timedelta | None = None) -> None:
        """As WorkQueue.add: the earliest wish wins."""
        now = self._clock.now()
        at = max(now + max(after or timedelta(), timedelta()), self._resting.get(key, now))
        self._due[key] = min(at, self._due.get(key, at))

    def retry(self, key: JobKey, at_least: timedelta | None = None) -> timedelta:
        """As WorkQueue.retry, without jitter."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        delay = max(min(FIRST_RETRY * 2**failures, LAST_RETRY), at_least or timedelta())
        if at_least is not None:
            self._resting[key] = self._clock.now() + at_least
            self._due.pop(key, None)
        self.add(key, delay)
        return delay

    def forget(self, key: JobKey) -> None:
        """As WorkQueue.forget."""
        self._failures.pop(key, None)

    def take(self) -> JobKey | None:
        """The key that has been due longest."""
        now = self._clock.now()
        due = sorted((at, key) for key, at in self._due.items() if at <= now)
        if not due:
            return None
        del self._due[due[0][1]]
        return due[0][1]

    @property
    def next_due(self) -> datetime | None:
        """When something is due at the earliest."""
        return min(self._due.values(), default=None)


class SimulatedOperator:
    """One life of an operator process: what it believes is lost with it.

    Args:
        cluster: what it looks after.
        log: where its calls are noted, and from where faults strike.
        clock: its time.
    """

    def __init__(self, cluster: FakeCluster, log: CallLog, clock: FakeClock) -> None:
        self._cluster = cluster
        self._clock = clock
        self.store = Store()
        self.agenda = Agenda(clock)
        self.reports: list[Report] = []
        self._ingest = Ingest(self.store)
        self._cursors: dict[Resource, int] = {}
        self.stalled: dict[Resource, int] = {}
        """Kinds whose newest events, so many, are not shown until `catch_up`."""
        for resource in WATCHED:
            self.store.expect_list(resource, None)
        self._views = {r: View(None, selector, "") for r, selector in WATCHED.items()}
        api = FakeApi(cluster, log)
        self._reconciler = Reconciler(
            store=self.store,
            api=api,
            executor=Executor(api, self, encode_status_patch, pod_requests=4),
            queue=self.agenda,  # type: ignore[arg-type]
            clock=clock,
            shipped=SHIPPED,
            metrics=Metrics(),
        )

    def record(self, report: Report) -> None:
        """As Recorder.record."""
        self.reports.append(report)

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
        if resource not in self._cursors:
            self._list(resource)
            return True
        return self._take_event(resource, self.stalled.get(resource, 0))

    def catch_up(self) -> bool:
        """Take the oldest event of the first kind that is behind; whether one was."""
        return any(self._take_event(resource, 0) for resource in self.stalled)

    def _list(self, resource: Resource) -> None:
        items = self._cluster.list(resource, label_selector=WATCHED[resource])
        version = self._cluster.history.revision
        self._cursors[resource] = version
        self._ingest.sync(resource, None, items, version=str(version), at=self._clock.now())
        if not self.is_synced:
            return
        for entry in self.store.jobs:
            self.agenda.add(entry.value.key)
        for table in (self.store.scale_ins, self.store.scale_outs):
            for scaling in table:
                self.agenda.add(JobKey(scaling.value.namespace, scaling.value.job_name))

    def _take_event(self, resource: Resource, hidden: int) -> bool:
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
        except EtOperatorError:
            self.agenda.retry(key)
            return True
        if again is not None:
            self.agenda.add(key, again)
        return True
