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
exception, made by the C++ library, and its conditions are told. Only where a connection of the ring
has gone, and a thread of Horovod has been in one and the same wait for a while, in a buffer that
says it is Gloo's and looks like one that waits. First the connections that are left are shut, for
who waits on one of these is woken by that, and nothing is under way afterwards.

What is read of memory is read by the kernel: wrong guesses end there.
Loaded by sitecustomize, by its path; standard library only, for Python 3.7.
"""

import ctypes
import os
import platform
import struct
import threading
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, List, Optional, Set, Tuple

    Wait = Tuple[int, int, int]
    """At which futex, and until when: seconds and nanoseconds."""

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
_HEAD, _CONDITION = 40, 48
"""Bytes before its mutex, and of each of the two condition variables after it."""
_STATE = struct.Struct("=??xxiiii4xQ")
"""After these: whether its waits are aborted; number and rank of what was received, and of what was
sent; the exception. The last is at an address of its own size, and there is a hole before it."""
_EXCEPTION = 24
_WORD = 8


class Memory:
    """That of this process, read by the kernel; OSError where there is none."""

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
    if words[0] != str(MACHINES[platform.machine()][0]):
        return None
    try:
        until = struct.unpack("=qq", memory.read(int(words[4], 16), 16))
    except OSError:  # it waits for ever
        return None
    return int(words[1], 16), int(until[0]), int(until[1])


def find_buffer(memory: "Memory", address: int) -> "Optional[Tuple[int, bool]]":
    """In which a futex is, and whether one waits for a send with that; None: it is another's."""
    senders = _HEAD + MACHINES[platform.machine()][1] + _CONDITION
    for distance in range(senders - _CONDITION, senders + _CONDITION, 4):
        try:
            if _is_buffer(memory, address - distance):
                return address - distance, distance >= senders
        except OSError:
            continue
    return None


def _is_buffer(memory: "Memory", address: int) -> bool:
    """By the type that its table of virtual functions belongs to."""
    if address % _WORD:
        return False
    kind = memory.read_word(memory.read_word(address) - _WORD)
    return memory.read(memory.read_word(kind + _WORD), len(BUFFER)) == BUFFER


class Guard:
    """Looks after one ring of this process."""

    def __init__(
        self,
        ring: "Dict[int, int]",
        threads: "Set[int]",
        hang_up: "Callable[[Dict[int, int]], None]",
        say: "Callable[[str, str], None]",
    ) -> None:
        """Args: its connections, number and inode; the threads made with it; what shuts these."""
        self._ring = ring
        self._threads = threads
        self._hang_up = hang_up
        self._say = say
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
        """Shut what is left of a ring that is broken, or wake who waits in spite of that."""
        left = {number for number, inode in self._ring.items() if is_open(number, inode)}
        if len(left) == len(self._ring):
            return
        memory = Memory()
        try:
            stuck = self._find_stuck(memory)
            if not stuck or self._is_over.is_set():
                return
            self._waits = {}  # what follows has its time
            if left and not self._is_shut:
                self._is_shut = True
                self._hang_up({number: self._ring[number] for number in left})
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
            buffer, is_sender = find_buffer(memory, address) or (0, False)
            if is_waiting(memory, buffer, is_sender=is_sender) and signal_exception(buffer):
                self._say("woken", "this rank was in a wait that Gloo had forgotten, and is woken")


def is_waiting(memory: "Memory", buffer: int, *, is_sender: bool) -> bool:
    """Whether nothing has come, or was sent, and nothing else has ended the wait."""
    state = memory.read(buffer + _find_state(), _STATE.size)
    aborts_recv, aborts_send, received, _, sent, _, error = _STATE.unpack(state)
    return not (aborts_recv or aborts_send or error or (sent if is_sender else received))


def _find_state() -> int:
    return _HEAD + MACHINES[platform.machine()][1] + 2 * _CONDITION


def signal_exception(buffer: int) -> bool:
    """What Gloo's own function of that name does; False where somebody is at that buffer."""
    library = ctypes.CDLL(None)
    mutex = ctypes.c_void_p(buffer + _HEAD)
    conditions = buffer + _find_state() - 2 * _CONDITION
    make_pointer = _find(_load(), "_ZNSt15__exception_ptr13exception_ptrC1EPv")  # of an exception
    error = make_error(b"the connection that this waited for has ended")
    if library.pthread_mutex_trylock(mutex):
        return False
    try:
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


def is_soon(wait: "Wait") -> bool:
    """Whether it ends by itself before long; until when is said by one of two clocks."""
    clocks = [time.clock_gettime(kind) for kind in (time.CLOCK_MONOTONIC, time.CLOCK_REALTIME)]
    now = min(clocks, key=lambda clock: abs(wait[1] - clock))
    return wait[1] - now < SHORTEST_SECONDS


def is_able() -> bool:
    """Whether this is a machine, and a C library, whose sizes are known here."""
    try:
        library = os.confstr("CS_GNU_LIBC_VERSION") or ""
    except (OSError, ValueError):
        return False
    is_known = library.startswith("glibc") and platform.machine() in MACHINES
    return is_known and struct.calcsize("P") == _WORD


def find_threads() -> "Set[int]":
    """Of this process, those of Python and all others."""
    return {int(name) for name in os.listdir("/proc/self/task")}


def watch(
    connections: "Dict[int, int]",
    threads: "Set[int]",
    hang_up: "Callable[[Dict[int, int]], None]",
    say: "Callable[[str, str], None]",
) -> "Optional[Guard]":
    """Somebody who looks after that ring; None where there is none, or nothing can be done."""
    if not connections or not is_able():
        return None
    guard = Guard(connections, threads, hang_up, say)
    guard.start()
    return guard
