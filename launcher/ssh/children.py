"""The processes of a worker that is reached by ssh: here each is an ssh of ours.

A session has ended when its ssh says so. One whose connection was cut is ended in its worker first,
with as many attempts as that takes: no end is reported that is not known.
"""

from __future__ import annotations

import os
import signal
import subprocess
from typing import Dict, FrozenSet, Iterator, List, Mapping, Tuple

from launcher.agent import spawning
from launcher.agent.children import Children
from launcher.ssh import commands

RETRY_SECONDS = 2
"""Between two attempts to end a session that was cut off."""


class RemoteChildren(Children):
    """Sessions by a number that counts up: a pid of this container may come again too soon."""

    def __init__(self, target: commands.Target, environ: Mapping[bytes, bytes]) -> None:
        self._target = target
        self._environ = dict(environ)
        self._last = 0
        self._sessions: Dict[int, bytes] = {}
        """By key, until they are known to have ended."""
        self._running: Dict[int, Tuple[int, int]] = {}
        """By the pid of a session's ssh: the session's key, and our end of its stdin."""
        self._ending: Dict[int, int] = {}
        """By the pid of an ssh that ends a session: that session's key."""

    def start(self, session: bytes, command: str, env: Mapping[str, str]) -> Tuple[int, List[int]]:
        """Its key, and the read ends of stdout and stderr; raises OSError or ValueError."""
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
        if any(key == running for running, _ in self._running.values()):
            self._ask(commands.build_signal(self._target, self._sessions[key], number))

    def kill(self, key: int) -> None:
        """End our side of it; the other side ends with the connection."""
        for pid, (running, _) in self._running.items():
            if running == key:
                spawning.signal_group(pid, signal.SIGKILL)

    def reap(self) -> Iterator[Tuple[int, int, str]]:
        """(key, exit code, reason) of every session that is known to have ended since."""
        for pid, code, reason in spawning.reap():
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

    def forget(self, key: int) -> None:
        """Nothing of a session is left here once it has ended."""

    def survey(self, number: int, spared: FrozenSet[int] = frozenset()) -> int:
        """What sessions have left behind in the worker is not looked for: none that is known."""
        del number, spared
        return 0

    # ------------------------------------------------------------ inside

    def _end(self, key: int, after: int = 0) -> None:
        request = commands.build_end(self._target, self._sessions[key])
        self._ending[self._ask(request, after)] = key

    def _ask(self, request: str, after: int = 0) -> int:
        """The pid of an ssh with this request, which begins in so many seconds."""
        words = commands.build_command(self._target, request)
        if after:
            words = ["sh", "-c", 'sleep "$0" && exec "$@"', str(after), *words]
        null = subprocess.DEVNULL
        return self._start(words, stdin=null, stdout=null, stderr=null)

    def _start(self, words: List[str], *, stdin: int, stdout: int, stderr: int) -> int:
        process = subprocess.Popen(
            [word.encode("utf-8", "surrogateescape") for word in words],
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            env=self._environ,
            start_new_session=True,
        )
        return spawning.disown(process)
