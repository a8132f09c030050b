"""Who is woken that Gloo has forgotten, and who is left alone."""

from __future__ import annotations

import os
import select
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from launcher.ranks import parting, sockets, waking
from tests.unit.launcher.ranks.buffers import RECEIVE, SEND, Buffer, Epoll, Waiter
from tests.unit.launcher.ranks.horovods import install, train
from tests.unit.launcher.shim.brokers import ROOT

PEERS = ("127.0.0.1", "127.0.0.2")
LOOKS = range(2 * waking.LOOKS)


class Ring:
    """Two connections of this process that are Gloo's, and others that are not.

    Each leads to another address.
    """

    def __init__(self, folder: Path) -> None:
        self.file = folder / "gone"
        self._listener = socket.create_server(("", 0))
        port = self._listener.getsockname()[1]
        self._ours = [socket.create_connection((address, port)) for address in PEERS]
        self.peers = [self._listener.accept()[0] for _ in range(2)]
        for peer in self.peers:
            peer.setblocking(False)
        self.epoll = Epoll()
        self.epoll.add(*(end.fileno() for end in self._ours))
        self.connections = note_inodes(*self._ours)
        self.said: list[str] = []

    def connect(self) -> socket.socket:
        """One more, made by somebody else at that time."""
        made = socket.create_connection((PEERS[1], self._listener.getsockname()[1]))
        self.connections.update(note_inodes(made))
        return made

    def watch(self, *waiters: Waiter) -> waking.Guard:
        """What looks after it, which does so when it is told to."""
        threads = {waiter.number for waiter in waiters} | {os.getpid()}
        devices = waking.find_devices(self.connections)
        word = parting.Word(str(self.file), time.monotonic(), sockets.find_peers)
        return waking.Guard(devices, threads, sockets.shut, self.say, word.find_lost)

    def say(self, _kind: str, text: str) -> None:
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

    def tell(self, before: float, *gone: str) -> None:
        """Have the word in its file that nobody has these addresses."""
        self.file.write_text("\n".join([repr(before), *gone]))

    def close_one(self, place: int) -> None:
        """As Gloo closes what has ended."""
        self._ours[place].close()

    def close(self) -> None:
        """All of it."""
        for end in (*self._ours, *self.peers, self._listener):
            end.close()
        self.epoll.close()


def find_ended(*ends: socket.socket) -> list[int]:
    """Those of these that are shut."""
    return [end.fileno() for end in ends if select.select([end], [], [], 0)[0]]


def note_inodes(*ends: socket.socket) -> dict[int, int]:
    """By number."""
    return {end.fileno(): os.fstat(end.fileno()).st_ino for end in ends}


@pytest.fixture
def ring(tmp_path: Path) -> Iterator[Ring]:
    made = Ring(tmp_path)
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


def test_a_connection_to_who_is_gone_is_shut_and_the_ring_is_broken_then(ring: Ring):
    buffer, other = Buffer(), ring.connect()
    with waiting(buffer) as waiter, other:
        guard = ring.watch(waiter)
        guard.look()
        ring.tell(time.monotonic() + 1, PEERS[1])
        guard.look()
        assert [ring.is_shut(place) for place in (0, 1)] == [False, True]
        assert find_ended(other) == [], "though it leads there too"
        guard.look()
        assert ring.said == ["a worker is gone, so this rank ends its connections to that one"]
        ring.close_one(1)  # as Gloo does then
        for _ in range(waking.LOOKS):
            guard.look()
        assert ring.is_shut(0)
        for _ in range(waking.LOOKS):
            guard.look()
        assert buffer.error == ENDED
    buffer.forget()


def test_a_ring_that_was_made_after_that_is_left_alone(ring: Ring):
    """One of its members may have the address now."""
    before = time.monotonic()
    guard = ring.watch()
    ring.tell(before, PEERS[1])
    guard.look()
    assert ([ring.is_shut(place) for place in (0, 1)], ring.said) == ([False, False], [])
    ring.tell(time.monotonic() + 1, PEERS[1])
    guard.look()
    assert ring.is_shut(1)


@pytest.mark.parametrize(
    "text",
    ["", "nan\n127.0.0.2", "soon\n127.0.0.2", "9e9\n127.0.0.256", "9e9\n::g", "9e9\n\xff", "9e9"],
)
def test_what_is_no_word_of_ours_says_nothing(ring: Ring, text: str):
    guard = ring.watch()
    ring.file.write_text(text, encoding="latin-1")
    guard.look()
    assert ([ring.is_shut(place) for place in (0, 1)], ring.said) == ([False, False], [])
    ring.tell(9e9, PEERS[1])
    guard.look()
    assert ring.is_shut(1)


@pytest.mark.parametrize("kind", ["pipe", "folder", "link", "large"])
def test_what_is_no_file_of_ours_is_not_read(ring: Ring, kind: str):
    guard = ring.watch()
    other = ring.file.with_name("other")
    ring.tell(9e9, PEERS[1])
    ring.file.rename(other)
    if kind == "pipe":
        os.mkfifo(ring.file)
    elif kind == "folder":
        ring.file.mkdir()
    elif kind == "link":
        ring.file.symlink_to(other)
    else:
        ring.file.write_text("9e9" + f"\n{PEERS[1]}" * 2**16)
    guard.look()
    assert ring.said == []


def test_an_address_is_the_same_however_it_is_written():
    assert parting.pack("::ffff:10.0.0.1") == parting.pack("10.0.0.1") != parting.pack("::1")
    assert parting.pack("fd00:0:0::1") == parting.pack("fd00::1%eth0")


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


@pytest.mark.parametrize("name", [None, b"N4grpc3FooE\0"], ids=["nobody's", "a library's"])
def test_a_ring_is_whole_though_another_connection_of_that_time_has_closed(
    ring: Ring, name: bytes | None
):
    other, buffer = ring.connect(), Buffer()
    theirs = Epoll(name or b"")
    if name:
        theirs.add(other.fileno())
    with waiting(buffer) as waiter:
        guard = ring.watch(waiter)
        other.close()
        for _ in LOOKS:
            guard.look()
        assert (ring.is_shut(0), ring.is_shut(1), buffer.error) == (False, False, None)
        ring.lose(1)
        for _ in LOOKS:
            guard.look()
        assert ring.is_shut(1)
    theirs.close()


def test_an_epoll_of_python_is_not_gloos(ring: Ring):
    with select.epoll() as epoll, ring.connect() as other:
        epoll.register(other.fileno())
        (device,) = waking.find_devices(ring.connections)
        assert other.fileno() not in device.connections


@pytest.mark.parametrize("after", ["nothing", "another set", "a library"])
def test_a_set_of_processes_that_is_removed_breaks_no_ring(ring: Ring, after: str):
    removed, buffer = ring.connect(), Buffer()
    epoll = Epoll()
    epoll.add(removed.fileno())
    with waiting(buffer) as waiter:
        guard = ring.watch(waiter)
        removed.close()
        number = epoll.close()
        added, next_one = (
            ring.connect(),
            Epoll(b"N4grpc3FooE\0" if after == "a library" else waking.PAIR),
        )
        if after == "nothing":
            next_one.close()
        else:
            assert next_one.number == number
            next_one.add(added.fileno())
        for _ in LOOKS:
            guard.look()
        assert (ring.is_shut(0), ring.is_shut(1), buffer.error) == (False, False, None)
    added.close()


def test_a_set_that_is_just_being_removed_is_no_broken_one_later(ring: Ring):
    """Its other processes may have closed their ends before ours."""
    removed, buffer = ring.connect(), Buffer()
    epoll = Epoll()
    epoll.add(removed.fileno())
    with waiting(buffer) as waiter:
        guard = ring.watch(waiter)
        removed.close()
        for _ in range(waking.LOOKS - 1):
            guard.look()
        epoll.close()
        guard.look()
        ring.lose(1)
        guard.look()
        assert (ring.is_shut(1), buffer.error) == (False, None)


def test_where_nobody_tells_whose_connections_are_nothing_is_done(ring: Ring):
    ring.epoll.close()
    assert waking.find_devices(ring.connections) == []
    assert waking.watch([], set(), sockets.shut, ring.say, dict) is None
    assert waking.read_entries(min(ring.connections)) is None


def test_a_kernel_that_names_no_inodes_tells_too_little():
    new = "tfd:        4 events:       1f data:     7f0a5c10  pos:0 ino:c8cd5 sdev:9\n"
    old = "tfd:        5 events:       1f data: ffffffffffffffff\n"
    assert waking.parse_entries(["pos:\t0\n", new]) == {(4, 0xC8CD5, 0x7F0A5C10)}
    assert waking.parse_entries(["pos:\t0\n", new, old]) is None
    assert waking.parse_entries(["pos:\t0\n"]) == set()


def test_a_wait_that_ends_just_then_leaves_the_others_to_be_woken(ring: Ring):
    buffers = [Buffer() for _ in range(3)]

    def say(_kind: str, text: str) -> None:
        ring.said.append(text)
        for buffer in buffers:
            if buffer.error is None and len(ring.said) == 1:
                buffer.end()
                break

    ring.say = say  # type: ignore[method-assign]
    with waiting(buffers[0]) as one, waiting(buffers[1]) as two, waiting(buffers[2]) as three:
        guard = ring.watch(one, two, three)
        ring.lose(2)
        for _ in range(waking.LOOKS):
            guard.look()
        assert sorted(buffer.error or b"" for buffer in buffers) == [b"", ENDED, ENDED]
    for buffer in buffers:
        buffer.forget()


class Late(waking.Memory):
    """After the first look at its state what a buffer waits for comes, or it becomes another's."""

    def __init__(self, change: Callable[[], None]) -> None:
        super().__init__()
        self._change = change

    def read(self, address: int, size: int) -> bytes:
        found = super().read(address, size)
        if size not in (8, len(waking.BUFFER)):
            self._change()
        return found


@pytest.mark.parametrize("change", ["comes", "ends"])
def test_a_buffer_is_looked_at_once_more_when_nobody_else_can_be_at_it(change: str):
    buffer = Buffer()
    memory = Late(buffer.end if change == "ends" else lambda: buffer.put(4, 7))
    assert not waking.signal_exception(memory, buffer.address, is_sender=False)
    assert buffer.error is None
    with buffer.held():  # which it was not afterwards
        pass
    memory.close()


def test_no_program_is_asked_what_machine_this_is(tmp_path: Path):
    done = train(install(tmp_path), "sys.modules['platform'] = None; horovod.init()")
    assert (done.stdout, done.stderr) == ("", "")


@pytest.mark.long
def test_a_rank_that_has_lost_its_ring_is_woken_in_its_init(tmp_path: Path):
    script = f"""
import threading
sys.path.append({str(ROOT)!r})
from tests.unit.launcher.ranks.buffers import Buffer, Epoll, Waiter
buffers = [Buffer(), Buffer()]
before = Waiter(buffers[0])
waiters = []
told, flush = threading.Event(), sys.stderr.flush
def tell():
    flush()
    told.set()
sys.stderr.flush = tell
def connect():
    waiters.append(Waiter(buffers[1]))
    globals()["epoll"] = Epoll()
    epoll.add(*horovod.rings[0])
horovod.during = connect
horovod.init()
for number in horovod.rings[0]:
    os.close(number)
waiters[0].thread.join(20)
horovod.shutdown()
told.wait(20)  # it speaks after it has woken, and last of all flushes
print(buffers[1].error, buffers[0].error)
"""
    done = train(install(tmp_path), script)
    assert done.stdout == f"{ENDED!r} None\n", done.stderr
    assert done.stderr == "edl: this rank was in a wait that Gloo had forgotten, and is woken\n"
