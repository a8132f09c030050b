"""A buffer as Gloo's in the memory of this process, and a thread that waits in it."""

from __future__ import annotations

import ctypes
import os
import platform
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from launcher.ranks import waking

LIBC = ctypes.CDLL(None)
_MUTEX = 40
_SIZE = waking.MACHINES[platform.machine()][1]
RECEIVE, SEND = _MUTEX + _SIZE, _MUTEX + _SIZE + 48
"""Where, in a buffer, its two condition variables are."""
_STATE = SEND + 48
_ERROR = _STATE + 24


class Buffer:
    """One that nobody has woken."""

    def __init__(self, name: bytes = waking.BUFFER) -> None:
        self._name = ctypes.create_string_buffer(name)
        self._kind = (ctypes.c_uint64 * 2)(0, ctypes.addressof(self._name))
        self._table = (ctypes.c_uint64 * 3)(0, ctypes.addressof(self._kind), 0)
        self._memory = (ctypes.c_uint64 * 40)(ctypes.addressof(self._table) + 16)
        self.address = ctypes.addressof(self._memory)

    def get(self, place: int) -> ctypes.c_void_p:
        """For a function of C."""
        return ctypes.c_void_p(self.address + place)

    def put(self, place: int, number: int) -> None:
        """Have a number at a place of its state."""
        ctypes.c_int32.from_address(self.address + _STATE + place).value = number

    @property
    def error(self) -> bytes | None:
        """What the exception says that it was given."""
        error = ctypes.c_void_p.from_address(self.address + _ERROR).value
        what = ctypes.CDLL("libstdc++.so.6")["_ZNKSt13runtime_error4whatEv"]
        what.restype = ctypes.c_char_p
        return what(ctypes.c_void_p(error)) if error else None

    @contextmanager
    def held(self) -> Iterator[None]:
        """By somebody else."""
        LIBC.pthread_mutex_lock(self.get(_MUTEX))
        yield
        LIBC.pthread_mutex_unlock(self.get(_MUTEX))

    def forget(self) -> None:
        """As who has caught the exception."""
        ctypes.CDLL("libstdc++.so.6")["_ZNSt15__exception_ptr13exception_ptrD1Ev"](self.get(_ERROR))
        ctypes.c_void_p.from_address(self.address + _ERROR).value = None


class Waiter:
    """A thread in a buffer, which has begun to wait when this is there."""

    def __init__(self, buffer: Buffer, place: int = SEND, seconds: int = 60) -> None:
        self._buffer = buffer
        self._place = place
        self._until = (ctypes.c_int64 * 2)(
            int(time.clock_gettime(time.CLOCK_REALTIME)) + seconds, 0
        )
        self._is_over = False
        self.number = 0
        self.thread = threading.Thread(target=self._wait, daemon=True)
        self.thread.start()
        memory = waking.Memory()
        while self.thread.is_alive() and not waking.read_wait(memory, self.number):
            os.sched_yield()
        memory.close()

    def _wait(self) -> None:
        words = self._buffer.get(self._place), self._buffer.get(_MUTEX), self._until
        LIBC.pthread_mutex_lock(words[1])
        self.number = int(LIBC.gettid())
        while not (self._is_over or self._buffer.error) and not LIBC.pthread_cond_timedwait(*words):
            pass
        LIBC.pthread_mutex_unlock(words[1])

    def end(self) -> None:
        """Wait no more."""
        LIBC.pthread_mutex_lock(self._buffer.get(_MUTEX))
        self._is_over = True
        LIBC.pthread_mutex_unlock(self._buffer.get(_MUTEX))
        LIBC.pthread_cond_broadcast(self._buffer.get(self._place))
        self.thread.join()
