"""Milestones of a way, by the API server's audit log, and whose time it is until each.

Figures say which milestones a way has and what each waits for; here they are found in the audit
log, and told one by one. attributing.py makes of them what sums up to the whole.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.audits import find_writer
from benchmarks.findings import Bar, Series, Side
from benchmarks.spreads import measure_spread
from devcluster.audits import Request

API_SERVER, SCHEDULER, NODES = "API server", "kube-scheduler", "kubelets and containerd"
OPERATOR, BROKER, AGENTS = "operator", "broker and shim", "agents"
COMMAND = "the user's command"
PARTIES = (API_SERVER, SCHEDULER, NODES, OPERATOR, BROKER, AGENTS, COMMAND)
"""Whose time it can be."""
_WRITERS = {"operator": OPERATOR, "broker": BROKER, "kube-scheduler": SCHEDULER}
_UNAWAITED = frozenset({"pods/exec", "events"})
"""Of these nobody waits for the answer's end: a stream lasts, an Event is told beside the work."""


@dataclass(frozen=True, slots=True)
class Step:
    """One milestone: when it was reached, in seconds since the way began, and whose time that was.

    It could not be reached before all of `after`, by their names, were.
    """

    at: float
    whose: str
    after: tuple[str, ...] = ()


Steps = Mapping[str, Step]
"""The milestones of one start, by name."""
Span = tuple[float, float]
Waits = Mapping[str, Sequence[Span]]
"""When each party had asked the API server and was not answered yet, in the same seconds."""


def chain(times: Mapping[str, float], parties: Iterable[tuple[str, str]]) -> Steps:
    """Milestones each of which waits for the one before it; whose time it is until each."""
    steps: dict[str, Step] = {}
    before: tuple[str, ...] = ()
    for name, whose in parties:
        steps[name] = Step(times[name], whose, before)
        before = (name,)
    return steps


def list_parts(title: str, names: Iterable[str], starts: Sequence[Steps]) -> Iterator[Series]:
    """A series for each milestone; `title` is that of bare pods, "" for a way of ours."""
    side = Side.BARE if title else Side.OURS
    for name in names:
        times = tuple(steps[name].at for steps in starts)
        yield Series(f"... until: {title}{name}", "s", times, side)


def list_bars(title: str, names: Iterable[str], starts: Sequence[Steps]) -> Iterator[Bar]:
    """The pieces between the medians of these milestones, none shorter than nothing."""
    begin = 0.0
    for name in names:
        median = measure_spread([steps[name].at for steps in starts]).median
        yield Bar(f"{title}{name}", starts[0][name].whose, begin, max(begin, median))
        begin = median


@dataclass(frozen=True, slots=True)
class Marks:
    """When the API server was asked for what, or had done it, by its audit log: UTC seconds."""

    audit: Sequence[Request]

    def find_stored(self, name: str, target: str) -> float:
        """When the server had stored this object, which somebody asked it to create."""
        return min(r.done for r in self.audit if r.name == name and _is(r, "create", target))

    def find_asked(self, pod: str) -> float:
        """When the pod's creation was asked for."""
        return min(r.received for r in self.audit if r.name == pod and _is(r, "create", "pods"))

    def find_bound(self, pod: str) -> float:
        """When the pod had its node."""
        return max(r.done for r in self.audit if r.name == pod and _is(r, "create", "pods/binding"))

    def find_told_running(self, pods: Collection[str], before: float) -> float:
        """When the last of these pods was told to run: each by its last status before that time."""
        told = [r for r in self.audit if r.target == "pods/status" and r.done < before]
        return max(max(r.done for r in told if r.name == name) for name in pods)

    def find_config_asked(self, account: str) -> float:
        """When whoever has this account asked for anything first."""
        return min(r.received for r in self.audit if r.account.endswith(account))

    def find_last_stream(self, pods: Collection[str], before: float) -> Request:
        """The last exec in one of these pods that was asked for before that time."""
        asked = [
            r
            for r in self.audit
            if r.name in pods and r.target == "pods/exec" and r.received < before
        ]
        return max(asked, key=lambda request: request.received)

    def find_named(self, config: str, before: float) -> Request:
        """The last change of a config that was asked for before that time: it names workers."""
        changes = [
            r for r in self.audit if r.name == config and r.verb == "patch" and r.received < before
        ]
        return max(changes, key=lambda request: request.received)

    def list_waits(self, since: float) -> Waits:
        """The spans of all requests that their party waited for, counted from that moment.

        The creation of a pod is waited for by the scheduler, too.
        """
        waits: dict[str, list[Span]] = {}
        for request in self.audit:
            if request.verb == "watch" or request.target in _UNAWAITED:
                continue
            also = {SCHEDULER} if _is(request, "create", "pods") else set()
            for party in {_WRITERS.get(find_writer(request), ""), *also} - {""}:
                span = (request.received - since, request.done - since)
                waits.setdefault(party, []).append(span)
        return waits


def _is(request: Request, verb: str, target: str) -> bool:
    return request.verb == verb and request.target == target
