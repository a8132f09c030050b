"""Finding the processes of sessions, wherever they have gone.

A process belongs to a session in whose process group or kernel session it is, or to which its
parent belongs. An orphan has become our own child, and belongs to the session in which it was seen
before, or whose id is in its environment. `env -i setsid` and sudo change all of that. What they do
not change is the mark, which every process of a session inherits, and none of the container's
command or of `kubectl exec`: an orphan that has the mark alone belongs to some session.

The mark is a bit of coredump_filter (core(5)): it asks for pages of DAX file systems in a core
file, and there are no core files here. To read it takes no lock, and no right. An environment may
take both (who reads that of a process which hangs with its memory locked hangs too), so it is read
once, by a thread that may be late.
"""

from __future__ import annotations

import contextlib
import errno
import os
import threading
from collections import namedtuple
from typing import Callable, Dict, FrozenSet, Iterator, List, Optional, Set, Tuple

from et_contract import names

MARK = 0x100
ANY = b""
"""Stands for a session that nobody can name."""
ENVIRON_SECONDS = 0.2
MOST_REAPED = 64
"""Sessions whose first process has ended since we have looked: the kernel gives numbers out again,
and a worker may run sessions for months that nobody has to look for."""
_RELAYS = frozenset([
    *(b"mpiexec", b"mpirun", b"orted", b"orterun", b"prte", b"prted", b"prterun"),
    *(b"dumb-init", b"sudo"),
])  # fmt: skip
"""Programs, as proc(5) names them, whose handlers pass a signal on to all that they have started,
with a handler or without: Open MPI's daemons (orte/mca/ess/base/ess_base_std_orted.c), and who
stands in the place of a program."""
_VARIABLE = names.ENV_SESSION.encode() + b"="
_ID = 16
"""Bytes of a session's name."""
_GONE = (errno.ENOENT, errno.ESRCH, errno.EACCES, errno.EPERM)
"""The process has ended, or is not ours to look at; any other error says nothing about it."""

_Process = namedtuple(
    "_Process",
    [
        "pid",
        "parent",
        "group",
        "sid",
        "start",
        "thread",  # one that has not ended: a thread lets go of what is read of it when it ends
    ],
)


def leave_mark() -> None:
    """All that we start from now on is a session's."""
    try:
        with open("/proc/self/coredump_filter", "w", encoding="ascii") as file:
            file.write(str(MARK))
    except OSError:
        # Not on this kernel: then the other ways have to do.
        return


class Surveyor:
    """Knows the sessions that were started here; `proc` is where procfs is mounted.

    `survey` and `sweep` raise OSError where they cannot look: no descriptor, thread or memory.
    """

    def __init__(self, proc: str = "/proc") -> None:
        self._proc = proc
        self._leaders: Dict[int, bytes] = {}
        """By the pid of a session's first process, the number of its group and kernel session."""
        self._reaped: Set[int] = set()
        """Of these the number comes again once nobody is left in group and kernel session."""
        self._most_reaped = MOST_REAPED
        self._known: Dict[Tuple[int, bytes], Optional[bytes]] = {}
        """By pid and start: the session that a process was once seen in, or that it names."""
        self._unread: Optional[OSError] = None
        """Why the name of an orphan could not be read in this pass."""
        self._reserve: Optional[int] = None
        self._keep_reserve()

    def add(self, session: bytes, leader: int) -> None:
        """`leader` was started for `session`, called setsid, and has not been reaped."""
        self._leaders[leader] = session
        self._reaped.discard(leader)

    def forget(self, leader: int) -> None:
        """`leader` was reaped."""
        self._reaped.add(leader)
        if len(self._reaped) > self._most_reaped:
            try:
                self._forget_numbers(self._processes())
            except OSError:
                return  # no descriptor now: the next end tries again
            self._most_reaped = MOST_REAPED + len(self._reaped)

    def survey(self, number: int, spared: FrozenSet[bytes] = frozenset()) -> int:
        """Count the living processes of all sessions; send each `number` unless 0.

        Process groups of the sessions in `spared` are counted and not signalled.
        """
        return self._look(number, spared, lambda _owner: True)

    def sweep(self, session: bytes, number: int, *, spares_group: bool) -> int:
        """Count and signal, as `survey` does, what is left of one session."""
        spared = frozenset([session] if spares_group else [])
        return self._look(number, spared, lambda owner: owner == session)

    def notify(self, number: int) -> int:
        """Send `number` to each process below us that has a handler for it; how many have.

        Whoever has none would end by it: most shells for one. So nobody is told who passes it on:
        all that are below him are looked at as well. Sessions or not: the container's own
        command is one of them, what `kubectl exec` has started is not. Each is signalled before the
        next is looked at: of thousands, many would be other programs by the end.
        """
        count = 0
        with self._using_reserve():
            for pid in self._find_below(self._processes()):
                if self._has_handler(pid, number):
                    _kill(pid, number)
                    count += 1
        return count

    # ------------------------------------------------------------ inside

    def _look(
        self, number: int, spared: FrozenSet[bytes], is_wanted: Callable[[bytes], bool]
    ) -> int:
        with self._using_reserve():
            # A parent that forks and ends during one pass can hide its child from it, not from two.
            return self._pass(number, spared, is_wanted) or self._pass(number, spared, is_wanted)

    @contextlib.contextmanager
    def _using_reserve(self) -> Iterator[None]:
        if self._reserve is not None:
            os.close(self._reserve)
        try:
            yield
        finally:
            self._keep_reserve()

    def _keep_reserve(self) -> None:
        """Have a descriptor to look with when the container has used up all others."""
        try:
            self._reserve = os.open(os.devnull, os.O_RDONLY)
        except OSError:
            self._reserve = None

    def _pass(
        self, number: int, spared: FrozenSet[bytes], is_wanted: Callable[[bytes], bool]
    ) -> int:
        processes = self._processes()
        self._forget_numbers(processes)
        self._unread = None
        owners: Dict[int, Optional[bytes]] = {}
        count = 0
        for process in processes.values():
            owner = self._find_owner(process, processes, owners)
            if owner is None or not is_wanted(owner):
                continue
            count += 1
            if number and self._leaders.get(process.group) not in spared:
                _kill(process.pid, number)
        if self._unread is not None:
            raise self._unread  # only now: those who leave us no thread are ended by the signal
        return count

    def _forget_numbers(self, processes: Dict[int, _Process]) -> None:
        """Let go of numbers that are free, or mean another process by now."""
        used = {process.group for process in processes.values()}
        used.update(process.sid for process in processes.values())
        for leader in [each for each in self._reaped if each not in used or each in processes]:
            self._reaped.discard(leader)
            del self._leaders[leader]
        living = {(process.pid, process.start) for process in processes.values()}
        for key in [key for key in self._known if key not in living]:
            del self._known[key]

    def _find_owner(
        self,
        process: _Process,
        processes: Dict[int, _Process],
        owners: Dict[int, Optional[bytes]],
    ) -> Optional[bytes]:
        """A process's session, or ANY; None for one that is no session's. Fills in `owners`."""
        line: List[_Process] = []
        ancestor: Optional[_Process] = process
        while ancestor is not None and ancestor.pid not in owners:
            owners[ancestor.pid] = None  # numbers that came again meanwhile could make a circle
            line.append(ancestor)
            ancestor = processes.get(ancestor.parent)
        owner = owners[ancestor.pid] if ancestor is not None else None
        for each in reversed(line):
            direct = self._leaders.get(each.group) or self._leaders.get(each.sid)
            if direct is None and each.parent == os.getpid():
                direct = self._find_owner_of_orphan(each)
            owner = owners[each.pid] = owner if direct is None else direct
            if owner:
                self._known[each.pid, each.start] = owner
        return owners[process.pid]

    def _find_owner_of_orphan(self, process: _Process) -> Optional[bytes]:
        key = (process.pid, process.start)
        if key not in self._known:
            try:
                self._known[key] = self._read_name(process.thread)
            except OSError as error:
                self._unread = error
        mark = self._read("%d/coredump_filter" % process.thread)
        is_marked = bool(int(mark or b"0", 16) & MARK)
        return self._known.get(key) or (ANY if is_marked else None)

    def _read_name(self, thread: int) -> Optional[bytes]:
        """The session in its environment; None where reading it takes too long. Raises OSError."""
        found: List[Optional[bytes]] = []

        def read() -> None:
            try:
                found.append(self._read("%d/environ" % thread))
            except OSError:
                return

        reader = threading.Thread(target=read, daemon=True)
        try:
            reader.start()
        except RuntimeError as error:  # the container has all the processes that it may have
            raise OSError(errno.EAGAIN, str(error)) from error
        reader.join(ENVIRON_SECONDS)
        for variable in ((found and found[0]) or b"").split(b"\0"):
            if variable.startswith(_VARIABLE):
                return self._parse_name(variable[len(_VARIABLE) :])
        return None

    def _parse_name(self, text: bytes) -> Optional[bytes]:
        try:
            session = bytes.fromhex(text.decode("ascii"))
        except ValueError:
            return None
        return session if len(session) == _ID else None

    def _processes(self) -> Dict[int, _Process]:
        """What lives; zombies and ourselves do not count."""
        own = str(os.getpid())
        names = [name for name in os.listdir(self._proc) if name.isdigit() and name != own]
        found = [self._read_process(name) for name in names]
        return {process.pid: process for process in found if process is not None}

    def _find_below(self, processes: Dict[int, _Process]) -> List[int]:
        """Our children, theirs, and so on."""
        children: Dict[int, List[int]] = {}
        for process in processes.values():
            children.setdefault(process.parent, []).append(process.pid)
        found: List[int] = []
        waiting = children.pop(os.getpid(), [])
        while waiting:
            pid = waiting.pop()
            found.append(pid)
            waiting += children.pop(pid, [])  # once: numbers that came again could make a circle
        return found

    def _has_handler(self, pid: int, number: int) -> bool:
        """Whether the process catches this signal (proc(5): SigCgt), and for itself."""
        status = self._read("%d/status" % pid) or b""
        if status.split(b"\n", 1)[0].partition(b"\t")[2] in _RELAYS:
            return False
        caught = status.partition(b"\nSigCgt:")[2].split(b"\n", 1)[0].strip()
        try:
            return bool(int(caught or b"0", 16) >> (number - 1) & 1)
        except ValueError:  # a sandbox that writes it otherwise
            return False

    def _read_process(self, name: str) -> Optional[_Process]:
        stat = self._read(name + "/stat")
        if stat is None:
            return None
        # proc(5): pid, name in parentheses (and with some), state, ppid, group, session, ... how
        # many threads, 0, start
        fields = stat[stat.rfind(b")") + 2 :].split()
        thread: Optional[int] = int(name)
        if fields[0] in (b"Z", b"X"):  # of the first thread, which may end before the others
            thread = self._find_other_thread(name) if int(fields[17]) > 1 else None
        if thread is None:
            return None
        parent, group, sid = map(int, fields[1:4])
        return _Process(int(name), parent, group, sid, fields[19], thread)

    def _find_other_thread(self, name: str) -> Optional[int]:
        """A thread of the process that is not its first; None where there is none any more."""
        try:
            names = os.listdir("%s/%s/task" % (self._proc, name))
        except OSError as error:
            if error.errno in _GONE:
                return None
            raise
        return max((int(each) for each in names if each != name), default=None)

    def _read(self, path: str) -> Optional[bytes]:
        """None: it has ended, or is not ours to look at. Raises OSError when we cannot look."""
        try:
            with open("%s/%s" % (self._proc, path), "rb") as file:
                return file.read()
        except OSError as error:
            if error.errno in _GONE:
                return None
            raise


def _kill(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        # Gone meanwhile; or another user's, which the next survey still counts.
        return
