"""The processes that an agent starts: what it asks of them, and those in its own container.

processes.py knows them by `Children` alone: the agent of a worker that is reached by ssh has others
(ssh/children.py). No end is told here of a process that was not reaped.
"""

from __future__ import annotations

import signal
from typing import FrozenSet, Iterator, List, Mapping, Tuple

from launcher.agent import spawning
from launcher.agent.surveying import Surveyor, leave_mark

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol  # novm: read by type checkers alone
else:
    Protocol = object  # it is newer than Python 3.7


class Children(Protocol):
    """The sessions of a worker, each by a key that is used once as long as it is known."""

    def start(self, session: bytes, command: str, env: Mapping[str, str]) -> Tuple[int, List[int]]:
        """A process's key, and the read ends of stdout and stderr; raises OSError or ValueError."""

    def signal(self, key: int, number: int) -> None:
        """Signal the session's process group."""

    def kill(self, key: int) -> None:
        """End it at once: we end ourselves."""

    def reap(self) -> Iterator[Tuple[int, int, str]]:
        """(key, exit code, reason) of every session that has ended, and of other children."""

    def forget(self, key: int) -> None:
        """The session's end was told."""

    def survey(self, number: int, spared: FrozenSet[bytes] = frozenset()) -> int:
        """Count what runs of all sessions, see Surveyor.survey; raises OSError."""

    def sweep(self, session: bytes, number: int, *, spares_group: bool) -> int:
        """Count what runs of one session, see Surveyor.sweep; raises OSError."""

    def notify(self, number: int) -> int:
        """Signal who has a handler for it, see Surveyor.notify; raises OSError."""


class LocalChildren:
    """Children in our own container: keys are the pids of their first processes, until reaped.

    `env` is what they have of the container's environment.
    """

    def __init__(self, env: Mapping[bytes, bytes]) -> None:
        self._env = env
        self._surveyor = Surveyor()
        self._is_marking = False

    def start(self, session: bytes, command: str, env: Mapping[str, str]) -> Tuple[int, List[int]]:
        """A process's key, and the read ends of stdout and stderr; raises OSError or ValueError."""
        if not self._is_marking:
            leave_mark()
            self._is_marking = True
        pid, pipes = spawning.start_session(session, command, env, self._env)
        self._surveyor.add(session, pid)
        return pid, pipes

    def signal(self, key: int, number: int) -> None:
        """Signal the session's process group."""
        spawning.signal_group(key, number)

    def kill(self, key: int) -> None:
        """End it at once: we end ourselves."""
        spawning.signal_group(key, signal.SIGKILL)

    def reap(self) -> Iterator[Tuple[int, int, str]]:
        """(key, exit code, reason) of every child that has ended, sessions and others."""
        return spawning.reap()

    def forget(self, key: int) -> None:
        """The session's first process was reaped."""
        self._surveyor.forget(key)

    def survey(self, number: int, spared: FrozenSet[bytes] = frozenset()) -> int:
        """Count what runs of all sessions, see Surveyor.survey; raises OSError."""
        return self._surveyor.survey(number, spared)

    def sweep(self, session: bytes, number: int, *, spares_group: bool) -> int:
        """Count what runs of one session, see Surveyor.sweep; raises OSError."""
        return self._surveyor.sweep(session, number, spares_group=spares_group)

    def notify(self, number: int) -> int:
        """Signal who has a handler for it, see Surveyor.notify; raises OSError."""
        return self._surveyor.notify(number)
