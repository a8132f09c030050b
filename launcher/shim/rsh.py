"""Starts a command in a worker and stands for it: what horovodrun, mpirun and pdsh take for ssh.

    rsh.py [ssh options] host command...

Output, signals and the exit code are those of the remote command; its stdin is /dev/null. Two
processes: where /bin/sh execs its last command, this process *is* what horovodrun takes for the
shell: it is never sent SIGTERM, but stopped and killed, whereas its children get SIGTERM
(horovod/runner/common/util/safe_shell_exec.py:30-80). So the child does the work.
"""

from __future__ import annotations

import os
import signal
import sys

sys.path.insert(0, __file__.rpartition("/launcher/")[0])  # `python3 -I` adds no folder

from launcher import contract
from launcher.protocol.claims import Claim
from launcher.shim.arguments import UsageError, parse_remote
from launcher.shim.attaching import PASSED, Attachment

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Sequence

    from launcher.shim.arguments import Remote


def main(argv: Sequence[str], broker: str = contract.BROKER_SOCKET) -> int:
    """Runs the command line; returns the exit code.

    The remote command's code, 128+n for signal n, 255 when nothing was started, 137 when the
    worker is gone.
    """
    # Bytes that are no UTF-8 travel as surrogates, whatever this container's locale is.
    words = [os.fsencode(word).decode("utf-8", "surrogateescape") for word in argv]
    try:
        remote = parse_remote(words)
    except UsageError as error:
        os.write(2, f"edl: {error}\n".encode("utf-8", "backslashreplace"))
        return contract.EXIT_REFUSED
    ours, theirs = os.pipe()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # ignored, it would take the exit code away
    signal.pthread_sigmask(signal.SIG_BLOCK, [*PASSED, signal.SIGCHLD])
    child = os.fork()
    if child == 0:
        os.close(theirs)
        code = 1
        try:
            code = _attach(remote, broker, ours)
        except Exception:  # noqa: BLE001 (the last resort: said aloud, then the end)
            sys.excepthook(*sys.exc_info())
        finally:
            os._exit(code)
    os.close(ours)
    return _stand_for(child)


def _attach(remote: Remote, broker: str, parent: int) -> int:
    # A signal to the whole group reaches the parent, which passes it on: once is enough.
    os.setpgid(0, 0)
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    for number in PASSED:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, lambda *_: None)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, PASSED)
    claim = Claim(session=os.urandom(16), host=remote.host, command=remote.command)
    return Attachment(claim, broker=broker, parent=parent, signals=reader).run()


def _stand_for(child: int) -> int:
    """Pass signals on to the child and return its exit code."""
    # Waited for, not handled: a handler that runs just before waitpid would be heard too late.
    heard = [number for number in PASSED if signal.getsignal(number) != signal.SIG_IGN]
    while True:
        number = signal.sigwait([*heard, signal.SIGCHLD])
        if number != signal.SIGCHLD:
            os.kill(child, number)  # it is there, if only as a zombie, until waitpid
            continue
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
