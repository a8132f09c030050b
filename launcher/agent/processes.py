"""The processes of a worker and their pipes, on behalf of the agent's state machine.

It starts, reads, signals and reaps as it is told by effects, and reports what came of that at once.
Which session is to be ended, and when its end is told, the state machine decides.
"""

from __future__ import annotations

import os
import selectors
import signal
from collections import deque
from typing import Callable, Deque, Dict, List, Mapping, Optional, Tuple

from et_contract import frames
from launcher.agent import spawning
from launcher.agent.children import Children
from launcher.agent.echoing import Echo
from launcher.protocol import effects
from launcher.protocol.agents import Agent, Effects
from launcher.protocol.outputs import READ

DRAIN = 4 * 1024 * 1024
"""The most that is still read from a pipe that is being closed."""


class Processes:
    """Reports to `agent` and hands what it answers to `carry_out`."""

    def __init__(
        self,
        *,
        agent: Agent,
        children: Children,
        selector: selectors.BaseSelector,
        carry_out: Callable[[Effects], None],
        log: Echo,
        now: Callable[[], float],
    ) -> None:
        self._agent = agent
        self._children = children
        self._selector = selector
        self._carry_out = carry_out
        self._log = log
        self._now = now
        self._stdout = Echo(1)
        self._sessions: Dict[int, bytes] = {}
        """By the numbers that our children have."""
        self._pipes: Dict[Tuple[bytes, int], int] = {}
        self._watched: Dict[Tuple[bytes, int], int] = {}
        self._command: Optional[int] = None
        self._ended: Deque[Tuple[int, int, str]] = deque()
        """Reaped and not yet reported: nobody else will ever know of them."""

    # ------------------------------------------------------------ effects

    def spawn(self, effect: effects.Spawn) -> None:
        """Start a session."""
        try:
            pid, pipes = self._children.start(effect.session, effect.command, effect.env)
        except (OSError, ValueError) as error:
            self._log.say(f"session {effect.session.hex()} cannot start: {error}")
            self._carry_out(self._agent.not_started(effect.session, str(error)))
            return
        self._log.say(f"session {effect.session.hex()} runs as pid {pid}")
        self._sessions[pid] = effect.session
        self._pipes.update(zip(((effect.session, c) for c in frames.CHANNELS), pipes))  # noqa: B905 (strict is newer than Python 3.7)
        self._carry_out(self._agent.started(effect.session, pid))

    def signal(self, effect: effects.Signal) -> None:
        """Signal a session's process group."""
        for pid, session in self._sessions.items():
            if session == effect.session:
                self._log.say(f"session {session.hex()} gets signal {effect.number}")
                self._children.signal(pid, effect.number)

    def close_output(self, effect: effects.CloseOutput) -> None:
        """Take what the pipes of a session hold, and close them."""
        for channel in frames.CHANNELS:
            budget = DRAIN
            while (effect.session, channel) in self._pipes and budget > 0:
                size = self._read(effect.session, channel)
                if not size:
                    break
                budget -= size
            self._end_pipe(effect.session, channel)

    def survey(self, effect: effects.Survey) -> None:
        """Look for processes of all sessions, at once."""
        spared = frozenset() if effect.signal == signal.SIGKILL else self._agent.open_sessions
        count = self._count(lambda: self._children.survey(effect.signal, spared))
        if effect.signal and count:
            self._log.say(f"{count} processes of sessions live and get signal {effect.signal}")
        self._carry_out(self._agent.surveyed(count, self._now()))

    def sweep(self, effect: effects.Sweep) -> None:
        """Look for processes of one session, at once."""
        session, number, spares = effect
        count = self._count(lambda: self._children.sweep(session, number, spares_group=spares))
        if number and count:
            self._log.say(f"session {session.hex()}: {count} left, signal {number}")
        self._carry_out(self._agent.swept(session, count))

    def _count(self, look: Callable[[], int]) -> int:
        """What cannot be looked for may be there: one then, and the next look is soon."""
        try:
            return look()
        except OSError as error:
            self._log.say(f"cannot look for processes: {error}")
            return 1

    def notify(self, effect: effects.SignalHandlers) -> None:
        """Signal those that want to know of a notice."""
        try:
            count = self._children.notify(effect.number)
        except OSError as error:
            self._log.say(f"cannot look for processes with a handler: {error}")
            return
        self._log.say(f"{count} processes have a handler for signal {effect.number}, and get it")

    def signal_command(self, effect: effects.SignalCommand) -> None:
        """Signal the template's own command."""
        if self._command is not None:
            spawning.signal_group(self._command, effect.number)

    # ------------------------------------------------------------ the template's own command

    def start_command(self, argv: List[str], env: Mapping[bytes, bytes]) -> None:
        """Run it; that it cannot start is only logged, for the worker can do without."""
        if not argv:
            return
        try:
            self._command = spawning.start(argv, env=env)
        except (OSError, ValueError) as error:
            self._log.say(f"the container's command cannot start: {error}; serves on")
            return
        self._agent.command_started()

    # ------------------------------------------------------------ what happens

    def reap(self) -> None:
        """Report every child that has ended, whether or not a signal has told of it."""
        self._ended.extend(self._children.reap())
        while self._ended:
            self._report(*self._ended.popleft())

    def _report(self, pid: int, code: int, reason: str) -> None:
        session = self._sessions.pop(pid, None)
        if session is not None:
            self._log.say(f"session {session.hex()} ended: {reason}, code {code}")
            self._children.forget(pid)
            self._carry_out(self._agent.ended(session, code, reason, self._now()))
        elif pid == self._command:
            self._command = None
            self._log.say(f"the container's command ended: {reason}, code {code}; serves on")
            self._carry_out(self._agent.command_ended())
        else:
            self._carry_out(self._agent.orphan_ended())

    def balance(self) -> None:
        """Read from those pipes only that may bring more now."""
        for key, fd in self._pipes.items():
            wanted = self._agent.wants(*key)
            if wanted and key not in self._watched:
                self._selector.register(fd, selectors.EVENT_READ, self._reader(key))
                self._watched[key] = fd
            elif not wanted and key in self._watched:
                self._selector.unregister(self._watched.pop(key))

    def kill_all(self) -> None:
        """PID 1 ends: where that alone does not end the rest, this does."""
        for pid in self._sessions:
            self._children.kill(pid)
        if self._command is not None:
            spawning.signal_group(self._command, signal.SIGKILL)

    # ------------------------------------------------------------ pipes

    def _reader(self, key: Tuple[bytes, int]) -> Callable[[], None]:
        def read() -> None:
            if key in self._pipes and self._read(*key) == 0:
                self._end_pipe(*key)

        return read

    def _read(self, session: bytes, channel: int) -> Optional[int]:
        """Bytes taken; 0 at the end, None when there is nothing now."""
        try:
            data = os.read(self._pipes[session, channel], READ)
        except BlockingIOError:
            return None
        if data:
            self._agent.output(session, channel, data)
            self._stdout.write(data)
        return len(data)

    def _end_pipe(self, session: bytes, channel: int) -> None:
        key = (session, channel)
        fd = self._pipes.pop(key, None)
        if fd is None:
            return
        if self._watched.pop(key, None) is not None:
            self._selector.unregister(fd)
        os.close(fd)
        self._carry_out(self._agent.output_ended(session, channel))
