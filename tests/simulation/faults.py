"""What can go wrong with one write of the operator, and when it strikes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from et_kube.errors import (
    AlreadyExists,
    Conflict,
    NotFound,
    OutcomeUnknown,
    Refused,
    ServerFailed,
    Throttled,
)
from et_kube.resources import PODS
from fakes.clients import Call, Moment
from fakes.cluster import FakeCluster
from tests.simulation.invariants import OPERATOR

RETRY_AFTER = timedelta(seconds=7)


class Crash(BaseException):
    """The operator's process ends here and now."""


@dataclass(frozen=True, slots=True)
class Kind:
    """One thing that can go wrong; AFTER means that the server has done what was asked."""

    moment: Moment
    build: Callable[[Call], BaseException]


def refuse_as_taken(call: Call) -> BaseException:
    """409, in the form that the server has for this verb; there is no such object, or no change."""
    if call.verb == "create":
        return AlreadyExists(409, "AlreadyExists", "it is there already")
    return Conflict(409, "Conflict", "the object has been modified")


KINDS = {
    "crash before": Kind(Moment.BEFORE, lambda _: Crash()),
    "crash after": Kind(Moment.AFTER, lambda _: Crash()),
    "403": Kind(Moment.BEFORE, lambda _: Refused(403, "Forbidden", "denied by policy")),
    "404": Kind(Moment.BEFORE, lambda _: NotFound(404, "NotFound", "not found")),
    "409": Kind(Moment.BEFORE, refuse_as_taken),
    "422": Kind(Moment.BEFORE, lambda _: Refused(422, "Invalid", "is invalid")),
    "429": Kind(Moment.BEFORE, lambda _: Throttled(429, "TooManyRequests", "later", RETRY_AFTER)),
    "500": Kind(Moment.BEFORE, lambda _: ServerFailed(500, "InternalError", "etcd: no leader")),
    "500 but done": Kind(Moment.AFTER, lambda _: ServerFailed(500, "InternalError", "etcd: late")),
    "503": Kind(Moment.BEFORE, lambda _: ServerFailed(503, "ServiceUnavailable", "starting")),
    "time-out": Kind(Moment.BEFORE, lambda _: OutcomeUnknown("no answer in time")),
    "time-out but done": Kind(Moment.AFTER, lambda _: OutcomeUnknown("no answer in time")),
}
"""Every answer that a write can get, by name."""


class Strike:
    """Let one thing go wrong with the operator's n-th write (from 1), once."""

    def __init__(self, number: int, kind: str) -> None:
        self.number = number
        self.kind = kind
        self._seen = 0
        self._target: Call | None = None
        self.has_struck = False

    @property
    def is_answered(self) -> bool:
        """Whether the server refused this write itself, so that nothing can go wrong afterwards."""
        target = self._target
        return not self.has_struck and target is not None and not target.is_applied

    def __str__(self) -> str:
        return f"{self.kind} at write {self.number}"

    def __call__(self, call: Call, moment: Moment) -> None:
        """As a Fault of the call log."""
        if not call.is_write or call.user != OPERATOR:
            return
        if moment is Moment.BEFORE:
            self._seen += 1
            if self._seen == self.number:
                self._target = call
        kind = KINDS[self.kind]
        if call is self._target and moment is kind.moment:
            self.has_struck = True
            raise kind.build(call)


class Quota:
    """So many pods of a namespace may live; what would be one more is refused, as by the server."""

    def __init__(self, cluster: FakeCluster, pods: int) -> None:
        self._cluster = cluster
        self.pods = pods

    def __call__(self, call: Call, moment: Moment) -> None:
        """As a Fault of the call log."""
        if moment is not Moment.BEFORE or (call.verb, call.ref.resource) != ("create", PODS):
            return
        used = [
            pod
            for pod in self._cluster.scan(PODS)
            if pod["metadata"]["namespace"] == call.ref.namespace
            and pod["status"].get("phase") not in {"Succeeded", "Failed"}
        ]
        if len(used) >= self.pods:
            words = f"exceeded quota: small, requested: pods=1, used: pods={len(used)}"
            raise Refused(
                403, "Forbidden", f"pods is forbidden: {words}, limited: pods={self.pods}"
            )
