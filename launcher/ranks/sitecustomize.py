"""Ends a broken ring of Horovod at once, in each rank that leaves it.

Python imports this when a rank begins, in place of a sitecustomize of the image, which it then
imports as Python would have. Nothing of ours stays in the path of this process or its children.

When a worker is lost, a rank leaves its ring without closing the connections of that: another one
waits on them for Gloo's time-out, and all others for that one. So HorovodBasics.init is wrapped:
TCP sockets that were made during an init are the ring's, and those that are still open are shut
before the next. What an object of Python holds is not Horovod's. Whatever goes wrong here is said
once; training goes on as without us.

Standard library only, and readable by every Python 3: whatever it is, it is not the rank's error.
"""

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, Set

HERE = os.path.dirname(__file__)
BASICS = "horovod.common.basics"
USED = ("init", "is_initialized")
"""What has to be in HorovodBasics."""
OLDEST, NEWEST = (0, 20), (0, 28)
"""Of Horovod: the first with elastic training, the last that was looked at."""
_said = set()  # type: Set[str]


def say_once(kind: str, text: str) -> None:
    """Tell people on stderr, in what becomes the launcher's log; only the first of its kind."""
    if kind in _said:
        return
    _said.add(kind)
    try:
        sys.stderr.write("edl: %s\n" % text)
        sys.stderr.flush()
    except (AttributeError, OSError, ValueError):  # there is none, it is full, or closed
        return


def attempt(function: "Callable[..., Any]", *args: "Any") -> "Any":
    """What `function` returns; None where it fails, and people are told."""
    try:
        return function(*args)
    except Exception as error:  # noqa: BLE001 (a rank never fails of us)
        reason = "%s: %s" % (type(error).__name__, error)
        say_once("error", "broken rings are left to Horovod in this rank: " + reason)
        return None


def withdraw() -> None:
    """Leave no trace in the path: what follows finds Python as image and template have it."""
    sys.path[:] = [entry for entry in sys.path if entry != HERE]
    entries = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if HERE not in entries:
        return
    entries.remove(HERE)
    if entries:
        os.environ["PYTHONPATH"] = os.pathsep.join(entries)
    else:
        del os.environ["PYTHONPATH"]


# ---- the ring


def find_sockets() -> "Dict[int, int]":
    """Number -> inode of each socket that this process has open."""
    import stat

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
    import gc
    import socket

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
    """By a duplicate: the number may become another's at any time."""
    import errno
    import socket

    try:
        copy = os.dup(number)
    except OSError as error:
        if error.errno == errno.EBADF:  # gone meanwhile
            return
        raise
    if os.fstat(copy).st_ino != inode:
        os.close(copy)
        return
    with socket.socket(fileno=copy) as connection:
        _hang_up(connection)


def _hang_up(connection: "Any") -> None:
    import socket

    is_inet = connection.family in (socket.AF_INET, socket.AF_INET6)
    if not is_inet or connection.type != socket.SOCK_STREAM:
        return
    try:
        connection.getpeername()  # one that listens has no peer, and would listen no more
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:  # it has ended by itself
        return


# ---- Horovod


def is_known() -> bool:
    """Whether the installed Horovod is one that was looked at; people are told where it is not."""
    version = str(getattr(sys.modules.get("horovod"), "__version__", "none"))
    numbers = version.split(".")[:2]
    is_number = all(number.isdigit() for number in numbers)
    if is_number and OLDEST <= tuple(int(number) for number in numbers) <= NEWEST:
        return True
    tell_unknown("version " + version)
    return False


def tell_unknown(what: str) -> None:
    """It is the same in all ranks: one says it."""
    if os.environ.get("HOROVOD_RANK", "0") == "0":
        say_once(
            "unknown", "this Horovod is not known (%s), its broken rings are left to it" % what
        )


def wrap(module: "Any") -> None:
    """Have each init of Horovod shut what is left of the ring before it."""
    import functools

    basics = getattr(module, "HorovodBasics", None)
    missing = [name for name in USED if not callable(getattr(basics, name, None))]
    if basics is None or missing:
        tell_unknown("no HorovodBasics." + missing[0])
        return
    real = basics.init
    rings = {}  # type: Dict[int, Dict[int, int]]

    def leave(horovod: "Any") -> "Any":
        """The sockets that are there before a ring is built; None: none will be."""
        if horovod.is_initialized() or not is_known():
            return None
        shut(rings.pop(id(horovod), {}))
        return find_sockets()

    def remember(horovod: "Any", before: "Dict[int, int]") -> None:
        now = find_sockets()
        made = {n: inode for n, inode in now.items() if before.get(n) != inode}
        # Now, for later gc.freeze() may hide objects, or a script detach their numbers.
        owned = find_owned() if made else set()
        rings[id(horovod)] = {n: inode for n, inode in made.items() if n not in owned}

    @functools.wraps(real)
    def init(self: "Any", *args: "Any", **kwargs: "Any") -> "Any":
        before = attempt(leave, self)
        try:
            return real(self, *args, **kwargs)
        finally:  # one that failed has left connections too
            if before is not None:
                attempt(remember, self, before)

    basics.init = init


class Watch:
    """A finder that finds nothing by itself: it waits until Horovod's basics are imported."""

    def __init__(self) -> None:
        self._is_asking = False

    def find_spec(self, name: str, path: "Any" = None, target: "Any" = None) -> "Any":
        """What all other finders find, of that one module; None for any other."""
        if name != BASICS or self._is_asking:
            return None
        self._is_asking = True
        try:
            spec = self._ask_others(name, path, target)
        finally:
            self._is_asking = False
        if spec is not None:
            attempt(self._follow, spec.loader)
        return spec

    def _ask_others(self, *question: "Any") -> "Any":
        for finder in list(sys.meta_path):
            find = getattr(finder, "find_spec", None)
            spec = find(*question) if find is not None and finder is not self else None
            if spec is not None:
                return spec
        return None

    def _follow(self, loader: "Any") -> None:
        execute = loader.exec_module

        def exec_module(module: "Any") -> None:
            attempt(self._leave, loader)
            execute(module)
            if module.__name__ == BASICS:
                attempt(wrap, module)

        loader.exec_module = exec_module

    def _leave(self, loader: "Any") -> None:
        vars(loader).pop("exec_module", None)
        if self in sys.meta_path:
            sys.meta_path.remove(self)


def begin() -> None:
    """Be what Python takes for sitecustomize, when a rank begins."""
    attempt(withdraw)
    if sys.version_info >= (3, 7):  # before, a socket does not know its family from its number
        attempt(sys.meta_path.insert, 0, Watch())
    # Of errors in it, and of there being none, Python tells as if this had not been in between.
    del sys.modules[__name__]
    __import__(__name__)


if __name__ == "sitecustomize":
    begin()
