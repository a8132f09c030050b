"""Wakes a rank that waits in Gloo for what Gloo has forgotten.

Gloo ends a connection that breaks and wakes who waits on it, with two exceptions. It passes over
who waits for something that is half done: a send that had begun, as in the moment between the end
and its noticing, or what has come in part (`Pair::signalException` in gloo/transport/tcp/pair.cc
looks at `buf` of what is in `tx_`, never at `ubuf`, and not at `rx_`; `Pair::write` calls EPIPE and
ECONNRESET no error). And it reads no further, not even to the end, where what comes is for an
operation that has failed (`Pair::prepareRead`): Horovod goes on with the next one after that. Such
a rank waits for Gloo's time-out in a condition variable, whatever becomes of its connections. All
others wait for it.

So its buffer is done what Gloo should have done (`UnboundBuffer::signalException`): it gets an
exception, made by the C++ library, and its conditions are told. Only where Gloo has lost a
connection of the ring, and a thread of Horovod has been in one and the same wait for a while, in a
buffer that says it is Gloo's and looks like one that waits. First the connections that are left are
shut, for who waits on one of these is woken by that, and nothing is under way afterwards.

Gloo's are the connections that it has its epoll watch for an object of its own: the kernel says for
which (`tfd:` in /proc/self/fdinfo/N, gloo/transport/tcp/loop.cc). There is an epoll for each set of
processes. One that breaks keeps its epoll; what is closed in peace, as a set that is removed,
closes that too.

What is read of memory is read by the kernel: wrong guesses end there.
Loaded by sitecustomize, by its path; standard library only, for Python 3.7.
"""

import ctypes
import os
import re
import struct
import threading
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, Iterable, List, Optional, Set, Tuple

    Wait = Tuple[int, int, int]
    """At which futex, and until when: seconds and nanoseconds."""
    Entry = Tuple[int, int, int]
    """What an epoll watches, its number and inode, and the address that it has for it."""

LOOK_SECONDS = 0.5
LOOKS = 3
"""In so many a thread has to be in the same wait, after a connection of its ring has gone."""
SHORTEST_SECONDS = 5
"""A wait that ends sooner by itself is left alone: what is waited for goes with it."""
MACHINES = {"x86_64": (202, 40), "aarch64": (98, 48)}
"""Number of the system call futex, and size of a mutex of glibc's."""
BUFFER = b"N4gloo9transport3tcp13UnboundBufferE\0"
"""What the type of a buffer of Gloo's calls itself (gloo/transport/tcp/unbound_buffer.h). Its parts
and their order are the same in Horovod 0.20 to 0.28.1."""
PAIR = b"N4gloo9transport3tcp4PairE\0"
"""What the type of a connection of Gloo's calls itself (gloo/transport/tcp/pair.h), in the same."""
_ENTRY = re.compile(r"tfd: +(\d+) .* data: +([0-9a-f]+) .* ino:([0-9a-f]+) ")
"""In /proc/self/fdinfo/N, since Linux 4.13; before, the inode was missing."""
_HEAD, _CONDITION = 40, 48
"""Bytes before its mutex, and of each of the two condition variables after it."""
_STATE = struct.Struct("=??xxiiii4xQ")
"""After these: whether its waits are aborted; number and rank of what was received, and of what was
sent; the exception. The last is at an address of its own size, and there is a hole before it."""
_EXCEPTION = 24
_WORD = 8


class Memory:
    """The memory of this process, read through the kernel: OSError where none is, and no crash."""

    def __init__(self) -> None:
        self._file = os.open("/proc/self/mem", os.O_RDONLY | os.O_CLOEXEC)

    def close(self) -> None:
        """Read no more."""
        os.close(self._file)

    def read(self, address: int, size: int) -> bytes:
        """So many bytes."""
        if not 0 < address < 1 << 62:
            raise OSError("no address")
        found = os.pread(self._file, size, address)
        if len(found) < size:
            raise OSError("no memory")
        return found

    def read_word(self, address: int) -> int:
        """A number or address that is stored there."""
        return int(struct.unpack("=Q", self.read(address, _WORD))[0])


def read_wait(memory: "Memory", thread: int) -> "Optional[Wait]":
    """For which futex, and until when, a thread waits; None where it does something else."""
    try:
        with open("/proc/self/task/%d/syscall" % thread) as file:
            words = file.read().split()
    except OSError:  # it has ended, or we may not look
        return None
    if words[0] != str(MACHINES[os.uname().machine][0]):
        return None
    try:
        until = struct.unpack("=qq", memory.read(int(words[4], 16), 16))
    except OSError:  # it waits for ever
        return None
    return int(words[1], 16), int(until[0]), int(until[1])


def find_buffer(memory: "Memory", address: int) -> "Optional[Tuple[int, bool]]":
    """In which a futex is, and whether one waits for a send with that; None: it is another's."""
    senders = _HEAD + MACHINES[os.uname().machine][1] + _CONDITION
    for distance in range(senders - _CONDITION, senders + _CONDITION, 4):
        try:
            if is_called(memory, address - distance, BUFFER):
                return address - distance, distance >= senders
        except OSError:
            continue
    return None


def is_called(memory: "Memory", address: int, name: bytes) -> bool:
    """Whether an object is of this type, by its table of virtual functions."""
    if address % _WORD:
        return False
    kind = memory.read_word(memory.read_word(address) - _WORD)
    return memory.read(memory.read_word(kind + _WORD), len(name)) == name


class Device:
    """What Gloo makes for a set of processes: an epoll, and in that the connections among them."""

    def __init__(self, number: int, entries: "Set[Entry]", connections: "Dict[int, int]") -> None:
        """Args: number of the epoll, all that is in it, and the connections, number and inode."""
        self.connections = connections
        self._number = number
        self._entries = entries

    def is_broken(self) -> bool:
        """Whether a connection has gone, and the epoll has not; its number may be another's."""
        if len(find_open(self.connections)) == len(self.connections):
            return False
        entries = read_entries(self._number)
        return entries is not None and entries <= self._entries  # nothing comes after the init


def read_entries(number: int) -> "Optional[Set[Entry]]":
    """All that an epoll of this process watches; None where it is none, or nobody tells."""
    try:
        if os.readlink("/proc/self/fd/%d" % number) != "anon_inode:[eventpoll]":
            return None
        with open("/proc/self/fdinfo/%d" % number) as file:
            return parse_entries(file)
    except OSError:
        return None


def parse_entries(lines: "Iterable[str]") -> "Optional[Set[Entry]]":
    """Of what the kernel says of an epoll; None where it says too little."""
    found = [_ENTRY.match(line) for line in lines if line.startswith("tfd:")]
    entries = {
        (int(entry.group(1)), int(entry.group(3), 16), int(entry.group(2), 16))
        for entry in found
        if entry
    }
    return entries if all(found) else None


def find_devices(connections: "Dict[int, int]") -> "List[Device]":
    """Gloo's that these connections are of: those of others are of none."""
    if not connections or not is_able():
        return []
    try:
        memory = Memory()
    except OSError:
        return []
    try:
        numbers = [int(name) for name in os.listdir("/proc/self/fd")]
        found = [_find_device(memory, number, connections) for number in sorted(numbers)]
    finally:
        memory.close()
    return [device for device in found if device.connections]


def _find_device(memory: "Memory", epoll: int, connections: "Dict[int, int]") -> "Device":
    entries = read_entries(epoll) or set()
    made = [entry for entry in entries if connections.get(entry[0]) == entry[1]]
    pairs = {number: inode for number, inode, address in made if _is_pair(memory, address)}
    return Device(epoll, entries, pairs)


def _is_pair(memory: "Memory", address: int) -> bool:
    try:
        return is_called(memory, address, PAIR)
    except OSError:
        return False


class Guard:
    """Looks after one ring of this process."""

    def __init__(
        self,
        devices: "List[Device]",
        threads: "Set[int]",
        hang_up: "Callable[[Dict[int, int]], None]",
        say: "Callable[[str, str], None]",
        find_lost: "Callable[[Dict[int, int]], Dict[int, int]]",
    ) -> None:
        """Args: its parts; threads made with it; what shuts, tells people, finds who is gone."""
        self._devices = devices
        self._threads = threads
        self._hang_up = hang_up
        self._say = say
        self._find_lost = find_lost
        self._waits = {}  # type: Dict[int, Tuple[Wait, int]]
        self._is_shut = False
        self._is_over = threading.Event()

    def start(self) -> None:
        """Look until the ring has been left."""
        thread = threading.Thread(target=self._run, name="edl-ring", daemon=True)
        thread.start()

    def stop(self) -> None:
        """The ring has been left."""
        self._is_over.set()

    def _run(self) -> None:
        while not self._is_over.wait(LOOK_SECONDS):
            try:
                self.look()
            except Exception as error:  # noqa: BLE001 (a rank never fails of us)
                reason = "%s: %s" % (type(error).__name__, error)
                self._say("waking", "a rank that Gloo forgets is left to it: " + reason)
                return

    def look(self) -> None:
        """Shut what is left of a ring that is broken, or wake who waits in spite of that.

        A connection to who is gone is shut first: that breaks the ring, as its end would have.
        """
        lost = self._find_lost(join(self._devices))
        if lost:
            self._hang_up(lost)
            self._say("gone", "a worker is gone, so this rank ends its connections to that one")
        if not any(device.is_broken() for device in self._devices):
            self._waits = {}
            return
        memory = Memory()
        try:
            stuck = self._find_stuck(memory)
            if not stuck or self._is_over.is_set():
                return
            self._waits = {}  # what follows has its time
            left = find_open(join(self._devices))
            if left and not self._is_shut:
                self._is_shut = True
                self._hang_up(left)
            else:
                self._wake(memory, stuck)
        finally:
            memory.close()

    def _find_stuck(self, memory: "Memory") -> "List[int]":
        """The futexes, of buffers of Gloo's, that the ring's threads have been at for a while."""
        found = {thread: read_wait(memory, thread) for thread in self._threads}
        before, self._waits = self._waits, {}
        for thread, wait in found.items():
            if wait is not None:
                same, looks = before.get(thread, (wait, 0))
                self._waits[thread] = (wait, looks + 1 if same == wait else 1)
        lasting = [wait for wait, looks in self._waits.values() if looks >= LOOKS]
        return [wait[0] for wait in lasting if self._is_stuck(memory, wait)]

    def _is_stuck(self, memory: "Memory", wait: "Wait") -> bool:
        return not is_soon(wait) and find_buffer(memory, wait[0]) is not None

    def _wake(self, memory: "Memory", addresses: "List[int]") -> None:
        for address in addresses:
            found = find_buffer(memory, address)
            if found is None:  # the wait has ended meanwhile
                continue
            buffer, is_sender = found
            if signal_exception(memory, buffer, is_sender=is_sender):
                self._say("woken", "this rank was in a wait that Gloo had forgotten, and is woken")


def is_waiting(memory: "Memory", buffer: int, *, is_sender: bool) -> bool:
    """Whether there is a buffer, nothing has come, or was sent, and nothing else ended the wait."""
    try:
        if not is_called(memory, buffer, BUFFER):
            return False
        state = memory.read(buffer + _find_state(), _STATE.size)
    except OSError:
        return False
    aborts_recv, aborts_send, received, _, sent, _, error = _STATE.unpack(state)
    return not (aborts_recv or aborts_send or error or (sent if is_sender else received))


def _find_state() -> int:
    return _HEAD + MACHINES[os.uname().machine][1] + 2 * _CONDITION


def signal_exception(memory: "Memory", buffer: int, *, is_sender: bool) -> bool:
    """What Gloo's own function of that name does; False where nobody waits, or somebody is at it.

    Nobody wakes who waits while we have the mutex, and what may have become another's until then
    is looked at once more. What was made in vain is left where it is: a few bytes.
    """
    if not is_waiting(memory, buffer, is_sender=is_sender):
        return False
    library = ctypes.CDLL(None)
    mutex = ctypes.c_void_p(buffer + _HEAD)
    conditions = buffer + _find_state() - 2 * _CONDITION
    make_pointer = _find(_load(), "_ZNSt15__exception_ptr13exception_ptrC1EPv")  # of an exception
    error = make_error(b"the connection that this waited for has ended")
    if library.pthread_mutex_trylock(mutex):
        return False
    try:
        if not is_waiting(memory, buffer, is_sender=is_sender):
            return False
        make_pointer(buffer + _find_state() + _EXCEPTION, error)
        for place in (conditions, conditions + _CONDITION):
            library.pthread_cond_broadcast(ctypes.c_void_p(place))
    finally:
        library.pthread_mutex_unlock(mutex)
    return True


def make_error(text: bytes) -> int:
    """A std::runtime_error, as `throw` makes it."""
    library = _load()
    allocate = library["__cxa_allocate_exception"]
    allocate.restype = ctypes.c_void_p
    error = int(allocate(ctypes.c_size_t(2 * _WORD)))
    kind = ctypes.addressof(ctypes.c_char.in_dll(library, "_ZTISt13runtime_error"))
    end = ctypes.cast(library["_ZNSt13runtime_errorD1Ev"], ctypes.c_void_p).value
    _find(library, "__cxa_init_primary_exception")(error, kind, end)
    _find(library, "_ZNSt13runtime_errorC1EPKc")(error, text)
    return error


def _load() -> "Any":
    return ctypes.CDLL("libstdc++.so.6")


def _find(library: "Any", name: str) -> "Any":
    function = library[name]
    function.restype = None
    return lambda *pointers: function(
        *[ctypes.c_void_p(pointer) if isinstance(pointer, int) else pointer for pointer in pointers]
    )


def is_open(number: int, inode: int) -> bool:
    """Whether a socket of this process is still there under its number."""
    try:
        return os.fstat(number).st_ino == inode
    except OSError:
        return False


def find_open(connections: "Dict[int, int]") -> "Dict[int, int]":
    """The ones of these that are still open."""
    return {number: inode for number, inode in connections.items() if is_open(number, inode)}


def join(devices: "List[Device]") -> "Dict[int, int]":
    """The connections of all of them, number and inode."""
    return {n: inode for device in devices for n, inode in device.connections.items()}


def is_soon(wait: "Wait") -> bool:
    """Whether the wait ends by itself before long; until when is said by one of two clocks."""
    clocks = [time.clock_gettime(kind) for kind in (time.CLOCK_MONOTONIC, time.CLOCK_REALTIME)]
    now = min(clocks, key=lambda clock: abs(wait[1] - clock))
    return wait[1] - now < SHORTEST_SECONDS


def is_able() -> bool:
    """Whether this is a machine, and a C library, whose sizes are known here."""
    try:
        library = os.confstr("CS_GNU_LIBC_VERSION") or ""
    except (OSError, ValueError):
        return False
    is_known = library.startswith("glibc") and os.uname().machine in MACHINES
    return is_known and struct.calcsize("P") == _WORD


def find_threads() -> "Set[int]":
    """The ids of all threads of this process, those of Python and others."""
    return {int(name) for name in os.listdir("/proc/self/task")}


def watch(devices: "List[Device]", threads: "Set[int]", *ways: "Any") -> "Optional[Guard]":
    """Somebody who looks after the ring that these are of; None where there is none."""
    if not devices:
        return None
    guard = Guard(devices, threads, *ways)
    guard.start()
    return guard
