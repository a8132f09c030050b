"""What the user sees. The only module of this package that prints.

Progress goes to stderr, an answer to stdout, so that a script can read it. Step by step a long
silence is told with its seconds.
"""

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

_INTERVAL = 10.0


class Step:
    """A long step in progress; ``detail`` is shown beside the seconds that passed."""

    def __init__(self, title: str) -> None:
        """Begin to count; nothing is shown yet."""
        self.title = title
        self.detail = ""
        self.begin = time.monotonic()

    @property
    def seconds(self) -> float:
        """Seconds since the step began."""
        return time.monotonic() - self.begin


def say(line: str) -> None:
    """Show one line of progress, on standard error so that output stays usable in scripts."""
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def answer(text: str) -> None:
    """Write the result that a command was asked for to standard output."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


@contextmanager
def step(title: str) -> Iterator[Step]:
    """Show that a step begins, every ten seconds that it goes on, and the seconds it took."""
    current = Step(title)
    ended = threading.Event()
    say(f"- {title}")
    ticker = threading.Thread(target=_tick, args=(current, ended), daemon=True)
    ticker.start()
    try:
        yield current
    finally:
        ended.set()
        ticker.join()
    if current.seconds >= 1:
        say(f"  done after {current.seconds:.1f} s")


def _tick(current: Step, ended: threading.Event) -> None:
    while not ended.wait(_INTERVAL):
        detail = f", {current.detail}" if current.detail else ""
        say(f"  {current.title}: {current.seconds:.0f} s{detail}")
