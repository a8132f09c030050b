"""One patch a job, on `status.admission` alone, in the order in which decisions rest on each other.

A patch is pinned to the version of the job that the pass has seen. After one that was not taken,
nothing of a later step is written: the next pass decides anew, from what is so then. A job that
cannot be written rests for a while, and holds up nobody else; as does one of whose admission the
server has not kept all, for it would be decided, and written, again and again.
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
from et_kube.backoff import RECONCILING
from et_kube.clock import Clock
from et_kube.errors import ApiError, Conflict, KubeError, NotFound, NotLeader, Throttled
from et_kube.events import Event
from et_kube.resources import TRAINING_JOBS, Json, Ref
from et_kube.tables import Entry
from et_scheduler.codec.admissions import decode_admission, encode_admission
from et_scheduler.codec.jobs import StoredJob
from et_scheduler.measuring import Metrics
from et_scheduler.model.decisions import Change
from et_scheduler.model.jobs import Admission
from et_scheduler.model.reasons import Reason
from et_scheduler.state.ingesting import Ingest

log = structlog.get_logger()

AT_ONCE = 16
"""Patches of one step in flight."""
CONFLICTS = 3
"""So many in a row, and the job rests as one that is refused."""
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
    """How often in a row a job could not be written, since when, until when it is left alone."""

    failures: int = 0
    since: int = 0
    until: float = -inf


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

    def list_resting(self) -> Mapping[str, int]:
        """Uids of jobs that are left alone now; since when, in milliseconds since 1970."""
        now = self._clock.monotonic()
        return {uid: rest.since for uid, rest in self._rests.items() if rest.until > now}

    def find_wait(self) -> timedelta | None:
        """How long until the next of them may be tried again."""
        now = self._clock.monotonic()
        waits = [rest.until - now for rest in self._rests.values() if rest.until > now]
        return timedelta(seconds=min(waits)) if waits else None

    async def write(self, changes: Sequence[Change], entries: Entries) -> timedelta | None:
        """Write them as far as they go; in how long a pass is due then, None: nothing was to write.

        Raises:
            NotLeader: nothing more may be written.
        """
        self._rests = {uid: rest for uid, rest in self._rests.items() if uid in entries}
        for _, group in groupby(changes, key=lambda change: change.step):
            step = tuple(group)
            for start in range(0, len(step), AT_ONCE):
                waits = await self._write_some(step[start : start + AT_ONCE], entries)
                if waits:
                    return max(waits)
        return timedelta() if changes else None

    async def _write_some(self, changes: Sequence[Change], entries: Entries) -> list[timedelta]:
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(self._write_one(change, entries[change.uid]))
                for change in changes
            ]
        found = [task.result() for task in tasks]
        if any(isinstance(wait, NotLeader) for wait in found):
            raise NotLeader("the lease was lost while a decision was written")
        return [wait for wait in found if isinstance(wait, timedelta)]

    async def _write_one(
        self, change: Change, entry: Entry[StoredJob]
    ) -> timedelta | NotLeader | None:
        """None: it is written. Errors are results, for other patches are under way."""
        ref = Ref(TRAINING_JOBS, *entry.place)
        try:
            answer = await self._api.patch(ref, build_patch(change, entry), subresource="status")
        except NotLeader as error:
            return error
        except NotFound:
            at = self._clock.monotonic()
            self._ingest.forget(TRAINING_JOBS, entry.place, entry.uid, at)
            return timedelta()
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
            self._lay(self._rests.setdefault(entry.uid, Rest()), UNKEPT)
        else:
            self._rests.pop(entry.uid, None)
        return None

    async def _note_failure(
        self, ref: Ref, entry: Entry[StoredJob], error: KubeError
    ) -> timedelta | NotLeader:
        """Let the job rest, unless it is only that it has changed; look what has become of it."""
        self._metrics.unwritten.labels(type(error).__name__).inc()
        rest = self._rests.setdefault(entry.uid, Rest())
        rest.failures += 1  # from pass to pass: nothing waits here, others are written meanwhile
        if not isinstance(error, Conflict) or rest.failures >= CONFLICTS:
            self._lay(rest, RECONCILING.delay(rest.failures, 0.0))
        try:
            self._ingest.put(TRAINING_JOBS, await self._api.get(ref))
        except NotFound:
            at = self._clock.monotonic()
            self._ingest.forget(TRAINING_JOBS, entry.place, entry.uid, at)
        except KubeError as unread:
            log.info("job not read", job=str(ref), why=str(unread))
            self._lay(rest, RECONCILING.delay(rest.failures, 0.0))
        asked = error.retry_after if isinstance(error, ApiError) else None
        return asked if asked is not None and isinstance(error, Throttled) else timedelta()

    def _lay(self, rest: Rest, pause: timedelta) -> None:
        """To rest; what was laid to rest long ago, and not tried since, begins anew."""
        now = self._clock.monotonic()
        if now > rest.until + RECONCILING.limit.total_seconds():
            rest.since = round(self._clock.now().timestamp() * 1000)
        rest.until = now + pause.total_seconds()

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


def build_patch(change: Change, entry: Entry[StoredJob]) -> dict[str, Any]:
    """The merge patch, pinned to the object that the pass has seen."""
    pins = {"uid": entry.uid, "resourceVersion": str(entry.version)}
    return {"metadata": pins, "status": {"admission": encode_admission(change.admission)}}
