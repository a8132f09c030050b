"""PID 1 of a worker container: the agent's state machine joined to processes and sockets.

One thread, one loop. Decisions are made in protocol/agents.py; here effects are carried out.
"""

from __future__ import annotations

import os
import select
import selectors
import socket
import sys
import time
import traceback
from typing import Any, Callable, Dict, List, Mapping, Optional

from et_contract import names, paths
from et_contract.frames import ProtocolError
from launcher.agent import spawning
from launcher.agent.catching import Caught
from launcher.agent.children import Children, LocalChildren
from launcher.agent.connections import Connection
from launcher.agent.echoing import Echo
from launcher.agent.noticing import NoticeFile
from launcher.agent.processes import Processes
from launcher.agent.ranks import RankFiles
from launcher.protocol import effects
from launcher.protocol.agents import Agent, Effects
from launcher.protocol.fences import Fenced
from launcher.protocol.timeouts import bound_wait

EXIT_MISCONFIGURED = 78
EXIT_IO = 74
DEFAULT_GRACE = "30"
MAX_CONNECTIONS = 32
HANG_SECONDS = 2.0
RETRY_SECONDS = 1.0
"""How long nothing is accepted after file descriptors ran out."""
DEFECT_SECONDS = 0.1


class Server:
    """Runs one agent until it leaves.

    `listener` is a listening unix socket that does not block; `ranks` are those that run here,
    None where they are elsewhere; `notice` is where scripts here read of their end, None where
    they cannot.
    """

    def __init__(
        self,
        agent: Agent,
        listener: socket.socket,
        children: Children,
        ranks: Optional[RankFiles] = None,
        notice: Optional[NoticeFile] = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._agent = agent
        self._listener = listener
        self._ranks = ranks
        if ranks is not None:
            agent.count_ranks = ranks.count
        self._notice = notice
        agent.shows_notices = notice is not None
        self._now = now
        self._log = Echo(2)
        self._selector = selectors.DefaultSelector()
        self._processes = Processes(
            agent=agent,
            children=children,
            selector=self._selector,
            carry_out=self._carry_out,
            log=self._log,
            now=now,
        )
        self._connections: Dict[int, Connection] = {}
        self._watched: Dict[int, int] = {}
        self._last_number = 0
        self._accept_at: Optional[float] = None
        self._is_left = False
        self._carriers: Dict[type, Callable[[Any], None]] = {
            effects.Send: self._send,
            effects.Hang: self._hang,
            effects.Spawn: self._processes.spawn,
            effects.Signal: self._processes.signal,
            effects.CloseOutput: self._processes.close_output,
            effects.Survey: self._processes.survey,
            effects.Sweep: self._processes.sweep,
            effects.SignalCommand: self._processes.signal_command,
            effects.TellRanks: self._tell_ranks,
            effects.ShowNotice: self._show_notice,
            effects.SignalHandlers: self._processes.notify,
            effects.Leave: self._leave,
        }

    def run(self, command: List[str], env: Mapping[bytes, bytes]) -> None:
        """Serve until PID 1 may end, with the template's own command beside us if there is one."""
        caught = Caught()
        self._selector.register(caught, selectors.EVENT_READ, lambda: self._on_signals(caught))
        self._selector.register(self._listener, selectors.EVENT_READ, self._accept)
        self._log.say(f"serves sessions as instance {self._agent.instance}")
        self._processes.start_command(command, env)
        while not self._is_left:
            for key, _events in self._selector.select(self._timeout()):
                self._guard(key.data)
            self._guard(self._processes.reap)
            self._guard(self._tick)
            self._guard(self._balance)
        for connection in self._connections.values():
            connection.hang(self._now())
        self._processes.kill_all()

    # ------------------------------------------------------------ the loop

    def _timeout(self) -> Optional[float]:
        due = [self._agent.deadline(), self._accept_at]
        due += [connection.close_at for connection in self._connections.values()]
        at = min((each for each in due if each is not None), default=None)
        return bound_wait(None if at is None else at - self._now())

    def _guard(self, act: Callable[[], None]) -> None:
        """A defect here must not end the training that runs under us."""
        try:
            act()
        except Exception:  # noqa: BLE001 (see above; it is logged, and may not become a busy loop)
            self._log.say("defect: " + traceback.format_exc())
            select.select([], [], [], DEFECT_SECONDS)

    def _tick(self) -> None:
        now = self._now()
        self._carry_out(self._agent.tick(now))
        for connection in list(self._connections.values()):
            if connection.close_at is not None and now >= connection.close_at:
                self._close(connection)
        if self._accept_at is not None and now >= self._accept_at:
            self._accept_at = None
            self._selector.register(self._listener, selectors.EVENT_READ, self._accept)

    def _balance(self) -> None:
        """Send what may be sent, read what may be read."""
        for connection in list(self._connections.values()):
            try:
                connection.flush(self._agent.next_data)
            except OSError as error:
                self._lose(connection, str(error))
                continue
            if connection.is_overfull:
                self._carry_out(self._agent.drop(connection.number, "the peer does not read"))
            self._watch(connection)
        self._processes.balance()

    def _carry_out(self, wanted: Effects) -> None:
        for effect in wanted:
            self._carriers[type(effect)](effect)

    def _on_signals(self, caught: Caught) -> None:
        for number, is_end in caught.take():
            if is_end:
                self._log.say(f"is told to end by signal {number}")
                self._carry_out(self._agent.sigterm(self._now()))

    def _leave(self, _effect: effects.Leave) -> None:
        self._is_left = True

    def _tell_ranks(self, effect: effects.TellRanks) -> None:
        try:
            if self._ranks is not None:
                self._ranks.tell(effect.before, effect.addresses)
        except OSError as error:
            self._log.say(f"cannot tell ranks who is gone: {error}")

    def _show_notice(self, effect: effects.ShowNotice) -> None:
        try:
            if self._notice is not None:
                self._notice.show(effect.text)
        except OSError as error:
            self._log.say(f"cannot tell scripts of the end of this pod: {error}")

    # ------------------------------------------------------------ bridges

    def _accept(self) -> None:
        try:
            sock, _address = self._listener.accept()
        except BlockingIOError:
            return
        except OSError as error:
            # Out of file descriptors or memory: the queue of the listener waits with us.
            self._log.say(f"accepts nothing for {RETRY_SECONDS} s: {error}")
            self._selector.unregister(self._listener)
            self._accept_at = self._now() + RETRY_SECONDS
            return
        if len(self._connections) >= MAX_CONNECTIONS:
            self._log.say("too many connections")
            sock.close()
            return
        self._last_number += 1
        connection = Connection(self._last_number, sock)
        self._connections[connection.number] = connection
        self._agent.connected(connection.number, self._now())
        self._watch(connection)

    def _reader(self, connection: Connection) -> Callable[[], None]:
        def read() -> None:
            if connection.number not in self._connections:
                return
            try:
                is_open = connection.receive()
            except OSError:
                is_open = False
            self._take_frames(connection)
            if not is_open:
                self._lose(connection, "closed by the bridge")

        return read

    def _take_frames(self, connection: Connection) -> None:
        try:
            for frame in connection.frames():
                self._carry_out(self._agent.receive(connection.number, frame, self._now()))
        except ProtocolError as error:
            is_fenced = isinstance(error, Fenced)
            dropped = self._agent.drop(connection.number, str(error), is_fenced=is_fenced)
            self._carry_out(dropped)

    def _send(self, effect: effects.Send) -> None:
        connection = self._connections.get(effect.connection)
        if connection is not None:
            connection.queue(effect.data)

    def _hang(self, effect: effects.Hang) -> None:
        self._log.say(f"drops connection {effect.connection}: {effect.reason}")
        connection = self._connections.get(effect.connection)
        if connection is not None:
            connection.hang(self._now() + HANG_SECONDS)

    def _lose(self, connection: Connection, reason: str) -> None:
        if connection.close_at is None:
            self._log.say(f"connection {connection.number} is gone: {reason}")
        self._close(connection)
        self._carry_out(self._agent.disconnected(connection.number))

    def _close(self, connection: Connection) -> None:
        if self._connections.pop(connection.number, None) is not None:
            if self._watched.pop(connection.number, None) is not None:
                self._selector.unregister(connection.sock)
            connection.sock.close()

    def _watch(self, connection: Connection) -> None:
        wanted = selectors.EVENT_READ
        if connection.has_queued and connection.close_at is None:
            wanted |= selectors.EVENT_WRITE
        watched = self._watched.get(connection.number)
        if watched is None:
            self._selector.register(connection.sock, wanted, self._reader(connection))
        elif watched != wanted:
            self._selector.modify(connection.sock, wanted, self._reader(connection))
        self._watched[connection.number] = wanted


def main(
    argv: List[str],
    environ: Mapping[bytes, bytes] = os.environb,
    socket_path: str = paths.AGENT_SOCKET,
) -> int:
    """Be PID 1 of a worker; `argv` is the template's own command, possibly empty.

    Reads names.ENV_JOB_UID, ENV_POD_UID, ENV_EPOCH, ENV_GRACE, and ENV_NOTICE, which may be
    missing. Returns the exit code: 0 after SIGTERM, 78 when another one is missing, 74 when there
    can be no socket.
    """
    try:
        agent = Agent(
            instance=os.urandom(16).hex(),
            job=environ[names.ENV_JOB_UID.encode()].decode(),
            pod=environ[names.ENV_POD_UID.encode()].decode(),
            epoch=int(environ[names.ENV_EPOCH.encode()]),
            grace=float(environ.get(names.ENV_GRACE.encode(), DEFAULT_GRACE)),
        )
    except (KeyError, ValueError) as error:
        sys.stderr.write(f"agent: the pod's environment is not as the operator makes it: {error}\n")
        return EXIT_MISCONFIGURED
    spawning.prepare()
    try:
        listener = listen(socket_path)
    except OSError as error:
        sys.stderr.write(f"agent: cannot make {socket_path}: {error.strerror}\n")
        return EXIT_IO
    states = os.path.join(os.path.dirname(socket_path), os.path.basename(paths.RANK_STATES_DIR))
    env = spawning.user_environment(environ)
    path = os.fsdecode(environ.get(names.ENV_NOTICE.encode(), b""))
    notice = NoticeFile(path) if path else None
    Server(agent, listener, LocalChildren(env), RankFiles(states), notice).run(argv, env)
    return 0


def listen(path: str, mode: int = 0o600) -> socket.socket:
    """A listening socket that appears at `path` in one step, whoever was there before."""
    listener = socket.socket(socket.AF_UNIX)
    listener.settimeout(0)
    fresh = f"{path}.{os.getpid()}"
    if os.path.exists(fresh):
        os.unlink(fresh)
    listener.bind(fresh)
    os.chmod(fresh, mode)
    listener.listen(MAX_CONNECTIONS)
    os.rename(fresh, path)
    return listener
