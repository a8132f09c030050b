"""Which connections of a ring lead to members that are gone.

A worker whose node is cut off, or whose pod's network went before its processes did, closes
nothing: no end ever comes on a connection to it. The broker knows of it from the operator, and the
agent beside us writes what that says to a file. Its first line is a time by the clock of this
machine, shortly before the broker said so; each further one is an address that only members had
then which are gone. A ring that was made after that time may have a new member with one of
them: of such a ring the word says nothing.

Loaded by sitecustomize, by its path; standard library only, for Python 3.7.
"""

import os
import socket
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, Set

MOST_BYTES = 2**19
_MAPPED = bytes(10) + b"\xff\xff"
"""An address of IPv4 as one of IPv6 begins so."""


class Word:
    """What is said of one ring, in a file that may come, or be another's doing, at any time."""

    def __init__(
        self, path: str, made: float, find_peers: "Callable[[Dict[int, int]], Dict[int, str]]"
    ) -> None:
        """Args: where it is; the monotonic time when the ring had been made; what asks sockets."""
        self._path = path
        self._made = made
        self._find_peers = find_peers
        self._seen = None  # type: Any

    def find_lost(self, ring: "Dict[int, int]") -> "Dict[int, int]":
        """Of these connections, number and inode, those of which it has just been said."""
        gone = self._read_news()
        peers = self._find_peers(ring) if gone else {}
        return {number: ring[number] for number, peer in peers.items() if pack(peer) in gone}

    def _read_news(self) -> "Set[bytes]":
        try:
            status = os.stat(self._path)
            seen = status.st_ino, status.st_mtime_ns
            if seen == self._seen:
                return set()
            text = _read(self._path)
            self._seen = seen
            before, addresses = parse(text)
        except (OSError, ValueError):  # nothing has been said, or not by ours
            return set()
        return addresses if self._made < before else set()


def _read(path: str) -> str:
    number = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        status = os.fstat(number)
        if not stat.S_ISREG(status.st_mode) or status.st_size > MOST_BYTES:
            raise ValueError("no file of ours")
        return os.read(number, MOST_BYTES).decode("ascii")
    finally:
        os.close(number)


def parse(text: str) -> "Any":
    """The time and the addresses; raises OSError and ValueError."""
    first, *others = text.split("\n")
    return float(first), {pack(address) for address in others}


def pack(address: str) -> bytes:
    """Equal for equal addresses, however they are written; raises OSError and ValueError."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    packed = socket.inet_pton(family, address.partition("%")[0])
    return packed[-4:] if packed.startswith(_MAPPED) else packed
