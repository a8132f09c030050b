"""The processes of a worker that is reached by ssh: here each is an ssh of ours.

A session has ended when its ssh says so. One whose connection was cut is ended in its worker first,
with as many attempts as that takes: no end is reported before the worker has said so, which it does
a minute after KILL of what hangs, too. A signal has an ssh of
its own, which may find no way while that of the session has one: then it is sent again, and the
next one waits for that.
"""

from __future__ import annotations

import os
import signal
import subprocess
from typing import Dict, FrozenSet, Iterator, List, Mapping, Set, Tuple

from launcher.agent import spawning
from launcher.protocol.endings import KILL_SECONDS
from launcher.ssh import commands

RETRY_SECONDS = 2
"""Between two attempts to end a session that was cut off, or to deliver a signal."""


class RemoteChildren:
    """Sessions by a number that counts up: a pid of this container may come again too soon."""

    def __init__(self, target: commands.Target, environ: Mapping[bytes, bytes]) -> None:
        self._target = target
        self._environ = dict(environ)
        self._last = 0
        self._sessions: Dict[int, bytes] = {}
        """By key, the ids of all sessions that are not known to have ended."""
        self._running: Dict[int, Tuple[int, int]] = {}
        """By the pid of a session's ssh: the session's key, and our end of its stdin."""
        self._ending: Dict[int, int] = {}
        """By the pid of an ssh that ends a session: that session's key."""
        self._unended: Set[int] = set()
        """Keys of sessions that are to be ended, for which no ssh could be started yet."""
        self._signals: Dict[int, List[int]] = {}
        """By key, the signals that are not delivered, in order."""
        self._carrying: Dict[int, int] = {}
        """By the pid of an ssh that delivers the first of these: the session's key."""
        self._late: Set[int] = set()
        """Keys of sessions whose last signal did not get there at once."""

    def start(self, session: bytes, command: str, env: Mapping[str, str]) -> Tuple[int, List[int]]:
        """A process's key, and the read ends of stdout and stderr; raises OSError or ValueError."""
        words = commands.build_command(
            self._target, commands.build_run(self._target, session, command, env)
        )
        pipes: List[int] = []
        try:
            for _ in ("stdin", "stdout", "stderr"):
                pipes += os.pipe()
            pid = self._start(words, stdin=pipes[0], stdout=pipes[3], stderr=pipes[5])
        except (OSError, ValueError):
            spawning.close_all(pipes)
            raise
        spawning.close_all([pipes[0], pipes[3], pipes[5]])
        for fd in (pipes[2], pipes[4]):
            os.set_blocking(fd, False)
        self._last += 1
        self._sessions[self._last] = session
        self._running[pid] = (self._last, pipes[1])
        return self._last, [pipes[2], pipes[4]]

    def signal(self, key: int, number: int) -> None:
        """Have its process group signalled in the worker; what was cut off is being killed."""
        signals = self._signals.setdefault(key, [])
        under_way = 1 if key in self._carrying.values() else 0
        if number not in signals[under_way:]:  # one that waits stands for both, as in a kernel
            signals.append(number)
        self._send_signals()

    def kill(self, key: int) -> None:
        """End our side of it; the other side ends with the connection."""
        for pid, (running, _) in self._running.items():
            if running == key:
                spawning.signal_group(pid, signal.SIGKILL)

    def reap(self) -> Iterator[Tuple[int, int, str]]:
        """(key, exit code, reason) of every session that is known to have ended since."""
        for key in list(self._unended):
            self._end(key)
        self._send_signals()
        for pid, code, reason in self._reap():
            if pid in self._running:
                key, stdin = self._running.pop(pid)
                os.close(stdin)
                if code == commands.FAILED or reason != spawning.EXITED:
                    self._end(key)
                else:
                    del self._sessions[key]
                    yield key, code, reason
            elif pid in self._ending:
                key = self._ending.pop(pid)
                if code not in commands.ENDED:
                    self._end(key, after=RETRY_SECONDS)
                else:
                    del self._sessions[key]
                    yield (key, *commands.ENDED[code])
            elif pid in self._carrying:
                is_cut = code == commands.FAILED or reason != spawning.EXITED
                self._note_delivery(self._carrying.pop(pid), is_cut=is_cut)
        self._send_signals()

    def forget(self, key: int) -> None:
        """The agent has seen a session's process end: by then nothing is kept of that one here."""

    def survey(self, number: int, spared: FrozenSet[bytes] = frozenset()) -> int:
        """The agent asks how many processes are left of all its sessions, and has them signalled.

        Always 0, and nobody is signalled: what sessions leave behind in a worker that is reached by
        ssh, session.sh ends there.
        """
        del number, spared
        return 0

    def sweep(self, session: bytes, number: int, *, spares_group: bool) -> int:
        """The agent asks the same of one session, before it tells that session's end.

        Always 0: the session's ssh ends once session.sh in the worker says that nothing is left.
        """
        del session, number, spares_group
        return 0

    def notify(self, number: int) -> int:
        """The agent has heard a notice, and signals who wants to know of it.

        Always 0, for nobody is signalled: by ssh the launcher alone is told of notices.
        """
        del number
        return 0

    # ------------------------------------------------------------ inside

    def _reap(self) -> Iterator[Tuple[int, int, str]]:
        return spawning.reap()

    def _send_signals(self) -> None:
        """Send the signals that are next, unless their sessions are cut off or over."""
        running = {key for key, _ in self._running.values()}
        for key in [key for key in self._signals if key not in running]:
            del self._signals[key]
            self._late.discard(key)
        for key in self._signals.keys() - self._carrying.values():
            is_early = self._signals[key][0] == signal.SIGKILL and key in self._late
            self._carry(key, int(KILL_SECONDS) if is_early else 0)

    def _carry(self, key: int, after: int) -> None:
        number = self._signals[key][0]
        try:
            pid = self._ask(commands.build_signal(self._target, self._sessions[key], number), after)
        except OSError:
            return  # no file descriptor, process or memory now: the next `reap` tries again
        self._carrying[pid] = key

    def _note_delivery(self, key: int, *, is_cut: bool) -> None:
        signals = self._signals.get(key, [])
        if not signals or key not in self._sessions:  # its session may have ended just before
            return
        if is_cut:
            self._late.add(key)
            self._carry(key, RETRY_SECONDS)
            return
        del signals[0]
        if not signals:
            del self._signals[key]
            self._late.discard(key)

    def _end(self, key: int, after: int = 0) -> None:
        request = commands.build_end(self._target, self._sessions[key])
        self._unended.add(key)
        try:
            self._ending[self._ask(request, after)] = key
        except OSError:
            return  # no file descriptor or memory now: the next `reap` tries again
        self._unended.discard(key)

    def _ask(self, request: str, after: int = 0) -> int:
        """The pid of an ssh with this request, which begins in so many seconds."""
        words = commands.build_command(self._target, request)
        if after:
            words = ["sh", "-c", 'sleep "$0" && exec "$@"', str(after), *words]
        null = subprocess.DEVNULL
        return self._start(words, stdin=null, stdout=null, stderr=null)

    def _start(self, words: List[str], *, stdin: int, stdout: int, stderr: int) -> int:
        text = [word.encode("utf-8", "surrogateescape") for word in words]
        return spawning.start(text, stdin=stdin, stdout=stdout, stderr=stderr, env=self._environ)
