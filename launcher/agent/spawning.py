"""Starting, signalling and reaping processes: of an agent, of PID 1 of the launcher, and of ssh.

Each process leads a group of its own, and `reap` takes all children that have ended, whoever asks.
Which was started for what, and what its end means, only the caller knows.
"""

from __future__ import annotations

import errno
import fcntl
import os
import resource
import signal
import subprocess
from typing import Any, Dict, Iterator, List, Mapping, Sequence, Tuple

from et_contract import names

OWN_VARIABLES = (
    names.ENV_JOB_NAME,
    names.ENV_JOB_NAMESPACE,
    names.ENV_JOB_UID,
    names.ENV_EPOCH,
    names.ENV_POD_NAME,
    names.ENV_POD_UID,
    names.ENV_GRACE,
    names.ENV_SLOTS,
    names.ENV_MIN_SLOTS,
    names.ENV_NOTICE,
)
"""What PID 1 keeps to itself."""

LONGEST_ARGUMENT = 128 * 1024 - 1
"""Bytes of one argument (execve(2), MAX_ARG_STRLEN, without the zero at its end)."""
EXITED = "exited"
"""Why a process ended that no signal has ended."""
_F_SETPIPE_SZ = 1031
"""fcntl(2): the room in a pipe, up to 1 MiB for everybody, as much as a SPAWN can hold."""
_PR_SET_CHILD_SUBREAPER = 36


def prepare() -> None:
    """Settings that every child inherits: no core files; and orphans come to us.

    A removed Horovod worker always aborts: with a core file of its size each time, the node's disk
    would be full soon.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        # A core_pattern that is a pipe ignores the limit, not this.
        with open("/proc/self/coredump_filter", "w", encoding="ascii") as file:
            file.write("0")
    except OSError:
        # Not on this kernel: then the limit has to do.
        pass
    if os.getpid() != 1:
        # Only with a shared process namespace; ctypes costs 10 ms that PID 1 need not spend.
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def user_environment(environ: Mapping[bytes, bytes]) -> Dict[bytes, bytes]:
    """The container's environment without what only PID 1 needs."""
    own = {name.encode() for name in OWN_VARIABLES}
    return {name: value for name, value in environ.items() if name not in own}


def start_session(
    session: bytes, command: str, env: Mapping[str, str], base: Mapping[bytes, bytes]
) -> Tuple[int, List[int]]:
    """Run `sh -c command`: (pid, read ends of stdout and stderr).

    A command too long for an argument is a script that `sh` reads, which makes no other difference.
    It leads a process group of its own, with /dev/null as stdin, in our working directory. Raises
    OSError or ValueError when it cannot be started; then nothing is left behind.
    """
    environment = dict(base)
    environment.update((_encode(name), _encode(value)) for name, value in env.items())
    environment[names.ENV_SESSION.encode()] = session.hex().encode()
    text = _encode(command)
    script = _keep_script(text) if len(text) > LONGEST_ARGUMENT else []
    words = [b"-c", text] if not script else [b"/proc/self/fd/%d" % script[0]]
    pipes: List[int] = []
    try:
        for _ in ("stdout", "stderr"):
            pipes += os.pipe()
        pid = start(
            [b"/bin/sh", *words],
            stdin=subprocess.DEVNULL,
            stdout=pipes[1],
            stderr=pipes[3],
            env=environment,
            pass_fds=script,
        )
    except (OSError, ValueError):
        close_all(pipes)
        raise
    finally:
        close_all(script)
    close_all([pipes[1], pipes[3]])
    for fd in (pipes[0], pipes[2]):
        os.set_blocking(fd, False)
    return pid, [pipes[0], pipes[2]]


def start(words: Sequence[Any], **options: Any) -> int:
    """Start a program in a process group of its own: its pid, or OSError or ValueError.

    `options` are those of Popen. No signal is blocked in it. It must be reaped by `reap`.
    """
    try:
        process = subprocess.Popen(words, start_new_session=True, preexec_fn=_hear, **options)  # noqa: PLW1509 (our threads hold no lock that the child takes)
    except subprocess.SubprocessError as error:
        # The child had no memory for the little that it does before it is the program.
        raise OSError(errno.ENOMEM, str(error)) from error
    process.returncode = 0  # Popen must neither wait for it nor warn that nobody did
    return process.pid


def signal_group(leader: int, number: int) -> None:
    """Signal a process group whose leader has not been reaped."""
    try:
        os.killpg(leader, number)
    except (ProcessLookupError, PermissionError):
        # All of it are zombies, or have become another user.
        return


def reap() -> Iterator[Tuple[int, int, str]]:
    """(pid, exit code, reason) of every child that has ended, until none has."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        if os.WIFSIGNALED(status):
            number = os.WTERMSIG(status)
            yield pid, 128 + number, f"signal {number}"
        else:
            yield pid, os.WEXITSTATUS(status), EXITED


def has_ended(pid: int) -> bool:
    """Whether this child has ended, reaped or not; it is not reaped here."""
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return True


def close_all(fds: List[int]) -> None:
    """Close file descriptors."""
    for fd in fds:
        os.close(fd)


def _hear() -> None:
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _keep_script(text: bytes) -> List[int]:
    """A file without a name, or the end of a pipe, from which all of `text` can be read.

    Raises OSError. A pipe as large as that is given to a user whose pipes on this node are few.
    """
    create = getattr(os, "memfd_create", None)  # not in Python 3.7
    if create is not None:
        try:
            return [_keep_in_memory(create("edl-command"), text)]
        except OSError:
            pass  # a sandbox without such files
    return [_keep_in_pipe(text)]


def _keep_in_memory(script: int, text: bytes) -> int:
    try:
        with open(script, "wb", closefd=False) as file:
            file.write(text)
    except OSError:
        os.close(script)
        raise
    return script


def _keep_in_pipe(text: bytes) -> int:
    reader, writer = os.pipe()
    try:
        fcntl.fcntl(writer, _F_SETPIPE_SZ, len(text))
        os.set_blocking(writer, False)
        os.write(writer, text)
    except OSError:
        os.close(reader)
        raise
    finally:
        os.close(writer)
    return reader


def _encode(text: str) -> bytes:
    # Bytes that are no UTF-8 travel as surrogates, whatever this container's locale is.
    return text.encode("utf-8", "surrogateescape")
