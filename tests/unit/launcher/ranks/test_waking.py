"""Who is woken that Gloo has forgotten, and who is left alone."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from launcher.ranks import sockets, waking
from tests.unit.launcher.ranks.buffers import RECEIVE, SEND, Buffer, Waiter
from tests.unit.launcher.ranks.horovods import install, train
from tests.unit.launcher.shim.brokers import ROOT

LOOKS = range(2 * waking.LOOKS)


class Ring:
    """Two connections of this process."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._ours = [socket.create_connection(self._listener.getsockname()) for _ in range(2)]
        self.peers = [self._listener.accept()[0] for _ in range(2)]
        for peer in self.peers:
            peer.setblocking(False)
        self.connections = {end.fileno(): os.fstat(end.fileno()).st_ino for end in self._ours}
        self.said: list[str] = []

    def watch(self, *waiters: Waiter) -> waking.Guard:
        """What looks after it, which does so when it is told to."""
        threads = {waiter.number for waiter in waiters} | {os.getpid()}
        return waking.Guard(self.connections, threads, sockets.shut, self._say)

    def _say(self, _kind: str, text: str) -> None:
        self.said.append(text)

    def lose(self, number: int) -> None:
        """So many connections, as Gloo closes what has ended."""
        for end in self._ours[:number]:
            end.close()

    def is_shut(self, place: int) -> bool:
        """Whether the other end hears that."""
        try:
            return self.peers[place].recv(1) == b""
        except BlockingIOError:
            return False

    def close(self) -> None:
        """All of it."""
        for end in (*self._ours, *self.peers, self._listener):
            end.close()


@pytest.fixture
def ring() -> Iterator[Ring]:
    made = Ring()
    yield made
    made.close()


@contextmanager
def waiting(buffer: Buffer, place: int = SEND, seconds: int = 60) -> Iterator[Waiter]:
    """A thread that waits there meanwhile."""
    waiter = Waiter(buffer, place, seconds)
    try:
        yield waiter
    finally:
        waiter.end()


ENDED = b"the connection that this waited for has ended"


@pytest.mark.parametrize("place", [SEND, RECEIVE])
def test_who_waits_is_woken_when_no_connection_is_left(ring: Ring, place: int):
    buffer = Buffer()
    with waiting(buffer, place) as waiter:
        guard = ring.watch(waiter)
        ring.lose(2)
        for _ in range(waking.LOOKS - 1):
            guard.look()
        assert buffer.error is None
        guard.look()
        assert buffer.error == ENDED
        waiter.thread.join(20)
        assert not waiter.thread.is_alive()
    assert ring.said == ["this rank was in a wait that Gloo had forgotten, and is woken"]
    buffer.forget()


@pytest.mark.parametrize("place", [SEND, RECEIVE])
def test_what_is_left_of_a_broken_ring_is_shut_first_and_then_who_still_waits_is_woken(
    ring: Ring, place: int
):
    buffer = Buffer()
    with waiting(buffer, place) as waiter:
        guard = ring.watch(waiter)
        ring.lose(1)
        for _ in range(waking.LOOKS - 1):
            guard.look()
        assert not ring.is_shut(1)
        for _ in range(waking.LOOKS):
            guard.look()
        assert ring.is_shut(1)
        assert buffer.error is None
        guard.look()  # though Gloo has not closed that
        assert buffer.error == ENDED
    buffer.forget()


@pytest.mark.parametrize(
    ("place", "where"),
    [(RECEIVE, 4), (SEND, 12), (SEND, 0), (RECEIVE, 24), (SEND, 24)],
    ids=["received", "sent", "aborted", "woken", "woken"],
)
def test_who_has_what_it_waited_for_is_left_alone(ring: Ring, place: int, where: int):
    buffer = Buffer()
    with waiting(buffer, place) as waiter:
        guard = ring.watch(waiter)
        ring.lose(2)
        buffer.put(where, 1)
        for _ in LOOKS:
            guard.look()
        buffer.put(where, 0)
        assert (buffer.error, ring.said) == (None, [])


def test_a_buffer_that_somebody_is_at_is_left_alone_until_the_next_time(ring: Ring):
    buffer = Buffer()
    with waiting(buffer) as waiter:
        guard = ring.watch(waiter)
        ring.lose(2)
        with buffer.held():
            for _ in LOOKS:
                guard.look()
            assert buffer.error is None
        for _ in LOOKS:
            guard.look()
        assert buffer.error == ENDED
    buffer.forget()


def test_a_ring_that_is_whole_is_left_alone(ring: Ring):
    buffer = Buffer()
    with waiting(buffer) as waiter:
        guard = ring.watch(waiter)
        for _ in LOOKS:
            guard.look()
    assert buffer.error is None
    assert [ring.is_shut(place) for place in (0, 1)] == [False, False]


@pytest.mark.parametrize("lost", [1, 2])
def test_another_kind_of_wait_is_left_alone(ring: Ring, lost: int):
    buffer = Buffer(b"N5other6BufferE")
    with waiting(buffer) as waiter:
        guard = ring.watch(waiter)
        ring.lose(lost)
        for _ in LOOKS:
            guard.look()
    assert buffer.error is None
    assert ring.is_shut(1) is (lost == 2)  # it has closed that itself
    assert ring.said == []


def test_a_wait_that_is_over_soon_is_left_alone(ring: Ring):
    buffer = Buffer()
    with waiting(buffer, seconds=waking.SHORTEST_SECONDS) as waiter:
        guard = ring.watch(waiter)
        ring.lose(2)
        for _ in LOOKS:
            guard.look()
    assert buffer.error is None


def test_waits_that_follow_each_other_are_left_alone(ring: Ring):
    buffer = Buffer()
    guard = ring.watch()
    ring.lose(2)
    for seconds in range(60, 60 + len(LOOKS)):
        with waiting(buffer, seconds=seconds) as waiter:
            guard._threads = {waiter.number}  # the same thread, were it Gloo's
            guard.look()
    assert buffer.error is None


def test_a_thread_that_was_there_before_the_ring_is_left_alone(ring: Ring):
    buffer = Buffer()
    with waiting(buffer):
        guard = ring.watch()
        ring.lose(2)
        for _ in LOOKS:
            guard.look()
    assert buffer.error is None


def test_a_rank_that_has_lost_its_ring_is_woken_in_its_init(tmp_path: Path):
    script = f"""
import threading
sys.path.append({str(ROOT)!r})
from tests.unit.launcher.ranks.buffers import Buffer, Waiter
buffers = [Buffer(), Buffer()]
before = Waiter(buffers[0])
waiters = []
horovod.during = lambda: waiters.append(Waiter(buffers[1]))
horovod.init()
for number in horovod.rings[0]:
    os.close(number)
waiters[0].thread.join(20)
horovod.shutdown()
for thread in threading.enumerate():
    if thread.name == "edl-ring":
        thread.join(20)  # it speaks after it has woken
print(buffers[1].error, buffers[0].error)
"""
    done = train(install(tmp_path), script)
    assert done.stdout == f"{ENDED!r} None\n", done.stderr
    assert done.stderr == "edl: this rank was in a wait that Gloo had forgotten, and is woken\n"
