"""A way in pieces: milestones by the API server's audit log, and whose each piece is.

Figures say which milestones a way has; here they are found in the audit log, and told in pieces. A
piece is never shorter than nothing, though medians may cross.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from benchmarks.findings import Bar, Series, Side
from benchmarks.spreads import measure_spread
from devcluster.audits import Request

PLATFORM, OPERATOR, BROKER = "the platform", "the operator", "broker, shim and agents"
Times = tuple[float, ...]
"""Of one start, when each of its milestones was reached, in seconds since it was asked for."""
Way = Sequence[tuple[str, str]]
"""What each piece ends with, and who was at it until then."""


def list_parts(title: str, way: Way, starts: Sequence[Times]) -> Iterator[Series]:
    """A series for each milestone; `title` is that of bare pods, "" for a way of ours."""
    side = Side.BARE if title else Side.OURS
    for (end, _), times in zip(way, zip(*starts, strict=True), strict=True):
        yield Series(f"... until: {title}{end}", "s", times, side)


def list_bars(title: str, way: Way, starts: Sequence[Times]) -> Iterator[Bar]:
    """The pieces of a way between the medians of its milestones."""
    begin = 0.0
    for (end, whose), times in zip(way, zip(*starts, strict=True), strict=True):
        median = measure_spread(times).median
        yield Bar(f"{title}{end}", whose, begin, max(begin, median))
        begin = median


@dataclass(frozen=True, slots=True)
class Marks:
    """When the API server was asked for what, or had done it, by its audit log: UTC seconds."""

    audit: Sequence[Request]

    def find_asked(self, pod: str) -> float:
        """When the pod's creation was asked for."""
        return min(r.received for r in self.audit if r.name == pod and _is(r, "create", "pods"))

    def find_bound(self, pod: str) -> float:
        """When the pod had its node."""
        return max(r.done for r in self.audit if r.name == pod and _is(r, "create", "pods/binding"))

    def find_config_asked(self, account: str) -> float:
        """When whoever has this account asked for anything first."""
        return min(r.received for r in self.audit if r.account.endswith(account))

    def find_last_stream(self, account: str, before: float) -> float:
        """When it asked for the last exec before that time."""
        return max(
            r.received
            for r in self.audit
            if r.account.endswith(account) and r.target == "pods/exec" and r.received < before
        )

    def find_named(self, config: str, before: float) -> float:
        """When the last names of workers before that time were in its config."""
        return max(
            r.done for r in self.audit if r.name == config and r.verb == "patch" and r.done < before
        )


def _is(request: Request, verb: str, target: str) -> bool:
    return request.verb == verb and request.target == target
