"""One patch a job, on `status.admission` alone, in the order in which decisions rest on each other.

A patch is pinned to the version of the job that the pass has seen. After one that was not taken,
nothing of a later step is written: the next pass decides anew, from what is so then. A job that
cannot be written rests, each time for longer, and holds up nobody else; as does one of whose
admission the server has not kept all, for it would be decided, and written, again and again.

Who can write a job can keep it from being written (docs/decisions/0221): by changing it all the
time, which patches answer that are pinned to no version; or by filling it to the last byte, which
rests answer that end seldom.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import groupby
from math import inf
from typing import Any, Protocol

import structlog

from et_contract.admissions import AdmissionState
from et_kube.api import Api
from et_kube.backoff import RECONCILING, Backoff
from et_kube.clock import Clock
from et_kube.errors import Conflict, KubeError, NotFound, NotLeader, Throttled
from et_kube.events import Event
from et_kube.resources import TRAINING_JOBS, Json, Ref
from et_kube.tables import Entry
from et_scheduler.codec.admissions import decode_admission, encode_admission
from et_scheduler.codec.jobs import StoredJob
from et_scheduler.measuring import Metrics
from et_scheduler.model.decisions import Change, Step
from et_scheduler.model.jobs import Admission
from et_scheduler.model.reasons import Reason
from et_scheduler.state.ingesting import Ingest

log = structlog.get_logger()

AT_ONCE = 16
"""Patches of one step in flight."""
CONFLICTS = 2
"""After so many in a row a patch is pinned to no version: the lease keeps other writers away, and
what an author changes meanwhile he may as well have changed a moment later."""
LATE = timedelta(seconds=5)
"""A step in which something was not taken ends then: the server may answer nothing in time."""
LONGER = 10
"""A rest is so many times as long, at most, as the job could not be written by then, or as long as
it would be if no other was like it."""
RESTING = Backoff(timedelta(seconds=0.2), timedelta(minutes=10))
"""For a job that cannot be written and can be read: its author may keep it so."""
MINUTE = 60.0
CUTS = 3
"""So many passes may jobs of one namespace cut short in a MINUTE, whoever they are."""
PARTS = 4
"""For so many passes its waiting jobs are left alone then, and at each further one."""
LONGEST_SPAN = 15.0
"""Seconds for which a pass counts at most: between two there may have been nothing to do."""
TOLD = 3
"""After so many failures in a row the job is told that it cannot be written."""
NOT_WRITTEN = "AdmissionNotWritten"
UNKEPT = timedelta(seconds=10)
"""So long rests a job of whose admission something was dropped."""
WARNINGS = frozenset({Reason.EVICTED, Reason.NOT_BOUND, Reason.NEVER_CREATED, Reason.BELOW_MINIMUM})

Entries = Mapping[str, Entry[StoredJob]]


class EventSink(Protocol):
    """Takes what people are to be told; see et_process/recording."""

    def record(self, event: Event) -> None:
        """Returns at once, and raises nothing."""
        ...


@dataclass(slots=True)
class Rest:
    """How often a job could not be written, since when, until when it is left alone.

    `conflicts` are no failures, and are remembered although it was written since. Where it could
    not be read either (`unread`) it is the server's trouble and not the job's. `began` and `until`
    are of the monotonic clock.
    """

    namespace: str
    conflicts: int = 0
    failures: int = 0
    unread: int = 0
    since: int = 0
    began: float = 0.0
    until: float = -inf


@dataclass(frozen=True, slots=True)
class _Unwritten:
    """A patch that was not taken, and how long the server has asked to be left alone.

    `is_refused`: the job itself cannot be written, or is gone, and has not only changed.
    """

    namespace: str
    wait: timedelta = timedelta()
    is_refused: bool = False


class Writer:
    """Carries decisions out.

    Args:
        api: whose writes the lease guards.
        ingest: where answers go, so that the next pass knows of them.
        recorder: takes the Events.
        clock: for rests.
        metrics: counts what is decided.
    """

    def __init__(
        self, api: Api, ingest: Ingest, recorder: EventSink, clock: Clock, metrics: Metrics
    ) -> None:
        self._api = api
        self._ingest = ingest
        self._recorder = recorder
        self._clock = clock
        self._metrics = metrics
        self._rests: dict[str, Rest] = {}
        self._cuts: dict[str, list[float]] = {}  # by namespace, when its jobs cut a pass short
        self._kept_off: dict[str, tuple[int, float]] = {}  # since when, and until when
        self._began = -inf

    def list_resting(self) -> Mapping[str, int]:
        """Uids of jobs that are left alone now; since when, in milliseconds since 1970."""
        now = self._clock.monotonic()
        return {uid: rest.since for uid, rest in self._rests.items() if rest.until > now}

    def list_kept_off(self) -> Mapping[str, int]:
        """Namespaces whose waiting jobs are left alone now; since when, as above."""
        now = self._clock.monotonic()
        return {name: since for name, (since, until) in self._kept_off.items() if until > now}

    def find_wait(self) -> timedelta | None:
        """How long until the next of them may be tried again."""
        now = self._clock.monotonic()
        ends = [rest.until for rest in self._rests.values()]
        ends += [until for _, until in self._kept_off.values()]
        waits = [until - now for until in ends if until > now]
        return timedelta(seconds=min(waits)) if waits else None

    async def write(self, changes: Sequence[Change], entries: Entries) -> timedelta | None:
        """Write them as far as they go; in how long a pass is due then, None: nothing was to write.

        Raises:
            NotLeader: nothing more may be written.
        """
        self._forget_rests(entries)
        now = self._clock.monotonic()
        span, self._began = now - self._began, now
        for step, group in groupby(changes, key=lambda change: change.step):
            unwritten = await self._write_step(step, tuple(group), entries)
            if unwritten:
                if step is not changes[-1].step:
                    self._note_cut(unwritten, span)
                return _find_wait(unwritten)
        return timedelta() if changes else None

    def _note_cut(self, unwritten: Sequence[_Unwritten], span: float) -> None:
        """Who cuts pass after pass short has a part of them: his jobs may be made anew each time.

        Those who wait are left alone for some times as long as it is from pass to pass.
        """
        now = self._clock.monotonic()
        since = round(self._clock.now().timestamp() * 1000)
        recent = {
            name: [at for at in cuts if at > now - MINUTE] for name, cuts in self._cuts.items()
        }
        self._cuts = {name: cuts for name, cuts in recent.items() if cuts}
        self._kept_off = {name: one for name, one in self._kept_off.items() if one[1] > now}
        for namespace in {one.namespace for one in unwritten if one.is_refused}:
            cuts = [*self._cuts.get(namespace, ()), now][-CUTS:]
            self._cuts[namespace] = cuts
            if len(cuts) == CUTS:
                self._kept_off[namespace] = since, now + PARTS * min(span, LONGEST_SPAN)

    async def _write_step(
        self, step: Step, changes: Sequence[Change], entries: Entries
    ) -> list[_Unwritten]:
        """What rests on none of them is written although one is not taken, within LATE.

        Who gives does so together with others: whoever could not be written last comes first, and
        if he cannot again, nobody gives in vain beside him. Else he comes last.
        """
        doubted = [change for change in changes if self._is_doubted(change.uid)]
        others = [change for change in changes if not self._is_doubted(change.uid)]
        unwritten, began = list[_Unwritten](), self._clock.monotonic()
        for part in (doubted, others) if step is Step.GIVE else (others, doubted):
            for start in range(0, len(part), AT_ONCE):
                unwritten += await self._write_some(part[start : start + AT_ONCE], entries)
                if unwritten and self._clock.monotonic() - began > LATE.total_seconds():
                    return unwritten
            if unwritten and step is Step.GIVE:
                break
        return unwritten

    def _is_doubted(self, uid: str) -> bool:
        rest = self._rests.get(uid)
        return rest is not None and rest.failures + rest.unread > 0

    async def _write_some(self, changes: Sequence[Change], entries: Entries) -> list[_Unwritten]:
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(self._write_one(change, entries[change.uid]))
                for change in changes
            ]
        found = [task.result() for task in tasks]
        if any(isinstance(wait, NotLeader) for wait in found):
            raise NotLeader("the lease was lost while a decision was written")
        return [one for one in found if isinstance(one, _Unwritten)]

    async def _write_one(
        self, change: Change, entry: Entry[StoredJob]
    ) -> _Unwritten | NotLeader | None:
        """None: it is written. Errors are results, for other patches are under way."""
        ref = Ref(TRAINING_JOBS, *entry.place)
        rest = self._rests.get(entry.uid)
        is_pinned = rest is None or rest.conflicts < CONFLICTS or rest.unread > 0
        body = build_patch(change, entry, is_pinned=is_pinned)
        try:
            answer = await self._api.patch(ref, body, subresource="status")
        except NotLeader as error:
            return error
        except NotFound:
            at = self._clock.monotonic()
            self._ingest.forget(TRAINING_JOBS, entry.place, entry.uid, at)
            # what was to be asked of others for it is not; nothing else rests on who is gone
            is_asked_for = change.step is Step.RESERVE
            return _Unwritten(ref.namespace, is_refused=True) if is_asked_for else None
        except KubeError as error:
            log.info("admission not written", job=str(ref), why=str(error))
            return await self._note_failure(ref, entry, error)
        self._ingest.put(TRAINING_JOBS, answer)
        self._tell(ref, entry, change.admission)
        unkept = find_unkept(change.admission, answer)
        if unkept:
            text = "the CRDs in this cluster are not those of this version of et-scheduler"
            log.warning("admission not kept", job=str(ref), fields=unkept, why=text)
            self._metrics.unwritten.labels("FieldsDropped").inc()
            rest = self._rests[entry.uid] = Rest(ref.namespace)
            self._begin(rest)
            rest.until = rest.began + UNKEPT.total_seconds()
        elif rest is not None:
            self._rests[entry.uid] = Rest(ref.namespace, rest.conflicts, began=rest.began)
        return None

    async def _note_failure(
        self, ref: Ref, entry: Entry[StoredJob], error: KubeError
    ) -> _Unwritten | NotLeader:
        """Let the job rest, unless it is only that it has changed; look what has become of it."""
        self._metrics.unwritten.labels(type(error).__name__).inc()
        rest, is_read = self._get_rest(entry), await self._read_again(ref, entry)
        asked = error.retry_after if isinstance(error, Throttled) else None
        if isinstance(error, Conflict) and is_read and rest.conflicts < CONFLICTS:
            rest.conflicts += 1
            return _Unwritten(ref.namespace)
        over = rest.until + RECONCILING.limit.total_seconds()
        if not self._is_doubted(entry.uid) or self._clock.monotonic() > over:
            self._begin(rest)  # it was not tried for a while: nobody knows that it could not be
        # from pass to pass: nothing waits here, others are written meanwhile
        if is_read:
            rest.failures += 1
            pause = self._find_pause(rest)
        else:
            rest.unread += 1
            pause = RECONCILING.delay(rest.unread, 0.0)
        rest.until = self._clock.monotonic() + max(pause, asked or timedelta()).total_seconds()
        if is_read and rest.failures == TOLD:
            text = f"nothing is decided about this job, for its status cannot be written: {error}"
            self._recorder.record(Event(ref, entry.uid, NOT_WRITTEN, text, is_warning=True))
        return _Unwritten(ref.namespace, asked or timedelta(), is_refused=is_read)

    async def _read_again(self, ref: Ref, entry: Entry[StoredJob]) -> bool:
        """Whether the server could tell what has become of the job; if not, it is the server."""
        try:
            self._ingest.put(TRAINING_JOBS, await self._api.get(ref))
        except NotFound:
            at = self._clock.monotonic()
            self._ingest.forget(TRAINING_JOBS, entry.place, entry.uid, at)
        except KubeError as unread:
            log.info("job not read", job=str(ref), why=str(unread))
            return False
        return True

    def _forget_rests(self, entries: Entries) -> None:
        """Of who is gone; and what is long over, and was not tried since, begins anew."""
        old = self._clock.monotonic() - RESTING.limit.total_seconds()
        self._rests = {
            uid: rest
            for uid, rest in self._rests.items()
            if uid in entries and max(rest.until, rest.began) >= old
        }

    def _get_rest(self, entry: Entry[StoredJob]) -> Rest:
        began = self._clock.monotonic()
        return self._rests.setdefault(entry.uid, Rest(entry.place[0], began=began))

    def _begin(self, rest: Rest) -> None:
        rest.began = self._clock.monotonic()
        rest.since = round(self._clock.now().timestamp() * 1000)

    def _find_pause(self, rest: Rest) -> timedelta:
        """Longer by the square of how many of its namespace fail again and again.

        Each that is tried may cost all others a pass, and an author may have hundreds. But not much
        longer than it has lasted: it may be a webhook that is started anew.
        """
        failing = (one for one in self._rests.values() if one.failures > 1)
        alike = sum(one.namespace == rest.namespace for one in failing)
        lasted = timedelta(seconds=self._clock.monotonic() - rest.began)
        alone, longest = RESTING.delay(rest.failures, 0.0), LONGER * lasted
        return min(RESTING.delay(rest.failures + 2 * alike.bit_length(), 0.0), max(alone, longest))

    def _tell(self, ref: Ref, entry: Entry[StoredJob], told: Admission) -> None:
        """Count what was decided; an Event where the reason is another one."""
        job = entry.value.job
        was = (job.admission if job is not None else None) or Admission()
        self._metrics.note_change(was, told)
        if told.reason is not was.reason and told.reason is not Reason.NONE:
            is_warning = told.reason in WARNINGS
            self._recorder.record(
                Event(ref, entry.uid, told.reason.value, told.message, is_warning)
            )
        log.info(
            "admission written",
            job=str(ref),
            state=told.state.value,
            workers=told.workers if told.state is AdmissionState.ADMITTED else 0,
            reason=told.reason.value,
        )


def find_unkept(asked: Admission, answer: Json) -> list[str]:
    """Fields of an admission that the server took and has not stored."""
    wanted = encode_admission(asked)
    try:
        found = encode_admission(decode_admission(answer["status"]["admission"]))
    except (ValueError, LookupError, TypeError):
        return sorted(wanted)
    return [key for key in wanted if wanted[key] != found[key]]


def _find_wait(unwritten: Sequence[_Unwritten]) -> timedelta:
    """In how long the next pass is due: a server asks all to wait, a webhook for its own."""
    asking = [one for one in unwritten if one.wait]
    is_for_all = len({one.namespace for one in asking}) > 1
    return max(one.wait for one in asking) if is_for_all else timedelta()


def build_patch(
    change: Change, entry: Entry[StoredJob], *, is_pinned: bool = True
) -> dict[str, Any]:
    """The merge patch, pinned to the object that the pass has seen, and to its version."""
    pins = {"uid": entry.uid}
    if is_pinned:
        pins["resourceVersion"] = str(entry.version)
    return {"metadata": pins, "status": {"admission": encode_admission(change.admission)}}
