"""Starts a command in a worker and stands for it: what horovodrun, mpirun and pdsh take for ssh.

    rsh.py [ssh options] host command...

Output, signals and the exit code are those of the remote command; its stdin is /dev/null, and what
comes in on ours is refused. -n says that nothing is meant by it, -f goes to the background. Two
processes: where /bin/sh execs its last command, this process *is* what horovodrun takes for the
shell: it is never sent SIGTERM, but stopped and killed, whereas its children get SIGTERM
(horovod/runner/common/util/safe_shell_exec.py:30-80). So the child does the work. Where somebody
kills the child alone, the parent ends the remote process before it says that anything has ended.
What a session may do, and when it is over, is never decided here: see attaching.py.
"""

from __future__ import annotations

import os
import signal
import sys

sys.path.insert(0, __file__.rpartition("/launcher/")[0])  # `python3 -I` adds no folder

from et_contract import frames, paths
from launcher.protocol.claims import Claim, Purpose
from launcher.protocol.signals import PASSED
from launcher.shim import programs
from launcher.shim.arguments import UsageError, parse_remote
from launcher.shim.attaching import Attachment

_WITHOUT_STDIN = frozenset("nf")

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Sequence

    from launcher.shim.arguments import Remote


def main(argv: Sequence[str], broker: str = paths.BROKER_SOCKET) -> int:
    """Runs the command line; returns the exit code.

    The remote command's code, 128+n for signal n, 255 when nothing was started, 137 when the
    worker is gone.
    """
    # Bytes that are no UTF-8 travel as surrogates, whatever this container's locale is.
    words = [os.fsencode(word).decode("utf-8", "surrogateescape") for word in argv]
    session = os.urandom(16)
    try:
        programs.take_output()
        remote = parse_remote(words)
        if "f" in remote.flags:
            if os.fork():
                return 0  # what goes wrong from here on is said on stderr, as ssh -f has it
            os.setsid()
        child = _start_child(remote, session, broker)
    except UsageError as error:
        programs.say(str(error))
        return frames.EXIT_REFUSED
    except OSError as error:
        return _refuse(error)
    code = _stand_for(child)
    if code >= 0:
        return code
    programs.say(
        f"{remote.host}: the process here that stood for its own was killed; that ends too"
    )
    return _attach(remote, session, broker, parent=-1, stdin=-1).end()


def _start_child(remote: Remote, session: bytes, broker: str) -> int:
    """The process that does the work, and knows when we have gone; raises OSError without one."""
    ours, theirs = os.pipe()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # ignored, it would take the exit code away
    signal.pthread_sigmask(signal.SIG_BLOCK, [*PASSED, signal.SIGCHLD])
    child = os.fork()
    if child:
        os.close(ours)
        return child
    os.close(theirs)
    code = 1
    try:
        code = _work(remote, session, broker, parent=ours)
    except Exception:  # noqa: BLE001 (the last resort: said aloud, then the end)
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(code)


def _work(remote: Remote, session: bytes, broker: str, *, parent: int) -> int:
    stdin = -1 if remote.flags & _WITHOUT_STDIN else 0
    try:
        # A signal to the whole group reaches the parent, which passes it on: once is enough.
        os.setpgid(0, 0)
        attachment = _attach(remote, session, broker, parent=parent, stdin=stdin)
    except OSError as error:
        return _refuse(error)
    return attachment.run()


def _refuse(error: OSError) -> int:
    """Nothing was asked of a worker yet."""
    programs.say(f"no process can be started in a worker from here: {error.strerror}")
    return frames.EXIT_REFUSED


def _attach(remote: Remote, session: bytes, broker: str, *, parent: int, stdin: int) -> Attachment:
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    for number in programs.find_heard():
        signal.signal(number, lambda *_: None)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, PASSED)
    purpose = Purpose(remote.ranks, blacklists=remote.ranks > 0)  # they are horovodrun's
    claim = Claim(session=session, host=remote.host, command=remote.command, purpose=purpose)
    return Attachment(claim, broker=broker, parent=parent, signals=reader, stdin=stdin)


def _stand_for(child: int) -> int:
    """Pass signals on to the child and return its exit code, -n if signal n was its end."""
    # Waited for, not handled: a handler that runs just before waitpid would be heard too late.
    heard = programs.find_heard()
    while True:
        number = signal.sigwait([*heard, signal.SIGCHLD])
        if number != signal.SIGCHLD:
            os.kill(child, number)  # it is there, if only as a zombie, until waitpid
            continue
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
