"""Buffers and epolls as Gloo's in this process, and a thread that waits in such a buffer."""

from __future__ import annotations

import ctypes
import os
import select
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from launcher.ranks import waking

LIBC = ctypes.CDLL(None)
_ADD = 1
"""EPOLL_CTL_ADD."""
_MUTEX = 40
_SIZE = waking.MACHINES[os.uname().machine][1]
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

    def end(self) -> None:
        """It is none any more."""
        self._memory[0] = 0

    def forget(self) -> None:
        """As who has caught the exception."""
        ctypes.CDLL("libstdc++.so.6")["_ZNSt15__exception_ptr13exception_ptrD1Ev"](self.get(_ERROR))
        ctypes.c_void_p.from_address(self.address + _ERROR).value = None


class _Event(ctypes.Structure):
    _pack_ = 1 if os.uname().machine == "x86_64" else 8
    _fields_ = (("events", ctypes.c_uint32), ("data", ctypes.c_uint64))


class Epoll:
    """One that has an object of this type for each connection, as Gloo's has."""

    def __init__(self, name: bytes = waking.PAIR) -> None:
        self._epoll = select.epoll()
        self.number = self._epoll.fileno()
        self._name = name
        self._objects: list[Buffer] = []

    def add(self, *numbers: int) -> None:
        """Watch these connections."""
        for number in numbers:
            self._objects.append(Buffer(self._name))
            event = _Event(select.EPOLLIN, self._objects[-1].address)
            words = self.number, _ADD, number, ctypes.byref(event)
            assert LIBC.epoll_ctl(*words) == 0

    def close(self) -> int:
        """Watch none any more; its number, which may become another's."""
        self._epoll.close()
        return self.number


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
