"""What is asked of ssh, and through it of session.sh in a worker. Pure.

children.py and reaching.py run what is built here. Each request has the launcher's epoch, for
session.sh obeys no older one.
"""

from __future__ import annotations

import shlex
from collections import namedtuple

from et_contract import frames, names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import List, Mapping

LONGEST_REQUEST = 120 * 1024
"""Bytes: ssh takes it as one argument, and sshd hands it on in one variable of the environment;
either may be 128 KiB long (execve(2), MAX_ARG_STRLEN)."""
FAILED = 255
"""ssh's own exit code: no connection, a refusal, or a command that ended with the same."""
ENDED = {
    0: (frames.EXIT_GONE, "the connection to the worker was lost, and the process ended"),
    1: (FAILED, "exited"),
}
"""Exit code of an `end` request -> exit code and reason of the session."""
CONNECT_SECONDS = 10
ALIVE_SECONDS = 15
MISSED = 8
"""So many answers may be missing, so far apart, before a connection counts as cut: nothing is lost
until then, and a cluster gives a node up earlier. worker.sh does the same."""

Target = namedtuple(
    "Target",
    [
        "name",  # the worker's
        "address",  # the IP of its pod
        "epoch",  # of this launcher
        "key",  # path of the private key, which nobody else may read
        "known_hosts",  # path of the file with the workers' host key
    ],
)


class RequestTooLong(ValueError):  # noqa: N818 (names say what is so)
    """A command and environment that do not fit into what ssh passes on."""


def build_command(target: Target, request: str) -> List[str]:
    """The command line of ssh; it reads no configuration but this, and asks nobody anything.

    Raises RequestTooLong.
    """
    if len(request.encode("utf-8", "surrogateescape")) > LONGEST_REQUEST:
        raise RequestTooLong(
            "the command and its environment are longer than %d bytes, the most that ssh passes on"
            % LONGEST_REQUEST
        )
    options = {
        "HostName": target.address,
        "Port": names.SSH_PORT,
        "IdentityFile": target.key,
        "IdentitiesOnly": "yes",
        "UserKnownHostsFile": target.known_hosts,
        "GlobalKnownHostsFile": "/dev/null",
        "HostKeyAlias": names.SSH_HOST,
        "HostKeyAlgorithms": "ssh-ed25519",
        "StrictHostKeyChecking": "yes",
        "UpdateHostKeys": "no",
        "CheckHostIP": "no",
        "BatchMode": "yes",
        "PasswordAuthentication": "no",
        "ControlPath": "none",
        "LogLevel": "ERROR",
        "ConnectTimeout": CONNECT_SECONDS,
        "ServerAliveInterval": ALIVE_SECONDS,
        "ServerAliveCountMax": MISSED,
    }
    words = ["ssh", "-F", "none", "-T", "-x", "-a", "-e", "none"]
    for name, value in options.items():
        words += ["-o", "%s=%s" % (name, value)]
    return [*words, target.name, request]


def build_run(target: Target, session: bytes, command: str, env: Mapping[str, str]) -> str:
    """Run `command` with `env` on top of the worker's own environment."""
    exports = "".join(
        "export %s=%s\n" % (name, shlex.quote(value)) for name, value in sorted(env.items())
    )
    return "run %d %s\n%s%s" % (target.epoch, session.hex(), exports, command)


def build_signal(target: Target, session: bytes, number: int) -> str:
    """Signal the session's process group."""
    return "signal %d %s %d" % (target.epoch, session.hex(), number)


def build_end(target: Target, session: bytes) -> str:
    """See to it that the session runs no more and never will."""
    return "end %d %s" % (target.epoch, session.hex())


def build_fence(target: Target) -> str:
    """See to it that no session runs any more, and that no older launcher is obeyed."""
    return "fence %d" % target.epoch
