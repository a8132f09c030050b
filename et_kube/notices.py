"""What is said of the end of a node, or of a pod: by whom, how surely, and when.

The one table of signs. Who reads nodes asks here, so that operator and et-scheduler never disagree
about which of them are about to go.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any

from et_contract.texts import clean
from et_kube.resources import GROUP, Json
from et_kube.times import parse_time

LEAVING_AT = f"{GROUP}/leaving-at"
"""Annotation of a node or a pod: what runs there ends then (RFC 3339)."""
LEAVING_REASON = f"{GROUP}/leaving-reason"
"""Annotation beside it: why, in words."""
LEAVING_ADVISED = f"{GROUP}/leaving-advised"
"""Annotation of a node: its cloud advises to leave it, since then (RFC 3339); soft."""
MAX_WORDS = 128
"""Characters of a reason, and of a bad value, that are shown."""
OVER = timedelta(minutes=10)
"""Nobody is moved for a moment that is over for longer: what was to end then, has not."""
_UNEXPLAINED = "somebody says that it ends"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_UNIX_SECONDS = re.compile(r"[0-9]{9,10}")


class NoticeKind(StrEnum):
    """Firm: it ends, whatever anybody does. Soft: it may end, or nothing new should begin there."""

    FIRM = "Firm"
    SOFT = "Soft"


class Sign(StrEnum):
    """Where on a node it stands; the value of an annotation is the moment itself."""

    TAINT = "taint"
    CONDITION = "condition"
    ANNOTATION = "annotation"


@dataclass(frozen=True, slots=True)
class Row:
    """One sign and what it means. `lead`: how long after it the end comes; None: nobody says."""

    sign: Sign
    key: str
    reason: str
    kind: NoticeKind
    lead: timedelta | None = None


@dataclass(frozen=True, slots=True)
class Notice:
    """What runs there ends, `source` says so for this `reason`.

    `deadline` is when, where the source gives the moment itself, `since` when it was said, where it
    tells that; `lead` as in the table, for whoever knows since when.
    """

    reason: str
    source: str
    kind: NoticeKind
    deadline: datetime | None = None
    since: datetime | None = None
    lead: timedelta | None = None

    @property
    def is_firm(self) -> bool:
        """Whether it ends, whatever anybody does."""
        return self.kind is NoticeKind.FIRM

    def __str__(self) -> str:
        return f"{self.reason} ({self.source})"


def _list_rows() -> Iterator[Row]:
    firm, soft = NoticeKind.FIRM, NoticeKind.SOFT
    aws = "aws-node-termination-handler"
    yield Row(Sign.ANNOTATION, LEAVING_AT, _UNEXPLAINED, firm)
    yield Row(Sign.ANNOTATION, LEAVING_ADVISED, "its cloud advises to leave it", soft)
    for key, reason, kind, lead in (
        (f"{aws}/spot-itn", "AWS takes the spot instance back", firm, 120),
        (f"{aws}/asg-lifecycle-termination", "the auto-scaling group ends it", firm, None),
        (f"{aws}/scheduled-maintenance", "AWS maintenance", soft, None),
        (f"{aws}/rebalance-recommendation", "AWS recommends to leave it", soft, None),
        (
            "cloud.google.com/impending-node-termination",
            "Google Cloud takes the instance back",
            firm,
            30,
        ),
        ("remediator.kubernetes.azure.com/unschedulable", "an Azure scheduled event", firm, None),
        ("karpenter.sh/disrupted", "Karpenter drains it", firm, None),
        ("karpenter.sh/disruption", "Karpenter drains it", firm, None),
        ("ToBeDeletedByClusterAutoscaler", "the cluster autoscaler removes it", firm, None),
        ("node.cloudprovider.kubernetes.io/shutdown", "the instance is shut down", firm, None),
        (
            "node.kubernetes.io/out-of-service",
            "an administrator declared it out of service",
            firm,
            None,
        ),
    ):
        span = timedelta(seconds=lead) if lead is not None else None
        yield Row(Sign.TAINT, key, reason, kind, span)
    alibaba = "Alibaba Cloud takes the instance back"
    yield Row(Sign.CONDITION, "InstanceToBeTerminated", alibaba, firm)
    yield Row(Sign.CONDITION, "InstanceExpired", alibaba, soft)


ROWS: tuple[Row, ...] = tuple(_list_rows())
"""The signs that are known without being told of."""


def find_notice(node: Json, rows: Sequence[Row] = ROWS) -> Notice | None:
    """What weighs most of all that is said of a node, whenever that is; None where nothing is."""
    return choose_notice(list_notices(node, rows))


def list_notices(node: Json, rows: Sequence[Row] = ROWS) -> list[Notice]:
    """All that is said of a node."""
    return [*_find_marked(node, rows), *_find_own(node)]


def choose_notice(
    found: Iterable[Notice], now: datetime | None = None, *, is_eager: bool = False
) -> Notice | None:
    """The one that weighs most; what stands first in the table wins among equals."""

    def rank(one: Notice) -> tuple[bool, bool, datetime]:
        return weigh(one.kind, one.deadline, now, is_eager=is_eager)

    return min(found, key=rank, default=None)


def weigh(
    kind: NoticeKind,
    deadline: datetime | None,
    now: datetime | None = None,
    *,
    is_eager: bool = False,
) -> tuple[bool, bool, datetime]:
    """What is firm before what is not, and of two the one that ends first: without a time at once.

    What is over for long counts least, for who knows the time. Who compares moments first makes one
    of each lead: whoever knows since when its sign is there. `is_eager`: for whom both kinds are
    the same, the moment alone counts.
    """
    is_less = kind is not NoticeKind.FIRM and not is_eager
    return is_long_over(deadline, now), is_less, deadline or _EPOCH


def is_long_over(deadline: datetime | None, now: datetime | None) -> bool:
    """Whether what was to end then has not, so that nobody is moved for it any more."""
    return deadline is not None and now is not None and now >= deadline + OVER


def read_annotation(metadata: Json, key: str = LEAVING_AT) -> tuple[Notice | None, str]:
    """What this annotation says of an object's end, or a sentence where its value is no time."""
    annotations: Mapping[str, Any] = metadata.get("annotations") or {}
    value = annotations.get(key)
    if value is None:
        return None, ""
    deadline = parse_time(value)
    if deadline is None:
        told = clean(value, MAX_WORDS)
        return None, f"annotation {key} is {told!r}, which is no time as 2026-01-31T12:00:00Z"
    reason = " ".join(clean(annotations.get(LEAVING_REASON), MAX_WORDS).split()) or _UNEXPLAINED
    return Notice(reason, f"annotation {key}", NoticeKind.FIRM, deadline), ""


def find_misreading(node: Json, rows: Sequence[Row] = ROWS) -> str:
    """What is wrong with an annotation of a node that should tell its end; "" for nothing."""
    keys = (row.key for row in rows if row.sign is Sign.ANNOTATION)
    problems = (read_annotation(node.get("metadata") or {}, key)[1] for key in keys)
    return next(filter(None, problems), "")


def _find_marked(node: Json, rows: Sequence[Row]) -> Iterator[Notice]:
    spec: Json = node.get("spec") or {}
    taints = {str(taint.get("key")): taint for taint in spec.get("taints") or ()}
    conditions = _list_conditions(node)
    for row in rows:
        if row.sign is Sign.ANNOTATION:
            notice, _ = read_annotation(node.get("metadata") or {}, row.key)
            if notice is not None:
                is_told = row.key == LEAVING_AT and notice.reason != _UNEXPLAINED
                reason = notice.reason if is_told else row.reason
                yield replace(notice, kind=row.kind, reason=reason)
        elif row.sign is Sign.TAINT and row.key in taints:
            yield _build(row, _read_taint_time(taints[row.key]))
        elif row.sign is Sign.CONDITION and _is_true(conditions, row.key):
            yield _build(row, parse_time(conditions[row.key].get("lastTransitionTime")))


def _find_own(node: Json) -> Iterator[Notice]:
    """What Kubernetes itself says."""
    ready = _list_conditions(node).get("Ready", {})
    if ready.get("status") == "False" and "shutting down" in str(ready.get("message")):
        since = parse_time(ready.get("lastTransitionTime"))
        yield Notice("the node is shutting down", "condition Ready", NoticeKind.FIRM, since=since)
    if (node.get("metadata") or {}).get("deletionTimestamp"):
        yield Notice("the node is being deleted", "its deletion", NoticeKind.SOFT)
    if (node.get("spec") or {}).get("unschedulable"):
        yield Notice("the node is cordoned", "spec.unschedulable", NoticeKind.SOFT)


def _build(row: Row, since: datetime | None) -> Notice:
    source = f"{row.sign.value} {row.key}"
    deadline = since + row.lead if since is not None and row.lead is not None else None
    return Notice(row.reason, source, row.kind, deadline, since, row.lead)


def _list_conditions(node: Json) -> dict[str, Json]:
    found = (node.get("status") or {}).get("conditions") or ()
    return {str(condition.get("type")): condition for condition in found}


def _is_true(conditions: Mapping[str, Json], kind: str) -> bool:
    return bool(conditions.get(kind, {}).get("status") == "True")


def _read_taint_time(taint: Json) -> datetime | None:
    """When it was put there: the cluster autoscaler writes that as its value, in Unix seconds."""
    value = str(taint.get("value") or "")
    if _UNIX_SECONDS.fullmatch(value):
        return _EPOCH + timedelta(seconds=int(value))
    return parse_time(taint.get("timeAdded"))
