"""Logs of several containers: lines with their times, in one stream, none lost and none twice.

tailing.py, watching.py, rehearsing.py and the demo read by it. A log that broke off is read on from
its place; who is shown which lines, and how, is not known here.
"""

from __future__ import annotations

import heapq
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from et.clusters import Cluster, get_meta
from et.reading import decode_line, find_launcher, read_pods
from et_kube.errors import KubeError, NotFound
from et_kube.parsing import MAX_LOG_LINE
from et_kube.resources import PODS, Ref
from et_kube.times import format_time, parse_time
from et_operator.model.jobs import TrainingJob
from et_operator.model.pods import Pod

Place = tuple[datetime | None, int]
"""A place in a log: the time of the last line taken, and how many of that time were."""
NEWEST = 1000
"""Lines in which a training's newest steps are found, and how fast they come."""
_NOTES = 64
_LONGEST_NOTE = 1024
_LONG_AGO = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line that one container printed at one moment."""

    at: datetime
    pod: str
    text: str


@dataclass(frozen=True, slots=True)
class Beginning:
    """Where a log is read from: its last lines, or those of the last while; else all of it."""

    tail: int | None = None
    since: timedelta | None = None


@dataclass(slots=True)
class PodLog:
    """The log of a pod's own container, as far as it was read; read again, it goes on there.

    The server finds a place in a log to the second only. So the place is a time, and how many
    lines of that very time were taken.
    """

    cluster: Cluster
    pod: Pod
    beginning: Beginning = field(default_factory=Beginning)
    at: datetime | None = None
    taken: int = 0
    is_gone: bool = False
    trouble: KubeError | None = None
    """Why its end is missing: its node may be lost."""
    notes: set[str] = field(default_factory=set)
    """What the kubelet itself said in place of a line, as `too many open files`: told once.

    Only so many, and short ones: what it cannot be is told each time.
    """

    @property
    def place(self) -> Place:
        """How far it was read."""
        return self.at, self.taken

    async def read(self, *, is_following: bool) -> AsyncGenerator[LogLine, None]:
        """Lines that were not read yet, until there is none; following: until the log ends."""
        ref, params = Ref(PODS, self.pod.namespace, self.pod.name), self._build_params()
        params |= {"follow": "true"} if is_following else {}
        start, skip = self.at, self.taken
        goes_on = is_taken = False
        try:
            async with aclosing(self.cluster.logs.read_log(ref, params)) as pieces:
                async for piece in pieces:
                    is_rest, goes_on = goes_on, len(piece) >= MAX_LOG_LINE
                    text = decode_line(piece)
                    line = None if is_rest else parse_line(self.pod.name, text)
                    if line is None:
                        if (text and not is_taken) if is_rest else self._is_new(text):
                            yield LogLine(self.at or _LONG_AGO, self.pod.name, text)
                        continue
                    is_taken = (
                        start is not None and line.at <= start and (line.at < start or skip > 0)
                    )
                    if is_taken:
                        skip -= line.at == start
                        continue
                    self.taken = self.taken + 1 if line.at == self.at else 1
                    self.at = line.at
                    yield line
        except NotFound as error:
            self.is_gone = await self._has_gone()  # the pod, and its log with it
            if not self.is_gone:
                raise KubeError(
                    f"the pod is there, its log is not (now): {error.message}"
                ) from error

    def _is_new(self, note: str) -> bool:
        if note in self.notes:
            return False
        if len(note) <= _LONGEST_NOTE and len(self.notes) < _NOTES:
            self.notes.add(note)
        return True

    async def _has_gone(self) -> bool:
        """Asks for the pod itself: a kubelet that has just started does not know its pods yet."""
        try:
            stored = await self.cluster.api.get(Ref(PODS, self.pod.namespace, self.pod.name))
        except NotFound:
            return True
        return get_meta(stored, "uid") != self.pod.uid

    def _build_params(self) -> dict[str, str]:
        params = {"container": self.pod.container, "timestamps": "true"}
        if self.at is not None:
            return params | {"sinceTime": format_time(self.at.replace(microsecond=0))}
        if self.beginning.tail is not None:
            params["tailLines"] = str(self.beginning.tail)
        if self.beginning.since is not None:
            params["sinceSeconds"] = str(max(1, int(self.beginning.since.total_seconds())))
        return params


@dataclass(slots=True)
class LauncherLog:
    """The log of whichever launcher counts: its newest lines, and on from there when read again."""

    cluster: Cluster
    log: PodLog | None = None

    async def read(self, job: TrainingJob, *, is_following: bool) -> AsyncGenerator[LogLine, None]:
        """See PodLog.read; none as long as the launcher has not started."""
        pod = find_launcher(await read_pods(self.cluster, job), job)
        if pod is None or not pod.has_container_started:
            return
        if self.log is None or self.log.pod.uid != pod.uid:
            self.log = PodLog(self.cluster, pod, Beginning(tail=NEWEST))
        async with aclosing(self.log.read(is_following=is_following)) as lines:
            async for line in lines:
                yield line


def parse_line(pod: str, text: str) -> LogLine | None:
    """A line as the server sends it with `timestamps`, None for one that no container printed."""
    stamp, _, rest = text.partition(" ")
    at = parse_time(stamp)
    return None if at is None else LogLine(at, pod, rest)


async def merge(logs: Sequence[PodLog]) -> AsyncGenerator[LogLine, None]:
    """What the logs have now, in the order of time; one that cannot be read says so (`trouble`)."""
    async with AsyncExitStack() as stack:
        streams = [
            await stack.enter_async_context(aclosing(_read_what_can_be(log))) for log in logs
        ]
        heads: list[tuple[datetime, int, LogLine]] = []
        for index, stream in enumerate(streams):
            async for line in stream:
                heapq.heappush(heads, (line.at, index, line))
                break
        while heads:
            _, index, line = heads[0]
            yield line
            async for following in streams[index]:
                heapq.heapreplace(heads, (following.at, index, following))
                break
            else:
                heapq.heappop(heads)


async def _read_what_can_be(log: PodLog) -> AsyncGenerator[LogLine, None]:
    log.trouble = None
    try:
        async with aclosing(log.read(is_following=False)) as lines:
            async for line in lines:
                yield line
    except KubeError as error:
        log.trouble = error
