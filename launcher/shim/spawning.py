"""Starting a process in a session of its own, and ending it with all of its group."""

from __future__ import annotations

import os
import signal
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Mapping, Optional, Sequence

_HANDLED = (
    signal.SIGTERM,
    signal.SIGINT,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGCHLD,
)
"""What the parent may have handlers for. A child must not swallow them before its exec."""
_IGNORED = (signal.SIGPIPE, signal.SIGXFSZ)
"""What Python ignores, and other programs do not."""
NOT_EXECUTABLE = 126
NOT_FOUND = 127


def spawn(argv: Sequence[str], env: Mapping[str, str], output: Optional[int] = None) -> int:
    """Start `argv`, found in the PATH of `env`; its pid, which is its group and session too.

    stdin is inherited. `output` takes stdout and stderr, and stdin is then /dev/null. A command
    that cannot be executed says so on stderr and ends with 127 (not found) or 126, as a shell's.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, _HANDLED)
    child = os.fork()
    if child == 0:
        try:
            _become(argv, env, output)
        except Exception:  # noqa: BLE001 (the last resort: said aloud, then the end)
            sys.excepthook(*sys.exc_info())
        finally:
            os._exit(NOT_FOUND)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _HANDLED)
    return child


def signal_group(pid: int, number: int) -> None:
    """Signal all that `spawn` has started, as far as it stayed in its group."""
    for kill in (os.killpg, os.kill):  # it may not have made its group yet
        try:
            kill(pid, number)
        except ProcessLookupError:
            continue  # or nothing is left of it
        return


def read_status(status: int) -> int:
    """The exit code in waitpid's status; 128+n for signal n."""
    return 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def _become(argv: Sequence[str], env: Mapping[str, str], output: Optional[int]) -> None:
    os.setsid()
    for number in _HANDLED + _IGNORED:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _HANDLED)
    if output is not None:
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(output, 1)
        os.dup2(output, 2)
    try:
        os.execvpe(argv[0], list(argv), dict(env))
    except OSError as error:
        os.write(2, f"edl: cannot start {argv[0]!r}: {error.strerror}\n".encode())
        missing = isinstance(error, (FileNotFoundError, NotADirectoryError))
        os._exit(NOT_FOUND if missing else NOT_EXECUTABLE)
