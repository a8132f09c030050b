"""The broker, put together and run until it is told to stop.

The core (brokering.py) meets its edges here alone: API server, sockets, files, log. Nothing is
decided here but when things are looked at: after news, and when something is due.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from et_contract import paths
from et_contract.documents import HostConfig
from et_contract.names import build_config_name, build_report_name
from et_kube.api import Api
from et_kube.resources import CONFIG_MAPS, Ref
from launcher.broker.brokering import Broker
from launcher.broker.calling import Caller
from launcher.broker.following import Follower
from launcher.broker.holds import Holds
from launcher.broker.hosts import Verdict
from launcher.broker.logging import log
from launcher.broker.memories import Files, Identity, recall
from launcher.broker.reporting import Reporter
from launcher.broker.serving import serve
from launcher.broker.streams import Opener, Streams
from launcher.broker.telling import Teller, measure_waiting
from launcher.broker.wiring import Wires

FLUSH_SECONDS = 5.0
"""The kubelet ends a sidecar soon after the user's container."""
END_SECONDS = 8.0
"""For what the user's command has left in the workers; it is killed after 5."""
ABSENT_SECONDS = 1.0
"""Who looks at the clock so often, and is so much later than it meant to be, was stopped meanwhile:
by a limit of its processor's time, or with the whole machine."""
_LEAST_SECONDS = 0.005
UNREADABLE = "ConfigUnreadable"


@dataclass(frozen=True, slots=True)
class Paths:
    """Where the broker meets the other containers of its pod, and where it remembers."""

    socket: Path = Path(paths.BROKER_SOCKET)
    hosts: Path = Path(paths.HOSTS_FILE)
    state: Path = Path(paths.BROKER_STATE_DIR)
    agents: Path = Path(paths.SSH_DIR)

    @property
    def memory(self) -> Path:
        """The one file in `state`."""
        return self.state / "memory.json"


class Assembly:
    """One broker with all its edges.

    Args:
        identity: of the job and the launcher.
        paths: sockets and files.
        api: the API server, for the two ConfigMaps.
        opener: runs the bridge in a worker's pod; None where agents run in ours.
    """

    def __init__(
        self, identity: Identity, paths: Paths, *, api: Api, opener: Opener | None
    ) -> None:
        paths.state.mkdir(parents=True, exist_ok=True)
        memory = recall(paths.memory, identity)
        self._paths = paths
        self._wires = Wires()
        holds = Holds(paths.socket)
        holds.prepare()
        self._files = Files(hosts=paths.hosts, memory=paths.memory)
        self._broker = Broker(
            identity,
            memory,
            wire=self._wires,
            shelf=self._files,
            now=asyncio.get_running_loop().time(),
            is_held=holds.is_held,
        )
        callers = [Caller(self._broker, paths.agents)] if opener is None else []
        opener = opener or callers[0].open
        self._streams = Streams(self._broker, self._wires, opener, touch=self._touch)
        self._reporter = Reporter(
            api,
            Ref(CONFIG_MAPS, identity.namespace, build_report_name(identity.job)),
            self._broker.ledger,
            may_write=lambda: not self._broker.hosts.is_fenced,
        )
        self._follower = Follower(
            api,
            Ref(CONFIG_MAPS, identity.namespace, build_config_name(identity.job)),
            take=self._take_config,
            complain=self._complain,
        )
        self._idle = asyncio.Event()
        self._teller = Teller(self._broker.tails, measure_waiting)
        looks = (self._streams.look, self._reporter.look, self._teller.look)
        followers = (*looks, *(caller.look for caller in callers), self._look)
        self._pacer = Pacer(self._broker, followers)
        log.info("broker starts", epoch=identity.epoch, start=memory.report.broker_start)

    async def run(self, stop: asyncio.Event) -> None:
        """Until `stop` is set; then for some seconds what is left is ended and reported."""
        parts: list[Coroutine[Any, Any, None]] = [
            # First: it keeps the number of this start.
            self._pacer.run(),
            self._files.run(),
            self._follower.run(),
            self._speak(),
            self._reporter.run(),
            self._teller.run(),
        ]
        async with (
            serve(self._paths.socket, self._broker, self._wires, self._touch),
            asyncio.TaskGroup() as group,
        ):
            tasks = [group.create_task(part) for part in parts]
            await stop.wait()
            await self._end_sessions()
            if not await self._reporter.flush(FLUSH_SECONDS):
                log.error("report not written before the end")
            await self._teller.finish()
            for task in tasks:
                task.cancel()

    async def _speak(self) -> None:
        """No agent hears the number of this start before it is kept: the next would be the same."""
        await self._files.kept.wait()
        await self._streams.run()

    async def _end_sessions(self) -> None:
        if not self._broker.end_sessions(asyncio.get_running_loop().time()):
            return
        self._idle.clear()
        self._touch()
        try:
            async with asyncio.timeout(END_SECONDS):
                await self._idle.wait()
        except TimeoutError:
            log.warning("processes may be left in workers")

    def _look(self) -> None:
        if not self._broker.has_sessions:
            self._idle.set()

    def _take_config(self, config: HostConfig) -> None:
        verdict = self._broker.take_config(config, asyncio.get_running_loop().time())
        if verdict is Verdict.FENCED:
            log.warning("another launcher owns the job", epoch=config.epoch)
        self._broker.ledger.withdraw(UNREADABLE)
        self._touch()

    def _complain(self, message: str) -> None:
        self._broker.ledger.complain(UNREADABLE, message)
        self._touch()

    def _touch(self) -> None:
        self._pacer.touch()


class Concluding(Protocol):
    """What is paced."""

    def conclude(self, now: float) -> None:
        """Do all that follows."""

    def note_absence(self, now: float) -> None:
        """We were stopped until now: what came meanwhile has yet to be heard."""

    def due(self) -> float:
        """When to conclude at the latest, on the loop's clock."""


class Pacer:
    """Calls `conclude`, then the followers: soon after something happened, and when one is due.

    Many frames that came together lead to one pass, so that a burst of ends is reported once. A
    core that was stopped is told so before it draws conclusions from the time that went by.
    """

    def __init__(self, core: Concluding, followers: Sequence[Callable[[], None]]) -> None:
        self._core = core
        self._followers = followers
        self._touched = asyncio.Event()

    def touch(self) -> None:
        """Something happened."""
        self._touched.set()

    async def run(self) -> None:
        """For ever."""
        loop = asyncio.get_running_loop()
        while True:
            self._touched.clear()
            now = loop.time()
            self._core.conclude(now)
            for follow in self._followers:
                follow()
            self._look_up(now)
            await self._rest(self._core.due())

    async def _rest(self, due: float) -> None:
        """Until something has happened, or is due."""
        loop = asyncio.get_running_loop()
        due = max(due, loop.time() + _LEAST_SECONDS)
        while not self._touched.is_set() and loop.time() < due:
            look_at = min(due, loop.time() + ABSENT_SECONDS)
            with suppress(TimeoutError):
                async with asyncio.timeout_at(look_at):
                    await self._touched.wait()
            self._look_up(look_at)

    def _look_up(self, meant_at: float) -> None:
        now = asyncio.get_running_loop().time()
        if now > meant_at + ABSENT_SECONDS:
            self._core.note_absence(now)
