"""How large a window becomes on a long way, behind a slow reader, and when the pool is empty."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given

from et_contract import frames
from et_contract.frames import Frame, ProtocolError
from launcher.broker.sessions import Session
from launcher.broker.windows import IDLE_SECONDS, LEAST_WINDOW, POOL, Windows

MIB = 1024 * 1024


class Job:
    """Some sessions of one pod, whose stream has a round trip of 40 ms."""

    def __init__(self, count: int = 1, *, round_trip: float | None = 0.04) -> None:
        self.now = 100.0
        self.sessions = {
            bytes([n % 256, n // 256]): Session(
                bytes([n % 256, n // 256]), "h", uid="uid", most_window=frames.MOST_WINDOW
            )
            for n in range(count)
        }
        self.windows = Windows(self.sessions)
        self.windows.expect(count)
        if round_trip is not None:
            self.windows.note_round_trip("uid", round_trip)
        for session in self.sessions.values():
            self.windows.open(session)

    def __getitem__(self, number: int) -> Session:
        return self.sessions[bytes([number % 256, number // 256])]

    def stream(self, session: Session, seconds: float, rate: float) -> list[Session]:
        """A reader takes `rate` bytes/s, or what the window allows in each round trip of 40 ms."""
        changed = []
        end = self.now + seconds
        while self.now < end:
            self.now += 0.04
            count = int(min(session.window, rate * 0.04))
            flow = session.flows[frames.STDOUT]
            flow.passed += count
            flow.received += count
            changed += self.windows.widen(session, self.now)
        return changed

    @property
    def granted(self) -> int:
        return sum(session.window for session in self.sessions.values())


def test_a_long_way_gets_a_large_window():
    job = Job()
    assert job[0].window == frames.WINDOW
    changed = job.stream(job[0], 0.3, 1e9)
    assert all(session is job[0] for session in changed)
    assert job[0].window == frames.MOST_WINDOW


def test_a_slow_reader_keeps_a_small_one():
    job = Job()
    assert job.stream(job[0], 60.0, 1e6) == []


def test_no_window_grows_before_the_way_is_known():
    job = Job(round_trip=None)
    assert job.stream(job[0], 1.0, 1e9) == []
    job.windows.note_round_trip("uid", 0.04)
    assert job.stream(job[0], 1.0, 1e9)
    job.windows.forget_round_trip("uid")
    assert job.stream(job[0], 1.0, 1e9) == []


def test_the_quickest_answer_counts():
    job = Job(round_trip=0.0005)
    job.windows.note_round_trip("uid", 9.0)
    assert job.stream(job[0], 1.0, 1e9) == []


def test_a_shim_that_takes_less_gets_less():
    job = Job()
    job[0].most_window = 300_000
    job.stream(job[0], 1.0, 1e9)
    assert job[0].window == 300_000


def test_a_window_stays_after_a_cut():
    job = Job()
    job.stream(job[0], 1.0, 1e9)
    assert job.windows.open(job[0]) == frames.MOST_WINDOW


def test_what_is_not_used_is_taken_back_when_others_want_it():
    job = Job(64)
    for number in range(32):
        job.stream(job[number], 0.2, 1e9)
    assert job.granted == POOL
    before = job[40].window
    job.stream(job[40], 0.2, 1e9)
    assert job[40].window == before
    job.now += IDLE_SECONDS
    changed = job.stream(job[40], 0.2, 1e9)
    assert job[40].window == frames.MOST_WINDOW
    assert job[0] in changed
    assert job[0].window == frames.WINDOW
    assert job.granted <= POOL


@pytest.mark.long
@given(st.integers(1, 3000), st.integers(0, 4000))
def test_all_windows_fit_into_the_pool_or_are_the_least(count: int, expected: int):
    sessions: dict[bytes, Session] = {}
    windows = Windows(sessions)
    windows.expect(expected)
    for number in range(min(count, 300)):
        key = number.to_bytes(2, "big")
        sessions[key] = Session(key, "h", uid="u", most_window=frames.MOST_WINDOW)
        windows.open(sessions[key])
    assert sum(s.window for s in sessions.values()) <= POOL + LEAST_WINDOW * len(sessions)
    assert min(s.window for s in sessions.values()) >= LEAST_WINDOW


def flood(session: Session, size: int) -> None:
    flow = session.flows[frames.STDOUT]
    frame = Frame(frames.DATA, session.id, frames.STDOUT, flow.passed, b"x" * size)
    flow.take(frame)


def test_too_much_is_forgiven_while_the_pool_has_room():
    job = Job(64)
    flood(job[0], frames.MOST_WINDOW)
    job.windows.check(job[0], frames.MOST_WINDOW)
    flood(job[0], 1)
    with pytest.raises(ProtocolError, match="2097153 bytes ahead"):
        job.windows.check(job[0], 1)
    for number in range(1, 31):
        flood(job[number], frames.MOST_WINDOW)
        job.windows.check(job[number], frames.MOST_WINDOW)
    for number in range(40, 50):
        flood(job[number], frames.WINDOW)
        job.windows.check(job[number], frames.WINDOW)
    flood(job[40], 1)
    with pytest.raises(ProtocolError):
        job.windows.check(job[40], 1)


class Counted(dict[bytes, Session]):
    """A table that counts how often it is gone through."""

    passes = 0

    def values(self) -> Any:
        Counted.passes += 1
        return super().values()


def test_opening_and_closing_go_through_no_table_and_give_everything_back():
    sessions = Counted()
    windows = Windows(sessions)
    Counted.passes = 0
    for number in range(1000):
        key = number.to_bytes(2, "big")
        sessions[key] = Session(key, "h", uid="u", most_window=frames.MOST_WINDOW)
        windows.open(sessions[key])
    for key in list(sessions):
        windows.close(sessions.pop(key))
        windows.close(Session(key, "h"))
    assert Counted.passes == 0
    late = Session(b"late", "h", uid="u", most_window=frames.MOST_WINDOW)
    assert windows.open(late) == frames.WINDOW


@pytest.mark.long
def test_thousands_that_want_more_than_there_is_are_not_gone_through_each_time():
    job = Job(2048)
    sessions = Counted(job.sessions)
    job.windows = Windows(sessions)
    job.windows.note_round_trip("uid", 0.04)
    for session in sessions.values():
        session.window = 0
        job.windows.open(session)
    Counted.passes = 0
    for _ in range(25):
        job.now += 0.04
        for number in range(2048):
            session = job[number]
            session.flows[frames.STDOUT].acknowledge(session.received + session.window)
            job.windows.widen(session, job.now)
    assert Counted.passes <= 3
