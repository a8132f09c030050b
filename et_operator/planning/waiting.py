"""Recorded times that lie ahead of now: a clock was wrong, and no wait may be longer for it.

A leader's clock may be ahead (a machine that was resumed, a clock that is yet to be set), and what
it recorded is read by the next one. A wait that is counted from such a time would last until the
right clock has got there. So each recorded time that lies ahead is set to now, once and in the
status itself: every wait is then as long as it is, from now.

But where the server has made something of the job since then, it is our own clock that is behind,
and what was set to such a now would be long over once that clock is right.
"""

from __future__ import annotations

from dataclasses import fields, replace
from datetime import datetime, timedelta
from functools import cache
from typing import Any, TypeVar, get_type_hints

from et_operator.model.blacklists import GivenUp
from et_operator.model.snapshots import Snapshot
from et_operator.model.statuses import JobStatus, ScalingRecord

Record = TypeVar("Record")

PAUSE = timedelta(seconds=10)
"""Between attempts of a scaling's script."""
_PLANNED = {"next_at": PAUSE}
"""Times that lie ahead rightly, and by how much at most."""
_SAID = "deadline"
"""A time of others', and no wait is counted from it."""


def find_latest(snapshot: Snapshot, now: datetime) -> datetime:
    """What is later lies ahead of now: by now the server has made the job and its pods."""
    return max(now, snapshot.job.created, *(pod.created for pod in snapshot.pods))


def set_clocks_right(status: JobStatus, now: datetime) -> JobStatus:
    """The status without times that lie ahead of `now`; the very same where none does."""
    changes: dict[str, Any] = {}
    for name in ("conditions", "workers", "notices", "listings"):
        records = getattr(status, name)
        new = tuple(_set_right(record, now) for record in records)
        changes[name] = new if new != records else records
    if status.scaling is not None:
        changes["scaling"] = _set_scaling_right(status.scaling, now)
    if status.given_up is not None:
        changes["given_up"] = _set_given_up_right(status.given_up, now)
    for name in ("launch_backoff", "lost_launchers", "shortage", "launcher_move"):
        record = getattr(status, name)
        changes[name] = _set_right(record, now) if record is not None else None
    changes = {name: new for name, new in changes.items() if new is not getattr(status, name)}
    right = _set_right(status, now)
    return replace(right, **changes) if changes else right


def _set_scaling_right(scaling: ScalingRecord, now: datetime) -> ScalingRecord:
    right = _set_right(scaling, now)
    script = _set_right(right.script, now) if right.script is not None else None
    return right if script is right.script else replace(right, script=script)


def _set_given_up_right(given_up: GivenUp, now: datetime) -> GivenUp:
    right = _set_right(given_up, now)
    moments = tuple(_set_right(moment, now) for moment in right.moments)
    return right if moments == right.moments else replace(right, moments=moments)


def _set_right(record: Record, now: datetime) -> Record:
    kind: Any = type(record)
    changes = {}
    for name in _list_times(kind):
        latest, moment = now + _PLANNED.get(name, timedelta()), getattr(record, name)
        if moment is not None and moment > latest:
            changes[name] = latest
    return replace(record, **changes) if changes else record  # type: ignore[type-var]


@cache
def _list_times(kind: type) -> tuple[str, ...]:
    """The fields of a dataclass that hold a time."""
    hints = get_type_hints(kind)
    times = (datetime, datetime | None)
    found = (field.name for field in fields(kind) if hints[field.name] in times)
    return tuple(name for name in found if name != _SAID)
