"""Ends a broken ring of Horovod at once, in each rank that leaves it, and says how far a rank is.

Python imports this when a rank begins, in place of a sitecustomize of the image, which it then
imports as Python would have. Nothing of ours stays in the path of this process or its children.

When a worker is lost, a rank leaves its ring without closing the connections of that: another one
waits on them for Gloo's time-out, and all others for that one. So HorovodBasics.init is wrapped:
TCP sockets that were made during an init are the ring's (Gloo's alone where the kernel tells them
from others), and those that are still open are shut before the next. What an object of Python
holds is not Horovod's. Whatever goes wrong here is said
once; training goes on as without us.

A file in a folder beside ours, where the agent has made one, has the state of this process: that
Horovod is imported, that it is in hvd.init(), that this has formed a ring. It is opened once, for
a rank may drop its rights, and locked as long as it is open: what this process becomes by exec, or
what closes all its descriptors, says nothing any more.

Standard library only, and readable by every Python 3: whatever it is, it is not the rank's error.
"""

import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, Set, Tuple  # noqa: F401 (in comments)

HERE = os.path.dirname(__file__)
BASICS = "horovod.common.basics"
USED = ("init", "is_initialized")
"""What has to be in HorovodBasics."""
OLDEST, NEWEST = (0, 20), (0, 28)
"""Of Horovod: the first with elastic training, the last that was looked at."""
STATES = os.path.join(os.path.dirname(HERE), "rank-states")
GONE = os.path.join(os.path.dirname(HERE), "gone")
LEAST_NUMBER = 64
"""Of a descriptor that stays: scripts count on the lowest."""
_said = set()  # type: Set[str]
_kept = {}  # type: Dict[int, Any]
"""This process -> number, device and inode of its file; one that was forked has its own."""


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


def note(state: str) -> None:
    """Say how far this process is; where nobody asks for it, nothing."""
    pid = os.getpid()
    try:
        if pid not in _kept:
            _kept[pid] = _open(pid)
        number, place = _kept[pid]
        status = os.fstat(number)
        if (status.st_dev, status.st_ino) == place:  # else the script has closed it
            os.ftruncate(number, 0)
            os.pwrite(number, state.encode("ascii"), 0)
    except (ImportError, OSError):
        return


def _open(pid: int) -> "Any":
    import fcntl

    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_NONBLOCK
    first = os.open(os.path.join(STATES, str(pid)), flags, 0o644)
    try:
        fcntl.flock(first, fcntl.LOCK_EX | fcntl.LOCK_NB)
        number = fcntl.fcntl(first, fcntl.F_DUPFD_CLOEXEC, LEAST_NUMBER)
    finally:
        os.close(first)
    status = os.fstat(number)
    return number, (status.st_dev, status.st_ino)


# ---- Horovod


class Ring:
    """What is left of one of Horovod's when that leaves it."""

    def __init__(self) -> None:
        self._sockets = load("sockets")
        self._waking = load("waking")
        self._parting = load("parting")
        self._ring = {}  # type: Dict[int, int]
        self._before = ({}, set())  # type: Tuple[Dict[int, int], Set[int]]
        self._guard = None  # type: Any

    def leave(self) -> None:
        """Shut its sockets; remember which sockets and threads are there before the next."""
        if self._guard is not None:
            self._guard.stop()
        self._sockets.shut(self._ring)
        self._ring = {}
        self._before = (self._sockets.find_sockets(), self._waking.find_threads())

    def remember(self) -> None:
        """The next has been built, or should have been."""
        made_at = time.monotonic()
        sockets, threads = self._before
        now = self._sockets.find_sockets()
        made = {n: inode for n, inode in now.items() if sockets.get(n) != inode}
        # Now, for later gc.freeze() may hide objects, or a script detach their numbers.
        owned = self._sockets.find_owned() if made else set()
        self._ring = {n: inode for n, inode in made.items() if n not in owned}
        devices = self._waking.find_devices(self._sockets.find_connections(self._ring))
        # Where it can be told which are Gloo's, a library's in C are not.
        self._ring = self._waking.join(devices) or self._ring
        made_threads = self._waking.find_threads() - threads
        word = self._parting.Word(GONE, made_at, self._sockets.find_peers)
        self._guard = self._waking.watch(
            devices, made_threads, self._sockets.shut, say_once, word.find_lost
        )


def load(name: str) -> "Any":
    """A module beside this one, under no name that others could import."""
    from importlib import util

    spec = util.spec_from_file_location("edl_" + name, os.path.join(HERE, name + ".py"))
    module = util.module_from_spec(spec)  # type: ignore[arg-type]
    spec.loader.exec_module(module)  # type: ignore[union-attr]
    return module


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
    """Say what is not known; all ranks have the same, so one says it."""
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
    rings = {}  # type: Dict[int, Ring]

    def leave(horovod: "Any") -> "Any":
        """What will follow the ring that is to be built; None: none will be."""
        if horovod.is_initialized() or not is_known():
            return None
        ring = rings.setdefault(id(horovod), Ring())
        ring.leave()
        return ring

    @functools.wraps(real)
    def init(self: "Any", *args: "Any", **kwargs: "Any") -> "Any":
        ring = attempt(leave, self)
        attempt(note, "entered")
        state = "imported"
        try:
            result = real(self, *args, **kwargs)
            state = "joined"
            return result
        finally:  # one that failed has left connections too
            attempt(note, state)
            if ring is not None:
                attempt(ring.remember)

    basics.init = init
    attempt(note, "imported")


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
