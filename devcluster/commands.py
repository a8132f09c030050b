"""Running programs and waiting for conditions.

Short programs of which nothing is shown run by it; what is to outlive the command is started by
processes.py. What fails raises with the last lines that it wrote.
"""

import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tenacity import Retrying, retry_if_result, stop_after_delay, wait_fixed

from devcluster.failures import DevclusterError

_SHOWN_LINES = 15


def run(
    arguments: Sequence[str | Path],
    *,
    given: str | None = None,
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> str:
    """Run a program to its end and return its standard output.

    Raises DevclusterError with the last lines of what it wrote if it fails.
    """
    result = attempt(arguments, given=given, environment=environment, folder=folder)
    if result.returncode:
        shown = "\n".join((result.stderr or result.stdout).strip().splitlines()[-_SHOWN_LINES:])
        line = " ".join(str(argument) for argument in arguments)
        message = f"This command ended with {result.returncode}: {line}\n{shown}"
        raise DevclusterError(message)
    return result.stdout


def attempt(
    arguments: Sequence[str | Path],
    *,
    given: str | None = None,
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end and return what came of it, whatever that is."""
    return subprocess.run(
        [str(argument) for argument in arguments],
        input=given,
        stdin=subprocess.DEVNULL if given is None else None,
        capture_output=True,
        text=True,
        check=False,
        env=environment,
        cwd=folder,
    )


def wait_until(condition: Callable[[], bool], *, seconds: float, interval: float = 0.1) -> bool:
    """Ask ``condition`` until it holds or the seconds are over; return whether it held."""
    asking = Retrying(
        retry=retry_if_result(lambda holds: not holds),
        stop=stop_after_delay(seconds),
        wait=wait_fixed(interval),
        retry_error_callback=lambda _: False,
    )
    return asking(condition)
