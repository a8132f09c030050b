"""One exec stream for each member's pod, for as long as it is wanted.

A stream that ends means nothing for the pod: not after 404, not after 5xx, not when the server says
that the command has ended. It is opened again, until the config calls the pod gone.
"""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Container, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Protocol

from et_contract import frames
from et_contract.documents import Member
from et_contract.frames import Frame, ProtocolError
from et_kube.errors import ApiError, KubeError
from launcher.broker.bodies import read_rejection, read_welcome
from launcher.broker.brokering import Broker
from launcher.broker.logging import log
from launcher.broker.retrying import LONGEST_AFTER, delay
from launcher.broker.wiring import MESSAGE, Outbox, Wires

HANDSHAKES = 32
"""At once: a job that starts does not flood the API server."""
HOLD_SECONDS = 2.0
"""A handshake that takes longer makes room for others: nodes that do not answer are many at once,
and the API server waits for them without any work."""
STEADY_SECONDS = 30.0
"""A stream that lived as long counts as one that works, and makes up for one that did not."""
FRAMES_A_TURN = 64
"""Of one agent; then all others have theirs. One message holds 30,000 that say nothing."""
BYTES_A_TURN = 64 * 1024
"""Of these frames: what is in them is read, too."""
FORBIDDEN_SECONDS = 60.0
"""Rights need some time to reach every API server, and an sshd some time to start."""
TOLD_SECONDS = 300.0
"""So long the words stand that were told, where each attempt brings others."""
FORBIDDEN = "ExecForbidden"
REFUSED = "AgentRefuses"
"""The agent says why; where it reaches its worker by ssh, most often in the words of ssh. Or we do,
where what it says cannot be understood."""

_HTTP_FORBIDDEN = (401, 403)
"""The first where a token has expired and nobody renews it."""


class AgentRefuses(ProtocolError):  # noqa: N818 (names say what is so)
    """REJECT came; `is_fenced`: this launcher is never obeyed there.

    Another one has replaced it, or what former ones have started there does not end.
    """

    def __init__(self, reason: str, *, is_fenced: bool) -> None:
        super().__init__(reason)
        self.is_fenced = is_fenced


class Stream(Protocol):
    """One stream to an agent: bytes, both ways at the same time. Ends with KubeError."""

    async def send(self, data: bytes) -> None:
        """Waits while the other side takes nothing."""

    async def receive(self) -> bytes:
        """The next bytes, at least one."""
        ...


Opener = Callable[[Member], AbstractAsyncContextManager[Stream]]
"""Raises KubeError when there is no stream."""


@dataclass(slots=True)
class Patience:
    """How long to wait before the next attempt: not at all after a cut, then ever longer."""

    failures: int = 0
    """Not made up for yet."""

    def count(self, lived: float) -> None:
        """A stream ended that lived this long; 0 when there was none.

        A worker's code can end it whenever it likes, and each attempt is the API server's work.
        """
        if lived < STEADY_SECONDS:
            self.failures = min(self.failures + 1, LONGEST_AFTER)
        else:
            self.failures = max(0, self.failures - int(lived / STEADY_SECONDS))

    def delay(self, lived: float, chance: float) -> float:
        """Seconds; `chance` in [0, 1) is the dice."""
        if self.failures == 0 or (self.failures == 1 and lived > 0):
            return 0.0
        return delay(self.failures, chance)


class Streams:
    """Opens, keeps and closes the streams of all pods that the broker wants.

    Args:
        broker: told what comes, asked what is wanted.
        wires: where frames for agents are queued.
        opener: runs the bridge in a pod.
        touch: called when the broker has something to conclude.
        chance: the dice for waiting.
    """

    def __init__(
        self,
        broker: Broker,
        wires: Wires,
        opener: Opener,
        *,
        touch: Callable[[], None],
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._broker = broker
        self._wires = wires
        self._opener = opener
        self._touch = touch
        self._chance = chance
        self._changed = asyncio.Event()
        self._handshakes = asyncio.Semaphore(HANDSHAKES)
        self._connections: defaultdict[str, int] = defaultdict(int)
        self._troubles: dict[str, dict[str, float]] = {FORBIDDEN: {}, REFUSED: {}}
        """By the key of a report's problem: the pods that have that trouble, and since when."""
        self._told: dict[str, tuple[str, float]] = {}
        """By the same key: the pod whose trouble stands in the report, and since when it does."""

    def look(self) -> None:
        """What is wanted may have changed."""
        self._changed.set()

    async def run(self) -> None:
        """Keep a stream to each pod to which one is wanted, for ever."""
        tasks: dict[str, asyncio.Task[None]] = {}
        async with asyncio.TaskGroup() as group:
            while True:
                await self._changed.wait()
                self._changed.clear()
                wanted = self._broker.wanted()
                tasks = {uid: task for uid, task in tasks.items() if not task.done()}
                for uid in [uid for uid in tasks if uid not in wanted]:
                    tasks.pop(uid).cancel()
                self._forget_troubles(wanted)
                for uid in [u for u in self._connections if u not in self._broker.hosts.members]:
                    del self._connections[uid]
                for uid, member in wanted.items():
                    if uid not in tasks:
                        tasks[uid] = group.create_task(self._follow(member), name=member.name)

    async def _follow(self, member: Member) -> None:
        """One pod, from the first attempt until it is not wanted any more."""
        patience = Patience()
        while True:
            lived = await self._live(member)
            if member.uid not in self._broker.wanted():
                # Closed: a stream that ends now is not missed.
                return
            patience.count(lived)
            await asyncio.sleep(patience.delay(lived, self._chance()))

    async def _live(self, member: Member) -> float:
        """One stream, from the handshake to its end; how long it lived after WELCOME, seconds."""
        loop = asyncio.get_running_loop()
        talk = Talk(member, self._broker, self._wires, self._touch)
        reason = ""
        try:
            async with AsyncExitStack() as stack:
                async with _holding(self._handshakes, HOLD_SECONDS):
                    stream = await stack.enter_async_context(self._opener(member))
                self._forget_trouble(FORBIDDEN, member.uid)
                self._connections[member.uid] += 1
                hello = self._broker.build_hello(member.uid, self._connections[member.uid])
                await talk.run(stream, hello)
        except* (KubeError, ProtocolError, TimeoutError) as group:
            reason = "; ".join(str(error) or type(error).__name__ for error in _flatten(group))
            self._judge(member, group)
        finally:
            talk.end()
        lived = 0.0 if talk.welcomed_at is None else loop.time() - talk.welcomed_at
        log.info("stream ended", worker=member.name, lived=round(lived, 3), reason=reason)
        return lived

    def _forget_troubles(self, wanted: Container[str]) -> None:
        for uid in [uid for uid in self._troubles[FORBIDDEN] if uid not in wanted]:
            self._forget_trouble(FORBIDDEN, uid)
        connected = self._broker.connected
        for uid in [u for u in self._troubles[REFUSED] if u not in wanted or u in connected]:
            self._forget_trouble(REFUSED, uid)
        if connected:
            self._withdraw(REFUSED)

    def _forget_trouble(self, kind: str, uid: str) -> None:
        """The trouble is over, or does not matter any more."""
        self._troubles[kind].pop(uid, None)
        if self._told.get(kind, ("",))[0] == uid:
            del self._told[kind]
        self._withdraw(kind)

    def _withdraw(self, kind: str) -> None:
        """Of whom people were told, he has it no more: whoever still has it says so himself.

        Also what a broker before us has complained of.
        """
        ledger = self._broker.ledger
        if kind not in self._told and kind in ledger.report.problems:
            ledger.withdraw(kind)
            self._touch()

    def _judge(self, member: Member, group: BaseExceptionGroup[Exception]) -> None:
        """What keeps a worker from us for a minute, or for good, is told in its own words."""
        now = asyncio.get_running_loop().time()
        for error in _flatten(group):
            if isinstance(error, ApiError) and error.status in _HTTP_FORBIDDEN:
                kind, words = FORBIDDEN, error.message
            elif isinstance(error, AgentRefuses):
                kind, words = REFUSED, str(error)
                if error.is_fenced:
                    self._broker.hosts.refuse(member.uid)
                    self._touch()
            elif isinstance(error, ProtocolError):
                kind, words = REFUSED, f"its agent breaks a rule: {error}"
            else:
                continue
            since = self._troubles[kind].setdefault(member.uid, now)
            is_for_good = isinstance(error, AgentRefuses) and error.is_fenced
            if is_for_good or now - since >= FORBIDDEN_SECONDS:
                self._tell(kind, member, words, now)

    def _tell(self, kind: str, member: Member, words: str, now: float) -> None:
        """Of one worker for as long as it has that trouble: all may have it, each in its own words.

        What is told otherwise is written anew, by the operator too.
        """
        uid, at = self._told.get(kind, ("", now))
        if uid in self._troubles[kind] and (uid != member.uid or now < at + TOLD_SECONDS):
            return
        self._told[kind] = member.uid, now
        self._broker.ledger.complain(kind, f"{member.name}: {words}")
        self._touch()


class Talk:
    """What is said on one stream: HELLO, WELCOME, then frames both ways until it ends."""

    def __init__(
        self, member: Member, broker: Broker, wires: Wires, touch: Callable[[], None]
    ) -> None:
        self.welcomed_at: float | None = None
        self._member = member
        self._broker = broker
        self._wires = wires
        self._touch = touch
        self._outbox = Outbox()
        self._decoder = frames.Decoder()

    async def run(self, stream: Stream, hello: bytes) -> None:
        """Until the stream ends: raises what ended it, in a group."""
        self._outbox.put(hello)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._receive(stream))
            group.create_task(self._send(stream))
            group.create_task(self._ping())

    def end(self) -> None:
        """The stream has ended."""
        self._wires.note_unwelcome(self._outbox, 0)
        if self.welcomed_at is not None:
            self._wires.close_stream(self._member.uid)
            self._broker.lose_stream(self._member.uid)
            self._touch()

    async def _send(self, stream: Stream) -> None:
        while True:
            taken = await self._outbox.take()
            for start in range(0, len(taken), MESSAGE):
                await stream.send(taken[start : start + MESSAGE])

    async def _ping(self) -> None:
        while True:
            await asyncio.sleep(frames.PING_SECONDS)
            now = asyncio.get_running_loop().time()
            self._outbox.put_first(self._broker.build_ping(now))

    async def _receive(self, stream: Stream) -> None:
        while True:
            try:
                async with asyncio.timeout(frames.DEAD_SECONDS):
                    self._decoder.feed(await stream.receive())
            except TimeoutError:
                raise TimeoutError("the agent has said nothing for too long") from None
            count = size = 0
            for frame in self._decoder:
                self._take(frame)
                count, size = count + 1, size + len(frame.payload)
                if count >= FRAMES_A_TURN or size >= BYTES_A_TURN:
                    count = size = 0
                    await asyncio.sleep(0)
            unfinished = self._decoder.unfinished if self.welcomed_at is None else 0
            self._wires.note_unwelcome(self._outbox, unfinished)
            # What has come already is read without waiting: let the others have their turn.
            await asyncio.sleep(0)

    def _take(self, frame: Frame) -> None:
        now = asyncio.get_running_loop().time()
        if frame.type == frames.REJECT:
            reason, is_fenced = read_rejection(frame)
            raise AgentRefuses(reason, is_fenced=is_fenced)
        if self.welcomed_at is not None:
            self._broker.take_agent_frame(self._member.uid, frame, now)
        elif frame.type == frames.WELCOME:
            welcome = read_welcome(frame)
            self.welcomed_at = now
            self._decoder.longest = frames.MAX_DATA
            self._wires.open_stream(self._member.uid, self._outbox)
            self._broker.take_welcome(self._member.uid, welcome, now)
            self._outbox.put(self._broker.build_ping(now))
        elif frame.type != frames.PONG:
            raise ProtocolError(f"{frames.NAMES[frame.type]} before WELCOME")
        if frame.type not in (frames.DATA, frames.PONG):
            self._touch()


@asynccontextmanager
async def _holding(semaphore: asyncio.Semaphore, seconds: float) -> AsyncIterator[None]:
    """One of the semaphore's places, from when there is one, for so long at most."""
    is_held: bool = await semaphore.acquire()

    def leave() -> None:
        nonlocal is_held
        if is_held:
            is_held = False
            semaphore.release()

    timer = asyncio.get_running_loop().call_later(seconds, leave)
    try:
        yield
    finally:
        timer.cancel()
        leave()


def _flatten(group: BaseExceptionGroup[Exception]) -> Iterator[Exception]:
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _flatten(error)
        else:
            yield error
