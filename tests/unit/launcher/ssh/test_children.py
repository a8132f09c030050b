"""Sessions that are each an ssh, and what becomes of signals that an ssh could not take along."""

from __future__ import annotations

import os
from collections.abc import Iterator

from launcher.protocol.endings import KILL_SECONDS
from launcher.ssh.children import RETRY_SECONDS, RemoteChildren
from launcher.ssh.commands import FAILED, Target

TARGET = Target("job-worker-0", "10.0.0.9", 3, "/run/id", "/keys/known_hosts")
ID = b"s" * 16
FIRST = 2**30


class Crowded(RemoteChildren):
    """Starts nothing, and refuses for as long as it is full; the pids count up from FIRST."""

    def __init__(self) -> None:
        super().__init__(TARGET, {})
        self.is_full = False
        self.asked: list[str] = []
        self.waits: list[int] = []
        self._ended: list[tuple[int, int, str]] = []
        self.key, pipes = self.start(ID, "sleep 9", {})
        for fd in pipes:
            os.close(fd)
        self.asked.clear()
        self.waits.clear()

    def end(self, pid: int, code: int) -> list[tuple[int, int, str]]:
        """An ssh has ended: what that tells of sessions."""
        self._ended.append((pid, code, "exited"))
        return list(self.reap())

    @property
    def last(self) -> int:
        """The pid of the ssh that was started last."""
        return FIRST + self._count

    _count = -1

    def _start(self, words: list[str], *, stdin: int, stdout: int, stderr: int) -> int:
        del stdin, stdout, stderr
        if self.is_full:
            raise BlockingIOError("Resource temporarily unavailable")
        self.asked.append(words[-1])
        self.waits.append(int(words[3]) if words[0] == "sh" else 0)
        self._count += 1
        return self.last

    def _reap(self) -> Iterator[tuple[int, int, str]]:
        while self._ended:
            yield self._ended.pop(0)


def request(number: int) -> str:
    return f"signal 3 {ID.hex()} {number}"


def test_signals_that_cannot_be_passed_on_now_are_later_and_in_order() -> None:
    children = Crowded()
    children.is_full = True
    children.signal(children.key, 10)
    children.signal(children.key, 15)
    assert list(children.reap()) == []
    assert children.asked == []
    children.is_full = False
    assert list(children.reap()) == []
    assert children.asked == [request(10)]
    assert children.end(children.last, 0) == []
    assert children.asked == [request(10), request(15)]
    assert children.end(children.last, 0) == []
    assert list(children.reap()) == []
    assert len(children.asked) == 2


def test_a_signal_whose_ssh_failed_is_sent_again_before_the_next_one() -> None:
    children = Crowded()
    children.signal(children.key, 15)
    children.signal(children.key, 10)
    for _ in range(3):
        assert children.end(children.last, FAILED) == []
    assert children.asked == [request(15)] * 4
    assert children.waits == [0] + [RETRY_SECONDS] * 3
    assert children.end(children.last, 0) == []
    assert children.asked[4:] == [request(10)]


def test_a_signal_that_has_nobody_left_is_not_sent_again() -> None:
    children = Crowded()
    children.signal(children.key, 15)
    assert children.end(children.last, 1) == []
    assert children.asked == [request(15)]


def test_a_session_that_has_ended_is_sent_no_signal_any_more() -> None:
    children = Crowded()
    children.signal(children.key, 15)
    assert children.end(FIRST, 143) == [(children.key, 143, "exited")]
    assert children.end(children.last, FAILED) == []
    assert children.asked == [request(15)]


def test_kill_leaves_a_term_that_came_late_its_time() -> None:
    children = Crowded()
    children.signal(children.key, 15)
    children.end(children.last, FAILED)
    children.signal(children.key, 9)
    children.end(children.last, 0)
    assert children.asked == [request(15), request(15), request(9)]
    assert children.waits[-1] == KILL_SECONDS


def test_kill_comes_at_once_after_a_term_in_time() -> None:
    children = Crowded()
    children.signal(children.key, 15)
    children.end(children.last, 0)
    children.signal(children.key, 9)
    assert children.waits == [0, 0]


def test_the_same_signal_waits_once() -> None:
    children = Crowded()
    for _ in range(100):
        children.signal(children.key, 10)
    children.end(children.last, 0)
    children.end(children.last, 0)
    assert children.asked == [request(10)] * 2


def test_a_signal_that_came_too_late_is_not_sent_to_a_session_that_has_ended():
    """Both ssh are reaped at once, that of the session first."""
    children = Crowded()
    session = children.last
    children.signal(children.key, 15)
    children._ended.append((session, 0, "exited"))
    assert children.end(children.last, FAILED) == [(children.key, 0, "exited")]
    children.asked.clear()
    assert not list(children.reap())
    assert not children.asked
