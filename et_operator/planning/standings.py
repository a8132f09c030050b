"""What a pass has before it while it decides: the view, and the status as it stands by now.

For whoever only reads; a Draft, above it, can be changed. Whether a wait goes on is judged here
(`find_end`), so that no wrong clock makes one endless.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from et_kube.notices import Notice
from et_operator.model.names import build_runtime_name
from et_operator.model.notices import NoticeRecord, build_key
from et_operator.model.pods import Pod
from et_operator.model.snapshots import Snapshot
from et_operator.model.specs import JobSpec
from et_operator.model.statuses import JobStatus, WorkerRecord, WorkerState
from et_operator.planning.views import View
from et_operator.planning.waiting import find_latest, set_clocks_right


class Standing:
    """What a rule may read in a pass: what is observed, and what was decided so far.

    Whoever reads `status` here sees what was decided in this pass; `view.status` is what the
    cluster has observed, and only that may be acted upon.

    What is remembered about workers is kept by name here and put together when `status` is read: a
    pass over a large job costs so much for each worker, whatever the number of the others.
    """

    def __init__(self, snapshot: Snapshot, now: datetime) -> None:
        self.view = View(snapshot, now)
        self._status = set_clocks_right(snapshot.job.status, find_latest(snapshot, now))
        self._records = {record.name: record for record in self._status.workers}
        self._are_records_new = False

    @property
    def now(self) -> datetime:
        """The time of this pass."""
        return self.view.now

    @property
    def status(self) -> JobStatus:
        """What was decided so far. Where one worker after another is looked at, see `decided`."""
        if self._are_records_new:
            # a generator, for test_growth.py counts its steps: not to be read for each worker
            workers = tuple(record for record in self._records.values())
            self._status = replace(self._status, workers=workers)
            self._are_records_new = False
        return self._status

    @property
    def decided(self) -> JobStatus:
        """The status at no cost, with `workers` that may be behind: find_record has the newest."""
        return self._status

    @property
    def spec(self) -> JobSpec:
        """The spec of a job that is known to be valid."""
        return self.view.spec

    @property
    def used_up(self) -> Mapping[str, int]:
        """Workers that are used up, by uid, with an exit code: none once the epoch is put away."""
        return self.view.used_up if self._is_report_new() else {}

    @property
    def spent(self) -> Mapping[str, int]:
        """`used_up`, and once the command has ended those still that it had given up until then."""
        view = self.view
        is_told = view.report is not None and view.is_elastic and self._is_report_new()
        return view.report.used_up if view.report is not None and is_told else {}

    @property
    def unlisted(self) -> frozenset[str]:
        """Uids of workers that the broker never lists (again): none once the epoch is put away."""
        return self.view.unlisted if self._is_report_new() else frozenset()

    @property
    def needed_workers(self) -> int:
        """With how many workers the command may be started."""
        return self.spec.find_needed(self._status.decided_replicas)

    @property
    def has_runtime(self) -> bool:
        """Whether the pinned runtime is in the namespace or can be put there."""
        pinned, snapshot = self._status.runtime, self.view.snapshot
        if pinned is None:
            return False
        is_shipped = pinned.digest == snapshot.shipped.runtime.digest
        return is_shipped or build_runtime_name(pinned.digest) in snapshot.runtimes

    @property
    def has_decided(self) -> bool:
        """Whether anything is to be recorded before it is acted upon."""
        return self.status != self.view.status

    @property
    def next_generation(self) -> int:
        """The generation that the next written config will have."""
        view = self.view
        last = view.written_generation
        if view.report is not None:
            # somebody removed it, or etcd was restored: it must be news to who has read it
            last = max(last, view.report.observed_generation)
        return max(self._status.generation, last + 1)

    def _is_report_new(self) -> bool:
        """Whether the report is of the epoch that holds by now: a pass may begin the next one."""
        return self._status.epoch == self.view.status.epoch

    def find_end(self, since: datetime | None, span: timedelta) -> datetime | None:
        """When a wait of this length, from then on, is over; None where nobody waits any more.

        Waits are judged here, but for those of Draft.wait_until, for each has two dangers. `since`
        may come from a clock that is ahead: one that is ahead of now by more than the wait is long
        says nothing, and nobody waits for it. What was recorded by us is set right before (see
        waiting.py).
        """
        if since is None or self.now >= since + span or since > self.now + span:
            return None
        return since + span

    def find_record(self, name: str) -> WorkerRecord | None:
        """What is remembered about the worker of this name."""
        return self._records.get(name)

    def list_noted(self, pod: Pod, notice: Notice) -> list[NoticeRecord]:
        """What is noted of this sign, on the pod's node or itself: of many nodes not all is."""
        keys = {build_key(place, notice) for place in ((pod.node or "", ""), ("", pod.uid))}
        return [r for r in self.decided.notices if r.key in keys and r.withdrawn is None]

    def find_deadline(self, pod: Pod, notice: Notice) -> datetime | None:
        """When it ends by that; None where nobody says, as so long after a sign of unknown age."""
        is_dated = notice.lead is None or notice.since != self.now
        return notice.deadline if is_dated or self.list_noted(pod, notice) else None

    def select_records(self, state: WorkerState) -> tuple[WorkerRecord, ...]:
        """The workers that are remembered to be in this state."""
        return tuple(r for r in self._records.values() if r.state is state)

    def select_roster(self) -> list[Pod]:
        """The live workers that are neither leaving nor held."""
        out = {r.uid for r in self._records.values() if r.state is not WorkerState.JOINING}
        held = {record.name for record in self.select_held()}
        live = self.view.live_workers
        return [pod for pod in live if pod.uid not in out and pod.name not in held]

    def select_usable(self) -> list[Pod]:
        """Workers of the roster that the command can use: nothing is ever started in the others."""
        spent = self.spent
        return [pod for pod in self.select_roster() if pod.uid not in spent]

    def select_unborn(self) -> list[WorkerRecord]:
        """Names that were decided and whose pods are yet to come, but for those of successors."""
        joining = self.select_records(WorkerState.JOINING)
        return [r for r in joining if not r.uid and not r.replaces]

    def select_held(self) -> list[WorkerRecord]:
        """The successors of workers that have not left yet, born or not: they are on no roster."""
        return [r for r in self.select_records(WorkerState.JOINING) if r.replaces]
