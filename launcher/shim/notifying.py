"""horovodrun that asks a worker whether it lives before it tells it that the list has changed.

    python notifying.py /path/of/the/image's/horovodrun [argument...]

Run by the Python of the image's horovodrun, whose own program then runs as it is but for two
methods; the other one is in registering.py. This one tells rank 0's worker of each change, as of
each nudge, and no ring is built meanwhile. To one that is lost TCP tries to connect for a minute
and more, for it has no time-out (horovod/runner/common/util/network.py, `_send_one`). So that
worker is asked and told beside horovodrun, which waits for neither and would pass any error over.
And ranks take a change for an old one that is not told as later than the last, by the clock of
horovodrun's machine (horovod/common/elastic.py, `check_host_updates`). So each is.
The same in 0.20.0 to 0.28.1; another Horovod is left as it is.
"""

from __future__ import annotations

import copy
import runpy
import sys
import threading
import time
import weakref

sys.path.insert(0, __file__.rpartition("/launcher/")[0])

from launcher.shim import fitting, programs, registering

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Sequence

ANSWER_SECONDS = 5.0
"""A worker that is asked whether it lives has so long. Who is told nothing is told again: the list
changes until it has had its effect (broker/nudging.py)."""

TELL_SECONDS = 60.0
"""Telling has no time-out of its own. After so long another thread does what is left to tell."""


def bound_notices() -> None:
    """Have horovodrun tell of a changed list only a worker that answers.

    People are told where the installed Horovod is not as we know it.
    """
    fitting.replace(_bound, "a lost worker may hold horovodrun up")


def _bound() -> None:
    from horovod.runner.elastic.worker import WorkerNotificationClient

    tell = WorkerNotificationClient.notify_hosts_updated
    fitting.check("_probe", WorkerNotificationClient._probe, ["self", "addresses"])  # noqa: SLF001 (its own ping)
    told = ["self", "timestamp"]  # until 0.21, and what kind of a change it is since
    fitting.check("notify_hosts_updated", tell, told, [*told, "update_res"])
    tellers: weakref.WeakKeyDictionary[Any, Teller] = weakref.WeakKeyDictionary()
    moments = Moments()

    def notify(client: Any, timestamp: int, *kind: Any) -> None:
        change = (moments.follow(timestamp), *kind)
        tellers.setdefault(client, Teller(client, tell)).add(change)

    WorkerNotificationClient.notify_hosts_updated = notify


class Moments:
    """When changes were, as all ranks of a training are told: later each time, in whole seconds.

    A clock that was ahead and is set right may be behind that for days.
    """

    def __init__(self) -> None:
        self._newest = 0

    def follow(self, clock: int) -> int:
        """The moment of one more change; only the thread asks that looks at the list of hosts."""
        self._newest = max(clock, self._newest + 1)
        return self._newest


class Teller:
    """Tells one worker of changes, one after the other, for as long as it answers."""

    def __init__(
        self, client: Any, tell: Callable[..., Any], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._client = weakref.ref(client)
        self._tell = tell
        self._clock = clock
        self._asking = copy.copy(client)  # with a patience of its own
        self._asking._probe_timeout, self._asking._attempts = ANSWER_SECONDS, 1  # noqa: SLF001 (the same)
        self._changes: list[Any] = []
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._since = 0.0

    def add(self, change: Any) -> None:
        """Have the worker told of this change too; RuntimeError (no thread): with the next one."""
        with self._lock:
            self._changes.append(change)
            if self._thread is None or self._clock() - self._since >= TELL_SECONDS:
                thread = threading.Thread(target=self._run, daemon=True)
                thread.start()
                self._thread, self._since = thread, self._clock()

    def _run(self) -> None:
        """The body of a thread: tells changes until none is left, or another thread does it."""
        is_answered = True
        while True:
            with self._lock:
                if self._thread is not threading.current_thread():
                    return
                if not is_answered:
                    self._changes.clear()
                if not self._changes:
                    self._thread = None
                    return
                change, self._since = self._changes.pop(0), self._clock()
            is_answered = self._try(change)

    def _try(self, change: Any) -> bool:
        """Whether the worker answers; what fails otherwise is passed over, as by horovodrun."""
        client = self._client()
        try:
            if client is None or not self._asking._probe(self._asking._addresses):  # noqa: SLF001 (the same)
                return False
            self._tell(client, *change)
        except Exception:  # noqa: BLE001 (that the list changes is told again)
            return True
        return True


def prepare() -> None:
    """Replace what a lost worker would hold up, or would be counted in."""
    bound_notices()
    registering.count_once()


def run(argv: Sequence[str]) -> int:
    """Be the program of that path, as Python would have been told to; returns when it has ended."""
    sys.argv[:] = list(argv)
    runpy.run_path(argv[0], run_name="__main__")
    return 0


def main(argv: Sequence[str]) -> int:
    """Becomes horovodrun; argv begins with its path."""
    programs.take_place(argv[0])
    prepare()
    return run(argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
