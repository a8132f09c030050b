"""The agent of one worker that is reached by ssh. It runs in the launcher, as a child of PID 1.

    reaching.py POD NAME ADDRESS FOLDER KNOWN_HOSTS

POD is the uid of its pod, ADDRESS the IP; in FOLDER are the private key and our socket.

To the broker it is as any agent. It comes to life when the worker has obeyed: whatever ran there of
older launchers, or of an agent before this one, has then ended.
"""

from __future__ import annotations

import os
import resource
import select
import socket
import subprocess
import sys
from time import monotonic

sys.path.insert(0, __file__.rpartition("/launcher/")[0])  # `python3 -I` adds no folder

from typing import IO, List, Mapping

from et_contract import frames, names
from launcher.agent import serving
from launcher.protocol.agents import Agent
from launcher.ssh import commands
from launcher.ssh.children import RemoteChildren

FENCE_SECONDS = 20.0
"""Less than a broker waits for an answer."""
REFUSE_SECONDS = 5.0
LOG_BYTES = 2**20
"""Of our own log, on the launcher's disk: what comes later is lost. We write no other file."""
KEPT = 4096
"""Bytes of the last that ssh says: the worker has a voice in it, and all workers one memory."""
REPLACED = "has been replaced"
"""How the worker's session.sh ends its words where it obeys a later launcher."""
NO_GRACE = 0.0
"""The worker's own PID 1 spends its grace period."""


def main(argv: List[str], environ: Mapping[bytes, bytes] = os.environb) -> int:
    """Serve the broker until PID 1 ends us; 1 when the worker cannot be reached."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (LOG_BYTES, LOG_BYTES))
    pod, name, address, folder, known_hosts = argv
    target = commands.Target(
        name=name,
        address=address,
        epoch=int(environ[names.ENV_EPOCH.encode()]),
        key="%s/%s" % (folder, names.KEY_USER),
        known_hosts=known_hosts,
    )
    # The broker runs as another user; the folder is in no other container.
    listener = serving.listen("%s/%s.sock" % (folder, pod), mode=0o666)
    trouble = fence(target)
    if trouble:
        sys.stderr.write("%s: %s\n" % (name, trouble))
        refuse(listener, trouble)
        return 1
    agent = Agent(
        instance=os.urandom(16).hex(),
        job=environ[names.ENV_JOB_UID.encode()].decode(),
        pod=pod,
        epoch=target.epoch,
        grace=NO_GRACE,
        is_heir=is_heir("%s/%s.began" % (folder, pod)),
    )
    children = RemoteChildren(target, environ)
    serving.Server(agent, listener, children).run([], {})
    return 0


def fence(target: commands.Target, seconds: float = FENCE_SECONDS) -> str:
    """Make the worker ours; why that cannot be done, in ssh's last words, "" when it is."""
    words = commands.build_command(target, commands.build_fence(target))
    null = subprocess.DEVNULL
    try:
        process = subprocess.Popen(words, stdin=null, stdout=null, stderr=subprocess.PIPE)
    except FileNotFoundError:
        return "no ssh in the launcher's image"
    except OSError as error:
        return str(error)
    with process:
        try:
            assert process.stderr  # noqa: S101 (it is a pipe)
            said = listen(process.stderr, seconds)
            code = process.wait(seconds)
        except (TimeoutError, subprocess.TimeoutExpired):
            process.kill()
            return "ssh has not come back within %g s" % seconds
    lines = [line.strip() for line in said.decode("utf-8", "replace").split("\n") if line.strip()]
    return "" if code == 0 else lines[-1] if lines else "ssh ended with %d" % code


def listen(pipe: IO[bytes], seconds: float) -> bytes:
    """The last KEPT bytes from it, at its end; raises TimeoutError without one."""
    until = monotonic() + seconds
    poll = select.poll()
    poll.register(pipe, select.POLLIN)
    said = b""
    while monotonic() < until and poll.poll(max(0.0, until - monotonic()) * 1000):
        data = os.read(pipe.fileno(), KEPT)
        if not data:
            return said
        said = (said + data)[-KEPT:]
    raise TimeoutError


def is_heir(mark: str) -> bool:
    """Whether another agent has begun here before us; from now on one has. Raises OSError."""
    try:
        os.close(os.open(mark, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC))
    except FileExistsError:
        return True
    return False


def refuse(listener: socket.socket, reason: str) -> None:
    """Tell the broker, if it asks in time."""
    listener.settimeout(REFUSE_SECONDS)
    try:
        connection, _ = listener.accept()
        with connection:
            connection.settimeout(REFUSE_SECONDS)
            connection.recv(65536)  # its HELLO: what is not read would take our answer back
            is_fenced = reason.endswith(REPLACED)
            connection.sendall(frames.build_rejection(reason, is_fenced=is_fenced))
    except OSError as error:
        sys.stderr.write("the broker does not ask: %s\n" % error)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
