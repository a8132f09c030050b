"""`status.admission` and back. What is written is read again as it was, to the millisecond.

jobs.py reads by it, acting/writing.py writes, and `et` shows by it. What we cannot have written
raises ValueError, so that nothing is decided from it; a reason that is not known is dropped.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from et_contract.admissions import MAX_NODES, AdmissionState, Elasticity, Placement
from et_contract.documents import MAX_WORKERS
from et_kube.resources import Json
from et_scheduler.codec.reading import (
    MAX_INTEGER,
    find_choice,
    read_choice,
    read_flag,
    read_integer,
    read_moment,
    read_object,
    read_objects,
    read_text,
    read_texts,
    read_words,
    write_moment,
)
from et_scheduler.model.jobs import Admission, Eviction, Gift, Purpose
from et_scheduler.model.reasons import Reason

MAX_RESERVED = MAX_WORKERS + 1
MAX_EVICTIONS = 64
MAX_MESSAGE = 1024
_MAX_UID = 64
_MAX_QUEUE = 63


def decode_admission(body: object) -> Admission:
    """Raises ValueError for what we cannot have written, and could not go on from.

    Why something was decided, in a word that is not known here, is not said.
    """
    if not isinstance(body, Mapping):
        raise ValueError("is not an object")  # noqa: TRY004 (one error for all)
    return Admission(
        number=read_integer(body, "number", most=MAX_INTEGER),
        state=AdmissionState(read_text(body, "state")),
        queue=read_text(body, "queue", _MAX_QUEUE),
        elasticity=read_choice(body, "elasticity", Elasticity, Elasticity.AUTO),
        workers=read_integer(body, "workers", most=MAX_WORKERS),
        leaving=read_texts(body, "leaving", MAX_WORKERS),
        placement=_decode_placement(read_object(body, "placement")),
        reserved=read_texts(body, "reserved", MAX_RESERVED),
        reason=find_choice(body, "reason", Reason) or Reason.NONE,
        message=read_words(body, "message", MAX_MESSAGE),
        queued_at=read_moment(body, "queuedAt") or 0,
        since=read_moment(body, "since") or 0,
        reserved_since=read_moment(body, "reservedSince"),
        unfit_since=read_moment(body, "unfitSince"),
        coming_since=read_moment(body, "comingSince"),
        bound_at=read_moment(body, "boundAt"),
        short_since=read_moment(body, "shortSince"),
        gave_for=_decode_gift(read_object(body, "gaveFor")),
        evictions=tuple(map(_decode_eviction, read_objects(body, "evictions", MAX_EVICTIONS))),
        attempts=read_integer(body, "attempts", most=MAX_INTEGER),
        grown_from=read_integer(body, "grownFrom", most=MAX_WORKERS),
        retry_at=read_moment(body, "retryAt"),
        resized_at=read_moment(body, "resizedAt"),
        levelled_at=read_moment(body, "levelledAt"),
        levelled_since=read_moment(body, "levelledSince"),
        level_turns=read_integer(body, "levelTurns", most=MAX_INTEGER),
        rounds=read_integer(body, "rounds", most=MAX_INTEGER),
        round_at=read_moment(body, "roundAt"),
        leaving_since=read_moment(body, "leavingSince"),
    )


def encode_admission(admission: Admission) -> dict[str, Any]:
    """The field as a merge patch writes it: what has no value is removed by its null."""
    placement, gift = admission.placement, admission.gave_for
    return {
        "number": admission.number,
        "state": admission.state.value,
        "queue": admission.queue or None,
        "elasticity": admission.elasticity.value,
        "workers": admission.workers,
        "leaving": list(admission.leaving[:MAX_WORKERS]) or None,
        "placement": {
            "launcher": placement.launcher or None,
            "only": list(placement.only) or None,
            "avoid": list(placement.avoid) or None,
        }
        if placement != Placement()
        else None,
        "reserved": list(admission.reserved[:MAX_RESERVED]) or None,
        "reason": admission.reason.value or None,
        "message": admission.message[:MAX_MESSAGE] or None,
        "queuedAt": write_moment(admission.queued_at or None),
        "since": write_moment(admission.since or None),
        "reservedSince": write_moment(admission.reserved_since),
        "unfitSince": write_moment(admission.unfit_since),
        "comingSince": write_moment(admission.coming_since),
        "boundAt": write_moment(admission.bound_at),
        "shortSince": write_moment(admission.short_since),
        "gaveFor": None if gift is None else {"kind": gift.purpose.value, "uid": gift.uid or None},
        "evictions": [
            {"uid": one.uid, "queue": one.queue, "at": write_moment(one.at)}
            | ({"early": True} if one.is_early else {})
            for one in admission.evictions[-MAX_EVICTIONS:]
        ]
        or None,
        "attempts": admission.attempts or None,
        "grownFrom": admission.grown_from or None,
        "retryAt": write_moment(admission.retry_at),
        "resizedAt": write_moment(admission.resized_at),
        "levelledAt": write_moment(admission.levelled_at),
        "levelledSince": write_moment(admission.levelled_since),
        "levelTurns": admission.level_turns or None,
        "rounds": admission.rounds or None,
        "roundAt": write_moment(admission.round_at),
        "leavingSince": write_moment(admission.leaving_since),
    }


def _decode_placement(body: Json) -> Placement:
    return Placement(
        read_text(body, "launcher"),
        read_texts(body, "only", MAX_NODES),
        read_texts(body, "avoid", MAX_NODES),
    )


def _decode_gift(body: Json) -> Gift | None:
    purpose = find_choice(body, "kind", Purpose)
    return Gift(purpose, read_text(body, "uid", _MAX_UID)) if purpose is not None else None


def _decode_eviction(body: Json) -> Eviction:
    uid, queue = read_text(body, "uid", _MAX_UID), read_text(body, "queue", _MAX_QUEUE)
    return Eviction(uid, queue, read_moment(body, "at") or 0, read_flag(body, "early"))
