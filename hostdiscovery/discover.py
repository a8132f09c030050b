"""Prints the list of hosts for horovodrun, which runs it every second as discover_hosts.sh.

The broker's answer when it comes in time, else the last list that it wrote; the same lines either
way. Exit code 0 with a whole list or 1 with none: after a first good answer horovodrun keeps its
hosts on 1. It always ends in time, because horovodrun waits for it with its lock held, for ever.
"""

from __future__ import annotations

import os
import select
import socket
import sys
from time import monotonic

sys.path.insert(0, __file__.rpartition("/hostdiscovery/")[0])  # `python3 -I` adds no folder

from et_contract import frames, hosts, names, paths

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Optional

ANSWER_SECONDS = 0.3
"""What the broker has, before the file is read instead."""
FIRST_LIST_SECONDS = 10.0
"""What a broker that has not yet written any list has, or whose disk did not take the last one."""
_PAUSE_SECONDS = 0.1


def discover(broker: str, file: str, nonce: str) -> Optional[str]:
    """The list as text, checked; None when there is none after FIRST_LIST_SECONDS."""
    deadline = monotonic() + FIRST_LIST_SECONDS
    while True:
        text = ask(broker, nonce, ANSWER_SECONDS)
        if text is None:
            text = read(file)
        if text is not None or monotonic() > deadline:
            return text
        select.select([], [], [], _PAUSE_SECONDS)


def ask(broker: str, nonce: str, seconds: float) -> Optional[str]:
    """The broker's list; None when there is no whole and good answer within `seconds`.

    The broker notes a list as served when its answer could be sent. Therefore the socket is shut
    for reading before the last look at it: whatever was sent until then is used.
    """
    deadline = monotonic() + seconds
    decoder = frames.Decoder()
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(seconds)
            connection.connect(broker)
            connection.sendall(frames.encode_json(frames.HOSTS, {"nonce": nonce}))
            while True:
                data = receive(connection, deadline - monotonic())
                if not data:
                    return None
                decoder.feed(data)
                for frame in decoder:
                    return _read_answer(frame)
    except (OSError, LookupError, ValueError, frames.ProtocolError):
        return None


def read(file: str) -> Optional[str]:
    """The last list that the broker wrote; None when there is none, or no good one."""
    try:
        return hosts.format_hosts(hosts.read_hosts(file))
    except (OSError, hosts.InvalidHosts):
        return None


def receive(connection: socket.socket, seconds: float) -> bytes:
    """Some bytes, b"" at the end of the connection, and after `seconds` that end is made.

    From then on the sender fails to send, so what it has sent by then is all that it can count as
    received; and that is still returned.
    """
    try:
        connection.settimeout(max(seconds, 0.001))
        return connection.recv(65536)
    except socket.timeout:
        connection.shutdown(socket.SHUT_RD)
        return connection.recv(65536)


def _read_answer(frame: frames.Frame) -> Optional[str]:
    if frame.type != frames.HOSTS_LIST:
        return None
    return hosts.format_hosts(hosts.parse_hosts(str(frames.decode_json(frame)["text"])))


def main() -> int:
    """Prints the list; the exit code."""
    text = discover(paths.BROKER_SOCKET, paths.HOSTS_FILE, os.environ.get(names.ENV_NONCE, ""))
    if text is None:
        os.write(2, b"discover_hosts: no list of hosts from the broker yet\n")
        return 1
    data = text.encode("ascii")
    while data:
        data = data[os.write(1, data) :]
    return 0


if __name__ == "__main__":
    sys.exit(main())
