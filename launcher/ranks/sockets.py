"""The sockets of this process: which there are, whose they are, and what shuts them.

Loaded by sitecustomize, by its path; standard library only, for Python 3.7.
"""

import errno
import gc
import os
import socket
import stat
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, Set


def find_sockets() -> "Dict[int, int]":
    """Number -> inode of each socket that this process has open."""
    found = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            status = os.fstat(int(name))
        except OSError:  # the listing's own, or closed meanwhile
            continue
        if stat.S_ISSOCK(status.st_mode):
            found[int(name)] = status.st_ino
    return found


def find_owned() -> "Set[int]":
    """Numbers of the sockets that objects of Python hold: the script's and its libraries'."""
    connections = getattr(sys.modules.get("multiprocessing.connection"), "Connection", None)
    kinds = [kind for kind in (socket.SocketType, connections) if kind is not None]
    found = [item for item in gc.get_objects() if issubclass(type(item), tuple(kinds))]
    return {_ask_number(kind, item) for kind in kinds for item in found}


def _ask_number(kind: "Any", item: "Any") -> int:
    """By the kind's own way, for one of the script's may do anything; -1 where there is none."""
    try:
        return int(kind.fileno(item)) if issubclass(type(item), kind) else -1
    except OSError:  # a Connection that is closed
        return -1


def shut(ring: "Dict[int, int]") -> None:
    """Shut the connections among these sockets that are still open."""
    now = find_sockets()
    for number, inode in sorted(ring.items()):
        if now.get(number) == inode:
            _shut_one(number, inode)


def _shut_one(number: int, inode: int) -> None:
    with _copy(number, inode) as copy:
        if _find_peer(copy):
            try:
                copy.shutdown(socket.SHUT_RDWR)
            except OSError:  # it has ended by itself
                return


def find_connections(ring: "Dict[int, int]") -> "Dict[int, int]":
    """The ones of these sockets that are connected by TCP."""
    return {number: ring[number] for number in find_peers(ring)}


def find_peers(ring: "Dict[int, int]") -> "Dict[int, str]":
    """Where the ones that are connected by TCP lead: the address, by number."""
    found = {}
    for number, inode in ring.items():
        with _copy(number, inode) as copy:
            peer = _find_peer(copy)
        if peer:
            found[number] = peer
    return found


def _copy(number: int, inode: int) -> "Any":
    """A duplicate, for the number may become another's at any time; of nothing if it has."""
    try:
        copy = os.dup(number)
    except OSError as error:
        if error.errno == errno.EBADF:  # gone meanwhile
            return socket.socket()
        raise
    if os.fstat(copy).st_ino != inode:
        os.close(copy)
        return socket.socket()
    return socket.socket(fileno=copy)


def _find_peer(copy: "Any") -> str:
    """The address to which it leads; "" where it is no connection."""
    if copy.family not in (socket.AF_INET, socket.AF_INET6) or copy.type != socket.SOCK_STREAM:
        return ""
    try:
        return str(copy.getpeername()[0])
    except OSError:  # one that listens has no peer, and would listen no more
        return ""
