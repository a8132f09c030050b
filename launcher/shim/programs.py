"""The image's own programs: where they are, which Python runs them, and how to be one of them.

For all of ours that stand in for a program of the image. None of it speaks to the broker, and a
word to people (`say`) never ends anybody, nor holds him up for long.
"""

from __future__ import annotations

import atexit
import os
import select
import signal
import socket
import sys

from launcher.protocol.signals import PASSED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import List, Mapping, Optional, Sequence

NOT_EXECUTABLE = 126
NOT_FOUND = 127
"""Exit codes of a command that could not be run, as a shell has them."""
SAY_SECONDS = 1.0
"""What a word to people waits for a log that nobody takes: PID 1 says some, and reaps and hears."""
_LONGEST = 8192
"""Of a line with a path: PATH_MAX and more."""
_ATOMIC = 4096
"""PIPE_BUF: a pipe that poll calls writable takes this much without blocking."""
_OUTPUTS = {1: "stdout", 2: "stderr"}
ELSEWHERE = ("192.0.2.1", "2001:db8::1")
"""Addresses that nobody has (RFC 5737, RFC 3849): what leads there leads out of the pod."""


def say(text: str) -> None:
    """Tell people, on stderr.

    A log that nobody reads or that has no room is not worth an end, nor more than SAY_SECONDS.
    """
    rest = f"edl: {text}\n".encode("utf-8", "backslashreplace")
    poll = select.poll()
    poll.register(2, select.POLLOUT)
    try:
        while rest and poll.poll(SAY_SECONDS * 1000):
            rest = rest[os.write(2, rest[:_ATOMIC]) :]
    except OSError:
        return


def take_output() -> None:
    """Have a stdin, stdout and stderr, and an exit code that does not depend on them.

    A pipe of ours that got the number of one that is closed would be taken for it. And for what a
    log without room has not taken Python would end with 120.
    """
    fd = os.open(os.devnull, os.O_RDWR)
    while fd <= max(_OUTPUTS):  # each time the lowest number that is free
        fd = os.dup(fd)
    os.close(fd)
    for number, name in _OUTPUTS.items():
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(number, "w", closefd=False))
    atexit.register(_let_go_of_output)


def _let_go_of_output() -> None:
    for number, name in _OUTPUTS.items():
        try:
            getattr(sys, name).flush()
        except (OSError, ValueError):  # ValueError: the user's program has closed it
            os.dup2(os.open(os.devnull, os.O_WRONLY), number)


def find_heard(always: Sequence[int] = ()) -> List[int]:
    """The signals that a shim passes on: not what it began with ignored, but for these."""
    return [n for n in PASSED if n in always or signal.getsignal(n) != signal.SIG_IGN]


def find_program(name: str, path: str, ours: str) -> Optional[str]:
    """The first executable `name` in the PATH after our folder, wherever that is."""
    for folder in path.split(":"):
        candidate = os.path.join(folder or ".", name)
        is_ours = os.path.realpath(folder or ".") == os.path.realpath(ours)
        if not is_ours and is_program(candidate):
            return candidate
    return None


def is_program(path: str) -> bool:
    """Whether there is a file that can be executed."""
    return os.path.isfile(path) and os.access(path, os.X_OK)


def find_interpreter(program: str) -> List[str]:
    """The words that run a Python program: those of its first line; none if it is not one.

    Where that names Python relative to the program, as in a venv that can be moved, it is the
    python3 beside the program.
    """
    try:
        with open(program, "rb") as file:
            first, second = file.readline(512), file.readline(_LONGEST)
    except OSError:
        return []
    if first == b"#!/bin/sh\n":
        words = _read_jump(os.fsdecode(second), os.path.dirname(os.path.realpath(program)))
    else:
        words = os.fsdecode(first[2:]).split() if first.startswith(b"#!/") else []
    is_python = any(os.path.basename(word).startswith("python") for word in words[:2])
    return words if is_python else []


def _read_jump(line: str, folder: str) -> List[str]:
    """The words of a second line that pip or uv writes where Python's path is no first line."""
    begin, end = "'''exec' ", ' "$0" "$@"\n'
    if not (line.startswith(begin) and line.endswith(end)):
        return []
    text = line[len(begin) : -len(end)]
    if "$" in text:
        beside = os.path.join(folder, "python3")
        return [beside] if is_program(beside) else []
    from shlex import split  # hardly ever needed, and ours begin often

    try:
        return split(text)
    except ValueError:
        return []


def become(command: Sequence[str], environ: Mapping[str, str]) -> int:
    """Replace this process by `command`; where that fails, say so and return NOT_EXECUTABLE."""
    try:
        os.execve(command[0], list(command), dict(environ))
    except OSError as error:
        say(f"cannot start {command[0]}: {error.strerror}")
    return NOT_EXECUTABLE


def take_place(real: str) -> None:
    """Give Python the path as if it had been told to run `real`; call it when ours is imported."""
    folder = __file__.rpartition("/")[0]
    ours = (__file__.rpartition("/launcher/")[0], folder)
    is_safe = folder not in sys.path
    first = [] if is_safe else [os.path.dirname(os.path.realpath(real))]
    sys.path[:] = first + [path for path in sys.path if path not in ours]


def find_address(*peers: str) -> str:
    """This pod's address on the way to the first of the peers that a way leads to.

    IPv4 or IPv6, as the peer's is. Sends nothing; raises OSError.
    """
    for peer in peers or ELSEWHERE:
        family = socket.AF_INET6 if ":" in peer else socket.AF_INET
        try:
            with socket.socket(family, socket.SOCK_DGRAM) as probe:
                probe.connect((peer, 9))
                address: str = probe.getsockname()[0]
                return address
        except OSError:  # no way leads there
            continue
    # The name is in every pod's /etc/hosts.
    found = socket.getaddrinfo(socket.gethostname(), None, type=socket.SOCK_DGRAM)
    return str(min(found)[4][0])  # IPv4 first
