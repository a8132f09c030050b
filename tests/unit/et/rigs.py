"""A cluster in memory, logs that a test writes, and screens that are read as text."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from rich.console import Console

from et.clusters import Cluster, Place
from et.running import Tools
from et.screens import Screen, TerminalConsole
from et_contract.names import BROKER_CONTAINER
from et_kube.api import Listing
from et_kube.errors import NotFound
from et_kube.resources import Json, Ref, Resource
from et_kube.times import format_time, parse_time
from fakes.clients import CallLog, FakeApi
from fakes.clock import START, FakeClock
from fakes.cluster import FakeCluster
from tests.simulation.worlds import NAMESPACE, SimulatedWorld

BROKER = "/" + BROKER_CONTAINER
TICK = timedelta(microseconds=1)


@dataclass
class FakeLogs:
    """Logs as a kubelet has them: found by the second, and ended when a test says so.

    The log of a broker is called as its pod, with BROKER behind it.
    """

    lines: dict[str, list[tuple[datetime, str]]] = field(default_factory=dict)
    ended: set[str] = field(default_factory=set)
    gone: set[str] = field(default_factory=set)
    breaks: int = 0
    requests: list[tuple[str, Mapping[str, str]]] = field(default_factory=list)
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    def write(self, pod: str, *texts: str, at: datetime = START) -> None:
        """Print lines, each a little later than the one before."""
        log = self.lines.setdefault(pod, [])
        log += [(at + TICK * (len(log) + index), text) for index, text in enumerate(texts)]
        self._changed.set()

    def end(self, pod: str) -> None:
        """The container ends."""
        self.ended.add(pod)
        self._changed.set()

    async def read_log(self, ref: Ref, params: Mapping[str, str]) -> AsyncGenerator[bytes, None]:
        """As Rest.read_log."""
        self.requests.append((ref.name, params))
        if ref.name in self.gone:
            raise NotFound(404, "NotFound", f'pod "{ref.name}" does not exist')
        name = ref.name + (BROKER if params.get("container") == BROKER_CONTAINER else "")
        if name not in self.lines:
            return
        since = parse_time(params.get("sinceTime"))
        found = [i for i, (at, _) in enumerate(self.lines[name]) if not since or at >= since]
        if "tailLines" in params:
            found = found[len(found) - int(params["tailLines"]) :]
        place = found[0] if found else len(self.lines[name])
        while True:
            for at, text in self.lines[name][place:]:
                place += 1
                stamp = f"{format_time(at)} " if "timestamps" in params else ""
                yield f"{stamp}{text}".encode()
            if "follow" not in params or name in self.ended:
                return
            self._changed.clear()
            await self._changed.wait()


@dataclass
class FakeContainers:
    """Commands that are run in pods, and what each prints."""

    answer: Callable[[Ref], str] = lambda _: ""
    asked: list[tuple[str, str, tuple[str, ...]]] = field(default_factory=list)

    async def run(self, ref: Ref, container: str, command: Sequence[str]) -> str:
        """As Containers.run."""
        self.asked.append((ref.name, container, tuple(command)))
        return self.answer(ref)


@dataclass
class StoredApi:
    """Lists what it is given, whatever it is."""

    items: Sequence[Json]
    lists: list[Resource] = field(default_factory=list)
    kept: list[Any] = field(default_factory=list)

    async def list(
        self,
        resource: Resource,
        namespace: str | None,
        *,
        keep: Callable[[Json], Any] = lambda item: item,
        **_: str,
    ) -> Listing:
        """As Api.list."""
        self.lists.append(resource)
        kept = tuple(keep(item) for item in self.items if item["kind"] == resource.kind)
        self.kept += filter(None, kept)
        return Listing(kept, "1")


def join_stored(api: Any) -> Cluster:
    """A cluster that answers lists alone."""
    return Cluster(api, FakeLogs(), FakeClock(), NAMESPACE, FakeContainers())


class ClosedPipe(io.StringIO):
    """Whose reader has seen enough."""

    def write(self, text: str) -> int:
        raise BrokenPipeError(text)


def make_screen(*, width: int = 80, is_terminal: bool = False) -> Screen:
    """A screen that remembers; read it with `read`."""

    def build() -> TerminalConsole:
        return TerminalConsole(
            file=io.StringIO(),
            width=width,
            force_terminal=is_terminal,
            color_system="standard" if is_terminal else None,
            highlight=False,
            markup=False,
            legacy_windows=False,
        )

    return Screen(build(), build())


def read(console: Console) -> str:
    """What was printed, without the blanks at the ends of lines."""
    assert isinstance(console.file, io.StringIO)
    return "\n".join(line.rstrip() for line in console.file.getvalue().splitlines())


def make_cluster(
    fake: FakeCluster,
    clock: FakeClock,
    logs: FakeLogs | None = None,
    log: CallLog | None = None,
) -> Cluster:
    """The seam of the commands in front of a fake cluster; faults of `log` strike its calls."""
    api = FakeApi(fake, log or CallLog(), "et")
    return Cluster(api, logs or FakeLogs(), clock, NAMESPACE, FakeContainers())


def join(
    world: SimulatedWorld, logs: FakeLogs | None = None, containers: FakeContainers | None = None
) -> Cluster:
    """The same, in a simulated world with an operator in it."""
    api, pods = FakeApi(world.cluster, world.log, "et"), containers or FakeContainers()
    return Cluster(api, logs or FakeLogs(), world.clock, NAMESPACE, pods)


def make_rig(
    cluster: Cluster, screen: Screen, *, check: Callable[[Place], None] | None = None
) -> Tools:
    """What CliRunner hands to the commands."""

    @asynccontextmanager
    async def open_it(place: Place) -> AsyncIterator[Cluster]:
        if check is not None:
            check(place)
        yield cluster

    return Tools(open_it, screen)
